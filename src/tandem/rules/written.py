"""Values of rules in the types and texts of XML Schema, in which management clients write them.

The text is kept beside the value, so that a rule comes back as it was sent: `long` stays `long`, `2.50` stays `2.50`,
and a dateTime keeps its seventh digit and has a zone only if it had one.
"""

from __future__ import annotations

import datetime
import re
from typing import Final

from tandem.errors import ArgumentError
from tandem.limits import MAX_WRITTEN_VALUE_CHARACTERS
from tandem.rules.values import MAX_DATETIME_TICKS, MAX_INT64, MIN_INT64, DateTime, TimeSpan, Written, rule_value
from tandem.wire_names import TICKS_PER_SECOND

__all__ = ["read_written"]

# The least and the greatest value of each type of integer. SDKs write integers of 64 bits as an int: that of Go all of
# them, that of Python negative ones. Each reads what it wrote, and Go does not read a long, so the type stays.
_SIGNED: Final = (MIN_INT64, MAX_INT64)
_INTEGER_RANGES: Final[dict[str, tuple[int, int]]] = {
    "byte": _SIGNED,
    "short": _SIGNED,
    "int": _SIGNED,
    "long": _SIGNED,
    "unsignedByte": _SIGNED,
    "unsignedShort": _SIGNED,
    "unsignedInt": _SIGNED,
    "unsignedLong": (0, (1 << 64) - 1),
}

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL_DOUBLES: Final[dict[str, float]] = {"INF": float("inf"), "-INF": float("-inf"), "NaN": float("nan")}
_BOOLEANS: Final[dict[str, bool]] = {"true": True, "1": True, "false": False, "0": False}

# Date and time to the second, fraction, zone.
_DATE_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})?"
)

# Days and what is smaller, each in few enough digits to be read at once.
_TIME_SPAN: Final = re.compile(
    r"(-)?P(?=[0-9T])(?:([0-9]{1,12})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,12})H)?(?:([0-9]{1,12})M)?(?:([0-9]{1,12})(?:\.([0-9]{1,12}))?S)?)?"
)


def read_written(kind: str, text: str, field: str) -> object:
    """Return a value from its type and text: a plain string, or anything else together with how it was written.

    ArgumentError names the field.
    """
    if kind in {"", "string"}:
        return text
    if kind == "anyURI":
        return Written(kind, text, text)
    if len(text) > MAX_WRITTEN_VALUE_CHARACTERS:
        raise ArgumentError(
            f"{field} has {len(text):,} characters; a {kind:.20} has at most {MAX_WRITTEN_VALUE_CHARACTERS}"
        )
    return Written(kind, text, _read(kind, text.strip(), field))


def _read(kind: str, text: str, field: str) -> object:
    if kind in _INTEGER_RANGES:
        return _read_integer(text, field, _INTEGER_RANGES[kind])
    if kind == "boolean":
        if text.lower() not in _BOOLEANS:
            raise ArgumentError(f"{field} is {text!r}; it must be true or false")
        return _BOOLEANS[text.lower()]
    if kind in {"double", "float"}:
        return _read_double(text, field)
    if kind == "dateTime":
        return _read_date_time(text, field)
    if kind == "duration":
        return _read_time_span(text, field)
    raise ArgumentError(
        f"{field} has the type {kind!r:.80}; it must be string, int, long, boolean, double, dateTime or duration"
    )


def _read_integer(text: str, field: str, bounds: tuple[int, int]) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ArgumentError(f"{field} is {text!r}; it must be a whole number")
    number = int(text)
    if not bounds[0] <= number <= bounds[1]:
        raise ArgumentError(f"{field} is {text}; it must be from {bounds[0]} to {bounds[1]}")
    return number


def _read_double(text: str, field: str) -> float:
    if text in _SPECIAL_DOUBLES:
        return _SPECIAL_DOUBLES[text]
    if _DOUBLE.fullmatch(text) is None:
        raise ArgumentError(f"{field} is {text!r}; it must be a number")
    return float(text)


def _read_date_time(text: str, field: str) -> DateTime:
    """Return a moment to the tick. Without a zone it is compared as if it were in UTC."""
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise ArgumentError(f"{field} is {text!r}; it must be a date such as 2026-01-31T12:00:00Z")
    seconds, fraction, zone = match.groups(default="")
    try:
        whole = rule_value(datetime.datetime.fromisoformat(f"{seconds}{zone}"))
    except (ValueError, OverflowError):
        raise ArgumentError(f"{field} is {text!r}; it must be a date of the years 1 to 9999, in UTC") from None
    assert isinstance(whole, DateTime)
    moment = DateTime(whole.ticks + int(fraction.ljust(7, "0")[:7]))
    if not 0 <= moment.ticks <= MAX_DATETIME_TICKS:
        raise ArgumentError(f"{field} is {text!r}; it must be a date of the years 1 to 9999, in UTC")
    return moment


def _read_time_span(text: str, field: str) -> TimeSpan:
    """Return a time span to the tick; one that is longer than .NET can say is as long as .NET can say."""
    match = _TIME_SPAN.fullmatch(text)
    if match is None:
        raise ArgumentError(f"{field} is {text!r}; it must be a duration such as PT1M or P7D")
    sign, days, hours, minutes, seconds, fraction = match.groups(default="0")
    whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    ticks = whole * TICKS_PER_SECOND + int(fraction.ljust(7, "0")[:7])
    return TimeSpan(max(-ticks, MIN_INT64) if sign == "-" else min(ticks, MAX_INT64))
