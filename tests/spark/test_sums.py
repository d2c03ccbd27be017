"""Rows of a report, computed from sums: percentiles, depths, rounded costs. No Spark."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.metering import LATENCY_BOUNDS_MS
from tandem.lake.place import Place
from tandem.spark.report.results import read_results
from tandem.spark.report.sums import LAYOUTS, PERCENTILES, latency_rows, sum_table

START = datetime(2026, 11, 16, 22, 30, tzinfo=UTC)
BUCKETS = (*map(str, LATENCY_BOUNDS_MS), "inf")
KEYS = {"from": START, "namespace": "ns", "entity": "orders", "operation": "send"}


@given(st.lists(st.integers(0, 7), min_size=len(BUCKETS), max_size=len(BUCKETS)))
def test_a_percentile_is_the_bound_that_so_many_operations_lie_within(counts: list[int]) -> None:
    row = KEYS | {f"took_{bound}": count for bound, count in zip(BUCKETS, counts, strict=True)}
    found = latency_rows([row])
    every = [bound for bound, count in zip((*LATENCY_BOUNDS_MS, None), counts, strict=True) for _ in range(count)]
    if not every:
        assert found == []
        return
    [one] = found
    assert (one["count"], one["max_ms"]) == (len(every), every[-1])
    for percent in PERCENTILES:
        assert one[f"p{percent}_ms"] == every[math.ceil(len(every) * percent / 100) - 1]


def add(out: Path, name: str, batch: int, *rows: dict[str, Any]) -> None:
    sum_table(Place.parse(out), name).add(pa.Table.from_pylist(list(rows), schema=LAYOUTS[name].schema), "q", batch)


def test_depths_run_through_all_changes_in_the_order_of_time(tmp_path: Path) -> None:
    def change(seconds: int, count: int) -> dict[str, Any]:
        return {"time": START + timedelta(seconds=seconds), "primary": "p", "entity": "orders", "change": count}

    add(tmp_path, "backlog", 0, change(0, 5), change(20, -4))
    # It came late.
    add(tmp_path, "backlog", 1, change(10, 2), change(20, -3))
    assert [row["depth"] for row in read_results(tmp_path).backlog] == [5, 7, 0]


def test_costs_are_rounded_once(tmp_path: Path) -> None:
    row = {
        "from": START,
        **dict.fromkeys(("namespace", "entity", "entity_kind", "operation", "stage"), "x"),
        "outcome": "ok",
        "operations": 1,
        "bytes": 0,
        "units": 1,
        "currency": "EUR",
        # Each alone would be rounded to nothing.
        "cost": Decimal("0.000000004"),
    }
    for batch in range(3):
        add(tmp_path, "costs", batch, row)
    [found] = read_results(tmp_path).costs
    assert (found["operations"], found["cost"]) == (3, Decimal("0.00000001"))


def test_a_live_report_shows_a_day_of_latencies(tmp_path: Path) -> None:
    counts = {f"took_{bound}": 1 for bound in BUCKETS}
    for batch, days in enumerate((0, 3)):
        add(tmp_path, "latencies", batch, KEYS | counts | {"from": START - timedelta(days=days)})
    assert len(read_results(tmp_path).latencies) == 2
    assert [row["from"] for row in read_results(tmp_path, until=START).latencies] == [START]
