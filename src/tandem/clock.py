"""The time, handed in wherever it is needed, so that tests can move it."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Where the present time comes from."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC."""


class SystemClock:
    """The machine's clock as it was at the start, going on steadily: setting the clock while the broker runs neither
    ends locks too soon nor keeps them too long."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (self._offset_ns + time.monotonic_ns()) // 1_000_000
