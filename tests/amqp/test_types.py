"""The wrapper types: they show what they are, and compare as what they wrap."""

from __future__ import annotations

import datetime
import decimal

import pytest

from tandem.amqp.types import (
    BOOLEAN_TYPE,
    LIST_TYPE,
    NULL_TYPE,
    STRING_TYPE,
    SYMBOL_TYPE,
    UINT_TYPE,
    ULONG_TYPE,
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
from tandem.errors import DecodeError, EncodeError
from tests.markers import spec


@pytest.mark.parametrize("wrapper", [UByte, UShort, UInt, ULong, Byte, Short, Int, Timestamp])
def test_integer_wrappers_compare_hash_and_print_as_integers(wrapper: type[int]) -> None:
    number = wrapper(5)
    assert number == 5
    assert hash(number) == hash(5)
    assert repr(number) == f"{wrapper.__name__}(5)"
    assert str(number) == f"{number}" == "5"


def test_the_other_wrappers_compare_hash_and_print_as_what_they_wrap() -> None:
    assert (Float(1.5), Symbol("a"), Char("b")) == (1.5, "a", "b")
    assert {Float(1.5), Symbol("a"), Char("b")} == {1.5, "a", "b"}
    assert repr([Float(1.5), Symbol("a"), Char("b")]) == "[Float(1.5), Symbol('a'), Char('b')]"
    assert f"{Float(1.5)} {Symbol('a')} {Char('b')}" == "1.5 a b"


# --- Timestamp --------------------------------------------------------------------------------------------------


@spec("amqp:1.6.17")
@pytest.mark.parametrize(
    "milliseconds, text",
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (1_311_704_463_521, "2011-07-26T18:21:03.521000+00:00"),
        (-1, "1969-12-31T23:59:59.999000+00:00"),
        (-62_135_596_800_000, "0001-01-01T00:00:00+00:00"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999000+00:00"),
    ],
)
def test_a_timestamp_is_a_datetime_and_back(milliseconds: int, text: str) -> None:
    moment = Timestamp(milliseconds).to_datetime()
    assert moment.isoformat() == text
    assert repr(Timestamp.from_datetime(moment)) == f"Timestamp({milliseconds})"


@pytest.mark.parametrize("milliseconds", [-62_135_596_800_001, 253_402_300_800_000, 2**63 - 1, -(2**63)])
def test_a_timestamp_that_datetime_cannot_hold_is_a_decode_error(milliseconds: int) -> None:
    with pytest.raises(DecodeError, match=f"timestamp {milliseconds} ms is outside the years 1 to 9999"):
        Timestamp(milliseconds).to_datetime()


def test_a_datetime_of_any_zone_is_the_same_moment_and_less_than_a_millisecond_is_cut_off() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    assert Timestamp.from_datetime(datetime.datetime(1970, 1, 1, 2, 0, 0, 1999, tzinfo=zone)) == 1


def test_a_datetime_without_zone_is_an_encode_error() -> None:
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).replace(tzinfo=None)
    with pytest.raises(EncodeError, match="datetime 2026-01-01T00:00:00 has no time zone"):
        Timestamp.from_datetime(moment)


# --- Decimals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", [Decimal32, Decimal64, Decimal128])
def test_a_decimal_is_made_from_and_to_pythons(wrapper: type[Decimal32 | Decimal64 | Decimal128]) -> None:
    value = wrapper.from_decimal(decimal.Decimal("-1.50"))
    assert str(value.to_decimal()) == "-1.50"
    assert repr(value) == f"{wrapper.__name__}(-1.50)"


@pytest.mark.parametrize("wrapper, length", [(Decimal32, 4), (Decimal64, 8), (Decimal128, 16)])
def test_decimals_are_equal_when_their_bytes_are(
    wrapper: type[Decimal32 | Decimal64 | Decimal128], length: int
) -> None:
    value = wrapper(bytes(length))
    assert value == wrapper(bytes(length))
    assert hash(value) == hash(wrapper(bytes(length)))
    assert value != wrapper(b"\x01" * length)
    assert value != bytes(length)
    assert value != Described(bytes(length), None)


@pytest.mark.parametrize("wrapper, length", [(Decimal32, 4), (Decimal64, 8), (Decimal128, 16)])
def test_a_decimal_of_another_length_is_an_encode_error(
    wrapper: type[Decimal32 | Decimal64 | Decimal128], length: int
) -> None:
    with pytest.raises(EncodeError, match=f"{wrapper.__name__.lower()} takes {length} bytes, not 3; use from_decimal"):
        wrapper(b"123")


