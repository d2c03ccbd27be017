"""Inputs made from a corpus by random changes: the fuzzing engine that needs nothing installed.

It sees no coverage and so finds less per input than atheris; its inputs depend on the seed alone, so that they can be
made again anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

__all__ = ["TOKENS", "Mutator"]

# What inputs are made of: constructors, descriptors, and sizes and counts that lie.
TOKENS: Final = (
    *[bytes((code,)) for code in (0x00, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x7F, 0x80, 0xFF)],
    *[bytes((code, 1)) for code in (0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0xA0, 0xA1, 0xA3)],
    *[bytes((code, 0, 0, 0, 1)) for code in (0x70, 0x71, 0x72, 0x73, 0x74, 0xB0, 0xB1, 0xB3)],
    *[bytes((code, 1, 0)) for code in (0xC0, 0xC1, 0xE0)],
    *[bytes((code, 0, 0, 0, 4, 0, 0, 0, 0)) for code in (0xD0, 0xD1, 0xF0)],
    *[bytes((0x00, 0x53, code)) for code in (*range(0x10, 0x19), 0x1D, *range(0x23, 0x31), 0x33, 0x34)],
    *[bytes((0x00, 0x53, code)) for code in (0x40, 0x41, 0x44, *range(0x70, 0x79))],
    *[bytes((0x00, 0x00, 0x00, size, 0x02, kind, 0x00, 0x00)) for size in (8, 9, 32) for kind in (0, 1)],
    b"\x00\xa3\x13amqp:transfer:list",
    b"\x00\xa3\x12amqp:accepted:list",
    b"AMQP\x00\x01\x00\x00",
    b"AMQP\x03\x01\x00\x00",
    b"\x00\x01\x00\x00",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
)

_MAX_CHANGES: Final = 6


class Mutator:
    """An endless row of inputs, each one changed from one or two of the corpus."""

    def __init__(self, corpus: list[bytes], seed: int, max_bytes: int) -> None:
        self.corpus = corpus or [b""]
        self.random = random.Random(seed)
        self.max_bytes = max_bytes
        self.changes: tuple[Callable[[bytearray], None], ...] = (
            self._flip_bit,
            self._set_byte,
            self._step_byte,
            self._insert_token,
            self._overwrite_with_token,
            self._delete,
            self._repeat,
            self._cross,
        )

    def next(self) -> bytes:
        if self.random.random() < 0.02:
            return self.random.randbytes(self.random.randrange(64))
        data = bytearray(self.random.choice(self.corpus))
        for _ in range(self.random.randint(1, _MAX_CHANGES)):
            self.random.choice(self.changes)(data)
        return bytes(data[: self.max_bytes])

    def _place(self, data: bytearray) -> int:
        return self.random.randrange(len(data) + 1)

    def _flip_bit(self, data: bytearray) -> None:
        if data:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)

    def _set_byte(self, data: bytearray) -> None:
        if data:
            data[self.random.randrange(len(data))] = self.random.randrange(256)

    def _step_byte(self, data: bytearray) -> None:
        """Sizes and counts that are wrong by one or two."""
        if data:
            place = self.random.randrange(len(data))
            data[place] = (data[place] + self.random.choice((-2, -1, 1, 2))) & 0xFF

    def _insert_token(self, data: bytearray) -> None:
        place = self._place(data)
        data[place:place] = self.random.choice(TOKENS)

    def _overwrite_with_token(self, data: bytearray) -> None:
        place = self._place(data)
        token = self.random.choice(TOKENS)
        data[place : place + len(token)] = token

    def _delete(self, data: bytearray) -> None:
        place = self._place(data)
        del data[place : place + self.random.choice((1, 1, 2, 4, 8, 64))]

    def _repeat(self, data: bytearray) -> None:
        """A piece once more, or many times more: that is how depth and length come about."""
        place = self._place(data)
        piece = data[place : place + self.random.choice((1, 2, 3, 8, 32))]
        data[place:place] = piece * self.random.choice((1, 1, 2, 8, 40))

    def _cross(self, data: bytearray) -> None:
        """The beginning of this one and the end of another."""
        other = self.random.choice(self.corpus)
        data[self._place(data) :] = other[self.random.randrange(len(other) + 1) :]
