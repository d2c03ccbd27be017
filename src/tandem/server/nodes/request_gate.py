"""How many requests of one connection are under way: as many as have room for their answers.

    arrived   waits, undecoded                              its bytes are held: past a bound nothing more is read
    started   decoded, given to the engine                  room for its answer is reserved
    answered  waits for credit, then is written             its room is free when the link has sent it

Without this, one read of 256 KB could hold a thousand requests to browse, each with an answer of megabytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tandem.limits import MAX_ANSWER_BYTES

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["RequestGate", "Room"]


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
        self._is_going_on = False

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
        if self._is_going_on:
            return
        self._is_going_on = True
        endpoint = self._peer.endpoint
        try:
            while self._waiting and self.running_bytes < MAX_ANSWER_BYTES and not endpoint.is_backlogged:
                self._waiting.popleft()()
        finally:
            self._is_going_on = False
        if self._waiting and endpoint.is_backlogged:
            endpoint.await_writable()

    def clear(self) -> None:
        """The connection is over."""
        self._waiting.clear()
