"""The settings of queues, topics, subscriptions and event hubs, each defined once.

Everything else is derived from this table: descriptions in the engine, JSON, the OpenAPI document, Atom, TOML and the
emulator's configuration, options of the command line, descriptions of `tandem.client`, and the tables in
docs/reference/. A new setting is a new entry here, plus the code that acts upon it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

from tandem.arguments import Words
from tandem.durations import NEVER, duration_text, iso_duration, parse_duration_ms
from tandem.errors import ArgumentError, ArgumentOutOfRange
from tandem.limits import (
    MAX_CONSUMER_GROUPS,
    MAX_DELIVERY_COUNT,
    MAX_DUPLICATE_WINDOW_MS,
    MAX_EVENT_SIZE_KILOBYTES,
    MAX_LOCK_DURATION_MS,
    MAX_MESSAGE_SIZE_KILOBYTES,
    MAX_PARTITIONS,
    MAX_QUEUE_SIZE_MEGABYTES,
    MAX_RETENTION_MS,
    MAX_USER_METADATA_CHARACTERS,
    MIN_AUTO_DELETE_ON_IDLE_MS,
    MIN_DUPLICATE_WINDOW_MS,
    MIN_LOCK_DURATION_MS,
    MIN_RETENTION_BYTES,
    MIN_RETENTION_MS,
    MIN_TIME_TO_LIVE_MS,
)

__all__ = [
    "DEFAULT_CONSUMER_GROUP",
    "DESCRIPTIONS",
    "ELEMENTS",
    "HUB",
    "KINDS_WITH_RULES",
    "NAME_FIELDS",
    "PEOPLE_WORDS",
    "QUEUE",
    "RULES_FIELD",
    "SERVICE_WORDS",
    "SETTINGS",
    "STATUSES",
    "SUBSCRIPTION",
    "TOPIC",
    "EntityStatus",
    "Form",
    "Setting",
    "checked_values",
    "default_values",
    "durations_as_ms",
    "fixed_change",
    "refuse_unknown",
    "registered",
    "scheme_field",
    "setting_of",
    "settings_of",
]

QUEUE: Final = "queue"
TOPIC: Final = "topic"
SUBSCRIPTION: Final = "subscription"
HUB: Final = "hub"

DEFAULT_CONSUMER_GROUP: Final = "$Default"

# Milliseconds or bytes. Still a 64-bit integer when it is added to the time.
_UNBOUNDED: Final = 1 << 61

_UNIT: Final = "_ms"


class EntityStatus(enum.Enum):
    """The operations that an entity accepts at the moment."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"


