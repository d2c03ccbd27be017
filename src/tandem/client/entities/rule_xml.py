"""Rules as the XML of the service's management API: filters, actions, and values of every type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from xml.etree import ElementTree

from tandem.client.entities.atom import INSTANCE, SERVICE_BUS, find, local_name, read_moment, text_of
from tandem.client.entities.entity import RuleDescription
from tandem.client.errors import MessagingError
from tandem.errors import UsageError
from tandem.rules import CorrelationFilter, FalseFilter, Filter, SqlAction, SqlFilter, TrueFilter
from tandem.rules.values import DateTime, TimeSpan, rule_value
from tandem.rules.written import read_written

__all__ = ["read_rule", "rule_element"]

_SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"
_SERIALIZATION: Final = "http://schemas.microsoft.com/2003/10/Serialization/"

# The version of the language that the service's own rules have.
_COMPATIBILITY_LEVEL: Final = "20"
_MAX_INT: Final = 2**31 - 1
_MICROSECOND: Final = timedelta(microseconds=1)
_YEAR_ONE: Final = datetime(1, 1, 1, tzinfo=UTC)

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

# --- writing --------------------------------------------------------------------------------------------------------


def rule_element(rule: RuleDescription, name: str = "RuleDescription") -> ElementTree.Element:
    root = ElementTree.Element(f"{{{SERVICE_BUS}}}{name}")
    _write_filter(root, rule.filter)
    if rule.action is None:
        _typed(root, "Action", "EmptyRuleAction")
    else:
        _write_sql(_typed(root, "Action", "SqlRuleAction"), rule.action.expression, rule.action.parameters)
    _child(root, "Name", rule.name)
    return root


def _write_filter(root: ElementTree.Element, condition: Filter) -> None:
    if isinstance(condition, SqlFilter):
        _write_sql(_typed(root, "Filter", "SqlFilter"), condition.expression, condition.parameters)
    elif isinstance(condition, TrueFilter):
        _write_sql(_typed(root, "Filter", "TrueFilter"), "1=1", {})
    elif isinstance(condition, FalseFilter):
        _write_sql(_typed(root, "Filter", "FalseFilter"), "1=0", {})
    elif isinstance(condition, CorrelationFilter):
        element = _typed(root, "Filter", "CorrelationFilter")
        for name, attribute in _CORRELATION.items():
            text = getattr(condition, attribute)
            if text is not None:
                _child(element, name, text)
        if condition.properties:
            _write_pairs(_child(element, "Properties"), condition.properties)
    else:
        raise UsageError(f"filter is {condition!r}; use SqlFilter, CorrelationFilter, TrueFilter or FalseFilter")


def _write_sql(element: ElementTree.Element, expression: str, parameters: Mapping[str, object]) -> None:
    _child(element, "SqlExpression", expression)
    _child(element, "CompatibilityLevel", _COMPATIBILITY_LEVEL)
    if parameters:
        _write_pairs(_child(element, "Parameters"), parameters)


def _write_pairs(element: ElementTree.Element, values: Mapping[str, object]) -> None:
    for key, value in values.items():
        pair = _child(element, "KeyValueOfstringanyType")
        _child(pair, "Key", key)
        kind, text = _kind_and_text(key, value)
        # The prefix of a type is in an attribute's value, where ElementTree does not see that it must be declared.
        namespace = _SERIALIZATION if kind == "duration" else _SCHEMA
        _child(pair, "Value", text, {f"{{{INSTANCE}}}type": f"d6p1:{kind}", "xmlns:d6p1": namespace})


def _kind_and_text(key: str, value: object) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    if isinstance(value, int):
        return ("int" if abs(value) <= _MAX_INT else "long"), str(int(value))
    if isinstance(value, float):
        special = {math.inf: "INF", -math.inf: "-INF"}
        return "double", special.get(value) or ("NaN" if math.isnan(value) else repr(float(value)))
    if isinstance(value, str):
        return "string", str(value)
    if isinstance(value, datetime):
        return "dateTime", value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, timedelta):
        return "duration", _duration_text(value)
    raise UsageError(f"{key} is {value!r:.80}; a rule knows str, int, float, bool, datetime and timedelta")


def _duration_text(value: timedelta) -> str:
    seconds, microseconds = divmod(abs(value) // _MICROSECOND, 1_000_000)
    return f"{'-' if value < timedelta(0) else ''}PT{seconds}.{microseconds:06}S"


def _child(
    parent: ElementTree.Element, name: str, text: str | None = None, attributes: dict[str, str] | None = None
) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, f"{{{SERVICE_BUS}}}{name}", attributes or {})
    child.text = text
    return child


def _typed(parent: ElementTree.Element, name: str, kind: str) -> ElementTree.Element:
    return _child(parent, name, None, {f"{{{INSTANCE}}}type": kind})


# --- reading --------------------------------------------------------------------------------------------------------


def read_rule(name: str, element: ElementTree.Element) -> RuleDescription:
    condition, action = find(element, "Filter"), find(element, "Action")
    created = text_of(element, "CreatedAt")
    return RuleDescription(
        name,
        TrueFilter() if condition is None else _read_filter(condition),
        None if action is None else _read_action(action),
        None if not created else read_moment(created),
    )


def _kind(element: ElementTree.Element) -> str:
    return element.get(f"{{{INSTANCE}}}type", "").rpartition(":")[2]


def _read_filter(element: ElementTree.Element) -> Filter:
    kind = _kind(element)
    if kind == "TrueFilter":
        return TrueFilter()
    if kind == "FalseFilter":
        return FalseFilter()
    if kind == "SqlFilter":
        return SqlFilter(text_of(element, "SqlExpression") or "", _read_pairs(element, "Parameters"))
    if kind == "CorrelationFilter":
        texts = {attribute: text_of(element, name) for name, attribute in _CORRELATION.items()}
        return CorrelationFilter(**texts, properties=_read_pairs(element, "Properties"))
    raise MessagingError(f"the service answered with a filter of the unknown type {kind!r:.80}")


def _read_action(element: ElementTree.Element) -> SqlAction | None:
    if _kind(element) != "SqlRuleAction":
        return None
    return SqlAction(text_of(element, "SqlExpression") or "", _read_pairs(element, "Parameters"))


def _read_pairs(element: ElementTree.Element, name: str) -> dict[str, object]:
    container = find(element, name)
    pairs: dict[str, object] = {}
    for pair in () if container is None else container:
        value = find(pair, "Value")
        if local_name(pair) == "KeyValueOfstringanyType" and value is not None:
            pairs[text_of(pair, "Key") or ""] = _read_value(value)
    return pairs


def _read_value(element: ElementTree.Element) -> object:
    kind, text = _kind(element), element.text or ""
    if kind in {"int", "long", "short", "byte"}:
        return int(text)
    if kind == "boolean":
        return text.strip() == "true"
    if kind in {"double", "float"}:
        return float(text.replace("INF", "inf"))
    if kind in {"dateTime", "duration"}:
        value = rule_value(read_written(kind, text, "Value"))
        if isinstance(value, DateTime):
            return _YEAR_ONE + value.ticks // 10 * _MICROSECOND
        assert isinstance(value, TimeSpan)
        return value.ticks // 10 * _MICROSECOND
    return text
