from __future__ import annotations

import uuid

import pytest
from azure.servicebus._pyamqp import _decode as pyamqp_decode
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.message import Header, Message, Properties, encode_message
from tandem.amqp.rewriting import splice
from tandem.amqp.sections import MESSAGE_ANNOTATIONS, NO_ENTRIES, Entries, data_section
from tandem.amqp.stored import BROKER_ANNOTATIONS, Stored, prepare, prepare_with_ttl
from tandem.amqp.types import Int, Symbol, Timestamp
from tandem.errors import DecodeError, EncodeError
from tests.amqp import message_strategies as parts
from tests.amqp.message_strategies import is_same
from tests.markers import spec

TOKEN = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
BODY = data_section(b"body")
INVALID_VALUE_BODY = bytes.fromhex("005377 c00201ff")

BROKER_KEYS = st.sampled_from(sorted(key.decode() for key in BROKER_ANNOTATIONS))
SENDER_ANNOTATIONS = st.dictionaries(parts.SYMBOLS | BROKER_KEYS, parts.VALUES, max_size=4)
FURTHER = st.dictionaries(st.sampled_from(["x-opt-message-state", "x-opt-offset"]), parts.SIMPLE_VALUES)


@st.composite
def sent_messages(draw: st.DrawFn) -> Message:
    return Message(
        encode_message(
            header=draw(st.none() | parts.HEADERS),
            delivery_annotations=draw(SENDER_ANNOTATIONS),
            message_annotations=draw(SENDER_ANNOTATIONS),
            properties=draw(st.none() | parts.PROPERTIES),
            data=draw(st.binary(max_size=300)),
        )
    )


def without_broker_annotations(pairs: dict[object, object] | None) -> dict[object, object]:
    return {key: value for key, value in (pairs or {}).items() if str(key).encode() not in BROKER_ANNOTATIONS}


def delivered_header(message: Message, delivery_count: int) -> Header:
    sent = message.header or Header()
    return Header(sent.durable, sent.priority, sent.ttl_ms, sent.first_acquirer, delivery_count)


@given(sent_messages(), parts.UINTS, parts.LONGS, parts.LONGS, parts.LONGS, st.uuids(), FURTHER)
def test_a_locked_delivery_is_what_the_general_encoder_makes(
    message: Message,
    delivery_count: int,
    sequence_number: int,
    enqueued_time_ms: int,
    locked_until_ms: int,
    lock_token: uuid.UUID,
    further: dict[str, object],
) -> None:
    stored = prepare(message)
    prefix = stored.locked_prefix(
        delivery_count,
        sequence_number,
        enqueued_time_ms,
        locked_until_ms,
        lock_token.bytes,
        Entries.with_symbol_keys(further),
    )
    delivery = Message(prefix + stored.bare)
    assert delivery.sections.is_canonical
    assert delivery.sections.raw(0x70) == delivered_header(message, delivery_count).encode()
    annotations: dict[object, object] = {
        Symbol("x-opt-enqueued-time"): Timestamp(enqueued_time_ms),
        Symbol("x-opt-sequence-number"): sequence_number,
        Symbol("x-opt-locked-until"): Timestamp(locked_until_ms),
        **{Symbol(key): value for key, value in further.items()},
        **without_broker_annotations(message.message_annotations),
    }
    assert is_same(delivery.message_annotations, annotations)
    sender = without_broker_annotations(message.delivery_annotations)
    assert is_same(delivery.delivery_annotations, {Symbol("x-opt-lock-token"): lock_token, **sender})
    assert delivery.bare_bytes == message.bare_bytes


@given(sent_messages(), parts.UINTS, parts.LONGS, parts.LONGS, FURTHER)
def test_an_unlocked_delivery_is_what_the_general_encoder_makes(
    message: Message, delivery_count: int, sequence_number: int, enqueued_time_ms: int, further: dict[str, object]
) -> None:
    stored = prepare(message)
    entries = Entries.with_symbol_keys(further)
    delivery = Message(stored.unlocked_prefix(delivery_count, sequence_number, enqueued_time_ms, entries) + stored.bare)
    assert delivery.sections.is_canonical
    assert delivery.sections.raw(0x70) == delivered_header(message, delivery_count).encode()
    annotations: dict[object, object] = {
        Symbol("x-opt-enqueued-time"): Timestamp(enqueued_time_ms),
        Symbol("x-opt-sequence-number"): sequence_number,
        **{Symbol(key): value for key, value in further.items()},
        **without_broker_annotations(message.message_annotations),
    }
    assert is_same(delivery.message_annotations, annotations)
    sender = without_broker_annotations(message.delivery_annotations)
    assert is_same(delivery.delivery_annotations, sender or None)
    assert delivery.bare_bytes == message.bare_bytes


