"""What matters most about the results: the time that they cover, headline figures, and what needs attention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from html import escape
from typing import Final

from tandem.cost.money import money_text
from tandem.engine.metering import LATENCY_BOUNDS_MS
from tandem.pages.blocks import Stat, Tone
from tandem.pages.words import duration_words, percent_words, plural
from tandem.spark.report.arithmetic import per_million
from tandem.spark.report.names import is_backlog_queue
from tandem.spark.report.results import Results, Row

__all__ = ["Period", "headline", "merged_outages", "observed_period", "outages_by_entity", "status", "troubles"]

# Operations whose latency is how long somebody else took to send something.
WAITING_OPERATIONS: Final = frozenset({"receive", "empty-receive"})

# The kinds of trouble, the worst first, and each as the state of the whole.
_STATUS: Final = {
    "Lost": "Messages were lost",
    "Unavailable": "An entity is unavailable",
    "Backlog": "Messages wait in the backlog",
    "Arrival": "Messages arrived late or twice",
}

Trouble = tuple[Tone, str, str]


@dataclass(frozen=True)
class Period:
    """The time that is reported on."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


def observed_period(results: Results) -> Period | None:
    """Return the time from the first record to the last. Costs are by day, and say nothing about it."""
    columns = {
        "outages": ("failing_at", "failed_over_at", "restored_at", "drained_at"),
        "pings": ("time",),
        "backlog": ("time",),
        "backlog_queues": ("time",),
        "latencies": ("from",),
    }
    moments = [
        moment
        for name, fields in columns.items()
        for row in getattr(results, name)
        for field in fields
        if (moment := row[field]) is not None
    ]
    if not moments:
        return None
    start, end = min(moments), max(moments)
    # A single moment has a second of its own.
    return Period(start, max(end, start + timedelta(seconds=1)))


