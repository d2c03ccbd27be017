"""The report as one page of HTML: styles and pictures are in it, nothing is fetched, and it needs no script.

`render(results)` is all that a program needs; with `refresh_s`, a browser loads the page again and again while results
are still being made. The time that it takes grows with the rows of the results, not with the records behind them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Final

from tandem.cost.money import money_text
from tandem.pages.blocks import Cell, Column, attention, card, document, meter, pill, stats, table, tiles
from tandem.pages.origin import Origin
from tandem.pages.plots import Axis, Band, legend, lines, sparkline, time_axis, timeline
from tandem.pages.words import duration_words, plural
from tandem.spark.report.arithmetic import Charge, Charges, backlog_queue_count, charges, per_million, standing_costs
from tandem.spark.report.lanes import availability_lanes
from tandem.spark.report.names import short_names
from tandem.spark.report.results import Results, Row
from tandem.spark.report.summary import (
    WAITING_OPERATIONS,
    Period,
    headline,
    merged_outages,
    observed_period,
    status,
    troubles,
)
from tandem.spark.report.tables import ReportTable, report_tables

__all__ = ["TITLE", "render"]

TITLE: Final = "What the bus did"

# Lines in one plot and rows in one table: more cannot be told apart, or are not read.
_MAX_SERIES: Final = 4
_MAX_ROWS: Final = 10

_STAGES: Final = {
    "direct": "applications and the primary",
    "backlog": "to the secondary",
    "syphon": "back to the primary",
}

_UNLIKE: Final = (
    "A ping that does not arrive is not metered. A long poll that ends early, such as at the stop of a syphon, is "
    "metered as an empty one."
)

_NOTHING: Final = (
    "Nothing was recorded yet. The jobs read the hub <code>$operations</code> of your namespaces: run <code>tandem "
    "pipeline metering</code>, <code>availability</code> or <code>latency</code>, or <code>tandem drill --keep drill "
    "&amp;&amp; tandem pipeline report --from drill</code> for an example."
)

Points = dict[str, list[tuple[float, float]]]


def render(results: Results, *, title: str = TITLE, origin: Origin | None = None, refresh_s: int | None = None) -> str:
    """Return the page. `origin` is this machine at this moment unless it is given."""
    period = observed_period(results)
    found = troubles(results, period)
    words, tone = status(results, found)
    is_empty = period is None and not results.costs and not results.arrivals
    blocks = [card("Nothing yet", f"<p>{_NOTHING}</p>")] if is_empty else _blocks(results, period, attention(found))
    state = pill("waiting for records", "") if is_empty else pill(words, tone)
    return document(title, state, blocks, origin or Origin.here(), refresh_s=refresh_s)


def _blocks(results: Results, period: Period | None, needing: str) -> list[str]:
    tables = {one.title.partition(",")[0]: one for one in report_tables(results, merges_backlog=True)}
    blocks = [stats(headline(results, period)), card("Needs attention", needing, "worst first")]
    if period is not None:
        axis = time_axis(period.start, period.end)
        bands = [
            Band(start.timestamp(), end.timestamp(), f"unavailable {duration_words((end - start).total_seconds())}")
            for start, end in merged_outages(results.outages, period.end)
        ]
        blocks += [
            *_availability(results, period, axis, tables.get("Outages")),
            *_cost(results, period.seconds, tables),
            *_latency(results, axis, bands, tables.get("Latency in the worst window")),
            *_backlog(results, axis, bands),
        ]
    else:
        blocks += _cost(results, 0.0, tables)
    arrived = tables.get("How messages arrived")
    return [*blocks, "" if arrived is None else card(arrived.title, _plain(arrived, wide=("received", "longest, s")))]


# --- sections -------------------------------------------------------------------------------------------------------


def _availability(results: Results, period: Period, axis: Axis, outages: ReportTable | None) -> list[str]:
    lanes = availability_lanes(results, period)
    if not lanes or outages is None:
        return []
    entries = [
        ("healthy", "available"),
        ("failing", "failing"),
        ("failed-over", "unavailable: sends take the detour"),
        ("draining", "draining the backlog"),
        ("ping", "ping"),
        ("ping answered", "ping answered"),
    ]
    drawn = timeline(lanes[:_MAX_ROWS], axis, label="When each entity was unavailable; the table below has the times")
    hidden = _hidden(len(lanes) - _MAX_ROWS, "entity")
    columns = _columns(outages, wide=("since", "restore", "pings", "syphoned"))
    newest = table(columns, outages.rows[: -_MAX_ROWS - 1 : -1])
    return [
        card("When entities were unavailable", f'<div class="body">{drawn}</div>', legend(entries), hidden),
        card(outages.title, newest, "newest first", _hidden(len(outages.rows) - _MAX_ROWS, "outage")),
    ]


def _backlog(results: Results, axis: Axis, bands: Sequence[Band]) -> list[str]:
    on_detour = _points(results.backlog, lambda row: row["entity"], "time", "depth")
    drawn = _with_ends(_largest(on_detour), axis)
    plot = lines(drawn, axis, label="Messages on the detour over time", unit="messages", is_stepped=True, bands=bands)
    blocks = [card("Messages on the detour", f'<div class="body">{plot}</div>', _named(drawn))] if plot else []
    names = short_names(row["entity"] for row in results.backlog_queues)
    queues = _points(results.backlog_queues, lambda row: names[row["entity"]], "time", "depth")
    entries = [
        (
            name,
            f"{max(depth for _, depth in points):,.0f} at most, {points[-1][1]:,.0f} now",
            sparkline(_with_ends({name: points}, axis)[name], axis, is_stepped=True),
        )
        for name, points in sorted(queues.items(), key=lambda item: _by_number(item[0]))
    ]
    hidden = _hidden(len(entries) - _MAX_ROWS, "queue")
    return [*blocks, card("Messages in backlog queues", tiles(entries[:_MAX_ROWS]), note=hidden)]


def _cost(results: Results, observed_s: float, tables: dict[str, ReportTable]) -> list[str]:
    by_stage = tables.get("Cost by stage")
    if by_stage is None:
        return []
    documented = charges(results, observed_s)
    note = "A unit is one operation, or each 64 KB of it. Failed operations are free."
    stages = card(by_stage.title, _stages(by_stage), note=note)
    if documented is None:
        blocks = [stages]
    else:
        beside = card("What the documents say that a pair costs", _charges(documented), note=_UNLIKE)
        blocks = [f'<div class="two"><div class="stack">{stages}{_standing(results)}</div>{beside}</div>']
    most = tables["Cost by entity and operation"]
    hidden = _hidden(len(most.rows) - 1 - _MAX_ROWS, "row")
    blocks.append(card("What costs most", _with_shares(most, 3), note=hidden))
    by_day = tables["Cost by day"]
    # One day, and its sum.
    if len(by_day.rows) > 2:
        hidden = _hidden(len(by_day.rows) - 1 - _MAX_ROWS, "day")
        blocks.append(card(by_day.title, _with_shares(by_day.newest_first(), 1), "newest first", hidden))
    return blocks


def _stages(by_stage: ReportTable) -> str:
    """What happens at each stage stands below its name, and a bar for its part of the sum."""
    columns = _columns(by_stage, wide=("per million",))
    rows: list[list[str | Cell]] = []
    for stage, (name, _, *figures) in enumerate(by_stage.rows):
        bar = meter(by_stage.shares[stage]) if stage < len(by_stage.shares) else ""
        rows.append([Cell(name, _STAGES.get(name, ""), bar), *figures])
    return table([columns[0], *columns[2:]], rows, totals=[len(rows) - 1])


def _charges(documented: Charges) -> str:
    columns = (
        Column("charge"),
        Column("expected", True, is_wide=True),
        Column("metered", True),
        Column("per million", True, is_wide=True),
        Column("cost", True),
    )
    detour = documented.detour
    sums = Charge(
        "The detour",
        f"4 charges × {detour[0].expected:,} messages",
        sum(one.expected for one in detour),
        sum(one.metered for one in detour),
        sum(one.units for one in detour),
        sum((one.cost for one in detour), Decimal(0)),
    )
    rows = [_charge(one) for one in (*detour, sums, *documented.upkeep)]
    return table(columns, rows, totals=[len(detour)])


def _charge(one: Charge) -> list[str | Cell]:
    rate = per_million(one.cost, one.units)
    counts = (f"{one.expected:,}", f"{one.metered:,}")
    return [Cell(one.name, one.arithmetic), *counts, "–" if rate is None else money_text(rate), money_text(one.cost)]


def _standing(results: Results) -> str:
    columns = (Column("in"), Column("empty polls", True), Column("cost", True))
    rows = [
        (one.period, f"{one.polls:,}", "–" if one.cost is None else money_text(one.cost))
        for one in standing_costs(results)
    ]
    queues = plural(backlog_queue_count(results.costs), "backlog queue")
    note = f"{queues}, each polled for 15 minutes at a time: 4 receives an hour."
    return card("While nothing happens", table(columns, rows), note=note)


def _latency(results: Results, axis: Axis, bands: Sequence[Band], worst: ReportTable | None) -> list[str]:
    if worst is None:
        return []
    names = short_names((row["entity"] for row in results.latencies), is_merged=True)
    known = [row for row in results.latencies if row["p99_ms"] is not None]
    every = {
        name: _worst_of_each(points)
        for name, points in _points(
            known, lambda row: f"{row['operation']} {names[row['entity']]}", "from", "p99_ms"
        ).items()
    }
    # How long a receive takes is a matter of those who send.
    active = {name: points for name, points in every.items() if name.split()[0] not in WAITING_OPERATIONS}
    drawn = _largest(active)
    window_s = _window_s(drawn)
    plot = lines(
        {name: _over_windows(points, window_s) for name, points in drawn.items()},
        axis,
        label="99th percentile of latency over time",
        unit="ms",
        # In a window without an operation there is no latency: the line is broken.
        max_gap_s=window_s or math.inf,
        bands=bands,
    )
    title = "Latency: 99 of 100 operations took at most"
    blocks = [card(title, f'<div class="body">{plot}</div>', _named(drawn))] if plot else []
    figures = _columns(worst, wide=("operations", "p95 ≤ ms"))[2:]
    columns = (Column("entity and operation"), *figures, Column("p99 over time", kind="spark", is_wide=True))
    rows: list[list[str | Cell]] = [
        [Cell(row[0], row[1]), *row[2:], Cell(html=sparkline(every.get(f"{row[1]} {row[0]}", []), axis))]
        for row in worst.rows[:_MAX_ROWS]
    ]
    hidden = _hidden(len(worst.rows) - _MAX_ROWS, "row")
    return [*blocks, card(worst.title, table(columns, rows, is_dense=True), note=hidden)]


# --- parts of sections ----------------------------------------------------------------------------------------------


def _columns(one: ReportTable, wide: Sequence[str]) -> list[Column]:
    return [Column(heading, heading in one.numbers, heading in wide) for heading in one.headings]


def _plain(one: ReportTable, wide: Sequence[str]) -> str:
    return table(_columns(one, wide), one.rows)


def _with_shares(one: ReportTable, keys: int) -> str:
    """The first rows of a table of costs, with a bar for the part of each in the sum. All keys stand in one column."""
    rows, _ = one.shortened(_MAX_ROWS)
    shown: list[list[str | Cell]] = []
    for number, row in enumerate(rows):
        bar = meter(one.shares[number]) if number < len(rows) - 1 else ""
        shown.append([Cell(row[0], ", ".join(filter(None, row[1:keys]))), *row[keys:], Cell(html=bar)])
    figures = _columns(one, wide=("operations", "per million"))[keys:]
    columns = [Column(one.headings[0]), *figures, Column("share", is_wide=True, kind="share")]
    return table(columns, shown, totals=[len(shown) - 1], is_dense=True)


def _points(rows: Iterable[Row], name: Callable[[Row], str], time: str, value: str) -> Points:
    series: Points = {}
    for row in rows:
        series.setdefault(name(row), []).append((row[time].timestamp(), float(row[value])))
    return {name: sorted(points) for name, points in series.items()}


def _worst_of_each(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of several values at one moment the largest."""
    worst: dict[float, float] = {}
    for at_s, value in points:
        worst[at_s] = max(value, worst.get(at_s, 0.0))
    return sorted(worst.items())


