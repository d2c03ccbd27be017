"""What lies below an event hub as JSON, as types: its consumer groups, the positions of its partitions, its events."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from tandem.limits import MAX_OFFSET_CHARACTERS, MAX_OWNER_ID_CHARACTERS, MAX_PARTITIONS

__all__ = [
    "Checkpoint",
    "CheckpointList",
    "CheckpointRequest",
    "ClaimRequest",
    "ConsumerGroup",
    "ConsumerGroupList",
    "EventList",
    "HubPositions",
    "PartitionClaim",
    "PartitionOwnership",
    "PartitionOwnershipList",
    "PartitionPosition",
    "ShownEvent",
    "ShownPartition",
]


class ConsumerGroup(Struct):
    """Readers who share the work of one application."""

    hub_name: str
    name: str


class ConsumerGroupList(Struct):
    """In the order in which they were made, with `$Default` first."""

    consumer_groups: list[ConsumerGroup]


class PartitionOwnership(Struct, kw_only=True):
    """A partition that a processor has claimed. The broker does not decide for how long: processors do."""

    partition: str
    # Empty if its owner has released it.
    owner_id: str
    etag: str
    claimed_at_ms: int


class PartitionOwnershipList(Struct):
    """In the order of the partitions."""

    ownerships: list[PartitionOwnership]


class PartitionClaim(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a processor wants: a partition, as it has seen it."""

    partition: Annotated[str, Meta(max_length=6)]
    # Empty to release the partition.
    owner_id: Annotated[str, Meta(max_length=MAX_OWNER_ID_CHARACTERS)]
    # The one of the ownership that the processor has seen; null if the partition was never claimed.
    etag: str | None = None


class ClaimRequest(Struct, forbid_unknown_fields=True):
    """Several claims, each of which is granted or not."""

    claims: Annotated[list[PartitionClaim], Meta(max_length=MAX_PARTITIONS)]


class Checkpoint(Struct, kw_only=True):
    """How far a partition was processed: up to and with this event."""

    partition: str
    sequence_number: int
    offset: str | None
    updated_at_ms: int
    # Events that came after it and are still there.
    events_behind: int


class CheckpointList(Struct):
    """In the order of the partitions; one without a checkpoint is left out."""

    checkpoints: list[Checkpoint]


class CheckpointRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The event that was processed last, as its reader got it."""

    sequence_number: Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)]
    offset: Annotated[str, Meta(max_length=MAX_OFFSET_CHARACTERS)] | None = None


class PartitionPosition(Struct, kw_only=True):
    """How far a partition has come. Its events have all numbers from the first of these to the one before the next."""

    partition: str
    begin_sequence_number: int
    next_sequence_number: int
    # -1 before the first event.
    last_sequence_number: int
    last_enqueued_offset: str
    last_enqueued_at_ms: int | None
    is_empty: bool
    size_in_bytes: int
    receiver_count: int
    # Of the first event that was enqueued at the time that was asked for or later, or else of the next one to come.
    sequence_number_at_time: int | UnsetType = UNSET


class HubPositions(Struct, kw_only=True):
    """All partitions of an event hub, seen at one moment."""

    hub: str
    incarnation: str
    partitions: list[PartitionPosition]


class ShownPartition(PartitionPosition, kw_only=True):
    """One of them."""

    hub: str
    incarnation: str


class ShownEvent(Struct, kw_only=True):
    """One event. Times are milliseconds since 1970 in UTC."""

    partition: str
    sequence_number: int
    offset: str
    enqueued_time_ms: int
    partition_key: str | None
    publisher: str | None
    message_id: str | None
    label: str | None
    content_type: str | None
    correlation_id: str | None
    size_in_bytes: int
    # Values that JSON has no type for are objects of one entry, as in rules: {"uuid": "..."}.
    application_properties: dict[str, Any]
    body_kind: Literal["none", "data", "amqp-sequence", "amqp-value"] | None
    body_size_in_bytes: int | None
    body: str | None
    body_encoding: Literal["text", "base64", "json"] | None
    is_body_truncated: bool
    # What of the event is no AMQP, and is missing above.
    unreadable: str | None


class EventList(Struct, kw_only=True):
    """Events in the order of their sequence numbers."""

    hub: str
    partition: str
    incarnation: str
    begin_sequence_number: int
    next_sequence_number: int
    events: list[ShownEvent]
    # Ask again with this as `from`.
    next_from: int
