"""Pictures as SVG, for a page that stands alone: lines over time, bars, and when what was out of order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from tandem.svg import short

__all__ = ["Span", "bars", "lines", "shortened", "timeline"]

WIDTH: Final = 860
LEFT: Final = 64
RIGHT: Final = 16
PLOT_WIDTH: Final = WIDTH - LEFT - RIGHT
PLOT_HEIGHT: Final = 180
TOP: Final = 28
BAR_HEIGHT: Final = 22
LABEL_WIDTH: Final = 260
COLOURS: Final = 4
LEGEND_LETTERS: Final = 24


class Span(NamedTuple):
    """A time in which something was the case."""

    start: datetime
    end: datetime
    kind: int
    text: str


def lines(series: Mapping[str, Sequence[tuple[datetime, float]]], *, is_stepped: bool = False) -> str:
    """A line for each series over time. Stepped: a value holds until the next one."""
    points = [point for one in series.values() for point in one]
    if not points:
        return ""
    scale = _Scale(min(moment for moment, _ in points), max(moment for moment, _ in points))
    top = _round_up(max(value for _, value in points))
    parts = [_legend(list(series)), _grid(top), _times(scale, TOP + PLOT_HEIGHT)]
    for number, one in enumerate(series.values()):
        places: list[tuple[float, float]] = []
        for moment, value in sorted(one):
            x, y = scale.x(moment), TOP + PLOT_HEIGHT * (1 - value / top)
            if is_stepped and places:
                places.append((x, places[-1][1]))
            places.append((x, y))
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline class="line c{number % COLOURS}" points="{path}"/>')
        if len(one) == 1:
            parts.append(
                f'<circle class="dot c{number % COLOURS}" cx="{places[0][0]:.1f}" cy="{places[0][1]:.1f}" r="3"/>'
            )
    return _svg(TOP + PLOT_HEIGHT + 24, parts)


def bars(values: Sequence[tuple[str, float, str]]) -> str:
    """A bar for each label, with a text behind it."""
    if not values:
        return ""
    top = max(value for _, value, _ in values) or 1.0
    parts: list[str] = []
    for number, (label, value, text) in enumerate(values):
        y = number * BAR_HEIGHT
        width = (WIDTH - LABEL_WIDTH - 120) * value / top
        parts.append(_text(LABEL_WIDTH - 8, y + 15, label, "end"))
        parts.append(f'<rect class="dot c0" x="{LABEL_WIDTH}" y="{y + 4}" width="{max(1.0, width):.1f}" height="14"/>')
        parts.append(_text(LABEL_WIDTH + width + 6, y + 15, text))
    return _svg(len(values) * BAR_HEIGHT + 4, parts)


def timeline(rows: Mapping[str, Sequence[Span]], kinds: Sequence[str]) -> str:
    """For each label, the times in which it was in one of the kinds of states."""
    spans = [span for one in rows.values() for span in one]
    if not spans:
        return ""
    scale = _Scale(min(span.start for span in spans), max(span.end for span in spans))
    parts = [_legend(kinds)]
    for number, (label, one) in enumerate(rows.items()):
        y = TOP + number * (BAR_HEIGHT + 12)
        parts.append(_text(LEFT, y + 9, label))
        for span in one:
            x = scale.x(span.start)
            width = max(2.0, scale.x(span.end) - x)
            parts.append(
                f'<rect class="dot c{span.kind % COLOURS}" x="{x:.1f}" y="{y + 13}" width="{width:.1f}" height="14">'
                f"<title>{escape(span.text)}</title></rect>"
            )
    bottom = TOP + len(rows) * (BAR_HEIGHT + 12)
    parts.append(_times(scale, bottom))
    return _svg(bottom + 24, parts)


class _Scale:
    """From moments to places on the axis."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self._start_s = _unix_s(start)
        # A single moment has a second of its own.
        self._length_s = max(1.0, _unix_s(end) - self._start_s)

    def x(self, moment: datetime) -> float:
        return LEFT + PLOT_WIDTH * (_unix_s(moment) - self._start_s) / self._length_s

    def marks(self) -> list[tuple[float, str]]:
        pattern = "%H:%M:%S" if self._length_s < 86_400 else "%m-%d %H:%M"
        marks: list[tuple[float, str]] = []
        for quarter in range(5):
            moment = datetime.fromtimestamp(self._start_s + self._length_s * quarter / 4, UTC)
            marks.append((LEFT + PLOT_WIDTH * quarter / 4, moment.strftime(pattern)))
        return marks


def _unix_s(moment: datetime) -> float:
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'


def shortened(name: str, length: int = LEGEND_LETTERS) -> str:
    """Its beginning and its end, which tells queues apart."""
    return name if len(name) <= length else f"{name[: length // 2 - 2]}…{name[-(length - length // 2) :]}"


def _legend(names: Sequence[str]) -> str:
    """Side by side, as far as there is room."""
    parts: list[str] = []
    x = float(LEFT)
    for number, name in enumerate(map(shortened, names)):
        width = 32 + 6.5 * len(name)
        if x + width > WIDTH:
            parts.append(_text(x, 13, f"and {len(names) - number} more"))
            break
        parts.append(f'<rect class="dot c{number % COLOURS}" x="{x:.0f}" y="4" width="10" height="10"/>')
        parts.append(_text(x + 14, 13, name))
        x += width
    return "".join(parts)


def _grid(top: float) -> str:
    parts: list[str] = []
    for quarter in range(5):
        y = TOP + PLOT_HEIGHT * (1 - quarter / 4)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + PLOT_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 6, y + 4, short(top * quarter / 4), "end"))
    return "".join(parts)


def _times(scale: _Scale, y: float) -> str:
    anchors = ("start", "middle", "middle", "middle", "end")
    marks = zip(scale.marks(), anchors, strict=True)
    return "".join(_text(x, y + 16, text, anchor) for (x, text), anchor in marks)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _round_up(value: float) -> float:
    """The top of an axis: a round number at or above the largest value."""
    if value <= 0:
        return 1.0
    power: float = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value * 0.999_999)
