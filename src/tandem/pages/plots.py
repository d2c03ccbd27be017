"""Plots for a page: lines over time, timelines of states, sparklines.

Shapes are SVG that is stretched to the width at hand; words are HTML on top of it, and so keep their size: the same
plot is readable on a phone and on paper. Positions are percentages of the width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from tandem.pages.svg import round_up, short

__all__ = [
    "Axis",
    "Band",
    "Lane",
    "Mark",
    "Span",
    "legend",
    "lines",
    "seconds_axis",
    "sparkline",
    "time_axis",
    "timeline",
]

_MINUS: Final = "\N{MINUS SIGN}"

# Units of the stretched picture.
_WIDTH: Final = 1_000
_HEIGHT: Final = 100

# Points of one line. More are not seen, and make a page of many megabytes of a month of minutes.
MAX_POINTS: Final = 400

# About so many labels fit below a plot on a screen. A phone shows every second one.
_MAX_TICKS: Final = 8
_STEPS_S: Final = (
    *(0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 2_592_000),
)
_MINUTE_S: Final = 60
_DAY_S: Final = 86_400

# Percent of the width. A label nearer to an edge than that would stick out, and is set against the edge instead.
_EDGE: Final = 5.0

# Percent of the width. The unit of a scale takes up so much of a phone, and so does the label of a band.
_UNIT: Final = 25.0

Series = Mapping[str, Sequence[tuple[float, float]]]


class Tick(NamedTuple):
    """A label of an axis, at a percentage of its length."""

    position: float
    label: str


@dataclass(frozen=True)
class Axis:
    """From seconds to percentages of the width."""

    start_s: float
    end_s: float
    ticks: Sequence[Tick]

    def position(self, at_s: float) -> float:
        within_s = min(max(at_s, self.start_s), self.end_s)
        return 100 * (within_s - self.start_s) / (self.end_s - self.start_s)


class Band(NamedTuple):
    """A time that is marked behind the lines, such as an outage. A single one has room for its label."""

    start_s: float
    end_s: float
    label: str = ""


class Span(NamedTuple):
    """A time in which an entity was in a state: the state's class in the stylesheet, and what to say about it."""

    state: str
    start_s: float
    end_s: float
    title: str


class Mark(NamedTuple):
    """A moment on a lane."""

    kind: str
    at_s: float
    title: str


class Lane(NamedTuple):
    """What happened to one entity."""

    name: str
    note: str
    spans: Sequence[Span]
    marks: Sequence[Mark] = ()


# --- axes -----------------------------------------------------------------------------------------------------------


