"""Percentiles of latency over time: `latencies` by window, namespace, entity and operation."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tandem.spark.jobs.records import Namespaces, refresh, write
from tandem.spark.transforms.latency import latencies
from tandem.spark.transforms.operations import operations

__all__ = ["latency", "write_latencies"]


def latency(spark: SparkSession, namespaces: Namespaces, out: Path, *, window: str = "1 minute") -> None:
    write_latencies(refresh(spark, namespaces, out), out, window=window)


def write_latencies(records: DataFrame, out: Path, *, window: str = "1 minute") -> None:
    found = records.transform(operations).transform(latencies(window=window))
    write(found, out / "latencies")
