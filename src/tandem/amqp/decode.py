"""Bytes to AMQP values (AMQP 1.0 part 1.6), bounded before anything is allocated.

The constructor byte says by its upper half how much follows (figure 1.3 of the specification):

    0x4_ nothing   0x5_ 1   0x6_ 2   0x7_ 4   0x8_ 8   0x9_ 16 bytes
    0xA_ size in 1 byte    0xC_ size and count in 1 byte each    0xE_ the same, then one constructor for all elements
    0xB_ size in 4 bytes   0xD_ size and count in 4 bytes each   0xF_ the same, then one constructor for all elements
    0x00 a descriptor (any value), then the constructor and value that it describes

Whatever the bytes are, only DecodeError escapes, nothing is read at or past `end`, and what is allocated is less than
128 times the bytes at hand (the worst is an array of empty symbols, at 105): a count that the remaining bytes cannot
hold is refused before the first element.
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
from tandem.errors import DecodeError
from tandem.limits import MAX_NESTING_DEPTH, MAX_ZERO_WIDTH_ARRAY_COUNT

__all__ = ["decode", "decode_all", "skip"]

_TYPE_OF_CODE: Final = {
    0x40: types.NULL_TYPE,
    0x41: types.BOOLEAN_TYPE,
    0x42: types.BOOLEAN_TYPE,
    0x43: types.UINT_TYPE,
    0x44: types.ULONG_TYPE,
    0x45: types.LIST_TYPE,
    0x50: types.UBYTE_TYPE,
    0x51: types.BYTE_TYPE,
    0x52: types.UINT_TYPE,
    0x53: types.ULONG_TYPE,
    0x54: types.INT_TYPE,
    0x55: types.LONG_TYPE,
    0x56: types.BOOLEAN_TYPE,
    0x60: types.USHORT_TYPE,
    0x61: types.SHORT_TYPE,
    0x70: types.UINT_TYPE,
    0x71: types.INT_TYPE,
    0x72: types.FLOAT_TYPE,
    0x73: types.CHAR_TYPE,
    0x74: types.DECIMAL32_TYPE,
    0x80: types.ULONG_TYPE,
    0x81: types.LONG_TYPE,
    0x82: types.DOUBLE_TYPE,
    0x83: types.TIMESTAMP_TYPE,
    0x84: types.DECIMAL64_TYPE,
    0x94: types.DECIMAL128_TYPE,
    0x98: types.UUID_TYPE,
    0xA0: types.BINARY_TYPE,
    0xA1: types.STRING_TYPE,
    0xA3: types.SYMBOL_TYPE,
    0xB0: types.BINARY_TYPE,
    0xB1: types.STRING_TYPE,
    0xB3: types.SYMBOL_TYPE,
    0xC0: types.LIST_TYPE,
    0xC1: types.MAP_TYPE,
    0xD0: types.LIST_TYPE,
    0xD1: types.MAP_TYPE,
    0xE0: types.ARRAY_TYPE,
    0xF0: types.ARRAY_TYPE,
}

# What follows a constructor: 0 to 16 is a fixed number of bytes, the others are these.
_SIZE_IN_1: Final = 0x21
_SIZE_IN_4: Final = 0x24
_DESCRIPTOR: Final = 0x30
_UNKNOWN: Final = 0xFF
_LAYOUT_OF_NIBBLE: Final = (
    *(_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, 0, 1, 2, 4, 8, 16),
    *(_SIZE_IN_1, _SIZE_IN_4, _SIZE_IN_1, _SIZE_IN_4, _SIZE_IN_1, _SIZE_IN_4),
)
_LAYOUT: Final = bytes(
    [_DESCRIPTOR] + [_LAYOUT_OF_NIBBLE[code >> 4] if code in _TYPE_OF_CODE else _UNKNOWN for code in range(1, 256)]
)

# 0xD_ and 0xF_ differ from 0xC_ and 0xE_ in this bit only: the width of size and count.
_WITHOUT_SIZE_WIDTH: Final = 0xEF

# Constructors 0x40 to 0x44, and 0x50 to 0x55 with each of their 256 values: immutable, so made once and shared.
_ZERO_WIDTH: Final[tuple[object, ...]] = (None, True, False, UInt(0), ULong(0))
_ONE_BYTE: Final[tuple[object, ...]] = (
    *[UByte(number) for number in range(256)],
    *[Byte(number - 256 if number > 127 else number) for number in range(256)],
    *[UInt(number) for number in range(256)],
    *[ULong(number) for number in range(256)],
    *[Int(number - 256 if number > 127 else number) for number in range(256)],
    *[number - 256 if number > 127 else number for number in range(256)],
)

# struct's letter for the elements of an array; the types that are absent are cut out of the bytes one by one.
_LETTER: Final = {
    0x60: "H",
    0x61: "h",
    0x70: "I",
    0x71: "i",
    0x72: "f",
    0x73: "I",
    0x80: "Q",
    0x81: "q",
    0x82: "d",
    0x83: "q",
}
_WRAPPER: Final[dict[int, Callable[[Any], object]]] = {
    0x60: UShort,
    0x61: Short,
    0x70: UInt,
    0x71: Int,
    0x72: Float,
    0x80: ULong,
    0x83: Timestamp,
}

_unpack_ushort: Final = struct.Struct(">H").unpack_from
_unpack_short: Final = struct.Struct(">h").unpack_from
_unpack_uint: Final = struct.Struct(">I").unpack_from
_unpack_int: Final = struct.Struct(">i").unpack_from
_unpack_float: Final = struct.Struct(">f").unpack_from
_unpack_ulong: Final = struct.Struct(">Q").unpack_from
_unpack_long: Final = struct.Struct(">q").unpack_from
_unpack_double: Final = struct.Struct(">d").unpack_from
_unpack_size_and_count: Final = struct.Struct(">II").unpack_from


def decode(data: bytes, offset: int, end: int) -> tuple[object, int]:
    """One value of `data[offset:end]`, and the offset behind it."""
    if not 0 <= offset <= end <= len(data):
        raise DecodeError(f"bytes {offset} to {end} are not within the {len(data)} bytes at hand")
    return _value(data, offset, end, 0)


def decode_all(data: bytes) -> object:
    """The one value that `data` consists of."""
    value, offset = _value(data, 0, len(data), 0)
    if offset != len(data):
        raise DecodeError(f"{len(data) - offset} bytes are left over behind the value that ends at offset {offset}")
    return value


def skip(data: bytes, offset: int, end: int) -> int:
    """The offset behind the value at `offset`, by its constructor and size alone: its contents are not looked at."""
    if not 0 <= offset <= end <= len(data):
        raise DecodeError(f"bytes {offset} to {end} are not within the {len(data)} bytes at hand")
    # A described value is two values. Descriptors can be described in turn, so count what is still to come.
    pending = 1
    while pending:
        if offset >= end:
            raise _no_value(offset)
        layout = _LAYOUT[data[offset]]
        if layout <= 16:
            stop = offset + 1 + layout
        elif layout == _SIZE_IN_1:
            if end - offset < 2:
                raise _too_short(data[offset], offset, 2, end)
            stop = offset + 2 + data[offset + 1]
        elif layout == _SIZE_IN_4:
            if end - offset < 5:
                raise _too_short(data[offset], offset, 5, end)
            stop = offset + 5 + int(_unpack_uint(data, offset + 1)[0])
        elif layout == _DESCRIPTOR:
            pending += 2
            if pending > MAX_NESTING_DEPTH + 2:
                raise _too_deep(offset)
            stop = offset + 1
        else:
            raise _unknown_code(data[offset], offset)
        if stop > end:
            raise _too_short(data[offset], offset, stop - offset, end)
        pending -= 1
        offset = stop
    return offset


def _value(data: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    """One value within `depth` compound or described ones. Constructors are tried in the order of their frequency."""
    if offset >= end:
        raise _no_value(offset)
    code = data[offset]
    if 0x40 <= code <= 0x44:
        return _ZERO_WIDTH[code - 0x40], offset + 1
    if 0xA0 <= code <= 0xA3 and offset + 1 < end:
        # In full here and not in _variable_width, which knows how to say what is wrong: a call saved for each string.
        stop = offset + 2 + data[offset + 1]
        if stop <= end:
            octets = data[offset + 2 : stop]
            try:
                if code == 0xA1:
                    return octets.decode("utf-8"), stop
                if code == 0xA3:
                    return Symbol(octets.decode("ascii")), stop
                if code == 0xA0:
                    return octets, stop
            except UnicodeDecodeError:
                pass
    if 0x50 <= code <= 0x55:
        if offset + 2 > end:
            raise _too_short(code, offset, 2, end)
        return _ONE_BYTE[(code - 0x50) * 256 + data[offset + 1]], offset + 2
    if code >= 0xC0:
        kind = code & _WITHOUT_SIZE_WIDTH
        if kind == 0xC1:
            return _map(data, code, offset + 1, end, depth)
        if kind == 0xC0:
            return _list(data, code, offset + 1, end, depth)
        if kind == 0xE0:
            return _array(data, code, offset + 1, end, depth)
    if code == 0x00:
        if depth >= MAX_NESTING_DEPTH:
            raise _too_deep(offset)
        descriptor, offset = _value(data, offset + 1, end, depth + 1)
        value, offset = _value(data, offset, end, depth + 1)
        return Described(descriptor, value), offset
    if 0xA0 <= code <= 0xB3:
        return _variable_width(data, code, offset + 1, end)
    return _fixed_width(data, code, offset + 1, end, depth)


def _variable_width(data: bytes, code: int, offset: int, end: int) -> tuple[object, int]:
    """Binary, string or symbol; `offset` is that of its size."""
    if code < 0xB0:
        if offset >= end:
            raise _too_short(code, offset - 1, 2, end)
        start = offset + 1
        stop = start + data[offset]
    else:
        if end - offset < 4:
            raise _too_short(code, offset - 1, 5, end)
        start = offset + 4
        stop = start + int(_unpack_uint(data, offset)[0])
    if stop > end:
        raise _too_short(code, offset - 1, stop - offset + 1, end)
    octets = data[start:stop]
    kind = code & 0x0F
    try:
        if kind == 1:
            return octets.decode("utf-8"), stop
        if kind == 3:
            return Symbol(octets.decode("ascii")), stop
    except UnicodeDecodeError as error:
        encoding = "UTF-8" if kind == 1 else "ASCII"
        raise DecodeError(
            f"{_name(code)} at offset {offset - 1} is not {encoding}: "
            f"{error.reason} (byte 0x{octets[error.start]:02x} at offset {start + error.start})"
        ) from None
    if kind:
        raise _unknown_code(code, offset - 1)
    return octets, stop


def _fixed_width(data: bytes, code: int, offset: int, end: int, depth: int) -> tuple[object, int]:
    """The types of fixed width that `_value` does not read itself; `offset` is that of their first byte."""
    width = _LAYOUT[code]
    if width > 16:
        raise _unknown_code(code, offset - 1)
    stop = offset + width
    if stop > end:
        raise _too_short(code, offset - 1, width + 1, end)
    if code == 0x83:
        return Timestamp(_unpack_long(data, offset)[0]), stop
    if code == 0x71:
        return Int(_unpack_int(data, offset)[0]), stop
    if code == 0x81:
        return _unpack_long(data, offset)[0], stop
    if code == 0x70:
        return UInt(_unpack_uint(data, offset)[0]), stop
    if code == 0x80:
        return ULong(_unpack_ulong(data, offset)[0]), stop
    if code == 0x56:
        return _boolean(data[offset], offset), stop
    if code == 0x98:
        return uuid.UUID(bytes=data[offset:stop]), stop
    if code == 0x45:
        # A list all the same: at a depth where no list may be, an empty one may not either.
        if depth >= MAX_NESTING_DEPTH:
            raise _too_deep(offset - 1)
        empty: list[object] = []
        return empty, stop
    if code == 0x60:
        return UShort(_unpack_ushort(data, offset)[0]), stop
    if code == 0x61:
        return Short(_unpack_short(data, offset)[0]), stop
    if code == 0x82:
        return _unpack_double(data, offset)[0], stop
    if code == 0x72:
        return Float(_unpack_float(data, offset)[0]), stop
    if code == 0x73:
        return _char(_unpack_uint(data, offset)[0], offset), stop
    return _decimal(width, data[offset:stop]), stop


def _boolean(octet: int, offset: int) -> bool:
    if octet > 1:
        raise DecodeError(f"boolean at offset {offset} is 0x{octet:02x}; only 0x00 and 0x01 are allowed")
    return octet == 1


def _char(code_point: int, offset: int) -> Char:
    if code_point > 0x10FFFF or 0xD800 <= code_point <= 0xDFFF:
        raise DecodeError(
            f"char at offset {offset} is U+{code_point:04X}; only U+0000 to U+10FFFF without surrogates are allowed"
        )
    return Char(chr(code_point))


def _decimal(width: int, raw: bytes) -> object:
    if width == 4:
        return Decimal32(raw)
    if width == 8:
        return Decimal64(raw)
    return Decimal128(raw)


def _compound_header(data: bytes, code: int, offset: int, end: int, depth: int) -> tuple[int, int, int]:
    """Offset of the contents, count, and offset behind the contents, of a list, map or array."""
    if depth >= MAX_NESTING_DEPTH:
        raise _too_deep(offset - 1)
    # 0xC_ and 0xE_ have one byte each, 0xD_ and 0xF_ have four.
    if code & 0x10:
        if end - offset < 8:
            raise _too_short(code, offset - 1, 9, end)
        size, count = _unpack_size_and_count(data, offset)
        stop = offset + 4 + int(size)
        start = offset + 8
    else:
        if end - offset < 2:
            raise _too_short(code, offset - 1, 3, end)
        count = data[offset + 1]
        stop = offset + 1 + data[offset]
        start = offset + 2
    if stop > end:
        raise _too_short(code, offset - 1, stop - offset + 1, end)
    if stop < start:
        size = stop - offset - (start - offset) // 2
        raise DecodeError(
            f"{_name(code)} at offset {offset - 1} has a size of {size} bytes, too small for its own count"
        )
    return start, int(count), stop


def _list(data: bytes, code: int, offset: int, end: int, depth: int) -> tuple[object, int]:
    start = offset
    offset, count, stop = _compound_header(data, code, offset, end, depth)
    if count > stop - offset:
        raise _too_many(code, start - 1, count, stop - offset)
    depth += 1
    items: list[object] = []
    for _ in range(count):
        if offset < stop and 0x40 <= data[offset] <= 0x44:
            # As in _value, without the call: most fields of most performatives are null or a flag.
            items.append(_ZERO_WIDTH[data[offset] - 0x40])
            offset += 1
        else:
            item, offset = _value(data, offset, stop, depth)
            items.append(item)
    if offset != stop:
        raise _left_over(code, start - 1, stop - offset)
    return items, stop


def _map(data: bytes, code: int, offset: int, end: int, depth: int) -> tuple[object, int]:
    start = offset
    offset, count, stop = _compound_header(data, code, offset, end, depth)
    if count > stop - offset:
        raise _too_many(code, start - 1, count, stop - offset)
    if count & 1:
        raise DecodeError(f"{_name(code)} at offset {start - 1} has {count} keys and values, which cannot be paired")
    depth += 1
    pairs: dict[object, object] = {}
    uuid_hashes: set[int] = set()
    for expected in range(1, count // 2 + 1):
        key_offset = offset
        key, offset = _value(data, offset, stop, depth)
        value, offset = _value(data, offset, stop, depth)
        if data[key_offset] == 0x98:
            _check_uuid_key(key, uuid_hashes, key_offset)
        try:
            pairs[key] = value
        except TypeError:
            kind = _TYPE_OF_CODE.get(data[key_offset], "described type")
            raise DecodeError(f"map key at offset {key_offset} is of type {kind}, which cannot be a key") from None
        if len(pairs) != expected:
            raise DecodeError(f"map key at offset {key_offset} is {repr(key)[:64]}, which the map already has")
    if offset != stop:
        raise _left_over(code, start - 1, stop - offset)
    return pairs, stop


def _check_uuid_key(key: object, uuid_hashes: set[int], offset: int) -> None:
    """Python hashes a UUID as its number modulo 2^61 - 1, without a secret: a peer can send 2^67 that hash alike.

    60,000 such keys in a frame would cost minutes. By chance two UUIDs hash alike once in 2^61 pairs, so that
    refusing the second one harms nobody. The other types of keys hash with a secret or have few values per hash.
    """
    number = hash(key)
    if number in uuid_hashes:
        raise DecodeError(f"map key at offset {offset} is {key}, which the map already has or which hashes alike")
    uuid_hashes.add(number)


def _array(data: bytes, code: int, offset: int, end: int, depth: int) -> tuple[object, int]:
    start = offset
    offset, count, stop = _compound_header(data, code, offset, end, depth)
    if offset == stop and count == 0:
        # The specification wants a constructor even so; the official Python SDK writes none for an empty array.
        return Array(types.NULL_TYPE, []), stop
    depth += 1
    descriptors: tuple[object, ...] = ()
    while offset < stop and data[offset] == 0x00:
        if depth >= MAX_NESTING_DEPTH:
            raise _too_deep(offset)
        depth += 1
        descriptor, offset = _value(data, offset + 1, stop, depth)
        descriptors += (descriptor,)
    if offset >= stop:
        raise _no_value(offset)
    element_code = data[offset]
    layout = _LAYOUT[element_code]
    if layout == _UNKNOWN:
        raise _unknown_code(element_code, offset)
    offset += 1
    if layout == 0:
        if count > MAX_ZERO_WIDTH_ARRAY_COUNT:
            raise _too_many_without_width(code, start - 1, count)
        value, offset = _value(data, offset - 1, stop, depth)
        array = Array.repeated(_TYPE_OF_CODE[element_code], value, count, descriptors)
    else:
        # A size field has one byte or four, and the count of a compound element as many.
        least_width = (
            layout if layout <= 16 else (4 if layout == _SIZE_IN_4 else 1) * (2 if element_code >= 0xC0 else 1)
        )
        if count * least_width > stop - offset:
            raise _too_many(code, start - 1, count, stop - offset)
        if layout <= 16:
            items = _fixed_elements(data, element_code, offset, count)
            offset += count * layout
        else:
            items, offset = _varying_elements(data, element_code, offset, stop, count, depth)
        array = Array(_TYPE_OF_CODE[element_code], items, descriptors)
    if offset != stop:
        raise _left_over(code, start - 1, stop - offset)
    return array, stop


def _varying_elements(
    data: bytes, code: int, offset: int, stop: int, count: int, depth: int
) -> tuple[list[object], int]:
    items: list[object] = []
    kind = code & _WITHOUT_SIZE_WIDTH
    for _ in range(count):
        if kind < 0xC0:
            item, offset = _variable_width(data, code, offset, stop)
        elif kind == 0xC0:
            item, offset = _list(data, code, offset, stop, depth)
        elif kind == 0xC1:
            item, offset = _map(data, code, offset, stop, depth)
        else:
            item, offset = _array(data, code, offset, stop, depth)
        items.append(item)
    return items, offset


def _fixed_elements(data: bytes, code: int, offset: int, count: int) -> list[object]:
    """`count` elements whose bytes are known to be there."""
    width = _LAYOUT[code]
    stop = offset + count * width
    if code in _LETTER:
        numbers = struct.unpack_from(f">{count}{_LETTER[code]}", data, offset)
        if code == 0x73:
            return [_char(number, offset + 4 * index) for index, number in enumerate(numbers)]
        wrapper = _WRAPPER.get(code)
        return list(numbers) if wrapper is None else [wrapper(number) for number in numbers]
    if code == 0x56:
        return [_boolean(data[position], position) for position in range(offset, stop)]
    if width == 1:
        row = (code - 0x50) * 256
        return [_ONE_BYTE[row + octet] for octet in data[offset:stop]]
    pieces = [data[position : position + width] for position in range(offset, stop, width)]
    if code == 0x98:
        return [uuid.UUID(bytes=piece) for piece in pieces]
    return [_decimal(width, piece) for piece in pieces]


def _too_short(code: int, offset: int, needed: int, end: int) -> DecodeError:
    """For the value with constructor `code` at `offset`, whose bytes reach past `end`."""
    if code not in _TYPE_OF_CODE:
        return _unknown_code(code, offset)
    return DecodeError(f"{_name(code)} at offset {offset} takes {needed} bytes, but only {end - offset} are left")


def _no_value(offset: int) -> DecodeError:
    return DecodeError(f"a value should start at offset {offset}, but no bytes are left")


def _unknown_code(code: int, offset: int) -> DecodeError:
    return DecodeError(f"constructor 0x{code:02x} at offset {offset} is not a type of AMQP 1.0")


def _too_deep(offset: int) -> DecodeError:
    return DecodeError(f"value at offset {offset} is nested deeper than {MAX_NESTING_DEPTH} levels")


def _too_many(code: int, offset: int, count: int, room: int) -> DecodeError:
    return DecodeError(f"{_name(code)} at offset {offset} has {count} elements, which {room} bytes cannot hold")


def _too_many_without_width(code: int, offset: int, count: int) -> DecodeError:
    return DecodeError(
        f"{_name(code)} at offset {offset} has {count} elements without width; "
        f"at most {MAX_ZERO_WIDTH_ARRAY_COUNT} are allowed"
    )


def _left_over(code: int, offset: int, surplus: int) -> DecodeError:
    return DecodeError(f"{_name(code)} at offset {offset} has a size {surplus} bytes larger than its elements")


def _name(code: int) -> str:
    return f"{_TYPE_OF_CODE[code]} (0x{code:02x})"
