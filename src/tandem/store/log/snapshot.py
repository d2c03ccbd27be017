"""A range of events as an Arrow IPC stream. What is sealed is passed on as it lies; only the young tail is converted.

A snapshot is taken on the event loop, which costs a look into the index, and streamed in another thread. The files it
needs stay until it is closed, whatever retention does meanwhile.

Record batches are verified before they are passed on. A stream leaves out the events that were known to be missing
when it was taken. It fails with EventsDamaged when it meets more of them: who asks again learns of them beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord
from tandem.store.log.damage_log import DamageLog, EventsDamaged
from tandem.store.log.journal.journal import Place
from tandem.store.log.journal.tail import TailRecord
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.partitions.number_ranges import NumberRanges
from tandem.store.log.segments.segment import Segment, Verified

__all__ = ["Messages", "RangeSnapshot", "StoredRange", "events_within"]

# Record batches from one number on, up to another, as messages of Arrow: of the public columns, or of heads.
Messages = Callable[[int, int], Iterator[bytes]]


class RangeSnapshot:
    """Events [first, end) of a partition. `begin` and `next` say what the partition holds at this moment."""

    def __init__(
        self,
        first_sequence_number: int,
        end_sequence_number: int,
        begin_sequence_number: int,
        next_sequence_number: int,
        messages: Messages,
        heads: Messages,
        release: Callable[[], None],
        missing: list[tuple[int, int]],
    ) -> None:
        self.first_sequence_number = first_sequence_number
        self.end_sequence_number = max(first_sequence_number, end_sequence_number)
        self.begin_sequence_number = begin_sequence_number
        self.next_sequence_number = next_sequence_number
        # Ranges within the snapshot of which there are no events any more.
        self.missing = missing
        self._messages = messages
        self._heads = heads
        self._release: Callable[[], None] | None = release

    def stream(self, max_events: int | None = None, *, is_of_heads: bool = False) -> Iterator[bytes]:
        """Schema, record batches and end, a few megabytes at a time. In any thread, once."""
        from tandem.event_columns import HEAD_SCHEMA, PUBLIC_SCHEMA
        from tandem.store.log.segments.event_batches import END_OF_STREAM, with_metadata

        first, end = self.first_sequence_number, self.end_sequence_number
        if max_events is not None:
            end = min(end, first + max_events)
        metadata = {
            "beginSequenceNumber": self.begin_sequence_number,
            "nextSequenceNumber": self.next_sequence_number,
            "firstSequenceNumber": first,
            "endSequenceNumber": end,
        }
        schema = HEAD_SCHEMA if is_of_heads else PUBLIC_SCHEMA
        yield with_metadata(schema, metadata).serialize().to_pybytes()
        if first < end:
            yield from (self._heads if is_of_heads else self._messages)(first, end)
        yield END_OF_STREAM

    def close(self) -> None:
        """Let go of the files. Once is enough, and twice does no harm."""
        release, self._release = self._release, None
        if release is not None:
            release()


class _Source(NamedTuple):
    """Where some events of a snapshot lie."""

    first_sequence_number: int
    segment: Segment | None
    records: list[TailRecord]


class StoredRange:
    """Where the events of a snapshot lie: in segments, and in the journal. `on_lost` hears of damaged events."""

    def __init__(
        self,
        partition_id: int,
        folder: Path,
        segments: list[Segment],
        records: list[TailRecord],
        read_record: Callable[[Place], EventRecord],
        limits: LogLimits,
        missing: list[tuple[int, int]],
        damages: DamageLog,
        verified: Verified,
        on_lost: Callable[[int, int, str], None],
    ) -> None:
        self._partition_id = partition_id
        self._folder = folder
        self._sources = _in_order(segments, records)
        self._read_record = read_record
        self._limits = limits
        self._missing = NumberRanges()
        for first, end in missing:
            self._missing.add(first, end)
        self._damages = damages
        self._verified = verified
        self._on_lost = on_lost

    def messages(self, first: int, end: int) -> Iterator[bytes]:
        for source in self._sources:
            if source.first_sequence_number >= end:
                return
            if source.segment is None:
                yield from self._converted(self._young_events(source.records, first, end))
            else:
                yield from self._sealed(source.segment, first, end)

    def heads(self, first: int, end: int) -> Iterator[bytes]:
        """What typed readers need besides. An event that cannot be read has no head, which is no reason to fail."""
        from tandem.event_columns import head_batch
        from tandem.store.log.segments.event_batches import head_batches_of
        from tandem.store.log.segments.open_segment import OpenSegment

        for source in self._sources:
            if source.first_sequence_number >= end:
                return
            if source.segment is None:
                for batch in head_batches_of(self._young_events(source.records, first, end), self._limits):
                    yield batch.serialize().to_pybytes()
                continue
            try:
                opened = OpenSegment(source.segment, self._folder, self._damages, self._verified)
            except EventsDamaged:
                continue
            for start, heads in opened.heads(first, end):
                yield head_batch(start, heads).serialize().to_pybytes()

    # --- segments -------------------------------------------------------------------------------------------

    def _sealed(self, segment: Segment, first: int, end: int) -> Iterator[bytes]:
        from tandem.store.log.segments.open_segment import OpenSegment
        from tandem.store.log.segments.survey import batch_of

        wanted_first = max(first, segment.first_sequence_number)
        wanted_end = min(end, segment.next_sequence_number)
        if self._missing.next_outside(wanted_first) >= wanted_end:
            return
        try:
            opened = OpenSegment(segment, self._folder, self._damages, self._verified)
        except EventsDamaged as error:
            self._lose([(wanted_first, wanted_end)], error.what)
            return
        for start, row_count, message, portion in opened.batches(first, end):
            if portion is not None:
                self._lose(portion.lost, f"they are damaged in {segment.stem}")
                yield from self._converted(_runs(portion.events))
                continue
            assert message is not None
            low, high = max(0, first - start), min(row_count, end - start)
            if high - low == row_count:
                yield message
            else:
                yield batch_of(message).slice(low, high - low).serialize().to_pybytes()

    def _lose(self, lost: list[tuple[int, int]], what: str) -> None:
        """Fail, unless all of them are known already."""
        news = [(first, end) for first, end in lost if self._missing.next_outside(first) < end]
        for first, end in news:
            self._on_lost(first, end, what)
        if news:
            raise EventsDamaged(f"events {news[0][0]} to {news[-1][1] - 1} cannot be read: {what}")

    # --- the journal ----------------------------------------------------------------------------------------

    def _young_events(self, records: list[TailRecord], first: int, end: int) -> Iterator[list[Event]]:
        """By record."""
        for record in records:
            behind = record.first_sequence_number + record.event_count
            if (
                record.first_sequence_number >= end
                or self._missing.next_outside(record.first_sequence_number) >= behind
            ):
                continue
            try:
                found = self._read_record(record.place)
            except EventsDamaged as error:
                self._lose([(record.first_sequence_number, behind)], error.what)
                continue
            yield events_within(found, first, end)

    def _converted(self, records: Iterator[list[Event]]) -> Iterator[bytes]:
        from tandem.store.log.segments.event_batches import batches_of

        for batch in batches_of(records, self._partition_id, self._limits):
            yield batch.serialize().to_pybytes()


def _in_order(segments: list[Segment], records: list[TailRecord]) -> list[_Source]:
    """Segments and the records between and behind them."""
    places: list[tuple[int, Segment | TailRecord]] = [(one.first_sequence_number, one) for one in segments]
    places += [(one.first_sequence_number, one) for one in records]
    sources: list[_Source] = []
    for first, one in sorted(places, key=lambda place: place[0]):
        if isinstance(one, Segment):
            sources.append(_Source(first, one, []))
        elif sources and sources[-1].segment is None:
            sources[-1].records.append(one)
        else:
            sources.append(_Source(first, None, [one]))
    return sources


def _runs(events: list[Event]) -> Iterator[list[Event]]:
    """Events without gaps between them."""
    start = 0
    for at in range(1, len(events) + 1):
        if at == len(events) or events[at].sequence_number != events[at - 1].sequence_number + 1:
            yield events[start:at]
            start = at


def events_within(record: EventRecord, first: int, end: int) -> list[Event]:
    """The events of a record that are in a range."""
    low = max(0, first - record.first_sequence_number)
    return record.events()[low : max(0, end - record.first_sequence_number)]
