from __future__ import annotations

import contextlib
import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus._pyamqp import _decode as pyamqp_decode
from azure.servicebus._pyamqp import _encode as pyamqp_encode
from azure.servicebus._pyamqp import message as pyamqp_message
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.decode import decode
from tandem.amqp.encode import encode, encode_described_list
from tandem.amqp.message import NO_VALUE, BodyKind, Header, Message, Properties, _short_list, encode_message
from tandem.amqp.rewriting import (
    application_properties_section,
    has_message_id,
    splice,
    with_application_properties,
    with_lifetime,
    with_message_id,
    with_service_decimals,
    without_body,
)
from tandem.amqp.sections import HEADER, PROPERTIES, data_section, locate
from tandem.amqp.types import Char, Decimal128, Described, Int, Symbol, Timestamp, UByte, UInt, ULong
from tandem.errors import DecodeError, EncodeError, UsageError
from tests.amqp import message_strategies as parts
from tests.amqp.message_strategies import is_same
from tests.markers import spec

UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
FULL_PROPERTIES = Properties(
    message_id="id-1",
    user_id=b"user",
    to="orders",
    subject="subject",
    reply_to="replies",
    correlation_id=UUID,
    content_type="application/json",
    content_encoding="gzip",
    absolute_expiry_time=1_700_000_060_000,
    creation_time=1_700_000_000_000,
    group_id="session-1",
    group_sequence=7,
    reply_to_group_id="session-2",
)
PROPERTIES_FIELDS = (
    *("message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding"),
    *("absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id"),
)
HEADER_FIELDS = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")

# A list that says it holds one element and holds a constructor that does not exist.
INVALID_VALUE_BODY = bytes.fromhex("005377 c00201ff")


def with_header(*values: object) -> Message:
    return Message(encode_described_list(HEADER, list(values)))


def with_properties(*values: object) -> Message:
    return Message(encode_described_list(PROPERTIES, list(values)))


# --- Header -----------------------------------------------------------------------------------------------------


@spec("amqp:3.2.1")
def test_all_five_fields_of_a_header_are_written() -> None:
    assert Header().encode() == bytes.fromhex("005370 c00605 40404040 43")
    full = Header(durable=True, priority=9, ttl_ms=60_000, first_acquirer=False, delivery_count=300)
    assert full.encode() == bytes.fromhex("005370 c00f05 41 5009 700000ea60 42 700000012c")


@given(parts.HEADERS)
def test_a_header_is_read_back_as_it_was_written(header: Header) -> None:
    read = Message(header.encode()).header
    assert read == header
    assert read is not None
    assert read.encode() == header.encode()
    assert hash(read) == hash(header)


@spec("amqp:1.4")
@pytest.mark.parametrize("encoded", ["00537045", "005370c00100", "005370c0020140", "005370d00000000400000000"])
def test_absent_fields_of_a_header_are_not_set(encoded: str) -> None:
    assert Message(bytes.fromhex(encoded)).header == Header()


def test_a_header_shows_what_is_set() -> None:
    assert repr(Header(ttl_ms=5)) == "Header(ttl=UInt(5), delivery_count=UInt(0))"
    assert Header(ttl_ms=5) != Header(ttl_ms=6)
    assert Header() != "Header"


@pytest.mark.parametrize(
    "index, value, wanted",
    [
        (0, UInt(1), "a boolean"),
        (1, UInt(4), "a ubyte"),
        (2, ULong(4), "a uint"),
        (3, "yes", "a boolean"),
        (4, 1, "a uint"),
    ],
)
def test_a_header_field_of_the_wrong_type_is_refused_by_name(index: int, value: object, wanted: str) -> None:
    values: list[object] = [None] * 5
    values[index] = value
    with pytest.raises(DecodeError) as caught:
        _ = with_header(*values).header
    assert str(caught.value) == f"header.{HEADER_FIELDS[index]} must be {wanted}, got {value!r}"


def test_a_header_with_a_sixth_field_is_refused() -> None:
    with pytest.raises(DecodeError, match="header has 6 fields, it has at most 5"):
        _ = with_header(*[None] * 6).header


