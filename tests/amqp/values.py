"""AMQP values for tests: their encodings byte by byte, Hypothesis strategies, and strict equality."""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

from hypothesis import strategies as st

from tandem.amqp.types import (
    ARRAY_TYPE,
    BINARY_TYPE,
    BOOLEAN_TYPE,
    BYTE_TYPE,
    CHAR_TYPE,
    DECIMAL32_TYPE,
    DECIMAL64_TYPE,
    DECIMAL128_TYPE,
    DOUBLE_TYPE,
    FLOAT_TYPE,
    INT_TYPE,
    LIST_TYPE,
    LONG_TYPE,
    MAP_TYPE,
    NULL_TYPE,
    SHORT_TYPE,
    STRING_TYPE,
    SYMBOL_TYPE,
    TIMESTAMP_TYPE,
    UBYTE_TYPE,
    UINT_TYPE,
    ULONG_TYPE,
    USHORT_TYPE,
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

SOME_UUID: Final = uuid.UUID("f275ea5e-0c57-4ad7-b11a-b20c563d3b71")
SOME_UUID_HEX: Final = "f275ea5e0c574ad7b11ab20c563d3b71"


class Encoding(NamedTuple):
    """One way to write a value."""

    label: str
    hex: str
    value: object


def strictly_equal(left: object, right: object) -> bool:
    """Equal in value and in AMQP type, and NaN is itself. Python holds UInt(1), 1, 1.0 and True for equal."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, list):
        assert isinstance(right, list)
        return len(left) == len(right) and all(map(strictly_equal, left, right))
    if isinstance(left, dict):
        assert isinstance(right, dict)
        return strictly_equal(list(left), list(right)) and strictly_equal(list(left.values()), list(right.values()))
    if isinstance(left, Described):
        assert isinstance(right, Described)
        return strictly_equal(left.descriptor, right.descriptor) and strictly_equal(left.value, right.value)
    if isinstance(left, Array):
        assert isinstance(right, Array)
        return (
            left.constructor == right.constructor
            and strictly_equal(list(left.descriptors), list(right.descriptors))
            and strictly_equal(list(left), list(right))
        )
    return left == right


# --- Encodings, byte by byte ------------------------------------------------------------------------------------

# What the encoder writes, and the decoder reads.
PREFERRED_ENCODINGS: Final = [
    Encoding("null", "40", None),
    Encoding("boolean true", "41", True),
    Encoding("boolean false", "42", False),
    Encoding("ubyte least", "5000", UByte(0)),
    Encoding("ubyte greatest", "50ff", UByte(255)),
    Encoding("ushort least", "600000", UShort(0)),
    Encoding("ushort greatest", "60ffff", UShort(65535)),
    Encoding("uint0", "43", UInt(0)),
    Encoding("smalluint least", "5201", UInt(1)),
    Encoding("smalluint greatest", "52ff", UInt(255)),
    Encoding("uint least", "7000000100", UInt(256)),
    Encoding("uint greatest", "70ffffffff", UInt(2**32 - 1)),
    Encoding("ulong0", "44", ULong(0)),
    Encoding("smallulong least", "5301", ULong(1)),
    Encoding("smallulong greatest", "53ff", ULong(255)),
    Encoding("ulong least", "800000000000000100", ULong(256)),
    Encoding("ulong greatest", "80ffffffffffffffff", ULong(2**64 - 1)),
    Encoding("byte least", "5180", Byte(-128)),
    Encoding("byte minus one", "51ff", Byte(-1)),
    Encoding("byte greatest", "517f", Byte(127)),
    Encoding("short least", "618000", Short(-32768)),
    Encoding("short greatest", "617fff", Short(32767)),
    Encoding("smallint least", "5480", Int(-128)),
    Encoding("smallint minus one", "54ff", Int(-1)),
    Encoding("smallint greatest", "547f", Int(127)),
    Encoding("int below smallint", "71ffffff7f", Int(-129)),
    Encoding("int above smallint", "7100000080", Int(128)),
    Encoding("int least", "7180000000", Int(-(2**31))),
    Encoding("int greatest", "717fffffff", Int(2**31 - 1)),
    Encoding("smalllong least", "5580", -128),
    Encoding("smalllong zero", "5500", 0),
    Encoding("smalllong greatest", "557f", 127),
    Encoding("long below smalllong", "81ffffffffffffff7f", -129),
    Encoding("long above smalllong", "810000000000000080", 128),
    Encoding("long least", "818000000000000000", -(2**63)),
    Encoding("long greatest", "817fffffffffffffff", 2**63 - 1),
    Encoding("float", "723fc00000", Float(1.5)),
    Encoding("float minus zero", "7280000000", Float(-0.0)),
    Encoding("float infinity", "727f800000", Float("inf")),
    Encoding("double", "823ff8000000000000", 1.5),
    Encoding("double minus infinity", "82fff0000000000000", float("-inf")),
    Encoding("decimal32", "743200000f", Decimal32(bytes.fromhex("3200000f"))),
    Encoding("decimal64", "8431a000000000000f", Decimal64(bytes.fromhex("31a000000000000f"))),
    Encoding("decimal128", "94303e" + "00" * 13 + "0f", Decimal128(bytes.fromhex("303e" + "00" * 13 + "0f"))),
    Encoding("char", "7300000041", Char("A")),
    Encoding("char beyond the basic plane", "730001f600", Char("😀")),
    Encoding("char greatest", "730010ffff", Char("\U0010ffff")),
    Encoding("timestamp", "830000013167adb8a1", Timestamp(1_311_704_463_521)),
    Encoding("timestamp before 1970", "83ffffffffffffffff", Timestamp(-1)),
    Encoding("timestamp year 10,000", "830000e677d21fdc00", Timestamp(253_402_300_800_000)),
    Encoding("uuid", "98" + SOME_UUID_HEX, SOME_UUID),
    Encoding("vbin8 empty", "a000", b""),
    Encoding("vbin8", "a003000aff", b"\x00\x0a\xff"),
    Encoding("vbin8 longest", "a0ff" + "78" * 255, b"x" * 255),
    Encoding("vbin32 shortest", "b000000100" + "78" * 256, b"x" * 256),
    Encoding("str8 empty", "a100", ""),
    Encoding("str8", "a10568656c6c6f", "hello"),
    Encoding("str8 of two-byte characters", "a104c3a4c3b6", "äö"),
    Encoding("str8 longest", "a1ff" + "78" * 255, "x" * 255),
    Encoding("str32 shortest", "b100000100" + "c3a4" * 128, "ä" * 128),
    Encoding("sym8 empty", "a300", Symbol("")),
    Encoding("sym8", "a30568656c6c6f", Symbol("hello")),
    Encoding("sym8 longest", "a3ff" + "78" * 255, Symbol("x" * 255)),
    Encoding("sym32 shortest", "b300000100" + "78" * 256, Symbol("x" * 256)),
    Encoding("list8 empty", "c00100", []),
    Encoding("list8", "c00402405205", [None, UInt(5)]),
    Encoding("list8 nested", "c00401c00100", [[]]),
    Encoding("list8 longest", "c0fffe" + "40" * 254, [None] * 254),
    Encoding("list32 by size", "d000000103000000ff" + "40" * 255, [None] * 255),
    Encoding("list32 by count", "d00000010400000100" + "40" * 256, [None] * 256),
    Encoding("map8 empty", "c10100", {}),
    Encoding("map8", "c10602a101615205", {"a": UInt(5)}),
    Encoding("map8 of symbol keys", "c1 09 04 a3016140 a3016241", {Symbol("a"): None, Symbol("b"): True}),
    Encoding("map32 by size", "d10000010500000002a10161a0fc" + "78" * 252, {"a": b"x" * 252}),
    Encoding("described by ulong", "005324c00100", Described(ULong(0x24), [])),
    Encoding("described by ulong 0", "00530040", Described(ULong(0), None)),
    Encoding("described by large ulong", "0080 0000046800000001 41", Described(ULong(0x0000_0468_0000_0001), True)),
    Encoding("described by symbol", "00a3016140", Described(Symbol("a"), None)),
    Encoding("described by described", "00005301 4041", Described(Described(ULong(1), None), True)),
    Encoding("array8 of null", "e0020340", Array.repeated(NULL_TYPE, None, 3)),
    Encoding("array8 of true", "e0020341", Array.repeated(BOOLEAN_TYPE, True, 3)),
    Encoding("array8 of false", "e0020342", Array.repeated(BOOLEAN_TYPE, False, 3)),
    Encoding("array8 of uint0", "e0020343", Array.repeated(UINT_TYPE, UInt(0), 3)),
    Encoding("array8 of ulong0", "e0020344", Array.repeated(ULONG_TYPE, ULong(0), 3)),
    Encoding("array8 of list0", "e0020345", Array.repeated(LIST_TYPE, [], 3)),
    Encoding("array32 of null", "f0000000050001000040", Array.repeated(NULL_TYPE, None, 65_536)),
    Encoding("array8 of boolean", "e004025601 00", Array(BOOLEAN_TYPE, [True, False])),
    Encoding("array8 of ubyte", "e0040250 01ff", Array(UBYTE_TYPE, [UByte(1), UByte(255)])),
    Encoding("array8 of ushort", "e0060260 0001ffff", Array(USHORT_TYPE, [UShort(1), UShort(65535)])),
    Encoding("array8 of smalluint", "e0040252 00ff", Array(UINT_TYPE, [UInt(0), UInt(255)])),
    Encoding("array8 of uint", "e00a0270 0000000100000100", Array(UINT_TYPE, [UInt(1), UInt(256)])),
    Encoding("array8 of smallulong", "e0040253 00ff", Array(ULONG_TYPE, [ULong(0), ULong(255)])),
    Encoding("array8 of ulong", "e00a0180 0000000000000100", Array(ULONG_TYPE, [ULong(256)])),
    Encoding("array8 of byte", "e0040251 807f", Array(BYTE_TYPE, [Byte(-128), Byte(127)])),
    Encoding("array8 of short", "e0060261 80007fff", Array(SHORT_TYPE, [Short(-32768), Short(32767)])),
    Encoding("array8 of smallint", "e0040254 807f", Array(INT_TYPE, [Int(-128), Int(127)])),
    Encoding("array8 of int", "e00a0271 ffffff7f00000001", Array(INT_TYPE, [Int(-129), Int(1)])),
    Encoding("array8 of smalllong", "e0040255 807f", Array(LONG_TYPE, [-128, 127])),
    Encoding("array8 of long", "e00a0181 0000000000000080", Array(LONG_TYPE, [128])),
    Encoding("array8 of float", "e0060172 3fc00000", Array(FLOAT_TYPE, [Float(1.5)])),
    Encoding("array8 of double", "e00a0182 3ff8000000000000", Array(DOUBLE_TYPE, [1.5])),
    Encoding("array8 of decimal32", "e0060174 3200000f", Array(DECIMAL32_TYPE, [Decimal32(bytes.fromhex("3200000f"))])),
    Encoding("array8 of decimal64", "e00a0184" + "01" * 8, Array(DECIMAL64_TYPE, [Decimal64(b"\x01" * 8)])),
    Encoding("array8 of decimal128", "e0120194" + "01" * 16, Array(DECIMAL128_TYPE, [Decimal128(b"\x01" * 16)])),
    Encoding("array8 of char", "e00a0273 000000410001f600", Array(CHAR_TYPE, [Char("A"), Char("😀")])),
    Encoding("array8 of timestamp", "e00a0183 0000000000000001", Array(TIMESTAMP_TYPE, [Timestamp(1)])),
    Encoding("array8 of uuid", "e0120198" + SOME_UUID_HEX, Array(UUID_TYPE, [SOME_UUID])),
    Encoding("array8 of vbin8", "e00502a0 01ff00", Array(BINARY_TYPE, [b"\xff", b""])),
    Encoding("array8 of str8", "e00602a1 02c3a400", Array(STRING_TYPE, ["ä", ""])),
    Encoding("array8 of sym8", "e00602a3 01610162", Array(SYMBOL_TYPE, [Symbol("a"), Symbol("b")])),
    Encoding(
        "array32 of str32",
        "f00000010d00000002b1 00000100" + "78" * 256 + "00000000",
        Array(STRING_TYPE, ["x" * 256, ""]),
    ),
    Encoding("array8 of list8", "e00702c0 0100 020140", Array(LIST_TYPE, [[], [None]])),
    Encoding("array8 of map8", "e00701c1 0402520141", Array(MAP_TYPE, [{UInt(1): True}])),
    Encoding("array8 of array8", "e00601e0 03015007", Array(ARRAY_TYPE, [Array(UBYTE_TYPE, [UByte(7)])])),
    Encoding("array8 without elements", "e00200a3", Array(SYMBOL_TYPE, [])),
    Encoding("array8 of described", "e00601 005305 5207", Array(UINT_TYPE, [UInt(7)], (ULong(5),))),
    Encoding(
        "array8 of twice described",
        "e00a01 00a30161 005305 5207",
        Array(UINT_TYPE, [UInt(7)], (Symbol("a"), ULong(5))),
    ),
    Encoding("array8 of described null", "e00602 00a30161 40", Array.repeated(NULL_TYPE, None, 2, (Symbol("a"),))),
]

# What other encoders write, and the decoder reads too.
OTHER_ENCODINGS: Final = [
    Encoding("boolean true in full", "5601", True),
    Encoding("boolean false in full", "5600", False),
    Encoding("smalluint zero", "5200", UInt(0)),
    Encoding("uint zero", "7000000000", UInt(0)),
    Encoding("smallulong zero", "5300", ULong(0)),
    Encoding("ulong zero", "800000000000000000", ULong(0)),
    Encoding("int zero", "7100000000", Int(0)),
    Encoding("long zero", "810000000000000000", 0),
    Encoding("vbin32 empty", "b000000000", b""),
    Encoding("str32", "b1000000026869", "hi"),
    Encoding("sym32", "b3000000026869", Symbol("hi")),
    Encoding("list0", "45", []),
    Encoding("list32 empty", "d00000000400000000", []),
    Encoding("list32", "d0000000050000000140", [None]),
    Encoding("map32 empty", "d10000000400000000", {}),
    Encoding("map32", "d1 00000007 00000002 a100 41", {"": True}),
    Encoding("array32 of list32", "f00000000d00000001d0 0000000400000000", Array(LIST_TYPE, [[]])),
    Encoding("array32 of map32", "f00000000d00000001d1 0000000400000000", Array(MAP_TYPE, [{}])),
    Encoding(
        "array32 of array32",
        "f00000000e00000001f0 000000050000000240",
        Array(ARRAY_TYPE, [Array.repeated(NULL_TYPE, None, 2)]),
    ),
    Encoding("array8 of vbin32", "e00701b0 00000001ff", Array(BINARY_TYPE, [b"\xff"])),
    Encoding("array8 without elements or constructor", "e00100", Array(NULL_TYPE, [])),
    Encoding("array32 without elements or constructor", "f00000000400000000", Array(NULL_TYPE, [])),
]

# --- Strategies -------------------------------------------------------------------------------------------------


def _integers(wrapper: type[int], low: int, high: int) -> st.SearchStrategy[object]:
    return st.integers(low, high).map(wrapper)


TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)

# Scalars of each type, by the name that an array of them has.
SCALARS: Final[dict[str, st.SearchStrategy[object]]] = {
    NULL_TYPE: st.none(),
    BOOLEAN_TYPE: st.booleans(),
    UBYTE_TYPE: _integers(UByte, 0, 2**8 - 1),
    USHORT_TYPE: _integers(UShort, 0, 2**16 - 1),
    UINT_TYPE: _integers(UInt, 0, 2**32 - 1),
    ULONG_TYPE: _integers(ULong, 0, 2**64 - 1),
    BYTE_TYPE: _integers(Byte, -(2**7), 2**7 - 1),
    SHORT_TYPE: _integers(Short, -(2**15), 2**15 - 1),
    INT_TYPE: _integers(Int, -(2**31), 2**31 - 1),
    LONG_TYPE: st.integers(-(2**63), 2**63 - 1),
    FLOAT_TYPE: st.floats(width=32).map(Float),
    DOUBLE_TYPE: st.floats(),
    DECIMAL32_TYPE: st.binary(min_size=4, max_size=4).map(Decimal32),
    DECIMAL64_TYPE: st.binary(min_size=8, max_size=8).map(Decimal64),
    DECIMAL128_TYPE: st.binary(min_size=16, max_size=16).map(Decimal128),
    CHAR_TYPE: st.characters(exclude_categories=["Cs"]).map(Char),
    TIMESTAMP_TYPE: _integers(Timestamp, -(2**63), 2**63 - 1),
    UUID_TYPE: st.uuids(),
    BINARY_TYPE: st.binary(max_size=300),
    STRING_TYPE: TEXTS,
    SYMBOL_TYPE: st.text(st.characters(max_codepoint=127), max_size=300).map(Symbol),
}

scalars: Final[st.SearchStrategy[object]] = st.one_of(*SCALARS.values())


# What an array can hold any number of in no bytes.
WITHOUT_WIDTH: Final[list[tuple[str, object]]] = [
    (NULL_TYPE, None),
    (BOOLEAN_TYPE, True),
    (BOOLEAN_TYPE, False),
    (UINT_TYPE, UInt(0)),
    (ULONG_TYPE, ULong(0)),
    (LIST_TYPE, []),
]


@st.composite
def _arrays(draw: st.DrawFn, values: st.SearchStrategy[object]) -> Array:
    descriptors = tuple(draw(st.lists(scalars, max_size=2)))
    if draw(st.booleans()):
        constructor, value = draw(st.sampled_from(WITHOUT_WIDTH))
        return Array.repeated(constructor, value, draw(st.integers(0, 300)), descriptors)
    elements: dict[str, st.SearchStrategy[object]] = {
        **SCALARS,
        LIST_TYPE: st.lists(values, max_size=3),
        MAP_TYPE: st.dictionaries(scalars, values, max_size=3),
        ARRAY_TYPE: st.lists(SCALARS[STRING_TYPE], max_size=3).map(lambda items: Array(STRING_TYPE, items)),
    }
    constructor = draw(st.sampled_from(sorted(elements)))
    items = draw(st.lists(elements[constructor], max_size=5))
    if constructor == NULL_TYPE:
        # On the wire nulls are a number, and so they are read: as one that was written like that.
        return Array.repeated(NULL_TYPE, None, len(items), descriptors)
    return Array(constructor, items, descriptors)


def _compounds(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(
        st.lists(values, max_size=6),
        st.dictionaries(scalars, values, max_size=6),
        st.builds(Described, values, values),
        _arrays(values),
    )


# Any value that can be encoded.
values: Final[st.SearchStrategy[object]] = st.recursive(scalars, _compounds, max_leaves=15)
