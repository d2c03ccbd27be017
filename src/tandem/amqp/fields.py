"""Reading the fields of a composite type (AMQP 1.0 part 1.4) by position, with their types checked.

A composite is a described list: absent trailing fields and nulls mean "not set". Every complaint names the composite
and the field, because the reader of a log has nothing else to go by.
"""

from __future__ import annotations

from tandem.amqp.decode import decode
from tandem.amqp.types import Array, Char, Described, Symbol, UByte, UInt, ULong, UShort
from tandem.errors import DecodeError

__all__ = ["Fields", "decode_composite", "show", "symbols"]


class Fields:
    """The decoded list of one composite."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: list[object], maximum: int) -> None:
        if len(values) > maximum:
            raise DecodeError(f"{name} has {len(values)} fields, it has at most {maximum}")
        self.name = name
        self.values = values

    def any(self, index: int) -> object:
        """The field as it was decoded, None where it is absent."""
        return self.values[index] if index < len(self.values) else None

    def wrong(self, field: str, wanted: str, value: object) -> DecodeError:
        return DecodeError(f"{self.name}.{field} must be {wanted}, got {value!r:.80}")

    def missing(self, field: str) -> DecodeError:
        return DecodeError(f"{self.name}.{field} is mandatory and was not set")

    def boolean(self, index: int, field: str, default: bool) -> bool:
        value = self.any(index)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        raise self.wrong(field, "a boolean", value)

    def ubyte(self, index: int, field: str) -> int | None:
        value = self.any(index)
        if value is None or isinstance(value, UByte):
            return value
        raise self.wrong(field, "a ubyte", value)

    def ushort(self, index: int, field: str) -> int | None:
        value = self.any(index)
        if value is None or isinstance(value, UShort):
            return value
        raise self.wrong(field, "a ushort", value)

    def uint(self, index: int, field: str) -> int | None:
        value = self.any(index)
        if value is None or isinstance(value, UInt):
            return value
        raise self.wrong(field, "a uint", value)

    def required_uint(self, index: int, field: str) -> int:
        value = self.uint(index, field)
        if value is None:
            raise self.missing(field)
        return value

    def ulong(self, index: int, field: str) -> int | None:
        value = self.any(index)
        if value is None or isinstance(value, ULong):
            return value
        raise self.wrong(field, "a ulong", value)

    def string(self, index: int, field: str) -> str | None:
        value = self.any(index)
        if value is None:
            return None
        if isinstance(value, str) and not isinstance(value, (Symbol, Char)):
            return value
        raise self.wrong(field, "a string", value)

    def required_string(self, index: int, field: str) -> str:
        value = self.string(index, field)
        if value is None:
            raise self.missing(field)
        return value

    def symbol(self, index: int, field: str) -> Symbol | None:
        value = self.any(index)
        if value is None or isinstance(value, Symbol):
            return value
        raise self.wrong(field, "a symbol", value)

    def required_symbol(self, index: int, field: str) -> Symbol:
        value = self.symbol(index, field)
        if value is None:
            raise self.missing(field)
        return value

    def binary(self, index: int, field: str) -> bytes | None:
        value = self.any(index)
        if value is None or isinstance(value, bytes):
            return value
        raise self.wrong(field, "a binary", value)

    def required_binary(self, index: int, field: str) -> bytes:
        value = self.binary(index, field)
        if value is None:
            raise self.missing(field)
        return value

    def mapping(self, index: int, field: str) -> dict[object, object] | None:
        value = self.any(index)
        if value is None or isinstance(value, dict):
            return value
        raise self.wrong(field, "a map", value)

    def symbols(self, index: int, field: str) -> list[Symbol] | None:
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
                    raise self.wrong(field, "symbols", value)
                found.append(item)
            return found
        raise self.wrong(field, "symbols", value)


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
    shown = [f"{field}={value!r}" for field, value in zip(names, values, strict=True) if value is not None]
    return f"{name}({', '.join(shown)})"
