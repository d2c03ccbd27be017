"""The streaming queries of the service: each reads one hub, and has its own checkpoint.

A result is made by one query for each namespace, so that a namespace can be added without touching the checkpoints of
the others. What a batch adds to a table is committed with the id of the query and the number of the batch: a batch that
comes again after a crash is recognised, table by table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from tandem.errors import ConfigurationError
from tandem.spark import checkpoints
from tandem.spark.jobs.capture import CaptureFormat, CaptureOutput, capture
from tandem.spark.jobs.records import OPERATIONS_HUB
from tandem.spark.options import FORMAT
from tandem.spark.service.configuration import CaptureSettings, ServiceSettings
from tandem.spark.service.live_outages import refresh_outages
from tandem.spark.service.result_tables import ResultTable, result_tables
from tandem.spark.spark_session import activate
from tandem.spark.transforms.operations import pairing_events

__all__ = ["PlannedQuery", "planned_queries"]

# Records in one batch of a result: what is read again after a crash.
_MAX_RECORDS: Final = 500_000


@dataclass(frozen=True)
class PlannedQuery:
    """A query, and how to start it: the first time from the oldest event on, later from its checkpoint."""

    name: str
    start: Callable[[], StreamingQuery]


def planned_queries(spark: SparkSession, settings: ServiceSettings, *, is_once: bool = False) -> list[PlannedQuery]:
    """Return the queries of a service. With `is_once`, each ends when it has read what was there at its start."""
    trigger: dict[str, Any] = {"availableNow": True} if is_once else {"processingTime": f"{settings.trigger_s} seconds"}
    tables = result_tables(settings)
    for place in (one.table.place for job in tables.values() for one in job):
        if place.exists("_SUCCESS"):
            raise ConfigurationError(f"{place} was written by another command of `tandem pipeline`: choose another out")
    captures = [_capture(spark, settings, trigger, one) for one in settings.captures]
    results = [
        _result(spark, settings, trigger, job, namespace, tables[job])
        for job in settings.jobs
        for namespace in settings.namespaces
    ]
    return [*captures, *results]


def _capture(
    spark: SparkSession, settings: ServiceSettings, trigger: dict[str, Any], one: CaptureSettings
) -> PlannedQuery:
    output = CaptureOutput(
        one.place,
        cast("CaptureFormat", one.file_format),
        settings.checkpoints.child("capture", one.namespace, one.hub),
        one.options,
    )
    source = {"connectionString": settings.namespaces[one.namespace]}
    name = f"capture {one.namespace} {one.hub}"
    return PlannedQuery(name, lambda: capture(spark, source, one.hub, output, trigger=trigger, name=name))


def _result(
    spark: SparkSession,
    settings: ServiceSettings,
    trigger: dict[str, Any],
    job: str,
    namespace: str,
    tables: Sequence[ResultTable],
) -> PlannedQuery:
    name = f"{job} {namespace}"
    checkpoint = settings.checkpoints.child(job, namespace)
    source = {
        "connectionString": settings.namespaces[namespace],
        "eventHub": OPERATIONS_HUB,
        "startingPosition": "earliest",
        "maxEventsPerTrigger": str(_MAX_RECORDS),
    }

    def start() -> StreamingQuery:
        query = checkpoints.query_of(checkpoint)
        checkpoints.claim(settings.out, name, query, checkpoint)
        add = _adding(settings, job, namespace, tables, query)
        activate(spark)
        return (
            spark.readStream.format(FORMAT)
            .options(**source)
            .load()
            .writeStream.queryName(name)
            .foreachBatch(add)
            .option("checkpointLocation", str(checkpoint))
            .trigger(**trigger)
            .start()
        )

    return PlannedQuery(name, start)


def _adding(
    settings: ServiceSettings, job: str, namespace: str, tables: Sequence[ResultTable], query: str
) -> Callable[[DataFrame, int], None]:
    def add(batch: DataFrame, number: int) -> None:
        # Records are read from the hub once, however many tables they go to.
        records = batch.withColumn("source", sql.lit(namespace))
        records = records.persist() if len(tables) > 1 else records
        try:
            is_told = job == "availability" and bool(pairing_events(records).limit(1).toArrow().num_rows)
            for one in tables:
                if one.is_of_pairing and not is_told:
                    continue
                rows = one.rows(records)
                if "source" in one.table.schema.names:
                    rows = rows.withColumn("source", sql.lit(namespace))
                one.table.add(rows.toArrow(), query, number)
            if is_told:
                refresh_outages(records, settings.out, query, number)
        finally:
            if len(tables) > 1:
                records.unpersist()

    return add
