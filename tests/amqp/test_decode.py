"""Bytes to AMQP values: every encoding, every malformation, and bounds on what a peer can make us allocate."""

from __future__ import annotations

import tracemalloc
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.decode import decode, decode_all, skip
from tandem.amqp.encode import encode
from tandem.amqp.types import Array, Described, UInt, ULong
from tandem.errors import DecodeError
from tandem.limits import MAX_NESTING_DEPTH, MAX_ZERO_WIDTH_ARRAY_COUNT
from tests.amqp.values import OTHER_ENCODINGS, PREFERRED_ENCODINGS, Encoding, strictly_equal, values
from tests.markers import spec

ALL_ENCODINGS = [pytest.param(encoding, id=encoding.label) for encoding in PREFERRED_ENCODINGS + OTHER_ENCODINGS]


@spec("amqp:1.6", "amqp:1.2")
@pytest.mark.parametrize("encoding", ALL_ENCODINGS)
def test_every_encoding_of_every_type_is_decoded(encoding: Encoding) -> None:
    assert strictly_equal(decode_all(bytes.fromhex(encoding.hex)), encoding.value)


@pytest.mark.parametrize("encoding", ALL_ENCODINGS)
def test_every_encoding_is_skipped_to_its_end(encoding: Encoding) -> None:
    data = bytes.fromhex(encoding.hex)
    assert skip(data, 0, len(data)) == len(data)


@pytest.mark.parametrize("encoding", ALL_ENCODINGS)
def test_an_encoding_cut_short_anywhere_is_a_decode_error(encoding: Encoding) -> None:
    data = bytes.fromhex(encoding.hex)
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode(data, 0, end)
        with pytest.raises(DecodeError):
            skip(data, 0, end)


def test_a_value_is_decoded_from_the_middle_of_a_buffer() -> None:
    assert decode(bytes.fromhex("ffff5205ffff"), 2, 4) == (UInt(5), 4)


def test_a_value_may_be_followed_by_others() -> None:
    assert decode(bytes.fromhex("52054041"), 0, 4) == (UInt(5), 2)
    assert skip(bytes.fromhex("52054041"), 0, 4) == 2


def test_bytes_behind_the_only_value_of_a_buffer_are_refused() -> None:
    with pytest.raises(DecodeError, match="2 bytes are left over behind the value that ends at offset 2"):
        decode_all(bytes.fromhex("52054041"))


@pytest.mark.parametrize("start, stop", [(-1, 1), (2, 1), (0, 3), (3, 3)])
def test_a_range_outside_of_the_buffer_is_refused(start: int, stop: int) -> None:
    with pytest.raises(DecodeError, match=f"bytes {start} to {stop} are not within the 2 bytes at hand"):
        decode(b"\x40\x40", start, stop)
    with pytest.raises(DecodeError, match=f"bytes {start} to {stop} are not within the 2 bytes at hand"):
        skip(b"\x40\x40", start, stop)


