"""Rules as XML: filters, actions, and the values of their parameters with the types of XML Schema."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tandem.durations import date_text
from tandem.engine.rule import Rule, correlation_texts
from tandem.errors import ArgumentError
from tandem.management.atom.descriptions import INSTANCE, SERVICE_BUS
from tandem.management.atom.xml import Element, element, escaped
from tandem.rules import CorrelationFilter, FalseFilter, Filter, SqlAction, SqlFilter, TrueFilter
from tandem.rules.values import DateTime, TimeSpan, Written, rule_value
from tandem.rules.written import read_written
from tandem.wire_names import TICKS_PER_SECOND

__all__ = ["read_rule_xml", "rule_xml"]

_SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"
_SERIALIZATION: Final = "http://schemas.microsoft.com/2003/10/Serialization/"

# The version of the language that the service's own rules have.
_COMPATIBILITY_LEVEL: Final = "20"

_MAX_INT: Final = 2**31 - 1

# The elements of a correlation filter, in their order.
_CORRELATION: Final = {
    "CorrelationId": "correlation_id",
    "MessageId": "message_id",
    "To": "to",
    "ReplyTo": "reply_to",
    "Label": "label",
    "SessionId": "session_id",
    "ReplyToSessionId": "reply_to_session_id",
    "ContentType": "content_type",
}

# --- reading --------------------------------------------------------------------------------------------------------


def read_rule_xml(name: str, description: Element, now_ms: int) -> Rule:
    """A rule from its description. Without a filter it is for every message."""
    condition = description.find("Filter")
    action = description.find("Action")
    return Rule(
        name,
        TrueFilter() if condition is None else _read_filter(condition),
        None if action is None else _read_action(action),
        now_ms,
    )


def _read_filter(condition: Element) -> Filter:
    kind = condition.type
    if kind == "TrueFilter":
        return TrueFilter()
    if kind == "FalseFilter":
        return FalseFilter()
    if kind == "SqlFilter":
        return SqlFilter(_expression(condition, "Filter"), _read_pairs(condition, "Parameters"))
    if kind == "CorrelationFilter":
        texts = {field: _text(condition, name) for name, field in _CORRELATION.items()}
        return CorrelationFilter(**texts, properties=_read_pairs(condition, "Properties"))
    raise ArgumentError(
        f"Filter has the type {kind!r:.80}; it must be SqlFilter, TrueFilter, FalseFilter or CorrelationFilter"
    )


def _read_action(action: Element) -> SqlAction | None:
    if action.type in {"", "EmptyRuleAction"}:
        return None
    if action.type != "SqlRuleAction":
        raise ArgumentError(f"Action has the type {action.type!r:.80}; it must be SqlRuleAction or EmptyRuleAction")
    return SqlAction(_expression(action, "Action"), _read_pairs(action, "Parameters"))


def _expression(parent: Element, what: str) -> str:
    """Return the text as it was written: blanks at its ends are part of it."""
    child = parent.find("SqlExpression")
    if child is None or not child.text.strip():
        raise ArgumentError(f"{what} has no SqlExpression")
    return child.text


def _text(parent: Element, name: str) -> str | None:
    """Return a text that is compared, blanks included; None if it is missing or empty."""
    child = parent.find(name)
    return None if child is None or child.is_nil else child.text or None


def _read_pairs(parent: Element, name: str) -> dict[str, object]:
    pairs: dict[str, object] = {}
    container = parent.find(name)
    if container is None:
        return pairs
    for pair in container.find_all("KeyValueOfstringanyType"):
        key, value = pair.find("Key"), pair.find("Value")
        if key is None or value is None:
            raise ArgumentError(f"{name} has a pair without Key or Value")
        pairs[key.text] = _read_value(f"{name}.{key.text}", value)
    return pairs


def _read_value(field: str, value: Element) -> object:
    return None if value.is_nil else read_written(value.type, value.text, field)


# --- writing --------------------------------------------------------------------------------------------------------


def rule_xml(rule: Rule) -> str:
    action = rule.action
    return element(
        "RuleDescription",
        _filter(rule.filter)
        + (
            element("Action", "", {"i:type": "EmptyRuleAction"})
            if action is None
            else element("Action", _sql(action.expression, action.parameters), {"i:type": "SqlRuleAction"})
        )
        + element("CreatedAt", date_text(rule.created_at_ms))
        + element("Name", escaped(rule.name)),
        {"xmlns": SERVICE_BUS, "xmlns:i": INSTANCE},
    )


def _filter(condition: Filter) -> str:
    if isinstance(condition, SqlFilter):
        return element("Filter", _sql(condition.expression, condition.parameters), {"i:type": "SqlFilter"})
    if isinstance(condition, CorrelationFilter):
        texts = correlation_texts(condition)
        named = [(name, texts[field]) for name, field in _CORRELATION.items()]
        inner = "".join(element(name, escaped(text)) for name, text in named if text is not None)
        inner += element("Properties", _pairs(condition.properties))
        return element("Filter", inner, {"i:type": "CorrelationFilter"})
    if isinstance(condition, TrueFilter):
        return element("Filter", _sql("1=1", {}), {"i:type": "TrueFilter"})
    return element("Filter", _sql("1=0", {}), {"i:type": "FalseFilter"})


def _sql(expression: str, parameters: Mapping[str, object]) -> str:
    return (
        element("SqlExpression", escaped(expression))
        + element("CompatibilityLevel", _COMPATIBILITY_LEVEL)
        + (element("Parameters", _pairs(parameters)) if parameters else "")
    )


def _pairs(values: Mapping[str, object]) -> str:
    return "".join(
        element("KeyValueOfstringanyType", element("Key", escaped(name)) + _value(value))
        for name, value in values.items()
    )


def _value(value: object) -> str:
    if value is None:
        return element("Value", "", {"i:nil": "true"})
    kind, text = (value.kind, value.text) if isinstance(value, Written) else _typed(rule_value(value))
    namespace = _SERIALIZATION if kind == "duration" else _SCHEMA
    return element("Value", escaped(text), {"i:type": f"d6p1:{kind}", "xmlns:d6p1": namespace})


def _typed(value: object) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    if isinstance(value, int):
        return ("int" if abs(value) <= _MAX_INT else "long"), str(value)
    if isinstance(value, float):
        special = {math.inf: "INF", -math.inf: "-INF"}
        return "double", special.get(value) or ("NaN" if math.isnan(value) else repr(value))
    if isinstance(value, DateTime):
        return "dateTime", str(value)
    if isinstance(value, TimeSpan):
        return "duration", _duration(value)
    return "string", str(value)


def _duration(value: TimeSpan) -> str:
    seconds, ticks = divmod(abs(value.ticks), TICKS_PER_SECOND)
    days, seconds = divmod(seconds, 86_400)
    fraction = f".{ticks:07}".rstrip("0") if ticks else ""
    date = f"{days}D" if days else ""
    return f"{'-' if value.ticks < 0 else ''}P{date}T{seconds // 3600}H{seconds // 60 % 60}M{seconds % 60}{fraction}S"
