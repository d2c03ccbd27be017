"""Listening for AMQP connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tandem.amqp import Settings
from tandem.amqp.connection import Role
from tandem.driver.endpoint import Application, Endpoint, close_endpoints
from tandem.errors import ConnectionForced

__all__ = ["Server"]


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
        await close_endpoints(self._endpoints, ConnectionForced("the server is shutting down"))
        await self._listener.wait_closed()
