"""The report as one page of HTML: styles and pictures are in it, and nothing is fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from html import escape
from itertools import pairwise
from typing import Final

from tandem.cost.money import money_text
from tandem.spark.report.plots import Span, bars, lines, shortened, timeline
from tandem.spark.report.results import Results, Row
from tandem.spark.report.tables import ReportTable, report_tables

__all__ = ["page"]

# Lines or bars in one picture: more cannot be told apart.
_MAX_SERIES: Final = 4
_MAX_BARS: Final = 12

_WAITING_OPERATIONS: Final = frozenset({"receive", "empty-receive"})

_STYLE: Final = """\
:root { color-scheme: light dark; --ink: #1c1f24; --soft: #667; --line: #dde; --sheet: #fff; --back: #f4f5f7 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ec; --soft: #9aa0aa; --line: #333842; --sheet: #1b1e24; --back: #121419 }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 0; padding: 2rem }
main { max-width: 920px; margin: auto }
h1 { font-size: 1.6rem; margin: 0 0 .2rem } h2 { font-size: 1.1rem; margin: 0 0 .8rem }
p { color: var(--soft); margin: 0 0 1.5rem }
section { background: var(--sheet); border: 1px solid var(--line); border-radius: 8px; padding: 1.2rem }
section { margin: 0 0 1.2rem; overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: 13px }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap }
th { color: var(--soft); font-weight: 500 } .number { text-align: right; font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto; display: block } svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
.grid { stroke: var(--line) } .line { stroke-width: 2 }
.s0 { fill: #2563a8; stroke: #2563a8 } .s1 { fill: #d9822b; stroke: #d9822b }
.s2 { fill: #3a9d6e; stroke: #3a9d6e } .s3 { fill: #a04fb0; stroke: #a04fb0 } .bar { stroke: none }"""


def page(results: Results, title: str, made_at: datetime) -> str:
    """All that there is something to show of."""
    sections = [
        _section("When entities were out of order", _outages(results.outages)),
        _section("Messages on the detour", _depth(results.backlog, "entity")),
        _section("Messages in backlog queues", _depth(results.backlog_queues, "entity")),
        _section("What costs most", _costs(results.costs)),
        _section("Latency over time: 99 of 100 took at most so many milliseconds", _latency(results.latencies)),
        *(_section(table.title, _table(table)) for table in report_tables(results)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{escape(title)}</h1><p>Made at {made_at:%Y-%m-%d %H:%M:%S} UTC by Tandem. All times are UTC.</p>"
        f"{''.join(sections)}</main></body></html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def _table(table: ReportTable) -> str:
    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if heading in table.numbers else ''}>{escape(value)}</{tag}>"
            for heading, value in zip(table.headings, values, strict=True)
        )

    rows = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    return f"<table><thead><tr>{cells('th', table.headings)}</tr></thead><tbody>{rows}</tbody></table>"


def _outages(outages: Iterable[Row]) -> str:
    rows: dict[str, list[Span]] = {}
    for row in outages:
        spans = rows.setdefault(row["entity"], [])
        steps = (row["failing_at"], row["failed_over_at"], row["restored_at"], row["drained_at"])
        texts = ("failing", "failed over", "draining")
        for kind, (start, end) in enumerate(pairwise(steps)):
            # Not over yet: shown as a moment.
            if start is not None:
                behind = max(start, end) if end is not None else start
                spans.append(Span(start, behind, kind, f"{texts[kind]} for {(behind - start).total_seconds():.1f} s"))
    return timeline(rows, ("failing", "failed over", "draining the backlog"))


def _depth(backlog: Sequence[Row], key: str) -> str:
    series: dict[str, list[tuple[datetime, float]]] = {}
    for row in backlog:
        series.setdefault(row[key], []).append((row["time"], float(row["depth"])))
    return lines(_largest(series), is_stepped=True)


def _latency(latencies: Sequence[Row]) -> str:
    series: dict[str, list[tuple[datetime, float]]] = {}
    for row in latencies:
        # How long a receive takes is a matter of those who send.
        if row["p99_ms"] is not None and row["operation"] not in _WAITING_OPERATIONS:
            series.setdefault(f"{row['operation']} {row['entity']}", []).append((row["from"], float(row["p99_ms"])))
    return lines(_largest(series))


def _largest(series: dict[str, list[tuple[datetime, float]]]) -> dict[str, list[tuple[datetime, float]]]:
    ranked = sorted(series, key=lambda name: -max(value for _, value in series[name]))
    return {name: series[name] for name in sorted(ranked[:_MAX_SERIES])}


def _costs(costs: Iterable[Row]) -> str:
    sums: dict[str, Decimal] = {}
    currency = ""
    for row in costs:
        label = f"{row['operation']} ({row['stage']}) {row['entity']}"
        sums[label] = sums.get(label, Decimal(0)) + row["cost"]
        currency = row["currency"]
    ranked = sorted(((label, cost) for label, cost in sums.items() if cost), key=lambda item: -item[1])[:_MAX_BARS]
    return bars([(shortened(label, 40), float(cost), f"{money_text(cost)} {currency}") for label, cost in ranked])
