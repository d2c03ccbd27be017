"""Pictures as SVG, for a page that stands alone: lines over time, bars, and when what was out of order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from tandem.svg import circle, legend, line, polyline, rectangle, round_up, short, text

__all__ = ["Span", "bars", "lines", "shortened", "timeline"]

WIDTH: Final = 860
LEFT: Final = 64
RIGHT: Final = 16
PLOT_WIDTH: Final = WIDTH - LEFT - RIGHT
PLOT_HEIGHT: Final = 180
TOP: Final = 28
BAR_HEIGHT: Final = 22
LABEL_WIDTH: Final = 260
LEGEND_LETTERS: Final = 24


class Span(NamedTuple):
    """A time in which something was the case."""

    start: datetime
    end: datetime
    kind: int
    told: str


def lines(series: Mapping[str, Sequence[tuple[datetime, float]]], *, is_stepped: bool = False) -> str:
    """A line for each series over time. Stepped: a value holds until the next one."""
    points = [point for one in series.values() for point in one]
    if not points:
        return ""
    scale = _Scale(min(moment for moment, _ in points), max(moment for moment, _ in points))
    top = round_up(max(value for _, value in points))
    parts = [_legend(list(series)), _grid(top), _times(scale, TOP + PLOT_HEIGHT)]
    for number, one in enumerate(series.values()):
        places: list[tuple[float, float]] = []
        for moment, value in sorted(one):
            x, y = scale.x(moment), TOP + PLOT_HEIGHT * (1 - value / top)
            if is_stepped and places:
                places.append((x, places[-1][1]))
            places.append((x, y))
        parts.append(polyline(number, places))
        if len(one) == 1:
            parts.append(circle(f"bar s{number % 4}", *places[0], 3))
    return _svg(TOP + PLOT_HEIGHT + 24, parts)


def bars(values: Sequence[tuple[str, float, str]]) -> str:
    """A bar for each label, with a text behind it."""
    if not values:
        return ""
    top = max(value for _, value, _ in values) or 1.0
    parts: list[str] = []
    for number, (label, value, told) in enumerate(values):
        y = number * BAR_HEIGHT
        width = (WIDTH - LABEL_WIDTH - 120) * value / top
        parts.append(text(LABEL_WIDTH - 8, y + 15, label, anchor="end"))
        parts.append(rectangle("bar s0", LABEL_WIDTH, y + 4, max(1.0, width), 14))
        parts.append(text(LABEL_WIDTH + width + 6, y + 15, told))
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
        parts.append(text(LEFT, y + 9, label))
        for span in one:
            x = scale.x(span.start)
            width = max(2.0, scale.x(span.end) - x)
            parts.append(rectangle(f"bar s{span.kind % 4}", x, y + 13, width, 14, span.told))
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
    return legend(LEFT, 4, [shortened(name) for name in names], end=WIDTH)


def _grid(top: float) -> str:
    parts: list[str] = []
    for quarter in range(5):
        y = TOP + PLOT_HEIGHT * (1 - quarter / 4)
        parts.append(line("grid", LEFT, y, LEFT + PLOT_WIDTH, y))
        parts.append(text(LEFT - 6, y + 4, short(top * quarter / 4), anchor="end"))
    return "".join(parts)


def _times(scale: _Scale, y: float) -> str:
    anchors = ("start", "middle", "middle", "middle", "end")
    marks = zip(scale.marks(), anchors, strict=True)
    return "".join(text(x, y + 16, told, anchor=anchor) for (x, told), anchor in marks)
