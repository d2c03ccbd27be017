"""Reads a log from end to end and says what contradicts what. Nothing is written; the broker must be stopped.

A record that a crash tore, files of a segment that was not finished and folders of hubs that were dropped are no
faults: the next start removes them. They are counted. So are segments of older versions, which have no checksums.

What is found is what a start finds, and beyond that every segment is read: both say the same of the same damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tandem.errors import ArrowUnavailable, DecodeError, StoreCorrupt
from tandem.limits import MAX_FINDINGS
from tandem.store.log.damage_log import DamageLog, EventsDamaged
from tandem.store.log.event_log import JOURNAL_NAME
from tandem.store.log.journal.frames import EVENTS, decode_record
from tandem.store.log.journal.journal import DAMAGED_NAME, Found, scan_journal
from tandem.store.log.journal.marks import FoundMarks, marks_path, read_marks
from tandem.store.log.partitions.partition_log import PartitionLog
from tandem.store.log.recovery import Contents, ScannedFolder, is_leftover, scan_folder
from tandem.store.log.segments.open_segment import OpenSegment
from tandem.store.log.segments.segment import Segment, partition_folder

__all__ = ["LogReport", "check_log"]

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
    # Segments of older versions: only a part of them can be verified.
    unsummed_segment_count: int = 0
    # Damaged files that a broker has moved aside, and that nothing needs.
    set_aside_count: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, finding: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)


def check_log(
    directory: Path,
    hubs: Mapping[int, int],
    progress: Progress | None = None,
    *,
    names: Mapping[int, str] | None = None,
    reserved: Mapping[int, Sequence[int]] | None = None,
    last_dropped_hub: int | None = None,
) -> LogReport:
    """Check the log of these hubs: numbers, and how many partitions each has. The rest as for `EventLog.recover`."""
    report = LogReport()
    damages = DamageLog(is_quiet=True)
    damages.names.update(names or {})
    check = _Check(directory, hubs, report, progress or _no_progress, damages)
    check.run(reserved or {}, last_dropped_hub)
    for damage in damages.found:
        report.add(damage.sentence)
    return report


def _no_progress(what: str, done: int, total: int) -> None:
    """Nobody watches."""


class _Check:
    """One run."""

    def __init__(
        self, directory: Path, hubs: Mapping[int, int], report: LogReport, progress: Progress, damages: DamageLog
    ) -> None:
        self._directory = directory
        self._hubs = hubs
        self._report = report
        self._progress = progress
        self._damages = damages
        self._expects_marks = False

    def run(self, reserved: Mapping[int, Sequence[int]], last_dropped_hub: int | None) -> None:
        keys = [(hub_number, partition_id) for hub_number, count in self._hubs.items() for partition_id in range(count)]
        folders = {key: self._folder(partition_folder(self._directory, *key)) for key in keys}
        marks = read_marks(marks_path(self._directory))
        contents = Contents(self._hubs, folders, marks.partitions, self._damages)
        try:
            contents.add_journal(self._journal(marks))
        except StoreCorrupt as error:
            self._report.add(str(error))
        is_lost = not contents.has_frames and not marks.partitions and bool(reserved)
        if (is_lost or marks.partitions) and not self._directory.exists():
            self._damages.add_file(self._directory, "the folder is missing")
        self._marks(marks)
        for done, key in enumerate(keys):
            self._progress("partitions", done, len(keys))
            of_hub = reserved.get(key[0], ()) if is_lost else ()
            self._partition(contents.partition(*key, of_hub[key[1]] if key[1] < len(of_hub) else 0), folders[key])
        self._other_folders(last_dropped_hub)

    def _other_folders(self, last_dropped_hub: int | None) -> None:
        for path in self._directory.iterdir() if self._directory.exists() else ():
            if path.name == DAMAGED_NAME:
                self._report.set_aside_count = sum(1 for _ in path.iterdir())
            elif path.name.isdecimal() and int(path.name) not in self._hubs:
                if last_dropped_hub is None or int(path.name) <= last_dropped_hub:
                    self._report.leftover_count += 1
                else:
                    self._damages.add(
                        f"hub {path.name}", f"the folder {path.name} has events, and no table has the hub"
                    )

    def _marks(self, marks: FoundMarks) -> None:
        path = marks_path(self._directory)
        for fault in marks.faults:
            self._damages.add_file(path, fault)
        if not marks.is_there and self._expects_marks:
            self._damages.add_file(path, "the file is missing")

    # --- the journal ----------------------------------------------------------------------------------------

    def _journal(self, marks: FoundMarks) -> Iterator[Found]:
        """Every frame that is whole. What is wrong with the others is reported on the way."""
        scans = list(scan_journal(self._directory / JOURNAL_NAME, marks.journal, self._damages))
        for done, scan in enumerate(scans):
            self._progress("journal", done, len(scans))
            self._expects_marks = self._expects_marks or scan.has_marks
            if scan.is_torn_header:
                self._report.torn_bytes += scan.size_bytes
                continue
            if scan.salt is None:
                continue
            for found in scan.frames():
                if found.frame.kind == EVENTS:
                    self._record(scan.path, found)
                yield found
            if not scan.is_damaged:
                self._report.torn_bytes += scan.size_bytes - scan.end

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

    def _partition(self, partition: PartitionLog, found: ScannedFolder) -> None:
        for segment, path in found.orphans:
            if is_leftover(segment, partition):
                self._report.leftover_count += 1
            else:
                self._damages.add_file(path, "the .arrow file of the segment is missing")
        self._report.event_count += partition.next_sequence_number - partition.begin_sequence_number
        self._report.size_bytes += partition.size_bytes
        folder = partition_folder(self._directory, partition.hub_number, partition.partition_id)
        for segment in partition.segments:
            self._report.segment_count += 1
            self._segment(partition, segment, folder, is_half=segment.stem in found.halves)

    def _segment(self, partition: PartitionLog, segment: Segment, folder: Path, is_half: bool) -> None:
        path = segment.arrow_path(folder)
        key = (partition.hub_number, partition.partition_id)
        first = max(segment.first_sequence_number, partition.begin_sequence_number)
        try:
            opened = OpenSegment(segment, folder, self._damages)
        except EventsDamaged as error:
            self._damages.add_events(*key, first, segment.next_sequence_number, error.what)
            return
        except ArrowUnavailable as error:
            self._report.add(f"{path}: it was not looked into: {error}")
            return
        if not opened.has_sums and not segment.sums_path(folder).exists():
            self._report.unsummed_segment_count += 1
        faulty = opened.faulty_files()
        for suffix in faulty:
            if suffix != ".amqp" or not is_half:
                self._damages.add_file(path.with_suffix(suffix), "the checksum of the file is wrong")
        # Whatever the files are, every event is compared with its own checksum.
        lost = [] if is_half else opened.lost()
        for lost_first, lost_end in [*lost, *(opened.lost_columns() if faulty else [])]:
            if lost_end > first:
                what = f"they are damaged in {segment.stem}"
                self._damages.add_events(*key, max(first, lost_first), lost_end, what)
        if not faulty and not lost:
            for fault in _contradictions(opened, partition.partition_id):
                self._report.add(f"{path}: {fault}")


def _contradictions(opened: OpenSegment, partition_id: int) -> Iterator[str]:
    """What the files of a segment say differently. Its columns are made again from what readers over AMQP get."""
    from tandem.engine.hubs.rows import Rows
    from tandem.event_columns import public_batch
    from tandem.store.log.segments.survey import batch_of

    segment = opened.segment
    last_at_ms = segment.first_at_ms
    try:
        for start, row_count, message, _ in opened.batches(segment.first_sequence_number, segment.next_sequence_number):
            assert message is not None
            events = opened.read(start, row_count, 1 << 62).events
            rows = Rows(start)
            rows.fill(events, 0, row_count, 1 << 62)
            batch = batch_of(message)
            batch.validate(full=True)
            if not batch.equals(public_batch(rows, partition_id)):
                yield f"its columns from {start} on do not say what its .amqp file says"
            if start == segment.first_sequence_number and events[0].enqueued_at_ms != segment.first_at_ms:
                yield f"it begins at {events[0].enqueued_at_ms}, its name says otherwise"
            last_at_ms = events[-1].enqueued_at_ms
        if last_at_ms != segment.last_at_ms:
            yield f"it ends at {last_at_ms}, its name says otherwise"
    except Exception as error:
        # Whatever pyarrow makes of columns that contradict each other.
        yield f"it cannot be read: {error}"
