"""Fields of composites: by position, typed, and never without the name of what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tandem.amqp.encode import encode
from tandem.amqp.fields import Fields, decode_composite, show, symbols
from tandem.amqp.types import (
    SYMBOL_TYPE,
    Array,
    Byte,
    Char,
    Described,
    Int,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tandem.errors import DecodeError
from tests.markers import spec

Read = Callable[[Fields], object]


def only(value: object) -> Fields:
    return Fields("thing", ("part",), [value])


class Kind(NamedTuple):
    """How a field is read, what a complaint calls it, a value it takes, and values of the nearest other types."""

    read: Read
    wanted: str
    value: object
    others: list[object]


KINDS = {
    "boolean": Kind(lambda fields: fields.boolean(0, False), "a boolean", True, [UByte(1), 1, "true"]),
    "ubyte": Kind(lambda fields: fields.ubyte(0), "a ubyte", UByte(3), [Byte(3), UInt(3), 3, True]),
    "ushort": Kind(lambda fields: fields.ushort(0), "a ushort", UShort(3), [UByte(3), UInt(3), 3, True]),
    "uint": Kind(lambda fields: fields.uint(0), "a uint", UInt(3), [Int(3), ULong(3), UShort(3), 3, False]),
    "ulong": Kind(lambda fields: fields.ulong(0), "a ulong", ULong(3), [UInt(3), Timestamp(3), 3]),
    "string": Kind(lambda fields: fields.string(0), "a string", "text", [Symbol("text"), Char("t"), b"text"]),
    "symbol": Kind(lambda fields: fields.symbol(0), "a symbol", Symbol("name"), ["name", Char("n"), b"name"]),
    "binary": Kind(lambda fields: fields.binary(0), "a binary", b"octets", ["octets", Symbol("octets"), [1]]),
    "map": Kind(lambda fields: fields.mapping(0), "a map", {"a": 1}, [["a", 1], Described(ULong(1), {})]),
    "symbols": Kind(
        lambda fields: fields.symbols(0),
        "symbols",
        Array.of_symbols(["a", "b"]),
        ["a", [Symbol("a")], Array("string", ["a"]), Array(SYMBOL_TYPE, [Symbol("a")], (ULong(1),))],
    ),
}
REQUIRED: dict[str, Read] = {
    "uint": lambda fields: fields.required(0, fields.uint(0)),
    "string": lambda fields: fields.required(0, fields.string(0)),
    "symbol": lambda fields: fields.required(0, fields.symbol(0)),
    "binary": lambda fields: fields.required(0, fields.binary(0)),
}
WRONG = [(name, value) for name, kind in KINDS.items() for value in kind.others]


@pytest.mark.parametrize("name", KINDS)
def test_a_field_of_its_type_is_read(name: str) -> None:
    kind = KINDS[name]
    assert kind.read(only(kind.value)) == (["a", "b"] if name == "symbols" else kind.value)


@spec("amqp:1.4")
@pytest.mark.parametrize("name", KINDS)
def test_null_and_absence_both_mean_that_a_field_is_not_set(name: str) -> None:
    read = KINDS[name].read
    not_set = False if name == "boolean" else None
    assert read(only(None)) is not_set
    assert read(Fields("thing", ("part",), [])) is not_set


def test_a_boolean_that_is_not_set_has_the_default_of_its_field() -> None:
    assert Fields("thing", ("part",), []).boolean(0, True) is True


@pytest.mark.parametrize("name, value", WRONG)
def test_a_field_of_another_type_is_a_decode_error_that_names_it(name: str, value: object) -> None:
    with pytest.raises(DecodeError, match=f"^thing.part must be {KINDS[name].wanted}, got "):
        KINDS[name].read(only(value))


@pytest.mark.parametrize("name", REQUIRED)
def test_a_mandatory_field_is_read(name: str) -> None:
    value = KINDS[name].value
    assert REQUIRED[name](only(value)) == value


@pytest.mark.parametrize("name", REQUIRED)
def test_a_mandatory_field_that_is_not_set_is_a_decode_error_that_names_it(name: str) -> None:
    with pytest.raises(DecodeError, match=r"^thing\.part is mandatory and was not set$"):
        REQUIRED[name](only(None))


@spec("amqp:1.4")
def test_a_multiple_field_may_be_one_symbol_or_an_array_or_an_empty_array() -> None:
    assert only(Symbol("a")).symbols(0) == [Symbol("a")]
    assert only(Array.of_symbols(["a"])).symbols(0) == [Symbol("a")]
    assert only(Array.of_symbols([])).symbols(0) == []


def test_an_empty_array_of_any_type_is_no_symbols() -> None:
    # The official Python SDK writes an empty array without a constructor, which reads as an array of nulls.
    assert only(Array("null", [])).symbols(0) == []


def test_more_fields_than_a_composite_has_are_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="thing has 2 fields, it has at most 1"):
        Fields("thing", ("part",), [None, None])


def test_a_complaint_repeats_at_most_80_characters_of_the_value() -> None:
    with pytest.raises(DecodeError) as caught:
        only("x" * 5000).uint(0)
    assert len(str(caught.value)) < 130


def test_symbols_are_written_as_an_array() -> None:
    assert symbols([Symbol("a"), Symbol("b")]) == Array.of_symbols(["a", "b"])


@spec("amqp:1.4")
def test_no_symbols_are_written_as_null_and_never_as_an_empty_array() -> None:
    # Both mean the same, but the official Python SDK misreads what follows an empty array.
    assert symbols(None) is None
    assert symbols([]) is None


def test_a_composite_is_read_with_its_descriptor_and_its_end() -> None:
    data = b"\xff" + encode(Described(ULong(0x10), ["a", None])) + b"rest"
    assert decode_composite(data, 1, len(data)) == (ULong(0x10), ["a", None], len(data) - 4)


@pytest.mark.parametrize("value", [["a"], None, "text", {"a": 1}])
def test_a_value_without_a_descriptor_is_no_composite(value: object) -> None:
    data = encode(value)
    with pytest.raises(DecodeError, match="a described list was expected at offset 0, got"):
        decode_composite(data, 0, len(data))


@pytest.mark.parametrize("value", [None, {}, "text", Described(ULong(1), [])])
def test_a_described_value_other_than_a_list_is_no_composite(value: object) -> None:
    data = encode(Described(ULong(0x10), value))
    with pytest.raises(DecodeError, match="a described list was expected at offset 0, got a described"):
        decode_composite(data, 0, len(data))


def test_only_what_is_set_is_shown() -> None:
    assert show("Thing", ("a", "b", "c"), [1, None, False]) == "Thing(a=1, c=False)"
    assert show("Thing", ("a",), [None]) == "Thing()"
