"""The log of all event hubs of a namespace: young events in one journal, old ones in segments by partition.

    append ─ gathered ─▶ commit (another thread: one write, one fsync) ─▶ committed ─ indexed ─▶ read
                                                                              │
                                            maintain: tails that are long ─▶ sealer ─▶ segment ─▶ retention ─▶ gone

A commit runs alone, but for `read` and `snapshot`, which see only what was indexed. Whatever `maintain` and `drop_hub`
decide is written down by the next commit, and a file is deleted only after that: a crash brings back files, and never
takes one too many.

Damage never ends a read: events that are gone or damaged are reported, and readers get the next one that there is.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord
from tandem.errors import StoreFailed
from tandem.limits import MAX_MISSING_RANGES
from tandem.store.damage import Damage
from tandem.store.log.damage_log import DamageLog, EventsDamaged
from tandem.store.log.files import DiskFiles, Files
from tandem.store.log.journal.batch import Batch
from tandem.store.log.journal.frames import NEVER_MS, decode_record
from tandem.store.log.journal.journal import Journal, Place
from tandem.store.log.journal.marks import FoundMarks, Marks, marks_path, read_marks
from tandem.store.log.journal.reservations import Reservations
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.partitions.partition_log import PartitionLog
from tandem.store.log.partitions.partition_table import PartitionTable
from tandem.store.log.recovery import (
    Contents,
    LogRecovery,
    PartitionRecord,
    ProducerRecord,
    ScannedFolder,
    is_leftover,
    segments_on_disk,
)
from tandem.store.log.sealing.sealer import Sealer, SealerProcess, wait_for_sealer
from tandem.store.log.segments.segment import Segment, Verified, partition_folder
from tandem.store.log.snapshot import RangeSnapshot, StoredRange, events_within
from tandem.store.log.upkeep.pins import Pins
from tandem.store.log.upkeep.removal import Removal
from tandem.store.log.upkeep.scrub import Scrub
from tandem.store.log.upkeep.upkeep import Retention, Upkeep

if TYPE_CHECKING:
    from tandem.store.log.segments.open_segment import OpenSegment, OpenSegments

__all__ = ["JOURNAL_NAME", "EventLog"]

# The folder of the journal. Beside it lie those of the hubs, named by their numbers.
JOURNAL_NAME: Final = "journal"

# Records of the journal that stay taken apart, for a reader that asks for some events of a large one at a time.
_KEPT_RECORDS: Final = 8


class EventLog:
    """Below a folder of its own. `recover` comes first."""

    def __init__(
        self,
        directory: Path,
        *,
        limits: LogLimits = LogLimits(),  # noqa: B008 # frozen
        files: Files | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self._directory = directory
        self._limits = limits
        self._files: Files = DiskFiles() if files is None else files
        self._sealer: Sealer = SealerProcess(directory) if sealer is None else sealer
        self._pins = Pins()
        self._damages = DamageLog()
        self._marks = Marks(marks_path(directory), self._files)
        self._journal = Journal(directory / JOURNAL_NAME, self._files, limits.rotate_bytes, self._damages)
        self._table = PartitionTable(limits)
        self._removal = Removal(directory, self._files, self._pins, limits.deletions_at_once)
        self._batch = Batch(self._journal, self._table, self._removal, self._lose_record, self._on_dropped)
        self._reservations = Reservations(self._table)
        self._upkeep = Upkeep(
            directory,
            self._journal,
            self._table,
            self._batch,
            self._sealer,
            self._files,
            self._pins,
            limits,
            self._forget_segment,
            self._lose_record,
            self._marks.forget,
        )
        self._scrub = Scrub(directory, self._table, self._pins, self._damages, limits, self._note_lost)
        # Made when the first segment is read: not before is pyarrow loaded.
        self._open_segments: OpenSegments | None = None
        self._kept_records: OrderedDict[Place, EventRecord] = OrderedDict()
        # Events that other threads found to be damaged: partition, range, and whether only readers over AMQP lose them.
        self._verified: Verified = {}
        self._found_lost: deque[tuple[PartitionLog, int, int, str, bool]] = deque()

    # --- a start --------------------------------------------------------------------------------------------

    def recover(
        self,
        hubs: Mapping[int, int],
        *,
        names: Mapping[int, str] | None = None,
        reserved: Mapping[int, Sequence[int]] | None = None,
        last_dropped_hub: int | None = None,
    ) -> LogRecovery:
        """What was committed, of the hubs that exist: numbers of hubs, and how many partitions each has.

        `reserved` says below which numbers all events are of the partitions of a hub, by what the tables know, and
        `last_dropped_hub` the highest number that a deleted hub had: folders above it are not deleted.
        """
        self._damages.names.update(names or {})
        self._reservations.restore(reserved or {})
        try:
            is_there = self._directory.exists()
            self._files.make_folder(self._directory)
            wait_for_sealer(self._directory)
            marks = read_marks(self._marks.path)
            folders = segments_on_disk(self._directory, hubs)
            contents = Contents(hubs, folders, marks.partitions, self._damages)
            contents.add_journal(self._journal.scan(marks.journal))
            is_lost = not contents.has_frames and not marks.partitions and bool(reserved)
            if (is_lost or marks.partitions) and not is_there:
                self._damages.add_file(self._directory, "the folder is missing")
            self._restore(contents, hubs, (reserved or {}) if is_lost else {})
            self._remove_leftovers(folders)
            self._remove_dropped(hubs, last_dropped_hub)
            self._begin_marks(marks, contents.has_frames or is_lost)
        except OSError as error:
            raise StoreFailed(f"{self._directory} could not be read: {error}") from error
        return LogRecovery(
            [_record_of(partition) for partition in self._table],
            [ProducerRecord(hub, partition, mark) for (hub, partition, _), mark in self._table.producers.items()],
            self._table.last_hub_number,
        )

    def _restore(self, contents: Contents, hubs: Mapping[int, int], reserved: Mapping[int, Sequence[int]]) -> None:
        self._table.last_hub_number = contents.last_hub_number
        for hub_number, partitions in hubs.items():
            for partition_id in range(partitions):
                of_hub = reserved.get(hub_number, ())
                number = of_hub[partition_id] if partition_id < len(of_hub) else 0
                partition = contents.partition(hub_number, partition_id, number)
                for file_number in partition.tail.file_numbers:
                    self._journal.files[file_number].live_count += 1
                self._table.put(partition)
        for (producer_hub, producer_partition, _), mark in contents.producers.items():
            self._table.hear(producer_hub, producer_partition, mark)

    def _remove_leftovers(self, folders: Mapping[tuple[int, int], ScannedFolder]) -> None:
        """Remove what a crash left of segments that were being made or deleted. Whatever may be needed stays."""
        for (hub_number, partition_id), found in folders.items():
            partition = self._table.get(hub_number, partition_id)
            begin = partition.begin_sequence_number
            for path in found.leftovers:
                self._files.unlink(path)
            for segment, path in found.orphans:
                if is_leftover(segment, partition):
                    self._files.unlink(path)
                else:
                    self._damages.add_file(path, "the .arrow file of the segment is missing")
            folder = partition_folder(self._directory, hub_number, partition_id)
            for segment in found.segments:
                if segment.next_sequence_number <= begin:
                    self._removal.add(segment.paths(folder))

    def _remove_dropped(self, hubs: Mapping[int, int], last_dropped_hub: int | None) -> None:
        for path in self._directory.iterdir():
            if not path.name.isdecimal() or int(path.name) in hubs:
                continue
            number = int(path.name)
            self._table.last_hub_number = max(self._table.last_hub_number, number)
            if last_dropped_hub is None or number <= last_dropped_hub:
                self._removal.add_hub(number)
            else:
                self._damages.add(f"hub {number}", f"the folder {path.name} has events, and no table has the hub")

    def _begin_marks(self, found: FoundMarks, has_events: bool) -> None:
        """Write the marks anew, but for a log that never had an event. Damaged ones are kept under another name."""
        for fault in found.faults:
            self._damages.add_file(self._marks.path, fault)
        if found.faults:
            self._marks.set_aside()
        elif not found.is_there and self._journal.expects_marks:
            self._damages.add_file(self._marks.path, "the file is missing, and is made anew")
        if has_events or found.is_there:
            positions = [partition.position for partition in self._table]
            self._marks.begin([file.mark for file in self._journal.files.values()], positions)

    @property
    def damages(self) -> list[Damage]:
        """What is damaged or missing, the files first, then the events by their numbers."""
        return self._damages.found

    # --- writing --------------------------------------------------------------------------------------------

    def append(self, records: Sequence[EventRecord]) -> None:
        """In the order of their numbers. Nothing is written before `commit`."""
        for record in records:
            self._batch.append(record)

    def name_hub(self, hub_number: int, name: str) -> None:
        """Call a hub by its name in reports."""
        self._damages.names[hub_number] = name

    def drop_hub(self, hub_number: int) -> None:
        """Forget a hub. It is gone when this is committed; its files go in `sweep`."""
        self._batch.drop_hub(hub_number)
        if self._open_segments is not None:
            self._open_segments.forget_below(self._directory / str(hub_number))
        for path in [path for path in list(self._verified) if self._directory / str(hub_number) in path.parents]:
            self._verified.pop(path, None)

    @property
    def has_uncommitted(self) -> bool:
        return not self._batch.is_empty

    def commit(self) -> None:
        """Write and sync. In another thread, while this one does nothing here but read."""
        self._journal.write()
        positions = self._batch.take_positions()
        self._marks.note(self._journal.last_mark, positions)
        self._reservations.note(positions)

    def unreserved(self) -> dict[int, list[int]]:
        """After `commit`: by hub, the numbers that the tables have to know before more is acknowledged."""
        return self._reservations.due()

    def reserved(self, blocks: Mapping[int, list[int]]) -> None:
        """The tables know them."""
        self._reservations.reserved(blocks)

    def committed(self) -> None:
        """After `commit`: what was appended can be read from now on."""
        self._batch.committed()

    # --- reading --------------------------------------------------------------------------------------------

    def read(
        self, hub_number: int, partition_id: int, from_sequence_number: int, limit: int, limit_bytes: int
    ) -> list[Event]:
        """Events from a number on, or from the first that is retained: at least one if there is one.

        There are no gaps between them but those of events that are lost.
        """
        self._take_found()
        partition = self._table.find(hub_number, partition_id)
        if partition is None:
            return []
        number = max(from_sequence_number, partition.begin_sequence_number)
        events: list[Event] = []
        left_bytes = limit_bytes
        while len(events) < limit:
            number = partition.missing.next_outside(number)
            if number >= partition.next_sequence_number:
                break
            found, number = self._read(partition, number, limit - len(events), left_bytes)
            for event in found:
                left_bytes -= event.size_bytes
                if left_bytes < 0 and events:
                    return events
                events.append(event)
        return events

    def _read(self, partition: PartitionLog, number: int, limit: int, limit_bytes: int) -> tuple[list[Event], int]:
        """Some events from this number on, from one place, and the number to go on with."""
        end = partition.missing.end_before(number, number + limit)
        segment = partition.segment_with(number)
        if segment is not None:
            return self._read_segment(partition, segment, number, end - number, limit_bytes)
        at = partition.tail.index_of(number)
        record = partition.tail[at]
        behind = record.first_sequence_number + record.event_count
        try:
            found = events_within(self._record(record.place), number, end)
        except EventsDamaged as error:
            self._lose_record(partition, record.first_sequence_number, error.what)
            return [], behind
        return found, number + len(found)

    def _read_segment(
        self, partition: PartitionLog, segment: Segment, number: int, limit: int, limit_bytes: int
    ) -> tuple[list[Event], int]:
        try:
            opened = self._opened(partition, segment)
        except EventsDamaged as error:
            end = segment.next_sequence_number
            self._lose(partition, number, end, error.what)
            return [], end
        portion = opened.read(number, limit, limit_bytes)
        for first, end in portion.lost:
            # Whether readers of columns have lost them too is found out when one comes by.
            self._lose(partition, first, end, f"they are damaged in {segment.stem}", is_for_all=False)
        return portion.events, portion.next_sequence_number

    # --- damage ---------------------------------------------------------------------------------------------

    def _lose(self, partition: PartitionLog, first: int, end: int, what: str, *, is_for_all: bool = True) -> None:
        """Events are gone. They are reported once."""
        is_new = partition.missing.add(first, end)
        if is_for_all:
            is_new = partition.missing_columns.add(first, end) or is_new
        if is_new:
            self._damages.add_events(partition.hub_number, partition.partition_id, first, end, what)

    def _lose_record(self, partition: PartitionLog, first_sequence_number: int, what: str) -> None:
        """A record of the journal is damaged. Its file is kept."""
        record = partition.tail[partition.tail.index_of(first_sequence_number)]
        if record.first_sequence_number != first_sequence_number:
            return
        self._journal.files[record.place.file_number].is_damaged = True
        self._lose(partition, first_sequence_number, first_sequence_number + record.event_count, what)
        partition.lost_records.add(first_sequence_number)
        self._table.damaged[partition] = None

    def _note_lost(self, partition: PartitionLog, first: int, end: int, what: str, is_for_all: bool) -> None:
        """In any thread: events are damaged."""
        self._found_lost.append((partition, first, end, what, is_for_all))

    def _take_found(self) -> None:
        while self._found_lost:
            partition, first, end, what, is_for_all = self._found_lost.popleft()
            first = max(first, partition.begin_sequence_number)
            if first < end:
                self._lose(partition, first, end, what, is_for_all=is_for_all)

    def _on_dropped(self, partitions: list[PartitionLog]) -> None:
        self._marks.forget([(partition.hub_number, partition.partition_id) for partition in partitions])
        for partition in partitions:
            self._reservations.forget(partition.hub_number)

    def _opened(self, partition: PartitionLog, segment: Segment) -> OpenSegment:
        if self._open_segments is None:
            from tandem.store.log.segments.open_segment import OpenSegments

            self._open_segments = OpenSegments(self._limits.open_segments, self._damages)
        folder = partition_folder(self._directory, partition.hub_number, partition.partition_id)
        return self._open_segments.get(segment, folder)

    def _forget_segment(self, path: Path) -> None:
        if self._open_segments is not None:
            self._open_segments.forget(path)
        self._verified.pop(path, None)

    def _record(self, place: Place) -> EventRecord:
        record = self._kept_records.pop(place, None)
        if record is None:
            record = self._read_record(place)
            if len(self._kept_records) >= _KEPT_RECORDS:
                self._kept_records.popitem(last=False)
        self._kept_records[place] = record
        return record

    def _read_record(self, place: Place) -> EventRecord:
        return decode_record(*self._journal.read(place))

    def find_time(self, hub_number: int, partition_id: int, at_ms: int) -> int:
        """The number of the first event that was enqueued then or later, or of the next one to come."""
        partition = self._table.find(hub_number, partition_id)
        if partition is None:
            return 0
        segment = partition.segment_from_time(at_ms)
        if segment is not None:
            if segment.first_at_ms >= at_ms:
                number = segment.first_sequence_number
            else:
                number = segment.next_sequence_number
                # If nothing of the segment can be read, its times are as good as those of its name.
                with contextlib.suppress(EventsDamaged):
                    number = self._opened(partition, segment).find_time(at_ms)
            return max(number, partition.begin_sequence_number)
        index = partition.tail.index_from_time(at_ms)
        if index < len(partition.tail):
            return partition.tail[index].first_sequence_number
        return partition.next_sequence_number

    def snapshot(self, hub_number: int, partition_id: int, from_: int, to: int) -> RangeSnapshot:
        """What a partition holds of [from_, to) now, to be streamed in another thread. It must be closed."""
        self._take_found()
        partition = self._table.find(hub_number, partition_id) or PartitionLog(hub_number, partition_id)
        first = max(from_, partition.begin_sequence_number)
        end = min(to, partition.next_sequence_number)
        folder = partition_folder(self._directory, hub_number, partition_id)
        segments = partition.segments_within(first, end)
        records = partition.tail.within(first, end)
        pinned = {path for segment in segments for path in segment.paths(folder)}
        pinned |= {self._journal.files[record.place.file_number].path for record in records}
        self._pins.take(pinned)
        missing = partition.missing_columns.within(first, end)
        stored = StoredRange(
            partition_id,
            folder,
            segments,
            records,
            self._read_record,
            self._limits,
            missing,
            self._damages,
            self._verified,
            lambda first, end, what: self._note_lost(partition, first, end, what, True),
        )
        return RangeSnapshot(
            first,
            end,
            partition.begin_sequence_number,
            partition.next_sequence_number,
            stored.messages,
            stored.heads,
            lambda: self._pins.give_back(pinned),
            missing,
        )

    def end_of_bulk_read(self, hub_number: int, partition_id: int, first: int, end: int) -> int:
        """Where a bulk read has to end so that the list of its missing events fits into the head of an answer."""
        self._take_found()
        partition = self._table.find(hub_number, partition_id)
        missing = [] if partition is None else partition.missing_columns.within(first, end)
        return missing[MAX_MISSING_RANGES - 1][1] if len(missing) > MAX_MISSING_RANGES else end

    def size_bytes(self, hub_number: int, partition_id: int) -> int:
        """Of all payloads of a partition that are retained."""
        partition = self._table.find(hub_number, partition_id)
        return 0 if partition is None else partition.size_bytes

    # --- upkeep ---------------------------------------------------------------------------------------------

    @property
    def has_more_to_seal(self) -> bool:
        """Whether `maintain` is worth calling soon."""
        return self._upkeep.has_more_to_seal

    def maintain(self, now_ms: int, retention: Retention) -> list[tuple[int, int, int]]:
        """A little of what has to be done now and then. Hub, partition and begin of those that begin later now.

        It may leave something to commit.
        """
        self._take_found()
        self._scrub.run(now_ms)
        moved = self._upkeep.run(now_ms, retention)
        self._removal.run()
        return moved

    def sweep(self) -> bool:
        """Delete some files of dropped hubs. True if there are more."""
        return self._removal.sweep(self._upkeep.busy_hub)

    @property
    def index_bytes(self) -> int:
        """What the index of young records takes in memory: the only part that grows with the number of records."""
        return sum(partition.tail.memory_bytes for partition in self._table)

    def close(self) -> None:
        """Everything was committed."""
        self._scrub.close()
        self._sealer.close()
        self._journal.close()
        self._marks.close()
        self._open_segments = None


def _record_of(partition: PartitionLog) -> PartitionRecord:
    position = partition.position
    return PartitionRecord(
        position.hub_number,
        position.partition_id,
        position.begin_sequence_number,
        position.next_sequence_number,
        None if position.last_enqueued_at_ms == NEVER_MS else position.last_enqueued_at_ms,
        partition.size_bytes,
    )
