"""A rule of a subscription: a filter that selects messages, and perhaps an action that changes the copy."""

from __future__ import annotations

import decimal
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from tandem.addresses import validate_rule_name
from tandem.engine.intake import partition_key_of
from tandem.engine.message import NEVER_MS, BrokeredMessage
from tandem.errors import ArgumentError
from tandem.rules import CorrelationFilter, FalseFilter, Filter, SqlAction, SqlFilter, Subject, TrueFilter
from tandem.rules.values import DateTime, TimeSpan, Written, rule_value
from tandem.rules.written import read_written

__all__ = ["CORRELATION_FIELDS", "Rule", "correlation_texts", "plain_value", "subject_of", "typed_values"]

# The system properties that a correlation filter can compare, by the names of its parameters.
CORRELATION_FIELDS: Final = (
    "correlation_id",
    "message_id",
    "to",
    "reply_to",
    "label",
    "session_id",
    "reply_to_session_id",
    "content_type",
)


class Rule:
    """One rule. Rules are told apart by identity: a changed rule is another one."""

    __slots__ = ("action", "created_at_ms", "filter", "name")

    def __init__(self, name: str, condition: Filter, action: SqlAction | None, created_at_ms: int) -> None:
        validate_rule_name(name)
        self.name = name
        self.filter = condition
        self.action = action
        self.created_at_ms = created_at_ms

    def to_fields(self) -> dict[str, object]:
        """Return plain values: what the management API shows."""
        return self._fields(plain_value)

    def stored_fields(self) -> dict[str, object]:
        """Return what is stored: the same, and values together with how they were written."""
        return self._fields(_stored_value)

    def _fields(self, render: Callable[[object], object]) -> dict[str, object]:
        action = self.action
        fields: dict[str, object] = {"filter": _filter_fields(self.filter, render), "action": None}
        if action is not None:
            fields["action"] = {"expression": action.expression, "parameters": _rendered(action.parameters, render)}
        return fields

    @staticmethod
    def from_fields(name: str, fields: Mapping[str, object], created_at_ms: int) -> Rule:
        """Return the rule of plain or stored values. ArgumentError names the field that cannot be."""
        unknown = sorted(fields.keys() - {"filter", "action"})
        if unknown:
            raise ArgumentError(f"{unknown[0]} is not a property of a rule; those are filter and action")
        condition = fields.get("filter")
        action = fields.get("action")
        return Rule(
            name,
            TrueFilter() if condition is None else _filter_of(_mapping("filter", condition)),
            None if action is None else _action_of(_mapping("action", action)),
            created_at_ms,
        )


def subject_of(message: BrokeredMessage, new_id: Callable[[], uuid.UUID] | None = None) -> Subject:
    """What rules look at, of a message with its bytes."""
    stored = message.stored
    assert stored is not None
    return Subject.of_message(
        stored.front,
        time_to_live_ms=None if message.time_to_live_ms >= NEVER_MS else message.time_to_live_ms,
        scheduled_enqueue_time_ms=message.due_at_ms or None,
        enqueued_time_ms=message.enqueued_time_ms,
        delivery_count=message.delivery_count,
        sequence_number=message.visible_sequence_number,
        enqueued_sequence_number=message.enqueue_sequence_number,
        partition_key=partition_key_of(stored.message_annotations),
        dead_letter_source=message.dead_letter_source,
        size_bytes=message.size_bytes,
        new_id=new_id,
    )


def _filter_fields(condition: Filter, render: Callable[[object], object]) -> dict[str, object]:
    if isinstance(condition, SqlFilter):
        return {
            "kind": "sql",
            "expression": condition.expression,
            "parameters": _rendered(condition.parameters, render),
        }
    if isinstance(condition, CorrelationFilter):
        return {
            "kind": "correlation",
            **correlation_texts(condition),
            "properties": _rendered(condition.properties, render),
        }
    return {"kind": "true" if isinstance(condition, TrueFilter) else "false"}


def correlation_texts(condition: CorrelationFilter) -> dict[str, str | None]:
    """The system properties that a correlation filter compares, None for those it does not."""
    return {
        "correlation_id": condition.correlation_id,
        "message_id": condition.message_id,
        "to": condition.to,
        "reply_to": condition.reply_to,
        "label": condition.label,
        "session_id": condition.session_id,
        "reply_to_session_id": condition.reply_to_session_id,
        "content_type": condition.content_type,
    }


