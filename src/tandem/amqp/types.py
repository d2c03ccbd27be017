"""AMQP 1.0 types (part 1.6) in Python's own types, with a wrapper only where Python's own would be ambiguous.

    null        None          ubyte ushort uint ulong   UByte UShort UInt ULong   (int)
    boolean     bool          byte short int            Byte Short Int            (int)
    long        int           timestamp                 Timestamp                 (int, milliseconds)
    double      float         float                     Float                     (float)
    string      str           symbol char               Symbol Char               (str)
    binary      bytes         decimal32 64 128          Decimal32 Decimal64 Decimal128
    uuid        uuid.UUID     array                     Array
    list map    list dict     described                 Described

The wrappers of int, float and str compare and hash as what they wrap. They do not check their range when made, since
the decoder makes millions of them and cannot be out of range: the encoder checks.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from tandem.amqp.decimals import decimal_from_bid, decimal_from_decimal128, decimal_to_bid
from tandem.errors import DecodeError, EncodeError

__all__ = [
    "ARRAY_TYPE",
    "BINARY_TYPE",
    "BOOLEAN_TYPE",
    "BYTE_TYPE",
    "CHAR_TYPE",
    "DECIMAL32_TYPE",
    "DECIMAL64_TYPE",
    "DECIMAL128_TYPE",
    "DOUBLE_TYPE",
    "FLOAT_TYPE",
    "INT_TYPE",
    "LIST_TYPE",
    "LONG_TYPE",
    "MAP_TYPE",
    "NULL_TYPE",
    "SHORT_TYPE",
    "STRING_TYPE",
    "SYMBOL_TYPE",
    "TIMESTAMP_TYPE",
    "TYPE_NAMES",
    "UBYTE_TYPE",
    "UINT_TYPE",
    "ULONG_TYPE",
    "USHORT_TYPE",
    "UUID_TYPE",
    "Array",
    "Byte",
    "Char",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Described",
    "Float",
    "Int",
    "Short",
    "Symbol",
    "Timestamp",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
]

# The element type of an array, by its name in the specification.
NULL_TYPE: Final = "null"
BOOLEAN_TYPE: Final = "boolean"
UBYTE_TYPE: Final = "ubyte"
USHORT_TYPE: Final = "ushort"
UINT_TYPE: Final = "uint"
ULONG_TYPE: Final = "ulong"
BYTE_TYPE: Final = "byte"
SHORT_TYPE: Final = "short"
INT_TYPE: Final = "int"
LONG_TYPE: Final = "long"
FLOAT_TYPE: Final = "float"
DOUBLE_TYPE: Final = "double"
DECIMAL32_TYPE: Final = "decimal32"
DECIMAL64_TYPE: Final = "decimal64"
DECIMAL128_TYPE: Final = "decimal128"
CHAR_TYPE: Final = "char"
TIMESTAMP_TYPE: Final = "timestamp"
UUID_TYPE: Final = "uuid"
BINARY_TYPE: Final = "binary"
STRING_TYPE: Final = "string"
SYMBOL_TYPE: Final = "symbol"
LIST_TYPE: Final = "list"
MAP_TYPE: Final = "map"
ARRAY_TYPE: Final = "array"

TYPE_NAMES: Final = (
    NULL_TYPE,
    BOOLEAN_TYPE,
    UBYTE_TYPE,
    USHORT_TYPE,
    UINT_TYPE,
    ULONG_TYPE,
    BYTE_TYPE,
    SHORT_TYPE,
    INT_TYPE,
    LONG_TYPE,
    FLOAT_TYPE,
    DOUBLE_TYPE,
    DECIMAL32_TYPE,
    DECIMAL64_TYPE,
    DECIMAL128_TYPE,
    CHAR_TYPE,
    TIMESTAMP_TYPE,
    UUID_TYPE,
    BINARY_TYPE,
    STRING_TYPE,
    SYMBOL_TYPE,
    LIST_TYPE,
    MAP_TYPE,
    ARRAY_TYPE,
)

_Kind = TypeVar("_Kind", bound=type)

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def _not_native(kind: _Kind) -> _Kind:
    """mypyc cannot make a native class of one that inherits from int, float or str, and leaves decorated ones alone."""
    return kind


@_not_native
class _Integer(int):
    """What the integer wrappers share: the type shows in the repr and stays out of text made for people."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int.__repr__(self)})"

    def __str__(self) -> str:
        return int.__repr__(self)


