"""What must hold of event hubs whenever the broker is at rest, and what must be on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.hubs.event import Event
from tandem.engine.queries import EventsQuery
from tandem.limits import MAX_TAIL_BYTES
from tandem.store.base import Store, Trimmed
from tests.sim.hub_books import HubBook, PartitionBook
from tests.sim.ledger import Violation

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["compare_events_with_disk", "inspect_hubs", "judge_trimmed"]

# Milliseconds. How late retention may be: it is looked after once a second.
_LATENESS_MS: Final = 2_500


def judge_trimmed(world: World, trimmed: list[Trimmed]) -> None:
    """Retention takes from the front, and only what is too old."""
    for one in trimmed:
        hub = world.hubs.books.find(one.hub_number)
        if hub is None:
            continue
        book = hub.partitions[one.partition_id]
        taken = book.events[book.begin : one.begin_sequence_number]
        if one.begin_sequence_number <= book.begin or one.begin_sequence_number > book.committed_count:
            raise Violation("retention takes from the front", f"{book} begins at {one.begin_sequence_number} now")
        retention_ms = hub.description.retention_ms
        if retention_ms is None or any(event.at_ms + retention_ms > world.namespace.now_ms for event in taken):
            raise Violation("retention takes only what is too old", f"{taken[-1]} of {book} at {world.now_ms}")
        book.begin = one.begin_sequence_number


def inspect_hubs(world: World) -> None:
    """The broker is at rest: everything must be in order."""
    expected = {one.number: one.description.to_fields() for one in world.hubs.books.hubs}
    actual = {one.number: one.description.to_fields() for one in world.namespace.hubs.all}
    if actual != expected:
        raise Violation("hubs are what they were made", f"{actual} instead of {expected}")
    kept = {record.number: record.fields for record in world.disk.recorded().hubs}
    if kept != expected:
        raise Violation("hubs are what they were made", f"the store has {kept} instead of {expected}")
    for book in world.hubs.books.hubs:
        _inspect_partitions(world, book)
    _inspect_readers(world)


def _inspect_partitions(world: World, hub: HubBook) -> None:
    engine = world.namespace.hubs.get(hub.description.name)
    retention_ms = hub.description.retention_ms
    for book, partition in zip(hub.partitions, engine.partitions, strict=True):
        if book.committed_count != len(book.events):
            raise Violation("what was decided is on disk at rest", f"{book}: {book.committed_count}")
        found = (partition.begin_sequence_number, partition.next_sequence_number, partition.last_enqueued_at_ms)
        last_ms = book.events[-1].at_ms if book.events else None
        if found != (book.begin, book.committed_count, last_ms):
            raise Violation("a partition says what it holds", f"{found} instead of {book.begin} {book.committed_count}")
        size_bytes = world.disk.event_bytes(book.hub_number, book.partition_id)
        if partition.size_bytes != size_bytes:
            raise Violation("counts are exact", f"{book} says {partition.size_bytes} bytes instead of {size_bytes}")
        if retention_ms is not None and book.begin < book.committed_count:
            oldest = book.events[book.begin]
            due_ms = max(oldest.at_ms + retention_ms, hub.described_ms, book.committed_ms)
            if due_ms + _LATENESS_MS < world.namespace.now_ms:
                raise Violation("what is due is done", f"{oldest} of {book} is still there at {world.now_ms}")
        largest = max([record.size_bytes for record in partition._tail], default=0)
        is_read = any(one.is_open and one.book is book for one in world.hubs.readers)
        if partition._tail_bytes > MAX_TAIL_BYTES + largest or (partition._tail and not is_read):
            raise Violation("memory is bounded", f"{partition._tail_bytes} bytes of {book} are kept")


def _inspect_readers(world: World) -> None:
    """Nobody waits for what is there, or to be told that it is over."""
    untold = [one for one in [*world.hubs.ending, *world.hubs.readers] if one.reason is not None]
    if untold:
        raise Violation("who is displaced is told so", f"{untold[0]} knows nothing of {untold[0].reason}")
    for reader in world.hubs.readers:
        if not reader.is_open or reader.is_paused:
            continue
        if reader.is_draining:
            raise Violation("drain is always answered", repr(reader))
        if reader.following is None:
            raise Violation("a reader begins where it wanted to", f"{reader} does not know its place")
        if reader.credit > 0 and max(reader.following, reader.book.begin) < reader.book.committed_count:
            raise Violation("a waiting reader gets what is there", f"{reader} of {reader.book.committed_count}")


def compare_events_with_disk(world: World, store: Store) -> None:
    """Every event is on disk, in its place, and nothing else is."""
    for hub in world.hubs.books.hubs:
        engine = world.namespace.hubs.get(hub.description.name)
        for book, partition in zip(hub.partitions, engine.partitions, strict=True):
            # What was dropped from the front just before a crash may still be there, and goes once more.
            book.begin = min(book.begin, partition.begin_sequence_number)
            found = _read_all(store, book)
            expected = [(event.uid, event.at_ms, event.key) for event in book.events[book.begin :]]
            actual = [(int.from_bytes(one.bare[-8:], "big"), one.enqueued_at_ms, one.partition_key) for one in found]
            if actual != expected or [one.sequence_number for one in found] != list(
                range(book.begin, len(book.events))
            ):
                raise Violation(
                    "no acknowledged event is lost",
                    f"{book} holds {len(actual)} events from {book.begin} on instead of {len(expected)}",
                )


def _read_all(store: Store, book: PartitionBook) -> list[Event]:
    found: list[Event] = []
    while True:
        before = len(found)
        start = found[-1].sequence_number + 1 if found else book.begin
        store.read(EventsQuery(book.hub_number, book.partition_id, start, 500, 1_000_000, found.extend))
        if len(found) == before:
            return found
