"""Operations that a fault holds up: they go on later, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from tandem.engine.message import NEVER_MS
from tandem.limits import MAX_STALLED_OPERATIONS
from tandem.server.faults.fault import Fault

__all__ = ["Stalls"]


class Stalls:
    """What goes on when."""

    def __init__(self) -> None:
        # The number breaks ties, so that the order is that of arrival.
        self._heap: list[tuple[int, int, Fault, Callable[[], None]]] = []
        self._number = 0

    @property
    def is_full(self) -> bool:
        return len(self._heap) >= MAX_STALLED_OPERATIONS

    def add(self, at_ms: int, fault: Fault, again: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._heap, (at_ms, self._number, fault, again))

    def next_ms(self) -> int:
        return self._heap[0][0] if self._heap else NEVER_MS

    def take_due(self, now_ms: int) -> list[Callable[[], None]]:
        due: list[Callable[[], None]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heappop(self._heap)[3])
        return due

    def take_of(self, fault: Fault) -> list[Callable[[], None]]:
        """Those that wait because of a fault that is over."""
        entries = sorted(self._heap, key=lambda entry: entry[:2])
        self._heap = [entry for entry in entries if entry[2] is not fault]
        return [entry[3] for entry in entries if entry[2] is fault]
