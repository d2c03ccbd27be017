"""Percentiles of latency over time, from counts in buckets.

A record says how many operations took at most so many milliseconds, for a fixed list of bounds. Counts of many records
add up exactly; the percentile of their sum is known up to the width of a bucket, and its upper bound is what is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from tandem.engine.metering import LATENCY_BOUNDS_MS

__all__ = ["PERCENTILES", "latencies"]

PERCENTILES: Final = (50, 95, 99)

_KEYS: Final = ("namespace", "entity", "operation")
_BEYOND: Final = "inf"


def latencies(*, window: str = "1 minute", lateness: str = "1 minute") -> Callable[[DataFrame], DataFrame]:
    """By window of time, namespace, entity and operation. Null is: longer than the last bound."""

    def transform(operations: DataFrame) -> DataFrame:
        sums = [_bucket(str(bound)) for bound in LATENCY_BOUNDS_MS]
        counted = (
            operations.withWatermark("time", lateness)
            .groupBy(sql.window("time", window), *_KEYS)
            .agg(*sums, _bucket(_BEYOND))
            .where(_total() > 0)
        )
        return counted.select(
            sql.col("window.start").alias("from"),
            *_KEYS,
            _total().alias("count"),
            *(_percentile(percent).alias(f"p{percent}_ms") for percent in PERCENTILES),
            _largest().alias("max_ms"),
        )

    return transform


def _bounds() -> tuple[str, ...]:
    return (*map(str, LATENCY_BOUNDS_MS), _BEYOND)


def _bucket(bound: str) -> Column:
    return sql.sum(sql.coalesce(sql.try_element_at("latency_ms_buckets", sql.lit(bound)), sql.lit(0))).alias(
        f"took_{bound}"
    )


def _column(bound: str) -> Column:
    return sql.col(f"took_{bound}")


def _sum_up_to(number: int) -> Column:
    total = sql.lit(0)
    for bound in _bounds()[:number]:
        total = total + _column(bound)
    return total


def _total() -> Column:
    return _sum_up_to(len(_bounds()))


def _bound_if(condition: Column, bound: str) -> Column:
    return sql.when(condition, sql.lit(int(bound)).cast("long"))


def _largest() -> Column:
    known = [_bound_if(_column(bound) > 0, bound) for bound in reversed(_bounds()[:-1])]
    return sql.when(_column(_BEYOND) == 0, sql.coalesce(*known))


def _percentile(percent: int) -> Column:
    """The first bound within which so many of a hundred lie."""
    wanted = sql.ceil(_total() * percent / 100)
    return sql.coalesce(
        *(_bound_if(_sum_up_to(number + 1) >= wanted, str(bound)) for number, bound in enumerate(LATENCY_BOUNDS_MS))
    )
