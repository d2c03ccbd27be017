"""Records of the broker, and what they cost: the same transforms as in the jobs."""

from __future__ import annotations

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

from tandem.cost.tariff import DEFAULT_TARIFF
from tandem.spark.transforms import metering
from tandem.spark.transforms.operations import operations


def _spark() -> SparkSession:
    active = SparkSession.active()
    assert isinstance(active, SparkSession)
    return active


@pipelines.table
def records() -> DataFrame:
    """What the broker did, second by second."""
    stream = _spark().readStream.format("eventhubs").option("eventHub", "$operations")
    return stream.option("startingPosition", "earliest").load().transform(operations)


@pipelines.materialized_view
def costs() -> DataFrame:
    """By day, namespace, entity, operation and stage."""
    return _spark().read.table("records").transform(metering.costs(DEFAULT_TARIFF))
