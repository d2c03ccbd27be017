"""Percentiles of latency over time: `latencies` by window, namespace, entity and operation."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tandem.location import LocationLike
from tandem.spark.jobs.records import Namespaces, Result, refresh, write
from tandem.spark.transforms.latency import latencies
from tandem.spark.transforms.operations import operations

__all__ = ["latency", "latency_results"]


def latency(spark: SparkSession, namespaces: Namespaces, out: LocationLike, *, window: str = "1 minute") -> None:
    """Capture new records, and write the result."""
    write(latency_results(refresh(spark, namespaces, out), window=window), out)


def latency_results(records: DataFrame, *, window: str = "1 minute") -> list[Result]:
    return [Result("latencies", records.transform(operations).transform(latencies(window=window)))]