def _window_s(series: Points) -> float:
    """The time that each value stands for: the shortest one between two of them, or nothing if there is only one."""
    starts_s = sorted({at_s for points in series.values() for at_s, _ in points})
    return min((after - before for before, after in pairwise(starts_s)), default=0.0)


def _over_windows(points: Iterable[tuple[float, float]], window_s: float) -> list[tuple[float, float]]:
    """Each value from the beginning of its window to the end."""
    return [place for at_s, value in points for place in ((at_s, value), (at_s + window_s, value))]


def _largest(series: Points) -> Points:
    ranked = sorted(series, key=lambda name: -max(value for _, value in series[name]))
    return {name: series[name] for name in sorted(ranked[:_MAX_SERIES])}


def _with_ends(series: Points, axis: Axis) -> Points:
    """A depth is nothing before its first record, and stays what it was at the last."""
    return {
        name: [(axis.start_s, 0.0), *points, (axis.end_s, points[-1][1])] for name, points in series.items() if points
    }


def _named(series: Points) -> str:
    return legend((f"s{number}", name) for number, name in enumerate(series))


def _hidden(count: int, noun: str) -> str:
    return f"{plural(count, noun)} more: <code>tandem pipeline report --json</code>" if count > 0 else ""


def _by_number(name: str) -> tuple[str, int]:
    """`backlog 10` comes behind `backlog 9`."""
    words, _, number = name.rpartition(" ")
    return (words, int(number)) if number.isdecimal() else (name, 0)
