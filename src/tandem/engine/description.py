"""Descriptions of queues: the settings that a user has chosen, with those that the engine acts upon as attributes.

The settings, their defaults and their bounds are in `tandem.entity_settings`. A description is checked as a whole when
it is made, so that no other code has to doubt it. Topics and subscriptions are described by their own part of the same
settings: `topic_description` and `subscription_description`.
"""

from __future__ import annotations

from typing import Final

from tandem.addresses import validate_entity_name
from tandem.auth.keys import AuthorizationRule
from tandem.entity_settings import (
    NAME_FIELDS,
    QUEUE,
    RULES_FIELD,
    EntityStatus,
    Form,
    checked_values,
    default_values,
    fixed_change,
    refuse_unknown,
    scheme_field,
    settings_of,
)
from tandem.errors import ArgumentError, ArgumentOutOfRange, ConfigurationError
from tandem.limits import MAX_RULES_PER_SCOPE, PARTITION_COUNT

__all__ = [
    "EntityDescription",
    "EntityStatus",
    "QueueDescription",
    "number",
    "optional_number",
    "take_names",
    "take_rules",
]

_MESSAGE_SIZE: Final = "max_message_size_in_kilobytes"

# What a topic or a subscription has in place of the settings that only queues have.
_DEFAULTS: Final = default_values(QUEUE)


class EntityDescription:
    """What entities of every kind have: a name, a status, settings, and rules of their own."""

    __slots__ = ("authorization_rules", "name", "schemes", "status", "values")

    def __init__(
        self, name: str, authorization_rules: list[AuthorizationRule] | None, settings: dict[str, object]
    ) -> None:
        self.name = name
        # Rules for this entity alone. In a description that changes another, None leaves them as they are.
        self.authorization_rules = authorization_rules
        if authorization_rules is not None and len(authorization_rules) > MAX_RULES_PER_SCOPE:
            raise ArgumentOutOfRange.of(
                "{field} has {value} rules; at most {most} are allowed",
                RULES_FIELD,
                value=len(authorization_rules),
                most=MAX_RULES_PER_SCOPE,
            )
        # The schemes of the addresses in which settings were written, which clients of Atom expect back.
        self.schemes = _take_schemes(self.kind, settings)
        # Every setting of this kind, by name, as JSON has them.
        self.values = checked_values(self.kind, settings)
        self.status = EntityStatus(self.values["status"])

    @property
    def kind(self) -> str:
        """The kind of entity, in one word."""
        raise NotImplementedError

    @property
    def can_send(self) -> bool:
        return self.status is EntityStatus.ACTIVE or self.status is EntityStatus.RECEIVE_DISABLED

    @property
    def can_receive(self) -> bool:
        return self.status is EntityStatus.ACTIVE or self.status is EntityStatus.SEND_DISABLED

    def name_fields(self) -> dict[str, object]:
        """Return the fields that say which entity this is."""
        return {"name": self.name}

    def to_fields(self) -> dict[str, object]:
        """Return plain values by name, as the management API shows them. Keys are not for everybody who may look."""
        fields = self.name_fields()
        fields.update(self.values)
        return fields

    def stored_fields(self) -> dict[str, object]:
        """Return what is stored: the same, the keys, and the schemes of addresses."""
        fields = self.to_fields()
        if self.authorization_rules:
            fields[RULES_FIELD] = [rule.to_dict() for rule in self.authorization_rules]
        for name, scheme in self.schemes.items():
            fields[scheme_field(name)] = scheme
        return fields

    def check_change(self, old: EntityDescription, noun: str) -> None:
        """Refuse to change what an entity has for life: its name, and settings that are fixed."""
        before, after = old.to_fields(), self.to_fields()
        fixed = fixed_change(self.kind, before, after)
        changed = [name for name in NAME_FIELDS[self.kind] if before[name] != after[name]]
        if fixed is not None:
            changed.append(fixed.name)
        if changed:
            raise ArgumentError.of(
                f"SubCode=40000. The value for the {{field}} property of an existing {noun} cannot be changed: it is "
                "{existing}, asked for was {value}.",
                changed[0],
                existing=before[changed[0]],
                value=after[changed[0]],
            )


