"""What the broker does with what the official SDK sends."""

from __future__ import annotations

import contextlib
import uuid
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError, ServiceBusQuotaExceededError

from tests.compat.sdk import AT_ONCE, Bus, Queue, number_of, take, take_all, take_one, text, texts
from tests.markers import mission

pytestmark = AT_ONCE


def test_the_first_message_of_a_queue_has_sequence_number_one(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("first", "second")
    with queue.receiver() as receiver:
        assert [number_of(message) for message in take(receiver, 2)] == [1, 2]


def test_a_message_that_is_sent_without_an_id_gets_one(bus: Bus) -> None:
    """The SDK sends none of its own."""
    queue = bus.queue()
    with queue.sender() as sender:
        sender.send_messages(ServiceBusMessage("one"))
        sender.send_messages([ServiceBusMessage("two"), ServiceBusMessage("three")])
    with queue.receiver() as receiver:
        ids = [message.message_id for message in take(receiver, 3)]
    assert all(isinstance(one, str) and one for one in ids)
    assert len(set(ids)) == 3


@mission("M1")
def test_messages_come_in_the_order_in_which_they_were_accepted(bus: Bus) -> None:
    queue = bus.queue()
    with queue.sender() as one, queue.sender() as other:
        for number in range(30):
            (one if number % 2 else other).send_messages(ServiceBusMessage(str(number)))
        one.send_messages([ServiceBusMessage(str(number)) for number in range(30, 60)])
    assert queue.drain() == [str(number) for number in range(60)]


@mission("M1")
def test_sender_and_receiver_need_not_run_at_the_same_time(bus: Bus) -> None:
    queue = bus.queue()
    with bus.connect() as producer, producer.get_queue_sender(queue.name) as sender:
        sender.send_messages(ServiceBusMessage("from somebody who has left"))
    with bus.connect() as consumer, consumer.get_queue_receiver(queue.name) as receiver:
        assert text(take_one(receiver)) == "from somebody who has left"


def test_a_message_has_no_time_to_live_unless_one_was_set(bus: Bus) -> None:
    queue = bus.queue()
    queue.send(ServiceBusMessage("for ever"), ServiceBusMessage("for an hour", time_to_live=timedelta(hours=1)))
    with queue.receiver() as receiver:
        for_ever, for_an_hour = take(receiver, 2)
    assert for_ever.time_to_live is None
    assert for_ever.expires_at_utc is None
    assert for_an_hour.time_to_live == timedelta(hours=1)


def test_a_batch_is_accepted_or_refused_as_a_whole(bus: Bus) -> None:
    queue = bus.queue(requires_session=True)
    with queue.sender() as sender:
        good = [ServiceBusMessage("good", session_id="session") for _ in range(3)]
        with pytest.raises(ServiceBusError, match="SessionId"):
            sender.send_messages([*good, ServiceBusMessage("without a session")])
        assert queue.counts() == {}
        sender.send_messages(good)
    assert queue.counts() == {"active": 3}


def test_a_message_as_large_as_the_queue_allows_is_accepted_and_a_larger_one_is_not(bus: Bus) -> None:
    queue = bus.queue(max_message_size_in_kilobytes=512)
    body = bytes(range(256)) * 2_040
    with queue.sender() as sender:
        sender.send_messages(ServiceBusMessage(body))
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * 512 * 1024))
        # The link outlives the refusal.
        sender.send_messages(ServiceBusMessage("small"))
    with queue.receiver() as receiver:
        large, small = take(receiver, 2)
    assert b"".join(large.body) == body
    assert text(small) == "small"


def test_a_batch_may_be_as_large_as_the_broker_says_for_the_queue(bus: Bus) -> None:
    queue = bus.queue()
    with queue.sender() as sender:
        batch = sender.create_message_batch()
        assert batch.max_size_in_bytes == 256 * 1024
        with contextlib.suppress(MessageSizeExceededError):
            while True:
                batch.add_message(ServiceBusMessage(b"x" * 1_000))
        sender.send_messages(batch)
    assert queue.counts() == {"active": len(batch)}


