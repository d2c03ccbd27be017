"""AMQP values to bytes: the smallest encoding of each, and errors that say what to do."""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import mmap
import uuid
from typing import Any

import pytest

from tandem.amqp.decode import decode_all
from tandem.amqp.encode import encode, encode_described_list, encode_into
from tandem.amqp.types import (
    ARRAY_TYPE,
    BINARY_TYPE,
    BOOLEAN_TYPE,
    CHAR_TYPE,
    DOUBLE_TYPE,
    FLOAT_TYPE,
    INT_TYPE,
    LIST_TYPE,
    LONG_TYPE,
    MAP_TYPE,
    NULL_TYPE,
    STRING_TYPE,
    SYMBOL_TYPE,
    TIMESTAMP_TYPE,
    UBYTE_TYPE,
    UINT_TYPE,
    ULONG_TYPE,
    UUID_TYPE,
    Array,
    Byte,
    Char,
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
from tandem.limits import MAX_NESTING_DEPTH
from tests.amqp.values import PREFERRED_ENCODINGS, SOME_UUID, Encoding, strictly_equal
from tests.markers import spec


@spec("amqp:1.6", "amqp:1.2")
@pytest.mark.parametrize("encoding", [pytest.param(encoding, id=encoding.label) for encoding in PREFERRED_ENCODINGS])
def test_every_value_is_written_in_its_smallest_encoding(encoding: Encoding) -> None:
    assert encode(encoding.value).hex() == bytes.fromhex(encoding.hex).hex()


def test_values_are_appended_to_what_is_there() -> None:
    out = bytearray(b"frame")
    encode_into(out, UInt(5))
    encode_into(out, None)
    assert out == b"frame\x52\x05\x40"


def test_nothing_is_appended_when_a_part_of_the_value_cannot_be_encoded() -> None:
    out = bytearray(b"frame")
    with pytest.raises(EncodeError):
        encode_into(out, ["begun", object()])
    assert out == b"frame"


# --- The form of performatives ----------------------------------------------------------------------------------


@spec("amqp:1.4")
def test_a_described_list_has_a_small_descriptor_and_all_its_fields() -> None:
    assert encode_described_list(0x24, []).hex() == "005324c00100"
    assert encode_described_list(0x18, [None, None]).hex() == "005318c003024040"
    assert encode_described_list(0, [True]).hex() == "005300c0020141"


def test_a_described_list_above_254_bytes_is_a_list32() -> None:
    assert encode_described_list(0x11, [b"x" * 300]).hex().startswith("005311d000000135" + "00000001" + "b00000012c")


@pytest.mark.parametrize("descriptor", [-1, 256])
def test_a_described_list_takes_only_descriptors_of_one_byte(descriptor: int) -> None:
    with pytest.raises(EncodeError, match=f"descriptor {descriptor} is not within 0 to 255"):
        encode_described_list(descriptor, [])


def test_the_fields_of_a_described_list_are_one_level_deep() -> None:
    fields: list[object] = [_in_lists(None, MAX_NESTING_DEPTH - 2)]
    assert decode_all(encode_described_list(0x10, fields)) == Described(ULong(0x10), fields)
    with pytest.raises(EncodeError, match="nested deeper than 32 levels"):
        encode_described_list(0x10, [_in_lists(None, MAX_NESTING_DEPTH - 1)])


# --- Python types beyond those that decode gives ----------------------------------------------------------------


class Priority(enum.IntEnum):
    HIGH = 4


class Mode(enum.StrEnum):
    MOVE = "move"


class Handle(UInt):
    pass


@pytest.mark.parametrize(
    "value, equivalent",
    [
        ((None, True), [None, True]),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abc")[1:], b"bc"),
        (memoryview(b"abcd")[::2], b"ac"),
        (memoryview(array.array("H", [1])), array.array("H", [1]).tobytes()),
        (Priority.HIGH, 4),
        (Mode.MOVE, "move"),
        (Handle(7), UInt(7)),
        (collections.OrderedDict(a=True), {"a": True}),
        (Array(UINT_TYPE, [1, 256]), Array(UINT_TYPE, [UInt(1), UInt(256)])),
        (Array(LONG_TYPE, [UInt(1)]), Array(LONG_TYPE, [1])),
        (Array(TIMESTAMP_TYPE, [1]), Array(TIMESTAMP_TYPE, [Timestamp(1)])),
        (Array(SYMBOL_TYPE, ["a"]), Array(SYMBOL_TYPE, [Symbol("a")])),
        (Array(STRING_TYPE, [Symbol("a")]), Array(STRING_TYPE, ["a"])),
        (Array(CHAR_TYPE, ["a"]), Array(CHAR_TYPE, [Char("a")])),
        (Array(FLOAT_TYPE, [1.5]), Array(FLOAT_TYPE, [Float(1.5)])),
        (Array(DOUBLE_TYPE, [Float(1.5)]), Array(DOUBLE_TYPE, [1.5])),
        (Array(BINARY_TYPE, [bytearray(b"a"), memoryview(b"b")]), Array(BINARY_TYPE, [b"a", b"b"])),
        (Array(LIST_TYPE, [(True,)]), Array(LIST_TYPE, [[True]])),
        (Array(NULL_TYPE, [None, None]), Array.repeated(NULL_TYPE, None, 2)),
        (Array.repeated(UINT_TYPE, UInt(0), 1), Array(UINT_TYPE, [UInt(0)])),
        (Array.repeated(UINT_TYPE, UInt(0), 0), Array(UINT_TYPE, [])),
    ],
)
def test_what_python_has_beyond_the_types_of_amqp_is_written_as_the_nearest(value: object, equivalent: object) -> None:
    assert strictly_equal(decode_all(encode(value)), equivalent)


# --- Ranges -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrapper, low, high, name",
    [
        (UByte, 0, 2**8 - 1, "ubyte"),
        (UShort, 0, 2**16 - 1, "ushort"),
        (UInt, 0, 2**32 - 1, "uint"),
        (ULong, 0, 2**64 - 1, "ulong"),
        (Byte, -(2**7), 2**7 - 1, "byte"),
        (Short, -(2**15), 2**15 - 1, "short"),
        (Int, -(2**31), 2**31 - 1, "int"),
        (int, -(2**63), 2**63 - 1, "long"),
        (Timestamp, -(2**63), 2**63 - 1, "timestamp"),
    ],
)
def test_an_integer_outside_of_its_type_is_an_encode_error(wrapper: type[int], low: int, high: int, name: str) -> None:
    for number in (low, high):
        assert decode_all(encode(wrapper(number))) == number
        assert decode_all(encode(Array(name, [wrapper(number)]))) == Array(name, [number])
    for number in (low - 1, high + 1, -(10**30), 10**30):
        with pytest.raises(EncodeError, match=f"^{number} is out of the range of {name}$"):
            encode(wrapper(number))
        with pytest.raises(EncodeError, match=f"^{number} is out of the range of {name}$"):
            encode(Array(name, [wrapper(number)]))


