"""Sizes as people write them: `500M`, `10G`, or just a number of bytes."""

from __future__ import annotations

import re
from typing import Final

from tandem.errors import ArgumentError

__all__ = ["NO_BOUND", "parse_size_bytes"]

# What stands for a size without bound.
NO_BOUND: Final = "none"

_SIZE: Final = re.compile(r"([0-9]{1,15})([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS_BYTES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size_bytes(text: str, field: str) -> int | None:
    """Bytes, or None for no bound; units are powers of 1,024. The field is named in the error."""
    stripped = text.strip()
    if stripped.lower() == NO_BOUND:
        return None
    match = _SIZE.fullmatch(stripped)
    if match is None:
        raise ArgumentError(f"{field} is {text!r:.80}; write a size as 500M, 10G, 1T, a number of bytes, or none")
    return int(match[1]) * _UNITS_BYTES[match[2].upper()]
