"""Bytes read as choices: what makes a program of a fuzzer's input, with or without the fuzzer at hand."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, TypeVar

from tandem.amqp.types import (
    BYTE_TYPE,
    LIST_TYPE,
    LONG_TYPE,
    NULL_TYPE,
    SYMBOL_TYPE,
    UINT_TYPE,
    UUID_TYPE,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

__all__ = ["Reader"]

_Item = TypeVar("_Item")

# Where counters wrap, sign bits turn and limits lie.
_UINTS: Final = (0, 1, 2, 3, 7, 255, 256, 512, 1_000, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
_MAX_VALUE_DEPTH: Final = 4


class Reader:
    """Takes choices from the front of `data`; when it is used up, every choice is the first one."""

    __slots__ = ("data", "offset")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    @property
    def is_empty(self) -> bool:
        return self.offset >= len(self.data)

    def byte(self) -> int:
        if self.offset >= len(self.data):
            return 0
        self.offset += 1
        return self.data[self.offset - 1]

    def flag(self) -> bool:
        return self.byte() & 1 == 1

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; two bytes where one does not reach."""
        number = self.byte()
        if limit > 256:
            number = number << 8 | self.byte()
        return number % limit

    def pick(self, items: Sequence[_Item]) -> _Item:
        return items[self.below(len(items))]

    def octets(self, limit: int) -> bytes:
        """Up to `limit` bytes as they stand."""
        taken = self.data[self.offset : self.offset + self.below(limit + 1)]
        self.offset += len(taken)
        return taken

    def uint(self) -> int:
        """Mostly one that is special, else any of 16 bits."""
        choice = self.byte()
        return _UINTS[choice] if choice < len(_UINTS) else choice << 8 | self.byte()

    def text(self) -> str:
        return self.octets(12).decode("latin-1")

    def value(self, depth: int = 0) -> object:
        """Any AMQP value."""
        choice = self.below(32)
        if choice < 24:
            return self._scalar(choice)
        if depth >= _MAX_VALUE_DEPTH:
            return None
        if choice < 26:
            return [self.value(depth + 1) for _ in range(self.below(4))]
        if choice < 28:
            return {self._key(): self.value(depth + 1) for _ in range(self.below(4))}
        if choice < 30:
            return Described(self._descriptor(), self.value(depth + 1))
        return self._array()

    # One row per type: a table of functions would hide which byte makes which value.
    def _scalar(self, choice: int) -> object:
        rows: tuple[object, ...] = (None, True, False, UInt(0), ULong(0), "", Symbol(""), b"")
        if choice < len(rows):
            return rows[choice]
        number = self.uint()
        numbers: tuple[object, ...] = (
            *(UByte(number & 0xFF), UShort(number & 0xFFFF), UInt(number), ULong(number << 32 | number)),
            *(Byte((number & 0xFF) - 128), Short((number & 0xFFFF) - 32_768), Int(number - 2**31), number - 2**31),
            *(Timestamp(number - 2**31), float(number), Float(number), Char(chr(number % 0xD800))),
        )
        choice -= len(rows)
        if choice < len(numbers):
            return numbers[choice]
        choice -= len(numbers)
        if choice == 0:
            return self.text()
        if choice == 1:
            return Symbol(self.octets(12).decode("ascii", "replace").replace("\ufffd", "?"))
        if choice == 2:
            return self.octets(40)
        raw = number.to_bytes(4, "big") * 4
        return self.pick([uuid.UUID(bytes=raw), Decimal32(raw[:4]), Decimal64(raw[:8]), Decimal128(raw)])

    def _key(self) -> object:
        return self.pick([Symbol(self.pick(["a", "b", "x-opt-lock-token"])), "c", UInt(self.uint()), None, 1.5])

    def _descriptor(self) -> object:
        return self.pick([ULong(self.byte()), Symbol("amqp:accepted:list"), ULong(2**40), self.byte(), Symbol("?")])

    def _array(self) -> Array:
        count = self.below(5)
        return self.pick(
            [
                Array.of_symbols(["a"] * count),
                Array(BYTE_TYPE, [Byte(number) for number in range(count)]),
                Array(LONG_TYPE, [2**40 + number for number in range(count)]),
                Array(LIST_TYPE, [[number] for number in range(count)], (ULong(0x24),)),
                Array(UUID_TYPE, [uuid.UUID(int=number) for number in range(count)]),
                Array(SYMBOL_TYPE, [Symbol("s" * 300)] * count),
                Array.repeated(NULL_TYPE, None, count * 10_000),
                Array.repeated(UINT_TYPE, UInt(0), count),
            ]
        )
