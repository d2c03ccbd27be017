"""Rules as clients write them in requests to `$management`, and as they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.amqp.types import Byte, Described, Int, Short, Timestamp, UByte, UInt, ULong, UShort
from tandem.engine.rule import Rule, correlation_texts
from tandem.errors import ArgumentError
from tandem.rules import CorrelationFilter, FalseFilter, Filter, SqlAction, SqlFilter, TrueFilter
from tandem.rules.values import Written, amqp_value, rule_value

__all__ = ["read_rule", "rule_description"]

# The descriptors of the answer. The service's own numbers; two of them are longer than their kin.
_RULE_DESCRIPTION: Final = ULong(0x137_0000_0004)
_EMPTY_ACTION: Final = ULong(0x137_0000_0005)
_SQL_ACTION: Final = ULong(0x137_0000_0006)
_SQL_FILTER: Final = ULong(0x13_7000_0006)
_TRUE_FILTER: Final = ULong(0x13_7000_0007)
_FALSE_FILTER: Final = ULong(0x13_7000_0008)
_CORRELATION_FILTER: Final = ULong(0x13_7000_0009)

# The version of the language that the service's own rules have.
_COMPATIBILITY_LEVEL: Final = Int(20)

# Integers of AMQP and their names in XML Schema. A plain int is a long.
_INTEGER_TYPES: Final[dict[str, type[int]]] = {
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": int,
    "unsignedByte": UByte,
    "unsignedShort": UShort,
    "unsignedInt": UInt,
    "unsignedLong": ULong,
}
_INTEGER_KINDS: Final[dict[type, str]] = {amqp_type: kind for kind, amqp_type in _INTEGER_TYPES.items()}

_DESCRIPTION_KEYS: Final = ("rule-name", "sql-filter", "correlation-filter", "sql-rule-action")


def read_rule(name: str, description: object, now_ms: int) -> Rule:
    """A rule from the body of an add-rule request. ArgumentError names the field that is wrong."""
    fields = _map("rule-description", description)
    unknown = sorted(fields.keys() - set(_DESCRIPTION_KEYS))
    if unknown:
        raise ArgumentError(f"rule-description.{unknown[0]} is not known; allowed are {', '.join(_DESCRIPTION_KEYS)}")
    action = fields.get("sql-rule-action")
    return Rule(
        name,
        _filter(fields),
        None if action is None else _action(_map("rule-description.sql-rule-action", action)),
        now_ms,
    )


def _filter(fields: Mapping[str, object]) -> Filter:
    sql = fields.get("sql-filter")
    correlation = fields.get("correlation-filter")
    if sql is not None and correlation is None:
        return _sql_filter(_text("rule-description.sql-filter.expression", _map("sql-filter", sql).get("expression")))
    if correlation is None or sql is not None:
        raise ArgumentError("rule-description must have one of sql-filter and correlation-filter")
    field = "rule-description.correlation-filter"
    wanted = _map(field, correlation)

    def text(key: str) -> str | None:
        return None if wanted.get(key) is None else _text(f"{field}.{key}", wanted[key])

    return CorrelationFilter(
        correlation_id=text("correlation-id"),
        message_id=text("message-id"),
        to=text("to"),
        reply_to=text("reply-to"),
        label=text("label"),
        session_id=text("session-id"),
        reply_to_session_id=text("reply-to-session-id"),
        content_type=text("content-type"),
        properties=_properties(f"{field}.properties", wanted.get("properties")),
    )


def _properties(field: str, properties: object) -> dict[str, object]:
    """Return the values that are compared, integers with the width in which they came."""
    named = {} if properties is None else _map(field, properties)
    return {name: _written(value) for name, value in named.items()}


def _written(value: object) -> object:
    kind = _INTEGER_KINDS.get(type(value))
    return Written(kind, str(int(value)), int(value)) if kind is not None and isinstance(value, int) else value


def _amqp_value(value: object) -> object:
    if isinstance(value, Written) and isinstance(value.value, int):
        return _INTEGER_TYPES.get(value.kind, int)(value.value)
    return amqp_value(rule_value(value))


def _sql_filter(expression: str) -> Filter:
    """Return a filter from its text. Clients have no other way to say that a filter is true or false."""
    if expression == "1=1":
        return TrueFilter()
    return FalseFilter() if expression == "1=0" else SqlFilter(expression)


def _action(fields: Mapping[str, object]) -> SqlAction | None:
    expression = fields.get("expression")
    return None if expression is None else SqlAction(_text("rule-description.sql-rule-action.expression", expression))


def rule_description(rule: Rule) -> Described:
    """What enumerate-rules answers for one rule."""
    action = rule.action
    return Described(
        _RULE_DESCRIPTION,
        [
            _described_filter(rule.filter),
            Described(_EMPTY_ACTION, [])
            if action is None
            else Described(_SQL_ACTION, [action.expression, _COMPATIBILITY_LEVEL]),
            rule.name,
            Timestamp(rule.created_at_ms),
        ],
    )


def _described_filter(condition: Filter) -> Described:
    if isinstance(condition, SqlFilter):
        return Described(_SQL_FILTER, [condition.expression, _COMPATIBILITY_LEVEL])
    if isinstance(condition, CorrelationFilter):
        properties = {name: _amqp_value(value) for name, value in condition.properties.items()}
        return Described(_CORRELATION_FILTER, [*correlation_texts(condition).values(), properties])
    return Described(_FALSE_FILTER if isinstance(condition, FalseFilter) else _TRUE_FILTER, [])


def _map(field: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ArgumentError(f"{field} must be a map, got {value!r:.80}")
    return {str(key): one for key, one in value.items()}


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{field} must be a string, got {value!r:.80}")
    return str(value)
