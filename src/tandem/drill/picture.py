"""A drill drawn over time: the state of each entity, what happened to it, and how many messages had come how far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tandem.drill.plan import ENTITIES
from tandem.svg import circle, document, legend, line, polyline, rectangle, round_up, short, text

__all__ = ["draw_drill"]

WIDTH: Final = 960
LEFT: Final = 76
PLOT_WIDTH: Final = WIDTH - LEFT - 20
LANES_TOP: Final = 84
LANE_HEIGHT: Final = 30
BAND_HEIGHT: Final = 18
LANES_BOTTOM: Final = LANES_TOP + LANE_HEIGHT * len(ENTITIES)
CURVES_TOP: Final = LANES_BOTTOM + 70
CURVES_HEIGHT: Final = 240
HEIGHT: Final = CURVES_TOP + CURVES_HEIGHT + 44

# Ticks of the axis of time: about so many, and at these distances.
_TICKS: Final = 10
_STEPS_S: Final = (0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1_800, 3_600)

_STATES: Final = ("healthy", "failing", "failed-over")
_STYLE: Final = """\
.healthy { fill: #b7dfc8 } .failing { fill: #f2cf8d } .failed-over { fill: #e39a8f }
.away { fill: #888; opacity: .14 } .edge { stroke: #b3382c; stroke-dasharray: 4 3 }
.ping { fill: #fff; stroke: #444 } .pong, .restored { fill: #1d6b45; stroke: #1d6b45 }
@media (prefers-color-scheme: dark) {
  .healthy { fill: #23503a } .failing { fill: #7a5a1d } .failed-over { fill: #7c3329 }
}"""

_CURVES: Final = ("sent", "diverted", "syphoned", "received")

# Told once in so many seconds.
_SUMMED: Final = frozenset({"diverted", "syphoned"})
_SUM_S: Final = 1.0


class _Axis:
    """Seconds along the width."""

    def __init__(self, start_s: float, end_s: float) -> None:
        self.start_s = start_s
        self.end_s = max(end_s, start_s + 0.1)

    def x(self, at_s: float) -> float:
        within_s = min(max(at_s, self.start_s), self.end_s)
        return LEFT + PLOT_WIDTH * (within_s - self.start_s) / (self.end_s - self.start_s)

    def ticks(self) -> Iterator[float]:
        length_s = self.end_s - self.start_s
        step_s = next((step for step in _STEPS_S if length_s / step <= _TICKS), _STEPS_S[-1])
        # From zero, which is the beginning of the outage, in both directions.
        number = -int(-self.start_s // step_s)
        while number * step_s <= self.end_s:
            yield number * step_s
            number += 1


# Any: the figures as they are printed as JSON.
def draw_drill(figures: dict[str, Any]) -> str:
    """The whole picture as the text of an SVG file."""
    axis = _Axis(figures["started_seconds"], figures["ended_seconds"])
    parts = [
        legend(12, 40, _STATES, _STATES),
        legend(268, 40, ("the outage", "ping", "ping answered, restored"), ("away", "ping", "pong")),
        _outage(figures, axis),
        *(_lane(figures, axis, number, entity) for number, entity in enumerate(ENTITIES)),
        legend(12, CURVES_TOP - 30, _CURVES),
        _grid(figures, axis),
        *(_curve(figures, axis, number, name) for number, name in enumerate(_CURVES)),
    ]
    return document(_title(figures), WIDTH, HEIGHT, parts, _STYLE)


def _title(figures: dict[str, Any]) -> str:
    where = figures["entity"] or "the primary"
    detection = ", duplicates detected" if figures["duplicate_detection"] else ""
    return f"{where}: {figures['fault']} for {figures['outage_seconds']:.1f} s, by {figures['driver']}{detection}"


def _outage(figures: dict[str, Any], axis: _Axis) -> str:
    """Over the lanes and the curves: grey while it lasts, with a line where it begins and where it ends."""
    begin, end = axis.x(0.0), axis.x(figures["outage_seconds"])
    bottom = CURVES_TOP + CURVES_HEIGHT
    return "".join(
        [
            rectangle("away", begin, LANES_TOP - 8, end - begin, bottom - LANES_TOP + 8),
            line("edge", begin, LANES_TOP - 8, begin, bottom),
            line("edge", end, LANES_TOP - 8, end, bottom),
            text(begin + 3, LANES_TOP - 12, figures["fault"], "value"),
            text(end + 3, LANES_TOP - 12, "returns", "value"),
        ]
    )


def _lane(figures: dict[str, Any], axis: _Axis, number: int, entity: str) -> str:
    y = LANES_TOP + LANE_HEIGHT * number
    middle = y + BAND_HEIGHT / 2
    parts = [text(LEFT - 8, middle + 4, entity, anchor="end")]
    for state, start_s, end_s in _bands(figures["states"], entity, axis):
        x = axis.x(start_s)
        told = f"{entity}: {state}, {start_s:.2f} s to {end_s:.2f} s"
        parts.append(rectangle(state, x, y, max(0.5, axis.x(end_s) - x), BAND_HEIGHT, told))
    for event in figures["timeline"]:
        if event["entity"] != entity or event["event"] not in {"ping", "restored"}:
            continue
        is_restored = event["event"] == "restored"
        kind = "restored" if is_restored else "pong" if event["outcome"] == "ok" else "ping"
        told = f"{entity}: {event['event']} {event['outcome'] or ''}, {event['seconds']:.2f} s"
        parts.append(circle(kind, axis.x(event["seconds"]), middle, 5 if is_restored else 2.5, told))
    return "".join(parts)


def _bands(states: Sequence[dict[str, Any]], entity: str, axis: _Axis) -> Iterator[tuple[str, float, float]]:
    """State, beginning and end. An entity is healthy before anything is known of it."""
    changes = [("healthy", axis.start_s)]
    changes += [(one["state"], one["seconds"]) for one in states if one["entity"] == entity]
    ends = [start_s for _, start_s in changes[1:]] + [axis.end_s]
    for (state, start_s), end_s in zip(changes, ends, strict=True):
        yield state, start_s, end_s


def _grid(figures: dict[str, Any], axis: _Axis) -> str:
    top = _top(figures)
    bottom = CURVES_TOP + CURVES_HEIGHT
    parts: list[str] = []
    for quarter in range(5):
        y = bottom - CURVES_HEIGHT * quarter / 4
        parts.append(line("grid" if quarter else "axis", LEFT, y, LEFT + PLOT_WIDTH, y))
        parts.append(text(LEFT - 6, y + 4, short(top * quarter / 4), anchor="end"))
    for tick_s in axis.ticks():
        x = axis.x(tick_s)
        parts.append(line("axis", x, bottom, x, bottom + 4))
        parts.append(text(x, bottom + 17, f"{tick_s:g}", anchor="middle"))
    parts.append(text(LEFT + PLOT_WIDTH, bottom + 34, "seconds since the outage began", anchor="end"))
    return "".join(parts)


def _top(figures: dict[str, Any]) -> float:
    counts = [count for curve in figures["curves"].values() for _, count in curve]
    return round_up(max(counts, default=1))


def _curve(figures: dict[str, Any], axis: _Axis, number: int, name: str) -> str:
    """Between two moments the count stays what it was. What is told as sums has happened in the second before."""
    top = _top(figures)
    rise_s = _SUM_S if name in _SUMMED else 0.0
    points: list[tuple[float, float]] = []
    y = float(CURVES_TOP + CURVES_HEIGHT)
    points.append((LEFT, y))
    for at_s, count in figures["curves"][name]:
        points.append((max(points[-1][0], axis.x(at_s - rise_s)), y))
        x = axis.x(at_s)
        y = CURVES_TOP + CURVES_HEIGHT * (1 - count / top)
        points.append((x, y))
    points.append((LEFT + PLOT_WIDTH, y))
    return polyline(number, points)
