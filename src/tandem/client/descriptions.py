"""Queues, topics, subscriptions, rules, event hubs and consumer groups, as they are described to and by the service.

Each property of a description names its element in the service's XML. Properties that only the service knows, such as
counts and times, are filled in when an entity is read, and are never written.
"""

# ruff: noqa: RUF009 - the calls in the defaults are dataclasses.field with a name and a kind, made anew for each class
from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tandem.rules import Filter, SqlAction, TrueFilter

__all__ = [
    "DEFAULT_RULE_NAME",
    "NEVER",
    "ConsumerGroupDescription",
    "EntityStatus",
    "EventHubDescription",
    "Kind",
    "QueueDescription",
    "RuleDescription",
    "SubscriptionDescription",
    "TopicDescription",
    "element_of",
]

# The rule that a subscription starts with.
DEFAULT_RULE_NAME: Final = "$Default"

# Stands for "no end" where a duration is expected.
NEVER: Final = timedelta.max


class EntityStatus(enum.Enum):
    """The operations that an entity accepts at the moment."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"


class Kind(enum.Enum):
    """The form in which a property is written."""

    DURATION = "duration"
    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"
    STATUS = "status"
    MOMENT = "moment"
    COUNT = "count"
    ADDRESS = "address"


# Any: a field is typed where it is declared, as those of the standard library are.
def _set(element: str, kind: Kind, default: object = None) -> Any:
    """A property that can be chosen."""
    return dataclasses.field(default=default, metadata={"element": element, "kind": kind, "is_written": True})


def _told(element: str, kind: Kind) -> Any:
    """A property that the service reports. Descriptions that differ only in these are equal."""
    metadata = {"element": element, "kind": kind, "is_written": False}
    return dataclasses.field(default=None, metadata=metadata, compare=False, repr=False)


def element_of(field: dataclasses.Field[Any]) -> tuple[str, Kind, bool] | None:
    """Return the element of a property, its form, and whether it is written; None for a property without an element."""
    metadata = field.metadata
    return (metadata["element"], metadata["kind"], metadata["is_written"]) if metadata else None


@dataclass(kw_only=True)
class _Entity:
    """The facts that the service reports about every entity."""

    created_at: datetime | None = _told("CreatedAt", Kind.MOMENT)
    updated_at: datetime | None = _told("UpdatedAt", Kind.MOMENT)
    # The rules and keys of the entity as XML. They come back unchanged when something else is updated.
    authorization_rules_xml: str | None = dataclasses.field(default=None, repr=False, compare=False)


@dataclass(kw_only=True)
class _Told(_Entity):
    """The facts that the service reports about entities that hold messages."""

    accessed_at: datetime | None = _told("AccessedAt", Kind.MOMENT)
    active_message_count: int | None = _told("ActiveMessageCount", Kind.COUNT)
    dead_letter_message_count: int | None = _told("DeadLetterMessageCount", Kind.COUNT)
    scheduled_message_count: int | None = _told("ScheduledMessageCount", Kind.COUNT)
    transfer_message_count: int | None = _told("TransferMessageCount", Kind.COUNT)
    transfer_dead_letter_message_count: int | None = _told("TransferDeadLetterMessageCount", Kind.COUNT)


@dataclass
class QueueDescription(_Told):
    """A queue. Properties that are left out have the defaults of the service."""

    path: str
    lock_duration: timedelta = _set("LockDuration", Kind.DURATION, timedelta(minutes=1))
    max_size_in_megabytes: int = _set("MaxSizeInMegabytes", Kind.NUMBER, 1024)
    requires_duplicate_detection: bool = _set("RequiresDuplicateDetection", Kind.BOOLEAN, False)
    requires_session: bool = _set("RequiresSession", Kind.BOOLEAN, False)
    default_message_time_to_live: timedelta = _set("DefaultMessageTimeToLive", Kind.DURATION, NEVER)
    dead_lettering_on_message_expiration: bool = _set("DeadLetteringOnMessageExpiration", Kind.BOOLEAN, False)
    duplicate_detection_history_time_window: timedelta = _set(
        "DuplicateDetectionHistoryTimeWindow", Kind.DURATION, timedelta(minutes=10)
    )
    max_delivery_count: int = _set("MaxDeliveryCount", Kind.NUMBER, 10)
    enable_batched_operations: bool = _set("EnableBatchedOperations", Kind.BOOLEAN, True)
    status: EntityStatus = _set("Status", Kind.STATUS, EntityStatus.ACTIVE)
    auto_delete_on_idle: timedelta = _set("AutoDeleteOnIdle", Kind.DURATION, NEVER)
    enable_partitioning: bool = _set("EnablePartitioning", Kind.BOOLEAN, False)
    forward_to: str | None = _set("ForwardTo", Kind.ADDRESS)
    user_metadata: str | None = _set("UserMetadata", Kind.TEXT)
    forward_dead_lettered_messages_to: str | None = _set("ForwardDeadLetteredMessagesTo", Kind.ADDRESS)
    enable_express: bool = _set("EnableExpress", Kind.BOOLEAN, False)
    max_message_size_in_kilobytes: int | None = _set("MaxMessageSizeInKilobytes", Kind.NUMBER)
    size_in_bytes: int | None = _told("SizeInBytes", Kind.NUMBER)
    message_count: int | None = _told("MessageCount", Kind.NUMBER)


@dataclass
class TopicDescription(_Told):
    """A topic."""

    path: str
    default_message_time_to_live: timedelta = _set("DefaultMessageTimeToLive", Kind.DURATION, NEVER)
    max_size_in_megabytes: int = _set("MaxSizeInMegabytes", Kind.NUMBER, 1024)
    requires_duplicate_detection: bool = _set("RequiresDuplicateDetection", Kind.BOOLEAN, False)
    duplicate_detection_history_time_window: timedelta = _set(
        "DuplicateDetectionHistoryTimeWindow", Kind.DURATION, timedelta(minutes=10)
    )
    enable_batched_operations: bool = _set("EnableBatchedOperations", Kind.BOOLEAN, True)
    status: EntityStatus = _set("Status", Kind.STATUS, EntityStatus.ACTIVE)
    support_ordering: bool = _set("SupportOrdering", Kind.BOOLEAN, True)
    auto_delete_on_idle: timedelta = _set("AutoDeleteOnIdle", Kind.DURATION, NEVER)
    enable_partitioning: bool = _set("EnablePartitioning", Kind.BOOLEAN, False)
    user_metadata: str | None = _set("UserMetadata", Kind.TEXT)
    enable_express: bool = _set("EnableExpress", Kind.BOOLEAN, False)
    max_message_size_in_kilobytes: int | None = _set("MaxMessageSizeInKilobytes", Kind.NUMBER)
    size_in_bytes: int | None = _told("SizeInBytes", Kind.NUMBER)
    subscription_count: int | None = _told("SubscriptionCount", Kind.NUMBER)


@dataclass
class SubscriptionDescription(_Told):
    """A subscription of a topic."""

    topic_path: str
    name: str
    lock_duration: timedelta = _set("LockDuration", Kind.DURATION, timedelta(minutes=1))
    requires_session: bool = _set("RequiresSession", Kind.BOOLEAN, False)
    default_message_time_to_live: timedelta = _set("DefaultMessageTimeToLive", Kind.DURATION, NEVER)
    dead_lettering_on_message_expiration: bool = _set("DeadLetteringOnMessageExpiration", Kind.BOOLEAN, False)
    dead_lettering_on_filter_evaluation_exceptions: bool = _set(
        "DeadLetteringOnFilterEvaluationExceptions", Kind.BOOLEAN, True
    )
    max_delivery_count: int = _set("MaxDeliveryCount", Kind.NUMBER, 10)
    enable_batched_operations: bool = _set("EnableBatchedOperations", Kind.BOOLEAN, True)
    status: EntityStatus = _set("Status", Kind.STATUS, EntityStatus.ACTIVE)
    forward_to: str | None = _set("ForwardTo", Kind.ADDRESS)
    forward_dead_lettered_messages_to: str | None = _set("ForwardDeadLetteredMessagesTo", Kind.ADDRESS)
    auto_delete_on_idle: timedelta = _set("AutoDeleteOnIdle", Kind.DURATION, NEVER)
    user_metadata: str | None = _set("UserMetadata", Kind.TEXT)
    message_count: int | None = _told("MessageCount", Kind.NUMBER)


@dataclass
class RuleDescription:
    """A rule of a subscription: which messages it selects, and what it changes in its copies of them."""

    name: str = DEFAULT_RULE_NAME
    filter: Filter = dataclasses.field(default_factory=TrueFilter)
    action: SqlAction | None = None
    created_at: datetime | None = dataclasses.field(default=None, compare=False)


@dataclass
class EventHubDescription(_Entity):
    """An event hub.

    `message_retention_in_days` of a hub that was read is None if events stay until the hub is full, which only Tandem
    offers; written as None it leaves the retention as it is. `partition_count` cannot be changed later.
    """

    path: str
    message_retention_in_days: int | None = _set("MessageRetentionInDays", Kind.NUMBER, 7)
    status: EntityStatus = _set("Status", Kind.STATUS, EntityStatus.ACTIVE)
    user_metadata: str | None = _set("UserMetadata", Kind.TEXT)
    partition_count: int = _set("PartitionCount", Kind.NUMBER, 16)
    size_in_bytes: int | None = _told("SizeInBytes", Kind.NUMBER)


@dataclass
class ConsumerGroupDescription(_Entity):
    """A consumer group of an event hub: a view of its own on the events, with its own readers."""

    event_hub_path: str
    name: str
