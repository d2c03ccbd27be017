"""AMQP values to bytes (AMQP 1.0 part 1.6), each in the smallest of its encodings, with two exceptions.

A list is never written as list0, nor does a descriptor below 256 become ulong0: the official SDKs find the fields of a
performative by position and its descriptor byte at a fixed offset.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any, Final

from tandem.amqp import types
from tandem.amqp.types import (
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
from tandem.errors import EncodeError
from tandem.limits import MAX_NESTING_DEPTH, MAX_ZERO_WIDTH_ARRAY_COUNT

__all__ = ["encode", "encode_described_list", "encode_into"]

# The small encodings of integers, whole: constructor and value. 0 has a constructor of its own in two of them.
_SMALL_UINT: Final = (b"\x43", *[bytes((0x52, number)) for number in range(1, 256)])
_SMALL_ULONG: Final = (b"\x44", *[bytes((0x53, number)) for number in range(1, 256)])
_SMALL_INT: Final = tuple([bytes((0x54, number)) for number in range(256)])
_SMALL_LONG: Final = tuple([bytes((0x55, number)) for number in range(256)])
_SMALL_DESCRIPTOR: Final = tuple([bytes((0x00, 0x53, number)) for number in range(256)])
# Constructor and size of what has at most 255 bytes.
_SMALL_BINARY: Final = tuple([bytes((0xA0, size)) for size in range(256)])
_SMALL_STRING: Final = tuple([bytes((0xA1, size)) for size in range(256)])
_SMALL_SYMBOL: Final = tuple([bytes((0xA3, size)) for size in range(256)])

_pack_ushort: Final = struct.Struct(">BH").pack
_pack_short: Final = struct.Struct(">Bh").pack
_pack_uint: Final = struct.Struct(">BI").pack
_pack_int: Final = struct.Struct(">Bi").pack
_pack_ulong: Final = struct.Struct(">BQ").pack
_pack_long: Final = struct.Struct(">Bq").pack
_pack_float: Final = struct.Struct(">Bf").pack
_pack_double: Final = struct.Struct(">Bd").pack
_pack_size: Final = struct.Struct(">I").pack
_pack_size_and_count: Final = struct.Struct(">BII").pack

_MAX_SIZE: Final = 0xFFFF_FFFF


def encode(value: object) -> bytes:
    out = bytearray()
    _write(out, value, 0)
    return bytes(out)


def encode_into(out: bytearray, value: object) -> None:
    """Append to `out`, or leave it as it was and raise EncodeError."""
    start = len(out)
    try:
        _write(out, value, 0)
    except EncodeError:
        del out[start:]
        raise


def encode_described_list(descriptor: int, fields: list[object]) -> bytes:
    """The form of performatives and message sections: `00 53 descriptor` and a list with all the fields given."""
    if not 0 <= descriptor <= 0xFF:
        raise EncodeError(f"descriptor {descriptor} is not within 0 to 255")
    out = bytearray(_SMALL_DESCRIPTOR[descriptor])
    _write_list(out, fields, 1)
    return bytes(out)


def _write(out: bytearray, value: object, depth: int) -> None:
    if value is None:
        out += b"\x40"
        return
    writer = _SCALAR_WRITERS.get(type(value))
    if writer is not None:
        writer(out, value)
    elif isinstance(value, Described):
        _write_described(out, value, depth)
    elif isinstance(value, (list, tuple)):
        _write_list(out, value, depth)
    elif isinstance(value, dict):
        _write_map(out, value, depth)
    elif isinstance(value, Array):
        _write_array(out, value, depth)
    else:
        _scalar_writer_of_subclass(type(value))(out, value)


def _scalar_writer_of_subclass(kind: type) -> _ScalarWriter:
    """For an IntEnum, say: the writer of the nearest class that it inherits from and that has one."""
    for base in kind.__mro__:
        writer = _SCALAR_WRITERS.get(base)
        if writer is not None:
            return writer
    advice = _ADVICE.get(kind.__name__, "use one of the types listed in tandem.amqp.types")
    raise EncodeError(f"a {kind.__name__} has no AMQP type; {advice}")


# --- Values of fixed width --------------------------------------------------------------------------------------


def _write_boolean(out: bytearray, value: bool) -> None:
    out += b"\x41" if value else b"\x42"


def _write_boolean_in_full(out: bytearray, value: bool) -> None:
    """With a width: the elements of an array share one constructor, so that it cannot be the value."""
    out += b"\x56\x01" if value else b"\x56\x00"


def _write_ubyte(out: bytearray, value: int) -> None:
    if not 0 <= value <= 0xFF:
        raise _out_of_range(types.UBYTE_TYPE, value)
    out += bytes((0x50, value))


def _write_ushort(out: bytearray, value: int) -> None:
    if not 0 <= value <= 0xFFFF:
        raise _out_of_range(types.USHORT_TYPE, value)
    out += _pack_ushort(0x60, value)


def _write_uint(out: bytearray, value: int) -> None:
    if 0 <= value <= 0xFF:
        out += _SMALL_UINT[value]
    elif 0 <= value <= 0xFFFF_FFFF:
        out += _pack_uint(0x70, value)
    else:
        raise _out_of_range(types.UINT_TYPE, value)


def _write_ulong(out: bytearray, value: int) -> None:
    if 0 <= value <= 0xFF:
        out += _SMALL_ULONG[value]
    elif 0 <= value <= 0xFFFF_FFFF_FFFF_FFFF:
        out += _pack_ulong(0x80, value)
    else:
        raise _out_of_range(types.ULONG_TYPE, value)


def _write_byte(out: bytearray, value: int) -> None:
    if not -0x80 <= value <= 0x7F:
        raise _out_of_range(types.BYTE_TYPE, value)
    out += bytes((0x51, value & 0xFF))


def _write_short(out: bytearray, value: int) -> None:
    if not -0x8000 <= value <= 0x7FFF:
        raise _out_of_range(types.SHORT_TYPE, value)
    out += _pack_short(0x61, value)


def _write_int(out: bytearray, value: int) -> None:
    if -0x80 <= value <= 0x7F:
        out += _SMALL_INT[value & 0xFF]
    elif -0x8000_0000 <= value <= 0x7FFF_FFFF:
        out += _pack_int(0x71, value)
    else:
        raise _out_of_range(types.INT_TYPE, value)


def _write_long(out: bytearray, value: int) -> None:
    if -0x80 <= value <= 0x7F:
        out += _SMALL_LONG[value & 0xFF]
    elif -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        out += _pack_long(0x81, value)
    else:
        raise _out_of_range(types.LONG_TYPE, value)


def _write_timestamp(out: bytearray, value: int) -> None:
    if not -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        raise _out_of_range(types.TIMESTAMP_TYPE, value)
    out += _pack_long(0x83, value)


def _write_float(out: bytearray, value: float) -> None:
    try:
        out += _pack_float(0x72, value)
    except OverflowError:
        raise _out_of_range(types.FLOAT_TYPE, value) from None


def _write_double(out: bytearray, value: float) -> None:
    out += _pack_double(0x82, value)


def _write_char(out: bytearray, value: str) -> None:
    out += _pack_uint(0x73, _code_point(value))


def _write_decimal32(out: bytearray, value: Decimal32) -> None:
    out += b"\x74" + value.raw


def _write_decimal64(out: bytearray, value: Decimal64) -> None:
    out += b"\x84" + value.raw


def _write_decimal128(out: bytearray, value: Decimal128) -> None:
    out += b"\x94" + value.raw


def _write_uuid(out: bytearray, value: uuid.UUID) -> None:
    out += b"\x98" + value.bytes


# --- Values of variable width -----------------------------------------------------------------------------------


def _write_string(out: bytearray, value: str) -> None:
    octets = _utf8(value)
    size = len(octets)
    out += _SMALL_STRING[size] if size <= 0xFF else _pack_uint(0xB1, _checked_size(size))
    out += octets


def _write_symbol(out: bytearray, value: str) -> None:
    octets = _ascii(value)
    size = len(octets)
    out += _SMALL_SYMBOL[size] if size <= 0xFF else _pack_uint(0xB3, _checked_size(size))
    out += octets


def _write_binary(out: bytearray, value: bytes | bytearray) -> None:
    size = len(value)
    out += _SMALL_BINARY[size] if size <= 0xFF else _pack_uint(0xB0, _checked_size(size))
    out += value


def _write_memoryview(out: bytearray, value: memoryview) -> None:
    _write_binary(out, _octets(value))


# --- Compound and described values ------------------------------------------------------------------------------


def _write_described(out: bytearray, value: Described, depth: int) -> None:
    if depth >= MAX_NESTING_DEPTH:
        raise _too_deep()
    _write_descriptor(out, value.descriptor, depth + 1)
    _write(out, value.value, depth + 1)


def _write_descriptor(out: bytearray, descriptor: object, depth: int) -> None:
    if isinstance(descriptor, ULong) and 0 <= descriptor <= 0xFF:
        out += _SMALL_DESCRIPTOR[descriptor]
    else:
        out += b"\x00"
        _write(out, descriptor, depth)


def _write_list(out: bytearray, value: list[object] | tuple[object, ...], depth: int) -> None:
    start = len(out)
    out += b"\xc0\x00\x00"
    _write_elements(out, value, depth)
    _complete_header(out, start, len(value))


def _write_map(out: bytearray, value: dict[object, object], depth: int) -> None:
    start = len(out)
    out += b"\xc1\x00\x00"
    _write_pairs(out, value, depth)
    _complete_header(out, start, len(value) * 2)


def _write_array(out: bytearray, value: Array, depth: int) -> None:
    start = len(out)
    out += b"\xe0\x00\x00"
    _write_array_contents(out, value, depth)
    _complete_header(out, start, value.count)


def _complete_header(out: bytearray, start: int, count: int) -> None:
    """Fill in size and count behind the constructor at `start`, now that the contents behind them are written."""
    size = len(out) - start - 2
    if size <= 0xFF and count <= 0xFF:
        out[start + 1] = size
        out[start + 2] = count
    else:
        # Size and count take six bytes more. What is large is seldom, so only that is moved.
        out[start : start + 3] = _pack_size_and_count(out[start] + 0x10, _checked_size(size + 3), count)


def _write_elements(out: bytearray, value: list[object] | tuple[object, ...], depth: int) -> None:
    if depth >= MAX_NESTING_DEPTH:
        raise _too_deep()
    writers = _SCALAR_WRITERS
    for item in value:
        # As in _write, without the call: most fields of most performatives are null or scalar.
        if item is None:
            out += b"\x40"
            continue
        writer = writers.get(type(item))
        if writer is not None:
            writer(out, item)
        else:
            _write(out, item, depth + 1)


def _write_pairs(out: bytearray, value: dict[object, object], depth: int) -> None:
    if depth >= MAX_NESTING_DEPTH:
        raise _too_deep()
    for key, item in value.items():
        if isinstance(key, tuple):
            raise EncodeError(f"map key {key!r} would be a list, which cannot be a key")
        _write(out, key, depth + 1)
        _write(out, item, depth + 1)


# --- Arrays -----------------------------------------------------------------------------------------------------


def _write_array_contents(out: bytearray, array: Array, depth: int) -> None:
    """The constructor, with its descriptors, and the elements."""
    if depth >= MAX_NESTING_DEPTH:
        raise _too_deep()
    depth += 1
    for descriptor in array.descriptors:
        if depth >= MAX_NESTING_DEPTH:
            raise _too_deep()
        depth += 1
        _write_descriptor(out, descriptor, depth)
    constructor = array.constructor
    items = array.items
    if array.is_repeated or constructor == types.NULL_TYPE:
        _write_zero_width_elements(out, array, depth)
    elif constructor in _INTEGERS:
        _write_integer_elements(out, constructor, items)
    elif constructor in _COMPOUND_CODE:
        _write_compound_elements(out, constructor, items, depth)
    elif constructor in _OCTETS:
        _write_variable_elements(out, constructor, items)
    else:
        _write_fixed_elements(out, constructor, items)


def _write_zero_width_elements(out: bytearray, array: Array, depth: int) -> None:
    """Nothing but a constructor. This is where list0 is written: 65,536 lists would else take 131,072 bytes."""
    if array.count > MAX_ZERO_WIDTH_ARRAY_COUNT:
        raise EncodeError(f"an array of {array.count} elements without width is beyond {MAX_ZERO_WIDTH_ARRAY_COUNT}")
    if array.constructor == types.NULL_TYPE:
        _check_elements(types.NULL_TYPE, array.items, type(None))
        out += b"\x40"
    elif array.constructor == types.BOOLEAN_TYPE:
        out += b"\x41" if array.items[0] else b"\x42"
    elif array.constructor == types.LIST_TYPE:
        if depth >= MAX_NESTING_DEPTH:
            raise _too_deep()
        out += b"\x45"
    else:
        out += b"\x43" if array.constructor == types.UINT_TYPE else b"\x44"


def _write_integer_elements(out: bytearray, constructor: str, items: list[object]) -> None:
    numbers: list[Any] = items
    for item in items:
        if not isinstance(item, int) or isinstance(item, bool):
            raise _wrong_element(constructor, item)
    low, high, small_code, small_letter, code, letter = _INTEGERS[constructor]
    least = min(numbers, default=0)
    most = max(numbers, default=0)
    if least < low or most > high:
        raise _out_of_range(constructor, least if least < low else most)
    if small_code and (most <= 0xFF if low == 0 else least >= -0x80 and most <= 0x7F):
        code, letter = small_code, small_letter
    out.append(code)
    out += struct.pack(f">{len(numbers)}{letter}", *numbers)


def _write_fixed_elements(out: bytearray, constructor: str, items: list[object]) -> None:
    """Types with one encoding each: what the writer of a single value puts behind the constructor."""
    code, accepted, writer = _FIXED[constructor]
    _check_elements(constructor, items, accepted)
    out.append(code)
    for item in items:
        piece = bytearray()
        writer(piece, item)
        out += piece[1:]


def _write_variable_elements(out: bytearray, constructor: str, items: list[object]) -> None:
    code, accepted, to_octets = _OCTETS[constructor]
    _check_elements(constructor, items, accepted)
    pieces = [to_octets(item) for item in items]
    if max([len(piece) for piece in pieces], default=0) <= 0xFF:
        out.append(code)
        for piece in pieces:
            out.append(len(piece))
            out += piece
    else:
        out.append(code + 0x10)
        for piece in pieces:
            out += _pack_size(_checked_size(len(piece)))
            out += piece


def _write_compound_elements(out: bytearray, constructor: str, items: list[object], depth: int) -> None:
    counts: list[int] = []
    bodies: list[bytearray] = []
    for item in items:
        body = bytearray()
        if constructor == types.LIST_TYPE and isinstance(item, (list, tuple)):
            _write_elements(body, item, depth)
            counts.append(len(item))
        elif constructor == types.MAP_TYPE and isinstance(item, dict):
            _write_pairs(body, item, depth)
            counts.append(len(item) * 2)
        elif constructor == types.ARRAY_TYPE and isinstance(item, Array):
            _write_array_contents(body, item, depth)
            counts.append(item.count)
        else:
            raise _wrong_element(constructor, item)
        bodies.append(body)
    code = _COMPOUND_CODE[constructor]
    if max(counts, default=0) <= 0xFF and max([len(body) for body in bodies], default=0) <= 0xFE:
        out.append(code)
        for count, body in zip(counts, bodies, strict=True):
            out += bytes((len(body) + 1, count))
            out += body
    else:
        out.append(code + 0x10)
        for count, body in zip(counts, bodies, strict=True):
            out += _pack_size(_checked_size(len(body) + 4))
            out += _pack_size(count)
            out += body


# --- Helpers ----------------------------------------------------------------------------------------------------


def _check_elements(constructor: str, items: list[object], accepted: type | tuple[type, ...]) -> None:
    for item in items:
        if not isinstance(item, accepted):
            raise _wrong_element(constructor, item)


def _utf8(value: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EncodeError(f"string has the surrogate U+{ord(value[error.start]):04X} at {error.start}") from None


def _ascii(value: str) -> bytes:
    try:
        return value.encode("ascii")
    except UnicodeEncodeError as error:
        raise EncodeError(f"symbol {value!r} is not ASCII: U+{ord(value[error.start]):04X} at {error.start}") from None


def _octets(value: bytes | bytearray | memoryview) -> bytes:
    size = value.nbytes if isinstance(value, memoryview) else len(value)
    _checked_size(size)
    return bytes(value)


def _code_point(value: str) -> int:
    if len(value) != 1 or 0xD800 <= ord(value) <= 0xDFFF:
        raise EncodeError(f"char {value!r} is not one code point that is no surrogate")
    return ord(value)


def _checked_size(size: int) -> int:
    if size > _MAX_SIZE:
        raise EncodeError(f"a value of {size} bytes is beyond the {_MAX_SIZE} that AMQP can express")
    return size


def _out_of_range(constructor: str, value: object) -> EncodeError:
    return EncodeError(f"{value} is out of the range of {constructor}")


def _wrong_element(constructor: str, item: object) -> EncodeError:
    return EncodeError(f"an array of {constructor} cannot hold {item!r}, a {type(item).__name__}")


def _too_deep() -> EncodeError:
    return EncodeError(f"value is nested deeper than {MAX_NESTING_DEPTH} levels, or contains itself")


_ScalarWriter = Callable[[bytearray, Any], None]

_SCALAR_WRITERS: Final[dict[type, _ScalarWriter]] = {
    bool: _write_boolean,
    UByte: _write_ubyte,
    UShort: _write_ushort,
    UInt: _write_uint,
    ULong: _write_ulong,
    Byte: _write_byte,
    Short: _write_short,
    Int: _write_int,
    int: _write_long,
    Float: _write_float,
    float: _write_double,
    Decimal32: _write_decimal32,
    Decimal64: _write_decimal64,
    Decimal128: _write_decimal128,
    Char: _write_char,
    Timestamp: _write_timestamp,
    uuid.UUID: _write_uuid,
    bytes: _write_binary,
    bytearray: _write_binary,
    memoryview: _write_memoryview,
    str: _write_string,
    Symbol: _write_symbol,
}

# What to use in place of Python types that come close to an AMQP type.
_ADVICE: Final = {
    "datetime": "use Timestamp.from_datetime()",
    "Decimal": "use Decimal32, Decimal64 or Decimal128.from_decimal()",
    "set": "use a list or an Array",
    "frozenset": "use a list or an Array",
}

# Least and greatest value, the one-byte constructor if there is one, and the full one, with struct's letters.
_INTEGERS: Final[dict[str, tuple[int, int, int, str, int, str]]] = {
    types.UBYTE_TYPE: (0, 0xFF, 0, "", 0x50, "B"),
    types.USHORT_TYPE: (0, 0xFFFF, 0, "", 0x60, "H"),
    types.UINT_TYPE: (0, 0xFFFF_FFFF, 0x52, "B", 0x70, "I"),
    types.ULONG_TYPE: (0, 0xFFFF_FFFF_FFFF_FFFF, 0x53, "B", 0x80, "Q"),
    types.BYTE_TYPE: (-0x80, 0x7F, 0, "", 0x51, "b"),
    types.SHORT_TYPE: (-0x8000, 0x7FFF, 0, "", 0x61, "h"),
    types.INT_TYPE: (-0x8000_0000, 0x7FFF_FFFF, 0x54, "b", 0x71, "i"),
    types.LONG_TYPE: (-0x8000_0000_0000_0000, 0x7FFF_FFFF_FFFF_FFFF, 0x55, "b", 0x81, "q"),
    types.TIMESTAMP_TYPE: (-0x8000_0000_0000_0000, 0x7FFF_FFFF_FFFF_FFFF, 0, "", 0x83, "q"),
}
_FIXED: Final[dict[str, tuple[int, type, _ScalarWriter]]] = {
    types.BOOLEAN_TYPE: (0x56, bool, _write_boolean_in_full),
    types.FLOAT_TYPE: (0x72, float, _write_float),
    types.DOUBLE_TYPE: (0x82, float, _write_double),
    types.DECIMAL32_TYPE: (0x74, Decimal32, _write_decimal32),
    types.DECIMAL64_TYPE: (0x84, Decimal64, _write_decimal64),
    types.DECIMAL128_TYPE: (0x94, Decimal128, _write_decimal128),
    types.CHAR_TYPE: (0x73, str, _write_char),
    types.UUID_TYPE: (0x98, uuid.UUID, _write_uuid),
}
_OCTETS: Final[dict[str, tuple[int, type | tuple[type, ...], Callable[[Any], bytes]]]] = {
    types.BINARY_TYPE: (0xA0, (bytes, bytearray, memoryview), _octets),
    types.STRING_TYPE: (0xA1, str, _utf8),
    types.SYMBOL_TYPE: (0xA3, str, _ascii),
}
_COMPOUND_CODE: Final = {types.LIST_TYPE: 0xC0, types.MAP_TYPE: 0xC1, types.ARRAY_TYPE: 0xE0}