@given(sent_messages(), parts.UINTS, parts.LONGS, parts.LONGS, FURTHER)
def test_a_message_that_is_handed_out_for_good_has_delivery_annotations_even_if_there_are_none(
    message: Message, delivery_count: int, sequence_number: int, enqueued_time_ms: int, further: dict[str, object]
) -> None:
    stored = prepare(message)
    entries = Entries.with_symbol_keys(further)
    browsed = Message(stored.unlocked_prefix(delivery_count, sequence_number, enqueued_time_ms, entries))
    handed_out = Message(stored.handed_out_prefix(delivery_count, sequence_number, enqueued_time_ms, entries))
    assert handed_out.sections.is_canonical
    assert is_same(handed_out.delivery_annotations, browsed.delivery_annotations or {})
    assert handed_out.sections.raw(0x70) == browsed.sections.raw(0x70)
    assert handed_out.sections.raw(0x72) == browsed.sections.raw(0x72)


@pytest.mark.parametrize("length", [0, 60, 155, 156, 157, 158, 300])
def test_a_locked_delivery_equals_a_splice_around_the_size_where_a_map_needs_four_bytes(length: int) -> None:
    message = Message(encode_message(message_annotations={"k": bytes(length)}) + BODY)
    stored = prepare(message)
    # Both times and the number do not fit into one byte, where the general encoder would write them shorter.
    spliced = splice(
        message,
        Header(delivery_count=2),
        {"x-opt-lock-token": TOKEN},
        {
            "x-opt-enqueued-time": Timestamp(1_700_000_000_000),
            "x-opt-sequence-number": 1_000,
            "x-opt-locked-until": Timestamp(1_700_000_030_000),
        },
    )
    prefix = stored.locked_prefix(2, 1_000, 1_700_000_000_000, 1_700_000_030_000, TOKEN.bytes)
    assert prefix + stored.bare == spliced


def test_a_locked_delivery_byte_by_byte() -> None:
    stored = prepare(Message(BODY))
    prefix = stored.locked_prefix(0, 1, 2, 3, TOKEN.bytes)
    assert prefix == (
        bytes.fromhex("005370 c00605 40404040 43")
        + bytes.fromhex("005371 c12402 a310")
        + b"x-opt-lock-token\x98"
        + TOKEN.bytes
        + bytes.fromhex("005372 c15c06 a313")
        + b"x-opt-enqueued-time\x83"
        + (2).to_bytes(8, "big")
        + b"\xa3\x15x-opt-sequence-number\x81"
        + (1).to_bytes(8, "big")
        + b"\xa3\x12x-opt-locked-until\x83"
        + (3).to_bytes(8, "big")
    )
    assert stored.bare == BODY


def test_the_official_codec_reads_a_delivery() -> None:
    sent = encode_message(header=Header(ttl_ms=5_000), properties=Properties(message_id="m"), data=b"body")
    stored = prepare(Message(sent))
    delivery = stored.locked_prefix(3, 17, 1_700_000_000_000, 1_700_000_030_000, TOKEN.bytes) + stored.bare
    read = pyamqp_decode.decode_payload(memoryview(delivery))
    assert read.header is not None
    assert list(read.header) == [None, None, 5_000, None, 3]
    assert read.delivery_annotations == {b"x-opt-lock-token": TOKEN}
    assert read.message_annotations == {
        b"x-opt-enqueued-time": 1_700_000_000_000,
        b"x-opt-sequence-number": 17,
        b"x-opt-locked-until": 1_700_000_030_000,
    }
    assert read.data == [b"body"]


@spec("amqp:3.2.1")
def test_a_time_to_live_that_the_sender_did_not_set_stays_unset() -> None:
    stored = prepare(Message(Header(durable=True).encode() + BODY))
    assert Message(stored.unlocked_prefix(1, 1, 1)).header == Header(durable=True, delivery_count=1)


def test_annotations_of_another_broker_do_not_survive() -> None:
    stale = {key.decode(): 1 for key in BROKER_ANNOTATIONS}
    sender = {**stale, "x-opt-partition-key": "p", "x-opt-scheduled-enqueue-time": Timestamp(5)}
    message = Message(encode_message(delivery_annotations=stale, message_annotations=sender, data=b"body"))
    stored = prepare(message)
    assert stored.delivery_annotations.count == 0
    delivery = Message(stored.unlocked_prefix(0, 7, 8) + stored.bare)
    assert delivery.delivery_annotations is None
    assert delivery.message_annotations == {
        "x-opt-enqueued-time": 8,
        "x-opt-sequence-number": 7,
        "x-opt-partition-key": "p",
        "x-opt-scheduled-enqueue-time": 5,
    }


