"""Times as people write them (`30s`, `5m`, `1h30m`) and as the service's own files do (`PT30S`, ISO 8601)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from tandem.errors import ArgumentError
from tandem.limits import MAX_DURATION_CHARACTERS

__all__ = [
    "NEVER",
    "NEVER_DURATION",
    "date_text",
    "duration_text",
    "iso_duration",
    "parse_duration_ms",
    "read_duration_ms",
]

# What stands for a time that never comes.
NEVER: Final = "never"

# Milliseconds. From this on a duration means never: the largest that .NET can hold, 10,675,199 days, and what the
# service's descriptions have for "not set".
_NEVER_FROM_MS: Final = 10_675_199 * 86_400_000

# The same as .NET writes it.
NEVER_DURATION: Final = "P10675199DT2H48M5.4775807S"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Days and what is smaller. Months and years have no fixed length, so that no duration of the service uses them.
_ISO: Final = re.compile(
    r"P(?=\d|T)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)
_PART: Final = re.compile(r"(\d+)(ms|[smhd])")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration_ms(text: str, field: str) -> int | None:
    """Milliseconds, or None for never. The field is named in the error."""
    stripped = text.strip()
    if stripped.lower() == NEVER:
        return None
    value_ms = None
    # ASCII, since \d also matches the digits of other scripts.
    if len(stripped) <= MAX_DURATION_CHARACTERS and stripped.isascii():
        value_ms = _iso_ms(stripped) if stripped[:1] in {"P", "p"} else _short_ms(stripped)
    if value_ms is None:
        raise ArgumentError.of(
            "{field} is {value}; write a time as 30s, 5m, 1h30m, 7d, PT30S or never", field, value=text[:80]
        )
    return None if value_ms >= _NEVER_FROM_MS else value_ms


def _iso_ms(text: str) -> int | None:
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds, fraction = match.groups(default="0")
    # What is below a millisecond is cut off.
    fraction_ms = int(fraction.ljust(3, "0")[:3])
    return (((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000 + fraction_ms


def _short_ms(text: str) -> int | None:
    value_ms = 0
    at = 0
    last_unit_ms: int | None = None
    while match := _PART.match(text, at):
        unit_ms = _UNITS_MS[match[2]]
        # From large to small, each at most once: `5m1h` is a slip of the finger.
        if last_unit_ms is not None and unit_ms >= last_unit_ms:
            return None
        value_ms += int(match[1]) * unit_ms
        last_unit_ms = unit_ms
        at = match.end()
    return value_ms if at == len(text) and at > 0 else None


def duration_text(value_ms: int | None) -> str:
    """As short as it can be read back: 90,000 is `1m30s`, and None is `never`."""
    if value_ms is None:
        return NEVER
    parts: list[str] = []
    rest = value_ms
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


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
        raise ArgumentError.of("{field} is {value}; it must be a duration such as PT1M or P7D", field, value=text[:80])
    return parse_duration_ms(text, field)


def date_text(at_ms: int | None) -> str:
    """With the seven digits of .NET; None is "never"."""
    if at_ms is None:
        return "0001-01-01T00:00:00Z"
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1_000:03}0000Z"