# --- Described --------------------------------------------------------------------------------------------------


def test_described_values_are_equal_when_descriptor_and_value_are() -> None:
    value = Described(ULong(0x24), [])
    assert value == Described(ULong(0x24), [])
    assert value != Described(ULong(0x25), [])
    assert value != Described(ULong(0x24), [None])
    assert value != []
    assert repr(value) == "Described(ULong(36), [])"


def test_described_values_and_arrays_are_not_hashable() -> None:
    for value in (Described(ULong(0x24), None), Array(STRING_TYPE, [])):
        with pytest.raises(TypeError, match="unhashable type"):
            hash(value)


# --- Array ------------------------------------------------------------------------------------------------------


def test_an_array_is_iterable_and_has_a_length() -> None:
    array = Array(STRING_TYPE, ("a", "b"))
    assert list(array) == ["a", "b"]
    assert len(array) == 2
    assert not array.is_repeated
    assert repr(array) == "Array('string', ['a', 'b'])"


def test_an_array_keeps_its_own_items() -> None:
    items = ["a"]
    array = Array(STRING_TYPE, items)
    items.append("b")
    assert list(array) == ["a"]


def test_the_elements_of_a_described_array_are_described_one() -> None:
    array = Array(STRING_TYPE, ["a", "b"], (ULong(1), ULong(2)))
    assert list(array) == [Described(ULong(1), Described(ULong(2), item)) for item in ("a", "b")]
    assert array.items == ["a", "b"]
    assert repr(array) == "Array('string', ['a', 'b'], (ULong(1), ULong(2)))"


def test_a_repeated_value_is_kept_once_and_counted() -> None:
    array = Array.repeated(NULL_TYPE, None, 60_000)
    assert array.is_repeated
    assert array.items == [None]
    assert len(array) == 60_000
    assert sum(1 for item in array if item is None) == 60_000
    assert repr(array) == "Array('null', [None] * 60000)"


def test_a_repeated_value_can_be_described() -> None:
    assert list(Array.repeated(BOOLEAN_TYPE, True, 2, (ULong(1),))) == [Described(ULong(1), True)] * 2


@pytest.mark.parametrize("count", [0, 1])
def test_a_value_repeated_at_most_once_is_an_ordinary_array(count: int) -> None:
    array = Array.repeated(UINT_TYPE, UInt(0), count)
    assert not array.is_repeated
    assert list(array) == [UInt(0)] * count


@pytest.mark.parametrize(
    "constructor, value",
    [
        (NULL_TYPE, False),
        (BOOLEAN_TYPE, 1),
        (UINT_TYPE, 1),
        (ULONG_TYPE, None),
        (LIST_TYPE, [None]),
        (SYMBOL_TYPE, ""),
    ],
)
def test_only_values_without_width_can_be_repeated(constructor: str, value: object) -> None:
    with pytest.raises(EncodeError, match=f"has no encoding without width as {constructor}"):
        Array.repeated(constructor, value, 2)


def test_a_repeated_array_equals_the_same_array_written_out() -> None:
    repeated = Array.repeated(BOOLEAN_TYPE, True, 3)
    assert repeated == Array(BOOLEAN_TYPE, [True, True, True])
    assert Array(BOOLEAN_TYPE, [True, True, True]) == repeated
    assert repeated == Array.repeated(BOOLEAN_TYPE, True, 3)
    assert repeated != Array(BOOLEAN_TYPE, [True, True, False])
    assert repeated != Array.repeated(BOOLEAN_TYPE, False, 3)
    assert repeated != Array.repeated(BOOLEAN_TYPE, True, 4)


def test_arrays_are_equal_when_type_elements_and_descriptors_are() -> None:
    array = Array(STRING_TYPE, ["a"])
    assert array == Array(STRING_TYPE, ["a"])
    assert array != Array(SYMBOL_TYPE, ["a"])
    assert array != Array(STRING_TYPE, ["b"])
    assert array != Array(STRING_TYPE, ["a"], (ULong(1),))
    assert array != ["a"]


def test_an_array_of_symbols_is_made_from_strings() -> None:
    array = Array.of_symbols(["PLAIN", "ANONYMOUS"])
    assert array == Array(SYMBOL_TYPE, [Symbol("PLAIN"), Symbol("ANONYMOUS")])
    assert all(type(item) is Symbol for item in array)


def test_an_array_of_an_unknown_type_is_an_encode_error() -> None:
    with pytest.raises(EncodeError, match="an array of 'text' is not possible; use one of null, boolean, ubyte"):
        Array("text", [])
