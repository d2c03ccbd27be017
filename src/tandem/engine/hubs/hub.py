"""One event hub: its partitions and consumer groups, and which partition the events of a transfer go to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem import wire_names
from tandem.amqp.batch import BATCH_FORMAT, partition_key, split_batch
from tandem.amqp.message import Message
from tandem.amqp.sections import DELIVERY_ANNOTATIONS
from tandem.engine.description import EntityStatus
from tandem.engine.effects import DropHub, PutHub
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.hubs.partition import Partition
from tandem.engine.hubs.partition_key import partition_of
from tandem.engine.hubs.producers import read_number
from tandem.engine.hubs.progress import HubProgress
from tandem.engine.hubs.record import ProducerMark, transfer_checksum
from tandem.engine.metering import billable_units
from tandem.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    DecodeError,
    EntityDisabled,
    MessageSizeExceeded,
    NotFound,
    ProtocolError,
    QuotaExceeded,
    Scope,
)
from tandem.limits import MAX_PARTITION_KEY_CHARACTERS

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace

__all__ = ["EventHub"]

_ANNOTATIONS: Final = "message-annotations"


class EventHub:
    """An event hub. Its number is never given again: events of a deleted hub cannot appear in a later one."""

    __slots__ = (
        "_next_partition",
        "billable_units",
        "created_at_ms",
        "description",
        "is_dropped",
        "namespace",
        "number",
        "partitions",
        "progress",
        "updated_at_ms",
    )

    def __init__(self, namespace: Namespace, number: int, description: EventHubDescription, created_at_ms: int) -> None:
        self.namespace = namespace
        self.number = number
        self.description = description
        self.created_at_ms = created_at_ms
        self.updated_at_ms = created_at_ms
        self.is_dropped = False
        self.partitions = [Partition(self, partition_id) for partition_id in range(description.partition_count)]
        self.progress = HubProgress(self)
        # What all events so far are charged as, since the start.
        self.billable_units = 0
        # Who names neither key nor partition is sent around.
        self._next_partition = 0

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def size_bytes(self) -> int:
        return sum([partition.size_bytes for partition in self.partitions])

    def record(self) -> None:
        self.namespace.effects.changes.append(
            PutHub(self.number, self.description.stored_fields(), self.created_at_ms, self.updated_at_ms)
        )

    def update(self, description: EventHubDescription) -> None:
        """Everything can be changed but the name and the number of partitions; groups that are left out go."""
        old = self.description
        description.check_change(old, "hub")
        if description.authorization_rules is None:
            description.authorization_rules = old.authorization_rules
        for group in old.consumer_groups:
            if description.find_group(group) is None:
                self._close(group, NotFound(f"The consumer group '{group}' of '{self.name}' was deleted."))
                self.progress.forget(group)
        self.description = description
        self.updated_at_ms = self.namespace.now_ms
        if description.status is not EntityStatus.ACTIVE and not description.can_receive:
            self._close(None, self.disabled())
        self.record()

    def drop(self) -> None:
        self.is_dropped = True
        self._close(None, NotFound(f"The messaging entity '{self.name}' could not be found. It was deleted."))
        self.namespace.effects.changes.append(DropHub(self.number))

    def _close(self, group: str | None, error: ProtocolError) -> None:
        for partition in self.partitions:
            partition.close_group(group, error)

    def disabled(self) -> EntityDisabled:
        return EntityDisabled(
            f"Messaging entity '{self.name}' is currently disabled: its status is {self.description.status.value}."
        )

    # --- what an address names ------------------------------------------------------------------------------

    def partition(self, partition_id: str) -> Partition:
        if partition_id.isascii() and partition_id.isdigit() and len(partition_id) <= 6:
            number = int(partition_id)
            if number < len(self.partitions):
                return self.partitions[number]
        raise ArgumentOutOfRange(
            f"The specified partition is invalid for an EventHub partition sender or receiver. It should be between 0 "
            f"and {len(self.partitions) - 1}, and is '{partition_id:.40}'.",
            Scope.LINK,
        )

    def consumer_group(self, name: str) -> str:
        group = self.description.find_group(name)
        if group is None:
            raise NotFound(
                f"The messaging entity '{self.name}/ConsumerGroups/{name}' could not be found: the hub has no such "
                "consumer group."
            )
        return group

    # --- sending --------------------------------------------------------------------------------------------

    def send(
        self,
        payload: bytes,
        message_format: int,
        partition: Partition | None = None,
        publisher: str | None = None,
        producer: ProducerMark | None = None,
    ) -> int:
        """Append the events of one transfer to one partition, and say how many there are.

        `producer` is the mark of an idempotent link. Whatever is wrong is raised before anything was done.
        """
        if self.is_dropped:
            raise NotFound(f"The messaging entity '{self.name}' could not be found. It was deleted.")
        if not self.description.can_send:
            raise self.disabled()
        if self.namespace.is_disk_full:
            raise QuotaExceeded(f"The disk is full: the event hub '{self.name}' takes no events until there is room.")
        if len(payload) > self.description.max_event_size_bytes:
            raise MessageSizeExceeded(
                f"The received message (size:{len(payload)} bytes) exceeds the limit "
                f"({self.description.max_event_size_bytes} bytes) currently allowed on the link.",
                Scope.DELIVERY,
            )
        is_batch = message_format == BATCH_FORMAT
        try:
            envelope = Message(payload)
            count, units = _survey(envelope) if is_batch else (1, billable_units(len(payload)))
            key = _key(envelope)
            mark = None if producer is None else _mark(envelope, is_batch, producer)
        except DecodeError as error:
            # Its bytes were framed well: the connection is sound, the message is not.
            raise DecodeError(str(error), Scope.DELIVERY) from None
        if partition is None:
            partition = self._choose(key if key is not None else publisher)
        if not count:
            return 0
        if mark is not None:
            mark = partition.producers.admit(mark, count, transfer_checksum(payload))
            if mark is None:
                return 0
        partition.append(payload, is_batch, count, key, publisher, mark)
        self.billable_units += units
        return count

    def _choose(self, key: str | None) -> Partition:
        if key is not None:
            return self.partitions[partition_of(key, len(self.partitions))]
        number = self._next_partition
        self._next_partition = (number + 1) % len(self.partitions)
        return self.partitions[number]


def _key(message: Message) -> str | None:
    """Return the partition key of a message whose annotations, all of them, can be delivered."""
    if message.delivery_annotations is not None:
        message.sections.entries(DELIVERY_ANNOTATIONS)
    key = partition_key(message)
    if key is not None and len(key) > MAX_PARTITION_KEY_CHARACTERS:
        raise ArgumentOutOfRange(
            f"{wire_names.PARTITION_KEY} has {len(key)} characters; at most {MAX_PARTITION_KEY_CHARACTERS} are allowed",
            Scope.DELIVERY,
        )
    return key


def _survey(envelope: Message) -> tuple[int, int]:
    """The events of a batch, each of which proves to be a message with annotations that can be delivered, and what they
    are charged as."""
    pieces = split_batch(envelope)
    units = 0
    for index, piece in enumerate(pieces):
        units += billable_units(len(piece))
        try:
            _key(Message(piece))
        except DecodeError as error:
            raise DecodeError(f"event {index} of the batch: {error}") from None
    return len(pieces), units


def _mark(envelope: Message, is_batch: bool, producer: ProducerMark) -> ProducerMark:
    """Return what a transfer on an idempotent link says of its producer, with the number of its first event."""
    annotations = envelope.message_annotations or {}
    if is_batch and wire_names.PRODUCER_SEQUENCE_NUMBER not in annotations:
        # One SDK says it with each event of a batch, and not on the envelope; the first of them counts.
        pieces = split_batch(envelope)
        annotations = (Message(pieces[0]).message_annotations or {}) if pieces else {}
    producer_id = read_number(annotations, wire_names.PRODUCER_ID, _ANNOTATIONS, Scope.DELIVERY)
    epoch = read_number(annotations, wire_names.PRODUCER_EPOCH, _ANNOTATIONS, Scope.DELIVERY)
    number = read_number(annotations, wire_names.PRODUCER_SEQUENCE_NUMBER, _ANNOTATIONS, Scope.DELIVERY)
    if number is None:
        raise ArgumentError(
            f"{_ANNOTATIONS}.{wire_names.PRODUCER_SEQUENCE_NUMBER} is missing: "
            "the link is one of an idempotent producer."
        )
    return ProducerMark(
        producer.producer_id if producer_id is None else producer_id, producer.epoch if epoch is None else epoch, number
    )