class Form(enum.Enum):
    """The form of a setting's values."""

    # Milliseconds in JSON and on disk; null is never.
    DURATION = "duration"
    NUMBER = "whole number"
    # A number of bytes; null is no bound.
    BYTES = "bytes"
    FLAG = "flag"
    TEXT = "text"
    STATUS = "status"
    # The name of a queue or a topic.
    ADDRESS = "address"
    NAMES = "names"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `name` is its field in JSON, TOML and on disk, with the unit last."""

    name: str
    form: Form
    # The kinds of entities that have it.
    kinds: tuple[str, ...]
    # One sentence for `--help`, the OpenAPI document and the reference.
    help: str
    default: int | str | bool | tuple[str, ...] | None = None
    least: int = 0
    # None is no bound. Of a text it is the number of characters, of names how many there may be.
    most: int | None = None
    # An entity keeps the value with which it was created.
    is_fixed: bool = False
    # Null is allowed although it is not the default.
    can_be_null: bool = False
    # Its element in the XML of the service, and the api-version that brought it. Empty where the service has none.
    element: str = ""
    since: str = ""
    # The option of the command line and the attribute in `tandem.client`, where they are not the name without its unit.
    option: str = ""
    attribute: str = ""

    @property
    def is_nullable(self) -> bool:
        return self.default is None or self.can_be_null

    @property
    def label(self) -> str:
        """The name without its unit: `lock_duration`, where a time is written as `30s`."""
        return self.name.removesuffix(_UNIT)

    @property
    def is_in_days(self) -> bool:
        """Whether the service counts a time in whole days."""
        return self.element.endswith("InDays")

    @property
    def option_name(self) -> str:
        return self.option or f"--{self.label.replace('_', '-')}"

    @property
    def attribute_name(self) -> str:
        return self.attribute or self.label


_ALL: Final = (QUEUE, TOPIC, SUBSCRIPTION, HUB)
_WITH_MESSAGES: Final = (QUEUE, TOPIC, SUBSCRIPTION)
_SENT_TO: Final = (QUEUE, TOPIC)
_RECEIVED_FROM: Final = (QUEUE, SUBSCRIPTION)

# In the order in which JSON has them. The defaults are those of the cloud service.
SETTINGS: Final[list[Setting]] = [
    Setting(
        "lock_duration_ms",
        Form.DURATION,
        _RECEIVED_FROM,
        "How long a receiver may keep a message locked.",
        default=60_000,
        least=MIN_LOCK_DURATION_MS,
        most=MAX_LOCK_DURATION_MS,
        element="LockDuration",
    ),
    Setting(
        "max_size_in_megabytes",
        Form.NUMBER,
        _SENT_TO,
        "Size at which sends are refused; a partitioned entity has it 16 times.",
        default=1_024,
        least=1,
        most=MAX_QUEUE_SIZE_MEGABYTES,
        element="MaxSizeInMegabytes",
    ),
    Setting(
        "requires_duplicate_detection",
        Form.FLAG,
        _SENT_TO,
        "Accept a message id only once within the window.",
        default=False,
        is_fixed=True,
        element="RequiresDuplicateDetection",
    ),
    Setting(
        "requires_session",
        Form.FLAG,
        _RECEIVED_FROM,
        "Every message belongs to a session.",
        default=False,
        is_fixed=True,
        element="RequiresSession",
    ),
    Setting(
        "default_message_time_to_live_ms",
        Form.DURATION,
        _WITH_MESSAGES,
        "Longest time that a message lives; a message may choose a shorter one.",
        least=MIN_TIME_TO_LIVE_MS,
        element="DefaultMessageTimeToLive",
    ),
    Setting(
        "dead_lettering_on_message_expiration",
        Form.FLAG,
        _RECEIVED_FROM,
        "Keep expired messages as dead letters.",
        default=False,
        element="DeadLetteringOnMessageExpiration",
    ),
    Setting(
        "dead_lettering_on_filter_evaluation_exceptions",
        Form.FLAG,
        (SUBSCRIPTION,),
        "Keep messages that a rule fails on as dead letters.",
        default=True,
        element="DeadLetteringOnFilterEvaluationExceptions",
    ),
    Setting(
        "duplicate_detection_history_time_window_ms",
        Form.DURATION,
        _SENT_TO,
        "How long message ids are remembered.",
        default=600_000,
        least=MIN_DUPLICATE_WINDOW_MS,
        most=MAX_DUPLICATE_WINDOW_MS,
        element="DuplicateDetectionHistoryTimeWindow",
    ),
    Setting(
        "max_delivery_count",
        Form.NUMBER,
        _RECEIVED_FROM,
        "Deliveries after which a message becomes a dead letter.",
        default=10,
        least=1,
        most=MAX_DELIVERY_COUNT,
        element="MaxDeliveryCount",
    ),
    Setting(
        "enable_batched_operations",
        Form.FLAG,
        _WITH_MESSAGES,
        "Kept for the SDKs; Tandem always commits in batches.",
        default=True,
        element="EnableBatchedOperations",
    ),
    Setting(
        "partition_count",
        Form.NUMBER,
        (HUB,),
        "Number of partitions.",
        default=16,
        least=1,
        most=MAX_PARTITIONS,
        is_fixed=True,
        element="PartitionCount",
        option="--partitions",
    ),
    Setting(
        "retention_ms",
        Form.DURATION,
        (HUB,),
        "How long events are kept.",
        # Seven days.
        default=604_800_000,
        least=MIN_RETENTION_MS,
        most=MAX_RETENTION_MS,
        can_be_null=True,
        # In whole days; `tandem.management.atom.hubs` converts.
        element="MessageRetentionInDays",
        attribute="message_retention_in_days",
    ),
    Setting(
        "retention_bytes",
        Form.BYTES,
        (HUB,),
        "How much of each partition is kept: 500M, 10G, 1T, or none for no bound.",
        least=MIN_RETENTION_BYTES,
    ),
    Setting(
        "max_event_size_in_kilobytes",
        Form.NUMBER,
        (HUB,),
        "Larger events are refused.",
        default=1_024,
        least=1,
        most=MAX_EVENT_SIZE_KILOBYTES,
    ),
    Setting(
        "status",
        Form.STATUS,
        _ALL,
        "The operations that clients may perform.",
        default=EntityStatus.ACTIVE.value,
        element="Status",
    ),
    Setting(
        "auto_delete_on_idle_ms",
        Form.DURATION,
        _WITH_MESSAGES,
        "Delete the entity when it has been unused for this long.",
        least=MIN_AUTO_DELETE_ON_IDLE_MS,
        element="AutoDeleteOnIdle",
    ),
    Setting(
        "enable_partitioning",
        Form.FLAG,
        _SENT_TO,
        "Spread the entity over 16 partitions.",
        default=False,
        is_fixed=True,
        element="EnablePartitioning",
    ),
    Setting(
        "support_ordering",
        Form.FLAG,
        (TOPIC,),
        "Kept for the SDKs; Tandem always keeps the order.",
        default=True,
        element="SupportOrdering",
    ),
    Setting(
        "forward_to",
        Form.ADDRESS,
        _RECEIVED_FROM,
        "Pass messages on to this queue or topic; '' for none.",
        element="ForwardTo",
    ),
    Setting(
        "forward_dead_lettered_messages_to",
        Form.ADDRESS,
        _RECEIVED_FROM,
        "Pass dead letters on to this queue or topic; '' for none.",
        element="ForwardDeadLetteredMessagesTo",
    ),
    Setting(
        "user_metadata",
        Form.TEXT,
        _ALL,
        "A text of your own, which Tandem only keeps.",
        most=MAX_USER_METADATA_CHARACTERS,
        element="UserMetadata",
    ),
    Setting(
        "max_message_size_in_kilobytes",
        Form.NUMBER,
        _SENT_TO,
        "Larger messages are refused; 1,024 unless set in the tier premium.",
        default=256,
        least=1,
        most=MAX_MESSAGE_SIZE_KILOBYTES,
        element="MaxMessageSizeInKilobytes",
        since="2021-05",
    ),
    Setting(
        "enable_express",
        Form.FLAG,
        _SENT_TO,
        "Kept for the SDKs; Tandem always writes a message to disk before it acknowledges it.",
        default=False,
        element="EnableExpress",
    ),
    Setting(
        "consumer_groups",
        Form.NAMES,
        (HUB,),
        "Consumer groups beside $Default, which every hub has.",
        default=(DEFAULT_CONSUMER_GROUP,),
        most=MAX_CONSUMER_GROUPS,
        option="--consumer-group",
    ),
]

# The shared access rules of an entity. They are not a setting: only who has the right Manage may see them.
RULES_FIELD: Final = "authorization_rules"
KINDS_WITH_RULES: Final = (QUEUE, TOPIC, HUB)

# The fields that say which entity is described, in front of its settings.
NAME_FIELDS: Final = {QUEUE: ("name",), TOPIC: ("name",), SUBSCRIPTION: ("topic_name", "name"), HUB: ("name",)}

# The descriptions of the service, by the kind of entity.
DESCRIPTIONS: Final = {
    QUEUE: "QueueDescription",
    TOPIC: "TopicDescription",
    SUBSCRIPTION: "SubscriptionDescription",
    HUB: "EventHubDescription",
}

# Nobody receives from a topic, and nobody sends to a subscription.
STATUSES: Final = {
    QUEUE: tuple(EntityStatus),
    TOPIC: (EntityStatus.ACTIVE, EntityStatus.DISABLED, EntityStatus.SEND_DISABLED),
    SUBSCRIPTION: (EntityStatus.ACTIVE, EntityStatus.DISABLED, EntityStatus.RECEIVE_DISABLED),
    HUB: tuple(EntityStatus),
}

# All elements of a description, those of settings among them, in the order in which the service writes them. Clients
# that were generated from contracts read by position, so the order is part of the contract.
ELEMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    QUEUE: (
        *("LockDuration", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "RequiresSession"),
        *("DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration", "DuplicateDetectionHistoryTimeWindow"),
        *("MaxDeliveryCount", "EnableBatchedOperations", "SizeInBytes", "MessageCount", "IsAnonymousAccessible"),
        *("AuthorizationRules", "Status", "CreatedAt", "UpdatedAt", "AccessedAt", "SupportOrdering", "CountDetails"),
        *("AutoDeleteOnIdle", "EnablePartitioning", "EntityAvailabilityStatus", "EnableExpress", "ForwardTo"),
        *("UserMetadata", "ForwardDeadLetteredMessagesTo", "MaxMessageSizeInKilobytes"),
    ),
    TOPIC: (
        *("DefaultMessageTimeToLive", "MaxSizeInMegabytes", "RequiresDuplicateDetection"),
        *("DuplicateDetectionHistoryTimeWindow", "EnableBatchedOperations", "SizeInBytes"),
        *("FilteringMessagesBeforePublishing", "IsAnonymousAccessible", "AuthorizationRules", "Status", "CreatedAt"),
        *("UpdatedAt", "AccessedAt", "SupportOrdering", "CountDetails", "SubscriptionCount", "SqlFilterCount"),
        *("CorrelationFilterCount", "AutoDeleteOnIdle", "EnablePartitioning", "EntityAvailabilityStatus"),
        *("EnableSubscriptionPartitioning", "EnableExpress", "UserMetadata", "MaxMessageSizeInKilobytes"),
    ),
    SUBSCRIPTION: (
        *("LockDuration", "RequiresSession", "DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration"),
        *("DeadLetteringOnFilterEvaluationExceptions", "MessageCount", "MaxDeliveryCount", "EnableBatchedOperations"),
        *("Status", "ForwardTo", "CreatedAt", "UpdatedAt", "AccessedAt", "CountDetails"),
        *("ForwardDeadLetteredMessagesTo", "AutoDeleteOnIdle", "EntityAvailabilityStatus", "UserMetadata"),
    ),
    HUB: (
        *("SizeInBytes", "MessageRetentionInDays", "AuthorizationRules", "Status", "UserMetadata", "CreatedAt"),
        *("UpdatedAt", "PartitionCount", "EntityAvailabilityStatus", "PartitionIds"),
    ),
}


# Remembered: a broker with many entities reads as many descriptions when it starts.
@cache
def settings_of(kind: str) -> tuple[Setting, ...]:
    """Return the settings of a kind of entity, in order."""
    return tuple(one for one in SETTINGS if kind in one.kinds)


def setting_of(name: str) -> Setting | None:
    """Return the setting of a name, whatever has it."""
    return next((one for one in SETTINGS if one.name == name), None)


@contextmanager
def registered(setting: Setting) -> Iterator[None]:
    """Add a setting to the table for a while: tests do, to show that everything is derived from it."""
    SETTINGS.append(setting)
    _forget()
    try:
        yield
    finally:
        SETTINGS.remove(setting)
        _forget()


def _forget() -> None:
    for remembered in (settings_of, _known_fields):
        remembered.cache_clear()


# --- values ---------------------------------------------------------------------------------------------------------

_TYPES: Final[Mapping[Form, tuple[type, str]]] = {
    Form.DURATION: (int, "a whole number"),
    Form.NUMBER: (int, "a whole number"),
    Form.BYTES: (int, "a whole number"),
    Form.FLAG: (bool, "true or false"),
    Form.TEXT: (str, "a text"),
    Form.STATUS: (str, "a text"),
    Form.ADDRESS: (str, "a text"),
    Form.NAMES: (list, "a list"),
}


def default_values(kind: str) -> dict[str, object]:
    """Return the settings of an entity for which none was chosen."""
    return {one.name: list(one.default) if isinstance(one.default, tuple) else one.default for one in settings_of(kind)}


def refuse_unknown(kind: str, fields: Iterable[str]) -> None:
    """Raise ArgumentError for a field that entities of this kind do not have."""
    known = _known_fields(kind)
    for field in fields:
        if field not in known:
            listed = ", ".join(name for name, is_shown in known.items() if is_shown)
            raise ArgumentError.of(f"{{field}} is not a property of a {kind}; those are {listed}", field)


@cache
def _known_fields(kind: str) -> dict[str, bool]:
    """Return the fields that entities of a kind have, and whether they are shown."""
    settings = settings_of(kind)
    shown = [*NAME_FIELDS[kind], *[one.name for one in settings], *([RULES_FIELD] if kind in KINDS_WITH_RULES else [])]
    schemes = [scheme_field(one.name) for one in settings if one.form is Form.ADDRESS]
    return {**dict.fromkeys(shown, True), **dict.fromkeys(schemes, False)}


def scheme_field(name: str) -> str:
    """Return the field that keeps the scheme in which the address of a setting was written."""
    return f"{name}_scheme"


def checked_values(kind: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return all settings of an entity, chosen or default. ArgumentError names the field that is wrong."""
    refuse_unknown(kind, fields)
    values = default_values(kind)
    for setting in settings_of(kind):
        value = fields.get(setting.name, setting.default)
        # Most settings have their defaults, of which nothing has to be checked.
        if value != setting.default or type(value) is not type(setting.default):
            values[setting.name] = _checked(setting, kind, value)
    return values


