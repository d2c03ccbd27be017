"""The hubs of operations of one or more namespaces, captured, as one table that the other jobs read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from tandem.spark.connection import parse
from tandem.spark.jobs.capture import capture, read_captured

__all__ = ["OPERATIONS_HUB", "Namespaces", "Result", "refresh", "write"]

OPERATIONS_HUB: Final = "$operations"

_EVENTS: Final = "events"

# Results that are written at the same time. More would only compete for the driver's cores.
_PARALLEL_WRITES: Final = 3

# Connection strings. With names of one's own, by which what was captured is found again wherever a broker listens.
Namespaces = Sequence[str] | Mapping[str, str]


def refresh(spark: SparkSession, namespaces: Namespaces, out: Path) -> DataFrame:
    """Capture new records, and return every captured one: the columns of a hub, and the namespace as `source`.

    The namespaces are captured at the same time: a short capture mostly waits for processes to start.
    """
    named = namespaces if isinstance(namespaces, Mapping) else {_name(one): one for one in namespaces}
    queries: list[StreamingQuery] = []
    try:
        for name, connection_string in named.items():
            queries.append(capture(spark, {"connectionString": connection_string}, OPERATIONS_HUB, _place(out, name)))
        for query in queries:
            query.awaitTermination()
    finally:
        # Only has an effect after a failure: the queries on the other namespaces are still running.
        for query in queries:
            query.stop()
    every = [read_captured(spark, _place(out, name)).withColumn("source", sql.lit(name)) for name in named]
    return reduce(DataFrame.unionByName, every)


class Result(NamedTuple):
    """A table that a job makes: the name of its folder, and its rows.

    Rows are sorted by `first`, then by all columns: the same records make the same file, wherever the job runs.
    """

    name: str
    table: DataFrame
    first: tuple[str, ...] = ()


def write(results: Sequence[Result], out: Path, written: Callable[[str], object] = lambda _: None) -> None:
    """Replace earlier results: each is computed from all records, however late they came.

    Calls `written` with the name of each result. Results are written at the same time: most of the time of a small
    one goes into planning, which keeps one core busy.
    """

    def write_one(result: Result) -> str:
        table = result.table.coalesce(1).sortWithinPartitions(*result.first, *result.table.columns)
        table.write.mode("overwrite").parquet(str(out / result.name))
        return result.name

    with ThreadPoolExecutor(_PARALLEL_WRITES) as pool:
        for writing in as_completed([pool.submit(write_one, result) for result in results]):
            written(writing.result())


def _place(out: Path, name: str) -> Path:
    return out / _EVENTS / name


def _name(connection_string: str) -> str:
    """A namespace by its address: the key may change, and is nobody's business."""
    address = parse(connection_string).address
    return re.sub(r"[^A-Za-z0-9.-]+", "-", f"{address.host}-{address.amqp_port}")
