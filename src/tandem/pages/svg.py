"""Shapes as the text of an SVG picture, and the numbers on its axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from tandem.pages.stylesheet import PICTURE_STYLE

__all__ = ["circle", "document", "legend", "line", "polyline", "rectangle", "round_up", "short", "text"]


def document(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    """Return a whole picture, as a file of its own, in a light and a dark scheme."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    sheet = f'<rect class="sheet" width="{width}" height="{height}"/>'
    named = f"<title>{escape(title)}</title><style>{PICTURE_STYLE}</style>"
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
    return f'<polyline class="s{number % 4} line" points="{joined}"/>'


def legend(x: float, y: float, names: Sequence[str]) -> str:
    """Names side by side, each behind a patch in the colour of its series."""
    parts: list[str] = []
    for number, name in enumerate(names):
        parts += [rectangle(f"bar s{number % 4}", x, y, 9, 9), text(x + 13, y + 8, name)]
        x += 28 + 6.2 * len(name)
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
