"""Figures as one small SVG: panels of grouped bars and of lines, side by side, in a light and a dark scheme."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tandem.pages.svg import circle, document, legend, line, polyline, rectangle, round_up, short, text

__all__ = ["Bars", "Lines", "draw"]

PANEL_WIDTH: Final = 380
PANEL_HEIGHT: Final = 250
PANELS_PER_ROW: Final = 2
LEFT: Final = 56
TOP: Final = 52
PLOT_WIDTH: Final = PANEL_WIDTH - LEFT - 16
PLOT_HEIGHT: Final = PANEL_HEIGHT - TOP - 34
LABEL_HEIGHT: Final = 12


@dataclass(frozen=True)
class Bars:
    """Groups along the axis, in each a bar per series."""

    title: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True)
class Lines:
    """A line per series over values that are spaced by their order, as powers of ten want it."""

    title: str
    positions: Sequence[float]
    series: Mapping[str, Sequence[float]]


def draw(title: str, panels: Sequence[Bars | Lines]) -> str:
    """The whole picture as the text of an SVG file."""
    rows = math.ceil(len(panels) / PANELS_PER_ROW)
    width = PANEL_WIDTH * min(len(panels), PANELS_PER_ROW)
    height = PANEL_HEIGHT * rows + 34
    parts: list[str] = []
    for number, panel in enumerate(panels):
        x = PANEL_WIDTH * (number % PANELS_PER_ROW)
        y = PANEL_HEIGHT * (number // PANELS_PER_ROW) + 30
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel)}</g>')
    return document(title, width, height, parts)


def _panel(panel: Bars | Lines) -> str:
    values = [value for series in panel.series.values() for value in series if value is not None]
    top = round_up(max(values, default=1.0))
    parts = [text(12, 18, panel.title, "title"), legend(12, 28, list(panel.series)), _grid(top)]
    parts.append(_bars(panel, top) if isinstance(panel, Bars) else _lines(panel, top))
    return "".join(parts)


def _grid(top: float) -> str:
    parts: list[str] = []
    for quarter in range(5):
        y = TOP + PLOT_HEIGHT * (1 - quarter / 4)
        parts.append(line("grid" if quarter else "axis", LEFT, y, LEFT + PLOT_WIDTH, y))
        parts.append(text(LEFT - 6, y + 4, short(top * quarter / 4), anchor="end"))
    return "".join(parts)


def _bars(panel: Bars, top: float) -> str:
    parts: list[str] = []
    group_width = PLOT_WIDTH / len(panel.groups)
    bar_width = group_width * 0.8 / len(panel.series)
    for group, name in enumerate(panel.groups):
        parts.append(text(LEFT + group_width * (group + 0.5), TOP + PLOT_HEIGHT + 16, name, anchor="middle"))
        for number, values in enumerate(panel.series.values()):
            value = values[group]
            if value is None:
                continue
            height = PLOT_HEIGHT * value / top
            x = LEFT + group_width * (group + 0.1) + bar_width * number
            y = TOP + PLOT_HEIGHT - height
            parts.append(rectangle(f"bar s{number % 4}", x, y, bar_width * 0.9, height, short(value)))
            parts.append(text(x + bar_width * 0.45, y - 3, short(value), "value", "middle"))
    return "".join(parts)


def _lines(panel: Lines, top: float) -> str:
    parts: list[str] = []
    step = PLOT_WIDTH / max(1, len(panel.positions))
    xs = [LEFT + step * (number + 0.5) for number in range(len(panel.positions))]
    for x, position in zip(xs, panel.positions, strict=True):
        parts.append(text(x, TOP + PLOT_HEIGHT + 16, short(position), anchor="middle"))
    labelled: list[tuple[float, float]] = []
    for number, values in enumerate(panel.series.values()):
        ys = [TOP + PLOT_HEIGHT * (1 - value / top) for value in values]
        parts.append(polyline(number, zip(xs, ys, strict=True)))
        for x, y, value in zip(xs, ys, values, strict=True):
            parts.append(circle(f"bar s{number % 4}", x, y, 3))
            # Where lines lie on each other, the label of the first one speaks for all.
            if all(x != other_x or abs(y - other_y) > LABEL_HEIGHT for other_x, other_y in labelled):
                parts.append(text(x, y - 7, short(value), "value", "middle"))
                labelled.append((x, y))
    return "".join(parts)
