"""The colours of every page and picture, by name, for light and for dark displays.

Text colours (`ink`, `ink-2`, `ink-3`, `accent`, `ok`, `warn`, `bad`) reach the contrast of WCAG AA, 4.5 to 1, on every
`paper` and on their own soft background. Colours of series reach the 3 to 1 that AA asks of graphics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["DARK", "LIGHT", "SERIES"]

LIGHT: Final[Mapping[str, str]] = {
    "ink": "#17202a",
    "ink-2": "#52606d",
    "ink-3": "#5f6c79",
    "paper": "#ffffff",
    "paper-2": "#f6f8fa",
    "paper-3": "#eceff3",
    "line": "#dde3e9",
    "accent": "#0b756d",
    "accent-soft": "#e0f2f0",
    "ok": "#157347",
    "ok-soft": "#e3f4ea",
    "ok-band": "#a9d8be",
    "warn": "#8a5a00",
    "warn-soft": "#fdf3d8",
    "warn-band": "#eeb83e",
    "bad": "#b9342a",
    "bad-soft": "#fdeceb",
    "bad-band": "#d9534a",
    "first": "#0b756d",
    "second": "#5b5bd6",
    "third": "#b0488e",
    "fourth": "#64809b",
}

DARK: Final[Mapping[str, str]] = {
    "ink": "#e6ebf0",
    "ink-2": "#a3b0bd",
    "ink-3": "#8d9aa8",
    "paper": "#12181f",
    "paper-2": "#0d1217",
    "paper-3": "#1b232c",
    "line": "#26313c",
    "accent": "#3fc6b9",
    "accent-soft": "#12312f",
    "ok": "#4cc38a",
    "ok-soft": "#10291d",
    "ok-band": "#1f5a3d",
    "warn": "#e2b340",
    "warn-soft": "#332a10",
    "warn-band": "#b98a1d",
    "bad": "#f2766b",
    "bad-soft": "#3a1a18",
    "bad-band": "#c4483e",
    "first": "#3fc6b9",
    "second": "#9e9bf5",
    "third": "#e58cc4",
    "fourth": "#8aa6c1",
}

# The colours of series, in the order in which they are given out.
SERIES: Final = ("first", "second", "third", "fourth")