def test_a_header_value_out_of_range_cannot_be_written() -> None:
    with pytest.raises(EncodeError, match="256"):
        Header(priority=256).encode()
    with pytest.raises(EncodeError, match="-1"):
        Header(ttl_ms=-1).encode()


# --- Properties -------------------------------------------------------------------------------------------------


@spec("amqp:3.2.4")
def test_all_thirteen_properties_are_written() -> None:
    assert Properties().encode() == bytes.fromhex("005373 c00e0d") + b"\x40" * 13
    values, _ = decode(FULL_PROPERTIES.encode(), 3, len(FULL_PROPERTIES.encode()))
    expected = [
        *("id-1", b"user", "orders", "subject", "replies", UUID, Symbol("application/json"), Symbol("gzip")),
        *(Timestamp(1_700_000_060_000), Timestamp(1_700_000_000_000), "session-1", UInt(7), "session-2"),
    ]
    assert is_same(values, expected)


@given(parts.PROPERTIES)
def test_properties_are_read_back_as_they_were_written(properties: Properties) -> None:
    read = Message(properties.encode()).properties
    assert read is not None
    assert read == properties
    assert read.encode() == properties.encode()
    assert hash(read) == hash(properties)


@spec("amqp:1.4")
@pytest.mark.parametrize("count", range(14))
def test_absent_trailing_properties_are_not_set(count: int) -> None:
    values = ["id", b"u", "to", "s", "r", "c", Symbol("t"), Symbol("e"), Timestamp(1), Timestamp(2), "g", UInt(3), "h"]
    read = with_properties(*values[:count]).properties
    assert read is not None
    written, _ = decode(read.encode(), 3, len(read.encode()))
    assert is_same(written, [*values[:count], *[None] * (13 - count)])


@pytest.mark.parametrize("message_id", ["text", "", b"octets", ULong(5), ULong(2**64 - 1), UUID], ids=repr)
def test_a_message_id_keeps_its_type(message_id: str | bytes | int | uuid.UUID) -> None:
    properties = with_properties(message_id, None, None, None, None, message_id).properties
    assert properties is not None
    assert is_same(properties.message_id, message_id)
    reply = Message(Properties(correlation_id=properties.message_id).encode()).properties
    assert reply is not None
    assert is_same(reply.correlation_id, message_id)


def test_a_plain_number_as_message_id_is_written_as_ulong() -> None:
    properties = Message(Properties(message_id=5, correlation_id=6).encode()).properties
    assert properties is not None
    assert is_same(properties.message_id, ULong(5))
    assert is_same(properties.correlation_id, ULong(6))


def test_a_symbol_given_where_a_string_belongs_is_written_as_string() -> None:
    symbolic = Properties(message_id=Symbol("m"), to=Symbol("t"), group_id=Symbol("g"))
    assert symbolic.encode() == Properties(message_id="m", to="t", group_id="g").encode()


def test_a_string_is_accepted_as_content_type_and_becomes_a_symbol() -> None:
    message = with_properties(None, None, None, None, None, None, "text/plain", "gzip")
    assert message.properties == Properties(content_type="text/plain", content_encoding="gzip")
    assert message.properties is not None
    assert b"\xa3\x0atext/plain\xa3\x04gzip" in message.properties.encode()


@pytest.mark.parametrize(
    "index, value, wanted",
    [
        (0, UInt(3), "a string, ulong, uuid or binary"),
        (0, Symbol("id"), "a string, ulong, uuid or binary"),
        (1, "user", "a binary"),
        (2, Symbol("to"), "a string"),
        (3, 4, "a string"),
        (4, b"reply", "a string"),
        (5, True, "a string, ulong, uuid or binary"),
        (6, UInt(3), "a symbol"),
        (7, b"gzip", "a symbol"),
        (8, 1, "a timestamp"),
        (9, ULong(1), "a timestamp"),
        (10, UUID, "a string"),
        (11, Int(3), "a uint"),
        (12, [], "a string"),
    ],
)
def test_a_property_of_the_wrong_type_is_refused_by_name(index: int, value: object, wanted: str) -> None:
    values: list[object] = [None] * 13
    values[index] = value
    with pytest.raises(DecodeError) as caught:
        _ = with_properties(*values).properties
    assert str(caught.value) == f"properties.{PROPERTIES_FIELDS[index]} must be {wanted}, got {value!r}"


