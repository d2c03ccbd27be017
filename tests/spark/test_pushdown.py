"""Filters as bounds of what is read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tandem.spark.offsets import EventRange
from tandem.spark.pushdown import bounds_of

WHOLE = [
    EventRange(hub, "1", partition, 0, 100) for hub, partition in (("orders", "0"), ("orders", "1"), ("Other", "0"))
]
MOMENT = datetime(2026, 11, 16, 7, 0, 0, 500_000, tzinfo=UTC)
MOMENT_MS = int(MOMENT.timestamp() * 1_000)


def number_at_time(hub: str, partition: str, time_ms: int) -> int:
    """Event 50 of each partition came at the moment, one each millisecond."""
    return min(100, max(0, 50 + time_ms - MOMENT_MS))


def left(*filters: Filter) -> tuple[set[tuple[str, str, int, int]], list[Filter]]:
    bounds, rest = bounds_of(filters)
    return {(one.hub, one.partition, one.first, one.end) for one in bounds.apply(WHOLE, number_at_time)}, rest


def numbers(*filters: Filter) -> tuple[int, int]:
    """The first number and the end of what is left of each partition."""
    [found] = {(first, end) for *_, first, end in left(*filters)[0]} or {(0, 0)}
    return found


def test_partitions_and_numbers_are_exact() -> None:
    number = ("sequenceNumber",)
    filters: list[Filter] = [
        EqualTo(("partition",), "0"),
        GreaterThan(number, 6),
        LessThanOrEqual(number, 8),
        GreaterThanOrEqual(number, -3),
        LessThan(number, 50),
    ]
    assert left(*filters) == ({("orders", "0", 7, 9), ("Other", "0", 7, 9)}, [])
    assert left(In(("partition",), ("1", "7"))) == ({("orders", "1", 0, 100)}, [])
    assert left(EqualTo(("partition",), "0"), EqualTo(("partition",), "1")) == (set(), [])
    assert numbers(EqualTo(number, 7)) == (7, 8)
    assert numbers(GreaterThan(number, 200)) == (0, 0)


def test_hubs_are_narrowed_and_compared_again_by_spark() -> None:
    other = EqualTo(("hub",), "other")
    assert left(other) == ({("Other", "0", 0, 100)}, [other])


@pytest.mark.parametrize(
    "filtered, bounds",
    [
        (GreaterThanOrEqual(("enqueuedTime",), MOMENT), (50, 100)),
        (GreaterThan(("enqueuedTime",), MOMENT), (51, 100)),
        (LessThan(("enqueuedTime",), MOMENT), (0, 50)),
        (LessThanOrEqual(("enqueuedTime",), MOMENT), (0, 51)),
        (EqualTo(("enqueuedTime",), MOMENT), (50, 51)),
        # A filter has microseconds, an event has milliseconds.
        (GreaterThanOrEqual(("enqueuedTime",), MOMENT + timedelta(microseconds=1)), (51, 100)),
        (LessThan(("enqueuedTime",), MOMENT + timedelta(microseconds=1)), (0, 51)),
        (LessThanOrEqual(("enqueuedTime",), MOMENT - timedelta(microseconds=1)), (0, 50)),
        (GreaterThan(("enqueuedTime",), MOMENT.astimezone(timezone(timedelta(hours=9)))), (51, 100)),
    ],
)
def test_times_bound_what_is_read_and_are_compared_again_by_spark(filtered: Filter, bounds: tuple[int, int]) -> None:
    assert numbers(filtered) == bounds
    assert left(filtered)[1] == [filtered]


@pytest.mark.parametrize(
    "filtered",
    [
        IsNotNull(("partition",)),
        EqualTo(("partitionKey",), "k"),
        GreaterThan(("partition",), "0"),
        EqualTo(("partition",), 0),
        In(("sequenceNumber",), (1, 2)),
        EqualTo(("sequenceNumber",), "1"),
        EqualTo(("enqueuedTime",), "today"),
    ],
    ids=str,
)
def test_what_is_not_understood_is_left_to_spark(filtered: Filter) -> None:
    assert left(filtered) == ({(one.hub, one.partition, 0, 100) for one in WHOLE}, [filtered])
