"""Types of columns that payloads are parsed into, inferred from values and never changed afterwards.

A type is the name of a scalar, a struct of named types, or a list. Types only grow: a struct gets new fields. A value
that does not fit the type of its column is a conflict, which names the field and both types.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from tandem.errors import ConfigurationError, TandemError
from tandem.limits import MAX_PAYLOAD_DEPTH

__all__ = [
    "Conflict",
    "Kind",
    "ListOf",
    "Struct",
    "arrow_type",
    "converted",
    "declared_columns",
    "describe",
    "fit",
    "from_json",
    "to_json",
    "widen",
]

# Digits of a decimal, and those behind its point.
_DECIMAL: Final = pa.decimal128(38, 18)

_ARROW: Final[dict[str, Any]] = {
    "boolean": pa.bool_(),
    "long": pa.int64(),
    "double": pa.float64(),
    "decimal": _DECIMAL,
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

_SCALARS: Final[dict[type, str]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    Decimal: "decimal",
    str: "string",
    bytes: "binary",
    date: "date",
    datetime: "timestamp",
}

_LONG: Final = 1 << 63
# Above it, a double does not hold every whole number.
_EXACT: Final = 1 << 53


class Conflict(TandemError):
    """A value that does not fit its column. The message names the field."""


@dataclass(frozen=True)
class Struct:
    """Named fields, in the order in which they were first seen."""

    fields: Mapping[str, Kind]


@dataclass(frozen=True)
class ListOf:
    """A list. Its items have no type until one is seen."""

    item: Kind | None


Kind = str | Struct | ListOf


def fit(kind: Kind | None, value: Any, path: str, *, depth: int = 0) -> tuple[Kind | None, Any]:
    """Return the type of a column that takes the value, and the value as the column has it. Conflict: there is none.

    None is the type of a column of which no value is known.
    """
    if value is None:
        return kind, None
    if depth > MAX_PAYLOAD_DEPTH:
        raise Conflict(f"{path} is nested deeper than {MAX_PAYLOAD_DEPTH} levels")
    if isinstance(value, dict):
        return _fit_struct(kind, value, path, depth)
    if isinstance(value, list | tuple):
        return _fit_list(kind, value, path, depth)
    value = _plain(value)
    found = _SCALARS.get(type(value))
    if found is None:
        raise Conflict(f"{path} is a {type(value).__name__}, which no column can hold")
    if kind is None:
        kind = found
    if kind == "double" and found == "long" and -_EXACT <= value <= _EXACT:
        return kind, float(value)
    if kind != found:
        raise Conflict(f"{path} is {found}, and its column is {describe(kind)}")
    if kind == "long" and not -_LONG <= value < _LONG:
        raise Conflict(f"{path} is a number of more than 64 bits")
    if kind == "decimal":
        value = _decimal(value, path)
    return kind, value


def widen(kind: Kind | None, value: Any) -> Kind | None:
    """Return `double` if a column of whole numbers meets another number; for columns that no file has yet."""
    return "double" if kind == "long" and isinstance(value, float) else kind


def _fit_struct(kind: Kind | None, value: dict[Any, Any], path: str, depth: int) -> tuple[Kind | None, Any]:
    if kind is not None and not isinstance(kind, Struct):
        raise Conflict(f"{path} is an object, and its column is {describe(kind)}")
    fields = dict(kind.fields) if kind is not None else {}
    fitted: dict[str, Any] = {}
    has_grown = False
    for name, item in value.items():
        key = str(name)
        known = fields.get(key)
        grown, fitted_item = fit(known, item, f"{path}.{key}", depth=depth + 1)
        if grown is not None and grown is not known:
            fields[key] = grown
            has_grown = True
        if key in fields:
            fitted[key] = fitted_item
    if not fields:
        # A struct without fields is not a column.
        return kind, None
    return (Struct(fields) if has_grown or kind is None else kind), fitted


def _fit_list(kind: Kind | None, value: Any, path: str, depth: int) -> tuple[Kind | None, Any]:
    if kind is not None and not isinstance(kind, ListOf):
        raise Conflict(f"{path} is a list, and its column is {describe(kind)}")
    item_kind = kind.item if kind is not None else None
    before = item_kind
    items = []
    for number, item in enumerate(value):
        item_kind, fitted = fit(item_kind, item, f"{path}[{number}]", depth=depth + 1)
        items.append(fitted)
    if item_kind is None:
        # Nothing but nulls, or nothing at all: not a column yet.
        return kind, None if kind is None else items
    return (kind if kind is not None and item_kind is before else ListOf(item_kind)), items


def _plain(value: Any) -> Any:
    """Return values that only Avro has as the nearest that a column holds."""
    if isinstance(value, uuid.UUID | time):
        return str(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


def _decimal(value: Decimal, path: str) -> Decimal:
    try:
        return pa.scalar(value, _DECIMAL).as_py()  # type: ignore[no-any-return]
    except (pa.ArrowInvalid, ValueError):
        raise Conflict(f"{path} has more digits than {describe('decimal')} holds") from None


def describe(kind: Kind) -> str:
    return kind if isinstance(kind, str) else "an object" if isinstance(kind, Struct) else "a list"


def arrow_type(kind: Kind) -> Any:
    if isinstance(kind, str):
        return _ARROW[kind]
    if isinstance(kind, ListOf):
        assert kind.item is not None
        return pa.list_(arrow_type(kind.item))
    return pa.struct([pa.field(name, arrow_type(one)) for name, one in kind.fields.items()])


# --- as text --------------------------------------------------------------------------------------------------------


def to_json(kind: Kind) -> Any:
    if isinstance(kind, str):
        return kind
    if isinstance(kind, ListOf):
        return {"list": None if kind.item is None else to_json(kind.item)}
    return {"struct": {name: to_json(one) for name, one in kind.fields.items()}}


def from_json(fields: Any) -> Kind:
    if isinstance(fields, str):
        return fields
    if "list" in fields:
        return ListOf(None if fields["list"] is None else from_json(fields["list"]))
    return Struct({name: from_json(one) for name, one in fields["struct"].items()})


# --- declared columns -----------------------------------------------------------------------------------------------

_DECLARATION: Final = re.compile(r"\s*(\S+)\s+(\w+)\s*")


def declared_columns(text: str) -> dict[str, str]:
    """Read columns that a user declares: `price double, at timestamp`."""
    columns: dict[str, str] = {}
    for one in text.split(","):
        found = _DECLARATION.fullmatch(one)
        if found is None or found[2].lower() not in _ARROW:
            raise ConfigurationError(
                f"the column {one.strip()!r:.80} is not declared: write a name and one of {', '.join(_ARROW)}"
            )
        columns[found[1]] = found[2].lower()
    return columns


def converted(kind: str, value: Any, path: str) -> Any:
    """Return a value as the column that a user has declared wants it, where the payload has another type."""
    if value is None:
        return None
    try:
        if kind == "string" and not isinstance(value, str):
            return msgspec.json.encode(value).decode()
        if kind == "timestamp" and isinstance(value, str):
            return datetime.fromisoformat(value)
        if kind == "date" and isinstance(value, str):
            return date.fromisoformat(value)
        if kind == "decimal" and isinstance(value, str | int):
            return Decimal(value)
        if kind == "binary" and isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except (ArithmeticError, ValueError):
        raise Conflict(f"{path} is {value!r:.80}, which is not a {kind}") from None
    return value
