"""A segment that is being read: both files mapped into memory, so that only what is asked for comes from the disk."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tandem.amqp.sections import NO_ENTRIES, Entries
from tandem.arrow import load_arrow
from tandem.engine.hubs.event import Event
from tandem.errors import StoreCorrupt
from tandem.store.descriptors import with_descriptors
from tandem.store.log.segment import Segment

__all__ = ["OpenSegment", "OpenSegments"]

pa: Final = load_arrow()


class OpenSegment:
    """The rows of one segment, by the numbers of the events."""

    def __init__(self, segment: Segment, folder: Path) -> None:
        self._segment = segment
        self._path = segment.arrow_path(folder)
        self._batches = _mapped(self._path)
        self._amqp_path = segment.amqp_path(folder)
        # Readers of columns do without them.
        self._amqp_batches: list[Any] = []
        # The number of the first event of each batch, and of the first behind all.
        self._starts: list[int] = [segment.first_sequence_number]
        for batch in self._batches:
            self._starts.append(self._starts[-1] + batch.num_rows)
        if self._starts[-1] != segment.next_sequence_number:
            raise StoreCorrupt(f"{self._path}: it ends at {self._starts[-1]}, its name says otherwise")

    def amqp_batch(self, index: int) -> Any:
        """The columns for readers over AMQP, with the same rows as the batch of this index."""
        if not self._amqp_batches:
            batches = _mapped(self._amqp_path)
            if [batch.num_rows for batch in batches] != [batch.num_rows for batch in self._batches]:
                raise StoreCorrupt(f"{self._amqp_path}: its rows are not those of {self._path.name}")
            self._amqp_batches = batches
        return self._amqp_batches[index]

    def batches(self, first: int, end: int) -> Iterator[Any]:
        """The public columns of a range, batch by batch, without a copy."""
        for index, start in enumerate(self._starts[:-1]):
            low = max(0, first - start)
            high = min(self._starts[index + 1], end) - start
            if low < high:
                yield self._batches[index].slice(low, high - low)

    def read(self, first: int, limit: int, limit_bytes: int) -> list[Event]:
        """Events from this one on, of one batch: at least one, and no more than the limits allow."""
        index = bisect_right(self._starts, first) - 1
        low = first - self._starts[index]
        batch = self._batches[index]
        beside = self.amqp_batch(index)
        high = min(batch.num_rows, low + limit)
        # What a range of rows takes is a difference of offsets: no row has to be looked at.
        beside_columns = [column for column in beside.columns if column.type == pa.binary()]
        offsets = [memoryview(column.buffers()[1]).cast("i") for column in (batch.column(0), *beside_columns)]
        before = sum(column[low] for column in offsets)
        allowed = bisect_right(
            range(low + 1, high + 1), limit_bytes, key=lambda row: sum(column[row] for column in offsets) - before
        )
        return _events(batch, beside, low, max(1, allowed), first)

    def find_time(self, at_ms: int) -> int:
        """The first event of this time or later. One is."""
        for index in range(len(self._starts) - 1):
            times = _times_us(self._batches[index])
            count = self._starts[index + 1] - self._starts[index]
            row: int = bisect_left(times, 1_000 * at_ms, 0, count)
            if row < count:
                return self._starts[index] + row
        return self._segment.next_sequence_number


def _mapped(path: Path) -> list[Any]:
    """The record batches of a file, none of which is read yet."""
    try:
        file = pa.ipc.open_file(with_descriptors(lambda: pa.memory_map(str(path))))
        return [file.get_batch(index) for index in range(file.num_record_batches)]
    except (pa.ArrowException, OSError) as error:
        raise StoreCorrupt(f"{path} cannot be read: {error}; run `tandem check`") from error


def _times_us(batch: Any) -> memoryview:
    """When the events were enqueued, in microseconds. Not by a cast, as `columns` explains."""
    return memoryview(batch.column(4).buffers()[1]).cast("q")


def _events(batch: Any, beside: Any, low: int, count: int, first: int) -> list[Event]:
    bodies, publishers, keys = (batch.column(at).slice(low, count) for at in (0, 5, 6))
    times_us = _times_us(batch)[low : low + count]
    columns = [column.slice(low, count).to_pylist() for column in beside.columns]
    if len(columns) == 4:
        # Written by a version that did not keep delivery annotations.
        columns += [[b""] * count, [0] * count]
    events: list[Event] = []
    rows = zip(bodies.to_pylist(), times_us, publishers.to_pylist(), keys.to_pylist(), *columns, strict=True)
    for number, (body, time_us, publisher, key, own, own_count, head, footer, delivery, delivery_count) in enumerate(
        rows, first
    ):
        bare = head if footer is None else head + body + footer
        events.append(
            Event(
                number,
                time_us // 1_000,
                key,
                publisher,
                _entries(own, own_count),
                bare,
                _entries(delivery, delivery_count),
            )
        )
    return events


def _entries(encoded: bytes, count: int) -> Entries:
    return Entries(encoded, count) if count else NO_ENTRIES


class OpenSegments:
    """Those that were read last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: OrderedDict[Path, OpenSegment] = OrderedDict()

    def get(self, segment: Segment, folder: Path) -> OpenSegment:
        path = segment.arrow_path(folder)
        found = self._open.pop(path, None)
        if found is None:
            found = OpenSegment(segment, folder)
            if len(self._open) >= self._limit:
                self._open.popitem(last=False)
        self._open[path] = found
        return found

    def forget(self, path: Path) -> None:
        """It is to be deleted: a file that is mapped keeps its space on the disk."""
        self._open.pop(path, None)

    def forget_below(self, folder: Path) -> None:
        for path in [path for path in self._open if folder in path.parents]:
            self.forget(path)
