"""Time to live, and messages that are scheduled."""

from __future__ import annotations

import pytest

from tandem.amqp.message import Header, Message, Properties, encode_message
from tandem.errors import MessageNotFound
from tests.engine.desk import Desk, body, payload, properties_of
from tests.markers import mission


def test_an_expired_message_is_gone() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a", ttl_ms=1_000), payload("b"))
    desk.advance(999)
    assert desk.peek(queue.main) == ["a", "b"]
    desk.advance(1)
    assert (queue.main.active_count, queue.dead_letter_queue.active_count) == (1, 0)
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["b"]


def test_an_expired_message_is_not_delivered_although_nobody_has_looked_at_the_clock() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a", ttl_ms=1_000), payload("b"))
    desk.namespace.begin(desk.now_ms + 1_000)
    assert desk.peek(queue.main) == ["b"]
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["b"]


def test_an_expired_message_becomes_a_dead_letter_where_the_queue_says_so() -> None:
    desk = Desk()
    queue = desk.queue(dead_lettering_on_message_expiration=True)
    desk.send(queue, payload("a", ttl_ms=1_000))
    desk.advance(1_000)
    desk.receiver(queue.dead_letter_queue)
    (dead,) = desk.take()
    assert properties_of(dead) == {
        "DeadLetterReason": "TTLExpiredException",
        "DeadLetterErrorDescription": "The message expired and was dead lettered.",
    }


def test_a_message_lives_as_long_as_it_says_or_its_queue_says_whichever_is_shorter() -> None:
    desk = Desk()
    queue = desk.queue(default_message_time_to_live_ms=5_000)
    desk.send(queue, payload("a", ttl_ms=1_000), payload("b"), payload("c", ttl_ms=60_000))
    desk.advance(1_000)
    assert desk.peek(queue.main) == ["b", "c"]
    desk.advance(4_000)
    assert queue.main.active_count == 0


@mission("M3")
def test_a_locked_message_lives_on_until_its_lock_is_over() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=5_000)
    desk.send(queue, payload("a", ttl_ms=1_000), payload("b", ttl_ms=1_000))
    desk.receiver(queue.main, credit=2)
    first, second = desk.take()
    desk.advance(4_000)
    queue.main.complete(first)
    queue.main.abandon(second)
    desk.flush()
    assert desk.take() == []
    assert queue.main.active_count == 0


def test_deferred_messages_and_dead_letters_do_not_expire() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a", ttl_ms=1_000), payload("b", ttl_ms=1_000))
    desk.receiver(queue.main)
    first, second = desk.take()
    queue.main.defer(first)
    queue.main.dead_letter(second, None, None)
    desk.flush()
    desk.advance(60_000)
    assert (queue.main.deferred_count, queue.dead_letter_queue.active_count) == (1, 1)


def test_what_expires_during_a_restart_is_found_after_it() -> None:
    desk = Desk()
    desk.send(desk.queue(), payload("a", ttl_ms=1_000), payload("b", ttl_ms=60_000))
    desk.now_ms += 1_000
    desk.restart()
    desk.advance(0)
    assert desk.namespace.get("orders").main.active_count == 1
    desk.advance(59_000)
    assert desk.namespace.get("orders").main.active_count == 0


def test_a_message_that_expires_before_it_is_on_disk_is_found_when_it_is() -> None:
    desk = Desk()
    queue = desk.queue(dead_lettering_on_message_expiration=True)
    queue.send(payload("a", ttl_ms=1_000), 0)
    # A slow disk: time passes, and the search for expired messages comes into the same batch.
    desk.now_ms += 1_000
    desk.namespace.begin(desk.now_ms)
    desk.namespace.tick()
    desk.flush()
    desk.advance(0)
    assert (queue.main.active_count, queue.dead_letter_queue.active_count) == (0, 1)


# --- scheduled ------------------------------------------------------------------------------------------------------


def test_a_scheduled_message_is_there_in_time_and_not_before() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.receiver(queue.main)
    due_ms = desk.now_ms + 10_000
    desk.send(queue, payload("a", due_ms=due_ms))
    desk.advance(9_999)
    assert desk.take() == []
    desk.advance(1)
    (lock,) = desk.take()
    annotations = Message(lock.payload).message_annotations
    assert annotations is not None
    assert annotations["x-opt-enqueued-time"] == due_ms
    assert (queue.main.scheduled_count, queue.main.active_count) == (0, 1)


def test_a_time_that_has_passed_schedules_nothing() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.receiver(queue.main)
    desk.send(queue, payload("a", due_ms=desk.now_ms))
    assert desk.take_bodies() == ["a"]


