"""Peek-lock: what becomes of a message that was delivered."""

from __future__ import annotations

import pytest

from tandem.amqp.message import Message
from tandem.engine.effects import NoticeKind
from tandem.engine.lock_table import sequence_number_of_token, tag_of_token
from tandem.errors import MessageLockLost, MessageNotFound, NotAllowed
from tests.engine.desk import Desk, body, payload, properties_of
from tests.markers import mission


def delivery_count(message: bytes) -> int:
    header = Message(message).header
    assert header is not None
    return header.delivery_count


@mission("M3")
def test_a_completed_message_is_gone() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    queue.main.complete(lock)
    desk.advance(600_000)
    assert desk.take() == []
    assert (queue.main.active_count, queue.size_bytes) == (0, 0)
    desk.restart()
    assert desk.namespace.get("orders").main.active_count == 0


@mission("M3")
def test_an_abandoned_message_returns_to_the_head() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"), payload("c"))
    consumer = desk.receiver(queue.main, credit=2)
    first, second = desk.take()
    queue.main.abandon(second)
    queue.main.abandon(first)
    desk.grant(consumer, 3)
    assert desk.take_bodies() == ["a", "b", "c"]


def test_an_abandoned_message_says_how_often_it_failed() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    for failed_count in range(3):
        (lock,) = desk.take()
        assert delivery_count(lock.payload) == failed_count
        queue.main.abandon(lock)
        desk.flush()


@mission("M3")
def test_a_lock_that_ends_returns_the_message_and_counts_as_a_failure() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=5_000)
    desk.send(queue, payload("a", message_id="same"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    desk.advance(4_999)
    assert desk.take() == []
    desk.advance(1)
    (again,) = desk.take()
    assert delivery_count(again.payload) == 1
    properties = Message(again.payload).properties
    assert properties is not None
    assert properties.message_id == "same"
    with pytest.raises(MessageLockLost):
        queue.main.complete(lock)


def test_a_lock_is_over_at_its_time_whether_the_broker_has_looked_or_not() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=1_000)
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    desk.namespace.begin(desk.now_ms + 1_000)
    with pytest.raises(MessageLockLost):
        queue.main.complete(lock)


def test_a_renewed_lock_lasts_from_then_on() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=5_000)
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    desk.advance(4_000)
    assert queue.main.renew(lock) == desk.now_ms + 5_000
    desk.advance(4_999)
    queue.main.complete(lock)
    desk.flush()
    assert queue.main.active_count == 0


def test_a_lock_renewed_in_the_moment_it_was_taken_ends_once() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=1_000)
    desk.send(queue, payload("a"))
    consumer = desk.receiver(queue.main, credit=1)
    (lock,) = desk.take()
    queue.main.renew(lock)
    desk.advance(1_000)
    desk.grant(consumer, 1)
    (again,) = desk.take()
    assert delivery_count(again.payload) == 1


def test_a_lock_taken_after_the_duration_was_lowered_ends_before_older_ones() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=300_000)
    desk.send(queue, payload("a"), payload("b"))
    consumer = desk.receiver(queue.main, credit=1)
    desk.take()
    desk.update(queue, lock_duration_ms=1_000)
    desk.grant(consumer, 1)
    assert desk.take_bodies() == ["b"]
    desk.grant(consumer, 5)
    desk.advance(1_000)
    assert desk.take_bodies() == ["b"]


def test_a_released_message_was_never_looked_at() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    queue.main.release(lock)
    desk.flush()
    (again,) = desk.take()
    assert delivery_count(again.payload) == 0
    queue.main.release(lock)
    assert desk.take() == []


def test_the_lock_of_a_receiver_that_left_goes_on() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=5_000)
    desk.send(queue, payload("a"))
    consumer = desk.receiver(queue.main)
    (lock,) = desk.take()
    queue.main.close_consumer(consumer)
    desk.receiver(queue.main)
    assert desk.take() == []
    queue.main.complete(queue.main.find_lock(lock.token))
    desk.advance(5_000)
    assert desk.take() == []


def test_a_lock_is_found_by_its_token_only() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    assert sequence_number_of_token(lock.token) == lock.message.sequence_number
    assert tag_of_token(lock.token) == lock.tag
    assert tag_of_token(lock.tag) == lock.token
    assert queue.main.find_lock(lock.token) is lock
    with pytest.raises(MessageLockLost):
        queue.main.find_lock(bytes(8) + lock.token[8:])


def test_locks_are_gone_after_a_restart() -> None:
    desk = Desk()
    desk.send(desk.queue(), payload("a"))
    desk.receiver(desk.namespace.get("orders").main)
    desk.take()
    desk.restart()
    desk.receiver(desk.namespace.get("orders").main)
    (lock,) = desk.take()
    assert delivery_count(lock.payload) == 0


# --- dead letters ---------------------------------------------------------------------------------------------------


def test_a_message_that_failed_too_often_is_a_dead_letter() -> None:
    desk = Desk()
    queue = desk.queue(max_delivery_count=2)
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    for _ in range(2):
        (lock,) = desk.take()
        queue.main.abandon(lock)
        desk.flush()
    assert desk.take() == []
    assert queue.main.active_count == 0
    desk.receiver(queue.dead_letter_queue)
    (dead,) = desk.take()
    assert properties_of(dead)["DeadLetterReason"] == "MaxDeliveryCountExceeded"
    assert (
        properties_of(dead)["DeadLetterErrorDescription"] == "Message could not be consumed after 2 delivery attempts."
    )


def test_a_dead_letter_keeps_its_number_and_says_why_it_died() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"))
    desk.receiver(queue.main)
    _, lock = desk.take()
    queue.main.dead_letter(lock, "broken", "cannot be read", {"by": "me"})
    desk.flush()
    assert (queue.main.active_count, queue.dead_letter_queue.active_count) == (1, 1)
    desk.receiver(queue.dead_letter_queue)
    (dead,) = desk.take()
    assert dead.message.sequence_number == lock.message.sequence_number
    assert properties_of(dead) == {
        "by": "me",
        "DeadLetterReason": "broken",
        "DeadLetterErrorDescription": "cannot be read",
    }


def test_a_dead_letter_does_not_die_again() -> None:
    desk = Desk()
    queue = desk.queue(max_delivery_count=1)
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    queue.main.abandon(desk.take()[0])
    desk.receiver(queue.dead_letter_queue)
    for _ in range(3):
        (lock,) = desk.take()
        queue.dead_letter_queue.abandon(lock)
        desk.flush()
    (lock,) = desk.take()
    with pytest.raises(NotAllowed, match="cannot be dead-lettered again"):
        queue.dead_letter_queue.dead_letter(lock, None, None)
    queue.dead_letter_queue.complete(lock)
    desk.flush()
    assert queue.size_bytes == 0


def test_a_receiver_of_dead_letters_gets_older_ones_that_come_later() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"))
    consumer = desk.receiver(queue.main)
    first, second = desk.take()
    queue.main.close_consumer(consumer)
    desk.receiver(queue.dead_letter_queue)
    queue.main.dead_letter(second, None, None)
    desk.flush()
    queue.main.dead_letter(first, None, None)
    desk.flush()
    assert desk.take_bodies() == ["b", "a"]


# --- deferred messages ----------------------------------------------------------------------------------------------


def test_a_deferred_message_is_received_by_its_number_only() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"))
    desk.receiver(queue.main, credit=1)
    (lock,) = desk.take()
    queue.main.defer(lock, {"later": True})
    desk.flush()
    assert (queue.main.active_count, queue.main.deferred_count) == (1, 1)
    number = lock.message.sequence_number
    answer = desk.ask(lambda asker: queue.main.receive_deferred([number], False, None, asker))
    assert isinstance(answer, list)
    ((again, message),) = answer
    assert body(message) == "a"
    assert properties_of(message) == {"later": True}
    assert isinstance(
        desk.ask(lambda asker: queue.main.receive_deferred([number], False, None, asker)), MessageNotFound
    )
    queue.main.complete(again)
    desk.flush()
    assert (queue.main.deferred_count, queue.main.active_count) == (0, 1)


def test_an_abandoned_deferred_message_stays_deferred() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    queue.main.defer(lock)
    number = lock.message.sequence_number
    answer = desk.ask(lambda asker: queue.main.receive_deferred([number], False, None, asker))
    assert isinstance(answer, list)
    queue.main.abandon(answer[0][0])
    desk.flush()
    assert desk.take() == []
    assert queue.main.deferred_count == 1


def test_deferred_messages_are_received_together_or_not_at_all() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"))
    desk.receiver(queue.main)
    first, second = desk.take()
    queue.main.defer(first)
    desk.flush()
    numbers = [first.message.sequence_number, second.message.sequence_number]
    assert isinstance(desk.ask(lambda asker: queue.main.receive_deferred(numbers, True, None, asker)), MessageNotFound)
    assert queue.main.deferred_count == 1
    assert isinstance(desk.ask(lambda asker: queue.main.receive_deferred(numbers[:1], True, None, asker)), list)
    assert queue.main.deferred_count == 0


def test_two_that_ask_for_a_deferred_message_at_once_do_not_both_get_it() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    queue.main.defer(lock)
    desk.flush()
    desk.answers.clear()
    for asker in ("one", "another"):
        queue.main.receive_deferred([lock.message.sequence_number], True, None, asker)
    desk.flush()
    assert sorted([type(answer).__name__ for answer in desk.answers]) == ["MessageNotFound", "list"]
    assert queue.size_bytes == 0


def test_deferred_messages_outlive_a_restart() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    queue.main.defer(lock)
    desk.flush()
    desk.restart()
    queue = desk.namespace.get("orders")
    assert queue.main.deferred_count == 1
    number = lock.message.sequence_number
    answer = desk.ask(lambda asker: queue.main.receive_deferred([number], True, None, asker))
    assert isinstance(answer, list)
    assert body(answer[0][1]) == "a"


# --- drain ----------------------------------------------------------------------------------------------------------


@mission("M6")
def test_drain_gives_what_is_there_and_then_answers() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    consumer = desk.receiver(queue.main, credit=0)
    desk.grant(consumer, 5, is_draining=True)
    assert desk.take_bodies() == ["a"]
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.DRAINED]
    desk.send(queue, payload("b"))
    assert desk.take() == []


@mission("M6")
def test_drain_is_answered_when_the_messages_use_up_the_credit_later() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"))
    consumer = desk.receiver(queue.main, credit=0)
    # The first grant finds the head on disk: the messages come when they are read.
    desk.grant(consumer, 2, is_draining=True)
    assert desk.take_bodies() == ["a", "b"]
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.DRAINED]


@mission("M6")
def test_drain_of_an_empty_queue_is_answered() -> None:
    desk = Desk()
    consumer = desk.receiver(desk.queue().main, credit=0)
    desk.grant(consumer, 5, is_draining=True)
    desk.grant(consumer, 0, is_draining=True)
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.DRAINED, NoticeKind.DRAINED]
