"""Percentiles of latency over time, from counts in buckets.

A record counts operations by buckets of latency, with a fixed list of upper bounds in milliseconds. Counts of many
records add up exactly. The percentile of their sum is known up to the width of a bucket; the upper bound is reported.

The expressions are SQL and not trees of columns: each operator on a column is a call to the driver, and there would be
some ten thousand of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tandem.engine.metering import LATENCY_BOUNDS_MS
from tandem.spark.report.sums import PERCENTILES

__all__ = ["PERCENTILES", "latencies", "latency_counts"]

_KEYS: Final = ("namespace", "entity", "operation")
_BEYOND: Final = "inf"
_BOUNDS: Final = (*map(str, LATENCY_BOUNDS_MS), _BEYOND)


def latencies(*, window: str = "1 minute", lateness: str = "1 minute") -> Callable[[DataFrame], DataFrame]:
    """By window of time, namespace, entity and operation. Null means longer than the last bound."""

    def transform(operations: DataFrame) -> DataFrame:
        counted = operations.withWatermark("time", lateness).transform(latency_counts(window=window))
        within = counted.selectExpr("*", *(_within(number) for number in range(len(_BOUNDS))))
        return within.where(f"within_{_BEYOND} > 0").selectExpr(
            "`from`",
            *_KEYS,
            f"within_{_BEYOND} AS count",
            *(f"{_percentile(percent)} AS p{percent}_ms" for percent in PERCENTILES),
            f"{_largest()} AS max_ms",
        )

    return transform


def latency_counts(*, window: str = "1 minute") -> Callable[[DataFrame], DataFrame]:
    """Count operations by window and bucket, `took_10` those of at most 10 ms. Counts of parts of records add up."""

    def transform(operations: DataFrame) -> DataFrame:
        counted = operations.groupBy(sql.window("time", window), *_KEYS).agg(*(sql.expr(_bucket(b)) for b in _BOUNDS))
        return counted.selectExpr("window.start AS `from`", *_KEYS, *(f"took_{bound}" for bound in _BOUNDS))

    return transform


def _bucket(bound: str) -> str:
    return f"sum(coalesce(try_element_at(latency_ms_buckets, '{bound}'), 0)) AS took_{bound}"


def _within(number: int) -> str:
    """Operations in this bucket and in those of lower latency."""
    return f"{' + '.join(f'took_{bound}' for bound in _BOUNDS[: number + 1])} AS within_{_BOUNDS[number]}"


def _percentile(percent: int) -> str:
    """The first bound that at least this percentage of operations lies within."""
    wanted = f"ceil(within_{_BEYOND} * {percent} / 100)"
    return _first_bound((f"within_{bound} >= {wanted}", bound) for bound in _BOUNDS[:-1])


def _largest() -> str:
    known = [(f"took_{bound} > 0", bound) for bound in reversed(_BOUNDS[:-1])]
    return _first_bound([(f"took_{_BEYOND} > 0", "NULL"), *known])


def _first_bound(cases: Iterable[tuple[str, str]]) -> str:
    return f"CAST(CASE {' '.join(f'WHEN {condition} THEN {bound}' for condition, bound in cases)} END AS BIGINT)"