def test_a_scheduled_message_joins_at_the_end_with_a_new_number() -> None:
    desk = Desk()
    queue = desk.queue()
    (scheduled,) = queue.send(payload("a", due_ms=desk.now_ms + 1_000), 0)
    number = scheduled.sequence_number
    desk.send(queue, payload("b"))
    desk.advance(1_000)
    desk.receiver(queue.main)
    locks = desk.take()
    assert [body(lock) for lock in locks] == ["b", "a"]
    assert locks[1].message.sequence_number > number


def test_messages_that_come_due_are_not_overtaken_for_good_by_those_sent_in_the_same_batch() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.receiver(queue.main)
    desk.send(queue, payload("a", due_ms=desk.now_ms + 1_000))
    desk.now_ms += 1_000
    desk.namespace.begin(desk.now_ms)
    desk.namespace.tick()
    # The scheduled message gets its new number in the middle of a batch, and a later one is published before it.
    batch, duplicates = [desk.namespace.take_effects()], set(desk.store.write(desk.namespace.effects).duplicates)
    for query in batch[0].queries:
        desk.store.read(query)
    queue.send(payload("b"), 0)
    more, more_duplicates = desk.write()
    desk.commit(batch + more, duplicates | more_duplicates)
    desk.flush()
    assert desk.take_bodies() == ["a", "b"]


def test_the_time_to_live_of_a_scheduled_message_begins_when_it_is_due() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a", due_ms=desk.now_ms + 10_000, ttl_ms=1_000))
    desk.advance(10_000)
    assert queue.main.active_count == 1
    desk.advance(1_000)
    assert queue.main.active_count == 0


def test_a_cancelled_message_is_never_sent() -> None:
    desk = Desk()
    queue = desk.queue()
    due_ms = desk.now_ms + 1_000
    first, second = queue.send(payload("a", due_ms=due_ms), 0) + queue.send(payload("b", due_ms=due_ms), 0)
    assert desk.ask(lambda asker: queue.main.cancel_scheduled([first.sequence_number], asker)) is None
    desk.advance(1_000)
    assert desk.peek(queue.main) == ["b"]
    late = desk.ask(lambda asker: queue.main.cancel_scheduled([second.sequence_number], asker))
    assert isinstance(late, MessageNotFound)


def test_scheduled_messages_are_cancelled_together_or_not_at_all() -> None:
    desk = Desk()
    queue = desk.queue()
    (message,) = queue.send(payload("a", due_ms=desk.now_ms + 1_000), 0)
    numbers = [message.sequence_number, 999]
    assert isinstance(desk.ask(lambda asker: queue.main.cancel_scheduled(numbers, asker)), MessageNotFound)
    assert queue.main.scheduled_count == 1


def test_two_that_cancel_the_same_message_do_not_both_succeed() -> None:
    desk = Desk()
    queue = desk.queue()
    (message,) = queue.send(payload("a", due_ms=desk.now_ms + 1_000), 0)
    desk.flush()
    desk.answers.clear()
    for asker in ("one", "another"):
        queue.main.cancel_scheduled([message.sequence_number], asker)
    desk.flush()
    assert [type(answer).__name__ for answer in desk.answers] == ["NoneType", "MessageNotFound"]
    assert (queue.main.scheduled_count, queue.size_bytes) == (0, 0)


def test_what_comes_due_during_a_restart_is_sent_after_it() -> None:
    desk = Desk()
    desk.send(desk.queue(), payload("a", due_ms=desk.now_ms + 1_000))
    desk.now_ms += 2_000
    desk.restart()
    desk.advance(0)
    assert desk.peek(desk.namespace.get("orders").main) == ["a"]
    assert desk.namespace.get("orders").main.active_count == 1


def test_a_clock_that_is_set_back_does_not_lengthen_a_lock() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=5_000)
    desk.send(queue, payload("a"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    desk.advance(4_000)
    desk.namespace.begin(desk.now_ms - 3_600_000)
    assert desk.namespace.now_ms == desk.now_ms
    assert lock.locked_until_ms == desk.now_ms + 1_000


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    "properties, expected_ms",
    [
        (Properties(creation_time=5, absolute_expiry_time=5 + 100 * DAY_MS), 100 * DAY_MS),
        (Properties(creation_time=5, absolute_expiry_time=6), 0xFFFF_FFFF),
        (Properties(absolute_expiry_time=6), 0xFFFF_FFFF),
        (None, 0xFFFF_FFFF),
    ],
    ids=["100 days", "a millisecond", "one time only", "no properties"],
)
def test_a_time_to_live_that_the_header_cannot_hold_is_between_two_times(
    properties: Properties | None, expected_ms: int
) -> None:
    desk = Desk()
    queue = desk.queue()
    header = Header(ttl_ms=0xFFFF_FFFF)
    (message,) = queue.send(encode_message(header=header, properties=properties, data=b"x"), 0)
    assert message.expires_at_ms == desk.namespace.now_ms + expected_ms
