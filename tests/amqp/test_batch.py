from __future__ import annotations

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus._pyamqp import _decode as pyamqp_decode
from azure.servicebus._pyamqp import _encode as pyamqp_encode
from azure.servicebus._pyamqp.message import BatchMessage
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.batch import BATCH_FORMAT, locate_batch, make_batch, partition_key, split_batch
from tandem.amqp.message import Message, Properties, encode_message
from tandem.amqp.sections import data_section
from tandem.errors import DecodeError, UsageError
from tandem.limits import MAX_MESSAGES_PER_BATCH
from tests.amqp.message_strategies import section_lists
from tests.markers import spec

MESSAGES = section_lists().map(b"".join)


@spec("amqp:2.8.11")
def test_the_format_is_that_of_the_official_sdk() -> None:
    assert BATCH_FORMAT == BatchMessage._code == 2147563264


@given(st.lists(MESSAGES, max_size=4))
def test_a_batch_is_split_into_the_messages_it_was_made_of(messages: list[bytes]) -> None:
    envelope = make_batch(messages)
    assert split_batch(envelope) == messages
    assert [message.payload for message in locate_batch(envelope)] == messages
    assert split_batch(Message(envelope)) == messages


def test_an_envelope_may_have_properties_and_annotations() -> None:
    message = encode_message(data=b"body")
    envelope = make_batch(
        [message], message_annotations={"x-opt-partition-key": "key"}, properties=Properties(message_id="first")
    )
    located = Message(envelope)
    assert split_batch(located) == [message]
    assert partition_key(located) == "key"
    assert located.properties == Properties(message_id="first")


def test_an_envelope_without_a_partition_key_has_none() -> None:
    assert partition_key(Message(make_batch([]))) is None
    assert partition_key(Message(make_batch([], message_annotations={"other": 1}))) is None


def test_a_partition_key_may_come_as_binary() -> None:
    assert partition_key(Message(make_batch([], message_annotations={"x-opt-partition-key": b"key"}))) == "key"


def test_a_partition_key_of_the_wrong_type_is_refused() -> None:
    envelope = Message(make_batch([], message_annotations={"x-opt-partition-key": 5}))
    with pytest.raises(DecodeError, match=r"message-annotations.x-opt-partition-key must be a string, got 5"):
        partition_key(envelope)


@pytest.mark.parametrize("body", [encode_message(value="text"), encode_message(sequence=[1])])
def test_a_batch_without_data_sections_is_refused(body: bytes) -> None:
    with pytest.raises(DecodeError, match="a batch holds its messages in data sections, this one has amqp-"):
        split_batch(body)


def test_a_malformed_message_in_a_batch_is_told_by_its_index() -> None:
    good = encode_message(data=b"body")
    envelope = make_batch([good, good, b"\x00\x53\x79\x40"])
    assert split_batch(envelope)[2] == b"\x00\x53\x79\x40"
    with pytest.raises(DecodeError, match="message 2 of the batch: message section at offset 0 has the unknown descri"):
        locate_batch(envelope)


def test_a_malformed_envelope_is_refused() -> None:
    with pytest.raises(DecodeError, match="offset 0"):
        split_batch(make_batch([b"body"])[:-1])


def test_the_number_of_messages_is_bounded_both_ways() -> None:
    most = [b""] * MAX_MESSAGES_PER_BATCH
    assert len(split_batch(make_batch(most))) == MAX_MESSAGES_PER_BATCH
    with pytest.raises(UsageError, match="a batch of 65537 messages is more than the 65536 allowed"):
        make_batch([*most, b""])
    with pytest.raises(DecodeError, match="65536"):
        split_batch(data_section(b"") * (MAX_MESSAGES_PER_BATCH + 1))


def test_a_batch_of_the_official_sdk_is_split() -> None:
    batch = ServiceBusMessageBatch()
    bodies = [b"short", b"long" * 100]
    for index, body in enumerate(bodies):
        batch.add_message(ServiceBusMessage(body, message_id=f"m-{index}", session_id="s", partition_key="s"))
    envelope = Message(bytes(pyamqp_encode.encode_payload(bytearray(), BatchMessage(*batch._message))))
    messages = locate_batch(envelope)
    assert [message.data for message in messages] == bodies
    assert [message.properties and message.properties.message_id for message in messages] == ["m-0", "m-1"]
    assert partition_key(envelope) == "s"


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_a_batch_of_ours_is_read_by_the_official_codec(messages: list[bytes]) -> None:
    assert pyamqp_decode.decode_payload(memoryview(make_batch(messages))).data == messages
