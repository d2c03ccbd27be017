"""One partition: its segments, its tail in the journal, and where it begins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from tandem.engine.hubs.record import EventRecord
from tandem.store.log.journal.frames import NEVER_MS, Position
from tandem.store.log.journal.journal import Place
from tandem.store.log.journal.tail import Tail
from tandem.store.log.partitions.number_ranges import NumberRanges
from tandem.store.log.segments.segment import Segment

__all__ = ["PartitionLog"]


class PartitionLog:
    """What is committed, and what it will be after the next commit. Only numbers: no event is held."""

    __slots__ = (
        "begin_sequence_number",
        "hub_number",
        "is_carrying",
        "is_sealing",
        "is_trimming",
        "last_enqueued_at_ms",
        "lost_records",
        "missing",
        "missing_columns",
        "next_appended",
        "next_sequence_number",
        "partition_id",
        "segments",
        "size_bytes",
        "tail",
    )

    def __init__(self, hub_number: int, partition_id: int) -> None:
        self.hub_number = hub_number
        self.partition_id = partition_id
        self.begin_sequence_number = 0
        self.next_sequence_number = 0
        self.last_enqueued_at_ms = NEVER_MS
        # Of all payloads that are retained.
        self.size_bytes = 0
        # Oldest first.
        self.segments: list[Segment] = []
        self.tail = Tail()
        # While the sealer is at it, the records at the front of the tail stay where they are.
        self.is_sealing = False
        # Until the next commit the records of the tail have two places, of which the old one counts.
        self.is_carrying = False
        # Until it is on disk that it begins later, no segment may begin there: it would look as if others were missing.
        self.is_trimming = False
        # The number behind those that were appended and perhaps not committed.
        self.next_appended = 0
        # Numbers of events that are gone or damaged: for readers over AMQP, and for readers of columns.
        self.missing = NumberRanges()
        self.missing_columns = NumberRanges()
        # First numbers of records of the tail that are damaged. They go when nobody works on the tail.
        self.lost_records: set[int] = set()

    def lose(self, first: int, end: int) -> None:
        """Events are gone, for all readers."""
        self.missing.add(first, end)
        self.missing_columns.add(first, end)

    def append(self, record: EventRecord, place: Place) -> None:
        """A record is on disk."""
        size_bytes = record.size_bytes
        self.tail.append(record.first_sequence_number, record.count, record.enqueued_at_ms, size_bytes, place)
        self.next_sequence_number = record.next_sequence_number
        self.last_enqueued_at_ms = max(self.last_enqueued_at_ms, record.enqueued_at_ms)
        self.size_bytes += size_bytes

    @property
    def position(self) -> Position:
        return Position(
            self.hub_number,
            self.partition_id,
            self.begin_sequence_number,
            self.next_sequence_number,
            self.last_enqueued_at_ms,
        )

    def segment_with(self, sequence_number: int) -> Segment | None:
        """The segment that holds an event, or None if it is in the tail."""
        segments = self.segments
        if not segments or sequence_number >= segments[-1].next_sequence_number:
            return None
        found = segments[bisect_right(segments, sequence_number, key=_first) - 1]
        return found if found.first_sequence_number <= sequence_number < found.next_sequence_number else None

    def segments_within(self, first: int, end: int) -> list[Segment]:
        """Those that hold at least one event of a range."""
        segments = self.segments
        start = bisect_right(segments, first, key=_next)
        return segments[start : bisect_left(segments, end, key=_first)]

    def segment_from_time(self, at_ms: int) -> Segment | None:
        """The first one with an event of this time or later."""
        index = bisect_left(self.segments, at_ms, key=_last_time)
        return self.segments[index] if index < len(self.segments) else None

    def take_segment(self, segment: Segment, record_count: int) -> list[int]:
        """The first records of the tail are a segment now. The files of the journal that each lay in."""
        # Behind all others, unless one is missing and the journal still had its events.
        insort(self.segments, segment, key=_first)
        return self.tail.drop_front(record_count)

    # --- retention ------------------------------------------------------------------------------------------

    def expired_segments(self, before_ms: int | None, above_bytes: int | None) -> int:
        """How many of the oldest segments are all too old, or too much."""
        count = 0
        size_bytes = self.size_bytes
        for segment in self.segments:
            is_old = before_ms is not None and segment.last_at_ms < before_ms
            if not is_old and (above_bytes is None or size_bytes <= above_bytes):
                break
            size_bytes -= segment.size_bytes
            count += 1
        return count

    def expired_records(self, before_ms: int | None, above_bytes: int | None) -> int:
        """How many of the first records of the tail are, once no segment is left before them."""
        if self.is_sealing:
            return 0
        # Those that stand in for a segment which is missing, and lie before one that has gone.
        count = self.tail.count_before(self.begin_sequence_number)
        if self.segments:
            return count
        if before_ms is not None:
            count = max(count, self.tail.index_from_time(before_ms))
        if above_bytes is not None and self.tail.size_bytes > above_bytes:
            # The youngest stays: a record is never too large by itself.
            excess = self.tail.index_within(self.tail.size_bytes - above_bytes, self.tail.event_count)
            count = max(count, min(excess, len(self.tail) - 1))
        return count

    def drop_segments(self, count: int) -> list[Segment]:
        dropped = self.segments[:count]
        del self.segments[:count]
        self.size_bytes -= sum(segment.size_bytes for segment in dropped)
        if dropped:
            self._begin_at(max(self.begin_sequence_number, dropped[-1].next_sequence_number))
        return dropped

    def drop_records(self, count: int) -> list[int]:
        """The files of the journal that each lay in."""
        if not count:
            return []
        last = self.tail[count - 1]
        self._begin_at(max(self.begin_sequence_number, last.first_sequence_number + last.event_count))
        self.size_bytes -= self.tail.size_bytes
        files = self.tail.drop_front(count)
        self.size_bytes += self.tail.size_bytes
        return files

    def _begin_at(self, number: int) -> None:
        self.begin_sequence_number = number
        self.missing.drop_below(number)
        self.missing_columns.drop_below(number)

    # --- damage ---------------------------------------------------------------------------------------------

    def drop_lost_records(self) -> list[int]:
        """Forget the records that are damaged. The files of the journal that each lay in."""
        if self.is_sealing or self.is_carrying:
            return []
        self.size_bytes -= self.tail.size_bytes
        files = self.tail.drop(self.lost_records)
        self.size_bytes += self.tail.size_bytes
        self.lost_records = set()
        return files


def _first(segment: Segment) -> int:
    return segment.first_sequence_number


def _next(segment: Segment) -> int:
    return segment.next_sequence_number


def _last_time(segment: Segment) -> int:
    return segment.last_at_ms