def time_axis(start: datetime, end: datetime) -> Axis:
    """An axis of the time of day, in UTC, or of days if it is longer than that."""
    start_s = start.timestamp()
    # A single moment has a second of its own.
    end_s = max(end.timestamp(), start_s + 1)
    step_s = _step(end_s - start_s)
    first = math.ceil(start_s / step_s)
    moments_s = [number * step_s for number in range(first, int(end_s // step_s) + 1)]
    return _axis(start_s, end_s, [(moment_s, _time_text(moment_s, step_s, end_s - start_s)) for moment_s in moments_s])


def seconds_axis(start_s: float, end_s: float) -> Axis:
    """An axis of seconds before and after zero."""
    end_s = max(end_s, start_s + 0.1)
    step_s = _step(end_s - start_s)
    numbers = range(math.ceil(start_s / step_s), int(end_s // step_s) + 1)
    return _axis(
        start_s, end_s, [(number * step_s, f"{number * step_s:g} s".replace("-", _MINUS)) for number in numbers]
    )


def _axis(start_s: float, end_s: float, labels: Iterable[tuple[float, str]]) -> Axis:
    bare = Axis(start_s, end_s, ())
    return Axis(start_s, end_s, [Tick(bare.position(at_s), label) for at_s, label in labels])


def _step(length_s: float) -> float:
    return next((step_s for step_s in _STEPS_S if length_s / step_s <= _MAX_TICKS), length_s / _MAX_TICKS)


def _time_text(moment_s: float, step_s: float, length_s: float) -> str:
    moment = datetime.fromtimestamp(moment_s, UTC)
    if step_s >= _DAY_S:
        return f"{moment:%b %d}"
    if length_s > _DAY_S:
        return f"{moment:%b %d %H:%M}"
    return f"{moment:%H:%M}" if step_s >= _MINUTE_S else f"{moment:%H:%M:%S}"


# --- plots ----------------------------------------------------------------------------------------------------------


def lines(
    series: Series,
    axis: Axis,
    *,
    label: str,
    unit: str,
    is_stepped: bool = False,
    max_gap_s: float = math.inf,
    bands: Sequence[Band] = (),
) -> str:
    """Draw a line for each series, broken where points are further apart than `max_gap_s`.

    Stepped: a value holds until the next one. `label` is for those who cannot see the plot. The scale stands inside:
    plots below each other share the axis of time over their whole width.
    """
    points = [point for one in series.values() for point in one]
    if not points:
        return ""
    top = round_up(max(value for _, value in points))
    shapes = [_grid()]
    for number, (name, one) in enumerate(series.items()):
        for piece in _pieces(sorted(one, key=_moment), max_gap_s):
            places = [(axis.position(at_s) * 10, _HEIGHT * (1 - value / top)) for at_s, value in _thinned(piece)]
            shapes.append(_line(number, name, _stepped(places) if is_stepped else places, is_filled=len(series) == 1))
    heights = "".join(
        f'<span style="bottom:{25 * quarter}%">{short(top * quarter / 4)}</span>' for quarter in range(1, 4)
    )
    return (
        f'<figure role="img" aria-label="{escape(label)}"><div class="area">'
        f"{''.join(_band(band, axis, len(bands) == 1) for band in bands)}"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">{"".join(shapes)}</svg>'
        f'<div class="y">{heights}<span style="bottom:100%">{short(top)} {escape(unit)}</span></div>'
        f"</div>{_labels(axis)}</figure>"
    )


def timeline(lanes: Sequence[Lane], axis: Axis, *, label: str) -> str:
    """Draw, for each entity, the states that it was in."""
    if not lanes:
        return ""
    drawn = "".join(_lane(lane, axis) for lane in lanes)
    return f'<figure role="img" aria-label="{escape(label)}"><div class="lanes">{drawn}</div>{_labels(axis)}</figure>'


def sparkline(points: Sequence[tuple[float, float]], axis: Axis, *, number: int = 0, is_stepped: bool = False) -> str:
    """Draw a line without axes, as high as a line of text."""
    if not points:
        return ""
    top = max(value for _, value in points) or 1.0
    # A little room above and below: a line has a width.
    places = [
        (axis.position(at_s) * 10, _HEIGHT * (0.94 - 0.88 * value / top))
        for at_s, value in _thinned(sorted(points, key=_moment))
    ]
    shape = _line(number, "", _stepped(places) if is_stepped else places, is_filled=False)
    view = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none"'
    return f'<svg class="sparkline" {view} aria-hidden="true">{shape}</svg>'


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Names behind patches: the class of the patch in the stylesheet, and the name."""
    return "".join(f'<span><i class="{kind}"></i>{escape(name)}</span>' for kind, name in entries)


# --- parts of plots -------------------------------------------------------------------------------------------------


def _moment(point: tuple[float, float]) -> float:
    """What points are sorted by: two values at one moment stay in their order, as a step."""
    return point[0]


def _pieces(points: Sequence[tuple[float, float]], max_gap_s: float) -> Iterable[Sequence[tuple[float, float]]]:
    start = 0
    for at in range(1, len(points)):
        if points[at][0] - points[at - 1][0] > max_gap_s:
            yield points[start:at]
            start = at
    yield points[start:]


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Of each of so many stretches of time the largest value, since a peak must be seen; and how it ended."""
    if len(points) <= MAX_POINTS:
        return points
    size = math.ceil(len(points) / MAX_POINTS)
    peaks = [max(points[at : at + size], key=lambda point: point[1]) for at in range(0, len(points) - 1, size)]
    return [*peaks, points[-1]]


def _stepped(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    stepped: list[tuple[float, float]] = []
    for x, y in places:
        if stepped:
            stepped.append((x, stepped[-1][1]))
        stepped.append((x, y))
    return stepped


def _line(number: int, name: str, places: Sequence[tuple[float, float]], *, is_filled: bool) -> str:
    kind = f"s{number % 4}"
    title = f"<title>{escape(name)}</title>" if name else ""
    if len(places) == 1:
        x, y = places[0]
        # A line of no length with round ends: a dot that stays round when the picture is stretched.
        return f'<path class="{kind} line point" d="M{x:.1f} {y:.1f}h0">{title}</path>'
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    shape = f'<polyline class="{kind} line" points="{joined}">{title}</polyline>'
    if not is_filled:
        return shape
    ground = f"{places[0][0]:.1f},{_HEIGHT} {joined} {places[-1][0]:.1f},{_HEIGHT}"
    return f'<polygon class="{kind} fill" stroke="none" points="{ground}"/>{shape}'


def _grid() -> str:
    heights = [_HEIGHT * quarter / 4 for quarter in range(5)]
    return "".join(f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in heights)


def _band(band: Band, axis: Axis, is_labelled: bool) -> str:
    left, right = axis.position(band.start_s), axis.position(band.end_s)
    # On the left stands the unit of the scale, and on the right the plot ends.
    side = "left" if _UNIT <= left <= 100 - _UNIT else "right"
    words = f'<b style="{side}:0">{escape(band.label)}</b>' if is_labelled and right >= 2 * _UNIT else ""
    return f'<div class="band" style="{_extent(left, right)}">{words}</div>'


def _lane(lane: Lane, axis: Axis) -> str:
    spans = "".join(
        f'<i class="{span.state}" style="{_extent(axis.position(span.start_s), axis.position(span.end_s))}"'
        f' title="{escape(span.title)}"></i>'
        for span in lane.spans
    )
    marks = "".join(
        f'<i class="{mark.kind}" style="left:{axis.position(mark.at_s):.2f}%" title="{escape(mark.title)}"></i>'
        for mark in lane.marks
    )
    head = f'<div><b>{escape(lane.name)}</b><span class="quiet">{escape(lane.note)}</span></div>'
    return f'<div class="lane">{head}<div class="track">{spans}{marks}</div></div>'


def _extent(left: float, right: float) -> str:
    return f"left:{left:.2f}%;width:{max(0.0, right - left):.2f}%"


def _labels(axis: Axis) -> str:
    parts: list[str] = []
    for number, tick in enumerate(axis.ticks):
        edge = "start" if tick.position < _EDGE else "end" if tick.position > 100 - _EDGE else ""
        kinds = " ".join(filter(None, (edge, "wide" if number % 2 else "")))
        named = f' class="{kinds}"' if kinds else ""
        parts.append(f'<span{named} style="left:{tick.position:.2f}%">{escape(tick.label)}</span>')
    return f'<div class="x">{"".join(parts)}</div>'