@_not_native
class UByte(_Integer):
    """0 to 2^8 - 1."""

    __slots__ = ()


@_not_native
class UShort(_Integer):
    """0 to 2^16 - 1."""

    __slots__ = ()


@_not_native
class UInt(_Integer):
    """0 to 2^32 - 1."""

    __slots__ = ()


@_not_native
class ULong(_Integer):
    """0 to 2^64 - 1."""

    __slots__ = ()


@_not_native
class Byte(_Integer):
    """-2^7 to 2^7 - 1."""

    __slots__ = ()


@_not_native
class Short(_Integer):
    """-2^15 to 2^15 - 1."""

    __slots__ = ()


@_not_native
class Int(_Integer):
    """-2^31 to 2^31 - 1."""

    __slots__ = ()


@_not_native
class Timestamp(_Integer):
    """Milliseconds since 1970-01-01T00:00Z. Not a datetime: peers send the years 1 BC and 10,000 as "never"."""

    __slots__ = ()

    def to_datetime(self) -> datetime.datetime:
        """The same moment in UTC. DecodeError outside the years 1 to 9999, which datetime can hold."""
        try:
            return _EPOCH + datetime.timedelta(milliseconds=int(self))
        except OverflowError:
            raise DecodeError(f"timestamp {self} ms is outside the years 1 to 9999 of datetime") from None

    @staticmethod
    def from_datetime(moment: datetime.datetime) -> Timestamp:
        """The millisecond that `moment` lies in. EncodeError without a time zone: it would not be a moment."""
        if moment.tzinfo is None:
            raise EncodeError(f"datetime {moment.isoformat()} has no time zone; use one with tzinfo=timezone.utc")
        return Timestamp((moment - _EPOCH) // _MILLISECOND)


@_not_native
class Float(float):
    """32 bit binary floating point. A plain float is AMQP's 64 bit double."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Float({float.__repr__(self)})"

    def __str__(self) -> str:
        return float.__repr__(self)


@_not_native
class Char(str):
    """One Unicode code point."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Char({str.__repr__(self)})"


@_not_native
class Symbol(str):
    """A name from a constrained domain, in ASCII."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"


class _Decimal:
    """A decimal number of IEEE 754-2008: its bytes, so that what was received is what is sent on."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def to_decimal(self) -> decimal.Decimal:
        return decimal_from_bid(self.raw)

    def __eq__(self, other: object) -> bool:
        # The length is that of the type.
        return isinstance(other, _Decimal) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_decimal()})"


class Decimal32(_Decimal):
    """A decimal32, of four bytes."""

    __slots__ = ()

    def __init__(self, raw: bytes) -> None:
        _check_length("decimal32", raw, 4)
        super().__init__(raw)

    @staticmethod
    def from_decimal(value: decimal.Decimal) -> Decimal32:
        return Decimal32(decimal_to_bid(value, 4))


class Decimal64(_Decimal):
    """A decimal64, of eight bytes."""

    __slots__ = ()

    def __init__(self, raw: bytes) -> None:
        _check_length("decimal64", raw, 8)
        super().__init__(raw)

    @staticmethod
    def from_decimal(value: decimal.Decimal) -> Decimal64:
        return Decimal64(decimal_to_bid(value, 8))


class Decimal128(_Decimal):
    """A decimal128, of sixteen bytes."""

    __slots__ = ()

    def __init__(self, raw: bytes) -> None:
        _check_length("decimal128", raw, 16)
        super().__init__(raw)

    def to_decimal(self) -> decimal.Decimal:
        return decimal_from_decimal128(self.raw)

    @staticmethod
    def from_decimal(value: decimal.Decimal) -> Decimal128:
        return Decimal128(decimal_to_bid(value, 16))


