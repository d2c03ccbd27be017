"""Payloads into columns: what fits becomes columns, what does not is set aside with the reason.

    known columns + declared columns ─▶ PayloadParser ─▶ rows with columns
                                             │       └─▶ rows for the quarantine, each with a reason
                                             └─ new fields become new columns, from this batch on

Column names do not differ by case only, and have no characters that tables do not allow. A field whose name belongs to
a column of the event gets `payload_` in front.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tandem.event_columns import PUBLIC_SCHEMA
from tandem.lake.capture_names import COLUMNS_NOTE
from tandem.lake.column_types import (
    Conflict,
    Kind,
    ListOf,
    Struct,
    arrow_type,
    converted,
    fit,
    from_json,
    to_json,
    widen,
)
from tandem.lake.layout import HIVE_COLUMNS
from tandem.lake.payloads import Decoder
from tandem.lake.place import Place
from tandem.limits import MAX_PAYLOAD_COLUMNS

__all__ = [
    "QUARANTINE_COLUMNS",
    "QUARANTINE_SCHEMA",
    "REASON",
    "Columns",
    "Parsed",
    "Parsing",
    "PayloadParser",
    "column_schema",
    "known_columns",
    "merged_columns",
    "note_columns",
]

Columns = Mapping[str, Kind]

REASON: Final = "reason"
QUARANTINE_COLUMNS: Final[Columns] = {REASON: "string"}
QUARANTINE_SCHEMA: Final = pa.schema([*PUBLIC_SCHEMA, pa.field(REASON, pa.string())])

_RESERVED: Final = frozenset(name.lower() for name in (*PUBLIC_SCHEMA.names, *HIVE_COLUMNS, REASON))
# Characters that Delta and Parquet do not allow in the names of columns.
_UNUSUAL: Final = re.compile(r"[ ,;{}()\n\t=.]")


@dataclass(frozen=True)
class Parsing:
    """How payloads are parsed. It travels to the executors."""

    decoder: Decoder
    declared: Mapping[str, str] = field(default_factory=dict)


class Parsed(NamedTuple):
    """The rows of a batch: those with columns, and those set aside. Either may have no rows."""

    rows: Any
    quarantined: Any


class PayloadParser:
    """Parses the batches of one task."""

    def __init__(self, parsing: Parsing, known: Columns) -> None:
        self._decoder = parsing.decoder
        self._declared = {column_name(name): kind for name, kind in parsing.declared.items()}
        self.columns: dict[str, Kind] = {**known, **{n: k for n, k in self._declared.items() if n not in known}}
        self._names = {name.lower(): name for name in self.columns}

    def parse(self, batch: Any) -> Parsed:
        # A column that no file has yet may still turn from whole numbers to others.
        young = set[str]()
        rows: list[dict[str, Any]] = []
        good: list[int] = []
        bad: list[int] = []
        reasons: list[str] = []
        for number, body in enumerate(batch.column("body").to_pylist()):
            try:
                rows.append(self._row(body or b"", young))
                good.append(number)
            except Conflict as error:
                bad.append(number)
                reasons.append(str(error))
        kept = batch if not bad else batch.take(pa.array(good, pa.int64()))
        arrays = [
            pa.array([_as_kind(kind, row.get(name)) for row in rows], arrow_type(kind))
            for name, kind in self.columns.items()
        ]
        schema = pa.schema([*batch.schema, *column_schema(self.columns)])
        aside = batch.take(pa.array(bad, pa.int64()))
        quarantined = pa.RecordBatch.from_arrays(
            [*aside.columns, pa.array(reasons, pa.string())], schema=QUARANTINE_SCHEMA
        )
        return Parsed(pa.RecordBatch.from_arrays([*kept.columns, *arrays], schema=schema), quarantined)

    def _row(self, body: bytes, young: set[str]) -> dict[str, Any]:
        """Return the values of a body by column, and grow the columns if they all fit."""
        row: dict[str, Any] = {}
        grown: dict[str, Kind] = {}
        for key, found in self._decoder.decode(body).items():
            name = self._names.get(column_name(key).lower(), column_name(key))
            if name in row:
                raise Conflict(f"two fields of the payload are the column {name}")
            declared = self._declared.get(name)
            known = self.columns.get(name)
            value = found if declared is None else converted(declared, found, key)
            if name in young:
                known = widen(known, value)
            kind, row[name] = fit(known, value, key)
            if kind is not None and kind != self.columns.get(name):
                grown[name] = kind
        if grown and sum(map(_leaves, {**self.columns, **grown}.values())) > MAX_PAYLOAD_COLUMNS:
            raise Conflict(f"its fields would be more than {MAX_PAYLOAD_COLUMNS:,} columns")
        for name, kind in grown.items():
            if name not in self.columns:
                young.add(name)
                self._names[name.lower()] = name
            self.columns[name] = kind
        return row


def column_name(field_name: str) -> str:
    """Return the name of the column that a field of a payload becomes."""
    name = _UNUSUAL.sub("_", field_name) or "_"
    return f"payload_{name}" if name.lower() in _RESERVED else name


def _leaves(kind: Kind) -> int:
    if isinstance(kind, Struct):
        return sum(map(_leaves, kind.fields.values()))
    return _leaves(kind.item) if isinstance(kind, ListOf) and kind.item is not None else 1


def _as_kind(kind: Kind, value: Any) -> Any:
    """Return a value of a column that has turned from whole numbers to others within the batch."""
    return float(value) if kind == "double" and isinstance(value, int) else value


def column_schema(columns: Columns) -> Any:
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns.items()])


# --- columns of a place ---------------------------------------------------------------------------------------------


def known_columns(place: Place) -> Columns:
    """Return the columns that payloads have been parsed into so far."""
    text = place.read_text(COLUMNS_NOTE)
    return {} if text is None else columns_from_json(json.loads(text))


def note_columns(place: Place, columns: Columns) -> None:
    place.write_text(COLUMNS_NOTE, json.dumps(columns_to_json(columns)))


def columns_to_json(columns: Columns) -> dict[str, Any]:
    return {name: to_json(kind) for name, kind in columns.items()}


def columns_from_json(fields: Mapping[str, Any]) -> Columns:
    return {name: from_json(kind) for name, kind in fields.items()}


def merged_columns(known: Columns, found: Iterable[Columns]) -> Columns:
    """Return all columns of the files of a batch. Where files disagree about a new column, the first one counts."""
    merged = dict(known)
    for columns in found:
        for name, kind in columns.items():
            merged[name] = _merged(merged.get(name), kind)
    return merged


def _merged(one: Kind | None, other: Kind) -> Kind:
    if one is None:
        return other
    if isinstance(one, Struct) and isinstance(other, Struct):
        fields = dict(one.fields)
        for name, kind in other.fields.items():
            fields[name] = _merged(fields.get(name), kind)
        return Struct(fields)
    if isinstance(one, ListOf) and isinstance(other, ListOf) and other.item is not None:
        return ListOf(_merged(one.item, other.item))
    return one


def fits_in(kind: Kind | None, merged: Kind) -> bool:
    """True if values of a type can be read as those of a merged type: it may have fewer fields, and no other types."""
    if kind is None or kind == merged:
        return True
    if isinstance(kind, Struct) and isinstance(merged, Struct):
        return all(fits_in(one, merged.fields[name]) for name, one in kind.fields.items())
    if isinstance(kind, ListOf) and isinstance(merged, ListOf):
        return merged.item is not None and fits_in(kind.item, merged.item)
    return False
