"""All partitions and idempotent producers of a log, and which tails are long enough to be sealed."""

from __future__ import annotations

from collections.abc import Iterator

from tandem.engine.hubs.record import ProducerMark
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.partitions.partition_log import PartitionLog

__all__ = ["PartitionTable"]


class PartitionTable:
    """By the number of the hub and the id of the partition."""

    def __init__(self, limits: LogLimits) -> None:
        self._limits = limits
        self._partitions: dict[tuple[int, int], PartitionLog] = {}
        # Those that were silent longest first.
        self.producers: dict[tuple[int, int, int], ProducerMark] = {}
        # Those whose tail is long, in the order in which that happened.
        self.long: dict[PartitionLog, None] = {}
        # Those with records that have proved to be damaged.
        self.damaged: dict[PartitionLog, None] = {}
        self.last_hub_number = 0

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self._partitions.values())

    def find(self, hub_number: int, partition_id: int) -> PartitionLog | None:
        return self._partitions.get((hub_number, partition_id))

    def get(self, hub_number: int, partition_id: int) -> PartitionLog:
        """The partition, made if there is none."""
        partition = self._partitions.get((hub_number, partition_id))
        if partition is None:
            partition = PartitionLog(hub_number, partition_id)
            self.put(partition)
        return partition

    def put(self, partition: PartitionLog) -> None:
        self._partitions[partition.hub_number, partition.partition_id] = partition
        self.last_hub_number = max(self.last_hub_number, partition.hub_number)
        self.judge(partition)

    def judge(self, partition: PartitionLog) -> None:
        """Whether its tail is long, after it grew or shrank."""
        tail = partition.tail
        if tail.size_bytes >= self._limits.seal_bytes or tail.event_count >= self._limits.seal_events:
            self.long.setdefault(partition)
        else:
            self.long.pop(partition, None)

    def hear(self, hub_number: int, partition_id: int, mark: ProducerMark) -> None:
        """An idempotent producer has sent something."""
        key = (hub_number, partition_id, mark.producer_id)
        self.producers.pop(key, None)
        self.producers[key] = mark
        if len(self.producers) > self._limits.producers:
            del self.producers[next(iter(self.producers))]

    def drop(self, hub_number: int) -> list[PartitionLog]:
        """All partitions of a hub are gone."""
        dropped = [partition for partition in self if partition.hub_number == hub_number]
        for partition in dropped:
            del self._partitions[hub_number, partition.partition_id]
            self.long.pop(partition, None)
            self.damaged.pop(partition, None)
        for key in [key for key in self.producers if key[0] == hub_number]:
            del self.producers[key]
        self.last_hub_number = max(self.last_hub_number, hub_number)
        return dropped