def _checked(setting: Setting, kind: str, value: object) -> object:
    if value is None and setting.is_nullable:
        return None
    if isinstance(value, EntityStatus):
        value = value.value
    expected, noun = _TYPES[setting.form]
    # A bool is an int in Python, but not here.
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise ArgumentError.of(f"{{field}} must be {noun}, got {{value}}", setting.name, value=value)
    if isinstance(value, int) and expected is int:
        _check_bounds(setting, value)
    elif setting.form is Form.STATUS and value not in [one.value for one in STATUSES[kind]]:
        allowed = ", ".join(one.value for one in STATUSES[kind])
        raise ArgumentError.of(
            f"{{field}} is {{value}}; of a {kind} it must be one of {allowed}", setting.name, value=value
        )
    elif isinstance(value, str) and setting.most is not None and len(value) > setting.most:
        template = "{field} has {value} characters; at most {most} are allowed"
        raise ArgumentOutOfRange.of(template, setting.name, value=len(value), most=setting.most)
    return (value or None) if setting.form is Form.ADDRESS else value


def _check_bounds(setting: Setting, value: int) -> None:
    least, most = setting.least, setting.most
    if most is None:
        if value < least:
            raise ArgumentOutOfRange.of(
                "{field} is {value}; it must be at least {least}", setting.name, value=value, least=least
            )
        most = _UNBOUNDED
    if not least <= value <= most:
        template = "{field} is {value}; it must be between {least} and {most}"
        raise ArgumentOutOfRange.of(template, setting.name, value=value, least=least, most=most)


