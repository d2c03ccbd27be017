"""Messages that come later, and messages that do not last."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import MessageNotFoundError

from tests.compat.sdk import (
    AT_ONCE,
    SILENCE_S,
    Bus,
    await_counts,
    in_seconds,
    now,
    number_of,
    take,
    take_all,
    take_one,
    text,
    texts,
)
from tests.markers import mission

pytestmark = AT_ONCE


def test_a_scheduled_message_comes_at_its_time_and_not_before(bus: Bus) -> None:
    queue = bus.queue()
    with queue.sender() as sender, queue.receiver() as receiver:
        due = in_seconds(1.2)
        (number,) = sender.schedule_messages(ServiceBusMessage("later"), due)
        assert queue.counts() == {"scheduled": 1}
        assert receiver.receive_messages(1, SILENCE_S) == []
        message = take_one(receiver)
        assert now() >= due
    assert message.scheduled_enqueue_time_utc == due
    assert message.enqueued_time_utc is not None
    assert due <= message.enqueued_time_utc < due + timedelta(seconds=1)
    assert message.state is ServiceBusMessageState.ACTIVE
    # A queue numbers a message when it takes its place in it.
    assert number_of(message) >= number


def test_messages_scheduled_together_come_in_the_order_of_their_times(bus: Bus) -> None:
    queue = bus.queue()
    with queue.sender() as sender, queue.receiver() as receiver:
        sender.schedule_messages(ServiceBusMessage("second"), in_seconds(1.0))
        sender.schedule_messages(ServiceBusMessage("first"), in_seconds(0.6))
        sender.send_messages(ServiceBusMessage("now"))
        assert texts(take(receiver, 3)) == ["now", "first", "second"]


def test_a_cancelled_message_never_comes(bus: Bus) -> None:
    queue = bus.queue()
    with queue.sender() as sender, queue.receiver() as receiver:
        numbers = sender.schedule_messages([ServiceBusMessage(str(number)) for number in range(3)], in_seconds(1))
        assert len(set(numbers)) == 3
        sender.cancel_scheduled_messages(numbers[:2])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[0])
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
    due = in_seconds(60)
    queue.send(ServiceBusMessage("later", scheduled_enqueue_time_utc=due))
    with queue.receiver() as receiver:
        (peeked,) = receiver.peek_messages(1)
    assert peeked.state is ServiceBusMessageState.SCHEDULED
    assert peeked.scheduled_enqueue_time_utc == due


def test_an_expired_message_is_dead_lettered_where_the_queue_says_so(bus: Bus) -> None:
    queue = bus.queue(dead_lettering_on_message_expiration=True)
    queue.send(ServiceBusMessage("milk", time_to_live=timedelta(seconds=1)), ServiceBusMessage("honey"))
    # Nobody has to look at the queue for that.
    await_counts(queue, {"active": 1, "dead_letter": 1})
    with queue.dead_letters() as receiver:
        dead = take_one(receiver)
    assert dead.dead_letter_reason == "TTLExpiredException"
    assert dead.dead_letter_error_description == "The message expired and was dead lettered."
    assert queue.drain() == ["honey"]


def test_an_expired_message_is_gone_where_the_queue_does_not_dead_letter_it(bus: Bus) -> None:
    queue = bus.queue()
    queue.send(ServiceBusMessage("milk", time_to_live=timedelta(seconds=1)))
    await_counts(queue, {})


def test_the_queue_bounds_the_time_to_live_of_its_messages(bus: Bus) -> None:
    queue = bus.queue(default_message_time_to_live_ms=1_000)
    queue.send(ServiceBusMessage("milk"), ServiceBusMessage("cheese", time_to_live=timedelta(days=1)))
    await_counts(queue, {})


@mission("M3")
def test_a_locked_message_does_not_expire_under_its_consumer(bus: Bus) -> None:
    queue = bus.queue(lock_duration_ms=5_000, dead_lettering_on_message_expiration=True)
    with queue.receiver() as receiver:
        queue.send(ServiceBusMessage("milk", time_to_live=timedelta(seconds=1)))
        message = take_one(receiver)
        time.sleep(1.3)
        receiver.complete_message(message)
    assert queue.counts() == {}


def test_a_message_that_is_abandoned_after_its_time_is_dead_lettered(bus: Bus) -> None:
    queue = bus.queue(lock_duration_ms=5_000, dead_lettering_on_message_expiration=True)
    with queue.receiver() as receiver:
        queue.send(ServiceBusMessage("milk", time_to_live=timedelta(seconds=1)))
        message = take_one(receiver)
        time.sleep(1.3)
        receiver.abandon_message(message)
        assert take_all(receiver) == []
    await_counts(queue, {"dead_letter": 1})


def test_a_dead_letter_does_not_expire(bus: Bus) -> None:
    queue = bus.queue()
    with queue.receiver() as receiver:
        queue.send(ServiceBusMessage("milk", time_to_live=timedelta(seconds=1)))
        receiver.dead_letter_message(take_one(receiver))
    time.sleep(1.3)
    with queue.dead_letters() as receiver:
        assert text(take_one(receiver)) == "milk"