def test_a_float_beyond_32_bits_is_an_encode_error() -> None:
    with pytest.raises(EncodeError, match=r"1e\+300 is out of the range of float"):
        encode(Float(1e300))
    with pytest.raises(EncodeError, match=r"1e\+300 is out of the range of float"):
        encode(Array(FLOAT_TYPE, [1e300]))


@pytest.mark.parametrize("text", ["", "ab", "\ud800"])
def test_a_char_that_is_not_one_code_point_is_an_encode_error(text: str) -> None:
    with pytest.raises(EncodeError, match="is not one code point"):
        encode(Char(text))


def test_a_string_with_a_surrogate_is_an_encode_error() -> None:
    with pytest.raises(EncodeError, match=r"string has the surrogate U\+D800 at 2"):
        encode("ab\ud800")


def test_a_symbol_that_is_not_ascii_is_an_encode_error() -> None:
    with pytest.raises(EncodeError, match=r"symbol Symbol\('aä'\) is not ASCII: U\+00E4 at 1"):
        encode(Symbol("aä"))
    with pytest.raises(EncodeError, match=r"symbol 'ä' is not ASCII: U\+00E4 at 0"):
        encode(Array(SYMBOL_TYPE, ["ä"]))


def test_a_binary_of_4_gib_is_an_encode_error() -> None:
    # Pages of an anonymous map exist only when they are touched, so this takes no memory.
    with mmap.mmap(-1, 2**32) as pages, memoryview(pages) as view:
        for value in (view, Array(BINARY_TYPE, [view])):
            with pytest.raises(EncodeError, match="a value of 4294967296 bytes is beyond the 4294967295"):
                encode(value)
        del value