def test_a_fourteenth_property_is_refused() -> None:
    with pytest.raises(DecodeError, match="properties has 14 fields, it has at most 13"):
        _ = with_properties(*[None] * 14).properties


def test_properties_show_what_is_set() -> None:
    assert repr(Properties(to="a")) == "Properties(to='a')"
    assert Properties(to="a") != Properties(to="b")
    assert Properties() != Header()


# --- The list read in place, against the decoder ----------------------------------------------------------------


@given(st.lists(parts.VALUES, max_size=14))
def test_a_short_list_is_read_as_the_decoder_reads_it(values: list[object]) -> None:
    encoded = encode(values)
    read = _short_list(encoded, 0, len(encoded))
    if encoded[0] == 0xC0:
        assert is_same(read, decode(encoded, 0, len(encoded))[0])
    else:
        assert read is None


@given(
    st.integers(0, 5),
    st.integers(0, 5),
    st.lists(st.sampled_from([0x40, 0x41, 0x42, 0xA1, 0x01, 0x00, 0xFF, 0x80, 0x50, 0xC0])).map(bytes),
    st.binary(max_size=4),
)
def test_a_malformed_short_list_is_left_to_the_decoder(size: int, count: int, contents: bytes, rest: bytes) -> None:
    end = 2 + size
    payload = (bytes((0xC0, size, count)) + contents).ljust(end, b"\x40") + rest
    expected: object = None
    with contextlib.suppress(DecodeError):
        expected, _ = decode(payload, 0, end)
    assert is_same(_short_list(payload, 0, end), expected)


# --- Message ----------------------------------------------------------------------------------------------------


def test_a_message_without_sections_has_nothing() -> None:
    message = Message(b"")
    assert message.payload == b""
    assert message.bare_bytes == b""
    assert message.header is None
    assert message.delivery_annotations is None
    assert message.message_annotations is None
    assert message.properties is None
    assert message.application_properties is None
    assert message.footer is None
    assert message.body_kind is BodyKind.NONE
    assert message.data is None
    assert message.data_sections == []
    assert message.sequence is None
    assert message.value is None


@given(
    st.none() | parts.HEADERS,
    parts.ANNOTATIONS,
    parts.ANNOTATIONS,
    st.none() | parts.PROPERTIES,
    parts.APPLICATION_PROPERTIES,
    parts.ANNOTATIONS,
)
def test_sections_are_read_back_as_they_were_written(
    header: Header | None,
    delivery_annotations: dict[str, object],
    message_annotations: dict[str, object],
    properties: Properties | None,
    application_properties: dict[str, object],
    footer: dict[str, object],
) -> None:
    message = Message(
        encode_message(
            header=header,
            delivery_annotations=delivery_annotations,
            message_annotations=message_annotations,
            properties=properties,
            application_properties=application_properties,
            footer=footer,
        )
    )
    assert message.sections.is_canonical
    assert message.header == header
    assert is_same(message.delivery_annotations, symbolic(delivery_annotations))
    assert is_same(message.message_annotations, symbolic(message_annotations))
    assert message.properties == properties
    assert is_same(message.application_properties, application_properties or None)
    assert is_same(message.footer, symbolic(footer))


def symbolic(pairs: dict[str, object]) -> dict[Symbol, object] | None:
    return {Symbol(key): value for key, value in pairs.items()} or None


def test_a_section_is_decoded_once() -> None:
    message = Message(
        encode_message(
            header=Header(),
            delivery_annotations={"a": 1},
            message_annotations={"b": 2},
            properties=Properties(to="x"),
            application_properties={"c": 3},
            data=[b"one", b"two"],
            footer={"d": 4},
        )
    )
    reads: list[Callable[[], object]] = [
        lambda: message.header,
        lambda: message.delivery_annotations,
        lambda: message.message_annotations,
        lambda: message.properties,
        lambda: message.application_properties,
        lambda: message.data,
        lambda: message.footer,
    ]
    for read in reads:
        assert read() is not None
        assert read() is read()
    listed = Message(encode_message(sequence=[1]))
    assert listed.sequence is listed.sequence
    mapped = Message(encode_message(value={"k": 1}))
    assert mapped.value is mapped.value


