"""Publish with the official SDK: one send to a topic, a copy in every subscription that wants it."""

from __future__ import annotations

import contextlib
import uuid
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusQuotaExceededError

from tests.compat.sdk import (
    AT_ONCE,
    Bus,
    Subscription,
    Topic,
    await_empty,
    drain_all,
    now,
    number_of,
    rule,
    sql,
    take,
    take_all,
    take_one,
    text,
    texts,
)
from tests.markers import mission

pytestmark = AT_ONCE


@mission("M7")
def test_a_message_reaches_every_subscription(bus: Bus) -> None:
    topic = bus.topic()
    subscriptions = [topic.subscription() for _ in range(3)]
    topic.send("news")
    assert [subscription.counts() for subscription in subscriptions] == [{"active": 1}] * 3
    assert drain_all(*subscriptions) == [["news"]] * 3


@mission("M7")
def test_a_message_reaches_only_the_subscriptions_whose_rules_select_it(bus: Bus) -> None:
    topic = bus.topic()
    red = topic.subscription(rule("red", sql("colour = 'red'")))
    blue = topic.subscription(rule("blue", sql("colour = 'blue'")))
    colours = ("red", "blue", "green", "red")
    topic.send(*(ServiceBusMessage(colour, application_properties={"colour": colour}) for colour in colours))
    assert drain_all(red, blue) == [["red", "red"], ["blue"]]


@mission("M7")
def test_single_messages_lists_and_batches_arrive_in_the_order_of_sending(bus: Bus) -> None:
    topic = bus.topic()
    one, other = topic.subscription(), topic.subscription()
    with topic.sender() as sender:
        sender.send_messages(ServiceBusMessage("0"))
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(1, 20)])
        batch = sender.create_message_batch()
        for number in range(20, 40):
            batch.add_message(ServiceBusMessage(str(number)))
        sender.send_messages(batch)
    assert drain_all(one, other) == [[str(number) for number in range(40)]] * 2


@mission("M3", "M7")
def test_what_one_subscription_does_with_its_copy_is_nothing_to_the_others(bus: Bus) -> None:
    topic = bus.topic()
    completed, dead_lettered, untouched = [topic.subscription() for _ in range(3)]
    topic.send("news")
    with completed.receiver() as receiver:
        receiver.complete_message(take_one(receiver))
    with dead_lettered.receiver() as receiver:
        receiver.dead_letter_message(take_one(receiver), reason="unwanted")
    assert completed.counts() == {}
    assert dead_lettered.counts() == {"dead_letter": 1}
    with untouched.receiver() as receiver:
        copy = take_one(receiver)
    assert (text(copy), copy.delivery_count, copy.dead_letter_reason) == ("news", 0, None)


