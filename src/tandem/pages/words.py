"""Figures as people read them, with their units written out."""

from __future__ import annotations

from typing import Final

__all__ = ["duration_words", "percent_words", "plural"]

# Between a figure and its unit no line ends.
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"

_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400


def duration_words(seconds: float) -> str:
    """Return a time with its two largest units: `320 ms`, `10.4 s`, `6 min 12 s`, `3 h 5 min`, `2 d 4 h`."""
    return _plain_duration(seconds).replace(" ", _NO_BREAK)


def _plain_duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit_s, unit, part_s, part in ((_DAY_S, "d", _HOUR_S, "h"), (_HOUR_S, "h", _MINUTE_S, "min")):
        if whole >= unit_s:
            return f"{whole // unit_s:,} {unit} {whole % unit_s // part_s} {part}"
    return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"


def percent_words(share: float) -> str:
    """Return a share between 0 and 1 as a percentage. What is not quite all of it is not rounded up to all of it."""
    figure = "100" if share >= 1 else f"{min(share * 100, 99.99):.2f}" if share > 0.99 else f"{share * 100:.1f}"
    return f"{figure}{_NO_BREAK}%"


def plural(count: int, noun: str) -> str:
    """Return `1 outage`, `3 outages`, `2 entities`."""
    several = f"{noun[:-1]}ies" if noun.endswith("ty") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"