def _filter_of(fields: Mapping[str, object]) -> Filter:
    kind = fields.get("kind")
    if kind == "sql":
        _check_names("filter", fields, ("kind", "expression", "parameters"))
        return SqlFilter(
            _text("filter.expression", fields.get("expression")), typed_values("filter.parameters", fields)
        )
    if kind == "correlation":
        _check_names("filter", fields, ("kind", "properties", *CORRELATION_FIELDS))
        return CorrelationFilter(
            correlation_id=_optional_text("filter.correlation_id", fields.get("correlation_id")),
            message_id=_optional_text("filter.message_id", fields.get("message_id")),
            to=_optional_text("filter.to", fields.get("to")),
            reply_to=_optional_text("filter.reply_to", fields.get("reply_to")),
            label=_optional_text("filter.label", fields.get("label")),
            session_id=_optional_text("filter.session_id", fields.get("session_id")),
            reply_to_session_id=_optional_text("filter.reply_to_session_id", fields.get("reply_to_session_id")),
            content_type=_optional_text("filter.content_type", fields.get("content_type")),
            properties=typed_values("filter.properties", fields),
        )
    if kind == "true":
        return TrueFilter()
    if kind == "false":
        return FalseFilter()
    raise ArgumentError(f"filter.kind is {kind!r:.80}; it must be one of sql, correlation, true, false")


def _action_of(fields: Mapping[str, object]) -> SqlAction:
    _check_names("action", fields, ("expression", "parameters"))
    return SqlAction(_text("action.expression", fields.get("expression")), typed_values("action.parameters", fields))


def _check_names(what: str, fields: Mapping[str, object], known: tuple[str, ...]) -> None:
    unknown = sorted(fields.keys() - set(known))
    if unknown:
        raise ArgumentError(f"{unknown[0]} is not a property of {what}; those are {', '.join(known)}")


def _mapping(field: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ArgumentError(f"{field} must be an object with named values, got {value!r:.80}")
    return {str(name): one for name, one in value.items()}


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{field} must be a text, got {value!r:.80}")
    return value


def _optional_text(field: str, value: object) -> str | None:
    return None if value is None else _text(field, value)


# --- values ---------------------------------------------------------------------------------------------------------
# JSON has no word for some of the types that rules compare. Those are objects of one entry, the type and its text.


def _rendered(values: Mapping[str, object], render: Callable[[object], object]) -> dict[str, object]:
    return {name: render(value) for name, value in values.items()}


def _stored_value(value: object) -> object:
    return {"written": [value.kind, value.text]} if isinstance(value, Written) else plain_value(value)


def plain_value(value: object) -> object:
    value = rule_value(value)
    if isinstance(value, DateTime):
        return {"datetime": value.ticks}
    if isinstance(value, TimeSpan):
        return {"timespan": value.ticks}
    if isinstance(value, uuid.UUID):
        return {"uuid": str(value)}
    if isinstance(value, bytes):
        return {"binary": value.hex()}
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"double": str(value)}
    return value


def typed_values(field: str, fields: Mapping[str, object]) -> dict[str, object]:
    """The map of values under the last part of the field's name."""
    values = fields.get(field.rpartition(".")[2])
    if values is None:
        return {}
    return {name: _value(f"{field}.{name}", value) for name, value in _mapping(field, values).items()}


def _value(field: str, value: object) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict) and len(value) == 1:
        ((kind, text),) = value.items()
        if kind == "written" and isinstance(text, list):
            return _written(field, text)
        try:
            if kind == "datetime" and isinstance(text, int):
                return DateTime(text)
            if kind == "timespan" and isinstance(text, int):
                return TimeSpan(text)
            if kind == "uuid" and isinstance(text, str):
                return uuid.UUID(text)
            if kind == "binary" and isinstance(text, str):
                return bytes.fromhex(text)
            if kind == "decimal" and isinstance(text, str):
                return decimal.Decimal(text)
            if kind == "double" and isinstance(text, str) and text in {"inf", "-inf", "nan"}:
                return float(text)
        except (ValueError, decimal.InvalidOperation):
            raise ArgumentError(f"{field} is not a {kind}: {text!r:.80}") from None
    raise ArgumentError(
        f"{field} must be a text, a number, true or false, or an object such as "
        f'{{"datetime": ticks}}, {{"timespan": ticks}}, {{"uuid": text}}, got {value!r:.80}'
    )


def _written(field: str, parts: list[object]) -> object:
    if len(parts) != 2 or not isinstance(parts[0], str) or not isinstance(parts[1], str):
        raise ArgumentError(f"{field}.written must be a list of a type of XML Schema and a text, got {parts!r:.80}")
    return read_written(parts[0], parts[1], field)
