"""What a user can choose about a queue: each property with its default and its bounds.

The defaults are those of the cloud service. A description is checked as a whole when it is made, so that no other
code has to doubt it. Topics and subscriptions are described by the same properties, each by its own part of them:
`topic_description` and `subscription_description`.
"""

from __future__ import annotations

import enum
from typing import Final

from tandem.addresses import validate_entity_name
from tandem.auth.keys import MAX_RULES_PER_SCOPE, AuthorizationRule
from tandem.engine.message import NEVER_MS
from tandem.errors import ArgumentError, ArgumentOutOfRange, ConfigurationError
from tandem.limits import (
    MAX_DELIVERY_COUNT,
    MAX_DUPLICATE_WINDOW_MS,
    MAX_LOCK_DURATION_MS,
    MAX_MESSAGE_SIZE_KILOBYTES,
    MAX_QUEUE_SIZE_MEGABYTES,
    MAX_USER_METADATA_CHARACTERS,
    MIN_AUTO_DELETE_ON_IDLE_MS,
    MIN_DUPLICATE_WINDOW_MS,
    MIN_LOCK_DURATION_MS,
    MIN_TIME_TO_LIVE_MS,
    PARTITION_COUNT,
)

__all__ = [
    "EntityDescription",
    "EntityStatus",
    "FieldTypes",
    "QueueDescription",
    "checked_fields",
    "default_fields",
    "status_of",
    "within",
]

# Per property the type of its values, and whether it may be null.
FieldTypes = dict[str, tuple[type, bool]]

_DEFAULT_LOCK_DURATION_MS: Final = 60_000
_DEFAULT_DUPLICATE_WINDOW_MS: Final = 600_000
_DEFAULT_MAX_DELIVERY_COUNT: Final = 10
_DEFAULT_MAX_SIZE_MEGABYTES: Final = 1_024
_DEFAULT_MAX_MESSAGE_SIZE_KILOBYTES: Final = 256