@spec("amqp:3.2.6")
@pytest.mark.parametrize("pieces", [[b"abc"], [b"", b""], [b"a" * 300, b"b"], [b"a", b"b", b"c" * 70_000]])
def test_data_sections_are_read_one_by_one_and_joined(pieces: list[bytes]) -> None:
    message = Message(encode_message(data=pieces))
    assert message.body_kind is BodyKind.DATA
    assert message.data_sections == pieces
    assert message.data == b"".join(pieces)
    assert message.sequence is None
    assert message.value is None


def test_a_body_section_that_holds_null_is_an_empty_one() -> None:
    # So does the JavaScript SDK with a body of null.
    assert Message(b"\x00\x53\x75\x40").data == b""
    assert Message(encode_message(data=b"a") + b"\x00\x53\x75\x40").data_sections == [b"a", b""]
    assert Message(b"\x00\x53\x76\x40" + encode_message(sequence=[1])).sequence == [1]


@spec("amqp:3.2.7")
def test_amqp_sequences_are_read_as_one() -> None:
    message = Message(encode_message(sequence=[1, "two"]) + encode_message(sequence=[UInt(3)]) + b"\x00\x53\x76\x45")
    assert message.body_kind is BodyKind.SEQUENCE
    assert is_same(message.sequence, [1, "two", UInt(3)])
    assert message.data is None
    assert message.data_sections == []


@spec("amqp:3.2.8")
@given(parts.VALUES)
def test_an_amqp_value_is_read_back_with_its_type(value: object) -> None:
    message = Message(encode_message(value=value))
    assert message.body_kind is BodyKind.VALUE
    assert is_same(message.value, value)
    assert message.data is None
    assert message.sequence is None


def test_null_is_an_amqp_value_and_no_value_is_none() -> None:
    assert encode_message(value=None) == b"\x00\x53\x77\x40"
    assert encode_message(value=NO_VALUE) == b""
    assert repr(NO_VALUE) == "NO_VALUE"
    message = Message(b"\x00\x53\x77\x40")
    assert message.value is None
    assert message.body_kind is BodyKind.VALUE


@pytest.mark.parametrize(
    "bodies",
    [{"data": b"a", "value": 1}, {"data": b"a", "sequence": [1]}, {"sequence": [1], "value": None}],
    ids=str,
)
def test_a_message_of_two_kinds_of_body_cannot_be_made(bodies: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="one kind of body"):
        encode_message(**bodies)


def test_a_body_is_decoded_only_when_asked() -> None:
    payload = encode_message(header=Header(priority=1), properties=Properties(to="x")) + INVALID_VALUE_BODY
    message = Message(payload)
    assert message.header == Header(priority=1)
    assert message.properties == Properties(to="x")
    assert message.body_kind is BodyKind.VALUE
    assert message.bare_bytes == Properties(to="x").encode() + INVALID_VALUE_BODY
    assert splice(message, Header(), None, {"x": 1}).endswith(INVALID_VALUE_BODY)
    with pytest.raises(DecodeError):
        _ = message.value
    with pytest.raises(DecodeError):
        _ = Message(INVALID_VALUE_BODY.replace(b"\x77", b"\x76")).sequence


@pytest.mark.parametrize("section", ["005370 c00201ff", "005373 c00201ff", "005374 c10202a1", "005372 c10201ff"])
def test_a_malformed_section_is_refused_only_when_it_is_read(section: str) -> None:
    message = Message(bytes.fromhex(section) + data_section(b"body"))
    assert message.data == b"body"
    reads: list[Callable[[], object]] = [
        lambda: message.header,
        lambda: message.properties,
        lambda: message.application_properties,
        lambda: message.message_annotations,
    ]
    refused = 0
    for read in reads:
        try:
            read()
        except DecodeError:
            refused += 1
    assert refused == 1


@spec("amqp:3.2.10")
def test_annotation_keys_may_be_symbols_reserved_ulongs_or_strings() -> None:
    pairs = {Symbol("s"): 1, ULong(2): 2, "text": 3}
    message = Message(b"\x00\x53\x72" + encode(pairs))
    assert is_same(message.message_annotations, pairs)
    assert message.message_annotations is not None
    assert message.message_annotations.get("s") == 1


