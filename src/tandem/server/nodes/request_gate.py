"""How many requests of one connection are under way: as many as have room for their answers.

    arrived   waits, undecoded                              its bytes are held: past a bound nothing more is read
    started   decoded, given to the engine                  room for its answer is reserved
    answered  waits for credit, then is written             its room is free when the link has sent it

Without this, one read of 256 KB could hold a thousand requests to browse, each with an answer of megabytes. Those that
have waited start a few in each turn of the event loop: thousands may wait for a client that does not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tandem.limits import MAX_ANSWER_BYTES

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["RequestGate", "Room"]

# Requests that start before others have their turn on the event loop; as many as one slice of input could bring.
_REQUESTS_PER_TURN: Final = 16


class Room:
    """What one request holds: its own bytes, and room for its answer."""

    __slots__ = ("_answer_bytes", "_gate", "_request_bytes")

    def __init__(self, gate: RequestGate, request_bytes: int) -> None:
        self._gate = gate
        self._request_bytes = request_bytes
        self._answer_bytes = 0
        gate.hold(request_bytes)

    def hold(self, size_bytes: int) -> None:
        """Hold so many bytes more until the answer is sent."""
        self._request_bytes += size_bytes
        self._gate.hold(size_bytes)

    def reserve(self, answer_bytes: int) -> None:
        """Reserve room for an answer of this size."""
        self._answer_bytes += answer_bytes
        self._gate.running_bytes += answer_bytes

    def leave(self) -> None:
        """The answer is sent, or nobody waits for it. Leaving twice does nothing."""
        self._gate.hold(-self._request_bytes)
        self._gate.running_bytes -= self._answer_bytes
        self._request_bytes = self._answer_bytes = 0
        self._gate.go_on()
        self._gate.read_on()


class RequestGate:
    """The requests of one connection."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.running_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()
        # Requests are being started, or will be in the next turn of the loop.
        self._is_going_on = False
        self._next_turn: asyncio.Handle | None = None

    def hold(self, size_bytes: int) -> None:
        self._peer.endpoint.connection.hold(size_bytes)

    def read_on(self) -> None:
        """Let the driver judge again whether it reads from the client."""
        self._peer.endpoint.flush_soon()

    def submit(self, start: Callable[[], None]) -> None:
        """Start a request as soon as there is room for its answer. They start in the order in which they came."""
        self._waiting.append(start)
        self.go_on()

    def go_on(self) -> None:
        """Start what there is room for. A request that is answered at once calls this again, to no effect."""
        if self._is_going_on or self._next_turn is not None:
            return
        self._is_going_on = True
        try:
            for _ in range(_REQUESTS_PER_TURN):
                if not self._can_start:
                    break
                self._waiting.popleft()()
        finally:
            self._is_going_on = False
        if self._can_start:
            self._next_turn = asyncio.get_running_loop().call_soon(self._take_turn)
        elif self._waiting and self._peer.endpoint.is_backlogged:
            self._peer.endpoint.await_writable()

    @property
    def _can_start(self) -> bool:
        """A request waits, and there is room for its answer."""
        has_room = self.running_bytes < MAX_ANSWER_BYTES and not self._peer.endpoint.is_backlogged
        return bool(self._waiting) and has_room

    def _take_turn(self) -> None:
        self._next_turn = None
        self._peer.turn(self.go_on)

    def clear(self) -> None:
        """The connection is over."""
        self._waiting.clear()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
