"""Messages to a topic that come later, and copies that do not last."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError

from tests.compat.sdk import (
    AT_ONCE,
    SILENCE_S,
    ClockedBus,
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

# In ticks of 100 ns.
HOUR: Final = 3_600 * 10_000_000


@mission("M7")
def test_a_scheduled_message_reaches_the_subscriptions_at_its_time_and_not_before(clocked_bus: ClockedBus) -> None:
    topic = clocked_bus.topic()
    # The receive in vain leaves its credit behind: the locks last longer than the clock is moved.
    one, other = (topic.subscription(lock_duration_ms=300_000) for _ in range(2))
    with topic.sender() as sender, one.receiver() as receiver, other.receiver() as other_receiver:
        due = clocked_bus.in_seconds(3_600)
        numbers = sender.schedule_messages([ServiceBusMessage("first"), ServiceBusMessage("second")], due)
        assert len(set(numbers)) == 2
        clocked_bus.clock.advance(minutes=58)
        assert topic.fields()["scheduled_message_count"] == 2
        assert one.counts() == {}
        assert receiver.receive_messages(1, SILENCE_S) == []
        clocked_bus.clock.advance(minutes=4)
        message = take_one(receiver)
        assert message.scheduled_enqueue_time_utc == due
        assert message.enqueued_time_utc is not None
        # When it was due, and not when the four minutes were over.
        assert due <= message.enqueued_time_utc < due + timedelta(minutes=1)
        assert text(message) == "first"
        assert text(take_one(receiver)) == "second"
        assert texts(take(other_receiver, 2)) == ["first", "second"]
    assert (one.counts(), other.counts()) == ({"active": 2}, {"active": 2})
    assert topic.fields()["scheduled_message_count"] == 0


def test_a_cancelled_message_reaches_no_subscription(clocked_bus: ClockedBus) -> None:
    topic = clocked_bus.topic()
    subscription = topic.subscription()
    with topic.sender() as sender:
        due = clocked_bus.in_seconds(3_600)
        numbers = sender.schedule_messages([ServiceBusMessage(str(number)) for number in range(3)], due)
        sender.cancel_scheduled_messages(numbers[:2])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[0])
        clocked_bus.clock.advance(hours=1)
        with subscription.receiver() as receiver:
            assert text(take_one(receiver)) == "2"
            assert take_all(receiver) == []
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[2])


def test_a_scheduled_message_is_judged_by_the_rules_of_its_time(clocked_bus: ClockedBus) -> None:
    topic = clocked_bus.topic()
    leaving, coming = topic.subscription(), topic.subscription(rule("none", {"kind": "false"}))
    topic.send(ServiceBusMessage("later", scheduled_enqueue_time_utc=clocked_bus.in_seconds(3_600)))
    clocked_bus.broker.delete_rule(topic.name, leaving.own_name, "$Default")
    coming.add_rule("all", {"kind": "true"})
    latest = topic.subscription()
    clocked_bus.clock.advance(hours=1)
    assert coming.counts() == {"active": 1}
    assert latest.counts() == {"active": 1}
    assert leaving.counts() == {}


def test_a_scheduled_message_counts_as_sent_for_duplicates(clocked_bus: ClockedBus) -> None:
    topic = clocked_bus.topic(requires_duplicate_detection=True)
    subscription = topic.subscription()
    topic.send(
        ServiceBusMessage("later", message_id="1", scheduled_enqueue_time_utc=clocked_bus.in_seconds(3_600)),
        ServiceBusMessage("now", message_id="1"),
    )
    clocked_bus.clock.advance(hours=1)
    assert subscription.counts() == {"active": 1}
    assert subscription.drain() == ["later"]


def test_the_shortest_of_three_times_to_live_counts(clocked_bus: ClockedBus) -> None:
    topic = clocked_bus.topic(default_message_time_to_live_ms=3_600_000)
    short = topic.subscription(default_message_time_to_live_ms=600_000, dead_lettering_on_message_expiration=True)
    long = topic.subscription(default_message_time_to_live_ms=7_200_000)
    topic.send("news", ServiceBusMessage("brief", time_to_live=timedelta(minutes=10)))
    clocked_bus.clock.advance(minutes=15)
    assert short.counts() == {"dead_letter": 2}
    assert long.counts() == {"active": 1}
    with long.receiver() as receiver:
        message = take_one(receiver)
    assert text(message) == "news"
    assert message.expires_at_utc is None or message.enqueued_time_utc is not None
    with short.dead_letters() as receiver:
        assert take_one(receiver).dead_letter_reason == "TTLExpiredException"


def test_the_topic_bounds_the_time_to_live_in_all_its_subscriptions(clocked_bus: ClockedBus) -> None:
    topic = clocked_bus.topic(default_message_time_to_live_ms=3_600_000)
    dropping = topic.subscription()
    keeping = topic.subscription(dead_lettering_on_message_expiration=True)
    topic.send(ServiceBusMessage("milk", time_to_live=timedelta(days=1)))
    clocked_bus.clock.advance(hours=1)
    assert (keeping.counts(), dropping.counts()) == ({"dead_letter": 1}, {})


@mission("M3", "M7")
def test_a_locked_copy_does_not_expire_under_its_consumer(clocked_bus: ClockedBus) -> None:
    topic = clocked_bus.topic()
    reading, waiting = topic.subscription(lock_duration_ms=300_000), topic.subscription()
    with reading.receiver() as receiver:
        topic.send(ServiceBusMessage("milk", time_to_live=timedelta(minutes=2)))
        message = take_one(receiver)
        clocked_bus.clock.advance(minutes=3)
        assert waiting.counts() == {}
        receiver.complete_message(message)
    assert reading.counts() == {}


def test_an_action_can_shorten_the_life_of_a_copy(clocked_bus: ClockedBus) -> None:
    topic = clocked_bus.topic()
    condition = sql("sys.Label = 'brief'")
    brief = topic.subscription(
        {
            **rule("brief", condition),
            "action": {"expression": "SET sys.TimeToLive = @life", "parameters": {"@life": {"timespan": HOUR}}},
        },
        dead_lettering_on_message_expiration=True,
    )
    everything = topic.subscription()
    topic.send(ServiceBusMessage("news", subject="brief"))
    clocked_bus.clock.advance(hours=1)
    assert brief.counts() == {"dead_letter": 1}
    assert everything.counts() == {"active": 1}
