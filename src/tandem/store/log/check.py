"""Reads a log from end to end and says what contradicts what. Nothing is written; the broker must be stopped.

A record that a crash tore, files of a segment that was not finished and folders of hubs that were dropped are no
faults: the next start removes them. They are counted.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tandem.errors import DecodeError, StoreCorrupt
from tandem.store.log.event_log import JOURNAL_NAME
from tandem.store.log.frames import EVENTS, HEADER_BYTES, decode_record
from tandem.store.log.journal import Found, journal_files, journal_path, scan_file
from tandem.store.log.recovery import Contents, ScannedFolder, scan_folder
from tandem.store.log.segment import Segment, partition_folder

__all__ = ["LogReport", "check_log"]

# Findings. More of them say nothing new.
_MAX_FINDINGS: Final = 1_000

# What is being done, how much of it is done, and out of how much.
Progress = Callable[[str, int, int], None]


@dataclass
class LogReport:
    """What was found. A log without findings is sound."""

    event_count: int = 0
    # Of all payloads that are retained.
    size_bytes: int = 0
    segment_count: int = 0
    journal_record_count: int = 0
    # Bytes at the end of the journal that a crash tore: nobody was told that they are stored.
    torn_bytes: int = 0
    # Files that the next start removes.
    leftover_count: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, finding: str) -> None:
        if len(self.findings) < _MAX_FINDINGS:
            self.findings.append(finding)


def check_log(directory: Path, hubs: Mapping[int, int], progress: Progress | None = None) -> LogReport:
    """Check the log of these hubs: numbers, and how many partitions each has."""
    report = LogReport()
    _Check(directory, hubs, report, progress or _no_progress).run()
    return report


def _no_progress(what: str, done: int, total: int) -> None:
    """Nobody watches."""


class _Check:
    """One run."""

    def __init__(self, directory: Path, hubs: Mapping[int, int], report: LogReport, progress: Progress) -> None:
        self._directory = directory
        self._hubs = hubs
        self._report = report
        self._progress = progress

    def run(self) -> None:
        keys = [(hub_number, partition_id) for hub_number, count in self._hubs.items() for partition_id in range(count)]
        folders = {key: self._folder(partition_folder(self._directory, *key)) for key in keys}
        contents = Contents(self._hubs, folders)
        try:
            contents.add_journal(self._journal())
        except StoreCorrupt as error:
            self._report.add(str(error))
        for done, key in enumerate(keys):
            self._progress("partitions", done, len(keys))
            self._partition(contents, *key)
        for path in self._directory.iterdir() if self._directory.exists() else ():
            if path.name.isdecimal() and int(path.name) not in self._hubs:
                self._report.leftover_count += 1

    # --- the journal ----------------------------------------------------------------------------------------

    def _journal(self) -> Iterator[Found]:
        """Every frame that is whole, and what is wrong with the others."""
        folder = self._directory / JOURNAL_NAME
        numbers = journal_files(folder)
        for done, number in enumerate(numbers):
            self._progress("journal", done, len(numbers))
            path = journal_path(folder, number)
            size_bytes = path.stat().st_size
            is_last = number == numbers[-1]
            if is_last and size_bytes <= HEADER_BYTES:
                self._report.torn_bytes += size_bytes
                continue
            try:
                end = yield from self._judged(path, number, is_last)
                self._report.torn_bytes += size_bytes - end
            except StoreCorrupt as error:
                self._report.add(str(error))

    def _judged(self, path: Path, number: int, is_last: bool) -> Generator[Found, None, int]:
        end = HEADER_BYTES
        for found in scan_file(path, number, is_last):
            if found.frame.kind == EVENTS:
                self._record(path, found)
            end = found.frame.end
            yield found
        return end

    def _record(self, path: Path, found: Found) -> None:
        """Whether a record holds as many events as it says."""
        self._report.journal_record_count += 1
        where = f"{path}: the record at {found.place.position}"
        try:
            at = found.place.position
            frame = found.frame._replace(body_at=found.frame.body_at - at, end=found.place.length)
            record = decode_record(bytes(found.buffer[at : found.frame.end]), frame)
            count = len(record.events())
        except (DecodeError, UnicodeDecodeError) as error:
            self._report.add(f"{where} cannot be taken apart: {error}")
            return
        if count != record.count:
            self._report.add(f"{where} has {count} events, and says {record.count}")

    # --- partitions -----------------------------------------------------------------------------------------

    def _folder(self, folder: Path) -> ScannedFolder:
        scanned = scan_folder(folder)
        self._report.leftover_count += len(scanned.leftovers)
        for path in scanned.strangers:
            self._report.add(f"{path} is not a file of this log")
        return scanned

    def _partition(self, contents: Contents, hub_number: int, partition_id: int) -> None:
        try:
            partition = contents.partition(hub_number, partition_id)
        except StoreCorrupt as error:
            self._report.add(str(error))
            return
        self._report.event_count += partition.next_sequence_number - partition.begin_sequence_number
        self._report.size_bytes += partition.size_bytes
        folder = partition_folder(self._directory, hub_number, partition_id)
        for segment in partition.segments:
            self._report.segment_count += 1
            for fault in _faults(segment, folder, partition_id):
                self._report.add(f"{segment.arrow_path(folder)}: {fault}")


def _faults(segment: Segment, folder: Path, partition_id: int) -> Iterator[str]:
    """What is wrong with a segment. Its columns are made again from what readers over AMQP get, and compared."""
    from tandem.arrow import load_arrow
    from tandem.engine.hubs.rows import Rows
    from tandem.event_columns import public_batch
    from tandem.store.log.open_segment import OpenSegment
    from tandem.store.log.seal import ARROW_CRC_KEY

    pa = load_arrow()
    try:
        opened = OpenSegment(segment, folder)
        metadata = pa.ipc.open_file(str(segment.amqp_path(folder))).metadata or {}
        if metadata.get(ARROW_CRC_KEY) != str(zlib.crc32(segment.arrow_path(folder).read_bytes())).encode():
            yield "its CRC is not the one that its .amqp file has"
        number = segment.first_sequence_number
        for batch in opened.batches(number, segment.next_sequence_number):
            batch.validate(full=True)
            rows = Rows(number)
            rows.fill(opened.read(number, batch.num_rows, 1 << 62), 0, batch.num_rows, 1 << 62)
            if not batch.equals(public_batch(rows, partition_id)):
                yield f"its columns from {number} on do not say what its .amqp file says"
            number += batch.num_rows
        first = opened.read(segment.first_sequence_number, 1, 0)[0]
        last = opened.read(segment.next_sequence_number - 1, 1, 0)[0]
        if (first.enqueued_at_ms, last.enqueued_at_ms) != (segment.first_at_ms, segment.last_at_ms):
            yield f"its times are {first.enqueued_at_ms} to {last.enqueued_at_ms}, its name says otherwise"
    except (StoreCorrupt, DecodeError, pa.ArrowException, OSError) as error:
        yield str(error)
