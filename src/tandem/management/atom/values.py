"""Values as the service writes them in XML: booleans, numbers, ticks. Times are in tandem.durations."""

from __future__ import annotations

from typing import Final

from tandem.errors import ArgumentError

__all__ = [
    "read_boolean",
    "read_number",
]

# Digits. Enough for any 64-bit number; more would cost time that grows with their square.
_MAX_DIGITS: Final = 19


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
