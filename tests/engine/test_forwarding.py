"""Queues that forward: where messages end, and what happens where they cannot go on."""

from __future__ import annotations

import pytest

from tandem.amqp.message import Message
from tandem.errors import ArgumentError, NotAllowed
from tests.engine.desk import Desk, body, payload, properties_of


def test_a_message_arrives_where_its_queue_forwards_to() -> None:
    desk = Desk()
    target = desk.queue("target")
    source = desk.queue("source", forward_to="target")
    desk.send(source, payload("a"))
    assert source.main.active_count == 0
    desk.receiver(target.main)
    (lock,) = desk.take()
    assert body(lock) == "a"
    annotations = Message(lock.payload).message_annotations
    assert annotations is not None
    assert annotations["x-opt-enqueue-sequence-number"] == 1


def test_a_destination_must_exist() -> None:
    with pytest.raises(ArgumentError, match="'missing', which does not exist"):
        Desk().queue("source", forward_to="missing")


def test_messages_that_were_there_before_are_forwarded_too_and_begin_anew() -> None:
    desk = Desk()
    target = desk.queue("target")
    source = desk.queue("source")
    desk.send(source, payload("a"), payload("b"))
    consumer = desk.receiver(source.main, credit=1)
    source.main.abandon(desk.take()[0])
    source.main.close_consumer(consumer)
    desk.update(source, forward_to="target")
    assert (source.main.active_count, target.main.active_count) == (0, 2)
    desk.receiver(target.main)
    assert [(body(lock), lock.message.delivery_count) for lock in desk.take()] == [("a", 0), ("b", 0)]


def test_a_message_that_expired_before_it_was_forwarded_is_not_given_a_new_life() -> None:
    desk = Desk()
    target = desk.queue("target")
    source = desk.queue("source")
    desk.send(source, payload("a", ttl_ms=1_000))
    desk.now_ms += 1_000
    desk.namespace.begin(desk.now_ms)
    desk.update(source, forward_to="target")
    assert (source.main.active_count, target.main.active_count) == (0, 0)


def test_a_scheduled_message_is_forwarded_when_it_is_due() -> None:
    desk = Desk()
    target = desk.queue("target")
    source = desk.queue("source", forward_to="target")
    desk.send(source, payload("a", due_ms=desk.now_ms + 1_000))
    assert source.main.scheduled_count == 1
    desk.advance(1_000)
    assert desk.peek(target.main) == ["a"]


def test_a_message_is_forwarded_four_times_and_no_more() -> None:
    desk = Desk()
    queues = [desk.queue(f"q{number}") for number in range(6)]
    for number in range(5):
        desk.update(queues[number], forward_to=f"q{number + 1}")
    desk.send(queues[1], payload("four hops"))
    assert desk.peek(queues[5].main) == ["four hops"]
    desk.send(queues[0], payload("five hops"))
    desk.receiver(queues[4].dead_letter_queue)
    (dead,) = desk.take()
    assert body(dead) == "five hops"
    assert properties_of(dead)["DeadLetterReason"] == "MaxTransferHopCountExceeded"


def test_a_ring_of_queues_does_not_turn_for_ever() -> None:
    desk = Desk()
    one, two = desk.queue("one"), desk.queue("two", forward_to="one")
    desk.update(one, forward_to="two")
    desk.send(one, payload("a"))
    assert one.dead_letter_queue.active_count + two.dead_letter_queue.active_count == 1


@pytest.mark.parametrize("detects_duplicates", [False, True])
@pytest.mark.parametrize("is_there_before", [False, True])
def test_a_queue_that_forwards_to_itself_dead_letters_what_it_gets(
    detects_duplicates: bool, is_there_before: bool
) -> None:
    desk = Desk()
    queue = desk.queue("Orders", requires_duplicate_detection=detects_duplicates)
    if is_there_before:
        desk.send(queue, payload("a"))
    desk.update(queue, forward_to="orders")
    if not is_there_before:
        desk.send(queue, payload("a"))
    assert (queue.main.active_count, queue.dead_letter_queue.active_count) == (0, 1)
    desk.receiver(queue.dead_letter_queue)
    (dead,) = desk.take()
    assert properties_of(dead)["DeadLetterReason"] == "MaxTransferHopCountExceeded"
    desk.restart()
    assert desk.namespace.get("orders").dead_letter_queue.active_count == 1


def test_a_queue_may_be_made_with_itself_as_the_target_of_its_dead_letters() -> None:
    desk = Desk()
    queue = desk.queue("orders", forward_dead_lettered_messages_to="orders", max_delivery_count=1)
    desk.send(queue, payload("a"))
    consumer = desk.receiver(queue.main)
    # Four times it comes back to the queue; then it is a dead letter for good.
    for _ in range(5):
        desk.grant(consumer, 1)
        (lock,) = desk.take()
        queue.main.abandon(lock, {})
        desk.flush()
    assert (queue.main.active_count, queue.dead_letter_queue.active_count) == (0, 1)


def test_a_queue_with_sessions_forwards_and_keeps_their_order() -> None:
    desk = Desk()
    target = desk.queue("target", requires_session=True)
    source = desk.queue("source", requires_session=True, forward_to="target")
    desk.send(source, payload("a", session_id="s"), payload("b", session_id="s"))
    desk.accept(target, "s")
    assert desk.take_bodies() == ["a", "b"]
    with pytest.raises(NotAllowed, match="forwards its messages to 'target'"):
        desk.accept(source, "s")