def test_annotations_of_the_broker_can_be_encoded_once_per_message() -> None:
    stored = prepare(Message(BODY))
    further = Entries.with_symbol_keys({"x-opt-message-state": Int(1)})
    delivery = Message(stored.locked_prefix(0, 1, 2, 3, TOKEN.bytes, further))
    assert delivery.message_annotations is not None
    assert is_same(delivery.message_annotations["x-opt-message-state"], Int(1))


def test_an_event_is_delivered_without_a_header() -> None:
    stored = prepare(Message(encode_message(message_annotations={"x-opt-partition-key": "p"}) + BODY))
    fresh = Entries.with_symbol_keys({"x-opt-offset": "0"}).followed_by(stored.message_annotations)
    event = Message(fresh.to_section(MESSAGE_ANNOTATIONS) + stored.bare)
    assert event.header is None
    assert event.message_annotations == {"x-opt-offset": "0", "x-opt-partition-key": "p"}
    assert event.data == b"body"


def test_a_body_that_cannot_be_decoded_is_delivered_all_the_same() -> None:
    stored = prepare(Message(INVALID_VALUE_BODY))
    delivery = stored.locked_prefix(0, 1, 2, 3, TOKEN.bytes) + stored.bare
    assert delivery.endswith(INVALID_VALUE_BODY)
    stored = stored.modified({"a": 1})
    assert stored.bare == encode_message(application_properties={"a": 1}) + INVALID_VALUE_BODY
    with pytest.raises(DecodeError):
        _ = Message(delivery).value


def test_properties_to_modify_change_the_application_properties_of_later_deliveries() -> None:
    stored = prepare(Message(encode_message(properties=Properties(to="x"), application_properties={"a": 1, "b": 2})))
    stored = stored.modified({Symbol("b"): 3, "c": 4})
    delivery = Message(stored.unlocked_prefix(0, 1, 2) + stored.bare)
    assert is_same(delivery.application_properties, {"a": 1, "b": 3, "c": 4})
    assert delivery.properties == Properties(to="x")


def test_what_is_stored_can_be_made_again_from_its_parts() -> None:
    sent = Message(encode_message(header=Header(priority=1), delivery_annotations={"d": 1}, data=b"body"))
    stored = prepare(sent)
    delivery = stored.delivery_annotations
    again = Stored(stored.header_fields, Entries(delivery.encoded, delivery.count), NO_ENTRIES, stored.bare)
    assert again.locked_prefix(0, 1, 2, 3, TOKEN.bytes) == stored.locked_prefix(0, 1, 2, 3, TOKEN.bytes)


def test_a_message_with_malformed_annotations_or_header_is_refused_when_it_arrives() -> None:
    for section in ("005370 c00201ff", "005371 c10201ff", "005372 c10201ff"):
        with pytest.raises(DecodeError):
            prepare(Message(bytes.fromhex(section) + BODY))


def test_numbers_that_do_not_fit_raise_our_own_errors() -> None:
    stored = prepare(Message(BODY))
    with pytest.raises(EncodeError, match="a lock token is a uuid of 16 bytes, not 15"):
        stored.locked_prefix(0, 1, 2, 3, bytes(15))
    with pytest.raises(EncodeError, match="an annotation of the delivery is out of range"):
        stored.locked_prefix(0, 2**63, 2, 3, TOKEN.bytes)
    with pytest.raises(EncodeError, match="an annotation of the delivery is out of range"):
        stored.unlocked_prefix(0, 1, -(2**63) - 1)
    for delivery_count in (-1, 2**32):
        with pytest.raises(EncodeError, match=f"{delivery_count} is not within the 0 to 4294967295 of a uint"):
            stored.unlocked_prefix(delivery_count, 1, 2)


def test_a_header_is_told_with_its_time_to_live_however_many_others_came_before() -> None:
    for ttl_ms in (*range(1, 600), None, 1, 600):
        stored, told_ms = prepare_with_ttl(Message(encode_message(header=Header(ttl_ms=ttl_ms), data=b"body")))
        assert told_ms == ttl_ms
        delivered = Message(stored.unlocked_prefix(7, 1, 2) + stored.bare).header
        assert delivered == Header(ttl_ms=ttl_ms, delivery_count=7)
    assert prepare_with_ttl(Message(BODY))[1] is None
