"""AMQP inside a WebSocket: the payloads of binary messages, one after the other, are the stream of bytes.

Where one message ends and the next begins means nothing: a frame may be split over several, and several frames may
share one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from aiohttp import ClientError, WSCloseCode, WSMsgType, hdrs, web

from tandem.driver.endpoint import Endpoint, close_endpoints
from tandem.errors import ConnectionForced
from tandem.limits import MAX_OUTGOING_WEBSOCKET_BYTES, MAX_WEBSOCKET_MESSAGE_BYTES
from tandem.server.http_connection import HttpTransport, hear

__all__ = ["WebSocketTransport", "add_websocket_route", "websocket_endpoints"]

PATH: Final = "/$servicebus/websocket"
SUBPROTOCOL: Final = "AMQPWSB10"

# Names for AMQP as a subprotocol: that of the service first, then the registered one, which the SDKs of Go and .NET
# offer. Both mean the same stream of bytes.
SUBPROTOCOLS: Final = (SUBPROTOCOL, "amqp")

# Bytes. Where nobody says otherwise, a transport with more than this to write is congested (as in asyncio's own).
DEFAULT_WRITE_BUFFER_HIGH_BYTES: Final = 65_536

# Messages that are taken before other connections have their turn on the loop.
MESSAGES_PER_TURN: Final = 16

# Seconds. How long a peer may take to answer our closing handshake before the connection is dropped.
CLOSING_TIMEOUT_S: Final = 2.0


# Where an application keeps its endpoints, for whoever has to close them.
_ENDPOINTS: Final = web.AppKey("websocket_endpoints", set[Endpoint])


def websocket_endpoints(app: web.Application) -> frozenset[Endpoint]:
    """The AMQP connections inside WebSockets alive now.

    Close them before the application's runner is cleaned up: it stops listening to its peers before it tells anybody
    of the end, so that they cannot answer a close any more.
    """
    return frozenset(app.get(_ENDPOINTS, ()))


def add_websocket_route(app: web.Application, make_endpoint: Callable[[], Endpoint]) -> None:
    """Serve AMQP on `/$servicebus/websocket`."""
    endpoints: set[Endpoint] = set()
    app[_ENDPOINTS] = endpoints

    async def serve(request: web.Request) -> web.StreamResponse:
        if not set(SUBPROTOCOLS) & set(_offered_subprotocols(request)):
            raise web.HTTPBadRequest(text=f"The WebSocket must offer the subprotocol {' or '.join(SUBPROTOCOLS)}.")
        # AMQP has its own heartbeats, and messages are mostly compressed or encrypted by whoever cares.
        response = web.WebSocketResponse(
            timeout=CLOSING_TIMEOUT_S,
            protocols=SUBPROTOCOLS,
            compress=False,
            # aiohttp would answer any number of pings before anybody else has a turn.
            autoping=False,
            max_msg_size=MAX_WEBSOCKET_MESSAGE_BYTES,
        )
        await response.prepare(request)
        endpoint = make_endpoint()
        endpoints.add(endpoint)
        if isinstance(request.transport, HttpTransport):
            request.transport.connection.tunnelled = endpoint
        try:
            await WebSocketTransport(response, request.transport, endpoint).run()
        finally:
            endpoints.discard(endpoint)
        return response

    async def shut_down(_app: web.Application) -> None:
        await close_endpoints(endpoints, ConnectionForced("the server is shutting down"))

    # The SDK of .NET ends the path with a slash.
    for path in (PATH, f"{PATH}/"):
        app.router.add_get(path, serve, allow_head=False)
    # Connections accepted while the others were being closed.
    app.on_shutdown.append(shut_down)


def _offered_subprotocols(request: web.Request) -> list[str]:
    offered = ",".join(request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ()))
    return [subprotocol.strip() for subprotocol in offered.split(",")]


class WebSocketTransport(asyncio.Transport):
    """What an endpoint takes for a socket.

    The request's own task reads; a task that lives only while there is something to write writes. Both ends push back:
    while reading is paused no message is taken, so that aiohttp stops reading from the socket; and while the socket
    takes no more, what is written piles up here and is told to the endpoint as congestion.
    """

    def __init__(
        self, response: web.WebSocketResponse, underlying: asyncio.Transport | None, endpoint: asyncio.Protocol
    ) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._response = response
        self._underlying = underlying
        self._protocol: asyncio.Protocol = endpoint
        self._buffer = bytearray()
        self._high = DEFAULT_WRITE_BUFFER_HIGH_BYTES
        self._low = self._high // 4
        self._writer: asyncio.Task[None] | None = None
        self._resumption: asyncio.Future[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._close_code: int | None = None
        self._is_closing = False
        self._is_congested = False
        self._is_over = False

    async def run(self) -> None:
        """Be the connection, from its beginning to its end."""
        self._protocol.connection_made(self)
        try:
            await self._read()
        finally:
            self._is_closing = self._is_over = True
            self._protocol.connection_lost(None)
            if self._writer is not None:
                self._drop_soon()
                await self._writer
            if self._deadline is not None:
                self._deadline.cancel()

    async def _read(self) -> None:
        message_count = 0
        while True:
            if self._resumption is not None:
                await self._resumption
            if self._is_over:
                return
            message = await self._response.receive()
            hear(self._underlying)
            message_count += 1
            if message_count % MESSAGES_PER_TURN == 0:
                # While messages are there to be taken nothing above waits for anything, and nobody else has a turn.
                await asyncio.sleep(0)
            if message.type is WSMsgType.BINARY:
                if not self._is_closing:
                    self._protocol.data_received(message.data)
            elif message.type is WSMsgType.PING:
                await self._answer_ping(message.data)
            elif message.type is WSMsgType.PONG:
                continue
            elif message.type is WSMsgType.TEXT:
                self._close(WSCloseCode.UNSUPPORTED_DATA)
            else:
                return

    async def _answer_ping(self, data: bytes) -> None:
        # If the connection is lost the reader learns of it next.
        with contextlib.suppress(OSError, ClientError):
            await self._response.pong(data)

    async def _write(self) -> None:
        """Write until nothing is left. Everything written in one turn of the loop is there when this starts."""
        try:
            while self._buffer:
                chunk = bytes(self._buffer[:MAX_OUTGOING_WEBSOCKET_BYTES])
                del self._buffer[:MAX_OUTGOING_WEBSOCKET_BYTES]
                await self._response.send_bytes(chunk)
                self._tell_relief()
            if self._close_code is not None:
                await self._response.close(code=self._close_code)
        except (OSError, ClientError):
            # The connection is lost, and the reader learns of it too.
            self._buffer.clear()
            self._is_closing = True
        finally:
            self._writer = None
            if self._is_closing or self._close_code is not None:
                self._end_reading()

    def _write_soon(self) -> None:
        if self._writer is None and not self._is_over:
            self._writer = self._loop.create_task(self._write())

    def _end_reading(self) -> None:
        """A reader that waits for leave to go on has nothing to wait for any more."""
        self._is_over = True
        self.resume_reading()

    # --- writing --------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._close_code is not None:
            return
        self._buffer += data
        self._write_soon()
        if not self._is_congested and len(self._buffer) > self._high:
            self._is_congested = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def _tell_relief(self) -> None:
        if self._is_congested and len(self._buffer) <= self._low:
            self._is_congested = False
            self._loop.call_soon(self._protocol.resume_writing)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = DEFAULT_WRITE_BUFFER_HIGH_BYTES if low is None else 4 * low
        self._high = high
        self._low = high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """A close frame says that nothing follows, behind everything written before; the peer answers with its own."""
        if self._close_code is None:
            self._close_code = WSCloseCode.OK
            self._write_soon()
            self._drop_soon()

    # --- reading --------------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        return self._resumption is None and not self._is_closing

    def pause_reading(self) -> None:
        if self._resumption is None and not self._is_closing:
            self._resumption = self._loop.create_future()

    def resume_reading(self) -> None:
        if self._resumption is not None:
            self._resumption.set_result(None)
            self._resumption = None

    # --- the end --------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Write what is left, then close in order."""
        self._close(WSCloseCode.OK)

    def _close(self, code: int) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self._close_code is None:
            self._close_code = code
        self._write_soon()
        self._drop_soon()

    def _drop_soon(self) -> None:
        """A peer that does not read holds up a closing handshake only so long."""
        if self._deadline is None:
            self._deadline = self._loop.call_later(CLOSING_TIMEOUT_S, self.abort)

    def abort(self) -> None:
        """Drop the connection at once."""
        self._is_closing = True
        self._buffer.clear()
        if self._underlying is not None:
            self._underlying.abort()
        self._end_reading()

    # --- what it is -----------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._underlying is None else self._underlying.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol
