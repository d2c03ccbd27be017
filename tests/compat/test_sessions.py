"""Sessions with the official SDK: who holds one, what order it keeps, and what it remembers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, AutoLockRenewer, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from tests.compat.sdk import (
    AT_ONCE,
    RENEWED_LOCK_MS,
    SILENCE_S,
    Bus,
    ClockedBus,
    Entities,
    Queue,
    await_renewals,
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
from tests.patience import PATIENCE_S

pytestmark = AT_ONCE


def send(queue: Queue, session_id: str, *bodies: str) -> None:
    queue.send(*(ServiceBusMessage(body, session_id=session_id) for body in bodies))


def session_queue(bus: Entities, lock_duration_ms: int = 60_000) -> Queue:
    return bus.queue(requires_session=True, lock_duration_ms=lock_duration_ms)


@mission("M1")
def test_a_session_is_received_in_order_and_alone(bus: Bus) -> None:
    queue = session_queue(bus)
    both = ("red", "blue")
    queue.send(*(ServiceBusMessage(f"{name} {n}", session_id=name) for n in range(5) for name in both))
    with queue.receiver(session_id="blue") as receiver:
        assert receiver.session.session_id == "blue"
        messages = take(receiver, 5)
        assert texts(messages) == [f"blue {number}" for number in range(5)]
        assert {message.session_id for message in messages} == {"blue"}
        assert take_all(receiver) == []


def test_an_abandoned_message_returns_to_the_head_of_its_session(bus: Bus) -> None:
    queue = session_queue(bus)
    send(queue, "red", "one", "two")
    with queue.receiver(session_id="red") as receiver:
        receiver.abandon_message(take_one(receiver))
        again = take(receiver, 2)
    assert texts(again) == ["one", "two"]
    assert again[0].delivery_count == 1


def test_receivers_that_ask_for_any_session_get_different_ones(bus: Bus) -> None:
    queue = session_queue(bus)
    queue.send(*(ServiceBusMessage(f"of {name}", session_id=name) for name in ("red", "blue")))
    options = {"session_id": NEXT_AVAILABLE_SESSION, "max_wait_time": PATIENCE_S}
    with queue.receiver(**options) as one, queue.receiver(**options) as other:
        assert {one.session.session_id, other.session.session_id} == {"red", "blue"}
        for receiver in (one, other):
            assert text(take_one(receiver)) == f"of {receiver.session.session_id}"


def test_a_receiver_that_waits_for_any_session_gets_one_when_a_message_comes(bus: Bus) -> None:
    queue = session_queue(bus)
    with queue.sender() as sender:
        sender.schedule_messages(ServiceBusMessage("at last", session_id="late"), in_seconds(1))
        with queue.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=PATIENCE_S) as receiver:
            assert receiver.session.session_id == "late"
            assert text(take_one(receiver)) == "at last"


def test_a_receiver_that_waits_for_any_session_gets_one_that_is_given_up(bus: Bus) -> None:
    queue = session_queue(bus)
    send(queue, "red", "work")
    with ThreadPoolExecutor(1) as pool:

        def wait() -> list[str]:
            with queue.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=PATIENCE_S) as receiver:
                return texts(take(receiver, 1))

        with queue.receiver(session_id="red"):
            waiting = pool.submit(wait)
            with pytest.raises(TimeoutError):
                waiting.result(SILENCE_S)
        assert waiting.result() == ["work"]


@mission("M6", "M17")
def test_waiting_for_any_session_ends_with_a_timeout(bus: Bus) -> None:
    queue = session_queue(bus)
    started = time.monotonic()
    with (
        pytest.raises(OperationTimeoutError),
        queue.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1),
    ):
        pass
    assert 0.8 < time.monotonic() - started < PATIENCE_S


@mission("M17")
def test_a_session_is_held_by_one_receiver_at_a_time(bus: Bus) -> None:
    queue = session_queue(bus)
    with (
        queue.receiver(session_id="red"),
        pytest.raises(SessionCannotBeLockedError, match="red"),
        queue.receiver(session_id="red"),
    ):
        pass
    with queue.receiver(session_id="red"):
        pass


def test_closing_a_session_gives_its_messages_back_without_counting_a_delivery(bus: Bus) -> None:
    queue = session_queue(bus)
    send(queue, "red", "one", "two")
    with queue.receiver(session_id="red") as receiver:
        take(receiver, 2)
    with queue.receiver(session_id="red") as receiver:
        again = take(receiver, 2)
    assert texts(again) == ["one", "two"]
    assert [message.delivery_count for message in again] == [0, 0]


def test_a_session_without_messages_can_be_held_and_receives_what_comes(bus: Bus) -> None:
    queue = session_queue(bus)
    with queue.receiver(session_id="empty") as receiver:
        assert receiver.receive_messages(1, SILENCE_S) == []
        send(queue, "empty", "at last")
        assert text(take_one(receiver)) == "at last"


def test_the_empty_string_is_a_session_like_any_other(bus: Bus) -> None:
    queue = session_queue(bus)
    queue.send(ServiceBusMessage("nameless", session_id=""), ServiceBusMessage("named", session_id="red"))
    with queue.receiver(session_id="") as receiver:
        assert receiver.session.session_id == ""
        assert text(take_one(receiver)) == "nameless"
        assert take_all(receiver) == []


def test_a_session_remembers_its_state_until_it_is_cleared(bus: Bus) -> None:
    queue = session_queue(bus)
    with queue.receiver(session_id="red") as receiver:
        assert receiver.session.get_state() is None
        receiver.session.set_state(b"\x00half way")
    with queue.receiver(session_id="red") as receiver:
        assert receiver.session.get_state() == b"\x00half way"
        receiver.session.set_state("nearly there")
        assert receiver.session.get_state() == b"nearly there"
        receiver.session.set_state(None)
        assert receiver.session.get_state() is None


def test_session_ids_are_compared_without_case(bus: Bus) -> None:
    queue = session_queue(bus)
    for spelling in ("Red", "RED", "red"):
        send(queue, spelling, spelling)
    with queue.receiver(session_id="rED") as receiver:
        assert receiver.session.session_id == "rED"
        messages = take(receiver, 3)
        assert [(text(message), message.session_id) for message in messages] == [
            (one, one) for one in ("Red", "RED", "red")
        ]
        receiver.session.set_state("half way")
        receiver.session.renew_lock()
        with pytest.raises(SessionCannotBeLockedError), queue.receiver(session_id="RED"):
            pass
        receiver.defer_message(messages[2])
        for message in messages[:2]:
            receiver.complete_message(message)
    with queue.receiver(session_id="red") as receiver:
        assert receiver.session.get_state() == b"half way"
        (deferred,) = receiver.receive_deferred_messages(number_of(messages[2]))
        receiver.complete_message(deferred)
    assert queue.counts() == {}


def test_the_next_session_is_spelled_as_its_messages_are(bus: Bus) -> None:
    queue = session_queue(bus)
    send(queue, "Red", "one")
    with queue.receiver(session_id=NEXT_AVAILABLE_SESSION) as receiver:
        assert receiver.session.session_id == "Red"
        assert take_one(receiver).session_id == "Red"


def test_an_empty_state_is_no_state(bus: Bus) -> None:
    queue = session_queue(bus)
    with queue.receiver(session_id="red") as receiver:
        receiver.session.set_state(b"some")
        receiver.session.set_state(b"")
        assert receiver.session.get_state() is None


@mission("M3")
def test_a_session_whose_lock_expires_goes_to_the_next_receiver(clocked_bus: ClockedBus) -> None:
    queue = session_queue(clocked_bus)
    send(queue, "red", "work")
    with queue.receiver(session_id="red") as receiver:
        message = take_one(receiver)
        clocked_bus.clock.advance(minutes=1)
        with pytest.raises(SessionLockLostError):
            receiver.session.renew_lock()
        with queue.receiver(session_id="red") as other:
            again = take_one(other)
            assert (text(again), again.delivery_count) == ("work", 1)
            with pytest.raises(SessionLockLostError):
                receiver.complete_message(message)
            other.complete_message(again)
    assert queue.counts() == {}


@mission("M17")
def test_a_receiver_that_waits_is_told_when_its_session_lock_expires(clocked_bus: ClockedBus) -> None:
    queue = session_queue(clocked_bus)
    with ThreadPoolExecutor(1) as pool, queue.receiver(session_id="red") as receiver:
        waiting = pool.submit(receiver.receive_messages, 1, PATIENCE_S)
        with pytest.raises(TimeoutError):
            waiting.result(SILENCE_S)
        clocked_bus.clock.advance(minutes=1)
        with pytest.raises(SessionLockLostError):
            waiting.result()


@mission("M17")
def test_a_session_lock_expires_by_the_clock_of_the_machine(bus: Bus) -> None:
    queue = session_queue(bus, lock_duration_ms=1_000)
    with queue.receiver(session_id="red") as receiver, pytest.raises(SessionLockLostError):
        receiver.receive_messages(1, PATIENCE_S)


def test_a_renewed_session_lock_holds_longer_than_its_duration(clocked_bus: ClockedBus) -> None:
    queue = session_queue(clocked_bus, lock_duration_ms=300_000)
    send(queue, "red", "work")
    with queue.receiver(session_id="red") as receiver:
        message = take_one(receiver)
        before = receiver.session.locked_until_utc
        assert before is not None
        clocked_bus.clock.advance(minutes=3)
        assert receiver.session.renew_lock() > before
        clocked_bus.clock.advance(minutes=3)
        receiver.complete_message(message)
    assert queue.counts() == {}


def test_the_automatic_renewal_of_the_sdk_keeps_a_session(bus: Bus) -> None:
    queue = session_queue(bus, lock_duration_ms=RENEWED_LOCK_MS)
    send(queue, "red", "work")
    with AutoLockRenewer() as renewer, queue.receiver(session_id="red", auto_lock_renewer=renewer) as receiver:
        message = take_one(receiver)
        await_renewals(receiver.session)
        receiver.complete_message(message)
        # It would go on while the session is being closed.
        renewer.close()


def test_sessions_are_listed_while_they_have_messages_or_state(bus: Bus) -> None:
    queue = session_queue(bus)
    queue.send(*(ServiceBusMessage("x", session_id=name) for name in ("red", "blue", "green")))
    moment = now()
    with queue.receiver(session_id="blue") as receiver:
        receiver.session.set_state(b"state")
        receiver.complete_message(take_one(receiver))
    with queue.receiver(session_id="green") as receiver:
        receiver.complete_message(take_one(receiver))
    assert sorted(bus.client.list_queue_sessions(queue.name)) == ["blue", "red"]
    assert list(bus.client.list_queue_sessions(queue.name, state_updated_after=moment)) == ["blue"]
    assert list(bus.client.list_queue_sessions(queue.name, state_updated_after=now() + timedelta(hours=1))) == []


def test_more_sessions_than_a_page_holds_are_all_listed(bus: Bus) -> None:
    queue = session_queue(bus)
    expected = [f"session {number:03}" for number in range(230)]
    with queue.sender() as sender:
        sender.send_messages([ServiceBusMessage("x", session_id=session) for session in expected])
    assert sorted(bus.client.list_queue_sessions(queue.name)) == expected


def test_deferred_messages_belong_to_their_session(bus: Bus) -> None:
    queue = session_queue(bus)
    send(queue, "red", "later")
    with queue.receiver(session_id="red") as receiver:
        message = take_one(receiver)
        receiver.defer_message(message)
    with queue.receiver(session_id="red") as receiver:
        assert receiver.receive_messages(1, SILENCE_S) == []
        (deferred,) = receiver.receive_deferred_messages(number_of(message))
        assert text(deferred) == "later"
        receiver.complete_message(deferred)
    assert queue.counts() == {}


def test_the_dead_letter_queue_of_a_queue_with_sessions_has_none(bus: Bus) -> None:
    queue = session_queue(bus)
    send(queue, "red", "bad")
    with queue.receiver(session_id="red") as receiver:
        receiver.dead_letter_message(take_one(receiver), reason="bad")
    with queue.dead_letters() as receiver:
        dead = take_one(receiver)
        assert (dead.session_id, dead.dead_letter_reason) == ("red", "bad")
        receiver.complete_message(dead)


def test_a_session_can_be_received_and_deleted(bus: Bus) -> None:
    queue = session_queue(bus)
    send(queue, "red", "one", "two")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with queue.receiver(session_id="red", receive_mode=mode) as receiver:
        assert texts(take(receiver, 2)) == ["one", "two"]
    assert queue.counts() == {}


def test_peeking_in_a_session_shows_that_session_only(bus: Bus) -> None:
    queue = session_queue(bus)
    sent = (("red", "one"), ("blue", "two"), ("red", "three"))
    queue.send(*(ServiceBusMessage(body, session_id=name) for name, body in sent))
    with queue.receiver(session_id="red") as receiver:
        assert texts(receiver.peek_messages(10)) == ["one", "three"]


@mission("M17")
def test_a_message_without_a_session_is_refused_by_a_queue_that_requires_one(bus: Bus) -> None:
    queue = session_queue(bus)
    with pytest.raises(ServiceBusError, match="SessionId was not set"):
        queue.send("without")


@mission("M17")
def test_a_receiver_must_use_sessions_exactly_where_the_queue_does(bus: Bus) -> None:
    with pytest.raises(ServiceBusError, match="non-sessionful"), session_queue(bus).receiver():
        pass
    with pytest.raises(ServiceBusError, match="sessionful message receiver"), bus.queue().receiver(session_id="red"):
        pass
