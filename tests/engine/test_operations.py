"""Browsing, purging, moving and un-deferring in the engine, on a desk."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from tandem.amqp.message import Message
from tandem.engine.browsing import BrowsedPage, BrowsedSession, MessageState, browse, browse_sessions, count_of
from tandem.engine.message import NEVER_MS
from tandem.engine.moving import Relocation
from tandem.engine.portion import Portion
from tandem.engine.purging import purge
from tandem.engine.queue import Queue
from tandem.engine.undeferring import undefer, undefer_numbers
from tandem.errors import NotFound
from tandem.rules import SqlFilter
from tests.engine.desk import Desk, body, payload, properties_of
from tests.engine.topic_desk import TopicDesk, colored

ACTIVE, DEFERRED, SCHEDULED = MessageState.ACTIVE, MessageState.DEFERRED, MessageState.SCHEDULED
DEAD, TRANSFER_DEAD = MessageState.DEAD_LETTERED, MessageState.TRANSFER_DEAD_LETTERED


def all_portions(desk: Desk, queue: Queue, step: Callable[[int, int, object], None]) -> Portion:
    """The sum of the portions of a task, from the first number to the last that there is now."""
    last = queue.next_sequence_number - 1
    total = Portion(0)
    for _ in range(100):
        after = total.up_to
        portion = desk.ask(lambda asker, after=after: step(after, last, asker))  # type: ignore[misc] # bound at once
        assert isinstance(portion, Portion)
        total.up_to = portion.up_to
        total.done_count += portion.done_count
        total.skipped_count += portion.skipped_count
        total.failed_count += portion.failed_count
        total.mentions += portion.mentions
        if portion.up_to >= last:
            return total
    raise AssertionError("the task does not come to its end")


def purged(desk: Desk, queue: Queue, state: MessageState, before_ms: int = NEVER_MS) -> tuple[int, int]:
    total = all_portions(desk, queue, lambda after, last, asker: purge(queue, state, before_ms, after, last, asker))
    return total.done_count, total.skipped_count


def relocated(
    desk: Desk,
    queue: Queue,
    state: MessageState = DEAD,
    target: Queue | None = None,
    filter: str | None = None,
    *,
    is_resubmission: bool = True,
    is_dry_run: bool = False,
) -> Portion:
    condition = None if filter is None else SqlFilter(filter)
    order = Relocation(queue, state, target, condition, is_resubmission, is_dry_run)
    return all_portions(desk, queue, lambda after, last, asker: order.step(after, last, 1_000, asker))


def browsed(desk: Desk, queue: Queue, state: MessageState, after: int = 0, limit: int = 100) -> BrowsedPage:
    answer = desk.ask(lambda asker: browse(queue, state, after, limit, asker))
    assert isinstance(answer, BrowsedPage)
    return answer


def texts(desk: Desk, queue: Queue, state: MessageState) -> list[str]:
    return [body(one.message.unlocked_payload()) for one in browsed(desk, queue, state).messages]


def bury(desk: Desk, queue: Queue, *messages: bytes) -> None:
    """Send messages, and dead-letter them."""
    desk.send(queue, *messages)
    consumer = desk.receiver(queue.main, len(messages))
    for lock in desk.take():
        queue.main.dead_letter(lock, "Broken", "It is broken.")
    queue.main.close_consumer(consumer)
    desk.flush()


def put_aside(desk: Desk, queue: Queue, *messages: bytes) -> None:
    """Send messages, and defer them."""
    desk.send(queue, *messages)
    consumer = desk.receiver(queue.main, len(messages))
    for lock in desk.take():
        queue.main.defer(lock)
    queue.main.close_consumer(consumer)
    desk.flush()


def received(desk: Desk, queue: Queue) -> list[str]:
    consumer = desk.receiver(queue.main, 100, deletes=True)
    queue.main.close_consumer(consumer)
    desk.flush()
    return desk.take_handed_out()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def mixed(desk: Desk) -> Queue:
    """One message of each state."""
    queue = desk.queue()
    put_aside(desk, queue, payload("deferred"))
    bury(desk, queue, payload("dead"))
    desk.send(queue, payload("active"), payload("scheduled", due_ms=desk.now_ms + 60_000))
    drafts = queue.read(payload("undeliverable"), 0)
    drafts[0].destination = "missing"
    queue.take(drafts)
    desk.flush()
    return queue


STATES = {ACTIVE: "active", DEFERRED: "deferred", SCHEDULED: "scheduled", DEAD: "dead", TRANSFER_DEAD: "undeliverable"}


# --- browsing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_messages_are_browsed_by_their_state(desk: Desk, mixed: Queue, state: MessageState) -> None:
    assert texts(desk, mixed, state) == [STATES[state]]
    assert count_of(mixed, state) == 1


def test_browsing_goes_on_behind_a_number(desk: Desk) -> None:
    queue = desk.queue()
    desk.send(queue, *[payload(str(number)) for number in range(5)])
    first = browsed(desk, queue, ACTIVE, limit=2)
    assert [one.message.sequence_number for one in first.messages] == [1, 2]
    assert not first.is_last
    rest = browsed(desk, queue, ACTIVE, after=first.up_to)
    assert [one.message.sequence_number for one in rest.messages] == [3, 4, 5]
    assert rest.is_last


def test_browsing_shows_who_is_locked_and_not_what_is_over(desk: Desk) -> None:
    queue = desk.queue()
    desk.send(queue, payload("locked"), payload("free"), payload("over", ttl_ms=10))
    desk.receiver(queue.main, 1)
    desk.now_ms += 10
    desk.namespace.begin(desk.now_ms)
    found = browsed(desk, queue, ACTIVE).messages
    assert [one.locked_until_ms for one in found] == [desk.now_ms - 10 + 60_000, 0]


def test_sessions_are_listed_with_who_holds_them(desk: Desk) -> None:
    queue = desk.queue(requires_session=True)
    desk.send(queue, payload("1", session_id="a"), payload("2", session_id="b"), payload("3", session_id="b"))
    desk.accept(queue, "b", credit=1)
    found = cast("list[BrowsedSession]", desk.ask(lambda asker: browse_sessions(queue.main, None, 10, asker)))
    assert [(one.record.session_id, one.record.active_count) for one in found] == [("a", 1), ("b", 2)]
    assert [one.locked_until_ms for one in found] == [0, desk.now_ms + 60_000]


# --- purging --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_only_messages_of_one_state_are_purged(desk: Desk, mixed: Queue, state: MessageState) -> None:
    assert purged(desk, mixed, state) == (1, 0)
    for other, text in STATES.items():
        assert texts(desk, mixed, other) == ([] if other is state else [text])
        assert count_of(mixed, other) == (0 if other is state else 1)
    desk.restart()
    queue = desk.namespace.get("orders")
    assert texts(desk, queue, state) == []
    assert count_of(queue, state) == 0


def test_a_purged_queue_is_empty_in_bytes_too(desk: Desk, mixed: Queue) -> None:
    for state in STATES:
        purged(desk, mixed, state)
    assert mixed.size_bytes == 0
    assert received(desk, mixed) == []


def test_purging_passes_over_what_is_locked(desk: Desk) -> None:
    queue = desk.queue()
    desk.send(queue, *[payload(str(number)) for number in range(5)])
    desk.receiver(queue.main, 2)
    locks = desk.take()
    assert purged(desk, queue, ACTIVE) == (3, 2)
    for lock in locks:
        queue.main.complete(lock)
    desk.flush()
    assert queue.main.active_count == 0
    assert desk.take_bodies() == []


def test_purging_passes_over_a_deferred_message_that_is_locked(desk: Desk) -> None:
    queue = desk.queue()
    put_aside(desk, queue, payload("one"), payload("two"))
    desk.ask(lambda asker: queue.main.receive_deferred([1], False, None, asker))
    assert purged(desk, queue, DEFERRED) == (1, 1)
    assert texts(desk, queue, DEFERRED) == ["one"]


def test_what_is_in_memory_for_a_receiver_is_purged_too(desk: Desk) -> None:
    queue = desk.queue()
    consumer = desk.receiver(queue.main, 1)
    desk.send(queue, *[payload(str(number)) for number in range(5)])
    assert desk.take_bodies() == ["0"]
    assert purged(desk, queue, ACTIVE) == (4, 1)
    desk.send(queue, payload("new"))
    desk.grant(consumer, 10)
    assert desk.take_bodies() == ["new"]


def test_purging_passes_over_what_came_too_late(desk: Desk) -> None:
    queue = desk.queue()
    desk.send(queue, payload("old"))
    desk.advance(1_000)
    desk.send(queue, payload("new"))
    assert purged(desk, queue, ACTIVE, before_ms=desk.now_ms) == (1, 1)
    assert texts(desk, queue, ACTIVE) == ["new"]


def test_purging_goes_by_portions_and_does_not_touch_what_comes_meanwhile(desk: Desk) -> None:
    queue = desk.queue()
    desk.send(queue, *[payload("x")] * 2_500)
    last = queue.next_sequence_number - 1
    first = desk.ask(lambda asker: purge(queue, ACTIVE, NEVER_MS, 0, last, asker))
    assert isinstance(first, Portion)
    assert (first.done_count, first.up_to) == (1_000, 1_000)
    desk.send(queue, payload("new"))
    for _ in range(2):
        after = first.up_to
        first = desk.ask(lambda asker, after=after: purge(queue, ACTIVE, NEVER_MS, after, last, asker))  # type: ignore[misc]
        assert isinstance(first, Portion)
    assert (first.done_count, first.up_to) == (500, last)
    assert texts(desk, queue, ACTIVE) == ["new"]


def test_what_is_not_on_disk_yet_is_not_purged(desk: Desk, mixed: Queue) -> None:
    drafts = mixed.read(payload("undeliverable too"), 0)
    drafts[0].destination = "missing"

    def both(asker: object) -> None:
        mixed.send(payload("new"), 0)
        mixed.take(drafts)
        purge(mixed, ACTIVE, NEVER_MS, 0, mixed.next_sequence_number - 1, asker)
        purge(mixed, TRANSFER_DEAD, NEVER_MS, 0, mixed.next_sequence_number - 1, asker)

    both("asker")
    desk.flush()
    assert texts(desk, mixed, ACTIVE) == ["new"]
    assert texts(desk, mixed, TRANSFER_DEAD) == ["undeliverable too"]
    assert (mixed.main.active_count, mixed.transfer_dead_letter_queue.active_count) == (1, 1)
    assert received(desk, mixed) == ["new"]


def test_what_is_not_on_disk_yet_does_not_move(desk: Desk) -> None:
    queue, target = desk.queue(), desk.queue("target")
    queue.send(payload("new"), 0)
    Relocation(queue, ACTIVE, target, None, False, False).step(0, queue.next_sequence_number - 1, 10, "asker")
    desk.flush()
    assert (texts(desk, queue, ACTIVE), texts(desk, target, ACTIVE)) == (["new"], [])


def test_deferred_messages_leave_nothing_in_memory_when_they_are_purged(desk: Desk) -> None:
    queue = desk.queue()
    put_aside(desk, queue, payload("one"))
    desk.receiver(queue.main)
    desk.send(queue, payload("two"))
    assert purged(desk, queue, DEFERRED) == (1, 0)
    assert queue.main.outlet.head._dropped == {}


def test_a_session_that_is_purged_is_gone(desk: Desk) -> None:
    queue = desk.queue(requires_session=True)
    desk.send(queue, payload("1", session_id="a"), payload("2", session_id="b"))
    desk.accept(queue, "b", credit=1)
    assert purged(desk, queue, ACTIVE) == (1, 1)
    found = cast("list[BrowsedSession]", desk.ask(lambda asker: browse_sessions(queue.main, None, 10, asker)))
    assert [one.record.session_id for one in found] == ["b"]


def test_purging_a_queue_that_was_deleted_says_so(desk: Desk) -> None:
    queue = desk.queue()

    def both(asker: object) -> None:
        purge(queue, ACTIVE, NEVER_MS, 0, 1, asker)
        desk.namespace.delete(queue)

    assert isinstance(desk.ask(both), NotFound)


# --- resubmitting ---------------------------------------------------------------------------------------------------


def test_a_dead_letter_goes_back_as_if_it_were_sent_now(desk: Desk) -> None:
    queue = desk.queue(max_delivery_count=1)
    desk.send(queue, colored("one", "red"))
    consumer = desk.receiver(queue.main, 1)
    queue.main.abandon(desk.take()[0])
    desk.flush()
    assert texts(desk, queue, DEAD) == ["one"]
    desk.advance(1_000)
    total = relocated(desk, queue)
    assert (total.done_count, total.skipped_count, total.failed_count) == (1, 0, 0)
    assert [(one.sequence_number, one.message_id, one.target) for one in total.mentions] == [(1, "one", "orders")]
    desk.grant(consumer, 1)
    (lock,) = desk.take()
    assert properties_of(lock) == {"color": "red"}
    assert lock.message.delivery_count == 0
    assert lock.message.enqueued_time_ms == desk.now_ms
    assert lock.message.sequence_number > 1
    assert queue.dead_letter_queue.active_count == 0
    assert lock.message.size_bytes == queue.size_bytes == len(colored("one", "red"))


def test_a_dead_letter_of_a_session_goes_back_to_its_session(desk: Desk) -> None:
    queue = desk.queue(requires_session=True)
    desk.send(queue, payload("one", session_id="s"))
    consumer = desk.accept(queue, "s")
    queue.main.dead_letter(desk.take()[0], None, None)
    desk.flush()
    relocated(desk, queue)
    assert desk.take_bodies() == ["one"]
    queue.main.close_consumer(consumer)


def test_what_was_resubmitted_is_on_disk_and_in_one_place(desk: Desk) -> None:
    queue = desk.queue()
    bury(desk, queue, payload("one"), payload("two"))
    relocated(desk, queue)
    desk.restart()
    queue = desk.namespace.get("orders")
    assert (texts(desk, queue, ACTIVE), texts(desk, queue, DEAD)) == (["one", "two"], [])
    assert (queue.main.active_count, queue.dead_letter_queue.active_count) == (2, 0)


def test_a_crash_before_the_commit_leaves_dead_letters_where_they_were(desk: Desk) -> None:
    queue = desk.queue()
    bury(desk, queue, payload("one"))
    Relocation(queue, DEAD, None, None, True, False).step(0, queue.next_sequence_number - 1, 10, "asker")
    desk.write()
    desk.restart()
    queue = desk.namespace.get("orders")
    assert (texts(desk, queue, ACTIVE), texts(desk, queue, DEAD)) == ([], ["one"])


def test_a_dry_run_moves_nothing(desk: Desk) -> None:
    queue = desk.queue()
    bury(desk, queue, payload("one"), payload("two"))
    total = relocated(desk, queue, is_dry_run=True)
    assert total.done_count == 2
    assert [one.message_id for one in total.mentions] == ["one", "two"]
    assert texts(desk, queue, DEAD) == ["one", "two"]


def test_a_filter_chooses_dead_letters_by_any_property(desk: Desk) -> None:
    queue = desk.queue()
    bury(desk, queue, colored("one", "red"), colored("two", "blue"))
    total = relocated(desk, queue, filter="color = 'red' AND DeadLetterReason = 'Broken'")
    assert (total.done_count, total.skipped_count) == (1, 1)
    assert (texts(desk, queue, ACTIVE), texts(desk, queue, DEAD)) == (["one"], ["two"])


def test_a_limit_ends_the_step_behind_the_last_that_went(desk: Desk) -> None:
    queue = desk.queue()
    bury(desk, queue, payload("one"), payload("two"), payload("three"))
    order = Relocation(queue, DEAD, None, None, True, False)
    portion = desk.ask(lambda asker: order.step(0, 1_000, 2, asker))
    assert isinstance(portion, Portion)
    assert (portion.done_count, portion.up_to) == (2, 2)
    assert texts(desk, queue, DEAD) == ["three"]


def test_dead_letters_that_die_again_are_not_resubmitted_again(desk: Desk) -> None:
    queue = desk.queue()
    late = desk.queue("late")
    bury(desk, queue, payload("one"))
    desk.update(queue, forward_to="late")
    desk.update(late, status="SendDisabled")
    # It is forwarded in vain, and dies anew with a number behind those that the task is about.
    assert relocated(desk, queue).done_count == 1
    assert texts(desk, queue, DEAD) == ["one"]


def test_a_resubmitted_message_may_be_forwarded_as_often_as_a_new_one(desk: Desk) -> None:
    queue, other = desk.queue(), desk.queue("other")
    desk.update(queue, forward_to="other")
    desk.update(other, forward_to="orders")
    desk.send(queue, payload("one"))
    (grave,) = [one for one in (queue, other) if one.dead_letter_queue.active_count]
    desk.update(other, forward_to=None)
    relocated(desk, grave, target=queue)
    assert texts(desk, other, ACTIVE) == ["one"]


def test_duplicate_detection_does_not_swallow_a_resubmitted_message(desk: Desk) -> None:
    queue = desk.queue(requires_duplicate_detection=True)
    bury(desk, queue, payload("one", message_id="same"))
    relocated(desk, queue)
    assert texts(desk, queue, ACTIVE) == ["one"]


def test_a_locked_dead_letter_stays(desk: Desk) -> None:
    queue = desk.queue()
    bury(desk, queue, payload("one"), payload("two"))
    desk.receiver(queue.dead_letter_queue, 1)
    assert relocated(desk, queue).skipped_count == 1
    assert (texts(desk, queue, ACTIVE), texts(desk, queue, DEAD)) == (["two"], ["one"])


def test_forwarded_dead_letters_go_back_to_their_sources(desk: Desk) -> None:
    graves = desk.queue("graves")
    queue = desk.queue(forward_dead_lettered_messages_to="graves")
    bury(desk, queue, payload("one"))
    desk.send(graves, payload("its own"))
    total = relocated(desk, graves, ACTIVE)
    assert (total.done_count, total.skipped_count) == (1, 1)
    assert (texts(desk, queue, ACTIVE), texts(desk, graves, ACTIVE)) == (["one"], ["its own"])
    (one,) = browsed(desk, queue, ACTIVE).messages
    assert one.message.dead_letter_source is None


def test_a_dead_letter_of_a_subscription_goes_back_to_that_subscription_only() -> None:
    desk = TopicDesk()
    topic = desk.topic("news")
    first, second = desk.subscription(topic, "first"), desk.subscription(topic, "second")
    desk.send(topic, colored("one", "red"))
    consumer = desk.receiver(first.main, 1)
    first.main.dead_letter(desk.take()[0], "Broken", None)
    first.main.close_consumer(consumer)
    desk.flush()
    relocated(desk, first)
    assert (texts(desk, first, ACTIVE), texts(desk, first, DEAD)) == (["one"], [])
    assert texts(desk, second, ACTIVE) == ["one"]
    for subscription in (first, second):
        assert received(desk, subscription) == ["one"]
    assert topic.size_bytes == 0


# --- moving ---------------------------------------------------------------------------------------------------------


def moved(desk: Desk, queue: Queue, state: MessageState, target: Queue) -> Portion:
    return relocated(desk, queue, state, target, is_resubmission=False)


@pytest.mark.parametrize("state", [ACTIVE, DEFERRED, DEAD, TRANSFER_DEAD])
def test_messages_of_a_state_move_to_another_queue_where_they_are_active(
    desk: Desk, mixed: Queue, state: MessageState
) -> None:
    target = desk.queue("target")
    assert moved(desk, mixed, state, target).done_count == 1
    assert texts(desk, mixed, state) == []
    assert received(desk, target) == [STATES[state]]
    assert target.size_bytes == 0


def test_a_scheduled_message_moves_and_stays_scheduled(desk: Desk, mixed: Queue) -> None:
    target = desk.queue("target")
    # One of these has the number there that the moved one has here.
    desk.send(target, *[payload("before")] * 10)
    moved(desk, mixed, SCHEDULED, target)
    assert texts(desk, target, SCHEDULED) == ["scheduled"]
    desk.advance(60_000)
    assert texts(desk, target, ACTIVE) == [*["before"] * 10, "scheduled"]
    assert received(desk, mixed) == ["active"]


def test_a_moved_dead_letter_keeps_its_reason(desk: Desk) -> None:
    queue, target = desk.queue(), desk.queue("target")
    bury(desk, queue, payload("one"))
    moved(desk, queue, DEAD, target)
    (one,) = browsed(desk, target, ACTIVE).messages
    assert properties_of(one.message.unlocked_payload())["DeadLetterReason"] == "Broken"
    assert one.message.enqueue_sequence_number == 1


def test_a_move_is_a_use_of_both_entities(desk: Desk) -> None:
    queue, target = desk.queue(), desk.queue("target")
    desk.send(queue, payload("one"))
    desk.advance(1_000)
    moved(desk, queue, ACTIVE, target)
    assert queue.accessed_at_ms == target.accessed_at_ms == desk.now_ms


@pytest.mark.parametrize(
    "fields,reason",
    [
        ({"status": "Disabled"}, "disabled"),
        ({"requires_session": True}, "session"),
        ({"max_message_size_in_kilobytes": 1}, "at most 1024"),
    ],
)
def test_a_message_that_the_target_cannot_take_stays(desk: Desk, fields: dict[str, object], reason: str) -> None:
    queue, target = desk.queue(), desk.queue("target", **fields)
    desk.send(queue, payload("x" * 2_000))
    total = moved(desk, queue, ACTIVE, target)
    assert (total.done_count, total.failed_count) == (0, 1)
    assert reason in str(total.mentions[0].reason)
    assert queue.main.active_count == 1


def test_a_full_target_takes_as_much_as_it_has_room_for(desk: Desk) -> None:
    queue, target = desk.queue(), desk.queue("target", max_size_in_megabytes=1)
    desk.send(queue, *[payload("x" * 200_000)] * 7)
    total = moved(desk, queue, ACTIVE, target)
    assert (total.done_count, total.failed_count) == (5, 2)
    assert (target.main.active_count, queue.main.active_count) == (5, 2)


def test_messages_that_move_to_a_topic_are_published() -> None:
    desk = TopicDesk()
    queue = desk.queue()
    topic = desk.topic("news")
    subscriptions = [desk.subscription(topic, name) for name in ("first", "second")]
    desk.send(queue, colored("one"))
    assert moved(desk, queue, ACTIVE, topic).done_count == 1
    for subscription in subscriptions:
        assert received(desk, subscription) == ["one"]
    assert (topic.size_bytes, queue.size_bytes) == (0, 0)


def test_what_is_locked_does_not_move_and_what_moved_is_not_handed_out(desk: Desk) -> None:
    queue, target = desk.queue(), desk.queue("target")
    consumer = desk.receiver(queue.main, 1)
    desk.send(queue, payload("one"), payload("two"))
    (lock,) = desk.take()
    assert moved(desk, queue, ACTIVE, target).skipped_count == 1
    desk.grant(consumer, 10)
    assert desk.take() == []
    queue.main.complete(lock)
    desk.flush()
    assert received(desk, target) == ["two"]


# --- un-deferring ---------------------------------------------------------------------------------------------------


def undeferred(desk: Desk, queue: Queue) -> Portion:
    return all_portions(desk, queue, lambda after, last, asker: undefer(queue, after, last, asker))


def test_deferred_messages_become_available_again_in_their_old_places(desk: Desk) -> None:
    queue = desk.queue()
    put_aside(desk, queue, payload("one"), payload("two"))
    desk.send(queue, payload("three"))
    assert undeferred(desk, queue).done_count == 2
    assert (queue.main.active_count, queue.main.deferred_count) == (3, 0)
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["one", "two", "three"]


def test_a_receiver_that_waits_gets_an_undeferred_message(desk: Desk) -> None:
    queue = desk.queue()
    put_aside(desk, queue, payload("one"))
    desk.receiver(queue.main)
    undeferred(desk, queue)
    assert desk.take_bodies() == ["one"]


def test_messages_are_undeferred_by_number(desk: Desk) -> None:
    queue = desk.queue()
    put_aside(desk, queue, payload("one"), payload("two"))
    portion = desk.ask(lambda asker: undefer_numbers(queue, [2, 2, 99], asker))
    assert isinstance(portion, Portion)
    assert (portion.done_count, portion.failed_count) == (1, 1)
    assert [one.sequence_number for one in portion.mentions] == [99]
    assert (texts(desk, queue, ACTIVE), texts(desk, queue, DEFERRED)) == (["two"], ["one"])


def test_an_undeferred_message_stays_so(desk: Desk) -> None:
    queue = desk.queue()
    put_aside(desk, queue, payload("one"))
    undeferred(desk, queue)
    desk.restart()
    assert received(desk, desk.namespace.get("orders")) == ["one"]


def test_an_undeferred_message_that_expired_meanwhile_expires(desk: Desk) -> None:
    queue = desk.queue(dead_lettering_on_message_expiration=True)
    put_aside(desk, queue, payload("one", ttl_ms=1_000))
    desk.send(queue, payload("two", ttl_ms=1_500))
    desk.advance(2_000)
    undeferred(desk, queue)
    assert sorted(texts(desk, queue, DEAD)) == ["one", "two"]
    assert queue.main.active_count == queue.main.deferred_count == 0


def test_an_undeferred_message_expires_in_time(desk: Desk) -> None:
    queue = desk.queue(dead_lettering_on_message_expiration=True)
    put_aside(desk, queue, payload("one", ttl_ms=5_000))
    # With this one, all that the queue expects to expire is over.
    desk.send(queue, payload("before", ttl_ms=500))
    desk.advance(1_000)
    purged(desk, queue, DEAD)
    undeferred(desk, queue)
    desk.advance(5_000)
    assert texts(desk, queue, DEAD) == ["one"]


def test_a_locked_deferred_message_stays_deferred(desk: Desk) -> None:
    queue = desk.queue()
    put_aside(desk, queue, payload("one"))
    desk.ask(lambda asker: queue.main.receive_deferred([1], False, None, asker))
    assert undeferred(desk, queue).skipped_count == 1
    assert queue.main.deferred_count == 1


@pytest.mark.parametrize("who", ["nobody", "holder", "waiter"])
def test_undeferred_messages_of_a_session_are_its_own_again(desk: Desk, who: str) -> None:
    queue = desk.queue(requires_session=True)
    desk.send(queue, payload("one", session_id="s"))
    consumer = desk.accept(queue, "s")
    queue.main.defer(desk.take()[0])
    if who != "holder":
        queue.main.close_consumer(consumer)
    desk.flush()
    if who == "waiter":
        consumer = desk.accept(queue, None)
    undeferred(desk, queue)
    if who == "nobody":
        consumer = desk.accept(queue, None)
    elif who == "waiter":
        desk.grant(consumer, 10)
    assert desk.take_bodies() == ["one"]


def test_sessions_become_ready_in_the_order_in_which_they_were_undeferred(desk: Desk) -> None:
    queue = desk.queue(requires_session=True)
    for name in ("z", "a"):
        desk.send(queue, payload(name, session_id=name))
        consumer = desk.accept(queue, name)
        queue.main.defer(desk.take()[0])
        queue.main.close_consumer(consumer)
        desk.flush()
    desk.send(queue, payload("first", session_id="m"))
    undeferred(desk, queue)
    taken: list[str] = []
    for _ in range(3):
        desk.accept(queue, None)
        taken += desk.take_bodies()
    assert taken == ["first", "z", "a"]


@pytest.mark.parametrize("by_number", [False, True])
def test_a_forwarded_undeferred_message_goes_on_whole(desk: Desk, by_number: bool) -> None:
    queue = desk.queue()
    target = desk.queue("target", requires_session=True)
    put_aside(desk, queue, payload("one", session_id="s"))
    desk.send(queue, payload("two", session_id="s"))
    desk.update(queue, forward_to="target")
    if by_number:
        desk.ask(lambda asker: undefer_numbers(queue, [1], asker))
    else:
        undeferred(desk, queue)
    _, one = browsed(desk, target, ACTIVE).messages
    assert one.message.session_id == "s"
    assert Message(one.message.unlocked_payload()).data == b"one"
