"""One connection that speaks HTTP, around aiohttp's own protocol: its pace, and how long a stranger may keep it.

aiohttp takes apart whatever one read brings before it handles any of it. So it is given a little at a time, and other
connections have their turn in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from tandem.driver.turns import Allowance
from tandem.limits import MAX_STRANGER_MESSAGE_BYTES, STRANGER_BURST_REQUESTS, STRANGER_REQUESTS_PER_SECOND

if TYPE_CHECKING:
    from tandem.driver.endpoint import Endpoint

__all__ = ["HttpConnection", "HttpTransport", "hear", "trust", "wait_of_request_s"]

# Bytes. What aiohttp is given in one turn of the loop: some hundred of the smallest requests or WebSocket messages.
# A request of 1 MiB takes 64 turns then, of some ten microseconds each where nothing else is to be done.
PIECE_BYTES: Final = 16_384


class HttpConnection(asyncio.Protocol):
    """Passes everything on, to learn when the connection is gone and to choose when input is handled."""

    def __init__(
        self, handler: asyncio.Protocol, on_lost: Callable[[HttpConnection], None], stranger_timeout_s: float
    ) -> None:
        self._handler = handler
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._stranger_timeout_s = stranger_timeout_s
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        # Input that the handler was not given yet, and where it starts.
        self._left = b""
        self._left_at = 0
        self._is_turn_scheduled = False
        self._is_handler_reading = True
        self._is_trusted = False
        self._allowance = Allowance(STRANGER_BURST_REQUESTS, STRANGER_REQUESTS_PER_SECOND, self._loop.time())
        # AMQP inside a WebSocket, which has to prove who it is by itself.
        self.tunnelled: Endpoint | None = None
        # Input since the last message of the WebSocket, all of which aiohttp may hold.
        self._unheard_bytes = 0

    # --- who it is ------------------------------------------------------------------------------------------

    @property
    def is_stranger(self) -> bool:
        """No request had a valid token, nor has the AMQP inside proved anything."""
        return not self._is_trusted if self.tunnelled is None else self.tunnelled.is_stranger

    def trust(self) -> None:
        """A request had a valid token."""
        self._is_trusted = True
        if self._timer is not None:
            self._timer.cancel()

    def hear(self) -> None:
        """A message of the WebSocket was whole, and is taken."""
        self._unheard_bytes = 0

    @property
    def _is_too_much(self) -> bool:
        """A stranger has sent more than any message that is taken from it before it has proved something."""
        endpoint = self.tunnelled
        return endpoint is not None and endpoint.is_stranger and self._unheard_bytes > MAX_STRANGER_MESSAGE_BYTES

    def wait_of_request_s(self) -> float:
        """Count a request. Return for how long it has to wait, as those of a stranger do who sends many."""
        if self._is_trusted:
            return 0.0
        self._allowance.spend(1, self._loop.time())
        return self._allowance.wait_s()

    def _judge(self) -> None:
        """Hang up on a stranger. A WebSocket is left to the endpoint inside, which has as much time."""
        transport = self._transport
        if transport is None or self._is_trusted or self.tunnelled is not None:
            return
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but ancestry.
        self._transport = cast("asyncio.Transport", transport)
        self._timer = self._loop.call_later(self._stranger_timeout_s, self._judge)
        self._handler.connection_made(HttpTransport(self, self._transport))

    def data_received(self, data: bytes) -> None:
        left = self._left
        self._left = left[self._left_at :] + data if left else data
        self._left_at = 0
        if not self._is_turn_scheduled:
            self._feed()

    def _feed(self) -> None:
        """Give the handler some of the input, and the rest in later turns."""
        start = self._left_at
        piece = self._left[start : start + PIECE_BYTES]
        self._left_at = start + len(piece)
        if self._left_at >= len(self._left):
            self._left = b""
            self._left_at = 0
        self._unheard_bytes += len(piece)
        if self._is_too_much:
            self.abort()
            return
        self._choose_reading()
        self._handler.data_received(piece)

    def _take_turn(self) -> None:
        self._is_turn_scheduled = False
        transport = self._transport
        if transport is None or transport.is_closing():
            self._left = b""
        elif self._left and self._is_handler_reading:
            self._feed()
        else:
            self._choose_reading()

    def choose_reading(self, *, is_handler_reading: bool) -> None:
        """The handler wants more input, or none for now."""
        self._is_handler_reading = is_handler_reading
        self._choose_reading()

    def _choose_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._left or not self._is_handler_reading:
            transport.pause_reading()
        else:
            transport.resume_reading()
        if self._left and self._is_handler_reading and not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            self._loop.call_soon(self._take_turn)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._on_lost(self)
        self._handler.connection_lost(exc)


class HttpTransport(asyncio.Transport):
    """What aiohttp takes for the socket. It does not choose alone when to read."""

    def __init__(self, connection: HttpConnection, transport: asyncio.Transport) -> None:
        super().__init__()
        self.connection = connection
        self._transport = transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        self.connection.choose_reading(is_handler_reading=False)

    def resume_reading(self) -> None:
        self.connection.choose_reading(is_handler_reading=True)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._transport.get_write_buffer_limits()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._transport.writelines(list_of_data)

    def write_eof(self) -> None:
        self._transport.write_eof()

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()


def wait_of_request_s(transport: asyncio.Transport) -> float:
    """Return for how long a request that came on this transport has to wait."""
    return transport.connection.wait_of_request_s() if isinstance(transport, HttpTransport) else 0.0


def hear(transport: asyncio.Transport | None) -> None:
    """Note that a message of the WebSocket on this transport was whole."""
    if isinstance(transport, HttpTransport):
        transport.connection.hear()


def trust(transport: asyncio.Transport | None) -> None:
    """Note that a request on this transport had a valid token."""
    if isinstance(transport, HttpTransport):
        transport.connection.trust()