@mission("M1", "M7")
def test_the_consumers_of_one_subscription_compete(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription()
    expected = [str(number) for number in range(20)]
    topic.send(*expected)
    with subscription.receiver() as one, subscription.receiver() as other:
        taken = take(one, 10) + take(other, 10)
        assert take_all(one) == []
    assert sorted(texts(taken)) == sorted(expected)


@mission("M2", "M7")
def test_a_copy_received_and_deleted_is_gone_from_its_subscription_only(bus: Bus) -> None:
    topic = bus.topic()
    deleting, keeping = topic.subscription(), topic.subscription()
    topic.send("news")
    with deleting.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert take_one(receiver).lock_token is None
    assert deleting.counts() == {}
    assert keeping.counts() == {"active": 1}


@mission("M7")
def test_a_subscription_gets_what_is_sent_after_it_was_made(bus: Bus) -> None:
    topic = bus.topic()
    early = topic.subscription()
    topic.send("before")
    late = topic.subscription()
    topic.send("after")
    assert drain_all(early, late) == [["before", "after"], ["after"]]


def test_a_message_that_nobody_subscribed_to_is_accepted_and_gone(bus: Bus) -> None:
    topic = bus.topic()
    nobody = topic.subscription(rule("none", {"kind": "false"}))
    topic.send("news")
    assert nobody.counts() == {}
    assert topic.fields()["size_in_bytes"] == 0


def test_copies_share_their_body_until_the_last_one_is_gone(bus: Bus) -> None:
    topic = bus.topic()
    *others, last = [topic.subscription() for _ in range(4)]
    topic.send(ServiceBusMessage(b"x" * 100_000))
    assert 100_000 < topic.fields()["size_in_bytes"] < 150_000
    assert [len(body) for bodies in drain_all(*others) for body in bodies] == [100_000] * 3
    assert 100_000 < topic.fields()["size_in_bytes"] < 150_000
    assert [len(body) for body in last.drain()] == [100_000]
    await_empty(topic)


def test_a_subscription_that_is_deleted_leaves_the_copies_of_others_whole(bus: Bus) -> None:
    topic = bus.topic()
    doomed, other = topic.subscription(), topic.subscription()
    topic.send(ServiceBusMessage(b"x" * 100_000), "short")
    bus.broker.delete_subscription(topic.name, doomed.own_name)
    assert topic.fields()["subscription_count"] == 1
    assert other.drain() == ["x" * 100_000, "short"]
    # What was deleted is swept in the background.
    await_empty(topic)


def test_a_topic_is_as_large_as_it_was_before_a_subscription_that_nobody_read_from(bus: Bus) -> None:
    topic = bus.topic()
    unread, other = topic.subscription(), topic.subscription()
    topic.send(ServiceBusMessage(b"x" * 100_000))
    other.drain()
    # Nothing else is written afterwards that could tell how large the topic is.
    bus.broker.delete_subscription(topic.name, unread.own_name)
    await_empty(topic)


def test_a_copy_is_the_message_as_it_was_sent(bus: Bus) -> None:
    topic = bus.topic()
    one, other = topic.subscription(), topic.subscription()
    key = uuid.uuid4()
    message = ServiceBusMessage(
        bytes(range(256)),
        application_properties={"text": "täglich", "number": 7, "float": 2.5, "flag": True, "key": key, "raw": b"\0"},
        message_id="one",
        subject="label",
        content_type="application/octet-stream",
        correlation_id="two",
        to="somewhere",
        reply_to="here",
        reply_to_session_id="there",
        time_to_live=timedelta(hours=1),
    )
    topic.send(message)
    for subscription in (one, other):
        with subscription.receiver() as receiver:
            copy = take_one(receiver)
        assert b"".join(copy.body) == bytes(range(256))
        properties = copy.application_properties
        assert properties is not None
        assert {bytes(name): properties[name] for name in properties if isinstance(name, bytes)} == {
            b"text": "täglich".encode(),
            b"number": 7,
            b"float": 2.5,
            b"flag": True,
            b"key": key,
            b"raw": b"\0",
        }
        assert (copy.message_id, copy.subject, copy.content_type) == ("one", "label", "application/octet-stream")
        assert (copy.correlation_id, copy.to, copy.reply_to, copy.reply_to_session_id) == (
            "two",
            "somewhere",
            "here",
            "there",
        )
        assert copy.time_to_live == timedelta(hours=1)


def test_a_copy_has_a_number_of_its_subscription_and_one_of_the_topic(bus: Bus) -> None:
    topic = bus.topic()
    everything = topic.subscription()
    some = topic.subscription(rule("some", sql("wanted = TRUE")))
    before = now() - timedelta(seconds=1)
    for wanted in (False, True):
        topic.send(ServiceBusMessage("news", application_properties={"wanted": wanted}))
    with everything.receiver() as all_of_them, some.receiver() as some_of_them:
        first, second = take(all_of_them, 2)
        only = take_one(some_of_them)
    assert (number_of(first), number_of(second), number_of(only)) == (1, 2, 1)
    assert only.enqueued_sequence_number == second.enqueued_sequence_number != first.enqueued_sequence_number
    assert only.enqueued_time_utc is not None
    assert before < only.enqueued_time_utc < now() + timedelta(seconds=1)
    assert only.lock_token != second.lock_token


@mission("M3", "M7")
def test_a_duplicate_reaches_no_subscription(bus: Bus) -> None:
    topic = bus.topic(requires_duplicate_detection=True)
    subscriptions = [topic.subscription(), topic.subscription()]
    picky = topic.subscription(rule("some", sql("wanted = TRUE")))
    topic.send(
        ServiceBusMessage("order", message_id="1"),
        # Nor those that would not have got the first one.
        ServiceBusMessage("order again", message_id="1", application_properties={"wanted": True}),
        ServiceBusMessage("another", message_id="2"),
    )
    assert drain_all(*subscriptions) == [["order", "another"]] * 2
    topic.send(ServiceBusMessage("late", message_id="1"))
    assert [subscription.counts() for subscription in (*subscriptions, picky)] == [{}, {}, {}]


def test_a_message_larger_than_the_topic_allows_is_refused(bus: Bus) -> None:
    topic = bus.topic(max_message_size_in_kilobytes=512)
    subscription = topic.subscription()
    with topic.sender() as sender:
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(b"x" * 512 * 1024))
        sender.send_messages(ServiceBusMessage(b"x" * 500_000))
        batch = sender.create_message_batch()
        assert batch.max_size_in_bytes == 512 * 1024
    assert [len(body) for body in subscription.drain()] == [500_000]


@mission("M17")
def test_a_full_topic_refuses_messages_until_some_subscription_is_read(bus: Bus) -> None:
    topic = bus.topic(max_size_in_megabytes=1)
    subscription = topic.subscription()
    body = b"x" * 200_000
    with topic.sender() as sender:
        with contextlib.suppress(ServiceBusQuotaExceededError):
            for _ in range(6):
                sender.send_messages(ServiceBusMessage(body))
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage(body))
        assert len(subscription.drain()) >= 4
        sender.send_messages(ServiceBusMessage("small"))
    assert subscription.drain() == ["small"]


def test_the_counts_of_a_subscription_follow_its_messages(bus: Bus) -> None:
    topic = bus.topic()
    one, other = topic.subscription(), topic.subscription()
    topic.send(*(f"message {number}" for number in range(5)))
    with one.receiver() as receiver:
        completed, deferred, dead, _ = take(receiver, 4)
        receiver.complete_message(completed)
        receiver.defer_message(deferred)
        receiver.dead_letter_message(dead)
        assert one.counts() == {"active": 2, "deferred": 1, "dead_letter": 1}
    assert one.fields()["message_count"] == 4
    assert other.counts() == {"active": 5}
    assert topic.fields()["subscription_count"] == 2


@pytest.mark.parametrize("name", ["News/eu/de", "News.v2"])
def test_a_topic_and_a_subscription_are_found_by_their_names_in_any_case(bus: Bus, name: str) -> None:
    name = f"{name}-{uuid.uuid4().hex[:8]}"
    bus.broker.create_topic(name)
    bus.broker.create_subscription(name, "Dash.Board_1")
    Topic(bus.broker, bus.client, name.upper()).send("hello")
    assert Subscription(bus.broker, bus.client, name.lower(), "dash.BOARD_1").drain() == ["hello"]
    assert bus.broker.topic(name)["name"] == name


def test_a_queue_and_a_topic_can_not_have_one_name(bus: Bus) -> None:
    queue, topic = bus.queue(), bus.topic()
    with pytest.raises(Exception, match="exists"):
        bus.broker.create_topic(queue.name)
    with pytest.raises(Exception, match="exists"):
        bus.broker.create_queue(topic.name.upper())
