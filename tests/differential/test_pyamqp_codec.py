"""Our codec against the one inside the official Service Bus SDK, which nobody here wrote.

A seeded generator makes values of every type that both know. What we encode, the SDK decodes to the same value; what
the SDK encodes, we decode to the same value. `TANDEM_DIFFERENTIAL_VALUES` sets how many values (100,000 unless set).

The SDK deviates from AMQP 1.0 in places. Each is left out of the comparison where it has to be, and has a test in the
second half of this file that fails when the SDK changes:

- it has no char, decimal32 and decimal64;
- it reads decimal128 only in the layout of the service (see tandem.amqp.decimals) and up to 2^32 - 1, so that only what
  it writes is compared, and writes no infinity and no NaN;
- it decodes string, symbol and binary all to bytes;
- it forgets the descriptor of null, booleans, uuids and described values, adds it as a key to a described map, and
  gives the five outcomes (descriptors 0x23 to 0x27) as a dict of their name;
- it neither writes nor expects the constructor of an empty array, so that it misreads what follows one of ours;
- the arrays that it writes of booleans, of nulls, of described values, and of uint or ulong with a 0 among them, are
  malformed.
"""

from __future__ import annotations

import decimal
import os
import random
import struct
import uuid
from collections.abc import Callable
from typing import Any, Final

import pytest
from azure.servicebus._pyamqp import _decode as sdk_decode
from azure.servicebus._pyamqp import _encode as sdk_encode

