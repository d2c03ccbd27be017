"""Events of a hub into files, exactly once, for as long as the checkpoint is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType

from tandem.errors import ConfigurationError
from tandem.lake.delta_table import is_table
from tandem.lake.layout import HIVE_COLUMNS
from tandem.lake.manifests import has_manifests
from tandem.lake.place import Place
from tandem.location import Location, LocationLike
from tandem.spark import capture_source, checkpoints, deltalake_source
from tandem.spark.capture_source import CaptureFormat
from tandem.spark.options import ARROW, FORMAT, EventHubsOptions
from tandem.spark.schemas import CAPTURED, EVENTS
from tandem.spark.spark_session import activate
from tandem.spark.typed_properties import COLUMN

__all__ = ["CaptureFormat", "CaptureOutput", "capture", "read_captured"]

# Events and bytes in one batch: what is done again after a crash. Over AMQP, which reports no sizes, only events count.
DEFAULT_MAX_EVENTS: Final = 1_000_000
DEFAULT_MAX_BYTES: Final = 1 << 30

# Where earlier releases, and Spark's own sink, keep the list of committed files.
_SPARKS_LOG: Final = "_spark_metadata"


@dataclass(frozen=True)
class CaptureOutput:
    """Where captured events go, and how. Options are those of the format `capture`."""

    place: Place
    file_format: CaptureFormat = "parquet"
    # None: beside the output.
    checkpoint: Place | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def parse(out: LocationLike | Place, file_format: CaptureFormat = "parquet") -> CaptureOutput:
        return CaptureOutput(out if isinstance(out, Place) else Place.parse(str(out)), file_format)


def capture(
    spark: SparkSession,
    source: Mapping[str, str],
    hub: str,
    output: CaptureOutput,
    *,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> StreamingQuery:
    """Start to capture from the oldest event on, or from where the last run ended.

    `source` are options of the format `eventhubs`. Without a `trigger` it ends when everything is captured that was
    there at the start. `name` is that of the query, by which a session tells its queries apart.
    """
    query_name = name or f"capture {hub}"
    reader = spark.readStream.format(FORMAT).options(**_source_options(source, hub))
    if output.file_format == "avro":
        types = {one.name: one.dataType for one in EVENTS} | {COLUMN: capture_source.TYPED_PROPERTIES}
        reader = reader.schema(StructType([StructField(name, kind) for name, kind in types.items()]))
    events = reader.load()
    checkpoint = output.checkpoint or checkpoints.default_checkpoint(output.place)
    if not output.place.is_ours:
        return _capture_by_spark(events, hub, output, checkpoint, trigger, query_name)
    if output.place.exists(_SPARKS_LOG):
        raise ConfigurationError(
            f"{output.place} was written by Spark's own sink, which an earlier release used: give another place"
        )
    query = checkpoints.query_of(checkpoint)
    checkpoints.claim(output.place, hub, query, checkpoint)
    activate(spark)
    return (
        events.writeStream.queryName(query_name)
        .format(capture_source.FORMAT)
        .options(**output.place.options.to_options())
        .options(**output.options)
        .option("fileFormat", output.file_format)
        .option("eventHub", hub)
        .option("query", query)
        .option("path", str(output.place))
        .option("checkpointLocation", str(checkpoint))
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )


def _source_options(source: Mapping[str, str], hub: str) -> dict[str, str]:
    options = {"startingPosition": "earliest", **source, "eventHub": hub}
    chosen = EventHubsOptions.parse(options, is_stream=True)
    if chosen.max_events_per_trigger is None and chosen.max_bytes_per_trigger is None:
        options["maxEventsPerTrigger"] = str(DEFAULT_MAX_EVENTS)
        if chosen.transport == ARROW:
            options["maxBytesPerTrigger"] = str(DEFAULT_MAX_BYTES)
    return options


def _capture_by_spark(
    events: DataFrame,
    hub: str,
    output: CaptureOutput,
    checkpoint: Place,
    trigger: Mapping[str, Any] | None,
    query_name: str,
) -> StreamingQuery:
    """The same onto a file system that only Spark has: by its own sink, which keeps a log of committed files."""
    if output.file_format != "parquet" or output.options:
        raise ConfigurationError(
            f"{output.place} is on a file system of Spark's, where captures are Parquet by hub, date and hour. Delta, "
            "Avro and other layouts go to folders and s3://"
        )
    return (
        events.transform(_with_folders(hub))
        .writeStream.queryName(query_name)
        .format("parquet")
        .partitionBy(*HIVE_COLUMNS)
        .option("path", str(output.place))
        .option("checkpointLocation", str(checkpoint))
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )


def _with_folders(hub: str) -> Callable[[DataFrame], DataFrame]:
    """Add the columns that folders are named after."""

    def transform(events: DataFrame) -> DataFrame:
        return events.withColumns(
            {
                "hub": sql.lit(hub),
                "date": sql.date_format("enqueuedTime", "yyyy-MM-dd"),
                "hour": sql.date_format("enqueuedTime", "HH"),
            }
        )

    return transform


def read_captured(spark: SparkSession, out: LocationLike | Place) -> DataFrame:
    """Return what was captured, in any format. Half of a batch is never seen."""
    place = out if isinstance(out, Place) else Place.parse(str(out))
    if not place.is_ours:
        if not (Location(str(place)) / _SPARKS_LOG).exists():
            return spark.createDataFrame([], CAPTURED)
        return spark.read.schema(CAPTURED).parquet(str(place))
    is_manifest = has_manifests(place)
    source = capture_source.FORMAT if is_manifest else deltalake_source.FORMAT
    if not is_manifest and not is_table(place):
        return spark.createDataFrame([], CAPTURED)
    return spark.read.format(source).options(**place.options.to_options()).load(str(place))
