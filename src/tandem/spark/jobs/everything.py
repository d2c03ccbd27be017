"""Cost, availability and latency in one run: the records are captured once, and read by all three."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from tandem.cost.tariff import Tariff
from tandem.spark.jobs.availability import write_outages
from tandem.spark.jobs.latency import write_latencies
from tandem.spark.jobs.metering import write_costs
from tandem.spark.jobs.records import Namespaces, refresh

__all__ = ["everything"]


def everything(
    spark: SparkSession,
    namespaces: Namespaces,
    out: Path,
    tariff: Tariff,
    *,
    cost_window: str = "1 day",
    latency_window: str = "1 minute",
    advance: Callable[[str], object] = lambda _: None,
) -> None:
    """Call `advance` with a description of each completed step."""
    # Every result reads all records: they are read from the captured files once.
    records = refresh(spark, namespaces, out).cache()
    try:
        advance(f"captured {records.count():,} records of {len(namespaces)} namespaces")
        write_costs(records, out, tariff, window=cost_window)
        advance("metered")
        write_outages(records, out)
        advance("judged availability")
        write_latencies(records, out, window=latency_window)
        advance("measured latency")
    finally:
        records.unpersist()
