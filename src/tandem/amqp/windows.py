"""Session windows (AMQP 1.0 part 2.5.6), and the serial numbers (RFC 1982, 32 bits) that they count in."""

from __future__ import annotations

from typing import Final

from tandem.errors import WindowViolation

__all__ = ["IncomingWindow", "OutgoingWindow", "add", "distance", "is_ahead"]

_MASK: Final = 0xFFFF_FFFF
_HALF: Final = 0x8000_0000


def add(number: int, steps: int) -> int:
    """`number` advanced by `steps`, wrapping at 2^32."""
    return (number + steps) & _MASK


def distance(ahead: int, behind: int) -> int:
    """How many steps lead from `behind` to `ahead`."""
    return (ahead - behind) & _MASK


def is_ahead(number: int, other: int) -> bool:
    """True where `number` comes after `other`: less than half the circle away."""
    return 0 < distance(number, other) < _HALF


class IncomingWindow:
    """How many transfers the peer may send us before it hears from us again."""

    __slots__ = ("is_low", "low_mark", "next_incoming_id", "size", "window")

    def __init__(self, size: int) -> None:
        self.size = size
        self.window = size
        self.next_incoming_id = 0
        # Half used: time to tell the peer that it may go on, before it has to wait.
        self.low_mark = size // 2
        self.is_low = False

    def on_transfer(self) -> None:
        """Count one transfer. Its number is not compared with ours: the official Python SDK counts deliveries."""
        if self.window <= 0:
            raise WindowViolation(f"more than {self.size} transfers came while the session's incoming window was shut")
        self.window -= 1
        self.next_incoming_id = (self.next_incoming_id + 1) & _MASK
        if self.window <= self.low_mark:
            self.is_low = True

    def reopen(self) -> None:
        self.window = self.size
        self.is_low = False


class OutgoingWindow:
    """How many transfers we may send before the peer has to speak again."""

    __slots__ = ("initial_outgoing_id", "next_outgoing_id", "remote_window")

    def __init__(self, next_outgoing_id: int) -> None:
        self.initial_outgoing_id = next_outgoing_id
        self.next_outgoing_id = next_outgoing_id
        self.remote_window = 0

    def on_flow(self, next_incoming_id: int | None, incoming_window: int) -> None:
        """Take the peer's view: it takes `incoming_window` transfers counted from the next one it expects.

        A peer that has not seen our begin leaves the number out: it then means our first (part 2.7.4).
        """
        expected = self.initial_outgoing_id if next_incoming_id is None else next_incoming_id
        under_way = distance(self.next_outgoing_id, expected)
        if is_ahead(expected, self.next_outgoing_id):
            under_way = 0
        self.remote_window = max(0, incoming_window - under_way)

    def on_transfer(self) -> None:
        self.remote_window -= 1
        self.next_outgoing_id = (self.next_outgoing_id + 1) & _MASK
