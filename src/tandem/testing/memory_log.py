"""The log of event hubs in memory, for tests and simulations."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord, ProducerMark
from tandem.errors import StoreFailed
from tandem.store.damage import Damage
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.recovery import LogRecovery, PartitionRecord, ProducerRecord
from tandem.store.log.snapshot import RangeSnapshot, events_within
from tandem.store.log.upkeep.upkeep import Retention

__all__ = ["MemoryLog"]


class _MemoryPartition:
    """Records in the order of their numbers, without gaps."""

    __slots__ = (
        "begin_sequence_number",
        "last_enqueued_at_ms",
        "next_appended",
        "next_sequence_number",
        "records",
        "size_bytes",
    )

    def __init__(self) -> None:
        self.begin_sequence_number = 0
        self.next_sequence_number = 0
        self.next_appended = 0
        self.last_enqueued_at_ms: int | None = None
        self.size_bytes = 0
        self.records: list[EventRecord] = []

    def add(self, record: EventRecord) -> None:
        self.records.append(record)
        self.next_sequence_number = record.next_sequence_number
        self.last_enqueued_at_ms = record.enqueued_at_ms
        self.size_bytes += record.size_bytes

    def from_number(self, sequence_number: int) -> int:
        """The index of the record that holds an event, or of the first."""
        return max(0, bisect_right(self.records, sequence_number, key=_first) - 1)

    def trim(self, before_ms: int | None, above_bytes: int | None) -> bool:
        """Whether something had to go: what is too old, and what is too much unless it is the youngest."""
        count = 0
        for index, record in enumerate(self.records):
            is_old = before_ms is not None and record.enqueued_at_ms < before_ms
            is_much = above_bytes is not None and self.size_bytes > above_bytes and index < len(self.records) - 1
            if not is_old and not is_much:
                break
            self.size_bytes -= record.size_bytes
            self.begin_sequence_number = record.next_sequence_number
            count += 1
        del self.records[:count]
        return bool(count)


class MemoryLog:
    """What `EventLog` promises, for as long as the object lives. `revert` is a crash: the uncommitted is gone."""

    def __init__(self, limits: LogLimits = LogLimits()) -> None:  # noqa: B008 # frozen
        self._limits = limits
        self._partitions: dict[tuple[int, int], _MemoryPartition] = {}
        self._producers: dict[tuple[int, int, int], ProducerMark] = {}
        self._last_hub_number = 0
        # Appended; then committed and not made known yet. The same for hubs that were dropped.
        self._gathered: list[EventRecord] = []
        self._written: list[EventRecord] = []
        self._dropped_hubs: list[int] = []
        self._written_drops: list[int] = []

    def recover(
        self,
        hubs: Mapping[int, int],
        *,
        names: Mapping[int, str] | None = None,
        reserved: Mapping[int, Sequence[int]] | None = None,
        last_dropped_hub: int | None = None,
    ) -> LogRecovery:
        self.revert()
        for hub_number in {hub_number for hub_number, _ in self._partitions} - set(hubs):
            self._drop(hub_number)
        for hub_number, partitions in hubs.items():
            self._last_hub_number = max(self._last_hub_number, hub_number)
            for partition_id in range(partitions):
                self._partition(hub_number, partition_id)
        return LogRecovery(
            [self._record_of(hub_number, partition_id) for hub_number, partition_id in self._partitions],
            [ProducerRecord(hub, partition, mark) for (hub, partition, _), mark in self._producers.items()],
            self._last_hub_number,
        )

    def _partition(self, hub_number: int, partition_id: int) -> _MemoryPartition:
        return self._partitions.setdefault((hub_number, partition_id), _MemoryPartition())

    def _record_of(self, hub_number: int, partition_id: int) -> PartitionRecord:
        partition = self._partition(hub_number, partition_id)
        return PartitionRecord(
            hub_number,
            partition_id,
            partition.begin_sequence_number,
            partition.next_sequence_number,
            partition.last_enqueued_at_ms,
            partition.size_bytes,
        )

    # --- writing --------------------------------------------------------------------------------------------

    def append(self, records: Sequence[EventRecord]) -> None:
        for record in records:
            partition = self._partition(record.hub_number, record.partition_id)
            if record.first_sequence_number != partition.next_appended:
                raise StoreFailed(
                    f"hub {record.hub_number}, partition {record.partition_id}: an event was to be appended with the "
                    f"number {record.first_sequence_number}, the next is {partition.next_appended}"
                )
            partition.next_appended = record.next_sequence_number
            self._gathered.append(record)

    def name_hub(self, hub_number: int, name: str) -> None:
        """There is nothing to report of it."""

    def drop_hub(self, hub_number: int) -> None:
        self._dropped_hubs.append(hub_number)

    def unreserved(self) -> dict[int, list[int]]:
        """Nothing is lost here."""
        return {}

    @property
    def damages(self) -> list[Damage]:
        return []

    @property
    def has_uncommitted(self) -> bool:
        return bool(self._gathered or self._dropped_hubs)

    @property
    def has_more_to_seal(self) -> bool:
        """Nothing is sealed here."""
        return False

    def commit(self) -> None:
        self._written += self._gathered
        self._written_drops += self._dropped_hubs
        self._gathered = []
        self._dropped_hubs = []

    def committed(self) -> None:
        for record in self._written:
            self._partition(record.hub_number, record.partition_id).add(record)
            self._last_hub_number = max(self._last_hub_number, record.hub_number)
            if record.producer is not None:
                self._hear(record.hub_number, record.partition_id, record.producer)
        for hub_number in self._written_drops:
            self._drop(hub_number)
        self._written = []
        self._written_drops = []

    def revert(self) -> None:
        """Forget what was not committed."""
        self._gathered = []
        self._dropped_hubs = []
        self.committed()
        for partition in self._partitions.values():
            partition.next_appended = partition.next_sequence_number

    def _hear(self, hub_number: int, partition_id: int, mark: ProducerMark) -> None:
        key = (hub_number, partition_id, mark.producer_id)
        self._producers.pop(key, None)
        self._producers[key] = mark
        if len(self._producers) > self._limits.producers:
            del self._producers[next(iter(self._producers))]

    def _drop(self, hub_number: int) -> None:
        self._last_hub_number = max(self._last_hub_number, hub_number)
        for key in [key for key in self._partitions if key[0] == hub_number]:
            del self._partitions[key]
        for producer in [key for key in self._producers if key[0] == hub_number]:
            del self._producers[producer]

    # --- reading --------------------------------------------------------------------------------------------

    def read(
        self, hub_number: int, partition_id: int, from_sequence_number: int, limit: int, limit_bytes: int
    ) -> list[Event]:
        partition = self._partition(hub_number, partition_id)
        number = max(from_sequence_number, partition.begin_sequence_number)
        events: list[Event] = []
        left_bytes = limit_bytes
        for record in partition.records[partition.from_number(number) :]:
            for event in events_within(record, number, number + limit):
                left_bytes -= event.size_bytes
                if left_bytes < 0 and events:
                    return events
                events.append(event)
            if record.next_sequence_number >= number + limit:
                break
        return events

    def find_time(self, hub_number: int, partition_id: int, at_ms: int) -> int:
        partition = self._partition(hub_number, partition_id)
        index = bisect_left(partition.records, at_ms, key=_time)
        if index == len(partition.records):
            return partition.next_sequence_number
        return partition.records[index].first_sequence_number

    def snapshot(self, hub_number: int, partition_id: int, from_: int, to: int) -> RangeSnapshot:
        partition = self._partition(hub_number, partition_id)
        first = max(from_, partition.begin_sequence_number)
        records = partition.records[partition.from_number(first) :]

        def messages(first: int, end: int) -> Iterator[bytes]:
            from tandem.store.log.segments.event_batches import batches_of

            found = (events_within(record, first, end) for record in records)
            for batch in batches_of(found, partition_id, self._limits):
                yield batch.serialize().to_pybytes()

        def heads(first: int, end: int) -> Iterator[bytes]:
            from tandem.store.log.segments.event_batches import head_batches_of

            found = (events_within(record, first, end) for record in records)
            for batch in head_batches_of(found, self._limits):
                yield batch.serialize().to_pybytes()

        return RangeSnapshot(
            first,
            min(to, partition.next_sequence_number),
            partition.begin_sequence_number,
            partition.next_sequence_number,
            messages,
            heads,
            records.clear,
            [],
        )

    def size_bytes(self, hub_number: int, partition_id: int) -> int:
        return self._partition(hub_number, partition_id).size_bytes

    # --- upkeep ---------------------------------------------------------------------------------------------

    def maintain(self, now_ms: int, retention: Retention) -> list[tuple[int, int, int]]:
        moved: list[tuple[int, int, int]] = []
        for (hub_number, partition_id), partition in self._partitions.items():
            retention_ms, retention_bytes = retention.get(hub_number, (None, None))
            if partition.trim(None if retention_ms is None else now_ms - retention_ms, retention_bytes):
                moved.append((hub_number, partition_id, partition.begin_sequence_number))
        return moved

    def sweep(self) -> bool:
        return False

    def close(self) -> None:
        """There is nothing to let go of."""


def _first(record: EventRecord) -> int:
    return record.first_sequence_number


def _time(record: EventRecord) -> int:
    return record.enqueued_at_ms