@mission("M17")
def test_a_full_queue_refuses_messages_until_some_are_received(bus: Bus) -> None:
    queue = bus.queue(max_size_in_megabytes=1)
    with queue.sender() as sender:
        for _ in range(4):
            sender.send_messages(ServiceBusMessage(b"x" * 200_000))
        # A message may go over the limit; the next one is refused.
        with contextlib.suppress(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * 200_000))
            sender.send_messages(ServiceBusMessage(b"x" * 200_000))
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * 200_000))
        with queue.receiver() as receiver:
            receiver.complete_message(take_one(receiver))
        sender.send_messages(ServiceBusMessage("small"))


def test_the_counts_of_a_queue_follow_its_messages(bus: Bus) -> None:
    queue = bus.queue()
    queue.send(*(f"message {number}" for number in range(6)))
    assert queue.counts() == {"active": 6}
    with queue.receiver() as receiver:
        completed, deferred, dead, _ = take(receiver, 4)
        # A locked message is an active one.
        assert queue.counts() == {"active": 6}
        receiver.complete_message(completed)
        receiver.defer_message(deferred)
        receiver.dead_letter_message(dead)
        assert queue.counts() == {"active": 3, "deferred": 1, "dead_letter": 1}
    assert bus.broker.queue(queue.name)["message_count"] == 5


@pytest.mark.parametrize("name", ["orders/eu/de", "orders.v2", "Orders_and-Returns~1"])
def test_a_queue_is_found_by_its_name_in_any_case(bus: Bus, name: str) -> None:
    name = f"{name}-{uuid.uuid4().hex[:8]}"
    bus.broker.create_queue(name)
    Queue(bus.broker, bus.client, name.upper()).send("hello")
    assert Queue(bus.broker, bus.client, name.lower()).drain() == ["hello"]
    assert bus.broker.queue(name)["name"] == name


@mission("M3")
def test_a_duplicate_is_accepted_and_dropped(bus: Bus) -> None:
    queue = bus.queue(requires_duplicate_detection=True)
    queue.send(ServiceBusMessage("order", message_id="1"), ServiceBusMessage("order again", message_id="1"))
    with queue.receiver() as receiver:
        message = take_one(receiver)
        assert text(message) == "order"
        receiver.complete_message(message)
        # Also when the first one is gone already.
        queue.send(ServiceBusMessage("once more", message_id="1"), ServiceBusMessage("another", message_id="2"))
        assert text(take_one(receiver)) == "another"
        assert take_all(receiver) == []


def test_without_duplicate_detection_equal_message_ids_are_two_messages(bus: Bus) -> None:
    queue = bus.queue()
    queue.send(ServiceBusMessage("one", message_id="1"), ServiceBusMessage("two", message_id="1"))
    assert queue.drain() == ["one", "two"]


def test_messages_with_one_partition_key_stay_in_order_in_one_partition(bus: Bus) -> None:
    queue = bus.queue(enable_partitioning=True)
    with queue.sender() as sender:
        for number in range(4):
            for key in "abcdefgh":
                sender.send_messages(ServiceBusMessage(f"{key}{number}", partition_key=key))
    with queue.receiver() as receiver:
        received = take(receiver, 32)
    partitions = {message.partition_key: number_of(message) >> 48 for message in received}
    for key in "abcdefgh":
        own = [message for message in received if message.partition_key == key]
        assert texts(own) == [f"{key}{number}" for number in range(4)]
        assert {number_of(message) >> 48 for message in own} == {partitions[key]}
    assert len(set(partitions.values())) > 1


@mission("M17")
def test_a_session_and_another_partition_key_exclude_each_other(bus: Bus) -> None:
    queue = bus.queue(enable_partitioning=True)
    # As the SDK's own message it would not leave the client.
    message = AmqpAnnotatedMessage(
        data_body=b"x", properties={"group_id": "session"}, annotations={"x-opt-partition-key": "key"}
    )
    with queue.sender() as sender, pytest.raises(ServiceBusError, match="PartitionKey"):
        sender.send_messages(message)