@pytest.mark.parametrize("key", [None, 1, b"k", UInt(1), UUID], ids=repr)
def test_an_annotation_key_of_another_type_is_refused(key: object) -> None:
    encoded = encode({key: 1})
    with pytest.raises(DecodeError, match="delivery-annotations: a key must be a symbol, got "):
        _ = Message(b"\x00\x53\x71" + encoded).delivery_annotations
    with pytest.raises(DecodeError, match="message-annotations: a key must be a symbol, got "):
        _ = Message(b"\x00\x53\x72" + encoded).message_annotations
    with pytest.raises(DecodeError, match="footer: a key must be a symbol, got "):
        _ = Message(b"\x00\x53\x78" + encoded).footer


@spec("amqp:3.2.5")
def test_an_application_property_key_must_be_text_and_becomes_a_string() -> None:
    properties = Message(b"\x00\x53\x74" + encode({Symbol("a"): 1, "b": 2})).application_properties
    assert is_same(properties, {"a": 1, "b": 2})
    with pytest.raises(DecodeError, match=r"application-properties: a key must be a string, got ULong\(1\)"):
        _ = Message(b"\x00\x53\x74" + encode({ULong(1): 1})).application_properties


@given(parts.section_lists(), st.data())
def test_a_message_cut_anywhere_raises_nothing_but_decode_errors(sections: list[bytes], data: st.DataObject) -> None:
    payload = b"".join(sections)
    cut = payload[: data.draw(st.integers(0, len(payload)))]
    read_everything_or_refuse(cut)


@given(parts.section_lists(), st.data())
def test_a_message_with_a_changed_byte_raises_nothing_but_decode_errors(
    sections: list[bytes], data: st.DataObject
) -> None:
    payload = bytearray(b"".join(sections))
    if payload:
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    read_everything_or_refuse(bytes(payload))


@given(st.binary(max_size=100))
def test_arbitrary_bytes_raise_nothing_but_decode_errors(payload: bytes) -> None:
    read_everything_or_refuse(payload)


def read_everything_or_refuse(payload: bytes) -> None:
    try:
        message = Message(payload)
    except DecodeError:
        return
    reads: list[Callable[[], object]] = [
        lambda: message.header,
        lambda: message.delivery_annotations,
        lambda: message.message_annotations,
        lambda: message.properties,
        lambda: message.application_properties,
        lambda: message.footer,
        lambda: message.data,
        lambda: message.sequence,
        lambda: message.value,
        lambda: splice(message, None, {"x": 1}, {"x": 1}),
        lambda: with_application_properties(message, {"x": 1}),
    ]
    for read in reads:
        with contextlib.suppress(DecodeError):
            read()


# --- Splicing ---------------------------------------------------------------------------------------------------


@given(parts.section_lists(), st.none() | parts.HEADERS, parts.ANNOTATIONS, parts.ANNOTATIONS)
def test_a_spliced_message_is_what_the_general_encoder_makes_of_its_parts(
    sections: list[bytes],
    header: Header | None,
    delivery_annotations: dict[str, object],
    message_annotations: dict[str, object],
) -> None:
    original = Message(b"".join(sections))
    spliced = splice(original, header, delivery_annotations, message_annotations)
    assert spliced == splice(original.payload, header, delivery_annotations, message_annotations)
    message = Message(spliced)
    assert message.sections.is_canonical
    assert message.header == (original.header if header is None else header)
    assert is_same(message.delivery_annotations, merged(original.delivery_annotations, delivery_annotations))
    assert is_same(message.message_annotations, merged(original.message_annotations, message_annotations))
    assert message.bare_bytes == original.bare_bytes


def merged(sender: dict[object, object] | None, fresh: dict[str, object]) -> dict[object, object] | None:
    """Fresh ones first, then those of the sender that are not among them."""
    together: dict[object, object] = {Symbol(key): value for key, value in fresh.items()}
    for key, value in (sender or {}).items():
        together.setdefault(key, value)
    return together or None


def test_a_spliced_message_has_the_canonical_order_whatever_the_senders() -> None:
    body = data_section(b"body")
    sender = encode_message(delivery_annotations={"sender": 1})
    header = Header(priority=3)
    payload = body + Properties(to="x").encode() + header.encode() + sender
    assert splice(payload) == header.encode() + sender + Properties(to="x").encode() + body


