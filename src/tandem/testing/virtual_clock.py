"""A clock that a test can move forward, so that nobody has to wait for a lock to end."""

from __future__ import annotations

from tandem.clock import SystemClock

__all__ = ["VirtualClock"]


class VirtualClock:
    """The machine's clock, and what was added to it. It goes on by itself too: clients wait in real time."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return self._system.now_ms() + self.ahead_ms
