"""A segment that is being read: events one by one for readers over AMQP, record batches for readers of columns.

Nothing is handed out that was not verified in the form in which it is handed out: an event by its own checksum, a
record batch by that of its bytes. Of a damaged batch every event whose checksum holds is handed out all the same.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tandem.engine.hubs.event import Event
from tandem.engine.hubs.rows import Rows
from tandem.store.log.damage_log import DamageLog, EventsDamaged
from tandem.store.log.partitions.number_ranges import NumberRanges
from tandem.store.log.segments.checksums import BatchIndex, Piece, SegmentIndex, decode_sums, event_checksum
from tandem.store.log.segments.row_columns import OpenFile, RowColumns, opened
from tandem.store.log.segments.segment import Segment, Verified

__all__ = ["Batch", "OpenSegment", "OpenSegments", "Portion"]

# No limit on bytes.
_NO_LIMIT: Final = 1 << 62

_CHUNK_BYTES: Final = 1 << 20


class Portion(NamedTuple):
    """Events that were read, the number behind the last row, and which of the rows are damaged."""

    events: list[Event]
    next_sequence_number: int
    lost: list[tuple[int, int]]


class Batch(NamedTuple):
    """Rows of one record batch: its bytes as they lie on disk, or the events that are left of it."""

    first_sequence_number: int
    row_count: int
    message: bytes | None
    portion: Portion | None


class OpenSegment:
    """The rows of one segment, by the numbers of the events. EventsDamaged if nothing of it can be read."""

    def __init__(self, segment: Segment, folder: Path, damages: DamageLog, verified: Verified | None = None) -> None:
        """`verified` remembers batches for readers of columns, so that their checksums are computed once."""
        self.segment = segment
        self._damages = damages
        self._verified: Verified = {} if verified is None else verified
        self._arrow_path = segment.arrow_path(folder)
        self._amqp_path = segment.amqp_path(folder)
        self._sums_path = segment.sums_path(folder)
        self.index = self._load()
        # The number of the first event of each batch, and of the first behind all.
        self._starts: list[int] = [segment.first_sequence_number]
        for batch in self.index.batches:
            self._starts.append(self._starts[-1] + batch.row_count)
        if self._starts[-1] != segment.next_sequence_number:
            raise EventsDamaged(f"{self._arrow_path.name} ends at {self._starts[-1]}, its name says otherwise")
        # Of batches whose events did not all hold: whether both their pieces do.
        self._sound_batches: dict[int, bool] = {}

    def _load(self) -> SegmentIndex:
        content = _content(self._sums_path)
        index = None if content is None else decode_sums(content)
        if index is not None:
            return index
        from tandem.store.log.segments.survey import surveyed_unsummed

        arrow, amqp = _content(self._arrow_path), _content(self._amqp_path)
        if arrow is None or amqp is None:
            raise EventsDamaged(f"a file of {self.segment.stem} is missing")
        index, has_sums = surveyed_unsummed(arrow, amqp)
        if content is not None:
            self._damages.add_file(self._sums_path, "the checksums are damaged, the events are not")
        elif has_sums:
            self._damages.add_file(self._sums_path, "the file of checksums is missing, the events are there")
        return index

    @property
    def has_sums(self) -> bool:
        return self.index.events_at is not None

    # --- single events --------------------------------------------------------------------------------------

    def read(self, first: int, limit: int, limit_bytes: int) -> Portion:
        """Events from this one on, of one batch: no more than the limits allow, but one in any case."""
        at = bisect_right(self._starts, first) - 1
        low = first - self._starts[at]
        return self._read(at, low, min(self.index.batches[at].row_count, low + limit), limit_bytes)

    def _read(self, at: int, low: int, high: int, limit_bytes: int) -> Portion:
        batch = self.index.batches[at]
        first = self._starts[at] + low
        with opened(self._arrow_path) as arrow, opened(self._amqp_path) as amqp:
            columns = RowColumns(arrow, amqp, batch.buffers, low, high)
            count = columns.count_within(limit_bytes)
            events = columns.events(count, first)
        lost = NumberRanges()
        if not self._are_right(at, first, events):
            for number, event in enumerate(events, first):
                if event is None:
                    lost.add(number, number + 1)
        return Portion([event for event in events if event is not None], first + count, list(lost))

    def _are_right(self, at: int, first: int, events: list[Event | None]) -> bool:
        """Compare events with their checksums. Those that are wrong become None; False if there are any."""
        expected = self._checksums(first, len(events))
        if expected is None:
            return None not in events
        wrong = [
            row
            for row, (event, checksum) in enumerate(zip(events, expected, strict=True))
            if event is None or event_checksum(event) != checksum
        ]
        if not wrong:
            return True
        if self._holds(at) and None not in events:
            self._damages.add_file(self._sums_path, "checksums of events are damaged, the events are not")
            return True
        for row in wrong:
            events[row] = None
        return False

    def _checksums(self, first: int, count: int) -> array[int] | None:
        events_at = self.index.events_at
        if events_at is None:
            return None
        with opened(self._sums_path) as sums:
            found = sums.read(events_at + 4 * (first - self.segment.first_sequence_number), 4 * count)
        return array("I", found.ljust(4 * count, b"\0"))

    def _holds(self, at: int) -> bool:
        """Whether both pieces of a batch are as they were written."""
        found = self._sound_batches.get(at)
        if found is None:
            batch = self.index.batches[at]
            found = self._piece(self._arrow_path, batch.arrow) is not None
            found = self._piece(self._amqp_path, batch.amqp) is not None and found
            self._sound_batches[at] = found
            if not found:
                self._tell(at, "has a wrong checksum")
        return found

    def _tell(self, at: int, what: str) -> None:
        numbers = f"the record batch of events {self._starts[at]} to {self._starts[at + 1] - 1}"
        self._damages.add_file(self._arrow_path.with_suffix(""), f"{numbers} {what}")

    def _piece(self, path: Path, piece: Piece) -> bytes | None:
        """The bytes of a piece, or None if they are not those that were written."""
        with opened(path) as file:
            found = file.read(piece.at, piece.length)
        return found if len(found) == piece.length and zlib.crc32(found) == piece.crc else None

    def find_time(self, at_ms: int) -> int:
        """The first event of this time or later, or the number behind the last."""
        for at, batch in enumerate(self.index.batches):
            row = self._row_from_time(at, batch, at_ms)
            if row < batch.row_count:
                return self._starts[at] + row
        return self.segment.next_sequence_number

    def _row_from_time(self, at: int, batch: BatchIndex, at_ms: int) -> int:
        with opened(self._arrow_path) as arrow:
            times = RowColumns(arrow, OpenFile(None), batch.buffers, 0, batch.row_count).times_us()
        row: int = bisect_left(times, 1_000 * at_ms)
        # Times never fall. So the row is right if it and the one before are, whatever the others say.
        low, high = max(0, row - 1), min(batch.row_count, row + 1)
        near = self._read(at, low, high, _NO_LIMIT)
        start = self._starts[at]
        are_right = [(one.enqueued_at_ms >= at_ms) is (one.sequence_number >= start + row) for one in near.events]
        if (all(are_right) and not near.lost) or self._piece(self._arrow_path, batch.arrow) is not None:
            return row
        events = self._read(at, 0, batch.row_count, _NO_LIMIT).events
        found: int = bisect_left(events, at_ms, key=lambda event: event.enqueued_at_ms)
        return events[found].sequence_number - start if found < len(events) else batch.row_count

    # --- columns --------------------------------------------------------------------------------------------

    def batches(self, first: int, end: int) -> Iterator[Batch]:
        """The batches with events of a range. A batch that is not wanted whole has its bytes all the same."""
        for at, batch in enumerate(self.index.batches):
            start = self._starts[at]
            if start >= end or start + batch.row_count <= first:
                continue
            message = self._message(at)
            if message is not None:
                yield Batch(start, batch.row_count, message, None)
                continue
            self._tell(at, "has a wrong checksum")
            low, high = max(0, first - start), min(batch.row_count, end - start)
            yield Batch(start, batch.row_count, None, self._read(at, low, high, _NO_LIMIT))

    def _message(self, at: int) -> bytes | None:
        """The bytes of a batch, or None if they are not those that were written.

        Bytes that were right once are not verified again, unless something has written to the file since. What a disk
        forgets meanwhile is for the scrub to find.
        """
        piece = self.index.batches[at].arrow
        with opened(self._arrow_path) as file:
            stamp = file.stamp
            found = file.read(piece.at, piece.length)
        if len(found) != piece.length:
            return None
        verified = self._verified.setdefault(self._arrow_path, {})
        if verified.get(at) != stamp:
            if zlib.crc32(found) != piece.crc:
                return None
            verified[at] = stamp
        return found

    def heads(self, first: int, end: int) -> Iterator[tuple[int, Any]]:
        """The heads of a range, as arrays and the number of their first event. Those that are damaged are null."""
        from tandem.store.log.segments.survey import heads_in

        for at, batch in enumerate(self.index.batches):
            start = self._starts[at]
            low, high = max(0, first - start), min(batch.row_count, end - start)
            if low >= high:
                continue
            piece = self._piece(self._amqp_path, batch.amqp)
            if piece is not None:
                yield start + low, heads_in(piece, batch.buffers).slice(low, high - low)
                continue
            self._tell(at, "has a wrong checksum")
            yield start + low, self._single_heads(at, low, high)

    def _single_heads(self, at: int, low: int, high: int) -> Any:
        from tandem.event_columns import nullable_binaries, pa

        found: list[bytes | None] = [None] * (high - low)
        for event in self._read(at, low, high, _NO_LIMIT).events:
            rows = Rows(event.sequence_number)
            rows.add(event)
            found[event.sequence_number - self._starts[at] - low] = rows.heads[0]
        return nullable_binaries(pa.binary(), found)

    # --- everything -----------------------------------------------------------------------------------------

    def faulty_files(self) -> list[str]:
        """Read all files from end to end. The names of those that are not as they were written."""
        index = self.index
        pieces = [(self._arrow_path, index.arrow), (self._amqp_path, index.amqp)]
        return [path.suffix for path, piece in pieces if not _is_whole(path, piece)]

    def lost(self) -> list[tuple[int, int]]:
        """Read all events. Those that readers over AMQP lose."""
        lost = NumberRanges()
        for at, batch in enumerate(self.index.batches):
            for first, end in self._read(at, 0, batch.row_count, _NO_LIMIT).lost:
                lost.add(first, end)
        return list(lost)

    def lost_columns(self) -> list[tuple[int, int]]:
        """Read all record batches. The events that readers of columns lose: they lose none of a batch that is whole."""
        found = self.batches(self.segment.first_sequence_number, self.segment.next_sequence_number)
        return [lost for batch in found if batch.portion is not None for lost in batch.portion.lost]


def _content(path: Path) -> bytes | None:
    """A whole file, or None if it cannot be read."""
    with opened(path) as file:
        pieces: list[bytes] = []
        at = 0
        while piece := file.read(at, _CHUNK_BYTES):
            pieces.append(piece)
            at += len(piece)
    return b"".join(pieces) if pieces else None


def _is_whole(path: Path, piece: Piece) -> bool:
    crc = at = 0
    with opened(path) as file:
        while chunk := file.read(at, _CHUNK_BYTES):
            crc = zlib.crc32(chunk, crc)
            at += len(chunk)
    return (at, crc) == (piece.length, piece.crc)


class OpenSegments:
    """Those that were read last: their indexes, and no descriptors."""

    def __init__(self, limit: int, damages: DamageLog) -> None:
        self._limit = limit
        self._damages = damages
        self._open: OrderedDict[Path, OpenSegment] = OrderedDict()

    def get(self, segment: Segment, folder: Path) -> OpenSegment:
        path = segment.arrow_path(folder)
        found = self._open.pop(path, None)
        if found is None:
            found = OpenSegment(segment, folder, self._damages)
            if len(self._open) >= self._limit:
                self._open.popitem(last=False)
        self._open[path] = found
        return found

    def forget(self, path: Path) -> None:
        """It is to be deleted."""
        self._open.pop(path, None)

    def forget_below(self, folder: Path) -> None:
        for path in [path for path in self._open if folder in path.parents]:
            self.forget(path)
