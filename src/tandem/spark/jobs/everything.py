"""Cost, availability and latency of stopped brokers in one run, from records that are read once."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from tandem.cost.tariff import Tariff
from tandem.location import LocationLike
from tandem.spark.jobs.availability import outage_results
from tandem.spark.jobs.latency import latency_results
from tandem.spark.jobs.metering import cost_results
from tandem.spark.jobs.records import Namespaces, read, write

__all__ = ["everything"]


def everything(
    spark: SparkSession,
    namespaces: Namespaces,
    out: LocationLike,
    tariff: Tariff,
    *,
    cost_window: str = "1 day",
    latency_window: str = "1 minute",
    advance: Callable[[str], object] = lambda _: None,
) -> None:
    """Call `advance` with a sentence about each step when it is done."""
    # Every result needs all records: they are read from the hubs once.
    records = read(spark, namespaces).cache()
    try:
        advance(f"read {records.count():,} records of {len(namespaces)} namespaces")
        results = [
            *outage_results(records),
            *cost_results(records, tariff, window=cost_window),
            *latency_results(records, window=latency_window),
        ]
        write(results, out, lambda name: advance(f"wrote {name}"))
    finally:
        records.unpersist()
