"""Taking messages with the official SDK: both modes, locks and what ends them."""

from __future__ import annotations

import threading
import time
from typing import Final

import pytest
from azure.servicebus import AutoLockRenewer, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    ServiceBusError,
)

from tests.compat.sdk import (
    AT_ONCE,
    RENEWED_LOCK_MS,
    SILENCE_S,
    TEST_LIMIT_S,
    Bus,
    ClockedBus,
    await_renewals,
    now,
    number_of,
    take,
    take_all,
    take_one,
    text,
    texts,
)
from tests.markers import mission
from tests.patience import PATIENCE_S

pytestmark = AT_ONCE

# Seconds. A lock ends after this: moving the clock by as much ends it, and a slow machine does not.
LOCK_S: Final = 60


@mission("M1")
def test_each_message_is_taken_by_one_of_several_consumers(bus: Bus) -> None:
    queue = bus.queue()
    expected = [str(number) for number in range(40)]
    queue.send(*expected)
    with queue.receiver() as one, queue.receiver() as other, queue.receiver() as third:
        taken = take(one, 10) + take(other, 10) + take(third, 20)
    assert sorted(texts(taken)) == sorted(expected)


@mission("M2")
def test_a_message_received_and_deleted_is_gone_although_the_receiver_did_nothing_with_it(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("one", "two")
    with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        message = take_one(receiver)
        assert message.lock_token is None
        assert message.locked_until_utc is None
    assert queue.drain() == ["two"]
    assert queue.counts() == {}


@mission("M2")
def test_a_message_received_and_deleted_cannot_be_settled(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("one")
    with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        message = take_one(receiver)
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            receiver.complete_message(message)


@mission("M3")
def test_a_locked_message_is_for_one_consumer_only(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("one", "two")
    with queue.receiver() as one, queue.receiver() as other:
        first = take_one(one)
        assert text(take_one(other)) == "two"
        assert take_all(other) == []
        one.complete_message(first)
    assert queue.counts() == {"active": 1}


@mission("M3")
def test_a_completed_message_never_comes_again(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue()
    queue.send("one")
    with queue.receiver() as receiver:
        message = take_one(receiver)
        receiver.complete_message(message)
        with pytest.raises(MessageAlreadySettled):
            receiver.complete_message(message)
        clocked_bus.clock.advance(LOCK_S)
        assert take_all(receiver) == []
    assert queue.counts() == {}


@mission("M3")
def test_an_abandoned_message_returns_to_the_head_at_once(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("one", "two")
    with queue.receiver() as receiver:
        receiver.abandon_message(take_one(receiver))
        again, other = take(receiver, 2)
    assert texts([again, other]) == ["one", "two"]
    assert (again.delivery_count, other.delivery_count) == (1, 0)


@mission("M3")
def test_a_message_whose_lock_expires_comes_again_with_the_same_id(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue()
    queue.send(ServiceBusMessage("work", message_id="7"))
    with queue.receiver() as crashed, queue.receiver() as other:
        first = take_one(crashed)
        clocked_bus.clock.advance(LOCK_S)
        again = take_one(other)
        assert (again.message_id, again.delivery_count) == ("7", 1)
        assert number_of(again) == number_of(first)
        assert again.lock_token != first.lock_token
        with pytest.raises(MessageLockLostError):
            crashed.complete_message(first)
        with pytest.raises(MessageLockLostError):
            crashed.renew_message_lock(first)
        other.complete_message(again)
    assert queue.counts() == {}


@mission("M3")
def test_a_lock_expires_by_the_clock_of_the_machine(bus: Bus) -> None:
    queue = bus.queue(lock_duration_ms=1_000)
    queue.send("work")
    with queue.receiver() as crashed, queue.receiver() as other:
        first = take_one(crashed)
        assert first.locked_until_utc is not None
        assert take_one(other).delivery_count == 1
        assert now() >= first.locked_until_utc
        with pytest.raises(MessageLockLostError):
            crashed.complete_message(first)


@mission("M3")
def test_a_lock_outlives_the_link_that_took_it(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue()
    queue.send("work")
    with queue.receiver() as receiver:
        take_one(receiver)
    with queue.receiver() as receiver:
        assert receiver.receive_messages(1, SILENCE_S) == []
        clocked_bus.clock.advance(LOCK_S)
        assert take_one(receiver).delivery_count == 1


def test_a_message_can_be_settled_although_the_link_that_brought_it_is_closed(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("completed", "abandoned")
    with queue.receiver() as receiver:
        completed, abandoned = take(receiver, 2)
    with queue.receiver() as receiver:
        # The SDK asks the management node.
        receiver.complete_message(completed)
        receiver.abandon_message(abandoned)
        again = take_one(receiver)
        assert (text(again), again.delivery_count) == ("abandoned", 1)
        receiver.complete_message(again)
    assert queue.counts() == {}


def test_messages_given_back_unseen_are_not_counted_as_delivered(bus: Bus) -> None:
    queue = bus.queue()
    with queue.receiver() as receiver:
        # The credit of a call that ends without a message stays with the link: what comes later goes there, unasked.
        assert receiver.receive_messages(10, SILENCE_S) == []
        queue.send("one", "two")
    with queue.receiver(prefetch_count=10) as receiver:
        assert text(take_one(receiver)) == "one"
    with queue.receiver() as receiver:
        message = take_one(receiver)
    assert text(message) == "two"
    assert message.delivery_count == 0


@mission("M3")
def test_a_renewed_lock_holds_longer_than_its_duration(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue(lock_duration_ms=300_000)
    queue.send("slow work")
    with queue.receiver() as receiver, queue.receiver() as other:
        message = take_one(receiver)
        assert message.locked_until_utc is not None
        before = message.locked_until_utc
        clocked_bus.clock.advance(minutes=3)
        assert receiver.renew_message_lock(message) > before
        clocked_bus.clock.advance(minutes=3)
        assert other.receive_messages(1, SILENCE_S) == []
        receiver.complete_message(message)
    assert queue.counts() == {}


def test_the_automatic_renewal_of_the_sdk_keeps_a_lock(bus: Bus) -> None:
    queue = bus.queue(lock_duration_ms=RENEWED_LOCK_MS)
    queue.send("slow work")
    with AutoLockRenewer() as renewer, queue.receiver(auto_lock_renewer=renewer) as receiver:
        message = take_one(receiver)
        await_renewals(message)
        receiver.complete_message(message)
    assert queue.counts() == {}


@mission("M6")
def test_a_receive_that_waits_in_vain_returns_nothing_when_its_time_is_over(bus: Bus) -> None:
    queue = bus.queue()
    with queue.receiver() as receiver:
        started = time.monotonic()
        assert receiver.receive_messages(5, max_wait_time=0.7) == []
        assert 0.6 < time.monotonic() - started < PATIENCE_S


@mission("M6")
def test_a_receive_that_waits_gets_a_message_as_soon_as_it_is_sent(bus: Bus) -> None:
    queue = bus.queue()
    timer = threading.Timer(0.5, lambda: queue.send("at last"))
    with queue.receiver() as receiver:
        timer.start()
        # It would wait longer than a test may take.
        (message,) = receiver.receive_messages(1, 2 * TEST_LIMIT_S)
        assert text(message) == "at last"
    timer.join()


def test_a_receive_of_ten_messages_returns_the_two_that_are_there(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("one", "two")
    with queue.receiver() as receiver:
        messages = receiver.receive_messages(10, PATIENCE_S)
        assert texts(messages) == ["one", "two"]
        for message in messages:
            receiver.complete_message(message)
    assert queue.counts() == {}


def test_deferred_messages_are_received_by_number_only(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("one", "two", "three")
    with queue.receiver() as receiver:
        one, two, three = take(receiver, 3)
        for message in (one, two, three):
            receiver.defer_message(message)
        assert take_all(receiver) == []
        again = receiver.receive_deferred_messages([number_of(three), number_of(one)])
        assert texts(again) == ["three", "one"]
        # Asking for one that is locked by now fails for all of them.
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages([number_of(two), number_of(one)])
        receiver.complete_message(again[0])
        receiver.dead_letter_message(again[1], reason="enough")
        (last,) = receiver.receive_deferred_messages(number_of(two))
        receiver.complete_message(last)
    assert queue.counts() == {"dead_letter": 1}


def test_an_abandoned_deferred_message_stays_deferred(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("one")
    with queue.receiver() as receiver:
        message = take_one(receiver)
        receiver.defer_message(message)
        (deferred,) = receiver.receive_deferred_messages(number_of(message))
        receiver.abandon_message(deferred)
        assert take_all(receiver) == []
        (again,) = receiver.receive_deferred_messages(number_of(message))
        assert again.delivery_count == (deferred.delivery_count or 0) + 1


def test_a_deferred_message_whose_lock_expires_stays_deferred(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue()
    queue.send("one")
    with queue.receiver() as receiver:
        message = take_one(receiver)
        receiver.defer_message(message)
        (lost,) = receiver.receive_deferred_messages(number_of(message))
        clocked_bus.clock.advance(LOCK_S)
        assert take_all(receiver) == []
        with pytest.raises(MessageLockLostError):
            receiver.renew_message_lock(lost)
        (again,) = receiver.receive_deferred_messages(number_of(message))
        assert again.delivery_count == (lost.delivery_count or 0) + 1


def test_a_dead_lettered_message_keeps_what_it_was_and_says_why(bus: Bus) -> None:
    queue = bus.queue()
    queue.send(ServiceBusMessage("bad", message_id="7", application_properties={"colour": "red"}))
    with queue.receiver() as receiver:
        message = take_one(receiver)
        receiver.dead_letter_message(message, reason="unreadable", error_description="not JSON")
    with queue.dead_letters() as receiver:
        dead = take_one(receiver)
        assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("unreadable", "not JSON")
        assert dead.application_properties is not None
        assert dead.application_properties[b"colour"] == b"red"
        assert (dead.message_id, number_of(dead)) == ("7", number_of(message))
        assert dead.enqueued_time_utc == message.enqueued_time_utc
        receiver.complete_message(dead)
    assert queue.counts() == {}


def test_a_dead_letter_cannot_be_dead_lettered_again(bus: Bus) -> None:
    queue = bus.queue(max_delivery_count=1)
    queue.send("bad")
    with queue.receiver() as receiver:
        receiver.abandon_message(take_one(receiver))
    with queue.dead_letters() as receiver:
        # Nor is it by being tried too often.
        for _ in range(3):
            receiver.abandon_message(take_one(receiver))
        with pytest.raises(ServiceBusError, match="cannot be dead-lettered again"):
            receiver.dead_letter_message(take_one(receiver))
    assert queue.counts() == {"dead_letter": 1}


def test_a_dead_letter_without_a_reason_has_none(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("bad")
    with queue.receiver() as receiver:
        receiver.dead_letter_message(take_one(receiver))
    with queue.dead_letters() as receiver:
        assert take_one(receiver).dead_letter_reason is None


@mission("M3")
def test_a_message_that_crashes_every_consumer_ends_in_the_dead_letter_queue(clocked_bus: ClockedBus) -> None:
    queue = clocked_bus.queue(max_delivery_count=2)
    queue.send("poison")
    with queue.receiver() as receiver:
        for count in range(2):
            assert take_one(receiver).delivery_count == count
            clocked_bus.clock.advance(LOCK_S)
    with queue.dead_letters() as receiver:
        dead = take_one(receiver)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.dead_letter_error_description == "Message could not be consumed after 2 delivery attempts."


def test_peeking_takes_and_locks_nothing(bus: Bus) -> None:
    queue = bus.queue()
    queue.send(*(str(number) for number in range(10)))
    with queue.receiver() as receiver:
        assert texts(receiver.peek_messages(4)) == ["0", "1", "2", "3"]
        # Each call goes on where the last one ended.
        assert texts(receiver.peek_messages(100)) == ["4", "5", "6", "7", "8", "9"]
        assert receiver.peek_messages(100) == []
        assert texts(receiver.peek_messages(2, sequence_number=5)) == ["4", "5"]
        (peeked,) = receiver.peek_messages(1, sequence_number=1)
        assert peeked.locked_until_utc is None
        with pytest.raises(ValueError, match="peeked"):
            receiver.complete_message(peeked)
        assert [message.delivery_count for message in take(receiver, 10)] == [0] * 10
