"""Rows of a segment, read from its files by nothing but the places of their buffers.

Nothing that lies on disk is trusted: an offset that leads out of its buffer, a file that ends early, and a sector that
cannot be read make single values unreadable, and never anything worse. Whether a value is right is for the checksum of
its event to say.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import le
from pathlib import Path
from typing import Final

from tandem.amqp.rewriting import with_service_decimals
from tandem.amqp.sections import DECIMAL128, NO_ENTRIES, Entries
from tandem.engine.hubs.event import Event
from tandem.store.descriptors import with_descriptors
from tandem.store.log.files import is_unreadable
from tandem.store.log.segments.checksums import Buffer

__all__ = ["OpenFile", "RowColumns", "opened"]

_ARROW_BINARIES: Final = ("body", "publisher", "partitionKey")
_AMQP_BINARIES: Final = ("annotations", "head", "footer", "deliveryAnnotations")


class OpenFile:
    """A file that is read at places. What is not there is shorter than asked for, or empty."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def stamp(self) -> tuple[int, int]:
        """When the file was changed last, in nanoseconds, and its length."""
        if self._descriptor is None:
            return 0, 0
        status = os.fstat(self._descriptor)
        return status.st_mtime_ns, status.st_size

    def read(self, at: int, length: int) -> bytes:
        if self._descriptor is None or length <= 0:
            return b""
        try:
            return os.pread(self._descriptor, length, at)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return b""


@contextmanager
def opened(path: Path) -> Iterator[OpenFile]:
    """Open a file for a moment, to hold no descriptor while nobody reads."""
    try:
        descriptor = with_descriptors(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if not is_unreadable(error):
            raise
        yield OpenFile(None)
        return
    try:
        yield OpenFile(descriptor)
    finally:
        os.close(descriptor)


class _Binaries:
    """A column of binary values, or of text: its ends first, its values when it is known how many are wanted."""

    __slots__ = ("_file", "_is_sound", "_nulls", "_size", "_values_at", "ends")

    def __init__(self, file: OpenFile, buffers: list[Buffer], low: int, high: int) -> None:
        (validity_at, validity_size), (ends_at, ends_size), (self._values_at, self._size) = buffers
        self._file = file
        count = high - low + 1
        self.ends = array("i", bytes(4 * count))
        self._is_sound = True
        if ends_size:
            found = file.read(ends_at + 4 * low, 4 * count)
            if len(found) == 4 * count:
                self.ends = array("i", found)
                # Rising, and within the values: else each value is read by itself, if it can be.
                ends = self.ends
                self._is_sound = ends[0] >= 0 and ends[-1] <= self._size and all(map(le, ends, ends[1:]))
            else:
                self.ends = array("i", [-1]) * count
                self._is_sound = False
        self._nulls: int | None = None
        if validity_size:
            bits = int.from_bytes(file.read(validity_at + low // 8, (high + 7) // 8 - low // 8), "little")
            self._nulls = ~(bits >> low % 8)

    def size_before(self, row: int) -> int:
        """How many bytes the first rows take, as far as that is known."""
        return self.ends[row] - self.ends[0] if self._is_sound else 0

    def values(self, count: int) -> list[bytes | None]:
        """The values of the first rows. Those that cannot be read are empty."""
        ends = self.ends
        values: list[bytes | None]
        if self._nulls is not None and (self._nulls + 1) & ((1 << count) - 1) == 0:
            # Keys and publishers of most events.
            return [None] * count
        if self._is_sound:
            start = ends[0]
            length = ends[count] - start
            found = self._file.read(self._values_at + start, length) if length else b""
            if not length:
                values = [b""] * count
            else:
                values = [found[ends[row] - start : ends[row + 1] - start] for row in range(count)]
        else:
            values = [self._value(ends[row], ends[row + 1]) for row in range(count)]
        if self._nulls is not None:
            for row in range(count):
                if self._nulls >> row & 1:
                    values[row] = None
        return values

    def _value(self, start: int, end: int) -> bytes:
        return self._file.read(self._values_at + start, end - start) if 0 <= start <= end <= self._size else b""


def _integers(file: OpenFile, code: str, buffers: list[Buffer], low: int, count: int) -> array[int]:
    values = array(code)
    length = values.itemsize * count
    values.frombytes(file.read(buffers[1][0] + values.itemsize * low, length).ljust(length, b"\0"))
    return values


class RowColumns:
    """The columns of rows [low, high) of one record batch."""

    def __init__(
        self, arrow: OpenFile, amqp: OpenFile, buffers: Mapping[str, list[Buffer]], low: int, high: int
    ) -> None:
        self._arrow = arrow
        self._amqp = amqp
        self._buffers = buffers
        self._low = low
        self._count = high - low
        # Older segments have no columns for delivery annotations.
        files = dict.fromkeys(_ARROW_BINARIES, arrow) | {name: amqp for name in _AMQP_BINARIES if name in buffers}
        self._binaries = {name: _Binaries(file, buffers[name], low, high) for name, file in files.items()}

    def count_within(self, limit_bytes: int) -> int:
        """How many of the rows have no more than so many bytes: at least one."""
        columns = list(self._binaries.values())
        low, high = 1, self._count
        while low < high:
            middle = (low + high + 1) // 2
            if sum([column.size_before(middle) for column in columns]) <= limit_bytes:
                low = middle
            else:
                high = middle - 1
        return low

    def times_us(self) -> array[int]:
        """When the events were enqueued."""
        return _integers(self._arrow, "q", self._buffers["enqueuedTime"], self._low, self._count)

    def events(self, count: int, first: int) -> list[Event | None]:
        """The first rows as events, from this number on. None stands for one that cannot be made of what is there."""
        values = {name: column.values(count) for name, column in self._binaries.items()}
        buffers, low = self._buffers, self._low
        own_counts = _integers(self._amqp, "i", buffers["annotationCount"], low, count)
        delivery: list[bytes | None] = [b""] * count
        delivery_counts = array("i", bytes(4 * count))
        if "deliveryAnnotations" in values:
            delivery = values["deliveryAnnotations"]
            delivery_counts = _integers(self._amqp, "i", buffers["deliveryAnnotationCount"], low, count)
        rows = zip(
            values["body"],
            self.times_us(),
            values["publisher"],
            values["partitionKey"],
            values["annotations"],
            own_counts,
            values["head"],
            values["footer"],
            delivery,
            delivery_counts,
            strict=False,
        )
        return [_event(number, *row) for number, row in enumerate(rows, first)]


def _event(
    number: int,
    body: bytes | None,
    time_us: int,
    publisher: bytes | None,
    key: bytes | None,
    own: bytes | None,
    own_count: int,
    head: bytes | None,
    footer: bytes | None,
    delivery: bytes | None,
    delivery_count: int,
) -> Event | None:
    if body is None or own is None or head is None or delivery is None:
        return None
    bare = head if footer is None else head + body + footer
    if DECIMAL128 in head:
        # Segments of earlier versions have decimals in the layout in which they were sent, which SDKs cannot read.
        bare = with_service_decimals(bare)
    try:
        return Event(
            number,
            time_us // 1_000,
            None if key is None else key.decode(),
            None if publisher is None else publisher.decode(),
            Entries(own, own_count) if own_count else NO_ENTRIES,
            bare,
            Entries(delivery, delivery_count) if delivery_count else NO_ENTRIES,
        )
    except UnicodeDecodeError:
        return None
