"""Filters: what decides whether a subscription gets a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.limits import MAX_CORRELATION_PROPERTIES, MAX_EXPRESSION_CHARACTERS, MAX_PROPERTY_NAME_CHARACTERS
from tandem.rules.errors import RuleArgumentError
from tandem.rules.expressions import Node
from tandem.rules.parser import parse
from tandem.rules.subject import Subject
from tandem.rules.system import (
    CONTENT_TYPE,
    CORRELATION_ID,
    LABEL,
    MESSAGE_ID,
    NAMES,
    REPLY_TO,
    REPLY_TO_SESSION_ID,
    SESSION_ID,
    TO,
)
from tandem.rules.values import MAX_INT64, MIN_INT64, fold, rule_value, shown, typed_key

__all__ = ["CorrelationFilter", "FalseFilter", "Filter", "SqlFilter", "TrueFilter"]

_NOTHING: Final[dict[str, object]] = {}
_VERDICTS: Final[dict[str, bool]] = {"1=1": True, "1=0": False}


class Filter:
    """The base of all filters. A filter does not change, and knows nothing of the message before."""

    __slots__ = ()

    def matches(self, subject: Subject) -> bool:
        """Return whether the message is selected. RuleEvaluationError if that cannot be said."""
        raise NotImplementedError

    def verdict(self) -> bool | None:
        """Return what the filter decides for every message alike; None if it has to look at the message."""
        return None


class TrueFilter(Filter):
    """Selects every message."""

    __slots__ = ()

    def matches(self, subject: Subject) -> bool:
        return True

    def verdict(self) -> bool | None:
        return True

    def __repr__(self) -> str:
        return "TrueFilter()"


class FalseFilter(Filter):
    """Selects no message."""

    __slots__ = ()

    def matches(self, subject: Subject) -> bool:
        return False

    def verdict(self) -> bool | None:
        return False

    def __repr__(self) -> str:
        return "FalseFilter()"


class SqlFilter(Filter):
    """Selects the messages for which an expression is true, and neither false nor unknown."""

    __slots__ = ("expression", "parameters", "tree")

    def __init__(self, expression: str, parameters: Mapping[str, object] = _NOTHING) -> None:
        self.expression = expression
        self.parameters: dict[str, object] = dict(parameters)
        self.tree: Node = parse(expression, parameters)

    def matches(self, subject: Subject) -> bool:
        return self.tree.evaluate(subject) is True

    def verdict(self) -> bool | None:
        """Recognise the texts in which everything and nothing are commonly written: they need no evaluation."""
        return _VERDICTS.get(self.expression.replace(" ", ""))

    def __repr__(self) -> str:
        return f"SqlFilter({self.expression!r})"


class CorrelationFilter(Filter):
    """Selects the messages whose properties are equal, in type and value, to all those that it names.

    All widths of integers are one type, float and double are one; an integer is no double, and no string.
    """

    __slots__ = (
        "_keys",
        "content_type",
        "correlation_id",
        "label",
        "message_id",
        "properties",
        "reply_to",
        "reply_to_session_id",
        "session_id",
        "system_codes",
        "to",
        "user_names",
    )

    def __init__(
        self,
        correlation_id: object = None,
        message_id: object = None,
        to: object = None,
        reply_to: object = None,
        label: object = None,
        session_id: object = None,
        reply_to_session_id: object = None,
        content_type: object = None,
        properties: Mapping[str, object] = _NOTHING,
    ) -> None:
        """Fields are strings, or None where they do not count; RuleArgumentError for anything else."""
        # What is named, in an order that two filters that name the same share: `keys` has the values in this order.
        self.system_codes: list[int] = []
        self.user_names: list[str] = []
        self._keys: list[object] = []
        self.correlation_id: str | None = self._named(CORRELATION_ID, correlation_id)
        self.message_id: str | None = self._named(MESSAGE_ID, message_id)
        self.to: str | None = self._named(TO, to)
        self.reply_to: str | None = self._named(REPLY_TO, reply_to)
        self.label: str | None = self._named(LABEL, label)
        self.session_id: str | None = self._named(SESSION_ID, session_id)
        self.reply_to_session_id: str | None = self._named(REPLY_TO_SESSION_ID, reply_to_session_id)
        self.content_type: str | None = self._named(CONTENT_TYPE, content_type)
        self.properties: dict[str, object] = dict(properties)
        for folded, key in sorted(_property_keys(self.properties).items()):
            self.user_names.append(folded)
            self._keys.append(key)
        if not self._keys:
            raise RuleArgumentError("a correlation filter must name at least one property; use TrueFilter for all")

    def _named(self, code: int, value: object) -> str | None:
        if value is None:
            return None
        text = _checked_text(NAMES[code], value)
        self.system_codes.append(code)
        self._keys.append(text)
        return text

    @property
    def keys(self) -> tuple[object, ...]:
        """The values that are wanted, as keys that are equal if the values are."""
        return tuple(self._keys)

    def matches(self, subject: Subject) -> bool:
        at = 0
        for code in self.system_codes:
            if subject.system_at(code) != self._keys[at]:
                return False
            at += 1
        for name in self.user_names:
            if typed_key(subject.user(name)) != self._keys[at]:
                return False
            at += 1
        return True

    def __repr__(self) -> str:
        return f"CorrelationFilter({self})"

    def __str__(self) -> str:
        named = [f"sys.{NAMES[code]} = {shown(key)}" for code, key in zip(self.system_codes, self._keys, strict=False)]
        named += [f"{name} = {shown(rule_value(value))}" for name, value in self.properties.items()]
        return " AND ".join(named)


def _checked_text(name: str, text: object) -> str:
    if not isinstance(text, str):
        raise RuleArgumentError(f"{name} of a correlation filter must be a string, got {shown(rule_value(text))}")
    if len(text) > MAX_EXPRESSION_CHARACTERS:
        raise RuleArgumentError(
            f"{name} of a correlation filter has {len(text)} characters, it has at most {MAX_EXPRESSION_CHARACTERS}"
        )
    return str(text)


def _property_keys(properties: dict[str, object]) -> dict[str, object]:
    """Folded name to the key of the wanted value."""
    if len(properties) > MAX_CORRELATION_PROPERTIES:
        raise RuleArgumentError(
            f"a correlation filter of {len(properties)} properties, at most {MAX_CORRELATION_PROPERTIES} are allowed"
        )
    keys: dict[str, object] = {}
    for name, given in properties.items():
        if not name or len(name) > MAX_PROPERTY_NAME_CHARACTERS:
            raise RuleArgumentError(
                f"a property's name has 1 to {MAX_PROPERTY_NAME_CHARACTERS} characters: {name!r:.80}"
            )
        value = rule_value(given)
        if isinstance(value, str):
            _checked_text(name, value)
        if isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64 * 2 + 1:
            raise RuleArgumentError(f"property {name} is {value}, beyond the range of 64 bits")
        key = typed_key(value)
        if key is None:
            raise RuleArgumentError(f"property {name} of a correlation filter is {shown(value)}, which equals nothing")
        folded = fold(name)
        if folded in keys:
            raise RuleArgumentError(f"property {name} of a correlation filter is named twice")
        keys[folded] = key
    return keys
