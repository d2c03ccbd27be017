"""The log of all event hubs of a namespace: young events in one journal, old ones in segments by partition.

    append ─ gathered ─▶ commit (another thread: one write, one fsync) ─▶ committed ─ indexed ─▶ read
                                                                              │
                                            maintain: tails that are long ─▶ sealer ─▶ segment ─▶ retention ─▶ gone

A commit runs alone, but for `read` and `snapshot`, which see only what was indexed. Whatever `maintain` and `drop_hub`
decide is written down by the next commit, and a file is deleted only after that: a crash brings back files, and never
takes one too many.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord
from tandem.errors import StoreFailed
from tandem.store.log.batch import Batch
from tandem.store.log.files import DiskFiles, Files
from tandem.store.log.frames import NEVER_MS, decode_record
from tandem.store.log.journal import Journal, Place
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.partition_log import PartitionLog
from tandem.store.log.partition_table import PartitionTable
from tandem.store.log.pins import Pins
from tandem.store.log.recovery import Contents, LogRecovery, PartitionRecord, ProducerRecord, segments_on_disk
from tandem.store.log.removal import Removal
from tandem.store.log.sealing import Sealer, SealerProcess, wait_for_sealer
from tandem.store.log.segment import Segment, partition_folder
from tandem.store.log.snapshot import RangeSnapshot, StoredRange, events_within
from tandem.store.log.upkeep import Retention, Upkeep

if TYPE_CHECKING:
    from tandem.store.log.open_segment import OpenSegment, OpenSegments

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
        self._journal = Journal(directory / JOURNAL_NAME, self._files, limits.rotate_bytes)
        self._table = PartitionTable(limits)
        self._removal = Removal(directory, self._files, self._pins, limits.deletions_at_once)
        self._batch = Batch(self._journal, self._table, self._removal)
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
        )
        # Made when the first segment is read: not before is pyarrow loaded.
        self._open_segments: OpenSegments | None = None
        self._kept_records: OrderedDict[Place, EventRecord] = OrderedDict()

    # --- a start --------------------------------------------------------------------------------------------

    def recover(self, hubs: Mapping[int, int]) -> LogRecovery:
        """What was committed, of the hubs that exist: numbers of hubs, and how many partitions each has."""
        try:
            self._files.make_folder(self._directory)
            wait_for_sealer(self._directory)
            folders = segments_on_disk(self._directory, hubs)
            contents = Contents(hubs, folders)
            contents.add_journal(self._journal.scan())
            for folder in folders.values():
                for path in folder.leftovers:
                    self._files.unlink(path)
        except OSError as error:
            raise StoreFailed(f"{self._directory} could not be read: {error}") from error
        self._table.last_hub_number = contents.last_hub_number
        for (producer_hub, producer_partition, _), mark in contents.producers.items():
            self._table.hear(producer_hub, producer_partition, mark)
        for hub_number, partitions in hubs.items():
            for partition_id in range(partitions):
                self._restore(contents.partition(hub_number, partition_id))
        for (hub_number, partition_id), folder in folders.items():
            self._remove_trimmed(self._table.get(hub_number, partition_id), folder.segments)
        for path in self._directory.iterdir():
            if path.name.isdecimal() and int(path.name) not in hubs:
                self._removal.add_hub(int(path.name))
                self._table.last_hub_number = max(self._table.last_hub_number, int(path.name))
        return LogRecovery(
            [_record_of(partition) for partition in self._table],
            [ProducerRecord(hub, partition, mark) for (hub, partition, _), mark in self._table.producers.items()],
            self._table.last_hub_number,
        )

    def _restore(self, partition: PartitionLog) -> None:
        for number in partition.tail.file_numbers:
            self._journal.files[number].live_count += 1
        self._table.put(partition)

    def _remove_trimmed(self, partition: PartitionLog, found: list[Segment]) -> None:
        """Segments that retention had taken, and whose files are still there."""
        folder = partition_folder(self._directory, partition.hub_number, partition.partition_id)
        for segment in found[: len(found) - len(partition.segments)]:
            self._removal.add((segment.arrow_path(folder), segment.amqp_path(folder)))

    # --- writing --------------------------------------------------------------------------------------------

    def append(self, records: Sequence[EventRecord]) -> None:
        """In the order of their numbers. Nothing is written before `commit`."""
        for record in records:
            self._batch.append(record)

    def drop_hub(self, hub_number: int) -> None:
        """Forget a hub. It is gone when this is committed; its files go in `sweep`."""
        self._batch.drop_hub(hub_number)
        if self._open_segments is not None:
            self._open_segments.forget_below(self._directory / str(hub_number))

    @property
    def has_uncommitted(self) -> bool:
        return not self._batch.is_empty

    def commit(self) -> None:
        """Write and sync. In another thread, while this one does nothing here but read."""
        self._journal.write()

    def committed(self) -> None:
        """After `commit`: what was appended can be read from now on."""
        self._batch.committed()

    # --- reading --------------------------------------------------------------------------------------------

    def read(
        self, hub_number: int, partition_id: int, from_sequence_number: int, limit: int, limit_bytes: int
    ) -> list[Event]:
        """Events from a number on, or from the first that is retained, without gaps: at least one if there is one."""
        partition = self._table.find(hub_number, partition_id)
        if partition is None:
            return []
        number = max(from_sequence_number, partition.begin_sequence_number)
        end = min(partition.next_sequence_number, number + limit)
        events: list[Event] = []
        left_bytes = limit_bytes
        while number < end:
            segment = partition.segment_with(number)
            if segment is not None:
                found = self._opened(partition, segment).read(number, end - number, left_bytes)
            else:
                record = self._record(partition.tail[partition.tail.index_of(number)].place)
                found = events_within(record, number, end)
            for event in found:
                left_bytes -= event.size_bytes
                if left_bytes < 0 and events:
                    return events
                events.append(event)
            number += len(found)
        return events

    def _opened(self, partition: PartitionLog, segment: Segment) -> OpenSegment:
        if self._open_segments is None:
            from tandem.store.log.open_segment import OpenSegments

            self._open_segments = OpenSegments(self._limits.open_segments)
        folder = partition_folder(self._directory, partition.hub_number, partition.partition_id)
        return self._open_segments.get(segment, folder)

    def _forget_segment(self, path: Path) -> None:
        if self._open_segments is not None:
            self._open_segments.forget(path)

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
                number = self._opened(partition, segment).find_time(at_ms)
            return max(number, partition.begin_sequence_number)
        index = partition.tail.index_from_time(at_ms)
        if index < len(partition.tail):
            return partition.tail[index].first_sequence_number
        return partition.next_sequence_number

    def snapshot(self, hub_number: int, partition_id: int, from_: int, to: int) -> RangeSnapshot:
        """What a partition holds of [from_, to) now, to be streamed in another thread. It must be closed."""
        partition = self._table.find(hub_number, partition_id) or PartitionLog(hub_number, partition_id)
        first = max(from_, partition.begin_sequence_number)
        end = min(to, partition.next_sequence_number)
        folder = partition_folder(self._directory, hub_number, partition_id)
        segments = partition.segments_within(first, end)
        records = partition.tail.within(first, end)
        pinned = {segment.arrow_path(folder) for segment in segments}
        pinned |= {self._journal.files[record.place.file_number].path for record in records}
        self._pins.take(pinned)
        stored = StoredRange(partition_id, folder, segments, records, self._read_record, self._limits)
        return RangeSnapshot(
            first,
            end,
            partition.begin_sequence_number,
            partition.next_sequence_number,
            stored.batches,
            lambda: self._pins.give_back(pinned),
        )

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
        self._sealer.close()
        self._journal.close()
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
