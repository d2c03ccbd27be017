"""When something has to be looked at next: one heap for the whole namespace, so that a tick costs what is due."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from tandem.engine.message import NEVER_MS

if TYPE_CHECKING:
    from tandem.engine.subqueue import SubQueue

__all__ = ["Timers"]


class Timers:
    """Times at which sub-queues want to be woken. An entry too many wakes one in vain, and is harmless."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, SubQueue]] = []
        # Breaks ties, so that sub-queues are never compared.
        self._count = 0

    def set(self, at_ms: int, subqueue: SubQueue) -> None:
        if at_ms < NEVER_MS:
            self._count += 1
            heappush(self._heap, (at_ms, self._count, subqueue))

    def next_ms(self) -> int:
        return self._heap[0][0] if self._heap else NEVER_MS

    def take_due(self, now_ms: int) -> list[SubQueue]:
        due: dict[SubQueue, None] = {}
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due[heappop(heap)[2]] = None
        return list(due)