def outages_by_entity(outages: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the outages of each entity, by its name; with the primary in front of it if there are several."""
    rows = list(outages)
    primaries = {row.get("primary") for row in rows}
    by_entity: dict[str, list[Row]] = {}
    for row in rows:
        name = row["entity"] if len(primaries) == 1 else f"{row['primary']}: {row['entity']}"
        by_entity.setdefault(name, []).append(row)
    return by_entity


def merged_outages(outages: Iterable[Row], end: datetime) -> list[tuple[datetime, datetime]]:
    """Return the times in which at least one entity was unavailable. An outage that is not over lasts to the end."""
    merged: list[tuple[datetime, datetime]] = []
    for start, behind in sorted((row["failing_at"], row["restored_at"] or end) for row in outages):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], behind))
        else:
            merged.append((start, behind))
    return merged


def unavailable_seconds(outages: Iterable[Row], end: datetime) -> float:
    return sum((behind - start).total_seconds() for start, behind in merged_outages(outages, end))


# --- headline figures -----------------------------------------------------------------------------------------------


def headline(results: Results, period: Period | None) -> list[Stat]:
    """Return the figures that a reader looks for first, as far as there are any."""
    figures: list[Stat] = []
    if period is not None and (results.outages or results.pings):
        figures += _availability(results.outages, period)
    if results.arrivals:
        figures.append(_arrivals(results.arrivals))
    figures += _latency(results.latencies)
    figures += _cost(results.costs)
    return figures


def _availability(outages: Sequence[Row], period: Period) -> list[Stat]:
    observed = duration_words(period.seconds)
    if not outages:
        return [Stat("Primary available", "100 %", f"no outage in {observed}", "ok")]
    merged = merged_outages(outages, period.end)
    longest = duration_words(max((end - start).total_seconds() for start, end in merged))
    lengths = f" of {longest} in {observed}" if len(merged) == 1 else f" in {observed}, longest {longest}"
    worst = max(unavailable_seconds(rows, period.end) for rows in outages_by_entity(outages).values())
    diverted, syphoned = (sum(int(row[name]) for row in outages) for name in ("diverted", "syphoned"))
    left = max(0, diverted - syphoned)
    return [
        Stat(
            "Primary available",
            percent_words(1 - worst / period.seconds),
            f"{plural(len(merged), 'outage')}{lengths}",
        ),
        Stat(
            "Time to detect",
            _longest(outages, "seconds_to_detect"),
            f"drained {_longest(outages, 'seconds_to_drain')} after the return",
        ),
        Stat(
            "Diverted messages",
            f"{diverted:,}",
            f"{left:,} still in the backlog" if left else "all moved back to the primary",
            "warn" if left else "ok",
        ),
    ]


def _longest(outages: Iterable[Row], column: str) -> str:
    known = [row[column] for row in outages if row[column] is not None]
    return duration_words(max(known)) if known else "–"


def _arrivals(arrivals: Sequence[Row]) -> Stat:
    sent, lost, duplicates = (sum(row[name] for row in arrivals) for name in ("sent", "lost", "duplicates"))
    note = f"of {sent:,} sent; {plural(duplicates, 'duplicate')}"
    return Stat("Messages lost", f"{lost:,}", note, "bad" if lost else "ok")


def _latency(latencies: Iterable[Row]) -> list[Stat]:
    # A backlog queue is not what applications wait for.
    sends = [row for row in latencies if row["operation"] == "send" and not is_backlog_queue(row["entity"])]
    if not sends:
        return []
    slowest = max(sends, key=lambda row: float("inf") if row["p99_ms"] is None else row["p99_ms"])
    return [Stat("Send latency, p99", bound_words(slowest["p99_ms"]), f"worst window, {slowest['entity']}")]


def bound_words(value_ms: int | None) -> str:
    """Return an upper bound; None is longer than the last one."""
    return f"> {LATENCY_BOUNDS_MS[-1]:,} ms" if value_ms is None else f"≤ {value_ms:,} ms"


def _cost(costs: Sequence[Row]) -> list[Stat]:
    if not costs:
        return []
    cost = sum((row["cost"] for row in costs), Decimal(0))
    units = sum(row["units"] for row in costs if row["cost"])
    rate = per_million(cost, units)
    note = f"{units:,} priced units" if rate is None else f"{units:,} units at {money_text(rate)} per million"
    return [Stat("Cost", f"{money_text(cost)} {costs[0]['currency']}", note)]


# --- what needs attention -------------------------------------------------------------------------------------------


def troubles(results: Results, period: Period | None) -> list[Trouble]:
    """Return what somebody should look at, the worst first, with sentences as HTML."""
    found: list[Trouble] = []
    for row in results.arrivals:
        if row["lost"]:
            sentence = f"<b>{escape(row['entity'])}</b> lost {row['lost']:,} of {plural(row['sent'], 'message')}"
            found.append(("bad", "Lost", sentence))
    if period is not None:
        found += _open_outages(results.outages, period.end)
    for row in results.arrivals:
        if row["duplicates"] or row["late"]:
            sentence = (
                f"<b>{escape(row['entity'])}</b> got {plural(row['duplicates'], 'duplicate')}, and {row['late']:,} "
                f"messages came late, the slowest after {duration_words(row['longest_s'] or 0)}"
            )
            found.append(("warn", "Arrival", sentence))
    return found


def _open_outages(outages: Iterable[Row], end: datetime) -> list[Trouble]:
    unavailable: list[Trouble] = []
    waiting: list[Trouble] = []
    for row in outages:
        entity = f"<b>{escape(row['entity'])}</b>"
        left = int(row["diverted"]) - int(row["syphoned"])
        if row["restored_at"] is None:
            lasts = duration_words((end - row["failing_at"]).total_seconds())
            sentence = f"{entity} has been unavailable for {lasts}, since {row['failing_at']:%Y-%m-%d %H:%M:%S}"
            unavailable.append(("bad", "Unavailable", sentence))
        elif left > 0:
            # A syphon that is running is not seen here: the last sentence is for one that is not.
            sentence = (
                f"{plural(left, 'message')} of {entity} wait in the backlog. If no syphon runs, start "
                "<code>tandem syphon run</code>"
            )
            waiting.append(("warn", "Backlog", sentence))
    return unavailable + waiting


def status(results: Results, found: Sequence[Trouble]) -> tuple[str, Tone]:
    """Return the state of things in a few words: the worst of what was found."""
    if found:
        tone, kind, _ = found[0]
        return _STATUS[kind], tone
    if results.outages:
        return "Every outage is over, the backlog is empty", "ok"
    return "No outage", "ok"