class Described:  # noqa: PLW1641 - not hashable, and why not is said below
    """A value with a descriptor that says how to read it.

    Not hashable, like the lists it usually holds. A hash made from those of the parts could be steered into
    collisions by a peer that sends such values as map keys.
    """

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor = descriptor
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and self.descriptor == other.descriptor and self.value == other.value

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


class Array:  # noqa: PLW1641 - not hashable, being mutable
    """Values of one type. `constructor` is the type's name, one of TYPE_NAMES; the encoder picks the width.

    `descriptors` is not empty when the constructor is a described one: each element is then described by all of
    them, the first one outermost. `items` holds the elements without them, iteration yields the elements with them.

    2^32 elements of a type without width (null, true, uint0, ...) take 9 bytes on the wire. An array of those keeps
    `items` at one value and only counts, so that `len(array)` may exceed `len(array.items)`.
    """

    __slots__ = ("constructor", "count", "descriptors", "items")

    def __init__(self, constructor: str, items: Iterable[object], descriptors: tuple[object, ...] = ()) -> None:
        if constructor not in TYPE_NAMES:
            raise EncodeError(f"an array of {constructor!r} is not possible; use one of {', '.join(TYPE_NAMES)}")
        self.constructor: str = constructor
        self.items: list[object] = list(items)
        self.count: int = len(self.items)
        self.descriptors: tuple[object, ...] = descriptors

    @staticmethod
    def repeated(constructor: str, value: object, count: int, descriptors: tuple[object, ...] = ()) -> Array:
        """`count` times the same value, which must have an encoding without width: None, a bool, 0 or []."""
        if not _has_no_width(constructor, value):
            raise EncodeError(f"{value!r} has no encoding without width as {constructor}, so it cannot be repeated")
        array = Array(constructor, [value] if count else [], descriptors)
        array.count = count
        return array

    @staticmethod
    def of_symbols(names: Iterable[str]) -> Array:
        """The array that capabilities, locales and outcomes are written in."""
        return Array(SYMBOL_TYPE, [Symbol(name) for name in names])

    @property
    def is_repeated(self) -> bool:
        """Whether `items` holds one value that stands for `count` of them."""
        return self.count != len(self.items)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[object]:
        elements: Iterator[object] = iter(self.items)
        if self.is_repeated:
            elements = itertools.repeat(self.items[0], self.count)
        for descriptor in reversed(self.descriptors):
            elements = map(_describing(descriptor), elements)
        return elements

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Array):
            return False
        if self.constructor != other.constructor or self.count != other.count or self.descriptors != other.descriptors:
            return False
        if len(self.items) == len(other.items):
            return self.items == other.items
        # One of the two is repeated: its only value has to be every value of the other.
        shorter, longer = (self, other) if len(self.items) < len(other.items) else (other, self)
        return longer.items.count(shorter.items[0]) == longer.count

    def __repr__(self) -> str:
        items = f"{self.items!r} * {self.count}" if self.is_repeated else repr(self.items)
        descriptors = f", {self.descriptors!r}" if self.descriptors else ""
        return f"Array({self.constructor!r}, {items}{descriptors})"


def _describing(descriptor: object) -> Callable[[object], object]:
    return lambda value: Described(descriptor, value)


def _has_no_width(constructor: str, value: object) -> bool:
    if constructor == NULL_TYPE:
        return value is None
    if constructor == BOOLEAN_TYPE:
        return isinstance(value, bool)
    if constructor == LIST_TYPE:
        return value == []
    return constructor in (UINT_TYPE, ULONG_TYPE) and value == 0


def _check_length(name: str, raw: bytes, length: int) -> None:
    if len(raw) != length:
        raise EncodeError(f"{name} takes {length} bytes, not {len(raw)}; use from_decimal() to make one from a number")
