"""Messages that come later, and messages that do not last."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceiveMode
from azure.servicebus.exceptions import MessageNotFoundError

from tests.compat.sdk import (
    AT_ONCE,
    SILENCE_S,
    Bus,
    ClockedBus,
    in_seconds,
    number_of,
    take,
    take_all,
    take_one,
    text,
    texts,
)
from tests.markers import mission

pytestmark = AT_ONCE

# Long enough for a message to be taken on a slow machine; and a lock that ends after the message has expired.
SHORT_LIFE: Final = timedelta(minutes=2)
LONG_LOCK: Final = {"lock_duration_ms": 300_000}


def test_a_scheduled_message_comes_at_its_time_and_not_before(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue(**LONG_LOCK)
    with queue.sender() as sender, queue.receiver() as receiver:
        due = clocked_bus.in_seconds(3_600)
        (number,) = sender.schedule_messages(ServiceBusMessage("later"), due)
        clocked_bus.clock.advance(minutes=58)
        assert queue.counts() == {"scheduled": 1}
        assert receiver.receive_messages(1, SILENCE_S) == []
        clocked_bus.clock.advance(minutes=4)
        message = take_one(receiver)
    assert message.scheduled_enqueue_time_utc == due
    assert message.enqueued_time_utc is not None
    # When it was due, and not when the four minutes were over.
    assert due <= message.enqueued_time_utc < due + timedelta(minutes=1)
    # As from the service: azure-sdk-for-js pull request 19357.
    assert message.state is ServiceBusMessageState.SCHEDULED
    # A queue numbers a message when it takes its place in it.
    assert number_of(message) >= number


def test_a_scheduled_message_comes_by_the_clock_of_the_machine(bus: Bus) -> None:
    queue = bus.queue()
    with queue.sender() as sender, queue.receiver() as receiver:
        due = in_seconds(1)
        sender.schedule_messages(ServiceBusMessage("later"), due)
        message = take_one(receiver)
    assert message.enqueued_time_utc is not None
    assert message.enqueued_time_utc >= due


def test_messages_scheduled_together_come_in_the_order_of_their_times(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue()
    with queue.sender() as sender, queue.receiver() as receiver:
        sender.schedule_messages(ServiceBusMessage("second"), clocked_bus.in_seconds(7_200))
        sender.schedule_messages(ServiceBusMessage("first"), clocked_bus.in_seconds(3_600))
        sender.send_messages(ServiceBusMessage("now"))
        clocked_bus.clock.advance(hours=3)
        assert texts(take(receiver, 3)) == ["now", "first", "second"]


def test_a_cancelled_message_never_comes(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue()
    with queue.sender() as sender, queue.receiver() as receiver:
        due = clocked_bus.in_seconds(3_600)
        numbers = sender.schedule_messages([ServiceBusMessage(str(number)) for number in range(3)], due)
        assert len(set(numbers)) == 3
        sender.cancel_scheduled_messages(numbers[:2])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[0])
        clocked_bus.clock.advance(hours=2)
        assert text(take_one(receiver)) == "2"
        assert take_all(receiver) == []
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[2])


def test_a_message_sent_with_a_time_in_the_past_comes_at_once(bus: Bus) -> None:
    queue = bus.queue()
    queue.send(ServiceBusMessage("overdue", scheduled_enqueue_time_utc=in_seconds(-60)))
    assert queue.counts() == {"active": 1}
    assert queue.drain() == ["overdue"]


def test_scheduled_messages_can_be_peeked(bus: Bus) -> None:
    queue = bus.queue()
    due = in_seconds(3_600)
    queue.send(ServiceBusMessage("later", scheduled_enqueue_time_utc=due))
    with queue.receiver() as receiver:
        (peeked,) = receiver.peek_messages(1)
    assert peeked.state is ServiceBusMessageState.SCHEDULED
    assert peeked.scheduled_enqueue_time_utc == due


def test_an_expired_message_is_dead_lettered_where_the_queue_says_so(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue(dead_lettering_on_message_expiration=True)
    queue.send(ServiceBusMessage("milk", time_to_live=timedelta(hours=1)), ServiceBusMessage("honey"))
    clocked_bus.clock.advance(minutes=50)
    assert queue.counts() == {"active": 2}
    # Nobody has to look at the queue for that.
    clocked_bus.clock.advance(minutes=20)
    assert queue.counts() == {"active": 1, "dead_letter": 1}
    with queue.dead_letters() as receiver:
        dead = take_one(receiver)
    assert dead.dead_letter_reason == "TTLExpiredException"
    assert dead.dead_letter_error_description == "The message expired and was dead lettered."
    assert queue.drain() == ["honey"]


def test_an_expired_message_is_gone_where_the_queue_does_not_dead_letter_it(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue()
    queue.send(ServiceBusMessage("milk", time_to_live=timedelta(hours=1)))
    clocked_bus.clock.advance(hours=1)
    assert queue.counts() == {}


def test_the_queue_bounds_the_time_to_live_of_its_messages(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue(default_message_time_to_live_ms=3_600_000)
    queue.send(ServiceBusMessage("milk"), ServiceBusMessage("cheese", time_to_live=timedelta(days=1)))
    clocked_bus.clock.advance(hours=1)
    assert queue.counts() == {}


@mission("M3")
def test_a_locked_message_does_not_expire_under_its_consumer(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue(dead_lettering_on_message_expiration=True, **LONG_LOCK)
    with queue.receiver() as receiver:
        queue.send(ServiceBusMessage("milk", time_to_live=SHORT_LIFE))
        message = take_one(receiver)
        clocked_bus.clock.advance(minutes=3)
        receiver.complete_message(message)
    assert queue.counts() == {}


def test_a_message_that_is_abandoned_after_its_time_is_dead_lettered(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue(dead_lettering_on_message_expiration=True, **LONG_LOCK)
    with queue.receiver() as receiver:
        queue.send(ServiceBusMessage("milk", time_to_live=SHORT_LIFE))
        message = take_one(receiver)
        clocked_bus.clock.advance(minutes=3)
        receiver.abandon_message(message)
        assert take_all(receiver) == []
    assert queue.counts() == {"dead_letter": 1}


def test_a_dead_letter_does_not_expire(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue()
    with queue.receiver() as receiver:
        queue.send(ServiceBusMessage("milk", time_to_live=SHORT_LIFE))
        receiver.dead_letter_message(take_one(receiver))
    clocked_bus.clock.advance(hours=1)
    with queue.dead_letters() as receiver:
        assert text(take_one(receiver)) == "milk"


TTL: Final = timedelta(minutes=10)


@pytest.mark.parametrize("own", [None, timedelta(minutes=20)], ids=["no time to live", "a longer one"])
@pytest.mark.parametrize("how", ["received", "deleted", "peeked", "deferred"])
def test_a_message_lives_by_the_time_to_live_of_its_queue_if_that_is_shorter(
    clocked_bus: ClockedBus, own: timedelta | None, how: str
) -> None:
    queue = clocked_bus.queue(default_message_time_to_live_ms=TTL // timedelta(milliseconds=1))
    queue.send(ServiceBusMessage("x", time_to_live=own, message_id="id", subject="s", application_properties={"a": 1}))
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE if how == "deleted" else ServiceBusReceiveMode.PEEK_LOCK
    with queue.receiver(receive_mode=mode) as receiver:
        if how == "peeked":
            (message,) = receiver.peek_messages(1)
        else:
            message = take_one(receiver)
        if how == "deferred":
            receiver.defer_message(message)
            (message,) = receiver.receive_deferred_messages(number_of(message))
    assert message.time_to_live == TTL
    assert message.enqueued_time_utc is not None
    assert message.expires_at_utc == message.enqueued_time_utc + TTL
    properties = message.raw_amqp_message.properties
    assert properties is not None
    enqueued_ms = (message.raw_amqp_message.annotations or {})[b"x-opt-enqueued-time"]
    assert properties.creation_time == enqueued_ms
    assert properties.absolute_expiry_time == enqueued_ms + TTL // timedelta(milliseconds=1)
    assert (message.message_id, message.subject, message.application_properties) == ("id", "s", {b"a": 1})


def test_a_message_keeps_its_own_time_to_live_if_that_is_shorter(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue(default_message_time_to_live_ms=TTL // timedelta(milliseconds=1))
    queue.send(ServiceBusMessage("x", time_to_live=TTL / 2))
    with queue.receiver() as receiver:
        message = take_one(receiver)
    properties = message.raw_amqp_message.properties
    assert properties is not None
    assert message.time_to_live == TTL / 2
    # What the sender wrote, by its own clock.
    assert properties.creation_time is not None
    assert properties.absolute_expiry_time == properties.creation_time + TTL / 2 // timedelta(milliseconds=1)


def test_each_subscription_grants_its_own_time_to_live(clocked_bus: ClockedBus) -> None:
    topic = clocked_bus.topic()
    short, unlimited = topic.subscription(default_message_time_to_live_ms=60_000), topic.subscription()
    topic.send(ServiceBusMessage("x"))
    with short.receiver() as receiver:
        assert take_one(receiver).time_to_live == timedelta(minutes=1)
    with unlimited.receiver() as receiver:
        assert not take_one(receiver).time_to_live