def test_the_header_can_be_replaced_by_encoded_bytes_or_left_out() -> None:
    body = data_section(b"body")
    payload = Header(priority=3).encode() + body
    assert splice(payload, Header(priority=4)) == Header(priority=4).encode() + body
    assert splice(payload, Header(priority=5).encode()) == Header(priority=5).encode() + body
    assert splice(payload, b"") == body


def test_annotations_that_cannot_be_encoded_raise_our_own_errors() -> None:
    with pytest.raises(EncodeError):
        splice(b"", None, {"\ud800": 1})
    with pytest.raises(EncodeError):
        splice(b"", None, None, {"x": object()})
    with pytest.raises(EncodeError):
        with_application_properties(b"", {"\ud800": 1})


# --- Application properties set anew ----------------------------------------------------------------------------


@given(parts.section_lists(), parts.APPLICATION_PROPERTIES)
def test_changed_application_properties_leave_every_other_section_as_it_was(
    sections: list[bytes], changes: dict[str, object]
) -> None:
    original = Message(b"".join(sections))
    changed = Message(with_application_properties(original, changes))
    kept = {key: value for key, value in (original.application_properties or {}).items() if key not in changes}
    assert is_same(changed.application_properties, {**kept, **changes} or None)
    assert changed.sections.is_canonical
    for code in (0x70, 0x71, 0x72, 0x73, 0x75, 0x76, 0x77, 0x78):
        assert changed.sections.raw(code) == original.sections.raw(code)
    assert changed.sections.raw(0x74) == application_properties_section(original.payload, changes)


def test_application_properties_that_are_not_changed_keep_their_bytes() -> None:
    # A described value and a long in a wider encoding than ours: neither is decoded.
    entries = b"\xa1\x03uri\x00\xa3\x12com.microsoft:uri\x00\xa1\x01u\xa1\x01n\x81" + bytes(8) + b"\xa1\x01d\x41"
    section = bytes((0x00, 0x53, 0x74, 0xC1, len(entries) + 1, 6)) + entries
    changed = application_properties_section(section, {"d": False, "DeadLetterReason": "because"})
    kept = entries[: -len(b"\xa1\x01d\x41")]
    assert changed[6:].startswith(kept)
    assert changed[6 + len(kept) :] == b"\xa1\x01d\x42\xa1\x10DeadLetterReason\xa1\x07because"


def test_properties_to_modify_may_come_with_symbolic_keys() -> None:
    payload = encode_message(application_properties={"a": 1}, value="body")
    changed = Message(with_application_properties(payload, {Symbol("a"): 2}))
    assert is_same(changed.application_properties, {"a": 2})


def test_application_properties_are_put_before_a_body_that_the_sender_put_before_other_sections() -> None:
    payload = data_section(b"body") + Properties(to="x").encode()
    changed = with_application_properties(payload, {"a": 1})
    assert changed == encode_message(application_properties={"a": 1}) + payload


# --- Against the codec of the official SDK ----------------------------------------------------------------------

# The types that the SDK's codec writes of itself the way ours does, and reads back without losing the type.
SDK_VALUES = st.one_of(
    st.booleans(), st.integers(-(2**31), 2**31 - 1), parts.STRINGS, st.binary(max_size=300), st.uuids(), st.floats()
)
SDK_ANNOTATIONS = st.dictionaries(parts.SYMBOLS.map(str.encode), SDK_VALUES, max_size=4)
SDK_APPLICATION_PROPERTIES = st.dictionaries(parts.STRINGS, SDK_VALUES, max_size=4)


def sdk_read(payload: bytes) -> Any:
    return pyamqp_decode.decode_payload(memoryview(payload))


def sdk_write(**sections: Any) -> bytes:
    return bytes(pyamqp_encode.encode_payload(bytearray(), pyamqp_message.Message(**sections)))


def theirs_of(value: object) -> object:
    """What the SDK's codec makes of a value: it reads strings and symbols as bytes."""
    if isinstance(value, str):
        return value.encode()
    return repr(value) if isinstance(value, float) else value


