"""Queues, topics, subscriptions, rules and event hubs as JSON, as types: for the OpenAPI document, and for exports.

The types of settings are made from `tandem.entity_settings`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tandem.entity_settings import (
    HUB,
    KINDS_WITH_RULES,
    NAME_FIELDS,
    QUEUE,
    RULES_FIELD,
    STATUSES,
    SUBSCRIPTION,
    TOPIC,
    Form,
    Setting,
    settings_of,
)

__all__ = [
    "AuthorizationRuleFields",
    "Deleted",
    "EntityReport",
    "ExplainRequest",
    "ExplainedRule",
    "ExplainedSubscription",
    "Explanation",
    "ExportDocument",
    "Hub",
    "HubList",
    "HubRequest",
    "HubSettings",
    "ImportReport",
    "ImportRequest",
    "NewSubscription",
    "Queue",
    "QueueList",
    "QueueRequest",
    "QueueSettings",
    "Rule",
    "RuleAction",
    "RuleFilter",
    "RuleList",
    "RuleSettings",
    "Subscription",
    "SubscriptionList",
    "SubscriptionRequest",
    "SubscriptionSettings",
    "Topic",
    "TopicList",
    "TopicRequest",
    "TopicSettings",
]


class AuthorizationRuleFields(Struct, kw_only=True):
    """Who else may use an entity: rights, and the keys that prove them."""

    name: str
    rights: list[Literal["Send", "Listen", "Manage"]]
    primary_key: str
    secondary_key: str = ""
    scope: str = ""


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


# --- settings -------------------------------------------------------------------------------------------------------

# A name, a type and a default, or a name and a type, as msgspec takes them.
_Field = tuple[str, Any, Any] | tuple[str, Any]

_PLAIN_TYPES: Final[dict[Form, Any]] = {
    Form.DURATION: int,
    Form.NUMBER: int,
    Form.BYTES: int,
    Form.FLAG: bool,
    Form.TEXT: str,
    Form.ADDRESS: str,
    Form.NAMES: list[str],
}


def _type(setting: Setting, kind: str) -> Any:
    if setting.form is Form.STATUS:
        plain: Any = Literal[tuple(one.value for one in STATUSES[kind])]
    else:
        plain = _PLAIN_TYPES[setting.form]
    if plain is int:
        plain = Annotated[int, Meta(ge=setting.least, le=setting.most)]
    elif setting.form is Form.TEXT:
        plain = Annotated[str, Meta(max_length=setting.most)]
    return Annotated[plain | None if setting.is_nullable else plain, Meta(description=setting.help)]


def _default(setting: Setting) -> Any:
    chosen = setting.default
    return msgspec.field(default_factory=lambda: list(chosen)) if isinstance(chosen, tuple) else chosen


def _made(name: str, text: str, fields: list[_Field], base: Any = Struct) -> Any:
    return msgspec.defstruct(name, fields, bases=(base,), namespace={"__doc__": text}, module=__name__, kw_only=True)


def _settings(kind: str, name: str, text: str) -> Any:
    fields: list[_Field] = [(one, str | UnsetType, UNSET) for one in NAME_FIELDS[kind]]
    fields += [(one.name, _type(one, kind), _default(one)) for one in settings_of(kind)]
    if kind in KINDS_WITH_RULES:
        fields.append((RULES_FIELD, list[AuthorizationRuleFields] | UnsetType | None, UNSET))
    return _made(name, text, fields)


def _request(kind: str, name: str, base: Any) -> Any:
    """Return the settings as a request may write them: times also as text, under their names without the unit."""
    text = 'The same. A time may be a text such as `"30s"`, under its name without `_ms`.'
    durations = [one for one in settings_of(kind) if one.form is Form.DURATION]
    return _made(
        name,
        text,
        [(one.label, Annotated[str, Meta(description=one.help)] | UnsetType, UNSET) for one in durations],
        base,
    )


def _shown(name: str, text: str, settings: Any, *counts: str) -> Any:
    return _made(name, text, [(one, int) for one in counts], settings)


def _several(name: str, kind: Any) -> _Field:
    return (name, list[kind], msgspec.field(default_factory=list))


def _listed(name: str, plural: str, entity: Any) -> Any:
    return _made(name, "In the order of their names.", [(plural, list[entity])])


_MESSAGE_COUNTS: Final = (
    *("active_message_count", "dead_letter_message_count", "scheduled_message_count", "deferred_message_count"),
    *("transfer_message_count", "transfer_dead_letter_message_count", "message_count", "size_in_bytes"),
)
_TIMES: Final = ("created_at_ms", "updated_at_ms")
_ALL_TIMES: Final = (*_TIMES, "accessed_at_ms")

QueueSettings: Final = _settings(
    QUEUE, "QueueSettings", "What can be chosen about a queue. Times are in milliseconds, and null is never."
)
QueueRequest: Final = _request(QUEUE, "QueueRequest", QueueSettings)
Queue: Final = _shown("Queue", "A queue with its counts.", QueueSettings, *_MESSAGE_COUNTS, *_ALL_TIMES)
QueueList: Final = _listed("QueueList", "queues", Queue)

TopicSettings: Final = _settings(TOPIC, "TopicSettings", "What can be chosen about a topic.")
TopicRequest: Final = _request(TOPIC, "TopicRequest", TopicSettings)
Topic: Final = _shown(
    "Topic",
    "A topic with its counts.",
    TopicSettings,
    *("subscription_count", "scheduled_message_count", "transfer_dead_letter_message_count", "size_in_bytes"),
    *_ALL_TIMES,
)
TopicList: Final = _listed("TopicList", "topics", Topic)

SubscriptionSettings: Final = _settings(
    SUBSCRIPTION, "SubscriptionSettings", "What can be chosen about a subscription."
)
SubscriptionRequest: Final = _request(SUBSCRIPTION, "SubscriptionRequest", SubscriptionSettings)
_RULES: Final[_Field] = ("rules", list[RuleSettings] | UnsetType, UNSET)
NewSubscription: Final = _made(
    "NewSubscription",
    "A subscription that is made with its rules, or with the one that selects everything.",
    [_RULES],
    SubscriptionRequest,
)
Subscription: Final = _shown(
    "Subscription", "A subscription with its counts.", SubscriptionSettings, *_MESSAGE_COUNTS, *_ALL_TIMES
)
SubscriptionList: Final = _listed("SubscriptionList", "subscriptions", Subscription)

HubSettings: Final = _settings(
    HUB,
    "HubSettings",
    "What can be chosen about an event hub. Events are kept as long as both retentions allow, and null is no bound.",
)
HubRequest: Final = _request(HUB, "HubRequest", HubSettings)
# The incarnation is another one if the hub was deleted and made again: positions are good for one incarnation.
Hub: Final = _made(
    "Hub",
    "An event hub with its counts.",
    [("incarnation", str), *[(one, int) for one in ("event_count", "size_in_bytes", *_TIMES)]],
    HubSettings,
)
HubList: Final = _listed("HubList", "hubs", Hub)


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

_ExportedSubscription: Final = _made(
    "ExportedSubscription", "A subscription with all its rules.", [_RULES], SubscriptionSettings
)
_ExportedTopic: Final = _made(
    "ExportedTopic",
    "A topic with all its subscriptions.",
    [_several("subscriptions", _ExportedSubscription)],
    TopicSettings,
)
ExportDocument: Final = _made(
    "ExportDocument",
    "All entities of a namespace: what can be chosen about them, and none of their messages.",
    [
        ("version", Literal[1], 1),
        ("namespace", str, ""),
        ("exported_at_ms", int, 0),
        _several("queues", QueueSettings),
        _several("topics", _ExportedTopic),
        _several("hubs", HubSettings),
    ],
)


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
