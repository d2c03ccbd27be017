"""Properties of messages on the command line: NAME=VALUE is a text, NAME:TYPE=VALUE anything else that AMQP has."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from typing import Final

from tandem.durations import parse_duration_ms
from tandem.errors import ArgumentError

__all__ = ["PROPERTY_TYPES", "parse_properties"]

# Short enough for 64 bits, which is all that AMQP has; Python itself would take any length.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")


def parse_properties(texts: list[str], option: str) -> dict[str, object]:
    """Values by name, in the form that the JSON API has for each type. ArgumentError names the option."""
    properties: dict[str, object] = {}
    for text in texts:
        typed_name, equals, value = text.partition("=")
        name, colon, type_name = typed_name.rpartition(":")
        if not colon:
            name, type_name = typed_name, "string"
        if not equals or not name:
            raise ArgumentError(f"{option} is {text!r:.80}; write NAME=VALUE, or NAME:TYPE=VALUE")
        if name in properties:
            raise ArgumentError(f"{option} names {name!r:.80} twice")
        parse = _PARSERS.get(type_name)
        if parse is None:
            raise ArgumentError(
                f"{option} {text!r:.80}: {type_name!r:.40} is no type; those are {', '.join(PROPERTY_TYPES)}"
            )
        try:
            properties[name] = parse(value)
        except ValueError as error:
            raise ArgumentError(f"{option} {text!r:.80}: {value!r:.80} cannot be read as {type_name}") from error
    return properties


def _bool(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


def _int(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    return int(text)


def _double(text: str) -> float:
    number = float(text)
    # JSON has no word for the others.
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _datetime(text: str) -> dict[str, int]:
    from tandem.rules.values import DateTime, rule_value

    moment = rule_value(datetime.datetime.fromisoformat(text))
    assert isinstance(moment, DateTime)
    return {"datetime": moment.ticks}


def _timespan(text: str) -> dict[str, int]:
    from tandem.rules.values import TimeSpan

    value_ms = parse_duration_ms(text, "timespan")
    if value_ms is None:
        raise ValueError(text)
    return {"timespan": TimeSpan.of_ms(value_ms).ticks}


def _null(text: str) -> None:
    if text:
        raise ValueError(text)


_PARSERS: Final[dict[str, Callable[[str], object]]] = {
    "string": str,
    "int": _int,
    "double": _double,
    "bool": _bool,
    "decimal": lambda text: {"decimal": text},
    "datetime": _datetime,
    "timespan": _timespan,
    "uuid": lambda text: {"uuid": text},
    "binary": lambda text: {"binary": text},
    "null": _null,
}

# Of a property, as they are written behind its name.
PROPERTY_TYPES: Final = tuple(_PARSERS)