def assert_same_map(ours: Mapping[Any, object] | None, theirs: Mapping[Any, object] | None) -> None:
    expected = [(theirs_of(key), theirs_of(value)) for key, value in (ours or {}).items()]
    assert [(theirs_of(key), theirs_of(value)) for key, value in (theirs or {}).items()] == expected


@given(
    st.builds(
        pyamqp_message.Header,
        durable=st.none() | st.booleans(),
        priority=st.none() | st.integers(0, 255),
        ttl=st.none() | parts.UINTS,
        first_acquirer=st.none() | st.booleans(),
        delivery_count=parts.UINTS,
    ),
    SDK_ANNOTATIONS,
    SDK_ANNOTATIONS,
    SDK_APPLICATION_PROPERTIES,
    st.lists(st.binary(max_size=300), max_size=3),
    SDK_ANNOTATIONS,
)
def test_what_the_official_codec_writes_is_read(
    header: Any,
    delivery_annotations: dict[bytes, object],
    message_annotations: dict[bytes, object],
    application_properties: dict[str, object],
    data: list[bytes],
    footer: dict[bytes, object],
) -> None:
    payload = sdk_write(
        header=header,
        delivery_annotations=delivery_annotations,
        message_annotations=message_annotations,
        application_properties=application_properties,
        data=data,
        footer=footer,
    )
    message = Message(payload)
    assert message.header == Header(*header)
    assert_same_map(message.delivery_annotations, dict(delivery_annotations))
    assert_same_map(message.message_annotations, dict(message_annotations))
    assert_same_map(message.application_properties, dict(application_properties))
    assert message.data_sections == data
    assert_same_map(message.footer, dict(footer))


@given(parts.PROPERTIES)
def test_properties_that_the_official_codec_writes_are_read(properties: Properties) -> None:
    values: list[Any] = [
        *(properties.message_id, properties.user_id, properties.to, properties.subject, properties.reply_to),
        *(properties.correlation_id, properties.content_type, properties.content_encoding),
        *(properties.absolute_expiry_time, properties.creation_time),
        *(properties.group_id, properties.group_sequence, properties.reply_to_group_id),
    ]
    theirs = pyamqp_message.Properties(*values)
    assert Message(sdk_write(properties=theirs)).properties == properties


@given(parts.HEADERS, parts.PROPERTIES, SDK_ANNOTATIONS, SDK_APPLICATION_PROPERTIES, st.binary(max_size=300))
def test_what_we_write_the_official_codec_reads(
    header: Header,
    properties: Properties,
    annotations: dict[bytes, object],
    application_properties: dict[str, object],
    data: bytes,
) -> None:
    symbols: dict[str, object] = {key.decode(): value for key, value in annotations.items()}
    payload = encode_message(
        header=header,
        delivery_annotations=symbols,
        message_annotations=symbols,
        properties=properties,
        application_properties=application_properties,
        data=data,
        footer=symbols,
    )
    theirs = sdk_read(payload)
    assert list(theirs.header) == header._values()
    assert list(theirs.properties) == [theirs_of(value) for value in properties._values()]
    for section in (theirs.delivery_annotations, theirs.message_annotations, theirs.footer):
        assert_same_map(symbols, section)
    assert_same_map(application_properties, theirs.application_properties)
    assert theirs.data == [data]


def test_a_message_of_the_official_sdk_is_read() -> None:
    sent = ServiceBusMessage(
        b"body",
        message_id="m-1",
        session_id="s-1",
        subject="label",
        content_type="application/json",
        application_properties={"count": 3, "name": "value"},
        partition_key="s-1",
    )
    outgoing = PyamqpTransport.to_outgoing_amqp_message(sent.raw_amqp_message)
    message = Message(bytes(pyamqp_encode.encode_payload(bytearray(), outgoing)))
    assert message.data == b"body"
    assert message.properties is not None
    assert message.properties.message_id == "m-1"
    assert message.properties.group_id == "s-1"
    assert message.properties.subject == "label"
    assert message.properties.content_type == "application/json"
    assert message.application_properties == {"count": 3, "name": "value"}
    assert message.message_annotations == {"x-opt-partition-key": "s-1"}


