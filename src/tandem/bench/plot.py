"""Figures as one small SVG: panels of grouped bars and of lines, side by side, in a light and a dark scheme."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

__all__ = ["Bars", "Lines", "draw"]

PANEL_WIDTH: Final = 380
PANEL_HEIGHT: Final = 250
PANELS_PER_ROW: Final = 2
LEFT: Final = 56
TOP: Final = 52
PLOT_WIDTH: Final = PANEL_WIDTH - LEFT - 16
PLOT_HEIGHT: Final = PANEL_HEIGHT - TOP - 34
LABEL_HEIGHT: Final = 12

_STYLE: Final = """\
text { font: 11px system-ui, sans-serif; fill: #444 }
.value { font-size: 9px }
.title { font-size: 13px; font-weight: 600; fill: #111 }
.grid { stroke: #ddd } .axis { stroke: #888 }
.s0 { fill: #2563a8; stroke: #2563a8 } .s1 { fill: #d9822b; stroke: #d9822b }
.s2 { fill: #8a8f98; stroke: #8a8f98 } .s3 { fill: #3a9d6e; stroke: #3a9d6e }
.line { fill: none; stroke-width: 2 } .bar { stroke: none }
@media (prefers-color-scheme: dark) {
  .sheet { fill: #16181d } text { fill: #b8bcc4 } .title { fill: #f0f0f0 } .grid { stroke: #333 }
}"""


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
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="sheet" width="{width}" height="{height}" fill="#fff"/>',
        _text(12, 22, title, "title"),
    ]
    for number, panel in enumerate(panels):
        x = PANEL_WIDTH * (number % PANELS_PER_ROW)
        y = PANEL_HEIGHT * (number // PANELS_PER_ROW) + 30
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel)}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Bars | Lines) -> str:
    values = [value for series in panel.series.values() for value in series if value is not None]
    top = _round_up(max(values, default=1.0))
    parts = [_text(12, 18, panel.title, "title"), _legend(list(panel.series)), _grid(top)]
    parts.append(_bars(panel, top) if isinstance(panel, Bars) else _lines(panel, top))
    return "".join(parts)


def _legend(names: Sequence[str]) -> str:
    parts: list[str] = []
    x = 12.0
    for number, name in enumerate(names):
        parts.append(f'<rect class="bar s{number % 4}" x="{x:.0f}" y="28" width="9" height="9"/>')
        parts.append(_text(x + 13, 36, name))
        x += 28 + 6.2 * len(name)
    return "".join(parts)


def _grid(top: float) -> str:
    parts: list[str] = []
    for quarter in range(5):
        y = TOP + PLOT_HEIGHT * (1 - quarter / 4)
        kind = "grid" if quarter else "axis"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{LEFT + PLOT_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 6, y + 4, _short(top * quarter / 4), anchor="end"))
    return "".join(parts)


def _bars(panel: Bars, top: float) -> str:
    parts: list[str] = []
    group_width = PLOT_WIDTH / len(panel.groups)
    bar_width = group_width * 0.8 / len(panel.series)
    for group, name in enumerate(panel.groups):
        parts.append(_text(LEFT + group_width * (group + 0.5), TOP + PLOT_HEIGHT + 16, name, anchor="middle"))
        for number, values in enumerate(panel.series.values()):
            value = values[group]
            if value is None:
                continue
            height = PLOT_HEIGHT * value / top
            x = LEFT + group_width * (group + 0.1) + bar_width * number
            y = TOP + PLOT_HEIGHT - height
            parts.append(
                f'<rect class="bar s{number % 4}" x="{x:.1f}" y="{y:.1f}" width="{bar_width * 0.9:.1f}" '
                f'height="{height:.1f}"><title>{_short(value)}</title></rect>'
            )
            parts.append(_text(x + bar_width * 0.45, y - 3, _short(value), "value", "middle"))
    return "".join(parts)


def _lines(panel: Lines, top: float) -> str:
    parts: list[str] = []
    step = PLOT_WIDTH / max(1, len(panel.positions))
    xs = [LEFT + step * (number + 0.5) for number in range(len(panel.positions))]
    for x, position in zip(xs, panel.positions, strict=True):
        parts.append(_text(x, TOP + PLOT_HEIGHT + 16, _short(position), anchor="middle"))
    labelled: list[tuple[float, float]] = []
    for number, values in enumerate(panel.series.values()):
        ys = [TOP + PLOT_HEIGHT * (1 - value / top) for value in values]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
        # The class of the series also fills; a line must not.
        parts.append(f'<polyline class="s{number % 4} line" style="fill:none" points="{points}"/>')
        for x, y, value in zip(xs, ys, values, strict=True):
            parts.append(f'<circle class="bar s{number % 4}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
            # Where lines lie on each other, the label of the first one speaks for all.
            if all(x != other_x or abs(y - other_y) > LABEL_HEIGHT for other_x, other_y in labelled):
                parts.append(_text(x, y - 7, _short(value), "value", "middle"))
                labelled.append((x, y))
    return "".join(parts)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _round_up(value: float) -> float:
    """The top of an axis: a round number a little above the largest value, so that its label has room."""
    value = max(value * 1.08, 1e-9)
    power: float = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * power >= value)


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M" if value % 100_000 == 0 else f"{value / 1_000_000:.1f}M"
    if value >= 10_000:
        return f"{value / 1_000:.0f}k"
    if value >= 1_000:
        return f"{value / 1_000:g}k" if value % 100 == 0 else f"{value / 1_000:.1f}k"
    if value >= 10:
        return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:.2g}" if value else "0"