# --- What cannot be encoded -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, message",
    [
        (object(), "a object has no AMQP type; use one of the types listed in tandem.amqp.types"),
        (
            datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
            r"a datetime has no AMQP type; use Timestamp.from_datetime",
        ),
        (decimal.Decimal(1), r"a Decimal has no AMQP type; use Decimal32, Decimal64 or Decimal128.from_decimal\(\)"),
        ({1}, "a set has no AMQP type; use a list or an Array"),
        ([frozenset()], "a frozenset has no AMQP type; use a list or an Array"),
        ({"key": 1j}, "a complex has no AMQP type"),
        ({(1, 2): True}, r"map key \(1, 2\) would be a list, which cannot be a key"),
    ],
)
def test_a_python_type_without_amqp_type_is_an_encode_error_with_advice(value: object, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode(value)


@pytest.mark.parametrize(
    "constructor, item",
    [
        (NULL_TYPE, 0),
        (BOOLEAN_TYPE, 1),
        (UBYTE_TYPE, "a"),
        (INT_TYPE, True),
        (LONG_TYPE, 1.0),
        (FLOAT_TYPE, 1),
        (DOUBLE_TYPE, 1),
        (CHAR_TYPE, 65),
        (UUID_TYPE, str(SOME_UUID)),
        (BINARY_TYPE, "a"),
        (STRING_TYPE, b"a"),
        (SYMBOL_TYPE, b"a"),
        (LIST_TYPE, {}),
        (MAP_TYPE, []),
        (ARRAY_TYPE, []),
    ],
)
def test_an_array_of_one_type_refuses_elements_of_another(constructor: str, item: object) -> None:
    with pytest.raises(EncodeError, match=f"an array of {constructor} cannot hold .*, a {type(item).__name__}"):
        encode(Array(constructor, [item]))


def test_an_array_without_width_that_no_decoder_would_take_is_an_encode_error() -> None:
    with pytest.raises(EncodeError, match="an array of 65537 elements without width is beyond 65536"):
        encode(Array.repeated(ULONG_TYPE, ULong(0), 65_537))


# --- Widths that all elements of an array share -----------------------------------------------------------------


def _width_of(value: Array) -> str:
    """The constructor of the elements, in hex."""
    data = encode(value)
    return data[3:4].hex() if data[0] == 0xE0 else data[9:10].hex()


@pytest.mark.parametrize(
    "constructor, small, large, code_small, code_large",
    [
        (UINT_TYPE, UInt(255), UInt(256), "52", "70"),
        (ULONG_TYPE, ULong(255), ULong(256), "53", "80"),
        (INT_TYPE, Int(127), Int(128), "54", "71"),
        (INT_TYPE, Int(-128), Int(-129), "54", "71"),
        (LONG_TYPE, 127, 128, "55", "81"),
        (LONG_TYPE, -128, -129, "55", "81"),
        (BINARY_TYPE, b"x" * 255, b"x" * 256, "a0", "b0"),
        (STRING_TYPE, "x" * 255, "x" * 256, "a1", "b1"),
        (SYMBOL_TYPE, Symbol("x" * 255), Symbol("x" * 256), "a3", "b3"),
        (LIST_TYPE, [None] * 254, [None] * 255, "c0", "d0"),
        (MAP_TYPE, {"": b"x" * 250}, {"": b"x" * 251}, "c1", "d1"),
        (ARRAY_TYPE, Array(UBYTE_TYPE, [UByte(1)] * 253), Array(UBYTE_TYPE, [UByte(1)] * 254), "e0", "f0"),
        (ARRAY_TYPE, Array.repeated(NULL_TYPE, None, 255), Array.repeated(NULL_TYPE, None, 256), "e0", "f0"),
    ],
)
def test_the_widest_element_decides_the_encoding_of_all(
    constructor: str, small: object, large: object, code_small: str, code_large: str
) -> None:
    assert _width_of(Array(constructor, [small, small])) == code_small
    mixed = Array(constructor, [small, large])
    assert _width_of(mixed) == code_large
    assert strictly_equal(decode_all(encode(mixed)), mixed)


@pytest.mark.parametrize("count", [253, 254, 255, 256])
def test_array8_becomes_array32_when_size_or_count_pass_one_byte(count: int) -> None:
    value = Array(UBYTE_TYPE, [UByte(1)] * count)
    assert encode(value)[0] == (0xE0 if count <= 253 else 0xF0)
    assert decode_all(encode(value)) == value


def test_the_arrays_that_the_product_writes() -> None:
    tokens = [uuid.UUID(int=number) for number in range(2)]
    assert encode(Array(UUID_TYPE, tokens)).hex() == "e0220298" + "00" * 16 + "00" * 15 + "01"
    assert encode(Array.of_symbols(["PLAIN", "ANONYMOUS"])).hex() == "e01202a305504c41494e09414e4f4e594d4f5553"
    assert decode_all(encode(Array(LONG_TYPE, [1, 2**40]))) == Array(LONG_TYPE, [1, 2**40])


# --- Nesting ----------------------------------------------------------------------------------------------------


def _in_lists(value: object, levels: int) -> object:
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value, levels",
    [
        ([], 1),
        ((), 1),
        ({}, 1),
        (Described(ULong(1), None), 1),
        (Described(Described(ULong(1), None), None), 2),
        (Array(UINT_TYPE, []), 1),
        (Array(UINT_TYPE, [], (ULong(1), ULong(2))), 3),
        (Array(LIST_TYPE, [[]]), 2),
        (Array(MAP_TYPE, [{}]), 2),
        (Array(ARRAY_TYPE, [Array(UINT_TYPE, [])]), 2),
        (Array.repeated(LIST_TYPE, [], 2), 2),
        (Array(UINT_TYPE, [], ([],)), 3),
    ],
)
def test_nesting_is_encoded_down_to_the_limit_and_refused_below_it(value: object, levels: int) -> None:
    deepest = _in_lists(value, MAX_NESTING_DEPTH - levels)
    decode_all(encode(deepest))
    with pytest.raises(EncodeError, match="value is nested deeper than 32 levels, or contains itself"):
        encode([deepest])


def test_a_value_that_contains_itself_is_an_encode_error() -> None:
    a_list: list[object] = []
    a_list += [a_list, a_list]
    a_map: dict[str, object] = {}
    a_map["self"] = a_map
    described = Described(ULong(1), None)
    described.value = described
    an_array = Array(ARRAY_TYPE, [])
    an_array.items.append(an_array)
    an_array.count = 1
    containing: list[Any] = [a_list, a_map, described, an_array]
    for value in containing:
        with pytest.raises(EncodeError, match="contains itself"):
            encode(value)
