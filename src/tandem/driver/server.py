"""Listening for AMQP connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tandem.amqp import Settings
from tandem.amqp.connection import Role
from tandem.driver.endpoint import Application, Endpoint
from tandem.errors import ConnectionForced

__all__ = ["Server"]

# Seconds. How long a peer may take to answer our close before its transport is dropped.
CLOSE_GRACE_S = 2.0


class Server:
    """Accepts connections and gives each an application."""

    def __init__(self, settings: Settings, application: Callable[[], Application]) -> None:
        self._settings = settings
        self._application = application
        self._listener: asyncio.Server | None = None
        self._endpoints: set[Endpoint] = set()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen. Port 0 takes a free one; `port` tells which."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._make_endpoint, host, port)

    @property
    def port(self) -> int:
        assert self._listener is not None
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    @property
    def endpoints(self) -> frozenset[Endpoint]:
        """The connections alive now."""
        return frozenset(self._endpoints)

    def _make_endpoint(self) -> Endpoint:
        endpoint = Endpoint(Role.SERVER, self._settings, self._application())
        self._endpoints.add(endpoint)
        endpoint.lost.add_done_callback(lambda _: self._endpoints.discard(endpoint))
        return endpoint

    async def close(self) -> None:
        """Stop listening, tell every peer, and wait a moment for their answers."""
        assert self._listener is not None
        self._listener.close()
        endpoints = list(self._endpoints)
        for endpoint in endpoints:
            if endpoint.connection.is_open:
                endpoint.connection.close(ConnectionForced("the server is shutting down"))
                endpoint.flush()
            else:
                endpoint.abort()
        if endpoints:
            await asyncio.wait([endpoint.lost for endpoint in endpoints], timeout=CLOSE_GRACE_S)
        for endpoint in list(self._endpoints):
            endpoint.abort()
            await endpoint.lost
        await self._listener.wait_closed()