from tandem.amqp.decimals import decimal_from_bid
from tandem.amqp.decode import decode_all
from tandem.amqp.encode import encode
from tandem.amqp.types import (
    ARRAY_TYPE,
    BINARY_TYPE,
    BOOLEAN_TYPE,
    BYTE_TYPE,
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
from tandem.errors import DecodeError
from tests.amqp.values import WITHOUT_WIDTH, strictly_equal

VALUES: Final = int(os.environ.get("TANDEM_DIFFERENTIAL_VALUES", "100000"))
PARTS: Final = 8

# The outcomes, which the SDK gives as a dict of their name.
OUTCOMES: Final = {0x23: "received", 0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified"}

SDK_TYPE_OF: Final[dict[type, str]] = {
    type(None): "NULL",
    bool: "BOOL",
    UByte: "UBYTE",
    UShort: "USHORT",
    UInt: "UINT",
    ULong: "ULONG",
    Byte: "BYTE",
    Short: "SHORT",
    Int: "INT",
    int: "LONG",
    Float: "FLOAT",
    float: "DOUBLE",
    Timestamp: "TIMESTAMP",
    uuid.UUID: "UUID",
    bytes: "BINARY",
    str: "STRING",
    Symbol: "SYMBOL",
}


# --- Making values ----------------------------------------------------------------------------------------------


class Generator:
    """AMQP values at random. Numbers and lengths gather around the borders between two encodings."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.scalars: dict[str, Callable[[], object]] = {
            NULL_TYPE: lambda: None,
            BOOLEAN_TYPE: lambda: self.random.random() < 0.5,
            UBYTE_TYPE: lambda: UByte(self.unsigned(8)),
            USHORT_TYPE: lambda: UShort(self.unsigned(16)),
            UINT_TYPE: lambda: UInt(self.unsigned(32)),
            ULONG_TYPE: lambda: ULong(self.unsigned(64)),
            BYTE_TYPE: lambda: Byte(self.signed(8)),
            SHORT_TYPE: lambda: Short(self.signed(16)),
            INT_TYPE: lambda: Int(self.signed(32)),
            LONG_TYPE: lambda: self.signed(64),
            FLOAT_TYPE: lambda: Float(struct.unpack(">f", self.random.randbytes(4))[0]),
            DOUBLE_TYPE: lambda: struct.unpack(">d", self.random.randbytes(8))[0],
            TIMESTAMP_TYPE: lambda: Timestamp(self.signed(64)),
            UUID_TYPE: lambda: uuid.UUID(int=self.random.getrandbits(128)),
            BINARY_TYPE: lambda: self.random.randbytes(self.length()),
            STRING_TYPE: lambda: self.text("aZ09 -:/äß€日😀\x00\U0010ffff"),
            SYMBOL_TYPE: lambda: Symbol(self.text("azAZ09-:._\x00\x7f")),
        }
        self.names = list(self.scalars)

    def unsigned(self, bits: int) -> int:
        return self.random.getrandbits(self.random.randint(1, bits))

    def signed(self, bits: int) -> int:
        magnitude = self.random.getrandbits(self.random.randint(1, bits - 1))
        return magnitude if self.random.random() < 0.5 else -1 - magnitude

    def length(self) -> int:
        return (
            self.random.choice([0, 1, 5, 5, 12, 12, 30, 30]) if self.random.random() < 0.97 else 250 + self.unsigned(4)
        )

    def text(self, alphabet: str) -> str:
        return "".join(self.random.choices(alphabet, k=self.length()))

    def scalar(self) -> object:
        return self.scalars[self.random.choice(self.names)]()

    def value(self, depth: int = 0) -> object:
        kind = self.random.random()
        if depth == 5 or kind < 0.5:
            return self.scalar()
        if kind < 0.65:
            return self.list(depth)
        if kind < 0.78:
            return self.map(depth)
        if kind < 0.92:
            return self.array(depth)
        return Described(self.scalar(), self.value(depth + 1))

    def count(self) -> int:
        return self.random.choice([0, 1, 2, 3]) if self.random.random() < 0.995 else 250 + self.unsigned(4)

    def list(self, depth: int) -> list[object]:
        count = self.count()
        return [self.scalar() if count > 200 else self.value(depth + 1) for _ in range(count)]

    def map(self, depth: int) -> dict[object, object]:
        # No two keys that either side takes for the same: to the SDK, a string is the bytes of it.
        pairs: dict[object, object] = {}
        sdk_keys = set()
        for _ in range(self.count()):
            key = self.scalars[
                self.random.choice([STRING_TYPE, SYMBOL_TYPE, UINT_TYPE, ULONG_TYPE, LONG_TYPE, UUID_TYPE])
            ]()
            sdk_key = key.encode() if isinstance(key, str) else key
            if sdk_key not in sdk_keys:
                sdk_keys.add(sdk_key)
                pairs[key] = self.value(depth + 1)
        return pairs

    def array(self, depth: int) -> Array:
        count = max(1, self.count())
        if self.random.random() < 0.2:
            constructor, value = self.random.choice(WITHOUT_WIDTH)
            return Array.repeated(constructor, value, count)
        elements: dict[str, Callable[[], object]] = {
            LIST_TYPE: lambda: self.list(depth + 1),
            MAP_TYPE: lambda: self.map(depth + 1),
            ARRAY_TYPE: lambda: Array(UINT_TYPE, [UInt(self.unsigned(32)) for _ in range(1 + self.unsigned(2))]),
        }
        constructor = self.random.choice(self.names + list(elements))
        make = self.scalars.get(constructor) or elements[constructor]
        descriptors = (self.scalar(),) if self.random.random() < 0.1 else ()
        return Array(constructor, [make() for _ in range(min(count, 3) if depth > 2 else count)], descriptors)


# --- Comparing --------------------------------------------------------------------------------------------------


def sdk_decoded(data: bytes) -> Any:
    rest, value = sdk_decode._DECODE_BY_CONSTRUCTOR[data[0]](memoryview(data)[1:])
    assert len(rest) == 0
    return value


def sdk_encoded(value: object) -> bytes:
    out = bytearray()
    sdk_encode.encode_value(out, for_sdk(value))
    return bytes(out)


def for_sdk(value: object) -> dict[str, Any]:
    """The value in the form that the SDK's encoder takes."""
    if isinstance(value, list):
        return {"TYPE": "LIST", "VALUE": [for_sdk(item) for item in value]}
    if isinstance(value, dict):
        return {"TYPE": "MAP", "VALUE": [(for_sdk(key), for_sdk(item)) for key, item in value.items()]}
    if isinstance(value, Described):
        return {"TYPE": "DESCRIBED", "VALUE": (for_sdk(value.descriptor), for_sdk(value.value))}
    if isinstance(value, Array):
        return {"TYPE": "ARRAY", "VALUE": [for_sdk(item) for item in value]}
    return {"TYPE": SDK_TYPE_OF[type(value)], "VALUE": value}


def shape_of_sdk(value: Any) -> object:
    """What the SDK decoded, comparable: NaN equals itself, a bool is no int, and descriptors count."""
    shape: object
    if isinstance(value, float):
        shape = f"float {float(value)!r}"
    elif isinstance(value, list):
        shape = [shape_of_sdk(item) for item in value]
    elif isinstance(value, dict):
        shape = [(shape_of_sdk(key), shape_of_sdk(item)) for key, item in value.items()]
    elif isinstance(value, bool):
        shape = f"bool {value}"
    elif isinstance(value, int):
        shape = int(value)
    elif isinstance(value, bytes):
        shape = bytes(value)
    else:
        shape = str(value)
    return ("described", shape_of_sdk(value.descriptor), shape) if hasattr(value, "descriptor") else shape


def shape_of_ours(value: object) -> object:
    """What the SDK should decode our value to, in the same form."""
    if isinstance(value, Described):
        return _described_shape(value.descriptor, value.value)
    if isinstance(value, Array):
        return [shape_of_ours(item) for item in value]
    if isinstance(value, list):
        return [shape_of_ours(item) for item in value]
    if isinstance(value, dict):
        return [(shape_of_ours(key), shape_of_ours(item)) for key, item in value.items()]
    if isinstance(value, str):
        return str(value).encode()
    return shape_of_sdk(value)


def _described_shape(descriptor: object, value: object) -> object:
    shape = shape_of_ours(value)
    if isinstance(value, dict):
        assert isinstance(shape, list)
        shape = [*shape, ("descriptor", shape_of_ours(descriptor))]
    if value is not None and not isinstance(value, (bool, uuid.UUID, Described)):
        shape = ("described", shape_of_ours(descriptor), shape)
    if isinstance(descriptor, (int, float)) and descriptor in OUTCOMES:
        return [(OUTCOMES[int(descriptor)], shape)]
    return shape


def can_be_written_by_sdk(value: object) -> bool:
    if isinstance(value, Array):
        return (
            not value.descriptors
            and value.constructor not in (NULL_TYPE, BOOLEAN_TYPE)
            and not (value.constructor in (UINT_TYPE, ULONG_TYPE) and 0 in value.items)
            and all(map(can_be_written_by_sdk, value))
        )
    if isinstance(value, list):
        return all(map(can_be_written_by_sdk, value))
    if isinstance(value, dict):
        return all(map(can_be_written_by_sdk, value.values()))
    return can_be_written_by_sdk(value.value) if isinstance(value, Described) else True


@pytest.mark.parametrize("part", range(PARTS))
def test_both_codecs_read_what_the_other_wrote(part: int) -> None:
    generator = Generator(part)
    written_by_sdk = 0
    while written_by_sdk < VALUES / PARTS:
        value = generator.value()
        ours = encode(value)
        assert shape_of_sdk(sdk_decoded(ours)) == shape_of_ours(value), f"{value!r} as {ours.hex()}"
        if can_be_written_by_sdk(value):
            written_by_sdk += 1
            theirs = sdk_encoded(value)
            assert strictly_equal(decode_all(theirs), value), f"{value!r} as {theirs.hex()}"


# --- Where the SDK deviates from AMQP 1.0, or from us -----------------------------------------------------------


@pytest.mark.parametrize("value", [Char("a"), Decimal32(bytes(4)), Decimal64(bytes(8))])
def test_the_sdk_has_no_char_decimal32_and_decimal64(value: object) -> None:
    with pytest.raises(TypeError):
        sdk_decoded(encode(value))


@pytest.mark.parametrize("text", ["1", "1.5", "Infinity"])
def test_the_sdk_misreads_a_decimal128(text: str) -> None:
    data = encode(Decimal128.from_decimal(decimal.Decimal(text)))
    try:
        read = sdk_decoded(data)
    except ValueError:
        return
    assert str(read) != text


def test_decimals_of_up_to_34_digits_are_read_as_the_sdk_writes_them() -> None:
    generator = random.Random(34)
    for _ in range(1_000):
        digits = generator.randrange(10 ** generator.randint(1, 34))
        number = decimal.Decimal(f"{generator.choice('+-')}{digits}E{generator.randint(-6176, 6111)}")
        out = bytearray()
        sdk_encode.encode_value(out, {"TYPE": "DECIMAL128", "VALUE": number})
        read = decode_all(bytes(out))
        assert isinstance(read, Decimal128)
        # In BID, as it is written: a few of these bytes are also a number in the layout of the service.
        assert decimal_from_bid(read.raw).as_tuple() == number.as_tuple()


def test_the_sdk_gives_text_as_bytes_and_adds_the_descriptor_to_a_map() -> None:
    assert sdk_decoded(encode(["a", Symbol("a"), b"a"])) == [b"a", b"a", b"a"]
    assert sdk_decoded(encode(Described(ULong(1), {}))) == {"descriptor": 1}


def test_the_sdk_takes_the_constructor_of_an_empty_array_for_the_next_value() -> None:
    assert sdk_decode._DECODE_BY_CONSTRUCTOR[0xC0](memoryview(encode([Array.of_symbols([]), b""]))[1:])[1] != [[], b""]


def test_an_empty_array_as_the_sdk_writes_it_is_read() -> None:
    assert sdk_encoded(Array.of_symbols([])).hex() == "e00100"
    assert decode_all(bytes.fromhex("e00100")) == Array(NULL_TYPE, [])


@pytest.mark.parametrize(
    "value",
    [
        Array(BOOLEAN_TYPE, [True, False]),
        Array(NULL_TYPE, [None, None]),
        Array(UINT_TYPE, [UInt(256), UInt(0)]),
        Array(ULONG_TYPE, [ULong(0), ULong(256)]),
        Array(UINT_TYPE, [UInt(256), UInt(257)], (ULong(1),)),
    ],
)
def test_arrays_that_the_sdk_writes_malformed_are_refused_or_differ(value: Array) -> None:
    try:
        read = decode_all(sdk_encoded(value))
    except DecodeError:
        return
    assert read != value
