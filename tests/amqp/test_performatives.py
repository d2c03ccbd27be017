"""The nine performatives: exact bytes, round trips, defaults, and every wrong field named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.delivery_states import ACCEPTED, AmqpError, Rejected
from tandem.amqp.encode import encode
from tandem.amqp.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
    decode_performative,
)
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Char, Described, Symbol, UInt, ULong
from tandem.errors import DecodeError
from tests.amqp.composites import descriptor_spellings, performatives, spelled
from tests.markers import spec

CODES = {
    "open": 0x10,
    "begin": 0x11,
    "attach": 0x12,
    "flow": 0x13,
    "transfer": 0x14,
    "disposition": 0x15,
    "detach": 0x16,
    "end": 0x17,
    "close": 0x18,
}
# Performatives with every field set that has a wire form of its own.
FULL: dict[str, Performative] = {
    "open": Open("c", "h", 512, 7, 1000, [Symbol("a")], [Symbol("b")], [Symbol("o")], [Symbol("d")], {Symbol("p"): 1}),
    "begin": Begin(3, 1, 300, 0, 255, [Symbol("o")], [Symbol("d")], {Symbol("p"): 1}),
    "attach": Attach(
        "l",
        300,
        RECEIVER,
        1,
        0,
        Source("s"),
        Target("t"),
        {b"1": None},
        True,
        0,
        262_144,
        [Symbol("o")],
        [Symbol("d")],
        {Symbol("p"): 1},
    ),
    "flow": Flow(0, 5000, 1, 65_536, 2, 3, 100, 0, True, True, {Symbol("p"): 1}),
    "transfer": Transfer(0, 1, b"tag", 0, True, True, 1, ACCEPTED, True, True, True),
    "disposition": Disposition(RECEIVER, 1, 9, True, ACCEPTED, True),
    "detach": Detach(1, True, AmqpError("a:b", "c", {})),
    "end": End(AmqpError("a:b", "c", {})),
    "close": Close(AmqpError("a:b", "c", {})),
}


def decoded(data: bytes) -> Performative:
    performative, stop = decode_performative(data, 0, len(data))
    assert stop == len(data)
    return performative


def read(name: str, values: list[object]) -> Performative:
    return decoded(encode(Described(ULong(CODES[name]), values)))


# --- exact bytes: every field is written, since official SDKs index them without looking at the length --------------


@spec("amqp:2.7.1")
def test_an_open_is_written_with_all_its_ten_fields() -> None:
    least = "00 53 10 c0 13 0a a10163 40 70ffffffff 60ffff 40 40 40 40 40 40"
    assert Open("c").encode() == bytes.fromhex(least)
    full = (
        "00 53 10 c0 34 0a a10163 a10168 7000000200 600007 70000003e8"
        "e00401a30161 e00401a30162 e00401a3016f e00401a30164 c10602a301705501"
    )
    assert FULL["open"].encode() == bytes.fromhex(full)


@spec("amqp:2.7.2")
def test_a_begin_is_written_with_all_its_eight_fields() -> None:
    assert Begin(None, 0, 1, 2).encode() == bytes.fromhex("00 53 11 c0 0f 08 40 43 5201 5202 70ffffffff 40 40 40")
    full = "00 53 11 c0 22 08 600003 5201 700000012c 43 52ff e00401a3016f e00401a30164 c10602a301705501"
    assert FULL["begin"].encode() == bytes.fromhex(full)


@spec("amqp:2.7.3")
def test_an_attach_is_written_with_all_its_fourteen_fields() -> None:
    least = "00 53 12 c0 11 0e a1016c 43 42 40 40 40 40 40 42 40 40 40 40 40"
    assert Attach("l", 0, SENDER).encode() == bytes.fromhex(least)
    full = (
        "00 53 12 c0 6e 0e a1016c 700000012c 41 5001 5000"
        "005328 c01a0b a10173 43 a30b73657373696f6e2d656e64 43 42 40 40 40 40 40 40"
        "005329 c01607 a10174 43 a30b73657373696f6e2d656e64 43 42 40 40"
        "c10502a0013140 41 43 800000000000040000 e00401a3016f e00401a30164 c10602a301705501"
    )
    assert FULL["attach"].encode() == bytes.fromhex(full)


@spec("amqp:2.7.4")
def test_a_flow_is_written_with_all_its_eleven_fields() -> None:
    least = "00 53 13 c0 0d 0b 40 43 5201 43 40 40 40 40 42 42 40"
    assert Flow(None, 0, 1, 0).encode() == bytes.fromhex(least)
    full = "00 53 13 c0 1f 0b 43 7000001388 5201 7000010000 5202 5203 5264 43 41 41 c10602a301705501"
    assert FULL["flow"].encode() == bytes.fromhex(full)


@spec("amqp:2.7.5")
def test_a_transfer_is_written_with_all_its_eleven_fields() -> None:
    least = "00 53 14 c0 0c 0b 43 40 40 40 40 42 40 40 42 42 42"
    assert Transfer(0).encode() == bytes.fromhex(least)
    full = "00 53 14 c0 17 0b 43 5201 a003746167 43 41 41 5001 005324c00100 41 41 41"
    assert FULL["transfer"].encode() == bytes.fromhex(full)


@spec("amqp:2.7.6")
def test_a_disposition_is_written_with_all_its_six_fields() -> None:
    assert Disposition(SENDER, 0).encode() == bytes.fromhex("00 53 15 c0 07 06 42 43 40 42 40 42")
    assert FULL["disposition"].encode() == bytes.fromhex("00 53 15 c0 0e 06 41 5201 5209 41 005324c00100 41")


@spec("amqp:2.7.7")
def test_a_detach_is_written_with_all_its_three_fields() -> None:
    assert Detach(0).encode() == bytes.fromhex("00 53 16 c0 04 03 43 42 40")
    assert FULL["detach"].encode() == bytes.fromhex("00 53 16 c0 15 03 5201 41 00531d c00c03 a303613a62 a10163 c10100")


@spec("amqp:2.7.8")
def test_an_end_is_written_with_its_only_field() -> None:
    assert End().encode() == bytes.fromhex("00 53 17 c0 02 01 40")
    assert FULL["end"].encode() == bytes.fromhex("00 53 17 c0 12 01 00531d c00c03 a303613a62 a10163 c10100")


@spec("amqp:2.7.9")
def test_a_close_is_written_with_its_only_field() -> None:
    assert Close().encode() == bytes.fromhex("00 53 18 c0 02 01 40")
    assert FULL["close"].encode() == bytes.fromhex("00 53 18 c0 12 01 00531d c00c03 a303613a62 a10163 c10100")


@spec("amqp:2.8.14")
def test_an_error_without_description_and_info_is_still_written_with_three_fields() -> None:
    assert Close(AmqpError("a:b")).encode() == bytes.fromhex("00 53 18 c0 0e 01 00531d c00803 a303613a62 40 40")


def test_what_does_not_fit_a_list8_is_written_as_a_list32() -> None:
    text = "x" * 300
    expected = bytes.fromhex("00 53 18 d0 00000147 00000001 00531d d00000013b 00000003 a303613a62 b10000012c")
    assert Close(AmqpError("a:b", text)).encode() == expected + text.encode() + b"\x40"


@given(performatives)
def test_every_performative_starts_with_a_small_descriptor_and_a_list_of_all_its_fields(
    performative: Performative,
) -> None:
    data = performative.encode()
    assert data[:3] == bytes([0x00, 0x53, performative.code()])
    assert data[3] in {0xC0, 0xD0}
    count = data[5] if data[3] == 0xC0 else int.from_bytes(data[8:12])
    assert count == len(performative.field_names())


# --- reading ----------------------------------------------------------------------------------------------------


@given(performatives)
def test_a_performative_that_was_written_reads_as_itself(performative: Performative) -> None:
    found = decoded(performative.encode())
    assert type(found) is type(performative)
    assert found == performative
    assert hash(found) == hash(performative)
    assert repr(found) == repr(performative)


@spec("amqp:1.2", "amqp:1.4")
@given(performative=performatives, data=st.data())
def test_every_encoding_of_a_performative_reads_as_the_same_performative(
    performative: Performative, data: st.DataObject
) -> None:
    descriptors = descriptor_spellings(performative.code(), type(performative).__name__.lower())
    assert decoded(data.draw(spelled(performative, descriptors))) == performative


@given(performative=performatives, before=st.binary(max_size=9), behind=st.binary(max_size=9))
def test_a_performative_is_read_from_the_middle_of_a_buffer(
    performative: Performative, before: bytes, behind: bytes
) -> None:
    data = performative.encode()
    end = len(before) + len(data)
    assert decode_performative(before + data + behind, len(before), end) == (performative, end)


@given(performatives)
def test_a_performative_that_is_cut_short_is_a_decode_error(performative: Performative) -> None:
    data = performative.encode()
    for end in range(0, len(data), 1 + len(data) // 50):
        with pytest.raises(DecodeError):
            decode_performative(data, 0, end)


LEAST: dict[str, tuple[list[object], Performative]] = {
    "open": (["c"], Open("c")),
    "begin": ([None, UInt(0), UInt(1), UInt(2)], Begin(None, 0, 1, 2)),
    "attach": (["l", UInt(0), False], Attach("l", 0, SENDER)),
    "flow": ([None, UInt(0), UInt(1), UInt(2)], Flow(None, 0, 1, 2)),
    "transfer": ([UInt(0)], Transfer(0)),
    "disposition": ([True, UInt(0)], Disposition(RECEIVER, 0)),
    "detach": ([UInt(0)], Detach(0)),
    "end": ([], End()),
    "close": ([], Close()),
}


@spec("amqp:1.4")
@pytest.mark.parametrize("name", LEAST)
def test_fields_that_are_left_out_have_their_defaults(name: str) -> None:
    values, expected = LEAST[name]
    assert read(name, values) == expected


@spec("amqp:2.7.1", "amqp:2.7.2")
def test_limits_that_are_null_have_the_greatest_values_of_their_types() -> None:
    opened = read("open", ["c", None, None, None])
    assert isinstance(opened, Open)
    assert (opened.max_frame_size, opened.channel_max, opened.idle_timeout_ms) == (2**32 - 1, 65535, None)
    begun = read("begin", [None, UInt(0), UInt(1), UInt(2), None])
    assert isinstance(begun, Begin)
    assert begun.handle_max == 2**32 - 1


@spec("amqp:2.7.1", "amqp:2.7.2")
def test_limits_of_zero_are_zero_and_not_their_defaults() -> None:
    assert decoded(Open("c", None, 0, 0).encode()) == Open("c", None, 0, 0)
    assert decoded(Begin(0, 0, 0, 0, 0).encode()) == Begin(0, 0, 0, 0, 0)


@spec("amqp:2.7.5")
def test_a_transfer_that_does_not_say_whether_it_is_settled_is_not_read_as_unsettled() -> None:
    # It then follows the transfers before it, which false would not.
    transfer = read("transfer", [UInt(0), None, None, None, None])
    assert isinstance(transfer, Transfer)
    assert transfer.settled is None


# --- refusals ---------------------------------------------------------------------------------------------------

MANDATORY = [
    ("open", 0, "container-id"),
    ("begin", 1, "next-outgoing-id"),
    ("begin", 2, "incoming-window"),
    ("begin", 3, "outgoing-window"),
    ("attach", 0, "name"),
    ("attach", 1, "handle"),
    ("attach", 2, "role"),
    ("flow", 1, "incoming-window"),
    ("flow", 2, "next-outgoing-id"),
    ("flow", 3, "outgoing-window"),
    ("transfer", 0, "handle"),
    ("disposition", 0, "role"),
    ("disposition", 1, "first"),
    ("detach", 0, "handle"),
]

FIELDS = {
    "open": [
        ("container-id", "a string"),
        ("hostname", "a string"),
        ("max-frame-size", "a uint"),
        ("channel-max", "a ushort"),
        ("idle-time-out", "a uint"),
        ("outgoing-locales", "symbols"),
        ("incoming-locales", "symbols"),
        ("offered-capabilities", "symbols"),
        ("desired-capabilities", "symbols"),
        ("properties", "a map"),
    ],
    "begin": [
        ("remote-channel", "a ushort"),
        ("next-outgoing-id", "a uint"),
        ("incoming-window", "a uint"),
        ("outgoing-window", "a uint"),
        ("handle-max", "a uint"),
        ("offered-capabilities", "symbols"),
        ("desired-capabilities", "symbols"),
        ("properties", "a map"),
    ],
    "attach": [
        ("name", "a string"),
        ("handle", "a uint"),
        ("role", "a boolean"),
        ("snd-settle-mode", "a ubyte"),
        ("rcv-settle-mode", "a ubyte"),
        ("source", "a described list"),
        ("target", "a described list"),
        ("unsettled", "a map"),
        ("incomplete-unsettled", "a boolean"),
        ("initial-delivery-count", "a uint"),
        ("max-message-size", "a ulong"),
        ("offered-capabilities", "symbols"),
        ("desired-capabilities", "symbols"),
        ("properties", "a map"),
    ],
    "flow": [
        ("next-incoming-id", "a uint"),
        ("incoming-window", "a uint"),
        ("next-outgoing-id", "a uint"),
        ("outgoing-window", "a uint"),
        ("handle", "a uint"),
        ("delivery-count", "a uint"),
        ("link-credit", "a uint"),
        ("available", "a uint"),
        ("drain", "a boolean"),
        ("echo", "a boolean"),
        ("properties", "a map"),
    ],
    "transfer": [
        ("handle", "a uint"),
        ("delivery-id", "a uint"),
        ("delivery-tag", "a binary"),
        ("message-format", "a uint"),
        ("settled", "a boolean"),
        ("more", "a boolean"),
        ("rcv-settle-mode", "a ubyte"),
        ("state", "a delivery state"),
        ("resume", "a boolean"),
        ("aborted", "a boolean"),
        ("batchable", "a boolean"),
    ],
    "disposition": [
        ("role", "a boolean"),
        ("first", "a uint"),
        ("last", "a uint"),
        ("settled", "a boolean"),
        ("state", "a delivery state"),
        ("batchable", "a boolean"),
    ],
    "detach": [("handle", "a uint"), ("closed", "a boolean"), ("error", "an error")],
    "end": [("error", "an error")],
    "close": [("error", "an error")],
}
EVERY_FIELD = [(name, index, *field) for name, fields in FIELDS.items() for index, field in enumerate(fields)]


@pytest.mark.parametrize("name, index, field", MANDATORY)
def test_a_mandatory_field_that_is_null_is_a_decode_error_that_names_it(name: str, index: int, field: str) -> None:
    values = FULL[name].values()
    values[index] = None
    with pytest.raises(DecodeError, match=f"^{name}.{field} is mandatory and was not set$"):
        read(name, values)


@pytest.mark.parametrize("name, index, field", MANDATORY)
def test_a_mandatory_field_that_is_left_out_is_a_decode_error_that_names_it(name: str, index: int, field: str) -> None:
    with pytest.raises(DecodeError, match=rf"^{name}\.\S+ is mandatory and was not set$"):
        read(name, FULL[name].values()[:index])


@pytest.mark.parametrize("name, index, field, wanted", EVERY_FIELD)
def test_a_field_of_the_wrong_type_is_a_decode_error_that_names_it(
    name: str, index: int, field: str, wanted: str
) -> None:
    values = FULL[name].values()
    # A char is taken by no field at all.
    values[index] = Char("x")
    with pytest.raises(DecodeError, match=rf"^{name}\.{field} must be {wanted}, got Char\('x'\)"):
        read(name, values)


def test_the_fields_that_the_tests_know_are_all_the_fields_there_are() -> None:
    for name, fields in FIELDS.items():
        assert tuple([field for field, _ in fields]) == FULL[name].field_names()


@pytest.mark.parametrize("name", CODES)
def test_more_fields_than_a_performative_has_are_refused(name: str) -> None:
    values = FULL[name].values()
    count = len(values)
    with pytest.raises(DecodeError, match=f"^{name} has {count + 1} fields, it has at most {count}$"):
        read(name, [*values, None])


@pytest.mark.parametrize(
    "descriptor", [ULong(0x0F), ULong(0x19), ULong(2**40), Symbol("amqp:nonsense:list"), "amqp:open:list"]
)
def test_a_list_described_as_something_else_is_no_performative(descriptor: object) -> None:
    with pytest.raises(DecodeError, match="is not a performative"):
        decoded(encode(Described(descriptor, [])))


@pytest.mark.parametrize("value", [[], None, Described(ULong(0x10), {})])
def test_what_is_no_described_list_is_no_performative(value: object) -> None:
    with pytest.raises(DecodeError, match="a described list was expected"):
        decoded(encode(value))


# --- as objects -------------------------------------------------------------------------------------------------


def test_performatives_are_equal_by_what_they_say() -> None:
    assert Detach(1) == Detach(1, False, None)
    assert hash(Detach(1)) == hash(Detach(1, False, None))
    assert Detach(1) != Detach(1, True)
    assert End() != Close()
    assert Disposition(True, 1, None, True, Rejected()) != Disposition(True, 1, None, True, ACCEPTED)
    assert End() != "end"


def test_a_performative_shows_what_is_set() -> None:
    assert repr(Detach(1, True)) == "Detach(handle=UInt(1), closed=True)"
    assert repr(Close()) == "Close()"


@pytest.mark.parametrize("part", [Performative.code, Performative.field_names, Performative.values])
def test_a_performative_has_to_say_what_it_is(part: Callable[[Performative], object]) -> None:
    with pytest.raises(NotImplementedError):
        part(Performative())