class EntityStatus(enum.Enum):
    """What an entity lets clients do."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"


class EntityDescription:
    """What entities of every kind have: a name, a status, and rules of their own."""

    __slots__ = ("authorization_rules", "name", "status", "user_metadata")

    def __init__(
        self,
        name: str,
        status: EntityStatus,
        user_metadata: str | None,
        authorization_rules: list[AuthorizationRule] | None,
    ) -> None:
        self.name = name
        self.status = status
        self.user_metadata = user_metadata
        # Rules for this entity alone. In a description that changes another, None leaves them as they are.
        self.authorization_rules = authorization_rules

    def check_common(self) -> None:
        if self.user_metadata is not None and len(self.user_metadata) > MAX_USER_METADATA_CHARACTERS:
            raise ArgumentOutOfRange(
                f"user_metadata has {len(self.user_metadata)} characters; at most {MAX_USER_METADATA_CHARACTERS} are "
                "allowed"
            )
        if self.authorization_rules is not None and len(self.authorization_rules) > MAX_RULES_PER_SCOPE:
            raise ArgumentOutOfRange(
                f"authorization_rules has {len(self.authorization_rules)} rules; at most {MAX_RULES_PER_SCOPE} are "
                "allowed"
            )

    @property
    def kind(self) -> str:
        """What it describes, in one word."""
        raise NotImplementedError

    @property
    def can_send(self) -> bool:
        return self.status is EntityStatus.ACTIVE or self.status is EntityStatus.RECEIVE_DISABLED

    @property
    def can_receive(self) -> bool:
        return self.status is EntityStatus.ACTIVE or self.status is EntityStatus.SEND_DISABLED

    def to_fields(self) -> dict[str, object]:
        """Plain values by name: what the management API shows. Keys are not for everybody who may look."""
        raise NotImplementedError

    def stored_fields(self) -> dict[str, object]:
        """Return what is stored: the same, the keys, and the schemes of addresses."""
        fields = self.to_fields()
        if self.authorization_rules:
            fields["authorization_rules"] = [rule.to_dict() for rule in self.authorization_rules]
        return fields


class QueueDescription(EntityDescription):
    """The chosen properties of one queue. None as a time means never."""

    __slots__ = (
        "auto_delete_on_idle_ms",
        "dead_lettering_on_message_expiration",
        "default_message_time_to_live_ms",
        "duplicate_detection_history_time_window_ms",
        "enable_batched_operations",
        "enable_express",
        "enable_partitioning",
        "forward_dead_lettered_messages_to",
        "forward_dead_lettered_messages_to_scheme",
        "forward_to",
        "forward_to_scheme",
        "is_message_size_chosen",
        "lock_duration_ms",
        "max_delivery_count",
        "max_message_size_in_kilobytes",
        "max_size_in_megabytes",
        "requires_duplicate_detection",
        "requires_session",
    )

    def __init__(
        self,
        name: str,
        lock_duration_ms: int = _DEFAULT_LOCK_DURATION_MS,
        max_size_in_megabytes: int = _DEFAULT_MAX_SIZE_MEGABYTES,
        requires_duplicate_detection: bool = False,
        requires_session: bool = False,
        default_message_time_to_live_ms: int | None = None,
        dead_lettering_on_message_expiration: bool = False,
        duplicate_detection_history_time_window_ms: int = _DEFAULT_DUPLICATE_WINDOW_MS,
        max_delivery_count: int = _DEFAULT_MAX_DELIVERY_COUNT,
        enable_batched_operations: bool = True,
        status: EntityStatus = EntityStatus.ACTIVE,
        auto_delete_on_idle_ms: int | None = None,
        enable_partitioning: bool = False,
        forward_to: str | None = None,
        forward_dead_lettered_messages_to: str | None = None,
        user_metadata: str | None = None,
        max_message_size_in_kilobytes: int | None = None,
        authorization_rules: list[AuthorizationRule] | None = None,
        enable_express: bool = False,
        forward_to_scheme: str | None = None,
        forward_dead_lettered_messages_to_scheme: str | None = None,
    ) -> None:
        super().__init__(name, status, user_metadata, authorization_rules)
        self.lock_duration_ms = lock_duration_ms
        self.max_size_in_megabytes = max_size_in_megabytes
        self.requires_duplicate_detection = requires_duplicate_detection
        self.requires_session = requires_session
        self.default_message_time_to_live_ms = default_message_time_to_live_ms
        self.dead_lettering_on_message_expiration = dead_lettering_on_message_expiration
        self.duplicate_detection_history_time_window_ms = duplicate_detection_history_time_window_ms
        self.max_delivery_count = max_delivery_count
        self.enable_batched_operations = enable_batched_operations
        self.auto_delete_on_idle_ms = auto_delete_on_idle_ms
        self.enable_partitioning = enable_partitioning
        # Kept for those who ask for it: every message is on disk before it is acknowledged in any case.
        self.enable_express = enable_express
        self.forward_to = forward_to or None
        self.forward_dead_lettered_messages_to = forward_dead_lettered_messages_to or None
        # The schemes of the addresses in which the two were written, which clients of Atom expect back.
        self.forward_to_scheme = forward_to_scheme
        self.forward_dead_lettered_messages_to_scheme = forward_dead_lettered_messages_to_scheme
        # The size of an entity that is created without one is the default of the namespace's tier.
        self.is_message_size_chosen = max_message_size_in_kilobytes is not None
        self.max_message_size_in_kilobytes = _DEFAULT_MAX_MESSAGE_SIZE_KILOBYTES
        if max_message_size_in_kilobytes is not None:
            self.max_message_size_in_kilobytes = max_message_size_in_kilobytes
        self._check()

    def _check(self) -> None:
        self.check_name()
        within("lock_duration_ms", self.lock_duration_ms, MIN_LOCK_DURATION_MS, MAX_LOCK_DURATION_MS)
        within("max_size_in_megabytes", self.max_size_in_megabytes, 1, MAX_QUEUE_SIZE_MEGABYTES)
        within(
            "duplicate_detection_history_time_window_ms",
            self.duplicate_detection_history_time_window_ms,
            MIN_DUPLICATE_WINDOW_MS,
            MAX_DUPLICATE_WINDOW_MS,
        )
        within("max_delivery_count", self.max_delivery_count, 1, MAX_DELIVERY_COUNT)
        within("max_message_size_in_kilobytes", self.max_message_size_in_kilobytes, 1, MAX_MESSAGE_SIZE_KILOBYTES)
        if self.default_message_time_to_live_ms is not None:
            within(
                "default_message_time_to_live_ms", self.default_message_time_to_live_ms, MIN_TIME_TO_LIVE_MS, NEVER_MS
            )
        if self.auto_delete_on_idle_ms is not None:
            within("auto_delete_on_idle_ms", self.auto_delete_on_idle_ms, MIN_AUTO_DELETE_ON_IDLE_MS, NEVER_MS)
        self.check_common()

    def check_name(self) -> None:
        validate_entity_name(self.name)

    def choose_message_size(self, kilobytes: int) -> None:
        """Take this as the largest message size, unless one was chosen."""
        if not self.is_message_size_chosen:
            self.max_message_size_in_kilobytes = kilobytes
            self.is_message_size_chosen = True

    @property
    def kind(self) -> str:
        return "queue"

    @property
    def dead_letter_source(self) -> str:
        """The name that forwarded dead letters carry. The service writes it in lower case (NServiceBus's tests)."""
        return self.name.lower()

    @property
    def judges_properties(self) -> bool:
        """Whether messages have to be decoded so far that their properties are known."""
        return self.requires_session or self.requires_duplicate_detection or self.enable_partitioning

    @property
    def total_size_in_megabytes(self) -> int:
        """The room that the entity has: each partition has the chosen size."""
        return self.max_size_in_megabytes * (PARTITION_COUNT if self.enable_partitioning else 1)

    @property
    def max_size_bytes(self) -> int:
        return self.total_size_in_megabytes << 20

    def to_fields(self) -> dict[str, object]:
        return {
            "name": self.name,
            "lock_duration_ms": self.lock_duration_ms,
            "max_size_in_megabytes": self.max_size_in_megabytes,
            "requires_duplicate_detection": self.requires_duplicate_detection,
            "requires_session": self.requires_session,
            "default_message_time_to_live_ms": self.default_message_time_to_live_ms,
            "dead_lettering_on_message_expiration": self.dead_lettering_on_message_expiration,
            "duplicate_detection_history_time_window_ms": self.duplicate_detection_history_time_window_ms,
            "max_delivery_count": self.max_delivery_count,
            "enable_batched_operations": self.enable_batched_operations,
            "status": self.status.value,
            "auto_delete_on_idle_ms": self.auto_delete_on_idle_ms,
            "enable_partitioning": self.enable_partitioning,
            "forward_to": self.forward_to,
            "forward_dead_lettered_messages_to": self.forward_dead_lettered_messages_to,
            "user_metadata": self.user_metadata,
            "max_message_size_in_kilobytes": self.max_message_size_in_kilobytes,
            "enable_express": self.enable_express,
        }

    def stored_fields(self) -> dict[str, object]:
        fields = super().stored_fields()
        for field, scheme in (
            ("forward_to_scheme", self.forward_to_scheme),
            ("forward_dead_lettered_messages_to_scheme", self.forward_dead_lettered_messages_to_scheme),
        ):
            if scheme is not None:
                fields[field] = scheme
        return fields

    @staticmethod
    def from_fields(fields: dict[str, object]) -> QueueDescription:
        """The opposite. An unknown name or a value of the wrong type raises ArgumentError, which names the field."""
        values = checked_fields("queue", fields, _FIELD_TYPES, default_fields(QueueDescription("defaults")))
        return QueueDescription(**values)  # type: ignore[arg-type] # every type was checked against _FIELD_TYPES


_TYPE_NAMES: Final[dict[type, str]] = {int: "a whole number", bool: "true or false", str: "a text", list: "a list"}

_FIELD_TYPES: Final[FieldTypes] = {
    "name": (str, False),
    "lock_duration_ms": (int, False),
    "max_size_in_megabytes": (int, False),
    "requires_duplicate_detection": (bool, False),
    "requires_session": (bool, False),
    "default_message_time_to_live_ms": (int, True),
    "dead_lettering_on_message_expiration": (bool, False),
    "duplicate_detection_history_time_window_ms": (int, False),
    "max_delivery_count": (int, False),
    "enable_batched_operations": (bool, False),
    "status": (str, False),
    "auto_delete_on_idle_ms": (int, True),
    "enable_partitioning": (bool, False),
    "forward_to": (str, True),
    "forward_dead_lettered_messages_to": (str, True),
    "user_metadata": (str, True),
    "max_message_size_in_kilobytes": (int, False),
    "enable_express": (bool, False),
    "authorization_rules": (list, True),
    "forward_to_scheme": (str, True),
    "forward_dead_lettered_messages_to_scheme": (str, True),
}


def default_fields(description: QueueDescription) -> dict[str, object]:
    """The properties of a description that nobody has set, except the message size, whose default the tier sets."""
    fields = description.to_fields()
    del fields["max_message_size_in_kilobytes"]
    return fields


def checked_fields(
    kind: str, fields: dict[str, object], types: FieldTypes, defaults: dict[str, object]
) -> dict[str, object]:
    """All properties, given or default, with the status as such. Raises ArgumentError, which names the field."""
    unknown = sorted(fields.keys() - types.keys())
    if unknown:
        raise ArgumentError(f"{unknown[0]} is not a property of a {kind}; those are {', '.join(types)}")
    for field, value in fields.items():
        expected, is_optional = types[field]
        if value is None and is_optional:
            continue
        # A bool is an int in Python, and is none here.
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise ArgumentError(f"{field} must be {_TYPE_NAMES[expected]}, got {value!r:.80}")
    if "name" not in fields:
        raise ArgumentError(f"name is missing: a {kind} needs one")
    values = {**defaults, **fields}
    values["status"] = status_of(values["status"])
    rules = values.get("authorization_rules")
    if isinstance(rules, list):
        values["authorization_rules"] = [_authorization_rule(str(values["name"]), rule) for rule in rules]
    return values


def _authorization_rule(name: str, fields: object) -> AuthorizationRule:
    """A rule of the entity of this name, whatever it says itself."""
    if not isinstance(fields, dict):
        raise ArgumentError(f"authorization_rules must hold objects, got {fields!r:.80}")
    try:
        return AuthorizationRule.from_dict({**fields, "scope": name})
    except ConfigurationError as error:
        raise ArgumentError(f"authorization_rules: {error}") from None


def status_of(text: object) -> EntityStatus:
    try:
        return EntityStatus(text)
    except ValueError:
        allowed = ", ".join([one.value for one in EntityStatus])
        raise ArgumentError(f"status is {text!r}; it must be one of {allowed}") from None


def within(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ArgumentOutOfRange(f"{field} is {value}; it must be from {least} to {most}")