def durations_as_ms(kind: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return fields in which times written for people, `lock_duration: "30s"`, are milliseconds."""
    durations = {one.label: one for one in settings_of(kind) if one.form is Form.DURATION}
    read: dict[str, object] = {}
    for field, value in fields.items():
        setting = durations.get(field)
        if setting is None:
            read[field] = value
            continue
        if setting.name in fields:
            raise ArgumentError.of(f"{{field}} and {setting.name} are the same setting: leave one out", field)
        if not isinstance(value, str):
            raise ArgumentError.of(
                f"{{field}} must be a text such as 30s, 5m or 7d, got {{value}}; {setting.name} takes milliseconds",
                field,
                value=value,
            )
        value_ms = parse_duration_ms(value, field)
        if value_ms is None and not setting.is_nullable:
            least, most = duration_text(setting.least), duration_text(setting.most)
            template = f"{{field}} is {NEVER}; it must be between {least} and {most}"
            raise ArgumentOutOfRange.of(template, field)
        read[setting.name] = value_ms
    return read


def fixed_change(kind: str, before: Mapping[str, object], after: Mapping[str, object]) -> Setting | None:
    """Return the first setting that an update would change although an entity has it for life."""
    fixed = [one for one in settings_of(kind) if one.is_fixed]
    return next((one for one in fixed if before[one.name] != after[one.name]), None)


# --- errors ---------------------------------------------------------------------------------------------------------


def _service_name(field: str) -> str:
    setting = setting_of(field)
    return _SERVICE_NAMES.get(field, field) if setting is None else setting.element or field


def _label(field: str) -> str:
    return field.removesuffix(_UNIT)


_SERVICE_NAMES: Final = {RULES_FIELD: "AuthorizationRules", "topic_name": "TopicName", "name": "Name"}

# As the service's own XML and files have them: `LockDuration is PT10M`, not `lock_duration_ms is 600000`.
SERVICE_WORDS: Final = Words(_service_name, iso_duration)

# As people write times: `lock_duration is 10m`.
PEOPLE_WORDS: Final = Words(_label, duration_text)
