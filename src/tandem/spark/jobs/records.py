"""The hubs of operations of one or more namespaces, as one table that the other jobs read, and their results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from tandem.errors import ConfigurationError
from tandem.location import Location, LocationLike
from tandem.spark.connection import parse
from tandem.spark.jobs.capture import CaptureOutput, capture, read_captured
from tandem.spark.options import FORMAT

__all__ = ["OPERATIONS_HUB", "Namespaces", "Result", "read", "refresh", "write"]

OPERATIONS_HUB: Final = "$operations"

_EVENTS: Final = "events"

# Results that are written at the same time. More would only compete for the driver's cores.
_PARALLEL_WRITES: Final = 3

# Connection strings. With names of one's own, by which what was captured is found again wherever a broker listens.
Namespaces = Sequence[str] | Mapping[str, str]


def refresh(spark: SparkSession, namespaces: Namespaces, out: LocationLike) -> DataFrame:
    """Capture new records, and return every captured one: the columns of a hub, and the namespace as `source`."""
    every: list[DataFrame] = []
    for name, connection_string in _named(namespaces).items():
        place = Location(out) / _EVENTS / name
        output = CaptureOutput.parse(place)
        capture(spark, {"connectionString": connection_string}, OPERATIONS_HUB, output).awaitTermination()
        every.append(read_captured(spark, place).withColumn("source", sql.lit(name)))
    return reduce(DataFrame.unionByName, every)


def read(spark: SparkSession, namespaces: Namespaces) -> DataFrame:
    """Return the records that the hubs hold now, with the columns of `refresh`.

    Nothing is captured. For brokers that record nothing any more: reading a batch starts fewer processes than a stream.
    """
    every: list[DataFrame] = []
    for name, connection_string in _named(namespaces).items():
        options = {"connectionString": connection_string, "eventHub": OPERATIONS_HUB, "startingPosition": "earliest"}
        every.append(spark.read.format(FORMAT).options(**options).load().withColumn("source", sql.lit(name)))
    return reduce(DataFrame.unionByName, every)


class Result(NamedTuple):
    """A table that a job makes: the name of its folder, and its rows.

    Rows are sorted by `first`, then by all columns: the same records make the same file, wherever the job runs.
    """

    name: str
    table: DataFrame
    first: tuple[str, ...] = ()


def write(results: Sequence[Result], out: LocationLike, written: Callable[[str], object] = lambda _: None) -> None:
    """Replace earlier results: each is computed from all records, however late they came.

    Calls `written` with the name of each result. Results are written at the same time: most of the time of a small
    one goes into planning, which keeps one core busy.
    """

    kept = [one.name for one in results if (Location(out) / one.name / "_delta_log").exists()]
    if kept:
        raise ConfigurationError(f"{out} has {kept[0]} of `tandem pipeline run`, which keeps it: give another --out")

    def write_one(result: Result) -> str:
        table = result.table.coalesce(1).sortWithinPartitions(*result.first, *result.table.columns)
        table.write.mode("overwrite").parquet(str(Location(out) / result.name))
        return result.name

    with ThreadPoolExecutor(_PARALLEL_WRITES) as pool:
        for writing in as_completed([pool.submit(write_one, result) for result in results]):
            written(writing.result())


def _named(namespaces: Namespaces) -> Mapping[str, str]:
    return namespaces if isinstance(namespaces, Mapping) else {_name(one): one for one in namespaces}


def _name(connection_string: str) -> str:
    """A namespace by its address: the key may change, and is nobody's business."""
    address = parse(connection_string).address
    return re.sub(r"[^A-Za-z0-9.-]+", "-", f"{address.host}-{address.amqp_port}")