def test_a_described_application_property_is_kept() -> None:
    uri = Described(Symbol("com.microsoft:uri"), "http://example.org")
    message = Message(encode_message(application_properties={"uri": uri, "letter": Char("x"), "small": UByte(1)}))
    assert is_same(message.application_properties, {"uri": uri, "letter": Char("x"), "small": UByte(1)})
    assert locate(message.payload).bare() == message.payload


def test_equal_headers_and_properties_hash_alike() -> None:
    assert len({Header(durable=True), Header(durable=True), Header()}) == 2
    assert len({Properties(message_id="m"), Properties(message_id="m"), Properties()}) == 2


def test_a_message_id_is_seen_without_decoding_the_properties() -> None:
    long_text = "x" * 300
    for properties, expected in (
        (None, False),
        (Properties(), False),
        (Properties(to=long_text), False),
        (Properties(message_id="a"), True),
        (Properties(message_id=UUID, to=long_text), True),
        (Properties(message_id=0), True),
    ):
        assert has_message_id(Message(encode_message(properties=properties, data=b"body"))) is expected
    no_fields = bytes.fromhex("005373 45")
    assert not has_message_id(Message(no_fields + data_section(b"body")))


def test_a_message_can_be_given_an_id_and_keeps_everything_else() -> None:
    for properties in (None, Properties(to="there", group_id="s")):
        bare = encode_message(properties=properties, application_properties={"a": 1}, data=b"body", footer={"f": 1})
        given_one = Message(with_message_id(bare, "made"))
        expected = properties or Properties()
        expected.message_id = "made"
        assert given_one.properties == expected
        assert given_one.application_properties == {"a": 1}
        assert (given_one.data, given_one.footer) == (b"body", {"f": 1})


# 1.5 as AMQP 1.0 has it, and as Microsoft.Azure.Amqp does.
BID_DECIMAL = Decimal128.from_decimal(decimal.Decimal("1.5"))
SERVICE_DECIMAL = Decimal128(bytes.fromhex("0c3e000000000000000000000000000f"))


def test_decimals_among_the_application_properties_get_the_layout_of_the_service_and_nothing_else_changes() -> None:
    def bare(number: Decimal128) -> bytes:
        pairs = {"a": "\x94", "price": number, "b": b"\x94" * 20, "c": number}
        return encode_message(properties=Properties(to="x"), application_properties=pairs, value=BID_DECIMAL)

    assert with_service_decimals(bare(BID_DECIMAL)) == bare(SERVICE_DECIMAL)
    assert with_service_decimals(bare(SERVICE_DECIMAL)) == bare(SERVICE_DECIMAL)


def test_application_properties_that_are_no_amqp_are_left_alone() -> None:
    # A map of two, the second of which is cut off.
    spoilt = bytes.fromhex("005374c1040294a10561")
    assert with_service_decimals(spoilt) == spoilt


def test_a_message_without_a_decimal_among_its_application_properties_keeps_its_bytes() -> None:
    bare = encode_message(application_properties={"a": 1}, value=BID_DECIMAL)
    assert with_service_decimals(bare) is bare


def test_properties_that_are_no_amqp_keep_their_times() -> None:
    # A list of three, the first of which is cut off.
    spoilt = bytes.fromhex("005373c00203a105")
    assert with_lifetime(spoilt, 1, 2) == spoilt
    assert Message(with_lifetime(b"", 1, 2)).properties == Properties(creation_time=1, absolute_expiry_time=2)


@pytest.mark.parametrize("body", [{"data": b"body"}, {"value": "body"}, {}], ids=["data", "value", "none"])
def test_a_message_without_its_body_has_everything_else(body: dict[str, Any]) -> None:
    parts_of_it: dict[str, Any] = {
        "properties": Properties(to="x"),
        "application_properties": {"a": 1},
        "footer": {"f": 1},
    }
    bodiless = Message(without_body(encode_message(**parts_of_it, **body)))
    assert (bodiless.properties, bodiless.application_properties, bodiless.footer) == tuple(parts_of_it.values())
    assert bodiless.sections.body_spans == []


def test_decimals_that_are_set_anew_have_the_layout_of_the_service() -> None:
    section = application_properties_section(b"", {"price": BID_DECIMAL})
    assert Message(section).application_properties == {"price": SERVICE_DECIMAL}
