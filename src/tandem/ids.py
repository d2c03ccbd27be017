"""Random numbers that are handed in, so that a simulation can choose them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["Nonces"]

_NONCE_BYTES: Final = 8


class Nonces:
    """Eight bytes that nobody can guess, from a source of random bytes that is asked for many at a time."""

    __slots__ = ("_at", "_bytes", "_refill")

    def __init__(self, refill: Callable[[], bytes]) -> None:
        self._refill = refill
        self._bytes = b""
        self._at = 0

    def next(self) -> bytes:
        at = self._at
        if at >= len(self._bytes):
            self._bytes = self._refill()
            at = 0
        self._at = at + _NONCE_BYTES
        return self._bytes[at : at + _NONCE_BYTES]
