"""What the next commit makes true: frames for the journal, and what follows for the index when they are on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tandem.engine.hubs.record import EventRecord
from tandem.errors import StoreFailed
from tandem.store.log.damage_log import EventsDamaged
from tandem.store.log.journal.frames import (
    EVENTS,
    HUB_DROPPED,
    POSITION,
    PRODUCER,
    Position,
    encode_hub_dropped,
    encode_position,
    encode_producer,
    encode_record,
)
from tandem.store.log.journal.journal import Journal, Place
from tandem.store.log.partitions.partition_log import PartitionLog
from tandem.store.log.partitions.partition_table import PartitionTable
from tandem.store.log.upkeep.removal import Removal

__all__ = ["Batch"]


class Batch:
    """Gathered on the event loop, written in another thread, and made known on the event loop again."""

    def __init__(
        self,
        journal: Journal,
        table: PartitionTable,
        removal: Removal,
        on_lost: Callable[[PartitionLog, int, str], None],
        on_dropped: Callable[[list[PartitionLog]], None],
    ) -> None:
        """`on_lost` hears of a record that proves to be damaged, `on_dropped` of partitions that are gone."""
        self._journal = journal
        self._table = table
        self._removal = removal
        self._on_lost = on_lost
        self._on_dropped = on_dropped
        # Records, and where they will lie; old ones that will lie in another place.
        self._appended: list[tuple[PartitionLog, EventRecord, Place]] = []
        self._carried: list[tuple[PartitionLog, int, Place]] = []
        self._dropped_hubs: list[int] = []
        # What is needed until it is on disk that it is not.
        self._released: list[int] = []
        self._doomed: list[Path] = []
        self._trimmed: list[PartitionLog] = []
        # Partitions whose positions change.
        self._moved: dict[PartitionLog, None] = {}

    def take_positions(self) -> list[Position]:
        """Where the partitions stand that have grown or begin later: what a commit has to mark, once."""
        moved, self._moved = self._moved, {}
        return [
            Position(
                one.hub_number, one.partition_id, one.begin_sequence_number, one.next_appended, one.last_enqueued_at_ms
            )
            for one in moved
        ]

    @property
    def is_empty(self) -> bool:
        return not self._journal.has_gathered

    # --- gathering ------------------------------------------------------------------------------------------

    def append(self, record: EventRecord) -> None:
        self._begin()
        partition = self._table.get(record.hub_number, record.partition_id)
        if record.first_sequence_number != partition.next_appended:
            raise StoreFailed(
                f"hub {record.hub_number}, partition {record.partition_id}: an event was to be appended with the "
                f"number {record.first_sequence_number}, the next is {partition.next_appended}"
            )
        partition.next_appended = record.next_sequence_number
        self._moved[partition] = None
        place = self._journal.gather(EVENTS, encode_record(record), record.payload)
        self._appended.append((partition, record, place))

    def carry(self, partition: PartitionLog) -> None:
        """Write the whole tail of a partition again, so that the old places are not needed any more."""
        self._begin()
        partition.is_carrying = True
        for record in partition.tail:
            try:
                buffer, frame = self._journal.read(record.place)
            except EventsDamaged as error:
                self._on_lost(partition, record.first_sequence_number, error.what)
                continue
            place = self._journal.gather(EVENTS, buffer[frame.body_at : frame.end])
            self._carried.append((partition, record.first_sequence_number, place))

    def trim(self, partition: PartitionLog, released: list[int], doomed: list[Path]) -> None:
        """A partition begins later now. Files that only older events need are needed until this is on disk."""
        self._begin()
        self._journal.gather(POSITION, encode_position(partition.position))
        partition.is_trimming = True
        self._moved[partition] = None
        self._trimmed.append(partition)
        self._released += released
        self._doomed += doomed

    def drop_hub(self, hub_number: int) -> None:
        self._begin()
        self._journal.gather(HUB_DROPPED, encode_hub_dropped(hub_number))
        self._dropped_hubs.append(hub_number)

    def _begin(self) -> None:
        """A new file begins with everything that is not events, so that older ones can go with theirs."""
        if self._journal.has_gathered or not self._journal.is_full:
            return
        self._journal.rotate()
        self._journal.gather(HUB_DROPPED, encode_hub_dropped(self._table.last_hub_number))
        for partition in self._table:
            self._journal.gather(POSITION, encode_position(partition.position))
        for (hub_number, partition_id, _), mark in self._table.producers.items():
            self._journal.gather(PRODUCER, encode_producer(hub_number, partition_id, mark))

    # --- once it is on disk ---------------------------------------------------------------------------------

    def committed(self) -> None:
        self._index()
        for partition, first_sequence_number, place in self._carried:
            partition.is_carrying = False
            old_number = partition.tail.move(first_sequence_number, place)
            if old_number is not None:
                self._journal.files[place.file_number].live_count += 1
                self._journal.release([old_number])
        self._journal.release(self._released)
        self._removal.add(self._doomed)
        for partition in self._trimmed:
            partition.is_trimming = False
        for hub_number in self._dropped_hubs:
            dropped = self._table.drop(hub_number)
            for partition in dropped:
                self._journal.release(partition.tail.file_numbers)
            self._on_dropped(dropped)
            self._removal.add_hub(hub_number)
        self._appended = []
        self._carried = []
        self._released = []
        self._doomed = []
        self._trimmed = []
        self._dropped_hubs = []

    def _index(self) -> None:
        grown: dict[PartitionLog, None] = {}
        for partition, record, place in self._appended:
            partition.append(record, place)
            grown[partition] = None
            if record.producer is not None:
                self._table.hear(record.hub_number, record.partition_id, record.producer)
        for partition in grown:
            self._table.judge(partition)
        if self._appended:
            # A batch goes into one file.
            self._journal.files[self._appended[0][2].file_number].live_count += len(self._appended)
