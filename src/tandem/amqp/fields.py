"""Reading the fields of a composite type (AMQP 1.0 part 1.4) by position, with their types checked.

A composite is a described list: absent trailing fields and nulls mean "not set". Every complaint names the composite
and the field, because the reader of a log has nothing else to go by.
"""

from __future__ import annotations

from typing import TypeVar

from tandem.amqp.decode import decode
from tandem.amqp.types import Array, Char, Described, Symbol, UByte, UInt, ULong, UShort
from tandem.errors import DecodeError

__all__ = ["Fields", "decode_composite", "show", "symbols"]

Value = TypeVar("Value")


class Fields:
    """The decoded list of one composite."""

    __slots__ = ("name", "names", "values")

    def __init__(self, name: str, names: tuple[str, ...], values: list[object]) -> None:
        if len(values) > len(names):
            raise DecodeError(f"{name} has {len(values)} fields, it has at most {len(names)}")
        self.name = name
        self.names = names
        self.values = values

    def any(self, index: int) -> object:
        """The field as it was decoded, None where it is absent."""
        return self.values[index] if index < len(self.values) else None

    def wrong(self, index: int, wanted: str) -> DecodeError:
        return DecodeError(f"{self.name}.{self.names[index]} must be {wanted}, got {self.any(index)!r:.80}")

    def required(self, index: int, value: Value | None) -> Value:
        """Return the value of a mandatory field. A value that is not set is a DecodeError."""
        if value is None:
            raise DecodeError(f"{self.name}.{self.names[index]} is mandatory and was not set")
        return value

    def boolean(self, index: int, default: bool) -> bool:
        value = self.any(index)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        raise self.wrong(index, "a boolean")

    def ubyte(self, index: int) -> int | None:
        value = self.any(index)
        if value is None or isinstance(value, UByte):
            return value
        raise self.wrong(index, "a ubyte")

    def ushort(self, index: int) -> int | None:
        value = self.any(index)
        if value is None or isinstance(value, UShort):
            return value
        raise self.wrong(index, "a ushort")

    def uint(self, index: int) -> int | None:
        value = self.any(index)
        if value is None or isinstance(value, UInt):
            return value
        raise self.wrong(index, "a uint")

    def ulong(self, index: int) -> int | None:
        value = self.any(index)
        if value is None or isinstance(value, ULong):
            return value
        raise self.wrong(index, "a ulong")

    def string(self, index: int) -> str | None:
        value = self.any(index)
        if value is None:
            return None
        if isinstance(value, str) and not isinstance(value, (Symbol, Char)):
            return value
        raise self.wrong(index, "a string")

    def symbol(self, index: int) -> Symbol | None:
        value = self.any(index)
        if value is None or isinstance(value, Symbol):
            return value
        raise self.wrong(index, "a symbol")

    def binary(self, index: int) -> bytes | None:
        value = self.any(index)
        if value is None or isinstance(value, bytes):
            return value
        raise self.wrong(index, "a binary")

    def mapping(self, index: int) -> dict[object, object] | None:
        value = self.any(index)
        if value is None or isinstance(value, dict):
            return value
        raise self.wrong(index, "a map")

    def symbols(self, index: int) -> list[Symbol] | None:
        """A field marked multiple="true": null, one symbol, or an array of symbols (part 1.4)."""
        value = self.any(index)
        if value is None:
            return None
        if isinstance(value, Symbol):
            return [value]
        if isinstance(value, Array):
            found: list[Symbol] = []
            for item in value:
                if not isinstance(item, Symbol):
                    raise self.wrong(index, "symbols")
                found.append(item)
            return found
        raise self.wrong(index, "symbols")


def symbols(names: list[Symbol] | None) -> Array | None:
    """The wire form of a multiple symbol field.

    No symbols are written as null, which means the same as an empty array (part 1.4): the official Python SDK expects
    no constructor in an empty array, and misreads what follows one.
    """
    return Array.of_symbols(names) if names else None


def decode_composite(data: bytes, offset: int, end: int) -> tuple[object, list[object], int]:
    """The descriptor and the fields of the described list at `offset`, and where it ends."""
    value, stop = decode(data, offset, end)
    if not isinstance(value, Described):
        raise DecodeError(f"a described list was expected at offset {offset}, got {value!r:.80}")
    fields = value.value
    if not isinstance(fields, list):
        raise DecodeError(f"a described list was expected at offset {offset}, got a described {fields!r:.80}")
    return value.descriptor, fields, stop


def show(name: str, names: tuple[str, ...], values: list[object]) -> str:
    """One line for logs and traces: only what is set."""
    fields = [field.replace("-", "_") for field in names]
    shown = [f"{field}={value!r}" for field, value in zip(fields, values, strict=True) if value is not None]
    return f"{name}({', '.join(shown)})"
