"""Looking after events while a commit is under way: a moment that seeds come by seldom."""

from __future__ import annotations

from tandem.amqp.message import encode_message
from tandem.engine.hubs.description import EventHubDescription
from tests.sim.hub_books import SimEvent
from tests.sim.world import World

RETENTION_MS = 60_000


def test_retention_that_waited_for_a_commit_counts_the_events_of_that_commit_once() -> None:
    world = World(1)
    description = EventHubDescription("hub", partition_count=1, retention_ms=RETENTION_MS)
    world.turn([lambda one: one.hubs.books.put(one.namespace.hubs.create(description).number, description, 0)])
    world.rest()
    hub = world.namespace.hubs.get("hub")
    (partition,) = hub.partitions

    def send(text: str) -> None:
        hub.send(encode_message(data=text.encode()), 0)

    def append(text: str) -> None:
        world.turn([lambda _: send(text)])
        world.hubs.books.append(world.hubs.books.hubs[0].partitions[0], [SimEvent(0, world.now_ms, None, 0)])

    append("old")
    world.rest()
    world.clock.time_ms += RETENTION_MS + 5_000
    append("a new one")
    world.loop.run_ready()
    assert world.loop.work is not None, "the commit is under way"
    # The time comes to look after the events, and the store is busy.
    world.loop.run_due_timers()
    assert partition.begin_sequence_number == 0
    world.loop.finish_work()
    assert (partition.begin_sequence_number, partition.next_sequence_number) == (1, 2)
    assert partition.size_bytes == world.disk.event_bytes(hub.number, 0)
