"""From a partition key to a partition, as the service does it, so that keys stay where clients expect them.

The hash is Bob Jenkins' lookup3 (in the public domain), in the variant that yields two words at once; the service takes
16 bits of what both have in common, as a signed number, and the remainder of a division that truncates.
"""

from __future__ import annotations

from typing import Final

__all__ = ["hash_of", "partition_of"]

_MASK: Final = 0xFFFF_FFFF
_SEED: Final = 0xDEAD_BEEF


def partition_of(partition_key: str, partition_count: int) -> int:
    return abs(hash_of(partition_key)) % partition_count


def hash_of(partition_key: str) -> int:
    """A signed number of 16 bits."""
    first, second = _lookup3(partition_key.encode())
    number = (first ^ second) & 0xFFFF
    return number - 0x1_0000 if number & 0x8000 else number


def _rotated(word: int, by: int) -> int:
    return ((word << by) | (word >> (32 - by))) & _MASK


def _lookup3(octets: bytes) -> tuple[int, int]:
    a = b = c = (_SEED + len(octets)) & _MASK
    at = 0
    while len(octets) - at > 12:
        a = (a + int.from_bytes(octets[at : at + 4], "little")) & _MASK
        b = (b + int.from_bytes(octets[at + 4 : at + 8], "little")) & _MASK
        c = (c + int.from_bytes(octets[at + 8 : at + 12], "little")) & _MASK
        a, b, c = _mixed(a, b, c)
        at += 12
    rest = octets[at:]
    if not rest:
        return c, b
    # Octets that are missing count as zeros.
    a = (a + int.from_bytes(rest[:4], "little")) & _MASK
    b = (b + int.from_bytes(rest[4:8], "little")) & _MASK
    c = (c + int.from_bytes(rest[8:12], "little")) & _MASK
    return _finished(a, b, c)


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = ((a - c) & _MASK) ^ _rotated(c, 4)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rotated(a, 6)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rotated(b, 8)
    b = (b + a) & _MASK
    a = ((a - c) & _MASK) ^ _rotated(c, 16)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rotated(a, 19)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rotated(b, 4)
    b = (b + a) & _MASK
    return a, b, c


def _finished(a: int, b: int, c: int) -> tuple[int, int]:
    c = ((c ^ b) - _rotated(b, 14)) & _MASK
    a = ((a ^ c) - _rotated(c, 11)) & _MASK
    b = ((b ^ a) - _rotated(a, 25)) & _MASK
    c = ((c ^ b) - _rotated(b, 16)) & _MASK
    a = ((a ^ c) - _rotated(c, 4)) & _MASK
    b = ((b ^ a) - _rotated(a, 14)) & _MASK
    c = ((c ^ b) - _rotated(b, 24)) & _MASK
    return c, b
