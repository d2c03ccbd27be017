"""Delayed visibility, step by step on the engine: every way in, order, the end of a delay, and crashes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tandem.auth import Right
from tandem.engine.browsing import MessageState
from tandem.engine.moving import Relocation
from tandem.engine.queue import Queue
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.engine.visibility import Visibility
from tandem.limits import MAX_PAGE_MESSAGES
from tandem.server.faults import Fault, FaultKind, FaultSettings
from tests.engine.desk import Desk, payload
from tests.markers import mission

DELAY_MS = 60_000


class Delays:
    """Delays by the names of queues; `all` is for those that are not named."""

    def __init__(self, desk: Desk, **delays_ms: int) -> None:
        self.delays_ms = delays_ms
        self.visibility = Visibility(self.delay_ms)
        desk.namespace.visibility = self.visibility

    def delay_ms(self, queue: Queue) -> int:
        return self.delays_ms.get(queue.name, self.delays_ms.get("all", 0))

    def end(self) -> None:
        """Nothing is written before the caller flushes."""
        self.delays_ms = {}
        for queue in self.visibility.holding_queues():
            self.visibility.end(queue)


def send(queue: Queue, *bodies: str) -> None:
    """Nothing is written before the caller flushes."""
    for text in bodies:
        queue.send(payload(text), 0)


# --- every way in ---------------------------------------------------------------------------------------------------

# Prepares a desk without delays, and returns what brings one message with the body "x" to the queue or subscription.
Way = Callable[[Desk], tuple[Queue, Callable[[], None]]]


def subscription_of(desk: Desk, name: str = "s", **fields: object) -> Queue:
    if desk.namespace.find("t") is None:
        desk.namespace.create_topic(TopicDescription.from_fields({"name": "t"}))
    description = SubscriptionDescription.from_fields({"topic_name": "t", "name": name, **fields})
    subscription = desk.namespace.create_subscription(description)
    desk.flush()
    return subscription


def in_a_transfer(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue = desk.queue()
    return queue, lambda: desk.send(queue, payload("x"))


def in_a_batch(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue = desk.queue()
    return queue, lambda: desk.send_batch(queue, payload("x"))


def at_its_scheduled_time(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue = desk.queue()
    desk.send(queue, payload("x", due_ms=desk.now_ms + 1_000))
    return queue, lambda: desk.advance(1_000)


def in_a_transaction(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue = desk.queue()
    transaction = desk.namespace.transactions.declare("owner")
    transaction.send(queue, queue.read(payload("x"), 0))
    # The message comes when the transaction is discharged, not when it was sent.
    desk.advance(DELAY_MS)

    return queue, lambda: desk.discharge(transaction)


def by_way_of_another_queue(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue, via = desk.queue(), desk.queue("via")

    def send_via() -> None:
        drafts = via.read(payload("x"), 0)
        drafts[0].destination = queue.name
        via.take(drafts)
        desk.flush()

    return queue, send_via


def forwarded_by_a_queue(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue = desk.queue()
    source = desk.queue("source", forward_to=queue.name)
    return queue, lambda: desk.send(source, payload("x"))


def forwarded_by_two_queues(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue = desk.queue()
    between = desk.queue("between", forward_to=queue.name)
    source = desk.queue("source", forward_to=between.name)
    return queue, lambda: desk.send(source, payload("x"))


def forwarded_by_a_subscription(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue = desk.queue()
    topic = subscription_of(desk, forward_to=queue.name).topic
    assert topic is not None
    return queue, lambda: desk.send(topic, payload("x"))


def when_forwarding_is_switched_on(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue, source = desk.queue(), desk.queue("source")
    desk.send(source, payload("x"))
    desk.advance(DELAY_MS)
    desk.receiver(source.main, 0)
    return queue, lambda: desk.update(source, forward_to=queue.name)


def as_a_forwarded_dead_letter(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue = desk.queue()
    source = desk.queue("source", forward_dead_lettered_messages_to=queue.name)
    desk.receiver(source.main)
    desk.send(source, payload("x"))
    (lock,) = desk.take()

    def dead_letter() -> None:
        source.main.dead_letter(lock, "because", None)
        desk.flush()

    return queue, dead_letter


def as_a_resubmitted_dead_letter(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue = desk.queue()
    consumer = desk.receiver(queue.main)
    desk.send(queue, payload("x"))
    (lock,) = desk.take()
    queue.main.dead_letter(lock, "because", None)
    queue.main.close_consumer(consumer)
    desk.advance(DELAY_MS)
    relocation = Relocation(queue, MessageState.DEAD_LETTERED, None, None, True, False)

    def resubmit() -> None:
        desk.ask(lambda asker: relocation.step(0, 1_000, 10, asker))

    return queue, resubmit


def moved_from_another_queue(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    queue, source = desk.queue(), desk.queue("source")
    desk.send(source, payload("x"))
    desk.advance(DELAY_MS)
    relocation = Relocation(source, MessageState.ACTIVE, queue, None, False, False)

    def move() -> None:
        desk.ask(lambda asker: relocation.step(0, 1_000, 10, asker))

    return queue, move


def copied_by_a_topic(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    subscription = subscription_of(desk)
    # With a second copy the bytes are shared.
    subscription_of(desk, "other")
    topic = subscription.topic
    assert topic is not None
    return subscription, lambda: desk.send(topic, payload("x"))


def copied_by_a_topic_at_its_scheduled_time(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    subscription = subscription_of(desk)
    topic = subscription.topic
    assert topic is not None
    desk.send(topic, payload("x", due_ms=desk.now_ms + 1_000))
    return subscription, lambda: desk.advance(1_000)


def forwarded_to_a_topic(desk: Desk) -> tuple[Queue, Callable[[], None]]:
    subscription = subscription_of(desk)
    source = desk.queue("source", forward_to="t")
    return subscription, lambda: desk.send(source, payload("x"))


WAYS: list[Way] = [
    in_a_transfer,
    in_a_batch,
    at_its_scheduled_time,
    in_a_transaction,
    by_way_of_another_queue,
    forwarded_by_a_queue,
    forwarded_by_two_queues,
    forwarded_by_a_subscription,
    when_forwarding_is_switched_on,
    as_a_forwarded_dead_letter,
    as_a_resubmitted_dead_letter,
    moved_from_another_queue,
    copied_by_a_topic,
    copied_by_a_topic_at_its_scheduled_time,
    forwarded_to_a_topic,
]


@mission("M14")
@pytest.mark.parametrize("covered", ["the entity", "the namespace"])
@pytest.mark.parametrize("way", WAYS)
def test_a_message_appears_later_by_the_delay_and_once_whichever_way_it_comes(way: Way, covered: str) -> None:
    desk = Desk()
    queue, bring = way(desk)
    Delays(desk, **{queue.name if covered == "the entity" else "all": DELAY_MS})
    desk.receiver(queue.main, deletes=True)
    bring()
    desk.advance(DELAY_MS - 1)
    assert desk.take_handed_out() == []
    desk.advance(1)
    assert desk.take_handed_out() == ["x"]
    desk.advance(10 * DELAY_MS)
    assert (desk.take_handed_out(), queue.main.scheduled_count) == ([], 0)


@mission("M14")
@pytest.mark.parametrize("way", WAYS)
def test_a_delayed_message_survives_a_crash_and_appears_once_whichever_way_it_came(way: Way) -> None:
    desk = Desk()
    queue, bring = way(desk)
    Delays(desk, all=DELAY_MS)
    bring()
    desk.restart()
    # Without a delay: the message has its time on disk. It may wait in an entity that forwards it then.
    again = desk.namespace.get(queue.name)
    desk.receiver(again.main, deletes=True)
    desk.advance(DELAY_MS)
    assert desk.take_handed_out() == ["x"]
    desk.restart()
    desk.receiver(desk.namespace.get(queue.name).main, deletes=True)
    desk.advance(10 * DELAY_MS)
    assert desk.take_handed_out() == []


@mission("M14")
@pytest.mark.parametrize("way", WAYS)
def test_a_delayed_message_appears_at_once_when_the_delay_ends_whichever_way_it_came(way: Way) -> None:
    desk = Desk()
    queue, bring = way(desk)
    delays = Delays(desk, all=DELAY_MS)
    desk.receiver(queue.main)
    bring()
    delays.end()
    # What goes through a topic takes its turn there, in this moment.
    desk.advance(0)
    assert desk.take_bodies() == ["x"]
    assert delays.visibility.is_idle


@mission("M14")
def test_one_subscription_is_delayed_and_its_neighbour_is_not() -> None:
    desk = Desk()
    delayed, prompt = subscription_of(desk, "delayed"), subscription_of(desk, "prompt")
    topic = delayed.topic
    assert topic is not None
    Delays(desk, **{delayed.name: DELAY_MS})
    desk.receiver(delayed.main, deletes=True)
    desk.send(topic, payload("x"))
    assert (delayed.main.active_count, prompt.main.active_count) == (0, 1)
    desk.advance(DELAY_MS - 1)
    assert desk.take_handed_out() == []
    desk.advance(1)
    assert desk.take_handed_out() == ["x"]


@mission("M14")
def test_the_longest_delay_on_the_way_counts_and_not_their_sum() -> None:
    desk = Desk()
    queue = desk.queue()
    source = desk.queue("source", forward_to=queue.name)
    Delays(desk, orders=60_000, source=40_000)
    desk.receiver(queue.main)
    desk.send(source, payload("x"))
    desk.advance(59_999)
    assert desk.take_bodies() == []
    desk.advance(1)
    assert desk.take_bodies() == ["x"]


@mission("M14")
def test_messages_keep_their_order_on_a_way_of_several_delayed_entities() -> None:
    desk = Desk()
    queue = desk.queue()
    source = desk.queue("source", forward_to=queue.name)
    delays = Delays(desk, all=DELAY_MS)
    desk.receiver(queue.main, 1_000)
    for number in range(20):
        desk.send(source, payload(str(number)))
        desk.advance(5_000)
    delays.end()
    send(source, "20")
    desk.flush()
    assert desk.take_bodies() == [str(number) for number in range(21)]


# --- order, and the end of a delay ----------------------------------------------------------------------------------


@mission("M14")
def test_what_comes_while_a_delay_ends_goes_behind_what_was_delayed() -> None:
    desk = Desk()
    queue = desk.queue()
    delays = Delays(desk, orders=DELAY_MS)
    send(queue, "a", "b")
    desk.flush()
    # In one turn: the end has asked for what waits, and has no answer yet.
    delays.end()
    send(queue, "c")
    desk.flush()
    send(queue, "d")
    desk.flush()
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["a", "b", "c", "d"]
    assert delays.visibility.is_idle


@mission("M14")
def test_a_shorter_delay_does_not_let_a_message_overtake() -> None:
    desk = Desk()
    queue = desk.queue()
    delays = Delays(desk, orders=60_000)
    send(queue, "a")
    delays.delays_ms = {"orders": 1_000}
    send(queue, "b")
    desk.flush()
    desk.receiver(queue.main)
    desk.advance(59_999)
    assert desk.take_bodies() == []
    desk.advance(1)
    assert desk.take_bodies() == ["a", "b"]


@mission("M14")
def test_a_message_whose_scheduled_time_comes_goes_behind_what_was_delayed_before() -> None:
    desk = Desk()
    queue = desk.queue()
    Delays(desk, orders=DELAY_MS)
    desk.send(queue, payload("scheduled", due_ms=desk.now_ms + 1_000), payload("a"))
    desk.advance(1_000)
    desk.send(queue, payload("b"))
    desk.receiver(queue.main)
    desk.advance(DELAY_MS)
    assert desk.take_bodies() == ["a", "scheduled", "b"]


@mission("M14")
def test_what_a_sender_scheduled_is_not_shown_when_a_delay_ends() -> None:
    desk = Desk()
    queue = desk.queue()
    delays = Delays(desk, orders=DELAY_MS)
    desk.send(queue, payload("scheduled", due_ms=desk.now_ms + 2 * DELAY_MS), payload("a"))
    delays.end()
    desk.flush()
    desk.receiver(queue.main, deletes=True)
    assert desk.take_handed_out() == ["a"]
    desk.advance(2 * DELAY_MS)
    assert desk.take_handed_out() == ["scheduled"]


@mission("M14")
def test_delayed_messages_appear_once_and_in_order_after_a_crash() -> None:
    desk = Desk()
    queue = desk.queue()
    Delays(desk, orders=DELAY_MS)
    send(queue, *[str(number) for number in range(10)])
    desk.flush()
    for _ in range(2):
        desk.restart()
    again = desk.namespace.get("orders")
    desk.receiver(again.main, 100)
    assert desk.take_bodies() == []
    desk.advance(DELAY_MS)
    assert desk.take_bodies() == [str(number) for number in range(10)]


@mission("M14")
def test_after_a_crash_what_was_delayed_can_be_shown_before_whatever_comes_next() -> None:
    desk = Desk()
    queue = desk.queue()
    Delays(desk, orders=DELAY_MS)
    count = 2 * MAX_PAGE_MESSAGES
    send(queue, *[str(number) for number in range(count)])
    desk.flush()
    desk.restart()
    again = desk.namespace.get("orders")
    delays = Delays(desk)
    delays.visibility.end_leftovers(again, desk.now_ms + DELAY_MS)
    send(again, str(count))
    # Whatever is due now comes while the first page is shown.
    desk.namespace.tick()
    desk.flush()
    desk.receiver(again.main, count + 1)
    assert desk.take_bodies() == [str(number) for number in range(count + 1)]
    assert delays.visibility.is_idle


def test_a_queue_that_is_deleted_while_its_delay_ends_is_forgotten() -> None:
    desk = Desk()
    queue = desk.queue()
    delays = Delays(desk, orders=DELAY_MS)
    send(queue, "a")
    desk.flush()
    delays.end()
    desk.namespace.delete(queue)
    desk.flush()
    assert delays.visibility.is_idle


def test_a_fault_is_over_at_its_end_though_nobody_has_looked_at_the_clock() -> None:
    fault = Fault(1, FaultSettings(FaultKind.REFUSE_SENDS, "Orders", duration_ms=1_000), 5_000)
    assert fault.meets(Right.SEND, "orders", 5_999)
    assert not fault.meets(Right.SEND, "orders", 6_000)
    assert not fault.meets(Right.LISTEN, "orders", 5_000)
    assert not fault.meets(Right.SEND, "orders/eu", 5_000)
