"""Counts are those of the last commit: a message that moves is in one place, whenever somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tandem.engine.browsing import MessageState
from tandem.engine.moving import Relocation
from tandem.engine.purging import purge
from tandem.engine.queue import Queue
from tandem.engine.undeferring import undefer
from tandem.errors import QuotaExceeded
from tests.engine.desk import Desk, payload
from tests.engine.topic_desk import TopicDesk

Places = dict[str, tuple[int, int, int]]
Move = Callable[[TopicDesk], None]

MINUTE_MS: Final = 60_000


def places(desk: Desk) -> Places:
    """Every line that holds messages: how many are active, deferred and scheduled."""
    found: Places = {}
    for queue in desk.namespace._by_number.values():
        for subqueue in queue.subqueues():
            counts = subqueue.counts
            if counts.total:
                found[subqueue.path] = (counts.active, counts.deferred, counts.scheduled)
    return found


def total(found: Places) -> int:
    return sum(sum(counts) for counts in found.values())


# --- one message, on its way --------------------------------------------------------------------------------


def home(desk: TopicDesk) -> Queue:
    return desk.namespace.get("home")


def due(desk: TopicDesk) -> None:
    desk.now_ms += MINUTE_MS
    desk.namespace.begin(desk.now_ms)
    desk.namespace.tick()


def settled(settle: Callable[[Desk, Queue], None]) -> Move:
    return lambda desk: settle(desk, home(desk))


def forwarding_begins(desk: TopicDesk) -> None:
    queue = home(desk)
    queue.description.forward_to = "target"
    desk.namespace.pump_soon(queue.main)


def moved(desk: TopicDesk) -> None:
    relocation = Relocation(home(desk), MessageState.ACTIVE, desk.namespace.get("target"), None, False, False)
    relocation.step(0, 100, 10, "asker")


def completed_and_sent(desk: TopicDesk) -> None:
    """In one transaction, to a queue that forwards to a topic."""
    queue = home(desk)
    (lock,) = desk.take()
    transaction = desk.namespace.transactions.declare("owner")
    transaction.settle(lock, lambda: queue.main.complete(lock))
    relay = desk.namespace.get("relay")
    transaction.send(relay, relay.read(payload("b"), 0))
    desk.namespace.transactions.discharge(transaction.identifier, "owner", False, "asker")


# What a message is sent with, whether it is received first, what happens to it, and where it is then.
MOVES: Final[dict[str, tuple[dict[str, int], bool, Move, str]]] = {
    "scheduled message comes due": ({"due_ms": MINUTE_MS}, False, due, "home"),
    "message expires": ({"ttl_ms": MINUTE_MS}, False, due, "home/$DeadLetterQueue"),
    "message is deferred": ({}, True, settled(lambda desk, queue: queue.main.defer(desk.take()[0])), "home"),
    "message is dead-lettered": (
        {},
        True,
        settled(lambda desk, queue: queue.main.dead_letter(desk.take()[0], "why", None)),
        "home/$DeadLetterQueue",
    ),
    "message fails too often": (
        {},
        True,
        settled(lambda desk, queue: queue.main.abandon(desk.take()[0])),
        "home/$DeadLetterQueue",
    ),
    "forwarding begins": ({}, False, forwarding_begins, "target"),
    "message is moved": ({}, False, moved, "target"),
    "message is completed and another one sent, by way of a topic": ({}, True, completed_and_sent, "news"),
}


@pytest.mark.parametrize("kind", MOVES)
def test_a_message_that_moves_is_where_it_was_until_the_commit_and_then_where_it_is(kind: str) -> None:
    fields, is_received, move, end = MOVES[kind]
    desk = TopicDesk()
    queue = desk.queue("home", max_delivery_count=1, dead_lettering_on_message_expiration=True)
    desk.queue("target")
    desk.subscription(desk.topic("news"), "all")
    desk.queue("relay", forward_to="news")
    due_ms = fields.get("due_ms")
    desk.send(
        queue,
        payload("a", ttl_ms=fields.get("ttl_ms"), due_ms=None if due_ms is None else desk.now_ms + due_ms),
    )
    if is_received:
        desk.receiver(queue.main, credit=1)
    before = places(desk)
    assert total(before) == 1
    move(desk)
    assert places(desk) == before, "decided"
    batch, duplicates = desk.write()
    assert places(desk) == before, "written"
    desk.commit(batch, duplicates)
    assert places(desk) != before
    assert (total(places(desk)), list(places(desk))) == (1, [end])


def test_a_topic_passes_a_message_on_to_all_its_subscriptions_in_one_step() -> None:
    desk = TopicDesk()
    topic = desk.topic("news")
    for name in ("one", "two"):
        desk.subscription(topic, name)
    desk.send(desk.queue("relay", forward_to="news"), payload("a"))
    seen = [places(desk)]
    desk.namespace.tick()
    while True:
        batch, duplicates = desk.write()
        seen.append(places(desk))
        desk.commit(batch, duplicates)
        seen.append(places(desk))
        if not desk.namespace.effects.has_writes and not desk.namespace.effects.queries:
            break
    waiting = {"news": (0, 0, 1)}
    copies = {"news/Subscriptions/one": (1, 0, 0), "news/Subscriptions/two": (1, 0, 0)}
    assert [one for one in seen if one not in (waiting, copies)] == []
    assert seen[-1] == copies


def test_a_deferred_message_that_becomes_active_again_is_never_both_or_neither() -> None:
    desk = TopicDesk()
    queue = desk.queue("home")
    desk.send(queue, payload("a"))
    desk.receiver(queue.main, credit=1)
    queue.main.defer(desk.take()[0])
    desk.flush()
    undefer(queue, 0, 100, "asker")
    batch, duplicates = desk.write()
    assert places(desk) == {"home": (0, 1, 0)}
    desk.commit(batch, duplicates)
    assert places(desk) == {"home": (1, 0, 0)}


def test_a_purged_message_is_counted_until_its_removal_is_committed() -> None:
    desk = Desk()
    queue = desk.queue("home")
    desk.send(queue, payload("a"))
    purge(queue, MessageState.ACTIVE, desk.now_ms + 1, 0, 100, "asker")
    batch, duplicates = desk.write()
    assert (places(desk), queue.size_bytes > 0) == ({"home": (1, 0, 0)}, True)
    desk.commit(batch, duplicates)
    assert (places(desk), queue.size_bytes) == ({}, 0)


def test_a_duplicate_is_never_counted() -> None:
    desk = TopicDesk()
    topic = desk.topic("news", requires_duplicate_detection=True)
    for name in ("one", "two"):
        desk.subscription(topic, name)
    queue = desk.queue("home", requires_duplicate_detection=True)
    for entity in (queue, topic):
        desk.send(entity, payload("a", message_id="1"))
    before, size_bytes = places(desk), topic.size_bytes
    for entity in (queue, topic):
        entity.send(payload("again", message_id="1"), 0)
    batch, duplicates = desk.write()
    assert (places(desk), len(duplicates)) == (before, 3)
    desk.commit(batch, duplicates)
    assert (places(desk), topic.size_bytes) == (before, size_bytes)
    assert [one.size.decided_bytes for one in (queue, topic)] == [one.size_bytes for one in (queue, topic)]


# --- quotas -------------------------------------------------------------------------------------------------


def test_room_that_a_removal_frees_can_be_used_before_the_commit() -> None:
    desk = Desk()
    queue = desk.queue("home", max_size_in_megabytes=1)
    large = payload("x" * 200_000)
    desk.send(queue, *[large] * 5)
    with pytest.raises(QuotaExceeded, match="maximum entity size"):
        queue.send(large, 0)
    desk.receiver(queue.main, credit=1)
    queue.main.complete(desk.take()[0])
    queue.send(large, 0)
    with pytest.raises(QuotaExceeded, match="maximum entity size"):
        queue.send(large, 0)


def test_copies_that_share_their_bytes_take_the_room_of_one_before_the_commit() -> None:
    desk = TopicDesk()
    topic = desk.topic("news", max_size_in_megabytes=1)
    for name in ("one", "two", "three"):
        desk.subscription(topic, name)
    large = payload("x" * 200_000)
    for _ in range(5):
        topic.send(large, 0)
    assert topic.size.decided_bytes == 5 * len(large)
    with pytest.raises(QuotaExceeded, match="maximum entity size"):
        topic.send(large, 0)
    desk.flush()
    assert (topic.size.decided_bytes, topic.size_bytes) == (5 * len(large), 5 * len(large))