def test_forwarding_takes_sessions_from_those_who_hold_them() -> None:
    desk = Desk()
    target = desk.queue("target")
    source = desk.queue("source", requires_session=True)
    for _ in range(2):
        desk.send(source, *[payload(text, session_id=text[0]) for text in ("s1", "t1", "s2", "u1")])
        holder = desk.accept(source, "s")
        assert desk.take_bodies() == ["s1", "s2"]
        desk.update(source, forward_to="target")
        assert not holder.is_open
        assert (source.main.active_count, source.dead_letter_queue.active_count) == (0, 0)
        desk.receiver(target.main, deletes=True)
        assert sorted(desk.take_handed_out()) == ["s1", "s2", "t1", "u1"]
        # Sessions can be received again, and forwarded another time.
        desk.update(source, forward_to=None)


@pytest.mark.parametrize("trouble", ["disabled", "missing", "full", "session"])
def test_a_message_that_cannot_arrive_is_a_dead_letter_of_its_source(trouble: str) -> None:
    desk = Desk()
    target = desk.queue("target", max_size_in_megabytes=1, requires_session=trouble == "session")
    source = desk.queue("source", forward_to="target")
    if trouble == "disabled":
        desk.update(target, status="SendDisabled")
    elif trouble == "missing":
        desk.namespace.delete(target)
    elif trouble == "full":
        desk.send(target, *[payload("x" * 200_000)] * 5)
    desk.send(source, payload("y" * 100_000))
    desk.receiver(source.dead_letter_queue)
    (dead,) = desk.take()
    reason = "Session ID is null" if trouble == "session" else "ForwardingFailed"
    assert properties_of(dead)["DeadLetterReason"] == reason


def test_a_dead_letter_that_never_arrived_is_not_to_be_had_before_it_is_on_disk() -> None:
    desk = Desk()
    target = desk.queue("target")
    source = desk.queue("source", forward_to="target")
    desk.namespace.delete(target)
    desk.receiver(source.dead_letter_queue)
    source.send(payload("a"), 0)
    # A question about the dead-letter queue in the same batch: it reads what is written and not committed.
    desk.receiver_without_flush(source.dead_letter_queue)
    batch, duplicates = desk.write()
    assert all(not effects.deliveries for effects in batch)
    desk.commit(batch, duplicates)
    desk.flush()
    assert desk.take_bodies() == ["a"]


def test_a_session_id_is_read_when_a_message_is_forwarded_to_a_queue_with_sessions() -> None:
    desk = Desk()
    target = desk.queue("target", requires_session=True)
    source = desk.queue("source", forward_to="target")
    desk.send(source, payload("a", session_id="s"))
    desk.accept(target, "s")
    assert desk.take_bodies() == ["a"]


def test_duplicates_are_detected_at_the_destination_too() -> None:
    desk = Desk()
    target = desk.queue("target", requires_duplicate_detection=True)
    source = desk.queue("source", forward_to="target")
    desk.send(source, payload("a", message_id="1"))
    desk.send(target, payload("again", message_id="1"))
    desk.send(source, payload("once more", message_id="1"))
    assert desk.peek(target.main) == ["a"]


def test_dead_letters_go_where_their_queue_says() -> None:
    desk = Desk()
    target = desk.queue("target")
    source = desk.queue("source", forward_dead_lettered_messages_to="target", max_delivery_count=1)
    desk.send(source, payload("a"))
    desk.receiver(source.main)
    source.main.abandon(desk.take()[0])
    desk.flush()
    assert source.dead_letter_queue.active_count == 0
    desk.receiver(target.main)
    (lock,) = desk.take()
    assert lock.message.delivery_count == 0
    assert properties_of(lock)["DeadLetterReason"] == "MaxDeliveryCountExceeded"
    annotations = Message(lock.payload).message_annotations
    assert annotations is not None
    assert annotations["x-opt-deadletter-source"] == "source"


def test_a_forwarded_dead_letter_names_its_queue_in_lower_case() -> None:
    desk = Desk()
    target = desk.queue("Target")
    source = desk.queue("Region/Source", forward_dead_lettered_messages_to="target", max_delivery_count=1)
    desk.send(source, payload("a"))
    desk.receiver(source.main)
    source.main.abandon(desk.take()[0])
    desk.flush()
    desk.receiver(target.main)
    (lock,) = desk.take()
    annotations = Message(lock.payload).message_annotations
    assert annotations is not None
    assert annotations["x-opt-deadletter-source"] == "region/source"
    # Management keeps the spelling with which the queue was made.
    assert desk.namespace.get("region/source").name == "Region/Source"


def test_dead_letters_stay_where_they_are_if_their_destination_takes_none() -> None:
    desk = Desk()
    target = desk.queue("target")
    source = desk.queue("source", forward_dead_lettered_messages_to="target")
    desk.update(target, status="Disabled")
    desk.send(source, payload("a"))
    desk.receiver(source.main)
    source.main.dead_letter(desk.take()[0], "why", None)
    desk.flush()
    assert source.dead_letter_queue.active_count == 1


def test_a_message_sent_by_way_of_a_queue_arrives_or_is_kept_for_its_sender() -> None:
    desk = Desk()
    via, target = desk.queue("via"), desk.queue("target")
    for destination in ("target", "missing"):
        drafts = via.read(payload(destination), 0)
        drafts[0].destination = destination
        via.take(drafts)
    desk.flush()
    assert desk.peek(target.main) == ["target"]
    assert via.main.active_count == 0
    desk.receiver(via.transfer_dead_letter_queue)
    assert desk.take_bodies() == ["missing"]


def test_forwarded_messages_are_there_after_a_restart() -> None:
    desk = Desk()
    desk.queue("target")
    source = desk.queue("source", forward_to="target")
    desk.send(source, payload("a"), payload("b", due_ms=desk.now_ms + 1_000))
    desk.advance(1_000)
    desk.restart()
    assert desk.peek(desk.namespace.get("target").main) == ["a", "b"]
    assert desk.namespace.get("source").size_bytes == 0
