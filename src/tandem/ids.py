"""Random numbers that are handed in, so that a simulation can choose them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Nonces"]

_NONCE_BYTES: Final = 8

# Where each byte of .NET's order comes from: the first three groups of a GUID, of 4, 2 and 2 bytes, are reversed.
_REVERSED_GROUPS: Final = (3, 2, 1, 0, 5, 4, 7, 6)


class Nonces:
    """Eight bytes that nobody can guess, from a source of random bytes that is asked for many at a time."""

    __slots__ = ("_at", "_bytes", "_refill", "_reversed")

    def __init__(self, refill: Callable[[], bytes]) -> None:
        self._refill = refill
        self._bytes = b""
        self._reversed = b""
        self._at = 0

    def next(self) -> bytes:
        at = self._take()
        return self._bytes[at : at + _NONCE_BYTES]

    def next_pair(self) -> tuple[bytes, bytes]:
        """As the first half of a GUID in the order of RFC 4122, and the same half in .NET's."""
        at = self._take()
        return self._bytes[at : at + _NONCE_BYTES], self._reversed[at : at + _NONCE_BYTES]

    def _take(self) -> int:
        at = self._at
        if at >= len(self._bytes):
            self._fill()
            at = 0
        self._at = at + _NONCE_BYTES
        return at

    def _fill(self) -> None:
        """All are reversed together: one by one, that took longer than everything else about a lock."""
        self._bytes = self._refill()
        turned = bytearray(len(self._bytes))
        for to, origin in enumerate(_REVERSED_GROUPS):
            turned[to::_NONCE_BYTES] = self._bytes[origin::_NONCE_BYTES]
        self._reversed = bytes(turned)
