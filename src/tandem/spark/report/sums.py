"""Results that `tandem pipeline run` keeps as sums, in Delta tables, read back as the rows of a report.

Sums of windows add up batch by batch. Percentiles, depths and rounded costs do not: they are computed here, from sums.
Nothing here needs Spark.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import pyarrow as pa

from tandem.engine.metering import LATENCY_BOUNDS_MS
from tandem.lake.place import Place
from tandem.lake.sum_table import Period, SumTable

__all__ = ["LAYOUTS", "OUTAGES", "PERCENTILES", "SumLayout", "latency_rows", "read_rows", "sum_table"]

Row = dict[str, Any]

PERCENTILES: Final = (50, 95, 99)

_TIME: Final = pa.timestamp("us", "UTC")
_SMALLEST_MONEY: Final = Decimal("0.00000001")
_BOUNDS: Final = (*map(str, LATENCY_BOUNDS_MS), "inf")

OUTAGES: Final = "outages"

# Days of a result that a live report shows. Outages and what belongs to them are few: all of them are shown.
_SHOWN_DAYS: Final = {"costs": 31, "latencies": 1}


@dataclass(frozen=True)
class SumLayout:
    """The columns of a table of sums, which of them are summed, and the time that places a row in a period."""

    schema: Any
    sums: tuple[str, ...]
    time: str
    period: Period


def _texts(*names: str) -> list[tuple[str, Any]]:
    return [(name, pa.string()) for name in names]


def _numbers(*names: str) -> list[tuple[str, Any]]:
    return [(name, pa.int64()) for name in names]


_TOOK: Final = tuple(f"took_{bound}" for bound in _BOUNDS)

LAYOUTS: Final[Mapping[str, SumLayout]] = {
    "costs": SumLayout(
        pa.schema(
            [
                ("from", _TIME),
                *_texts("namespace", "entity", "entity_kind", "operation", "stage", "outcome"),
                *_numbers("operations", "bytes", "units"),
                # As many digits as `tandem.spark.transforms.metering` computes with.
                ("cost", pa.decimal128(38, 15)),
                *_texts("currency"),
            ]
        ),
        ("operations", "bytes", "units", "cost"),
        "from",
        "day",
    ),
    "latencies": SumLayout(
        pa.schema([("from", _TIME), *_texts("namespace", "entity", "operation"), *_numbers(*_TOOK)]),
        _TOOK,
        "from",
        "hour",
    ),
    "backlog": SumLayout(
        pa.schema([("time", _TIME), *_texts("primary", "entity"), *_numbers("change")]), ("change",), "time", "hour"
    ),
    "backlog_queues": SumLayout(
        pa.schema([("time", _TIME), *_texts("namespace", "entity"), *_numbers("change")]), ("change",), "time", "hour"
    ),
    # What paired clients told, one row for each event: outages are computed from it.
    "pairing_events": SumLayout(
        pa.schema(
            [
                ("time", _TIME),
                *_texts("primary", "entity", "client", "event", "outcome", "source", "partition"),
                *_numbers("sequenceNumber", "count"),
            ]
        ),
        ("count",),
        "time",
        "hour",
    ),
}


def sum_table(out: Place, name: str) -> SumTable:
    layout = LAYOUTS[name]
    return SumTable(out.child(name), layout.schema, layout.time, layout.sums, layout.period)


def read_rows(out: Place, until: datetime | None = None) -> dict[str, list[Row]]:
    """Return the rows of each result that has a table of sums in this place, by the names of a report.

    With `until`, results that grow with time are those of the last day or month before it: a page of what is going on
    does not take longer from day to day.
    """
    found: dict[str, list[Row]] = {}
    for name, (table, convert) in _RESULTS.items():
        since = None if until is None or name not in _SHOWN_DAYS else until - timedelta(days=_SHOWN_DAYS[name])
        rows = sum_table(out, table).rows(since)
        if rows is not None:
            found[name] = convert(rows.to_pylist())
    outages = _plain(out.child(OUTAGES))
    if outages is not None:
        found[OUTAGES] = outages
    return found


def _plain(place: Place) -> list[Row] | None:
    from tandem.lake import delta_table

    table = delta_table.open_table(place) if delta_table.is_table(place) else None
    return None if table is None else sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["failing_at"])


def _costs(rows: Iterable[Row]) -> list[Row]:
    return [{**row, "cost": row["cost"].quantize(_SMALLEST_MONEY, ROUND_HALF_UP)} for row in rows]


def latency_rows(rows: Iterable[Row]) -> list[Row]:
    """Return percentiles: the first bound that so many operations lie within, None beyond the last."""
    found: list[Row] = []
    for row in rows:
        took = [row[name] for name in _TOOK]
        within = list(itertools.accumulate(took))
        if not within[-1]:
            continue
        figures = {f"p{one}_ms": _bound(within, math.ceil(within[-1] * one / 100)) for one in PERCENTILES}
        keys = {name: row[name] for name in ("from", "namespace", "entity", "operation")}
        largest = max(at for at, count in enumerate(took) if count)
        found.append({**keys, "count": within[-1], **figures, "max_ms": _bound_at(largest)})
    return found


def _bound(within: list[int], wanted: int) -> int | None:
    return _bound_at(next(at for at, count in enumerate(within) if count >= wanted))


def _bound_at(at: int) -> int | None:
    return LATENCY_BOUNDS_MS[at] if at < len(LATENCY_BOUNDS_MS) else None


def _depths(*keys: str) -> Callable[[Iterable[Row]], list[Row]]:
    def convert(rows: Iterable[Row]) -> list[Row]:
        depths: dict[tuple[Any, ...], int] = {}
        found: list[Row] = []
        for row in sorted(rows, key=lambda one: one["time"]):
            key = tuple(row[name] for name in keys)
            depths[key] = depths.get(key, 0) + row["change"]
            found.append({"time": row["time"], **{name: row[name] for name in keys}, "depth": depths[key]})
        return found

    return convert


def _pings(rows: Iterable[Row]) -> list[Row]:
    columns = ("time", "primary", "entity", "client", "outcome")
    asked = ({name: row[name] for name in columns} for row in rows if row["event"] == "ping")
    return sorted(asked, key=lambda row: row["time"])


# By result: the table that it is read from, and how.
_RESULTS: Final[Mapping[str, tuple[str, Callable[[Iterable[Row]], list[Row]]]]] = {
    "costs": ("costs", _costs),
    "latencies": ("latencies", latency_rows),
    "backlog": ("backlog", _depths("primary", "entity")),
    "backlog_queues": ("backlog_queues", _depths("namespace", "entity")),
    "pings": ("pairing_events", _pings),
}
