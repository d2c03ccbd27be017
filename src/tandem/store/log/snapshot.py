"""A range of events as an Arrow IPC stream. What is sealed is passed on as it lies; only the young tail is converted.

A snapshot is taken on the event loop, which costs a look into the index, and streamed in another thread. The files it
needs stay until it is closed, whatever retention does meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord
from tandem.store.log.journal import Place
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.segment import Segment
from tandem.store.log.tail import TailRecord

__all__ = ["RangeSnapshot", "StoredRange", "events_within"]

# The record batches of the public columns from one number on, up to another.
Batches = Callable[[int, int], Iterator[Any]]


class RangeSnapshot:
    """Events [first, end) of a partition. `begin` and `next` say what the partition holds at this moment."""

    def __init__(
        self,
        first_sequence_number: int,
        end_sequence_number: int,
        begin_sequence_number: int,
        next_sequence_number: int,
        batches: Batches,
        release: Callable[[], None],
    ) -> None:
        self.first_sequence_number = first_sequence_number
        self.end_sequence_number = max(first_sequence_number, end_sequence_number)
        self.begin_sequence_number = begin_sequence_number
        self.next_sequence_number = next_sequence_number
        self._batches = batches
        self._release: Callable[[], None] | None = release

    def stream(self, max_events: int | None = None) -> Iterator[bytes]:
        """Schema, record batches and end, a few megabytes at a time. In any thread, once."""
        from tandem.event_columns import PUBLIC_SCHEMA
        from tandem.store.log.columns import END_OF_STREAM, with_metadata

        first, end = self.first_sequence_number, self.end_sequence_number
        if max_events is not None:
            end = min(end, first + max_events)
        metadata = {
            "beginSequenceNumber": self.begin_sequence_number,
            "nextSequenceNumber": self.next_sequence_number,
            "firstSequenceNumber": first,
            "endSequenceNumber": end,
        }
        yield with_metadata(PUBLIC_SCHEMA, metadata).serialize().to_pybytes()
        if first < end:
            for batch in self._batches(first, end):
                yield batch.serialize().to_pybytes()
        yield END_OF_STREAM

    def close(self) -> None:
        """Let go of the files. Once is enough, and twice does no harm."""
        release, self._release = self._release, None
        if release is not None:
            release()


class StoredRange:
    """Where the events of a snapshot lie: in segments first, in the journal then."""

    def __init__(
        self,
        partition_id: int,
        folder: Path,
        segments: list[Segment],
        records: list[TailRecord],
        read_record: Callable[[Place], EventRecord],
        limits: LogLimits,
    ) -> None:
        self._partition_id = partition_id
        self._folder = folder
        self._segments = segments
        self._records = records
        self._read_record = read_record
        self._limits = limits

    def batches(self, first: int, end: int) -> Iterator[Any]:
        from tandem.store.log.columns import batches_of
        from tandem.store.log.open_segment import OpenSegment

        for segment in self._segments:
            if segment.first_sequence_number < end:
                yield from OpenSegment(segment, self._folder).batches(first, end)
        yield from batches_of(self._young_events(first, end), self._partition_id, self._limits)

    def _young_events(self, first: int, end: int) -> Iterator[list[Event]]:
        """By record."""
        for record in self._records:
            if record.first_sequence_number < end:
                yield events_within(self._read_record(record.place), first, end)


def events_within(record: EventRecord, first: int, end: int) -> list[Event]:
    """The events of a record that are in a range."""
    low = max(0, first - record.first_sequence_number)
    return record.events()[low : max(0, end - record.first_sequence_number)]
