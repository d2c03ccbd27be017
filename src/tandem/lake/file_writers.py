"""Files of one format, written a portion at a time: what a writer holds in memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from tandem.lake.layout import moment_of
from tandem.lake.variants import scalar_of
from tandem.wire_names import PARTITION_KEY, PUBLISHER

__all__ = [
    "AVRO_SCHEMA",
    "EXTENSIONS",
    "AvroFileWriter",
    "FileFormat",
    "FileWriter",
    "ParquetFileWriter",
    "open_writer",
]

FileFormat = Literal["parquet", "avro"]
EXTENSIONS: Final[dict[FileFormat, str]] = {"parquet": ".parquet", "avro": ".avro"}

# Bytes of events in a row group: what a writer of Parquet holds, and what a reader reads at once.
ROW_GROUP_BYTES: Final = 32 << 20

# Columns whose values hardly repeat: a dictionary of them would be built and thrown away.
_UNIQUE_COLUMNS: Final = frozenset({"body", "offset", "sequenceNumber", "enqueuedTime"})

# Properties of AMQP messages that are numbers: of a sequence, and of milliseconds. The others are texts.
_NUMBERS: Final = frozenset({"absolute-expiry-time", "creation-time", "group-sequence"})

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# The union of the service's schema, by the order of its branches.
_VALUES: Final = {"type": "map", "values": ["long", "double", "string", "bytes"]}
# As the service's own capture writes it.
AVRO_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "EventData",
    "namespace": "Microsoft.ServiceBus.Messaging",
    "fields": [
        {"name": "SequenceNumber", "type": "long"},
        {"name": "Offset", "type": "string"},
        {"name": "EnqueuedTimeUtc", "type": "string"},
        {"name": "SystemProperties", "type": _VALUES},
        {"name": "Properties", "type": _VALUES},
        {"name": "Body", "type": ["null", "bytes"]},
    ],
}


class FileWriter(Protocol):
    """A file under way. It is not complete before `close`."""

    def write(self, batch: Any) -> None:
        """Append the rows of a record batch."""

    def close(self) -> int:
        """Write what is left and the end of the file, and return its size in bytes."""


def open_writer(file_format: FileFormat, stream: Any, schema: Any) -> FileWriter:
    return ParquetFileWriter(stream, schema) if file_format == "parquet" else AvroFileWriter(stream)


class ParquetFileWriter:
    """Row groups of about 32 MB."""

    def __init__(self, stream: Any, schema: Any) -> None:
        self._stream = stream
        self._writer = pq.ParquetWriter(stream, schema, use_dictionary=list(_dictionary_paths(schema)))
        self._batches: list[Any] = []
        self._waiting_bytes = 0

    def write(self, batch: Any) -> None:
        self._batches.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        self._flush()
        self._writer.close()
        return _closed(self._stream)

    def _flush(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._batches, self._waiting_bytes = [], 0
            self._writer.write_table(table, row_group_size=table.num_rows)


def _dictionary_paths(schema: Any) -> Iterator[str]:
    for field in schema:
        if field.name not in _UNIQUE_COLUMNS:
            yield from _leaves(field.name, field.type)


def _leaves(path: str, kind: Any) -> Iterator[str]:
    """Return the paths of the columns that Parquet makes of a column."""
    if pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif not pa.types.is_boolean(kind):
        yield path


class AvroFileWriter:
    """The files of Event Hubs Capture."""

    def __init__(self, stream: Any) -> None:
        from fastavro.write import Writer

        self._stream = stream
        self._writer = Writer(stream, AVRO_SCHEMA, codec="deflate")

    def write(self, batch: Any) -> None:
        write = self._writer.write
        for record in _avro_records(batch):
            write(record)

    def close(self) -> int:
        self._writer.flush()
        return _closed(self._stream)


def _closed(stream: Any) -> int:
    size_bytes = int(stream.tell())
    stream.close()
    return size_bytes


def _avro_records(batch: Any) -> Iterator[dict[str, Any]]:
    columns = {name: batch.column(name) for name in batch.schema.names}
    times_us = columns["enqueuedTime"].view(pa.int64()).to_pylist()
    rows = zip(
        columns["sequenceNumber"].to_pylist(),
        columns["offset"].to_pylist(),
        times_us,
        columns["body"].to_pylist(),
        columns["partitionKey"].to_pylist(),
        columns["publisher"].to_pylist(),
        _properties(columns["properties"]),
        _system_properties(columns["systemProperties"]),
        strict=True,
    )
    for number, offset, time_us, body, key, publisher, properties, system_properties in rows:
        if key is not None:
            system_properties[PARTITION_KEY] = key
        if publisher is not None:
            system_properties[PUBLISHER] = publisher
        yield {
            "SequenceNumber": number,
            "Offset": offset,
            "EnqueuedTimeUtc": _invariant_time(moment_of(time_us)),
            "SystemProperties": system_properties,
            "Properties": properties,
            "Body": body,
        }


def _properties(column: Any) -> Iterator[dict[str, Any]]:
    """Return the properties of each event. Variants have types; of a map of texts, all are texts."""
    is_typed = pa.types.is_struct(column.type.item_type)
    for pairs in column.to_pylist():
        if not pairs:
            yield {}
        elif is_typed:
            values = ((key, _avro_value(scalar_of(value["value"]))) for key, value in pairs if value is not None)
            yield {key: value for key, value in values if value is not None}
        else:
            yield dict(pairs)


def _system_properties(column: Any) -> Iterator[dict[str, Any]]:
    for pairs in column.to_pylist():
        yield {key: int(text) if key in _NUMBERS else text for key, text in pairs} if pairs else {}


def _avro_value(value: object) -> object:
    """Return a value as the union of the schema has it, which knows neither times nor truth values."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return value


def _invariant_time(moment: datetime) -> str:
    """Return a time as .NET writes it in the invariant culture, which is what the service's files have."""
    return f"{moment.month}/{moment.day}/{moment.year} {moment.hour % 12 or 12}:{moment:%M:%S %p}"
