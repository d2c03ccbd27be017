"""Record batches of files, with the columns that a reader asks for, whatever each file has of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tandem.engine.hubs.rows import json_text
from tandem.event_columns import PUBLIC_SCHEMA
from tandem.lake.captured_file import CapturedFile
from tandem.lake.layout import HIVE_COLUMNS
from tandem.lake.place import Place
from tandem.wire_names import PARTITION_KEY, PUBLISHER

__all__ = ["TableFile", "captured_schema", "file_of", "grouped", "read_file"]

# Rows of a record batch: Spark takes them as they come.
_BATCH_ROWS: Final = 10_000

# As .NET writes a time in the invariant culture.
_INVARIANT_TIME: Final = "%m/%d/%Y %I:%M:%S %p"

# Bytes of files that one task reads.
_GROUP_BYTES: Final = 128 << 20


@dataclass(frozen=True)
class TableFile:
    """A file of a table, and the columns that it does not hold because they are the same for all its rows."""

    path: str
    size_bytes: int
    constants: Mapping[str, Any]


def captured_schema(more: Iterable[Any] = ()) -> Any:
    """Return the columns of captured events: those of a hub, those of the folders, and more that payloads have."""
    folders = [pa.field(name, pa.string()) for name in HIVE_COLUMNS]
    return pa.schema([*PUBLIC_SCHEMA, *folders, *more])


def file_of(captured: CapturedFile) -> TableFile:
    # Files of Event Hubs Capture have no column for it.
    also = ("partition",) if captured.path.endswith(".avro") else ()
    constants = {name: getattr(captured, name) for name in (*HIVE_COLUMNS, *also)}
    return TableFile(captured.path, captured.sizeInBytes, constants)


def grouped(files: list[TableFile], group_bytes: int = _GROUP_BYTES) -> list[list[TableFile]]:
    """Return the files in groups that are read by one task each, in their order."""
    groups: list[list[TableFile]] = []
    room = 0
    for file in files:
        if not groups or file.size_bytes > room:
            groups.append([])
            room = group_bytes
        groups[-1].append(file)
        room -= file.size_bytes
    return groups


def read_file(place: Place, file: TableFile, schema: Any) -> Iterator[Any]:
    """Return the rows of a file as batches of exactly this schema. Columns that the file lacks are null."""
    batches = _avro_batches if file.path.endswith(".avro") else _parquet_batches
    for batch in batches(place, file.path, schema):
        yield _conformed(batch, file.constants, schema)


def _parquet_batches(place: Place, path: str, schema: Any) -> Iterator[Any]:
    with place.open_input(path) as stream, pq.ParquetFile(stream) as opened:
        stored = set(opened.schema_arrow.names)
        wanted = [name for name in schema.names if name in stored]
        yield from opened.iter_batches(_BATCH_ROWS, columns=wanted)


def _conformed(batch: Any, constants: Mapping[str, Any], schema: Any) -> Any:
    stored = set(batch.schema.names)
    columns = []
    for field in schema:
        if field.name in constants:
            columns.append(pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows))
        elif field.name not in stored:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            columns.append(_as_type(batch.column(field.name), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_type(column: Any, kind: Any) -> Any:
    """Return a column with the type that it has now: an object may have got fields since the file was written."""
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        stored = {column.type.field(at).name: at for at in range(column.type.num_fields)}
        parts = column.flatten()
        children = [
            _as_type(parts[stored[one.name]], one.type) if one.name in stored else pa.nulls(len(column), one.type)
            for one in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(column.type) and not column.null_count:
        return pa.ListArray.from_arrays(column.offsets, _as_type(column.values, kind.value_type), type=kind)
    return column.cast(kind)


# --- Avro -----------------------------------------------------------------------------------------------------------


def _avro_batches(place: Place, path: str, _: Any) -> Iterator[Any]:
    import fastavro

    rows: list[dict[str, Any]] = []
    with place.open_input(path) as stream:
        for record in fastavro.reader(stream):
            assert isinstance(record, dict)
            rows.append(_row(record))
            if len(rows) == _BATCH_ROWS:
                yield pa.RecordBatch.from_pylist(rows, schema=PUBLIC_SCHEMA)
                rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=PUBLIC_SCHEMA)


def _row(record: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of an event of Event Hubs Capture. Its times are of whole seconds."""
    system_properties = dict(record["SystemProperties"])
    key, publisher = (system_properties.pop(name, None) for name in (PARTITION_KEY, PUBLISHER))
    return {
        "body": record["Body"],
        "offset": record["Offset"],
        "sequenceNumber": record["SequenceNumber"],
        "enqueuedTime": datetime.strptime(record["EnqueuedTimeUtc"], _INVARIANT_TIME).replace(tzinfo=UTC),
        "publisher": publisher,
        "partitionKey": key,
        "properties": _texts(record["Properties"]),
        "systemProperties": _texts(system_properties),
    }


def _texts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, json_text(value)) for name, value in values.items()]