MALFORMED = [
    # Nothing there.
    ("", "a value should start at offset 0, but no bytes are left"),
    ("00 5324", "a value should start at offset 3, but no bytes are left"),
    ("c0 03 02 5205", "a value should start at offset 5, but no bytes are left"),
    ("c1 03 02 5205", "a value should start at offset 5, but no bytes are left"),
    # Constructors that are none.
    ("01", "constructor 0x01 at offset 0 is not a type of AMQP 1.0"),
    ("46", "constructor 0x46 at offset 0 is not"),
    ("57 00", "constructor 0x57 at offset 0 is not"),
    ("a2", "constructor 0xa2 at offset 0 is not"),
    ("a2 01 00", "constructor 0xa2 at offset 0 is not"),
    ("a4 01 00", "constructor 0xa4 at offset 0 is not"),
    ("b2 00000001 00", "constructor 0xb2 at offset 0 is not"),
    ("b4 00000001 00", "constructor 0xb4 at offset 0 is not"),
    ("c2 01 00", "constructor 0xc2 at offset 0 is not"),
    ("e1 01 00", "constructor 0xe1 at offset 0 is not"),
    ("ff", "constructor 0xff at offset 0 is not"),
    ("c0 02 01 4f", "constructor 0x4f at offset 3 is not"),
    # Too few bytes.
    ("52", r"uint \(0x52\) at offset 0 takes 2 bytes, but only 1 are left"),
    ("56", r"boolean \(0x56\) at offset 0 takes 2 bytes, but only 1 are left"),
    ("60 0a", r"ushort \(0x60\) at offset 0 takes 3 bytes, but only 2 are left"),
    ("83 000000f69b9e3c", r"timestamp \(0x83\) at offset 0 takes 9 bytes, but only 8 are left"),
    ("98 f275", r"uuid \(0x98\) at offset 0 takes 17 bytes, but only 3 are left"),
    ("a1", r"string \(0xa1\) at offset 0 takes 2 bytes, but only 1 are left"),
    ("a1 05 6869", r"string \(0xa1\) at offset 0 takes 7 bytes, but only 4 are left"),
    ("b0 000000", r"binary \(0xb0\) at offset 0 takes 5 bytes, but only 4 are left"),
    ("b0 ffffffff 00", r"binary \(0xb0\) at offset 0 takes 4294967300 bytes, but only 6 are left"),
    ("c0", r"list \(0xc0\) at offset 0 takes 3 bytes, but only 1 are left"),
    ("c0 05 01", r"list \(0xc0\) at offset 0 takes 7 bytes, but only 3 are left"),
    ("d0 00000004", r"list \(0xd0\) at offset 0 takes 9 bytes, but only 5 are left"),
    ("d1 ffffffff 00000000", r"map \(0xd1\) at offset 0 takes 4294967300 bytes, but only 9 are left"),
    # Sizes and counts that contradict each other or the contents.
    ("c0 00 00", r"list \(0xc0\) at offset 0 has a size of 0 bytes, too small for its own count"),
    ("d0 00000003 00000000", r"list \(0xd0\) at offset 0 has a size of 3 bytes, too small for its own count"),
    ("c0 02 00 40", r"list \(0xc0\) at offset 0 has a size 1 bytes larger than its elements"),
    ("c1 04 02 404142", r"map \(0xc1\) at offset 0 has a size 1 bytes larger than its elements"),
    ("c0 01 01", r"list \(0xc0\) at offset 0 has 1 elements, which 0 bytes cannot hold"),
    ("d0 00000004 ffffffff", r"list \(0xd0\) at offset 0 has 4294967295 elements, which 0 bytes cannot hold"),
    ("d1 00000004 fffffffe", r"map \(0xd1\) at offset 0 has 4294967294 elements, which 0 bytes cannot hold"),
    ("c1 02 01 40", r"map \(0xc1\) at offset 0 has 1 keys and values, which cannot be paired"),
    # Arrays.
    ("e0 01 01", "a value should start at offset 3, but no bytes are left"),
    ("e0 03 01 0040", "a value should start at offset 5, but no bytes are left"),
    ("e0 02 01 4f", "constructor 0x4f at offset 3 is not a type of AMQP 1.0"),
    ("e0 04 01 50 ffff", r"array \(0xe0\) at offset 0 has a size 1 bytes larger than its elements"),
    ("e0 04 01 40 4040", r"array \(0xe0\) at offset 0 has a size 2 bytes larger than its elements"),
    ("e0 04 01 a1 0000", r"array \(0xe0\) at offset 0 has a size 1 bytes larger than its elements"),
    ("e0 03 02 50 01", r"array \(0xe0\) at offset 0 has 2 elements, which 1 bytes cannot hold"),
    ("e0 05 02 81 000000", r"array \(0xe0\) at offset 0 has 2 elements, which 3 bytes cannot hold"),
    ("e0 05 01 98 000000", r"array \(0xe0\) at offset 0 has 1 elements, which 3 bytes cannot hold"),
    ("e0 03 02 a1 00", r"array \(0xe0\) at offset 0 has 2 elements, which 1 bytes cannot hold"),
    ("e0 09 02 b1 00000000000000", r"array \(0xe0\) at offset 0 has 2 elements, which 7 bytes cannot hold"),
    ("e0 05 02 c0 010001", r"array \(0xe0\) at offset 0 has 2 elements, which 3 bytes cannot hold"),
    ("e0 09 01 d0 00000000000000", r"array \(0xe0\) at offset 0 has 1 elements, which 7 bytes cannot hold"),
    ("f0 00000005 ffffffff 50", r"array \(0xf0\) at offset 0 has 4294967295 elements, which 0 bytes cannot hold"),
    ("f0 00000005 ffffffff 40", r"array \(0xf0\) at offset 0 has 4294967295 elements without width; at most 65536"),
    ("f0 00000005 00010001 45", "has 65537 elements without width; at most 65536 are allowed"),
    ("e0 04 02 56 0102", "boolean at offset 5 is 0x02"),
    ("e0 0a 02 73 00000041 0000d800", r"char at offset 8 is U\+D800"),
    # Values outside of their type.
    ("56 02", "boolean at offset 1 is 0x02; only 0x00 and 0x01 are allowed"),
    ("73 00110000", r"char at offset 1 is U\+110000; only U\+0000 to U\+10FFFF without surrogates are allowed"),
    ("73 0000d800", r"char at offset 1 is U\+D800"),
    ("73 0000dfff", r"char at offset 1 is U\+DFFF"),
    ("a1 02 c328", r"string \(0xa1\) at offset 0 is not UTF-8: invalid continuation byte \(byte 0xc3 at offset 2\)"),
    ("b1 00000003 eda080", r"string \(0xb1\) at offset 0 is not UTF-8: .* \(byte 0xed at offset 5\)"),
    ("a3 02 6180", r"symbol \(0xa3\) at offset 0 is not ASCII: .* \(byte 0x80 at offset 3\)"),
    ("b3 00000001 ff", r"symbol \(0xb3\) at offset 0 is not ASCII: .* \(byte 0xff at offset 5\)"),
    # Keys that are there twice, for Python at least, or that cannot be hashed.
    ("c1 07 04 520140 520141", r"map key at offset 6 is UInt\(1\), which the map already has"),
    ("c1 07 04 540140 550141", "map key at offset 6 is 1, which the map already has"),
    ("c1 06 04 4140 520140", r"map key at offset 5 is UInt\(1\), which the map already has"),
    ("c1 09 04 a1016140 a3016140", r"map key at offset 7 is Symbol\('a'\), which the map already has"),
    ("c1 03 02 4540", "map key at offset 3 is of type list, which cannot be a key"),
    ("c1 05 02 c10100 40", "map key at offset 3 is of type map, which cannot be a key"),
    ("c1 05 02 e00100 40", "map key at offset 3 is of type array, which cannot be a key"),
    ("c1 06 02 00530140 40", "map key at offset 3 is of type described type, which cannot be a key"),
]


