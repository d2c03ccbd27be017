"""Shapes as the text of an SVG picture, in a light and a dark scheme, and the numbers on its axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final
from xml.sax.saxutils import escape

__all__ = ["circle", "document", "legend", "line", "polyline", "rectangle", "round_up", "short", "text"]

# The classes of shapes: s0 to s3 are the colours of series, as areas and as lines.
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


def document(title: str, width: int, height: int, parts: Iterable[str], style: str = "") -> str:
    """The whole picture. `style` adds classes to those that are there."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    styles = f"{_STYLE}\n{style}" if style else _STYLE
    sheet = f'<rect class="sheet" width="{width}" height="{height}" fill="#fff"/>'
    named = f"<title>{escape(title)}</title><style>{styles}</style>"
    return "\n".join([head, named, sheet, text(12, 22, title, "title"), *parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def rectangle(kind: str, x: float, y: float, width: float, height: float, told: str = "") -> str:
    """`told` is shown where the pointer rests on it."""
    shape = f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f"{shape}><title>{escape(told)}</title></rect>" if told else f"{shape}/>"


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def circle(kind: str, x: float, y: float, radius: float, told: str = "") -> str:
    shape = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"'
    return f"{shape}><title>{escape(told)}</title></circle>" if told else f"{shape}/>"


def polyline(number: int, points: Iterable[tuple[float, float]]) -> str:
    """In the colour of the series with this number."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    # The class of the series also fills; a line must not.
    return f'<polyline class="s{number % 4} line" style="fill:none" points="{joined}"/>'


def legend(x: float, y: float, names: Sequence[str], kinds: Sequence[str] | None = None, end: float = math.inf) -> str:
    """Names side by side, each behind a patch in the colour of its series, or of the class that is given for it; as
    many as there is room for before the `end`."""
    parts: list[str] = []
    for number, name in enumerate(names):
        kind = f"s{number % 4}" if kinds is None else kinds[number]
        width = 28 + 6.2 * len(name)
        if x + width > end:
            parts.append(text(x, y + 8, f"and {len(names) - number} more"))
            break
        parts += [rectangle(f"bar {kind}", x, y, 9, 9), text(x + 13, y + 8, name)]
        x += width
    return "".join(parts)


def round_up(value: float) -> float:
    """The top of an axis: a round number a little above the largest value, so that its label has room."""
    value = max(value * 1.08, 1e-9)
    power: float = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * power >= value)


def short(value: float) -> str:
    """A number in as few characters as a label has room for."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M" if value % 100_000 == 0 else f"{value / 1_000_000:.1f}M"
    if value >= 10_000:
        return f"{value / 1_000:.0f}k"
    if value >= 1_000:
        return f"{value / 1_000:g}k" if value % 100 == 0 else f"{value / 1_000:.1f}k"
    if value >= 10:
        return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:.2g}" if value else "0"
