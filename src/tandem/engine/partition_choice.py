"""The one partition of each partitioned entity that a transaction is about.

An entity keeps its partitions apart, in the service by brokers of their own: what happens together happens in one of
them. So all operations of a transaction on one entity name the same partition, most by its key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.intake import Draft, partition_of, via_partition_key_of
from tandem.errors import NotAllowed, Scope

if TYPE_CHECKING:
    from tandem.engine.queue import Queue

__all__ = ["PartitionChoice"]

# The service's words.
_SPANS_PARTITIONS: Final = "Local transactions cannot span multiple entities or partitions."


class PartitionChoice:
    """A partition for each entity, and the key that chose it if that is known."""

    __slots__ = ("_by_entity",)

    def __init__(self) -> None:
        self._by_entity: dict[Queue, tuple[int, str | None]] = {}

    def copy(self) -> PartitionChoice:
        """Return a choice to go on with, so that this one stays as it is if the next operation is refused."""
        choice = PartitionChoice()
        choice._by_entity = dict(self._by_entity)
        return choice

    def send(self, queue: Queue, draft: Draft, via: Queue | None) -> None:
        """Add the partition that a message is sent to, or that it passes through on its way by `via`."""
        if draft.is_ping:
            return
        if via is not None or draft.destination is not None:
            # Without a key the message passes through whichever partition the transaction is about.
            stored = draft.message.stored
            key = None if stored is None else via_partition_key_of(stored.message_annotations)
            if key is not None:
                self.join(queue if via is None else via, partition_of(key), key)
            return
        if not queue.description.enable_partitioning:
            return
        if draft.partition_key is None:
            raise NotAllowed(
                f"A message that is sent to the partitioned entity '{queue.name}' in a transaction needs a partition "
                "key. Set PartitionKey or SessionId, or MessageId if the entity detects duplicates.",
                Scope.DELIVERY,
            )
        self.join(queue, partition_of(draft.partition_key), draft.partition_key)

    def join(self, queue: Queue, partition: int, key: str | None) -> None:
        """Add a partition of an entity. Raises if the transaction is about another one."""
        # Subscriptions have the partitions of their topic.
        entity = queue if queue.topic is None else queue.topic
        if not entity.description.enable_partitioning:
            return
        found = self._by_entity.get(entity)
        if found is None:
            self._by_entity[entity] = (partition, key)
            return
        # Two keys that share a partition here need not share one in the service, which has another hash function.
        if found[0] != partition or (key is not None and found[1] is not None and found[1] != key):
            raise NotAllowed(_SPANS_PARTITIONS, Scope.DELIVERY)
        if found[1] is None:
            self._by_entity[entity] = (partition, key)
