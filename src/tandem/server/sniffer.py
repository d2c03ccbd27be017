"""What does a new connection speak? Its first bytes tell: TLS, AMQP or HTTP."""

from __future__ import annotations

import asyncio
import enum
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from tandem.limits import MAX_HTTP_HEAD_BYTES

__all__ = ["Arrival", "Handshakes", "Speech", "recognise"]

# The first byte of a TLS handshake record (RFC 8446 5.1). Neither AMQP nor HTTP begins with it.
TLS_HANDSHAKE: Final = 0x16

AMQP: Final = b"AMQP"

# TLS handshakes that are started in one turn of the loop.
HANDSHAKES_PER_TURN: Final = 4

# Seconds. How long a TLS peer may take to answer our close before its transport is dropped.
TLS_SHUTDOWN_S: Final = 2.0


class Speech(enum.Enum):
    """What a stream turned out to be."""

    AMQP = "amqp"
    HTTP = "http"
    UNKNOWN = "unknown"


def recognise(said: bytes) -> Speech | None:
    """Judge what was said so far; None asks for more.

    HTTP is recognised by a whole head and not earlier, because aiohttp waits for the rest of one without a limit
    worth its name.
    """
    if said.startswith(AMQP):
        return Speech.AMQP
    if AMQP.startswith(said):
        return None
    # Every method of HTTP that is in use is written in capitals.
    if not ord("A") <= said[0] <= ord("Z"):
        return Speech.UNKNOWN
    if b"\r\n\r\n" in said:
        return Speech.HTTP
    return None if len(said) < MAX_HTTP_HEAD_BYTES else Speech.UNKNOWN


class Handshakes:
    """Starts TLS handshakes, a few in each turn of the loop: each takes about a millisecond, and a crowd that comes at
    once would keep everybody else waiting for all of them."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque()

    def start_soon(self, start: Callable[[], None]) -> None:
        self._waiting.append(start)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._start_some)

    def _start_some(self) -> None:
        for _ in range(min(HANDSHAKES_PER_TURN, len(self._waiting))):
            # It counts as waiting until it is started, so that it asks for no second call.
            self._waiting[0]()
            self._waiting.popleft()
        if self._waiting:
            self._loop.call_soon(self._start_some)


class Arrival(asyncio.Protocol):
    """A connection from its acceptance until what it speaks is known, or until it is hung up on.

    The socket goes through three hands, and exactly one holds it: at first we do (`_socket`), to look at the first byte
    without taking it, since a TLS handshake has to be read from its beginning by the loop's own transport; then the
    task that makes the transport (`_task`); then the transport (`_transport`), which the protocol that is chosen takes
    over together with everything said so far.
    """

    __slots__ = (
        "_choose",
        "_handshakes",
        "_is_tls_only",
        "_loop",
        "_on_ended",
        "_said",
        "_socket",
        "_task",
        "_timer",
        "_tls",
        "_transport",
        "arrived_at",
    )

    def __init__(
        self,
        connection: socket.socket,
        tls: ssl.SSLContext | None,
        choose: Callable[[Speech], asyncio.Protocol | None],
        on_ended: Callable[[Arrival], None],
        timeout_s: float,
        handshakes: Handshakes,
        *,
        is_tls_only: bool = False,
    ) -> None:
        """`choose` makes the protocol that takes over, or None to hang up. `on_ended` is told once, either way."""
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = connection
        self._tls = tls
        self._is_tls_only = is_tls_only
        self._choose = choose
        self._handshakes = handshakes
        self._on_ended: Callable[[Arrival], None] | None = on_ended
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._said = b""
        self.arrived_at = self._loop.time()
        # One deadline over everything, so that a peer gains nothing by being slow in several ways.
        self._timer = self._loop.call_later(timeout_s, self.abort)

    def look(self) -> None:
        """Look at the first byte, or wait until there is one."""
        connection = self._socket
        assert connection is not None
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            self._loop.add_reader(connection, self._look_again)
            return
        except OSError:
            self.abort()
            return
        is_tls = first == bytes([TLS_HANDSHAKE])
        if not first or (self._tls is None if is_tls else self._is_tls_only):
            self.abort()
            return
        if is_tls:
            self._handshakes.start_soon(self._start)
        else:
            self._start(is_tls=False)

    def _start(self, *, is_tls: bool = True) -> None:
        if self._socket is not None:
            self._task = self._loop.create_task(self._make_transport(self._tls if is_tls else None))

    def _look_again(self) -> None:
        assert self._socket is not None
        self._loop.remove_reader(self._socket)
        self.look()

    async def _make_transport(self, tls: ssl.SSLContext | None) -> None:
        connection, self._socket = self._socket, None
        assert connection is not None
        try:
            # The handshake has no time-out of its own: our timer cancels this task.
            await self._loop.connect_accepted_socket(
                lambda: self,
                connection,
                ssl=tls,
                ssl_shutdown_timeout=None if tls is None else TLS_SHUTDOWN_S,
            )
        except OSError:
            # The peer hung up, or what it said is no TLS that we speak. It knows; there is nobody else to tell.
            pass
        finally:
            if self._transport is None:
                self._end()

    @property
    def is_stranger(self) -> bool:
        return True

    def abort(self) -> None:
        """Hang up at once."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            if self._task is not None:
                self._task.cancel()
            self._socket.close()
            self._end()
        elif self._transport is not None:
            self._transport.abort()
        elif self._task is not None:
            self._task.cancel()

    def _end(self) -> None:
        self._timer.cancel()
        if self._on_ended is not None:
            self._on_ended(self)
            self._on_ended = None

    # --- asyncio.Protocol, until another one takes over -----------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but ancestry.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        assert transport is not None
        self._said += data
        speech = recognise(self._said)
        if speech is None or transport.is_closing():
            return
        protocol = None if speech is Speech.UNKNOWN else self._choose(speech)
        if protocol is None:
            self.abort()
            return
        self._end()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(self._said)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
