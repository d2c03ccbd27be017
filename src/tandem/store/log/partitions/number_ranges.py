"""Ranges of sequence numbers: those of which a partition has no event, though it once had."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

__all__ = ["NumberRanges"]


class NumberRanges:
    """Disjoint ranges [first, end) in ascending order. Adjacent ones are merged."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(list(self._firsts), list(self._ends), strict=True)

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, first: int, end: int) -> bool:
        """Add a range. Return whether that adds a number."""
        if first >= end:
            return False
        start = bisect_left(self._ends, first)
        stop = bisect_right(self._firsts, end)
        if start < stop:
            if stop - start == 1 and self._firsts[start] <= first and end <= self._ends[start]:
                return False
            first = min(first, self._firsts[start])
            end = max(end, self._ends[stop - 1])
        self._firsts[start:stop] = [first]
        self._ends[start:stop] = [end]
        return True

    def next_outside(self, number: int) -> int:
        """Return the first number from this one on that is in no range."""
        at = bisect_right(self._firsts, number) - 1
        return self._ends[at] if at >= 0 and number < self._ends[at] else number

    def end_before(self, number: int, end: int) -> int:
        """Return where a range begins behind `number`, at most `end`. The number itself is in no range."""
        at = bisect_right(self._firsts, number)
        return min(end, self._firsts[at]) if at < len(self._firsts) else end

    def within(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of the ranges that lie in [first, end)."""
        start = bisect_right(self._ends, first)
        stop = bisect_left(self._firsts, end)
        return [(max(first, self._firsts[at]), min(end, self._ends[at])) for at in range(start, stop)]

    def drop_below(self, number: int) -> None:
        """Forget all numbers before this one."""
        cut = bisect_right(self._ends, number)
        del self._firsts[:cut], self._ends[:cut]
        if self._firsts and self._firsts[0] < number:
            self._firsts[0] = number
