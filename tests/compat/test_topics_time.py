"""Messages to a topic that come later, and copies that do not last."""

from __future__ import annotations

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError

from tests.compat.sdk import (
    AT_ONCE,
    SILENCE_S,
    Bus,
    await_counts,
    in_seconds,
    now,
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
def test_a_scheduled_message_reaches_the_subscriptions_at_its_time_and_not_before(bus: Bus) -> None:
    topic = bus.topic()
    one, other = topic.subscription(), topic.subscription()
    with topic.sender() as sender, one.receiver() as receiver, other.receiver() as other_receiver:
        due = in_seconds(1.5)
        numbers = sender.schedule_messages([ServiceBusMessage("first"), ServiceBusMessage("second")], due)
        assert len(set(numbers)) == 2
        assert topic.fields()["scheduled_message_count"] == 2
        assert one.counts() == {}
        assert receiver.receive_messages(1, SILENCE_S) == []
        message = take_one(receiver)
        assert now() >= due
        assert message.scheduled_enqueue_time_utc == due
        assert message.enqueued_time_utc is not None
        assert due <= message.enqueued_time_utc < due + timedelta(seconds=1)
        assert text(message) == "first"
        assert text(take_one(receiver)) == "second"
        assert texts(take(other_receiver, 2)) == ["first", "second"]
    assert (one.counts(), other.counts()) == ({"active": 2}, {"active": 2})
    assert topic.fields()["scheduled_message_count"] == 0


def test_a_cancelled_message_reaches_no_subscription(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription()
    with topic.sender() as sender:
        numbers = sender.schedule_messages([ServiceBusMessage(str(number)) for number in range(3)], in_seconds(1))
        sender.cancel_scheduled_messages(numbers[:2])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[0])
        with subscription.receiver() as receiver:
            assert text(take_one(receiver)) == "2"
            assert take_all(receiver) == []
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[2])


def test_a_scheduled_message_is_judged_by_the_rules_of_its_time(bus: Bus) -> None:
    topic = bus.topic()
    leaving, coming = topic.subscription(), topic.subscription(rule("none", {"kind": "false"}))
    topic.send(ServiceBusMessage("later", scheduled_enqueue_time_utc=in_seconds(1.5)))
    bus.broker.delete_rule(topic.name, leaving.own_name, "$Default")
    coming.add_rule("all", {"kind": "true"})
    latest = topic.subscription()
    await_counts(coming, {"active": 1})
    assert latest.counts() == {"active": 1}
    assert leaving.counts() == {}


def test_a_scheduled_message_counts_as_sent_for_duplicates(bus: Bus) -> None:
    topic = bus.topic(requires_duplicate_detection=True)
    subscription = topic.subscription()
    topic.send(
        ServiceBusMessage("later", message_id="1", scheduled_enqueue_time_utc=in_seconds(0.8)),
        ServiceBusMessage("now", message_id="1"),
    )
    await_counts(subscription, {"active": 1})
    assert subscription.drain() == ["later"]


def test_the_shortest_of_three_times_to_live_counts(bus: Bus) -> None:
    topic = bus.topic(default_message_time_to_live_ms=3_600_000)
    short = topic.subscription(default_message_time_to_live_ms=1_000, dead_lettering_on_message_expiration=True)
    long = topic.subscription(default_message_time_to_live_ms=7_200_000)
    topic.send("news", ServiceBusMessage("brief", time_to_live=timedelta(seconds=1)))
    await_counts(short, {"dead_letter": 2})
    await_counts(long, {"active": 1})
    with long.receiver() as receiver:
        message = take_one(receiver)
    assert text(message) == "news"
    assert message.expires_at_utc is None or message.enqueued_time_utc is not None
    with short.dead_letters() as receiver:
        assert take_one(receiver).dead_letter_reason == "TTLExpiredException"


def test_the_topic_bounds_the_time_to_live_in_all_its_subscriptions(bus: Bus) -> None:
    topic = bus.topic(default_message_time_to_live_ms=1_000)
    dropping = topic.subscription()
    keeping = topic.subscription(dead_lettering_on_message_expiration=True)
    topic.send(ServiceBusMessage("milk", time_to_live=timedelta(days=1)))
    await_counts(keeping, {"dead_letter": 1})
    await_counts(dropping, {})


@mission("M3", "M7")
def test_a_locked_copy_does_not_expire_under_its_consumer(bus: Bus) -> None:
    topic = bus.topic()
    reading, waiting = topic.subscription(), topic.subscription()
    with reading.receiver() as receiver:
        topic.send(ServiceBusMessage("milk", time_to_live=timedelta(seconds=1)))
        message = take_one(receiver)
        await_counts(waiting, {})
        receiver.complete_message(message)
    assert reading.counts() == {}


def test_an_action_can_shorten_the_life_of_a_copy(bus: Bus) -> None:
    topic = bus.topic()
    condition = sql("sys.Label = 'brief'")
    brief = topic.subscription(
        {
            **rule("brief", condition),
            "action": {"expression": "SET sys.TimeToLive = @life", "parameters": {"@life": {"timespan": 10_000_000}}},
        },
        dead_lettering_on_message_expiration=True,
    )
    everything = topic.subscription()
    topic.send(ServiceBusMessage("news", subject="brief"))
    await_counts(brief, {"dead_letter": 1})
    assert everything.counts() == {"active": 1}