@spec("amqp:1.6")
@pytest.mark.parametrize("data, message", MALFORMED)
def test_malformed_bytes_are_a_decode_error_that_says_what_and_where(data: str, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_all(bytes.fromhex(data))


MALFORMED_FOR_SKIP = [
    ("", "a value should start at offset 0, but no bytes are left"),
    ("00 5324", "a value should start at offset 3, but no bytes are left"),
    ("4f", "constructor 0x4f at offset 0 is not a type of AMQP 1.0"),
    ("52", r"uint \(0x52\) at offset 0 takes 2 bytes, but only 1 are left"),
    ("a1", r"string \(0xa1\) at offset 0 takes 2 bytes, but only 1 are left"),
    ("c0 05 01", r"list \(0xc0\) at offset 0 takes 7 bytes, but only 3 are left"),
    ("d0 000000", r"list \(0xd0\) at offset 0 takes 5 bytes, but only 4 are left"),
    ("f0 ffffffff 00", r"array \(0xf0\) at offset 0 takes 4294967300 bytes, but only 6 are left"),
]


@pytest.mark.parametrize("data, message", MALFORMED_FOR_SKIP)
def test_skipping_what_does_not_fit_is_a_decode_error_that_says_what_and_where(data: str, message: str) -> None:
    octets = bytes.fromhex(data)
    with pytest.raises(DecodeError, match=message):
        skip(octets, 0, len(octets))


def test_skipping_does_not_look_into_a_compound_value() -> None:
    list_of_an_unknown_type = bytes.fromhex("c0 02 01 4f")
    assert skip(list_of_an_unknown_type, 0, 4) == 4


def test_the_text_of_an_error_stays_short_when_the_key_is_long() -> None:
    pair = encode("x" * 100_000) + b"\x40"
    size = (4 + 2 * len(pair)).to_bytes(4, "big")
    with pytest.raises(DecodeError, match="which the map already has") as error:
        decode_all(b"\xd1" + size + b"\x00\x00\x00\x04" + pair + pair)
    assert len(str(error.value)) < 200


# --- Bounds -----------------------------------------------------------------------------------------------------


def _wrapped(prefix: str, size: int, middle: str) -> Callable[[bytes], bytes]:
    """What puts a value into another whose size counts `size` bytes more than the value has."""
    return lambda inner: bytes.fromhex(prefix) + (size + len(inner)).to_bytes(4, "big") + bytes.fromhex(middle) + inner


# Each wraps a value in one more level, or in two where LEVELS says so.
WRAPPINGS: dict[str, Callable[[bytes], bytes]] = {
    "list": _wrapped("d0", 4, "00000001"),
    "map": _wrapped("d1", 5, "00000002 40"),
    "array": _wrapped("f0", 4, "00000001"),
    "array of described": _wrapped("f0", 6, "00000001 00 40"),
    "described value": lambda inner: b"\x00\x53\x01" + inner,
    "described descriptor": lambda inner: b"\x00" + inner + b"\x40",
}
LEVELS = {"array of described": 2}


@pytest.mark.parametrize("kind", WRAPPINGS)
def test_nesting_is_decoded_down_to_the_limit_and_refused_below_it(kind: str) -> None:
    wrap = WRAPPINGS[kind]
    data = b"\x40"
    for _ in range(MAX_NESTING_DEPTH // LEVELS.get(kind, 1)):
        data = wrap(data)
    decode_all(data)
    assert skip(data, 0, len(data)) == len(data)
    with pytest.raises(DecodeError, match="is nested deeper than 32 levels"):
        decode_all(wrap(data))


@pytest.mark.parametrize("innermost", ["45", "c00100", "c10100", "e0020040", "00 40 40"])
def test_an_empty_compound_value_below_the_limit_is_refused_too(innermost: str) -> None:
    data = bytes.fromhex(innermost)
    for _ in range(MAX_NESTING_DEPTH):
        data = WRAPPINGS["list"](data)
    with pytest.raises(DecodeError, match="is nested deeper than 32 levels"):
        decode_all(data)


def test_an_array_of_described_elements_below_the_limit_is_refused() -> None:
    data = b"\xe0\x04\x01\x00\x40\x40"
    for _ in range(MAX_NESTING_DEPTH - 1):
        data = WRAPPINGS["list"](data)
    with pytest.raises(DecodeError, match="is nested deeper than 32 levels"):
        decode_all(data)


def test_descriptors_without_end_are_refused_without_recursion() -> None:
    for data in (b"\x00" * 100_000, b"\xf0\x00\x01\x00\x04\x00\x00\x00\x01" + b"\x00" * 65_536):
        with pytest.raises(DecodeError, match="is nested deeper than 32 levels"):
            decode_all(data)
    with pytest.raises(DecodeError, match="is nested deeper than 32 levels"):
        skip(b"\x00" * 100_000, 0, 100_000)


def test_an_array_without_width_is_not_expanded() -> None:
    array = decode_all(b"\xf0\x00\x00\x00\x05" + MAX_ZERO_WIDTH_ARRAY_COUNT.to_bytes(4, "big") + b"\x40")
    assert isinstance(array, Array)
    assert len(array) == MAX_ZERO_WIDTH_ARRAY_COUNT
    assert array.items == [None]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xd0\xff\xff\xff\xff\xff\xff\xff\xff", id="list of 4 GiB"),
        pytest.param(b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff", id="list of 4 G elements"),
        pytest.param(b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x81", id="array of 4 G longs"),
        pytest.param(b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x45", id="array of 4 G empty lists"),
        pytest.param(b"\xb0\xff\xff\xff\xff", id="binary of 4 GiB"),
    ],
)
def test_what_is_announced_but_not_there_is_not_allocated(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode_all(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "constructor, element",
    [
        pytest.param("f0", "a3 00", id="array of empty symbols"),
        pytest.param("f0", "e0 0100", id="array of empty arrays"),
        pytest.param("f0", "a3 0161", id="array of short symbols"),
        pytest.param("f0", "60 ffff", id="array of ushorts"),
        pytest.param("f0", "73 0001f600", id="array of chars"),
        pytest.param("d0", "45", id="list of empty lists"),
        pytest.param("d0", "a300", id="list of empty symbols"),
        pytest.param("d0", "c1 03 02 4040", id="list of small maps"),
        pytest.param("d0", "004040", id="list of described nulls"),
    ],
)
def test_memory_stays_below_128_times_the_bytes_decoded(constructor: str, element: str) -> None:
    count = 20_000
    shared, each = (element[:2], element[2:]) if constructor == "f0" else ("", element)
    contents = bytes.fromhex(shared) + bytes.fromhex(each) * count
    data = bytes.fromhex(constructor) + (4 + len(contents)).to_bytes(4, "big") + count.to_bytes(4, "big") + contents
    tracemalloc.start()
    try:
        decode_all(data)
        assert tracemalloc.get_traced_memory()[1] < 128 * len(data)
    finally:
        tracemalloc.stop()


def test_uuid_keys_that_hash_alike_are_refused_before_they_cost_time() -> None:
    modulus = 2**61 - 1
    keys = [uuid.UUID(int=1 + modulus * multiple) for multiple in range(2)]
    assert hash(keys[0]) == hash(keys[1])
    with pytest.raises(
        DecodeError, match=f"map key at offset 21 is {keys[1]}, which the map already has or which hashes"
    ):
        decode_all(encode(dict.fromkeys(keys)))


def test_uuid_keys_that_differ_are_accepted() -> None:
    keys = {uuid.UUID(int=number): UInt(number) for number in range(100)}
    assert decode_all(encode(keys)) == keys


# --- Properties -------------------------------------------------------------------------------------------------


@spec("amqp:1.6")
@given(values)
def test_what_was_encoded_is_decoded_to_the_same_value_and_type(value: object) -> None:
    data = encode(value)
    assert strictly_equal(decode_all(data), value)
    assert skip(data, 0, len(data)) == len(data)


@given(values)
def test_a_value_cut_short_anywhere_is_a_decode_error(value: object) -> None:
    data = encode(value)
    for end in range(min(len(data), 400)):
        with pytest.raises(DecodeError):
            decode(data, 0, end)


# Constructors are one byte in six: bytes drawn from them get deeper into the decoder than arbitrary ones.
_CODES = sorted({bytes.fromhex(encoding.hex)[0] for encoding in PREFERRED_ENCODINGS + OTHER_ENCODINGS})
almost_amqp = st.lists(st.one_of(st.sampled_from(_CODES), st.integers(0, 8), st.integers(0, 255)), max_size=60).map(
    bytes
)


@given(st.one_of(almost_amqp, st.binary(max_size=200)))
def test_arbitrary_bytes_raise_only_decode_errors_and_skip_agrees_with_decode(data: bytes) -> None:
    try:
        value, offset = decode(data, 0, len(data))
    except DecodeError:
        return
    assert skip(data, 0, len(data)) == offset
    assert strictly_equal(decode_all(encode(value)), value)


@given(values, st.data())
def test_a_value_with_bytes_changed_raises_only_decode_errors(value: object, data: st.DataObject) -> None:
    octets = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    try:
        skip(bytes(octets), 0, len(octets))
        changed, _ = decode(bytes(octets), 0, len(octets))
    except DecodeError:
        return
    assert strictly_equal(decode_all(encode(changed)), changed)


def test_a_descriptor_of_a_performative_is_a_ulong() -> None:
    value = decode_all(bytes.fromhex("00 5310 c0 02 01 40"))
    assert value == Described(ULong(0x10), [None])
