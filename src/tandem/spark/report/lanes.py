"""The states of each entity over time: available, failing, unavailable, draining."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from tandem.pages.plots import Lane, Mark, Span
from tandem.pages.words import duration_words, percent_words, plural
from tandem.spark.report.results import Results, Row
from tandem.spark.report.summary import Period, outages_by_entity, unavailable_seconds

__all__ = ["availability_lanes"]

# What clients send to through a pair.
_SENT_TO: Final = frozenset({"queue", "topic"})

# Circles that can be told apart on one lane.
_MAX_PINGS: Final = 120


def availability_lanes(results: Results, period: Period) -> list[Lane]:
    """Return a lane for each entity that had an outage, the worst first, then for those that had none."""
    by_entity = outages_by_entity(results.outages)
    ranked = sorted(by_entity, key=lambda name: (-unavailable_seconds(by_entity[name], period.end), name))
    lanes = [_lane(name, by_entity[name], results.pings, period) for name in ranked]
    if not lanes:
        return []
    others = {
        row["entity"]
        for row in results.costs
        if row["operation"] == "send" and row["stage"] == "direct" and row.get("entity_kind") in _SENT_TO
    }
    touched = {row["entity"] for row in results.outages}
    return [*lanes, *(Lane(name, "no outage", [_available(name, period)]) for name in sorted(others - touched))]


def _lane(name: str, outages: Sequence[Row], pings: Iterable[Row], period: Period) -> Lane:
    lost_s = unavailable_seconds(outages, period.end)
    share = percent_words(1 - lost_s / period.seconds)
    note = f"{plural(len(outages), 'outage')}, {duration_words(lost_s)}; {share} available"
    spans = [_available(name, period), *(span for row in outages for span in _spans(row, period.end))]
    keys = {(row.get("primary"), row["entity"]) for row in outages}
    marks = [_mark(row) for row in pings if (row.get("primary"), row["entity"]) in keys]
    return Lane(name, note, spans, marks if len(marks) <= _MAX_PINGS else ())


def _available(name: str, period: Period) -> Span:
    return Span("healthy", period.start.timestamp(), period.end.timestamp(), f"{name}: available")


def _spans(row: Row, end: datetime) -> Iterator[Span]:
    """What is not over yet lasts to the end."""
    left = int(row["diverted"]) > int(row["syphoned"])
    steps = (
        ("failing", "failing", row["failing_at"], row["failed_over_at"]),
        ("failed-over", "unavailable", row["failed_over_at"], row["restored_at"] or end),
        ("draining", "draining", row["restored_at"], row["drained_at"] or (end if left else None)),
    )
    for state, words, start, behind in steps:
        if start is not None and behind is not None and behind >= start:
            title = f"{row['entity']}: {words} for {duration_words((behind - start).total_seconds())}"
            yield Span(state, start.timestamp(), behind.timestamp(), title)


def _mark(row: Row) -> Mark:
    is_answered = row["outcome"] == "ok"
    words = "ping answered" if is_answered else f"ping: {row['outcome']}"
    return Mark("ping answered" if is_answered else "ping", row["time"].timestamp(), f"{words}, {row['time']:%H:%M:%S}")
