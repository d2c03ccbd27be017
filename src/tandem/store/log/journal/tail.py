"""Where the young records of one partition lie: seven integers each, in columns, and no bytes of an event."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from tandem.store.log.journal.journal import Place

__all__ = ["Tail", "TailRecord"]


class TailRecord(NamedTuple):
    """One record in the journal."""

    first_sequence_number: int
    event_count: int
    enqueued_at_ms: int
    size_bytes: int
    place: Place


class Tail:
    """Records in the order of their numbers, without gaps but for those that are lost."""

    __slots__ = ("_counts", "_file_numbers", "_firsts", "_lengths", "_positions", "_sizes", "_times", "size_bytes")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._counts = array("q")
        self._times = array("q")
        self._sizes = array("q")
        self._file_numbers = array("q")
        self._positions = array("q")
        self._lengths = array("q")
        # Of all payloads.
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._firsts)

    def __getitem__(self, index: int) -> TailRecord:
        place = Place(self._file_numbers[index], self._positions[index], self._lengths[index])
        return TailRecord(self._firsts[index], self._counts[index], self._times[index], self._sizes[index], place)

    def __iter__(self) -> Iterator[TailRecord]:
        return map(self.__getitem__, range(len(self)))

    @property
    def memory_bytes(self) -> int:
        """What the columns take."""
        return 7 * self._firsts.itemsize * len(self._firsts)

    @property
    def event_count(self) -> int:
        return self._firsts[-1] + self._counts[-1] - self._firsts[0] if self._firsts else 0

    @property
    def next_sequence_number(self) -> int:
        """The number behind the last event. There is one."""
        return self._firsts[-1] + self._counts[-1]

    @property
    def file_numbers(self) -> list[int]:
        """The file that each record lies in."""
        return self._file_numbers.tolist()

    @property
    def oldest_file_number(self) -> int:
        """The oldest file that is needed. There is a record."""
        return min(self._file_numbers)

    def size_of_first(self, count: int) -> int:
        return sum(self._sizes[:count])

    def append(
        self, first_sequence_number: int, event_count: int, enqueued_at_ms: int, size_bytes: int, place: Place
    ) -> None:
        self._firsts.append(first_sequence_number)
        self._counts.append(event_count)
        self._times.append(enqueued_at_ms)
        self._sizes.append(size_bytes)
        self._file_numbers.append(place.file_number)
        self._positions.append(place.position)
        self._lengths.append(place.length)
        self.size_bytes += size_bytes

    def index_of(self, sequence_number: int) -> int:
        """The record that holds this event, which is in the tail."""
        return bisect_right(self._firsts, sequence_number) - 1

    def count_before(self, number: int) -> int:
        """How many records end before an event, or with the one before it."""
        count = bisect_left(self._firsts, number)
        return count - 1 if count and self._firsts[count - 1] + self._counts[count - 1] > number else count

    def holds(self, first: int, end: int) -> bool:
        """Whether all events of a range are here."""
        at = bisect_right(self._firsts, first) - 1
        while at >= 0 and at < len(self._firsts) and self._firsts[at] <= first < end:
            first = max(first, self._firsts[at] + self._counts[at])
            at += 1
        return first >= end

    def within(self, first: int, end: int) -> list[TailRecord]:
        """The records that hold at least one event of a range."""
        start = max(0, self.index_of(first))
        if start < len(self) and self._firsts[start] + self._counts[start] <= first:
            start += 1
        return [self[index] for index in range(start, bisect_left(self._firsts, end))]

    def index_from_time(self, at_ms: int) -> int:
        """The first record of this time or later."""
        return bisect_left(self._times, at_ms)

    def index_within(self, size_bytes: int, event_count: int) -> int:
        """How many of the first records have as much as this, or a little more; all of them if they have less."""
        size = count = index = 0
        while index < len(self._firsts) and size < size_bytes and count < event_count:
            size += self._sizes[index]
            count += self._counts[index]
            index += 1
        return index

    def index_of_gap(self, count: int) -> int:
        """How many of the first `count` records follow each other without a gap."""
        firsts, counts = self._firsts, self._counts
        return next((at for at in range(1, count) if firsts[at - 1] + counts[at - 1] != firsts[at]), count)

    def places(self, start: int, end: int) -> tuple[bytes, bytes, bytes, bytes]:
        """First numbers, file numbers, positions and lengths of some records, as they lie in memory."""
        return (
            self._firsts[start:end].tobytes(),
            self._file_numbers[start:end].tobytes(),
            self._positions[start:end].tobytes(),
            self._lengths[start:end].tobytes(),
        )

    def move(self, first_sequence_number: int, place: Place) -> int | None:
        """A record lies in another place now. The number of the file it lay in, or None if it is not here any more."""
        index = bisect_left(self._firsts, first_sequence_number)
        if index == len(self._firsts) or self._firsts[index] != first_sequence_number:
            return None
        old = self._file_numbers[index]
        self._file_numbers[index] = place.file_number
        self._positions[index] = place.position
        self._lengths[index] = place.length
        return old

    def drop_front(self, count: int) -> list[int]:
        """Forget the first records. The numbers of the files they lay in, one for each."""
        files = self._file_numbers[:count].tolist()
        self.size_bytes -= self.size_of_first(count)
        for column in self._columns:
            del column[:count]
        return files

    def drop(self, first_numbers: set[int]) -> list[int]:
        """Forget single records. The numbers of the files they lay in, one for each."""
        files: list[int] = []
        for at in [at for at, first in enumerate(self._firsts) if first in first_numbers][::-1]:
            files.append(self._file_numbers[at])
            self.size_bytes -= self._sizes[at]
            for column in self._columns:
                del column[at]
        return files

    @property
    def _columns(self) -> tuple[array[int], ...]:
        return (
            self._firsts,
            self._counts,
            self._times,
            self._sizes,
            self._file_numbers,
            self._positions,
            self._lengths,
        )
