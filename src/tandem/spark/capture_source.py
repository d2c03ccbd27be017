"""The format `capture`: events of a hub written to Parquet, Delta or Avro, exactly once, and read back.

    events.writeStream.format("capture").option("eventHub", "orders").option("checkpointLocation", …).start("s3://lake/orders")
    spark.read.format("capture").load("s3://lake/orders")

Executors write files; the driver makes them count, all of a batch or none. `tandem.lake` does both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import MapType, StringType, StructType, VariantType

from tandem.lake import manifests
from tandem.lake.capture_log import CaptureLog
from tandem.lake.capture_writer import (
    DEFAULT_INTERVAL_S,
    DEFAULT_MAX_FILE_BYTES,
    HOUR_S,
    CaptureWriter,
    StagedFile,
)
from tandem.lake.column_types import declared_columns
from tandem.lake.layout import CAPTURE_PATTERN, LAYOUTS, Layout, LayoutName
from tandem.lake.parsing import Parsing, column_schema, known_columns
from tandem.lake.payloads import PAYLOADS, AvroDecoder, JsonDecoder, avro_schemas
from tandem.lake.place import Place
from tandem.lake.reading import file_of, grouped
from tandem.spark.file_reading import FilesPartition, read_partition
from tandem.spark.given_options import GivenOptions, Option, OptionError
from tandem.spark.schemas import CAPTURED, EVENTS
from tandem.spark.storage_options import STORAGE_OPTIONS, place_of
from tandem.spark.typed_properties import COLUMN

__all__ = ["CAPTURE_FORMATS", "FORMAT", "KNOWN_OPTIONS", "TYPED_PROPERTIES", "CaptureDataSource", "CaptureFormat"]

FORMAT: Final = "capture"

# Properties as they were sent: Avro files have their types.
TYPED_PROPERTIES: Final = MapType(StringType(), VariantType())

CaptureFormat = Literal["parquet", "delta", "avro"]
CAPTURE_FORMATS: Final = ("parquet", "delta", "avro")

KNOWN_OPTIONS: Final = (
    Option("path", "The folder, or `s3://bucket/prefix`."),
    Option("eventHub", "Of writing: the hub that the events are from.", ("hub",)),
    Option("fileFormat", "Of writing: `parquet`, `delta` or `avro`; `parquet`."),
    Option("layout", "Of writing: `hive` or `capture`; `capture` for Avro, else `hive`."),
    Option("namespace", "Of writing, in the layout `capture`: the namespace in paths; `tandem`."),
    Option("archiveNameFormat", f"Of writing, in the layout `capture`: the path; `{CAPTURE_PATTERN}`."),
    Option("sizeLimitInBytes", f"Of writing: bytes of events in a file; {DEFAULT_MAX_FILE_BYTES:,}."),
    Option(
        "intervalInSeconds",
        f"Of writing: enqueued time that a file covers, which divides an hour; {DEFAULT_INTERVAL_S} in the layout "
        f"`capture`, else {HOUR_S:,}.",
    ),
    Option("payload", "Of writing Parquet or Delta: `json` or `avro` to parse bodies into columns."),
    Option("payloadColumns", "Of writing: columns whose types are not inferred, as `price double, at timestamp`."),
    Option("payloadSchemas", "Of writing, with `avro`: a JSON list of schemas as texts, the newest first."),
    Option("query", "Of writing: the id of the query; that of the checkpoint if left out."),
    *STORAGE_OPTIONS,
)


class CaptureDataSource(DataSource):
    """What Spark finds under the name `capture`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        place = place_of(FORMAT, self._given())
        more = column_schema(known_columns(place))
        return StructType([*CAPTURED, *from_arrow_schema(more)])

    def reader(self, schema: StructType) -> DataSourceReader:
        return _CaptureReader(place_of(FORMAT, self._given()), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        given = self._given()
        writer, file_format = _capture_writer(given)
        _check_events(schema, file_format)
        query = _Query(given.text("query"), str(self.options.get("checkpointLocation", "")))
        return _CaptureSink(writer, file_format == "delta", query)

    def _given(self) -> GivenOptions:
        # Spark passes the name of the query on among the options.
        given = {name: value for name, value in self.options.items() if name.lower() != "queryname"}
        return GivenOptions(FORMAT, KNOWN_OPTIONS, given, ())


def _capture_writer(given: GivenOptions) -> tuple[CaptureWriter, CaptureFormat]:
    place = place_of(FORMAT, given)
    hub = given.text("eventHub")
    if hub is None:
        raise OptionError("capture: eventHub is missing: the hub that the events are from")
    file_format = cast("CaptureFormat", given.choice("fileFormat", CAPTURE_FORMATS, "parquet"))
    name = cast("LayoutName", given.choice("layout", LAYOUTS, "capture" if file_format == "avro" else "hive"))
    if file_format == "delta" and name != "hive":
        raise given.wrong("layout", "a Delta table has the layout hive")
    if name == "hive":
        given.refuse(("archiveNameFormat",), "it is for the layout capture")
    layout = Layout(name, hub, given.text("namespace") or "tandem", given.text("archiveNameFormat") or CAPTURE_PATTERN)
    writer = CaptureWriter(
        place,
        layout,
        "avro" if file_format == "avro" else "parquet",
        is_staged=place.is_local and file_format != "delta",
        max_file_bytes=given.number("sizeLimitInBytes", 1) or DEFAULT_MAX_FILE_BYTES,
        interval_s=given.number("intervalInSeconds", 1) or (DEFAULT_INTERVAL_S if name == "capture" else HOUR_S),
        parsing=_parsing(given, file_format),
    )
    return writer, file_format


def _parsing(given: GivenOptions, file_format: CaptureFormat) -> Parsing | None:
    """Return how payloads are parsed; None if they stay as they are."""
    if given.text("payload") is None:
        given.refuse(("payloadColumns", "payloadSchemas"), "it is for payload")
        return None
    if file_format == "avro":
        raise given.wrong("payload", "Avro files have the columns of Event Hubs Capture; use parquet or delta")
    declared = declared_columns(given.text("payloadColumns") or "") if given.text("payloadColumns") else {}
    if given.choice("payload", PAYLOADS, "json") == "json":
        given.refuse(("payloadSchemas",), "it is for Avro")
        return Parsing(JsonDecoder(), declared)
    schemas = avro_schemas(json.loads(given.text("payloadSchemas") or "[]"))
    return Parsing(AvroDecoder(schemas), declared)


def _check_events(schema: StructType, file_format: CaptureFormat) -> None:
    wanted = {one.name: one.dataType for one in EVENTS}
    given = {one.name: one.dataType for one in schema}
    if file_format == "avro" and given.get(COLUMN) == TYPED_PROPERTIES:
        wanted[COLUMN] = TYPED_PROPERTIES
    if given != wanted:
        wrong = sorted(name for name in {*wanted, *given} if wanted.get(name) != given.get(name))
        raise OptionError(
            f"capture: the column {wrong[0]} is not as the format eventhubs has it; the columns must be "
            f"{', '.join(f'{name} {kind.simpleString()}' for name, kind in wanted.items())}"
        )


# --- writing --------------------------------------------------------------------------------------------------------


@dataclass
class _Files(WriterCommitMessage):
    files: list[StagedFile] = field(default_factory=list)


def _files_of(messages: list[WriterCommitMessage | None]) -> list[StagedFile]:
    return [one for message in messages if isinstance(message, _Files) for one in message.files]


@dataclass(frozen=True)
class _Query:
    """Who commits. Numbers of batches mean something within one checkpoint only."""

    given: str | None
    checkpoint: str

    def id(self) -> str:
        """Return the id that was given, or else Spark's own, which it keeps in the checkpoint."""
        if self.given is not None:
            return self.given
        place = Place.parse(self.checkpoint) if self.checkpoint else None
        text = place.read_text("metadata") if place is not None and place.is_ours else None
        if text is None:
            raise OptionError(
                f"capture: query is missing, and the checkpoint {self.checkpoint!r:.200} cannot be read here: give "
                "query an id that is kept as long as the checkpoint"
            )
        return str(json.loads(text)["id"])


class _CaptureSink(DataSourceStreamArrowWriter):
    def __init__(self, writer: CaptureWriter, is_delta: bool, query: _Query) -> None:
        self._writer = writer
        self._is_delta = is_delta
        self._query = query

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _Files(self._writer.write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's own name
        CaptureLog(self._writer, self._is_delta, self._query.id()).commit(batchId, _files_of(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - as above
        """Leave the files to vacuum: a commit whose process was killed may have made them count."""


# --- reading --------------------------------------------------------------------------------------------------------


class _CaptureReader(DataSourceReader):
    """The events of all batches that were committed when the query is planned."""

    def __init__(self, place: Place, schema: StructType) -> None:
        self._place = place
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        files = [file_of(one) for one in manifests.captured_files(self._place)]
        return [FilesPartition(group) for group in grouped(files)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._place, partition, self._schema)
