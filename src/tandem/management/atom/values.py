"""Values as the service writes them in XML: booleans, numbers, ticks. Times are in tandem.durations."""

from __future__ import annotations

from typing import Final

from tandem.errors import ArgumentError

__all__ = [
    "read_boolean",
    "read_number",
    "ticks_of",
]

# .NET counts in steps of 100 nanoseconds from the year 1.
_TICKS_OF_1970: Final = 621_355_968_000_000_000
_TICKS_PER_MS: Final = 10_000

# Digits. Enough for any 64-bit number; more would cost time that grows with their square.
_MAX_DIGITS: Final = 19


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
