"""Record batches of events into files of bounded size, on an executor.

A file is full when it holds so many bytes of events, and ends with its interval of enqueued time. Rows go through: what
is in memory at any time are a batch and a row group of each open file. The rows of a task usually come in order, so
that one file is open at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.errors import ConfigurationError
from tandem.lake.capture_names import QUARANTINE, STAGING
from tandem.lake.captured_file import CapturedFile
from tandem.lake.file_writers import EXTENSIONS, FileFormat, FileWriter, open_writer
from tandem.lake.layout import Layout, moment_of, with_suffix
from tandem.lake.parsing import Columns, Parsing, PayloadParser, known_columns
from tandem.lake.place import Place

__all__ = ["DEFAULT_INTERVAL_S", "DEFAULT_MAX_FILE_BYTES", "HOUR_S", "CaptureWriter", "StagedFile", "Writing"]

# The defaults of Event Hubs Capture: 300 MB or 300 s.
DEFAULT_MAX_FILE_BYTES: Final = 314_572_800
DEFAULT_INTERVAL_S: Final = 300

HOUR_S: Final = 3_600

# Files that are open at the same time, for rows that do not come in order.
_MAX_OPEN_FILES: Final = 8


@dataclass(frozen=True)
class StagedFile:
    """A file that is complete, and where it lies until its batch is committed: under its own name, if None."""

    file: CapturedFile
    staged: str | None = None
    # What it has of payloads, and whether it is for the quarantine, in whose place it lies then.
    columns: Columns = field(default_factory=dict)
    is_quarantined: bool = False


@dataclass(frozen=True)
class CaptureWriter:
    """Writes the events of a hub to files. It travels to the executors."""

    place: Place
    layout: Layout
    file_format: FileFormat
    # True if files wait in a folder of their own until the driver renames them; only local folders can.
    is_staged: bool
    max_file_bytes: int = DEFAULT_MAX_FILE_BYTES
    # Seconds of enqueued time that a file covers; it divides an hour.
    interval_s: int = DEFAULT_INTERVAL_S
    # None if payloads stay as they are.
    parsing: Parsing | None = None
    is_quarantine: bool = False

    def __post_init__(self) -> None:
        if self.max_file_bytes < 1:
            raise ConfigurationError(f"the size of a file is {self.max_file_bytes} bytes; it must be 1 or more")
        if not 0 < self.interval_s <= HOUR_S or HOUR_S % self.interval_s:
            raise ConfigurationError(f"the interval of a file is {self.interval_s} s; it must divide an hour")

    def write(self, batches: Iterable[Any]) -> list[StagedFile]:
        """Write all rows, and return the files, none of which counts yet."""
        good, aside = Writing(self), Writing(self.quarantine())
        parser = None if self.parsing is None else PayloadParser(self.parsing, known_columns(self.place))
        try:
            for batch in batches:
                if parser is None:
                    good.write_all(batch, {})
                else:
                    parsed = parser.parse(batch)
                    good.write_all(parsed.rows, dict(parser.columns))
                    aside.write_all(parsed.quarantined, {})
            return [*good.finish(), *aside.finish()]
        except BaseException:
            good.give_up()
            aside.give_up()
            raise

    def quarantine(self) -> CaptureWriter:
        """Return the writer of events whose payloads did not fit: beside the others, in a place of their own."""
        return replace(self, place=self.place.child(QUARANTINE), parsing=None, is_quarantine=True)

    def place_of(self, file: StagedFile) -> Place:
        return self.place.child(QUARANTINE) if file.is_quarantined else self.place

    def discard(self, files: Iterable[StagedFile]) -> None:
        """Delete files that are not to count."""
        for one in files:
            self.place_of(one).delete(one.staged or one.file.path)


def _runs(batch: Any, interval_us: int) -> Iterator[tuple[str, int, Any]]:
    """Return slices of a batch, each with its partition and the number of its interval."""
    if not batch.num_rows:
        return
    intervals = pc.divide(batch.column("enqueuedTime").view(pa.int64()), interval_us)
    start = 0
    for partition, in_partition in _lengths(batch.column("partition")):
        for interval, count in _lengths(intervals.slice(start, in_partition)):
            yield str(partition), int(interval), batch.slice(start, count)
            start += count


def _lengths(column: Any) -> Iterator[tuple[Any, int]]:
    """Return each run of equal values, and how long it is."""
    runs = pc.run_end_encode(column)
    end = 0
    for value, next_end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield value, next_end - end
        end = next_end


class Writing:
    """The files of one task."""

    def __init__(self, settings: CaptureWriter) -> None:
        self._settings = settings
        # The one that was written to last is the last.
        self._open: dict[tuple[str, int], _OpenFile] = {}
        self._done: list[StagedFile] = []

    def write_all(self, batch: Any, columns: Columns) -> None:
        for partition, interval, rows in _runs(batch, self._settings.interval_s * 1_000_000):
            self._write(partition, interval, rows, columns)

    def _write(self, partition: str, interval: int, rows: Any, columns: Columns) -> None:
        key = (partition, interval)
        if key in self._open and self._open[key].columns != columns:
            # A file has the columns that it began with.
            self._close(key)
        while rows.num_rows:
            file = self._open.pop(key, None)
            if file is None:
                self._close_down_to(_MAX_OPEN_FILES - 1)
                file = _OpenFile(self._settings, partition, rows, columns)
            self._open[key] = file
            count = file.room_for(rows)
            file.write(rows.slice(0, count))
            rows = rows.slice(count)
            if rows.num_rows:
                self._close(key)

    def finish(self) -> list[StagedFile]:
        self._close_down_to(0)
        return self._done

    def give_up(self) -> None:
        """Delete everything: none of it will be committed."""
        for file in self._open.values():
            file.discard()
        for done in self._done:
            self._settings.place.delete(done.staged or done.file.path)

    def _close_down_to(self, count: int) -> None:
        while len(self._open) > count:
            self._close(next(iter(self._open)))

    def _close(self, key: tuple[str, int]) -> None:
        self._done.append(self._open[key].close())
        del self._open[key]


class _OpenFile:
    """A file under way, from its first row on."""

    def __init__(self, settings: CaptureWriter, partition: str, rows: Any, columns: Columns) -> None:
        self._settings = settings
        self.columns = columns
        self._partition = partition
        extension = EXTENSIONS[settings.file_format]
        first_us, number = _times_us(rows)[0].as_py(), rows.column("sequenceNumber")[0].as_py()
        self._path = settings.layout.path(partition, first_us, number, extension)
        self._staged: str | None = None
        if settings.is_staged:
            self._staged = f"{STAGING}/{uuid.uuid4().hex}{extension}"
        elif not settings.place.is_local and settings.layout.name == "capture":
            # Nobody renames it: a task that is tried again must not write over the first one's file.
            self._path = with_suffix(self._path)
        self._stream = settings.place.open_output(self._staged or self._path)
        self._writer: FileWriter = open_writer(settings.file_format, self._stream, rows.schema)
        self._bytes = 0
        self._count = 0
        self._numbers: tuple[int, int] | None = None
        self._times_us: tuple[int, int] | None = None

    def room_for(self, rows: Any) -> int:
        """Return how many of the rows fit: at least one into an empty file, as far as their mean size tells."""
        room = self._settings.max_file_bytes - self._bytes
        if rows.nbytes <= room:
            return int(rows.num_rows)
        fitting = int(rows.num_rows * max(0, room) / rows.nbytes)
        return max(fitting, 0 if self._count else 1)

    def write(self, rows: Any) -> None:
        if not rows.num_rows:
            return
        self._writer.write(rows)
        self._bytes += rows.nbytes
        self._count += rows.num_rows
        self._numbers = _widened(self._numbers, rows.column("sequenceNumber"))
        self._times_us = _widened(self._times_us, _times_us(rows))

    def close(self) -> StagedFile:
        size_bytes = self._writer.close()
        assert self._numbers is not None
        assert self._times_us is not None
        first, last = (moment_of(time_us) for time_us in self._times_us)
        settings = self._settings
        file = CapturedFile(
            self._path,
            hub=settings.layout.hub,
            partition=self._partition,
            date=f"{first:%Y-%m-%d}",
            hour=f"{first:%H}",
            sizeInBytes=size_bytes,
            eventCount=self._count,
            firstSequenceNumber=self._numbers[0],
            lastSequenceNumber=self._numbers[1],
            firstEnqueueTime=first.isoformat(),
            lastEnqueueTime=last.isoformat(),
        )
        return StagedFile(file, self._staged, self.columns, settings.is_quarantine)

    def discard(self) -> None:
        """End the file as a complete one, since a store may show it from then on, and delete it."""
        try:
            self._writer.close()
        finally:
            self._settings.place.delete(self._staged or self._path)


def _times_us(rows: Any) -> Any:
    return rows.column("enqueuedTime").view(pa.int64())


def _widened(bounds: tuple[int, int] | None, column: Any) -> tuple[int, int]:
    found = pc.min_max(column)
    low, high = found["min"].as_py(), found["max"].as_py()
    return (low, high) if bounds is None else (min(bounds[0], low), max(bounds[1], high))
