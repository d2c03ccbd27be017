"""A drill drawn over time: the state of each entity, what happened to it, and how many messages had come how far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tandem.drill.plan import ENTITIES
from tandem.pages.blocks import card
from tandem.pages.plots import Axis, Band, Lane, Mark, Span, legend, lines, seconds_axis, timeline

__all__ = ["draw_curves", "draw_states"]

_STATES: Final = {
    "healthy": "available",
    "failing": "failing",
    "failed-over": "unavailable: sends take the detour",
}
_CURVES: Final = ("sent", "diverted", "syphoned", "received")

# Reported once in so many seconds, as sums.
_SUMMED: Final = frozenset({"diverted", "syphoned"})
_SUM_S: Final = 1.0


# Any: the figures as they are printed as JSON.
def draw_states(figures: dict[str, Any]) -> str:
    """Draw the states of each entity."""
    axis = _axis(figures)
    entries = [*_STATES.items(), ("ping", "ping"), ("ping answered", "ping answered")]
    drawn = timeline(
        [_lane(figures, axis, entity) for entity in ENTITIES], axis, label="The state of each entity during the drill"
    )
    return card("When entities were unavailable", f'<div class="body">{drawn}</div>', legend(entries), _ZERO)


def draw_curves(figures: dict[str, Any]) -> str:
    """Draw how many messages had been sent, diverted, syphoned and received."""
    axis = _axis(figures)
    series = {name: _curve(figures["curves"][name], name, axis) for name in _CURVES}
    outage = Band(0.0, figures["outage_seconds"], f"{figures['fault']}, {figures['outage_seconds']:.1f} s")
    plot = lines(series, axis, label="Messages over time", unit="messages", is_stepped=False, bands=[outage])
    entries = [(f"s{number}", name) for number, name in enumerate(_CURVES)]
    return card("Messages", f'<div class="body">{plot}</div>', legend(entries))


_ZERO: Final = "Seconds since the outage began."


def _axis(figures: dict[str, Any]) -> Axis:
    return seconds_axis(figures["started_seconds"], figures["ended_seconds"])


def _lane(figures: dict[str, Any], axis: Axis, entity: str) -> Lane:
    spans = [
        Span(state, start_s, end_s, f"{entity}: {_STATES[state]}, {start_s:.2f} s to {end_s:.2f} s")
        for state, start_s, end_s in _bands(figures["states"], entity, axis)
    ]
    marks = [
        Mark(
            "ping answered" if event["outcome"] == "ok" else "ping",
            event["seconds"],
            f"{entity}: ping {event['outcome']}, {event['seconds']:.2f} s",
        )
        for event in figures["timeline"]
        if event["entity"] == entity and event["event"] == "ping"
    ]
    return Lane(entity, _note(spans), spans, marks)


def _note(spans: Sequence[Span]) -> str:
    away_s = sum(span.end_s - span.start_s for span in spans if span.state != "healthy")
    return f"unavailable for {away_s:.1f} s" if away_s else "no outage"


def _bands(states: Sequence[dict[str, Any]], entity: str, axis: Axis) -> Iterator[tuple[str, float, float]]:
    """State, beginning and end. An entity is healthy before anything is known of it."""
    changes = [("healthy", axis.start_s)]
    changes += [(one["state"], one["seconds"]) for one in states if one["entity"] == entity]
    ends = [start_s for _, start_s in changes[1:]] + [axis.end_s]
    for (state, start_s), end_s in zip(changes, ends, strict=True):
        yield state, start_s, end_s


def _curve(curve: Sequence[tuple[float, float]], name: str, axis: Axis) -> list[tuple[float, float]]:
    """Between two moments the count stays what it was. What is reported as a sum happened in the second before."""
    rise_s = _SUM_S if name in _SUMMED else 0.0
    points = [(axis.start_s, 0.0)]
    for at_s, count in curve:
        points.append((max(points[-1][0], at_s - rise_s), points[-1][1]))
        points.append((at_s, float(count)))
    return [*points, (axis.end_s, points[-1][1])]
