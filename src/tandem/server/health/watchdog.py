"""Notices from a thread of its own that the event loop does not run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["Watchdog"]

# Seconds between two looks, at most.
_INTERVAL_S: Final = 1.0


class Watchdog:
    """Watches a counter that the event loop raises.

    `on_stalled` is called, in the thread, when the counter has stood still for `stall_s`, and `on_lost` when it has for
    `lost_s` more. Only time in which this thread itself ran counts: a process that was stopped, or whose machine slept,
    was not blocked.
    """

    def __init__(
        self,
        beat_count: Callable[[], int],
        stall_s: float,
        lost_s: float,
        on_stalled: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._beat_count = beat_count
        self._stall_s = stall_s
        self._lost_s = lost_s
        self._on_stalled = on_stalled
        self._on_lost = on_lost
        self._interval_s = min(_INTERVAL_S, stall_s / 4)
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        blocked_s = 0.0
        is_told = False
        beat_count = self._beat_count()
        looked_at_s = time.monotonic()
        while not self._is_stopped.wait(self._interval_s):
            now_s = time.monotonic()
            elapsed_s = min(now_s - looked_at_s, 2 * self._interval_s)
            looked_at_s = now_s
            if self._beat_count() != beat_count:
                beat_count = self._beat_count()
                blocked_s = 0.0
                is_told = False
                continue
            blocked_s += elapsed_s
            if blocked_s >= self._stall_s and not is_told:
                is_told = True
                self._on_stalled()
            if blocked_s >= self._stall_s + self._lost_s:
                self._on_lost()
                return
