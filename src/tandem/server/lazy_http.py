"""HTTP on the ports of a broker, loaded with the first connection that speaks it.

aiohttp and the handlers behind it take 0.14 s of CPU to import, more than a third of a start, and a fifth of an idle
broker's memory. A broker that clients only speak AMQP to does without them. They are imported in a thread: connections
that speak AMQP go on meanwhile, and those that speak HTTP wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["LazyHttp"]

logger = logging.getLogger(__name__)


class LazyHttp:
    """Stands for the runner of an HTTP application. `load` makes the runner, set up and ready to serve."""

    def __init__(self, load: Callable[[], Awaitable[web.AppRunner]]) -> None:
        self._load = load
        self._loading: asyncio.Task[None] | None = None
        self._runner: web.AppRunner | None = None
        self._waiting: set[_WaitingConnection] = set()

    @property
    def app(self) -> web.Application | None:
        """The application, once it is loaded."""
        return None if self._runner is None else self._runner.app

    def server(self) -> asyncio.Protocol:
        """Return a protocol for one more connection, which waits until the application is loaded."""
        if self._runner is not None:
            return _handler(self._runner)
        connection = _WaitingConnection(self._waiting.discard)
        self._waiting.add(connection)
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_for_waiting())
        return connection

    async def load(self) -> None:
        """Load the application now."""
        self._runner = await self._load()

    async def _load_for_waiting(self) -> None:
        try:
            await self.load()
        except Exception:
            # Connections that speak AMQP are served on, and the next request tries again.
            logger.exception("HTTP cannot be served")
        self._loading = None
        waiting, self._waiting = self._waiting, set()
        for connection in waiting:
            if self._runner is None:
                connection.give_up()
            else:
                connection.begin(_handler(self._runner))

    async def cleanup(self) -> None:
        """Close every HTTP connection. What is being loaded is waited for: a thread cannot be stopped."""
        if self._loading is not None:
            await self._loading
        if self._runner is not None:
            await self._runner.cleanup()


def _handler(runner: web.AppRunner) -> asyncio.Protocol:
    server = runner.server
    assert server is not None, "the runner is cleaned up after its listeners are closed"
    return server()


class _WaitingConnection(asyncio.Protocol):
    """Keeps what a client has said until there is a handler, and passes everything to the handler from then on."""

    def __init__(self, on_lost: Callable[[_WaitingConnection], None]) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._handler: asyncio.Protocol | None = None
        self._said = b""

    def begin(self, handler: asyncio.Protocol) -> None:
        transport = self._transport
        assert transport is not None
        self._handler = handler
        handler.connection_made(transport)
        handler.data_received(self._said)
        self._said = b""
        transport.resume_reading()

    def give_up(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    # --- asyncio.Protocol -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but ancestry.
        self._transport = cast("asyncio.Transport", transport)
        # What comes later stays in the kernel, the end of the stream too.
        self._transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if self._handler is None:
            self._said += data
        else:
            self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._handler is None else self._handler.eof_received()

    def pause_writing(self) -> None:
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self._handler is not None:
            self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._handler is None:
            self._on_lost(self)
        else:
            self._handler.connection_lost(exc)