class QueueDescription(EntityDescription):
    """The chosen settings of one queue. None as a time means never."""

    __slots__ = (
        "auto_delete_on_idle_ms",
        "dead_lettering_on_message_expiration",
        "default_message_time_to_live_ms",
        "duplicate_detection_history_time_window_ms",
        "enable_partitioning",
        "forward_dead_lettered_messages_to",
        "forward_to",
        "is_message_size_chosen",
        "lock_duration_ms",
        "max_delivery_count",
        "max_message_size_in_kilobytes",
        "max_size_in_megabytes",
        "requires_duplicate_detection",
        "requires_session",
    )

    def __init__(
        self, name: str, authorization_rules: list[AuthorizationRule] | None = None, **settings: object
    ) -> None:
        """Settings are given by name, as JSON has them; those that are left out have their defaults."""
        super().__init__(name, authorization_rules, settings)
        self.check_name()
        values = dict(_DEFAULTS)
        values.update(self.values)
        self.lock_duration_ms = number(values["lock_duration_ms"])
        self.max_size_in_megabytes = number(values["max_size_in_megabytes"])
        self.requires_duplicate_detection = _flag(values["requires_duplicate_detection"])
        self.requires_session = _flag(values["requires_session"])
        self.default_message_time_to_live_ms = optional_number(values["default_message_time_to_live_ms"])
        self.dead_lettering_on_message_expiration = _flag(values["dead_lettering_on_message_expiration"])
        self.duplicate_detection_history_time_window_ms = number(values["duplicate_detection_history_time_window_ms"])
        self.max_delivery_count = number(values["max_delivery_count"])
        self.auto_delete_on_idle_ms = optional_number(values["auto_delete_on_idle_ms"])
        self.enable_partitioning = _flag(values["enable_partitioning"])
        self.forward_to = _optional_text(values["forward_to"])
        self.forward_dead_lettered_messages_to = _optional_text(values["forward_dead_lettered_messages_to"])
        self.max_message_size_in_kilobytes = number(values[_MESSAGE_SIZE])
        # The size of an entity that is created without one is the default of the namespace's tier.
        self.is_message_size_chosen = _MESSAGE_SIZE in settings

    def check_name(self) -> None:
        validate_entity_name(self.name)

    def choose_message_size(self, kilobytes: int) -> None:
        """Take this as the largest message size, unless one was chosen."""
        if not self.is_message_size_chosen:
            self.max_message_size_in_kilobytes = kilobytes
            self.is_message_size_chosen = True
            if _MESSAGE_SIZE in self.values:
                self.values[_MESSAGE_SIZE] = kilobytes

    @property
    def kind(self) -> str:
        return QUEUE

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

    @staticmethod
    def from_fields(fields: dict[str, object]) -> QueueDescription:
        """Return the description of these plain values. ArgumentError names the field that is wrong."""
        settings = dict(fields)
        (name,) = take_names(QUEUE, settings)
        return QueueDescription(name, take_rules(name, settings), **settings)


# --- fields ---------------------------------------------------------------------------------------------------------


def take_names(kind: str, fields: dict[str, object]) -> list[str]:
    """Remove the names of the entity from its fields, and return them. What is left can be passed as keywords."""
    refuse_unknown(kind, fields)
    names: list[str] = []
    for field in NAME_FIELDS[kind]:
        if field not in fields:
            raise ArgumentError.of(f"{{field}} is missing: a {kind} needs one", field)
        name = fields.pop(field)
        if not isinstance(name, str):
            raise ArgumentError.of("{field} must be a text, got {value}", field, value=name)
        names.append(name)
    return names


def take_rules(entity: str, fields: dict[str, object]) -> list[AuthorizationRule] | None:
    """Remove the shared access rules of the entity from its fields, and return them."""
    rules = fields.pop(RULES_FIELD, None)
    if rules is None:
        return None
    if not isinstance(rules, list):
        raise ArgumentError.of("{field} must be a list, got {value}", RULES_FIELD, value=rules)
    return [_authorization_rule(entity, rule) for rule in rules]


def _authorization_rule(entity: str, fields: object) -> AuthorizationRule:
    """Return a rule of the entity of this name, whatever it says itself."""
    if not isinstance(fields, dict):
        raise ArgumentError.of("{field} must hold objects, got {value}", RULES_FIELD, value=fields)
    try:
        return AuthorizationRule.from_dict({**fields, "scope": entity})
    except ConfigurationError as error:
        raise ArgumentError.of("{field}: {reason}", RULES_FIELD, reason=str(error)) from None


def _take_schemes(kind: str, settings: dict[str, object]) -> dict[str, str]:
    schemes: dict[str, str] = {}
    for name in [setting.name for setting in settings_of(kind) if setting.form is Form.ADDRESS]:
        scheme = settings.pop(scheme_field(name), None)
        if isinstance(scheme, str):
            schemes[name] = scheme
        elif scheme is not None:
            raise ArgumentError.of("{field} must be a text, got {value}", scheme_field(name), value=scheme)
    return schemes


def number(value: object) -> int:
    """Return the value of a setting that is a whole number."""
    assert isinstance(value, int)
    return value


def optional_number(value: object) -> int | None:
    """Return the value of a setting that is a whole number or null."""
    assert value is None or isinstance(value, int)
    return value


def _flag(value: object) -> bool:
    assert isinstance(value, bool)
    return value


def _optional_text(value: object) -> str | None:
    assert value is None or isinstance(value, str)
    return value
