"""Events of a hub into files, by hub, partition, date and hour, exactly once, for as long as the checkpoint is kept."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from tandem.location import Location, LocationLike
from tandem.spark.capture_files import PARTITIONED_BY, AvroCaptureSink, DeltaCaptureSink
from tandem.spark.options import FORMAT
from tandem.spark.schemas import CAPTURED

__all__ = ["CAPTURE_FORMATS", "CaptureFormat", "capture", "captured", "read_captured"]

CaptureFormat = Literal["parquet", "delta", "avro"]
CAPTURE_FORMATS: Final = ("parquet", "delta", "avro")

_CHECKPOINT: Final = "_checkpoint"

# Events in one batch: what an executor holds in memory, and what is done again after a crash.
DEFAULT_MAX_EVENTS: Final = 1_000_000


def captured(hub: str) -> Any:
    """Events with the columns that their folders are named after."""

    def transform(events: DataFrame) -> DataFrame:
        return events.withColumns(
            {
                "hub": sql.lit(hub),
                "date": sql.date_format("enqueuedTime", "yyyy-MM-dd"),
                "hour": sql.date_format("enqueuedTime", "HH"),
            }
        )

    return transform


def capture(
    spark: SparkSession,
    source: Mapping[str, str],
    hub: str,
    out: LocationLike,
    *,
    file_format: CaptureFormat = "parquet",
    namespace: str = "tandem",
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start to capture from the oldest event on, or from where the last run has come to.

    `source` are options of the format `eventhubs`. Without a `trigger` it ends when all is captured that was there.
    """
    options = {"startingPosition": "earliest", "maxEventsPerTrigger": str(DEFAULT_MAX_EVENTS), **source}
    events = spark.readStream.format(FORMAT).options(**options).option("eventHub", hub).load()
    checkpoint = Location(out) / _CHECKPOINT
    writer = (
        events.transform(captured(hub))
        .writeStream.queryName(f"capture {hub}")
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .option("path", str(out))
        .trigger(**(trigger or {"availableNow": True}))
    )
    if file_format == "parquet":
        return writer.format("parquet").partitionBy(*PARTITIONED_BY).start()
    sink = DeltaCaptureSink if file_format == "delta" else AvroCaptureSink
    spark.dataSource.register(sink)
    return (
        writer.format(sink.name())
        .option("transaction", _transaction(checkpoint))
        .option("namespace", namespace)
        .start()
    )


def read_captured(spark: SparkSession, out: LocationLike) -> DataFrame:
    """What was captured as Parquet. By its log, so that half of a batch is never seen."""
    if not (Location(out) / "_spark_metadata").exists():
        return spark.createDataFrame([], CAPTURED)
    return spark.read.schema(CAPTURED).parquet(str(out))


def _transaction(checkpoint: Location) -> str:
    """Who commits, kept beside the checkpoint: numbers of batches mean something within one checkpoint only."""
    note = checkpoint / "tandem-transaction"
    if not note.exists():
        note.write_text(str(uuid.uuid4()))
    return note.read_text()
