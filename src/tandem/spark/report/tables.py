"""Results as tables of text: the same ones on a terminal and on the page."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from tandem.cost.money import money_text
from tandem.engine.metering import LATENCY_BOUNDS_MS
from tandem.spark.report.arithmetic import per_million
from tandem.spark.report.names import short_names
from tandem.spark.report.results import Results, Row

__all__ = ["ReportTable", "report_tables"]


@dataclass(frozen=True)
class ReportTable:
    """A title, headings, rows of text, the most important first. Columns in `numbers` keep to the right."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[str] = ()
    # The last row is the sum of the others.
    has_total: bool = False
    # Of each row, its part of the sum.
    shares: Sequence[float] = ()

    def shortened(self, count: int) -> tuple[list[Sequence[str]], int]:
        """The first rows, with the sum, and how many others there are."""
        end = list(self.rows[-1:]) if self.has_total else []
        hidden = max(0, len(self.rows) - len(end) - count)
        return (list(self.rows) if not hidden else [*self.rows[:count], *end]), hidden

    def newest_first(self) -> ReportTable:
        """The same with its rows in reverse, and the sum still behind them."""
        end = len(self.rows) - self.has_total
        rows = [*self.rows[:end][::-1], *self.rows[end:]]
        return dataclasses.replace(self, rows=rows, shares=self.shares[::-1])


def report_tables(results: Results, *, merges_backlog: bool = False) -> list[ReportTable]:
    """Return the tables that have rows. With `merges_backlog`, all backlog queues are one row."""
    every = {row["entity"] for rows in (results.costs, results.latencies) for row in rows}
    names = short_names(every, is_merged=merges_backlog)
    tables = [
        _outage_table(results.outages),
        _arrival_table(results.arrivals),
        _cost_table("Cost by stage", ("stage",), results.costs, names),
        _cost_table("Cost by day", ("day",), results.costs, names),
        _cost_table("Cost by entity and operation", ("entity", "operation", "stage"), results.costs, names),
        _latency_table(results.latencies, names),
    ]
    return [table for table in tables if table.rows]


def _cost_table(title: str, keys: Sequence[str], costs: Iterable[Row], names: Mapping[str, str]) -> ReportTable:
    sums: dict[tuple[str, ...], list[Any]] = {}
    currency = ""
    for row in costs:
        currency = row["currency"]
        values = {**row, "entity": names[row["entity"]], "day": f"{row['from']:%Y-%m-%d}"}
        total = sums.setdefault(tuple(str(values[key]) for key in keys), [0, 0, Decimal(0)])
        total[0] += row["operations"]
        total[1] += row["units"] if row["cost"] else 0
        total[2] += row["cost"]
    ranked = sorted(sums.items(), key=lambda item: (-item[1][2], item[0])) if keys != ("day",) else sorted(sums.items())
    rows = [(*key, *_cost_cells(*total)) for key, total in ranked]
    shares: list[float] = []
    if rows:
        operations, charged = (sum(total[column] for total in sums.values()) for column in (0, 1))
        cost = sum((total[2] for total in sums.values()), Decimal(0))
        shares = [float(total[2] / cost) if cost else 0.0 for _, total in ranked]
        rows.append((*("total" if not at else "" for at in range(len(keys))), *_cost_cells(operations, charged, cost)))
    numbers = ("operations", "charged", "per million", currency)
    return ReportTable(title, (*keys, *numbers), rows, numbers, has_total=True, shares=shares)


def _cost_cells(operations: int, charged: int, cost: Decimal) -> tuple[str, ...]:
    """Operations, the units of those that are not free, what a million such units cost, and the cost."""
    rate = per_million(cost, charged)
    return f"{operations:,}", f"{charged:,}", "–" if rate is None else money_text(rate), money_text(cost)


def _outage_table(outages: Iterable[Row]) -> ReportTable:
    figures = ("detect", "restore", "drain", "pings", "diverted", "syphoned")
    rows = [
        (
            row["entity"],
            _moment(row["failing_at"]),
            *(_seconds(row[name]) for name in ("seconds_to_detect", "seconds_to_restore", "seconds_to_drain")),
            *(f"{row[name]:,}" for name in ("pings", "diverted", "syphoned")),
        )
        for row in outages
    ]
    return ReportTable("Outages, in seconds", ("entity", "since", *figures), rows, figures)


def _arrival_table(arrivals: Iterable[Row]) -> ReportTable:
    figures = ("sent", "received", "lost", "duplicates", "out_of_order", "late")
    rows = [(row["entity"], *(f"{row[name]:,}" for name in figures), _seconds(row["longest_s"])) for row in arrivals]
    headings = ("entity", *(name.replace("_", " ") for name in figures), "longest, s")
    return ReportTable("How messages arrived", headings, rows, headings[1:])


def _latency_table(latencies: Iterable[Row], names: Mapping[str, str]) -> ReportTable:
    """The worst window of each, since that is what somebody will ask about; and the worst of them first."""
    figures = ("p50_ms", "p95_ms", "p99_ms")
    worst: dict[tuple[str, str], dict[str, Any]] = {}
    for row in latencies:
        kept = worst.setdefault((names[row["entity"]], row["operation"]), {"count": 0, **dict.fromkeys(figures, 0)})
        kept["count"] += row["count"]
        for name in figures:
            kept[name] = _larger(kept[name], row[name])
    rows = [
        (entity, operation, f"{kept['count']:,}", *(_bound(kept[name]) for name in figures))
        for (entity, operation), kept in sorted(worst.items(), key=lambda item: (-_rank(item[1]["p99_ms"]), item[0]))
    ]
    headings = ("entity", "operation", "operations", "p50 ≤ ms", "p95 ≤ ms", "p99 ≤ ms")
    return ReportTable("Latency in the worst window", headings, rows, headings[2:])


def _larger(one: int | None, other: int | None) -> int | None:
    # None is longer than the last bound.
    return None if one is None or other is None else max(one, other)


def _rank(value_ms: int | None) -> float:
    return math.inf if value_ms is None else value_ms


def _bound(value_ms: int | None) -> str:
    return f"> {LATENCY_BOUNDS_MS[-1]:,}" if value_ms is None else f"{value_ms:,}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def _moment(value: datetime | None) -> str:
    return "–" if value is None else f"{value:%m-%d %H:%M:%S}"
