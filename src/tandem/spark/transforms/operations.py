"""The events of the hub `$operations` as typed records: what the broker counted, and what paired clients told."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from tandem.spark.schemas import OPERATIONS, PAIRING_EVENTS

__all__ = ["BROKER_PARTITION", "CLIENTS_PARTITION", "operations", "pairing_events"]

# Partition 0 has what the broker counted; nobody else can write to it. Partition 1 has what clients told.
BROKER_PARTITION: Final = "0"
CLIENTS_PARTITION: Final = "1"


def operations(events: DataFrame) -> DataFrame:
    """One row for each record of the broker, with where it lies: by that a record is known again."""
    return _records(events.where(sql.col("partition") == BROKER_PARTITION), OPERATIONS)


def pairing_events(records: DataFrame) -> DataFrame:
    """One row for each event of a paired client or a syphon. Whatever else somebody has sent to the hub is left out.

    `primary` is the name in the backlog queues, by which what clients diverted and what a syphon moved belong together:
    each program may know the primary by another address. Earlier clients reported the address alone.
    """
    told = records.where(sql.col("partition") == CLIENTS_PARTITION)
    is_pairing = sql.get_json_object(_text(), "$.kind") == sql.lit("pairing")
    events = _records(told.where(is_pairing), PAIRING_EVENTS)
    return events.withColumn("primary", sql.coalesce("primary_namespace", "primary")).drop("primary_namespace")


def _text() -> Column:
    return sql.col("body").cast("string")


def _records(events: DataFrame, schema: StructType) -> DataFrame:
    parsed = events.select(
        sql.from_json(_text(), schema).alias("record"), sql.col("partition"), sql.col("sequenceNumber")
    )
    # What is no JSON of this shape has no time.
    return parsed.where(sql.col("record.time").isNotNull()).select("record.*", "partition", "sequenceNumber")
