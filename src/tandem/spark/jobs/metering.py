"""What operations cost: `costs` by window, namespace, entity, operation and stage."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tandem.cost.tariff import Tariff
from tandem.spark.jobs.records import Namespaces, refresh, write
from tandem.spark.transforms.metering import costs
from tandem.spark.transforms.operations import operations

__all__ = ["metering", "write_costs"]


def metering(spark: SparkSession, namespaces: Namespaces, out: Path, tariff: Tariff, *, window: str = "1 day") -> None:
    write_costs(refresh(spark, namespaces, out), out, tariff, window=window)


def write_costs(records: DataFrame, out: Path, tariff: Tariff, *, window: str = "1 day") -> None:
    found = records.transform(operations).transform(costs(tariff, window=window))
    write(found, out / "costs")
