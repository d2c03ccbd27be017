"""Values as the service writes them in XML: durations, dates, booleans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from tandem.errors import ArgumentError
from tandem.management.durations import parse_duration_ms

__all__ = [
    "NEVER_DURATION",
    "date_text",
    "iso_duration",
    "read_boolean",
    "read_duration_ms",
    "read_number",
    "ticks_of",
]

# .NET's largest TimeSpan: "not set".
NEVER_DURATION: Final = "P10675199DT2H48M5.4775807S"

# .NET counts in steps of 100 nanoseconds from the year 1.
_TICKS_OF_1970: Final = 621_355_968_000_000_000
_TICKS_PER_MS: Final = 10_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Milliseconds. As long as that, to the day, is as good as for ever.
_NEVER_FROM_MS: Final = 10_675_199 * 86_400_000

# Digits. Enough for any 64-bit number; more would cost time that grows with their square.
_MAX_DIGITS: Final = 19


def iso_duration(value_ms: int | None) -> str:
    """ISO 8601 as .NET writes it: days and below, no part that is zero."""
    if value_ms is None or value_ms >= _NEVER_FROM_MS:
        return NEVER_DURATION
    days, rest = divmod(value_ms, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, milliseconds = divmod(rest, 1_000)
    date = f"{days}D" if days else ""
    fraction = f".{milliseconds:03}".rstrip("0") if milliseconds else ""
    time = (
        (f"{hours}H" if hours else "")
        + (f"{minutes}M" if minutes else "")
        + (f"{seconds}{fraction}S" if seconds or fraction else "")
    )
    return f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"


def read_duration_ms(text: str, field: str) -> int | None:
    """Milliseconds, or None for never."""
    if not text.startswith("P"):
        raise ArgumentError(f"{field} is {text!r:.80}; it must be a duration such as PT1M or P7D")
    return parse_duration_ms(text, field)


def date_text(at_ms: int | None) -> str:
    """With the seven digits of .NET; None is "never"."""
    if at_ms is None:
        return "0001-01-01T00:00:00Z"
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1_000:03}0000Z"


def ticks_of(at_ms: int) -> int:
    return _TICKS_OF_1970 + at_ms * _TICKS_PER_MS


def read_boolean(text: str, field: str) -> bool:
    folded = text.lower()
    if folded in {"true", "1"}:
        return True
    if folded in {"false", "0"}:
        return False
    raise ArgumentError(f"{field} is {text!r:.80}; it must be true or false")


def read_number(text: str, field: str) -> int:
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS:
        return int(text)
    raise ArgumentError(f"{field} is {text!r:.80}; it must be a whole number")
