"""An entity that is read again from the store is what it was: the simulation goes on, and no promise is broken."""

from __future__ import annotations

import pytest

from tandem.engine.topic import Topic
from tests.markers import mission
from tests.sim.ledger import Book
from tests.sim.managing import create_queue
from tests.sim.topics import create_subscription, create_topic
from tests.sim.world import World

STEPS = 1_500
# Steps between two reloads.
INTERVAL = 50


def is_idle(world: World, book: Book) -> bool:
    """Nobody holds a lock of it, receives from it or has it in a transaction: a reload would end these."""
    queue = world.queue(book)
    parts = [queue, *(queue.subscriptions.values() if isinstance(queue, Topic) else ())]
    lines = [line for part in parts for line in part.subqueues()]
    is_used = any(line.consumers or line.outlet.locks.held for line in lines)
    return not is_used and not any(connection.transactions for connection in world.connections)


def reload_idle(world: World) -> int:
    """Reload every entity that nobody uses just now; returns how many."""
    reloaded: list[str] = []
    for book in list(world.ledger.books.values()):
        if not is_idle(world, book):
            continue
        queue = world.queue(book)
        world.runner.begin()
        world.runner.reload(queue, lambda name=queue.name: reloaded.append(name))  # type: ignore[misc] # a default
        world.rest()
        assert world.queue(book) is not queue
        books = [book, *world.ledger.subscriptions(book)] if book.is_topic else [book]
        for one in books:
            one.accessed_ms = one.unused_since_ms = one.described_ms = world.now_ms
    return len(reloaded)


@mission("M15")
@pytest.mark.parametrize("seed", range(12))
def test_entities_are_what_they_were_after_a_reload(seed: int) -> None:
    world = World(seed)
    for _ in range(2):
        world.turn([create_queue])
    world.turn([create_topic])
    for _ in range(world.profile.subscription_count):
        world.turn([create_subscription])
    reload_count = 0
    for step in range(1, STEPS + 1):
        world.step()
        if step % INTERVAL == 0:
            world.rest()
            if world.has_failed():
                world.crash()
                continue
            reload_count += reload_idle(world)
            world.inspect()
    world.finish()
    assert reload_count
