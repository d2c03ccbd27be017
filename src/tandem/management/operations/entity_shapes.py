"""Queues, topics, subscriptions, rules and event hubs as JSON, as types: for the OpenAPI document, and for exports.

What these say of a setting (its type, its default, whether it may be null) is what the descriptions in the engine say,
and a test compares them. Bounds are not repeated here: an error names them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

__all__ = [
    "AuthorizationRuleFields",
    "Deleted",
    "EntityReport",
    "ExplainRequest",
    "ExplainedRule",
    "ExplainedSubscription",
    "Explanation",
    "ExportDocument",
    "ExportedSubscription",
    "ExportedTopic",
    "Hub",
    "HubList",
    "HubSettings",
    "ImportReport",
    "ImportRequest",
    "NewSubscription",
    "Queue",
    "QueueList",
    "QueueSettings",
    "Rule",
    "RuleAction",
    "RuleFilter",
    "RuleList",
    "RuleSettings",
    "Subscription",
    "SubscriptionList",
    "SubscriptionSettings",
    "Topic",
    "TopicList",
    "TopicSettings",
]

_Status = Literal["Active", "Disabled", "SendDisabled", "ReceiveDisabled"]


class AuthorizationRuleFields(Struct, kw_only=True):
    """Who else may use an entity: rights, and the keys that prove them."""

    name: str
    rights: list[Literal["Send", "Listen", "Manage"]]
    primary_key: str
    secondary_key: str = ""
    scope: str = ""


# --- queues ---------------------------------------------------------------------------------------------------------


class QueueSettings(Struct, kw_only=True):
    """What can be chosen about a queue. Times are in milliseconds, and null is never."""

    name: str | UnsetType = UNSET
    lock_duration_ms: int = 60_000
    max_size_in_megabytes: int = 1_024
    requires_duplicate_detection: bool = False
    requires_session: bool = False
    default_message_time_to_live_ms: int | None = None
    dead_lettering_on_message_expiration: bool = False
    duplicate_detection_history_time_window_ms: int = 600_000
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    status: _Status = "Active"
    auto_delete_on_idle_ms: int | None = None
    enable_partitioning: bool = False
    forward_to: str | None = None
    forward_dead_lettered_messages_to: str | None = None
    user_metadata: str | None = None
    max_message_size_in_kilobytes: int = 256
    enable_express: bool = False
    authorization_rules: list[AuthorizationRuleFields] | UnsetType | None = UNSET


class Queue(QueueSettings, kw_only=True):
    """A queue with its counts."""

    active_message_count: int
    dead_letter_message_count: int
    scheduled_message_count: int
    deferred_message_count: int
    transfer_message_count: int
    transfer_dead_letter_message_count: int
    message_count: int
    size_in_bytes: int
    created_at_ms: int
    updated_at_ms: int
    accessed_at_ms: int


class QueueList(Struct):
    """In the order of their names."""

    queues: list[Queue]


class Deleted(Struct):
    """What was deleted."""

    name: str


# --- rules ----------------------------------------------------------------------------------------------------------


class RuleFilter(Struct, kw_only=True):
    """Which messages: by SQL, by comparing properties, all or none.

    Values that JSON has no type for are objects of one entry: {"datetime": ticks}, {"timespan": ticks},
    {"uuid": "..."}, {"binary": hex}, {"decimal": "..."}, {"double": "nan"}.
    """

    kind: Literal["sql", "correlation", "true", "false"]
    expression: str | UnsetType = UNSET
    parameters: dict[str, Any] | UnsetType = UNSET
    correlation_id: str | UnsetType | None = UNSET
    message_id: str | UnsetType | None = UNSET
    to: str | UnsetType | None = UNSET
    reply_to: str | UnsetType | None = UNSET
    label: str | UnsetType | None = UNSET
    session_id: str | UnsetType | None = UNSET
    reply_to_session_id: str | UnsetType | None = UNSET
    content_type: str | UnsetType | None = UNSET
    properties: dict[str, Any] | UnsetType = UNSET


class RuleAction(Struct, kw_only=True):
    """What is changed in the copy that the subscription gets."""

    expression: str
    parameters: dict[str, Any] = {}


class RuleSettings(Struct, kw_only=True):
    """What can be chosen about a rule. Without a filter it selects everything."""

    name: str | UnsetType = UNSET
    filter: RuleFilter | None = None
    action: RuleAction | None = None


class Rule(RuleSettings, kw_only=True):
    """A rule."""

    created_at_ms: int


class RuleList(Struct):
    """In the order of their names."""

    rules: list[Rule]


# --- topics ---------------------------------------------------------------------------------------------------------


class TopicSettings(Struct, kw_only=True):
    """What can be chosen about a topic."""

    name: str | UnsetType = UNSET
    max_size_in_megabytes: int = 1_024
    requires_duplicate_detection: bool = False
    default_message_time_to_live_ms: int | None = None
    duplicate_detection_history_time_window_ms: int = 600_000
    enable_batched_operations: bool = True
    status: _Status = "Active"
    auto_delete_on_idle_ms: int | None = None
    enable_partitioning: bool = False
    support_ordering: bool = True
    user_metadata: str | None = None
    max_message_size_in_kilobytes: int = 256
    enable_express: bool = False
    authorization_rules: list[AuthorizationRuleFields] | UnsetType | None = UNSET


class Topic(TopicSettings, kw_only=True):
    """A topic with its counts."""

    subscription_count: int
    scheduled_message_count: int
    transfer_dead_letter_message_count: int
    size_in_bytes: int
    created_at_ms: int
    updated_at_ms: int
    accessed_at_ms: int


class TopicList(Struct):
    """In the order of their names."""

    topics: list[Topic]


class SubscriptionSettings(Struct, kw_only=True):
    """What can be chosen about a subscription."""

    topic_name: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    lock_duration_ms: int = 60_000
    requires_session: bool = False
    default_message_time_to_live_ms: int | None = None
    dead_lettering_on_message_expiration: bool = False
    dead_lettering_on_filter_evaluation_exceptions: bool = True
    max_delivery_count: int = 10
    enable_batched_operations: bool = True
    status: _Status = "Active"
    auto_delete_on_idle_ms: int | None = None
    forward_to: str | None = None
    forward_dead_lettered_messages_to: str | None = None
    user_metadata: str | None = None


class NewSubscription(SubscriptionSettings, kw_only=True):
    """A subscription that is made with its rules, or with the one that selects everything."""

    rules: list[RuleSettings] | UnsetType = UNSET


class Subscription(SubscriptionSettings, kw_only=True):
    """A subscription with its counts."""

    active_message_count: int
    dead_letter_message_count: int
    scheduled_message_count: int
    deferred_message_count: int
    transfer_message_count: int
    transfer_dead_letter_message_count: int
    message_count: int
    size_in_bytes: int
    created_at_ms: int
    updated_at_ms: int
    accessed_at_ms: int


class SubscriptionList(Struct):
    """In the order of their names."""

    subscriptions: list[Subscription]


# --- event hubs -----------------------------------------------------------------------------------------------------


class HubSettings(Struct, kw_only=True):
    """What can be chosen about an event hub. Events are kept as long as both retentions allow, and null is no bound."""

    name: str | UnsetType = UNSET
    partition_count: int = 16
    retention_ms: int | None = 604_800_000
    # Of each partition.
    retention_bytes: int | None = None
    max_event_size_in_kilobytes: int = 1_024
    status: _Status = "Active"
    user_metadata: str | None = None
    consumer_groups: list[str] = field(default_factory=lambda: ["$Default"])
    authorization_rules: list[AuthorizationRuleFields] | UnsetType | None = UNSET


class Hub(HubSettings, kw_only=True):
    """An event hub with its counts."""

    # Another one if the hub was deleted and made again: positions are good for one incarnation.
    incarnation: str
    event_count: int
    size_in_bytes: int
    created_at_ms: int
    updated_at_ms: int


class HubList(Struct):
    """In the order of their names."""

    hubs: list[Hub]


# --- explanations ---------------------------------------------------------------------------------------------------


class ExplainRequest(Struct, kw_only=True):
    """A message of nothing but properties: those of applications, and system properties such as Label."""

    properties: dict[str, Any] = {}
    system: dict[str, Any] = {}
    # Only this one.
    subscription: str | None = None


class ExplainedRule(Struct, kw_only=True):
    """What a rule makes of the message, and why."""

    name: str
    matches: bool
    outcome: str
    error: str | None
    reasons: Any
    reason_lines: list[str]
    changes: Any
    change_lines: list[str]


class ExplainedSubscription(Struct, kw_only=True):
    """Whether a subscription would get the message."""

    name: str
    matches: bool
    rules: list[ExplainedRule]


class Explanation(Struct, kw_only=True):
    """Which subscriptions would get the message. What is left is asked for with `skip`."""

    subscriptions: list[ExplainedSubscription]
    next_skip: int | None


# --- exports --------------------------------------------------------------------------------------------------------


class ExportedSubscription(NewSubscription, kw_only=True):
    """A subscription with all its rules."""


class ExportedTopic(TopicSettings, kw_only=True):
    """A topic with all its subscriptions."""

    subscriptions: list[ExportedSubscription] = []


class ExportDocument(Struct, kw_only=True):
    """All entities of a namespace: what can be chosen about them, and none of their messages."""

    version: Literal[1] = 1
    namespace: str = ""
    exported_at_ms: int = 0
    queues: list[QueueSettings] = []
    topics: list[ExportedTopic] = []
    hubs: list[HubSettings] = []


class ImportRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """What to make of an exported document.

    `create-missing` leaves everything that exists as it is. `replace` also gives what exists the settings and rules of
    the document. Entities that the document does not have stay in both.
    """

    mode: Literal["create-missing", "replace"]
    document: Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/components/schemas/ExportDocument"})]
    dry_run: bool = False


class EntityReport(Struct, kw_only=True):
    """What became of one entity, or would."""

    kind: Literal["queue", "topic", "subscription", "hub"]
    name: str
    outcome: Literal["created", "updated", "unchanged", "kept", "failed"]
    error: str | None


class ImportReport(Struct, kw_only=True):
    """What became of each entity, in the order of the document: queues, topics, subscriptions, event hubs."""

    dry_run: bool
    created: int
    updated: int
    unchanged: int
    kept: int
    failed: int
    entities: list[EntityReport]
