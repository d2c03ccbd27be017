"""Fields of composites: by position, typed, and never without the name of what is wrong."""

from __future__ import annotations

from collections.abc import Callable

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
    return Fields("thing", [value], 1)


# How a field is read, a value it takes, and values of the nearest other types.
READERS: dict[str, tuple[Read, object, list[object]]] = {
    "boolean": (lambda fields: fields.boolean(0, "part", False), True, [UByte(1), 1, "true"]),
    "ubyte": (lambda fields: fields.ubyte(0, "part"), UByte(3), [Byte(3), UInt(3), 3, True]),
    "ushort": (lambda fields: fields.ushort(0, "part"), UShort(3), [UByte(3), UInt(3), 3, True]),
    "uint": (lambda fields: fields.uint(0, "part"), UInt(3), [Int(3), ULong(3), UShort(3), 3, False]),
    "ulong": (lambda fields: fields.ulong(0, "part"), ULong(3), [UInt(3), Timestamp(3), 3]),
    "string": (lambda fields: fields.string(0, "part"), "text", [Symbol("text"), Char("t"), b"text"]),
    "symbol": (lambda fields: fields.symbol(0, "part"), Symbol("name"), ["name", Char("n"), b"name"]),
    "binary": (lambda fields: fields.binary(0, "part"), b"octets", ["octets", Symbol("octets"), [1]]),
    "mapping": (lambda fields: fields.mapping(0, "part"), {"a": 1}, [["a", 1], Described(ULong(1), {})]),
    "symbols": (
        lambda fields: fields.symbols(0, "part"),
        Array.of_symbols(["a", "b"]),
        ["a", [Symbol("a")], Array("string", ["a"]), Array(SYMBOL_TYPE, [Symbol("a")], (ULong(1),))],
    ),
}
REQUIRED: dict[str, Read] = {
    "uint": lambda fields: fields.required_uint(0, "part"),
    "string": lambda fields: fields.required_string(0, "part"),
    "symbol": lambda fields: fields.required_symbol(0, "part"),
    "binary": lambda fields: fields.required_binary(0, "part"),
}
WRONG = [(kind, value) for kind, (_, _, values) in READERS.items() for value in values]


@pytest.mark.parametrize("kind", READERS)
def test_a_field_of_its_type_is_read(kind: str) -> None:
    read, value, _ = READERS[kind]
    assert read(only(value)) == (["a", "b"] if kind == "symbols" else value)


@spec("amqp:1.4")
@pytest.mark.parametrize("kind", READERS)
def test_null_and_absence_both_mean_that_a_field_is_not_set(kind: str) -> None:
    read, _, _ = READERS[kind]
    not_set = False if kind == "boolean" else None
    assert read(only(None)) == not_set
    assert read(Fields("thing", [], 1)) == not_set


def test_a_boolean_that_is_not_set_has_the_default_of_its_field() -> None:
    assert Fields("thing", [], 1).boolean(0, "part", True) is True


@pytest.mark.parametrize("kind, value", WRONG)
def test_a_field_of_another_type_is_a_decode_error_that_names_it(kind: str, value: object) -> None:
    read, _, _ = READERS[kind]
    with pytest.raises(DecodeError, match=rf"^thing\.part must be (a|an )?\s?{'' if kind == 'mapping' else kind}.*, got "):
        read(only(value))


@pytest.mark.parametrize("kind", REQUIRED)
def test_a_mandatory_field_is_read(kind: str) -> None:
    _, value, _ = READERS[kind]
    assert REQUIRED[kind](only(value)) == value


@pytest.mark.parametrize("kind", REQUIRED)
def test_a_mandatory_field_that_is_not_set_is_a_decode_error_that_names_it(kind: str) -> None:
    with pytest.raises(DecodeError, match=r"^thing\.part is mandatory and was not set$"):
        REQUIRED[kind](only(None))


@spec("amqp:1.4")
def test_a_multiple_field_may_be_one_symbol_or_an_array_or_an_empty_array() -> None:
    assert only(Symbol("a")).symbols(0, "part") == [Symbol("a")]
    assert only(Array.of_symbols(["a"])).symbols(0, "part") == [Symbol("a")]
    assert only(Array.of_symbols([])).symbols(0, "part") == []


def test_an_empty_array_of_any_type_is_no_symbols() -> None:
    # The official Python SDK writes an empty array without a constructor, which reads as an array of nulls.
    assert only(Array("null", [])).symbols(0, "part") == []


def test_more_fields_than_a_composite_has_are_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="thing has 2 fields, it has at most 1"):
        Fields("thing", [None, None], 1)


def test_a_complaint_repeats_at_most_80_characters_of_the_value() -> None:
    with pytest.raises(DecodeError) as caught:
        only("x" * 5000).uint(0, "part")
    assert len(str(caught.value)) < 130


def test_symbols_are_written_as_an_array_and_none_as_null() -> None:
    assert symbols(None) is None
    assert symbols([Symbol("a")]) == Array.of_symbols(["a"])
    assert symbols([]) == Array.of_symbols([])


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
