"""Application properties with their types, in both directions.

A column `properties` has one of these types:

    map<string,string>               as the connector for Event Hubs has it: what is not text is JSON
    map<string,bigint>, …            one type for all: boolean, whole numbers, float, double, string, binary, timestamp
    struct<amount:bigint,…>          a type for each name; a null is a property that an event does not have
    map<string,variant>              any type for any name

What Spark writes has the type of its column on the wire, so that a rule `amount > 5` compares numbers. What is read
comes as it was sent; a property that does not fit the type of its column is null.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from tandem.amqp.types import Timestamp
from tandem.engine.hubs.rows import json_text
from tandem.spark.given_options import OptionError

__all__ = ["COLUMN", "TEXTS", "check_type", "column_of", "values_of"]

COLUMN: Final = "properties"
TEXTS: Final = MapType(StringType(), StringType())

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_WHOLE: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_SIMPLE: Final[tuple[type[DataType], ...]] = (
    *_WHOLE,
    FloatType,
    DoubleType,
    BooleanType,
    StringType,
    BinaryType,
    TimestampType,
)

_ALLOWED: Final = (
    "map<string,string>, a map or a struct of boolean, whole numbers, float, double, string, binary or timestamp, "
    "or map<string,variant>"
)


def check_type(format_name: str, kind: DataType) -> None:
    """Raise OptionError for a type that a column `properties` cannot have."""
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        is_known = isinstance(kind.valueType, (*_SIMPLE, VariantType))
    else:
        is_known = isinstance(kind, StructType) and all(isinstance(one.dataType, _SIMPLE) for one in kind)
    if not is_known:
        raise OptionError(f"{format_name}: the column {COLUMN} is {kind.simpleString()}; it must be {_ALLOWED}")


# --- writing --------------------------------------------------------------------------------------------------------


def values_of(given: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the properties of a row as values for AMQP. A null is left out."""
    return {name: _sent(value) for name, value in (given or {}).items() if value is not None}


def _sent(value: Any) -> object:
    if isinstance(value, dict):
        # A variant, as Arrow has it.
        value = VariantVal(value["value"], value["metadata"]).toPython()
    if isinstance(value, datetime):
        return Timestamp.from_datetime(value if value.tzinfo is not None else value.replace(tzinfo=UTC))
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, Decimal):
        # Every number with a fraction that Spark reads from JSON is one. Few clients read decimals of AMQP.
        return float(value)
    # A date, a list or an object in a variant, which properties cannot be.
    return value.isoformat() if isinstance(value, date) else json.dumps(value, default=str)


# --- reading --------------------------------------------------------------------------------------------------------


def column_of(rows: Sequence[Mapping[str, object]], kind: DataType, arrow: Any) -> Any:
    """Return the column `properties` of this type: `arrow` is the type that Spark expects for it."""
    if isinstance(kind, StructType):
        fields = [
            pa.array([_fit(row.get(field.name), field.dataType) for row in rows], arrow.field(field.name).type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(arrow))
    assert isinstance(kind, MapType)
    value_type = kind.valueType
    read: Callable[[object], object] = (
        _variant if isinstance(value_type, VariantType) else lambda one: _fit(one, value_type)
    )
    return pa.array([[(name, read(value)) for name, value in row.items()] for row in rows], arrow)


def _fit(value: object, kind: DataType) -> object:
    """Return a value as a type of Spark has it; None if the value is of another type."""
    if value is None:
        return None
    if isinstance(kind, StringType):
        return _text(value)
    if isinstance(kind, BooleanType):
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if isinstance(kind, TimestampType):
        return _EPOCH + timedelta(milliseconds=int(value)) if isinstance(value, Timestamp) else None
    if isinstance(kind, BinaryType):
        return value if isinstance(value, bytes) else None
    if isinstance(kind, DoubleType | FloatType):
        return float(value) if isinstance(value, int | float) and not isinstance(value, Timestamp) else None
    bits = _WHOLE[type(kind)]
    fits = isinstance(value, int) and not isinstance(value, Timestamp) and -(1 << bits - 1) <= value < 1 << bits - 1
    return value if fits else None


def _text(value: object) -> str:
    """Text as it is, an id as people write it, anything else as JSON."""
    return str(value) if isinstance(value, uuid.UUID) else json_text(value)


# --- variants -------------------------------------------------------------------------------------------------------

# Version 1 of the encoding, with an empty dictionary of names: these values have no fields.
_NO_NAMES: Final = b"\x01\x00\x00"

# The types of primitive values, in the upper six bits of the first byte.
_NULL, _TRUE, _FALSE, _INT8, _DOUBLE, _TIMESTAMP, _BINARY, _LONG_STRING = 0, 1, 2, 6, 7, 12, 15, 16
_SHORT_STRING: Final = 1
_MAX_SHORT_STRING_BYTES: Final = 63


def _variant(value: object) -> dict[str, bytes]:
    """Return a value in Spark's encoding of variants, as Arrow has it."""
    return {"value": _variant_bytes(value), "metadata": _NO_NAMES}


def _variant_bytes(value: object) -> bytes:
    if value is None:
        return _primitive(_NULL)
    if isinstance(value, bool):
        return _primitive(_TRUE if value else _FALSE)
    if isinstance(value, Timestamp):
        return _primitive(_TIMESTAMP, struct.pack("<q", int(value) * 1_000))
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return _primitive(_INT8, struct.pack("<q", value))
    if isinstance(value, float):
        return _primitive(_DOUBLE, struct.pack("<d", value))
    if isinstance(value, bytes):
        return _primitive(_BINARY, struct.pack("<I", len(value)) + value)
    text = _text(value).encode()
    if len(text) <= _MAX_SHORT_STRING_BYTES:
        return bytes([len(text) << 2 | _SHORT_STRING]) + text
    return _primitive(_LONG_STRING, struct.pack("<I", len(text)) + text)


def _primitive(kind: int, content: bytes = b"") -> bytes:
    return bytes([kind << 2]) + content
