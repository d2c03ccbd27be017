"""A subscription is received from like a queue: locks, dead letters, deferral, sessions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError, SessionCannotBeLockedError

from tests.compat.sdk import (
    AT_ONCE,
    SILENCE_S,
    Bus,
    ClockedBus,
    Entities,
    Subscription,
    Topic,
    number_of,
    rule,
    take,
    take_all,
    take_one,
    text,
    texts,
)
from tests.markers import mission
from tests.patience import PATIENCE_S

pytestmark = AT_ONCE


def published(bus: Entities, *bodies: str, **fields: object) -> Subscription:
    """A subscription with these messages; another one has them too, and must not matter."""
    topic = bus.topic()
    topic.subscription()
    subscription = topic.subscription(**fields)
    topic.send(*bodies)
    return subscription


@mission("M3", "M7")
def test_a_copy_is_locked_for_one_consumer_and_comes_again_when_the_lock_ends(clocked_bus: ClockedBus) -> None:
    subscription = published(clocked_bus, "work")
    with subscription.receiver() as crashed, subscription.receiver() as other:
        first = take_one(crashed)
        assert other.receive_messages(1, SILENCE_S) == []
        clocked_bus.clock.advance(minutes=1)
        again = take_one(other)
        assert (again.delivery_count, number_of(again)) == (1, number_of(first))
        with pytest.raises(MessageLockLostError):
            crashed.complete_message(first)
        other.complete_message(again)
    assert subscription.counts() == {}


@mission("M3", "M7")
def test_a_renewed_lock_of_a_copy_holds_longer(clocked_bus: ClockedBus) -> None:
    subscription = published(clocked_bus, "slow work", lock_duration_ms=300_000)
    with subscription.receiver() as receiver, subscription.receiver() as other:
        message = take_one(receiver)
        assert message.locked_until_utc is not None
        before = message.locked_until_utc
        clocked_bus.clock.advance(minutes=3)
        assert receiver.renew_message_lock(message) > before
        clocked_bus.clock.advance(minutes=3)
        assert other.receive_messages(1, SILENCE_S) == []
        receiver.complete_message(message)
    assert subscription.counts() == {}


@mission("M3", "M7")
def test_an_abandoned_copy_returns_to_the_head_of_its_subscription(bus: Bus) -> None:
    subscription = published(bus, "one", "two")
    with subscription.receiver() as receiver:
        receiver.abandon_message(take_one(receiver))
        assert texts(take(receiver, 2)) == ["one", "two"]


@mission("M3", "M7")
def test_a_copy_that_is_tried_too_often_is_a_dead_letter_of_its_subscription(bus: Bus) -> None:
    subscription = published(bus, "poison", max_delivery_count=2)
    with subscription.receiver() as receiver:
        for _ in range(2):
            receiver.abandon_message(take_one(receiver))
        assert take_all(receiver) == []
    with subscription.dead_letters() as receiver:
        dead = take_one(receiver)
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
        assert text(dead) == "poison"
        receiver.complete_message(dead)
    assert subscription.counts() == {}


@mission("M7")
def test_the_dead_letters_of_a_subscription_are_its_own(bus: Bus) -> None:
    topic = bus.topic()
    one, other = topic.subscription(), topic.subscription()
    topic.send(ServiceBusMessage("bad", application_properties={"colour": "red"}))
    with one.receiver() as receiver:
        receiver.dead_letter_message(take_one(receiver), reason="unreadable", error_description="not JSON")
    with one.dead_letters() as receiver:
        dead = take_one(receiver)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("unreadable", "not JSON")
    assert dead.application_properties is not None
    assert dead.application_properties[b"colour"] == b"red"
    assert other.counts() == {"active": 1}
    # Nothing was written into the bytes that both share.
    with other.receiver() as receiver:
        copy = take_one(receiver)
    assert copy.application_properties == {b"colour": b"red"}


def test_a_deferred_copy_is_received_by_its_number(bus: Bus) -> None:
    subscription = published(bus, "one", "two")
    with subscription.receiver() as receiver:
        one, two = take(receiver, 2)
        receiver.defer_message(one)
        receiver.complete_message(two)
        assert take_all(receiver) == []
        (again,) = receiver.receive_deferred_messages(number_of(one))
        assert text(again) == "one"
        receiver.complete_message(again)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(number_of(one))
    assert subscription.counts() == {}


def test_peeking_at_a_subscription_takes_and_locks_nothing(bus: Bus) -> None:
    subscription = published(bus, "one", "two", "three")
    with subscription.receiver() as receiver:
        assert texts(receiver.peek_messages(2)) == ["one", "two"]
        assert texts(receiver.peek_messages(2)) == ["three"]
        receiver.dead_letter_message(take_one(receiver))
    with subscription.dead_letters() as receiver:
        assert texts(receiver.peek_messages(5)) == ["one"]
    assert subscription.counts() == {"active": 2, "dead_letter": 1}


def test_what_a_consumer_writes_into_its_copy_is_in_that_copy_only(bus: Bus) -> None:
    topic = bus.topic()
    one, other = topic.subscription(), topic.subscription()
    topic.send("news")
    with one.receiver() as receiver:
        receiver.dead_letter_message(take_one(receiver), reason="mine")
    with one.receiver(sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver, other.receiver() as other_receiver:
        assert take_one(receiver).application_properties == {b"DeadLetterReason": b"mine"}
        assert not take_one(other_receiver).application_properties


def test_prefetched_copies_come_in_order(bus: Bus) -> None:
    subscription = published(bus, *(str(number) for number in range(30)))
    with subscription.receiver(prefetch_count=20, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert texts(take(receiver, 30)) == [str(number) for number in range(30)]


# --- sessions -------------------------------------------------------------------------------------------------------


def session_subscription(topic: Topic) -> Subscription:
    return topic.subscription(requires_session=True)


@mission("M7")
def test_a_subscription_can_have_sessions_where_another_has_none(bus: Bus) -> None:
    topic = bus.topic()
    plain, with_sessions = topic.subscription(), session_subscription(topic)
    both = ("red", "blue")
    topic.send(*(ServiceBusMessage(f"{name} {n}", session_id=name) for n in range(3) for name in both))
    assert plain.drain() == [f"{name} {n}" for n in range(3) for name in both]
    with with_sessions.receiver(session_id="blue") as receiver:
        messages = take(receiver, 3)
        assert texts(messages) == ["blue 0", "blue 1", "blue 2"]
        for message in messages:
            receiver.complete_message(message)
        receiver.session.set_state(b"done")
        with pytest.raises(SessionCannotBeLockedError), with_sessions.receiver(session_id="blue"):
            pass
    with with_sessions.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=PATIENCE_S) as receiver:
        assert receiver.session.session_id == "red"
        assert receiver.session.renew_lock() is not None
    assert sorted(bus.client.list_subscription_sessions(topic.name, with_sessions.own_name)) == ["blue", "red"]


@mission("M7")
def test_a_copy_without_a_session_is_a_dead_letter_where_sessions_are_required(bus: Bus) -> None:
    topic = bus.topic()
    plain, with_sessions = topic.subscription(), session_subscription(topic)
    topic.send("without a session")
    assert plain.drain() == ["without a session"]
    with with_sessions.dead_letters() as receiver:
        dead = take_one(receiver)
    assert dead.dead_letter_reason == "Session ID is null"
    assert text(dead) == "without a session"


def test_an_action_can_give_a_message_its_session(bus: Bus) -> None:
    topic = bus.topic()
    by_store = topic.subscription(
        rule("by-store", {"kind": "true"}, "SET sys.SessionId = StoreName"), requires_session=True
    )
    stores = ("Store1", "Store2", "Store1")
    topic.send(*(ServiceBusMessage(store, application_properties={"StoreName": store}) for store in stores))
    with by_store.receiver(session_id="Store1") as receiver:
        messages = take(receiver, 2)
        assert [message.session_id for message in messages] == ["Store1", "Store1"]
        assert take_all(receiver) == []


def test_a_session_waits_for_its_next_message_and_is_scheduled_like_any(bus: Bus) -> None:
    topic = bus.topic()
    with_sessions = session_subscription(topic)
    with with_sessions.receiver(session_id="late") as receiver, topic.sender() as sender:
        assert receiver.receive_messages(1, SILENCE_S) == []
        sender.send_messages(ServiceBusMessage("at last", session_id="late", time_to_live=timedelta(minutes=1)))
        assert text(take_one(receiver)) == "at last"
