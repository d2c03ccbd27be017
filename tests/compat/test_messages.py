"""What a message carries comes back as it was sent, byte for byte and type for type."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiveMode
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType, AmqpMessageHeader, AmqpMessageProperties

from tests.compat.sdk import AT_ONCE, Bus, correlation, rule, sql, take_one

pytestmark = AT_ONCE


def round_trip(bus: Bus, message: ServiceBusMessage | AmqpAnnotatedMessage, **fields: Any) -> ServiceBusReceivedMessage:
    queue = bus.queue(**fields)
    with queue.sender() as sender:
        sender.send_messages(message)
    with queue.receiver() as receiver:
        received = take_one(receiver)
        receiver.complete_message(received)
    return received


def test_every_property_comes_back(bus: Bus) -> None:
    fields: dict[str, Any] = {
        "message_id": "id",
        "content_type": "application/json",
        "correlation_id": "correlation",
        "subject": "label",
        "to": "somewhere",
        "reply_to": "elsewhere",
        "reply_to_session_id": "session of the answer",
        "session_id": "session",
        "time_to_live": timedelta(minutes=5),
    }
    received = round_trip(bus, ServiceBusMessage("body", **fields))
    assert {name: getattr(received, name) for name in fields} == fields
    assert received.enqueued_time_utc is not None
    assert received.expires_at_utc == received.enqueued_time_utc + timedelta(minutes=5)


@pytest.mark.parametrize(
    "sent, expected",
    [
        (True, True),
        (-(2**31), -(2**31)),
        (0.1, 0.1),
        ("größer", "größer".encode()),
        ("", b""),
        (uuid.UUID(int=7), uuid.UUID(int=7)),
        (datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC), 1_767_323_045_678),
        (None, None),
    ],
    ids=["boolean", "int", "double", "string", "empty string", "uuid", "timestamp", "null"],
)
def test_an_application_property_keeps_its_type(bus: Bus, sent: Any, expected: Any) -> None:
    received = round_trip(bus, ServiceBusMessage("body", application_properties={"value": sent}))
    assert received.application_properties is not None
    value = received.application_properties[b"value"]
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    "message_id, expected",
    [
        ("text", b"text"),
        (uuid.UUID(int=2**127), uuid.UUID(int=2**127)),
        (2**64 - 1, 2**64 - 1),
        (b"\xff\x00", b"\xff\x00"),
    ],
    ids=["string", "uuid", "ulong", "binary"],
)
def test_a_message_id_keeps_its_type(bus: Bus, message_id: Any, expected: Any) -> None:
    message = AmqpAnnotatedMessage(data_body=b"x", properties={"message_id": message_id, "correlation_id": message_id})
    properties = round_trip(bus, message).raw_amqp_message.properties
    assert properties is not None
    assert (properties.message_id, properties.correlation_id) == (expected, expected)


@pytest.mark.parametrize("message_id", [uuid.UUID(int=7), 7, b"7"], ids=["uuid", "ulong", "binary"])
def test_duplicates_are_found_by_message_ids_of_any_type(bus: Bus, message_id: Any) -> None:
    queue = bus.queue(requires_duplicate_detection=True)
    with queue.sender() as sender:
        for _ in range(2):
            sender.send_messages(AmqpAnnotatedMessage(data_body=b"x", properties={"message_id": message_id}))
    assert queue.counts() == {"active": 1}


def test_a_body_of_several_data_sections_stays_in_sections(bus: Bus) -> None:
    received = round_trip(bus, AmqpAnnotatedMessage(data_body=[b"one", b"", b"three"]))
    assert received.body_type is AmqpMessageBodyType.DATA
    assert list(received.body) == [b"one", b"", b"three"]


def test_a_body_may_be_a_value(bus: Bus) -> None:
    value = {"list": [1, 2.5, None, True], "map": {"a": "b"}, "uuid": uuid.UUID(int=1)}
    received = round_trip(bus, AmqpAnnotatedMessage(value_body=value))
    assert received.body_type is AmqpMessageBodyType.VALUE
    assert received.body == {b"list": [1, 2.5, None, True], b"map": {b"a": b"b"}, b"uuid": uuid.UUID(int=1)}


def test_a_body_may_be_sequences(bus: Bus) -> None:
    received = round_trip(bus, AmqpAnnotatedMessage(sequence_body=[[1, "two"], [3.0, None]]))
    assert received.body_type is AmqpMessageBodyType.SEQUENCE
    assert list(received.body) == [[1, b"two"], [3.0, None]]


def test_a_message_may_have_no_body(bus: Bus) -> None:
    received = round_trip(bus, ServiceBusMessage(None, subject="only a label"))
    assert received.body is None
    assert received.subject == "only a label"


def test_the_header_the_annotations_and_the_footer_of_the_sender_come_back(bus: Bus) -> None:
    message = AmqpAnnotatedMessage(
        data_body=b"x",
        header=AmqpMessageHeader(priority=7, durable=True),
        properties=AmqpMessageProperties(
            content_encoding="identity", user_id=b"me", group_id="group", group_sequence=5, reply_to_group_id="other"
        ),
        annotations={"x-opt-of-mine": "message", "x-opt-number": 3},
        delivery_annotations={"x-opt-of-mine": "delivery"},
        footer={"x-opt-of-mine": "footer"},
    )
    raw = round_trip(bus, message).raw_amqp_message
    assert raw.header is not None
    assert (raw.header.priority, raw.header.durable, raw.header.delivery_count) == (7, True, 0)
    assert raw.properties is not None
    assert (raw.properties.content_encoding, raw.properties.user_id) == (b"identity", b"me")
    assert (raw.properties.group_id, raw.properties.group_sequence) == (b"group", 5)
    assert raw.annotations is not None
    assert (raw.annotations[b"x-opt-of-mine"], raw.annotations[b"x-opt-number"]) == (b"message", 3)
    assert (raw.delivery_annotations or {})[b"x-opt-of-mine"] == b"delivery"
    assert (raw.footer or {})[b"x-opt-of-mine"] == b"footer"


def test_a_delivery_carries_its_lock_token_in_both_places(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("x")
    with queue.receiver() as receiver:
        message = take_one(receiver)
        annotations = message.raw_amqp_message.delivery_annotations
        assert annotations is not None
        # The SDK takes it from the delivery tag.
        assert annotations[b"x-opt-lock-token"] == message.lock_token


def test_a_message_that_is_received_and_deleted_has_an_empty_map_of_delivery_annotations(bus: Bus) -> None:
    """As the live tests of the SDK expect."""
    queue = bus.queue()
    queue.send("x")
    with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert take_one(receiver).raw_amqp_message.delivery_annotations == {}


def test_a_peeked_message_is_as_complete_as_a_received_one(bus: Bus) -> None:
    queue = bus.queue()
    queue.send(ServiceBusMessage("body", message_id="7", subject="label", application_properties={"colour": "red"}))
    with queue.receiver() as receiver:
        (peeked,) = receiver.peek_messages(1)
        received = take_one(receiver)
    for name in ("message_id", "subject", "application_properties", "sequence_number", "enqueued_time_utc"):
        assert getattr(peeked, name) == getattr(received, name), name
    assert b"".join(peeked.body) == b"".join(received.body) == b"body"


def test_a_received_message_can_be_sent_again(bus: Bus) -> None:
    """The SDK reads strings as bytes: sent again, the partition key and the message id are binary."""
    queue = bus.queue()
    queue.send(ServiceBusMessage("again", message_id="id", partition_key="key", application_properties={"a": "b"}))
    with queue.receiver() as receiver, queue.sender() as sender:
        first = take_one(receiver)
        sender.send_messages(first)
        receiver.complete_message(first)
        second = take_one(receiver)
        receiver.complete_message(second)
    assert (second.message_id, second.partition_key) == ("id", "key")
    assert second.sequence_number != first.sequence_number


def test_a_message_that_is_sent_again_is_selected_by_the_same_rules(bus: Bus) -> None:
    """Sent again by the SDK, its message id and its correlation id are binary. A rule compares them as text."""
    topic = bus.topic()
    subscriptions = [
        topic.subscription(rule("correlation", correlation(correlation_id="c", message_id="id"))),
        topic.subscription(rule("sql", sql("sys.CorrelationId = 'c' AND sys.MessageId LIKE 'i_'"))),
    ]
    topic.send(ServiceBusMessage("again", message_id="id", correlation_id="c"))
    with subscriptions[0].receiver() as receiver, topic.sender() as sender:
        sender.send_messages(take_one(receiver))
    assert [one.counts() for one in subscriptions] == [{"active": 2}, {"active": 2}]


@pytest.mark.parametrize("text", ["1.50", "-0.000001", "4294967295", "1E+3"])
def test_a_decimal_comes_back(bus: Bus, text: str) -> None:
    """The SDK writes decimals as AMQP 1.0 says, and reads only the layout that the service delivers."""
    number = Decimal(text)
    properties: dict[str | bytes, Any] = {"price": number, "text": "t"}
    received = round_trip(bus, ServiceBusMessage("body", application_properties=properties))
    assert received.application_properties == {b"price": number, b"text": b"t"}


def test_a_decimal_among_the_annotations_comes_back(bus: Bus) -> None:
    annotations: dict[str, Any] = {"x-opt-price": Decimal("1.5")}
    message = AmqpAnnotatedMessage(data_body=b"x", annotations=annotations, delivery_annotations=dict(annotations))
    raw = round_trip(bus, message).raw_amqp_message
    assert (raw.annotations or {})[b"x-opt-price"] == Decimal("1.5")
    assert (raw.delivery_annotations or {})[b"x-opt-price"] == Decimal("1.5")
