"""What operations cost: `costs` by window, namespace, entity, operation and stage."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tandem.cost.tariff import Tariff
from tandem.location import LocationLike
from tandem.spark.jobs.records import Namespaces, Result, refresh, write
from tandem.spark.transforms.metering import costs
from tandem.spark.transforms.operations import operations

__all__ = ["cost_results", "metering"]


def metering(
    spark: SparkSession, namespaces: Namespaces, out: LocationLike, tariff: Tariff, *, window: str = "1 day"
) -> None:
    """Capture new records, and write the result."""
    write(cost_results(refresh(spark, namespaces, out), tariff, window=window), out)


def cost_results(records: DataFrame, tariff: Tariff, *, window: str = "1 day") -> list[Result]:
    return [Result("costs", records.transform(operations).transform(costs(tariff, window=window)))]
