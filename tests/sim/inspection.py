"""What must hold whenever the broker is at rest: counts, clocks, and how much it keeps in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.lock_table import Lock, LockTable
from tandem.engine.message import ACTIVE, SCHEDULED, SEQUENCE_MASK, BrokeredMessage
from tandem.engine.outlet import Outlet
from tandem.engine.queries import MessagesQuery
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.subscription import Subscription
from tandem.limits import MAX_HEAD_BYTES, MAX_HEAD_MESSAGES
from tandem.store.base import Store
from tests.sim.ledger import MAIN, Book, Hold, Totals, Violation
from tests.sim.vocabulary import Content

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["compare_with_disk", "inspect"]

# How long after its time a message id may still be remembered.
_FORGETTING_MS: Final = 5_000


def inspect(world: World) -> None:
    """The broker is at rest: everything must be in order."""
    world.ledger.rebuild_available()
    if world.unanswered:
        raise Violation("every request is answered", ", ".join([ask.name for ask in world.unanswered]))
    while (swept := world.disk.sweep()) is not None:
        world.namespace.shared(swept.shared_bytes)
    world.ledger.unswept.clear()
    _inspect_queues(world)
    _inspect_rules(world)
    _inspect_counts(world)
    _inspect_bodies(world)
    _inspect_clocks(world)
    _inspect_ids(world)
    _inspect_receivers(world)
    _inspect_memory(world)
    _inspect_transactions(world)


def _inspect_transactions(world: World) -> None:
    """What open transactions hold is counted, and nothing else is."""
    transactions = world.namespace.transactions
    held_bytes = sum([one.held_bytes for one in transactions.open_transactions()])
    memory = transactions.memory
    if (memory.held_bytes, memory.broker.held_bytes) != (held_bytes, held_bytes):
        raise Violation(
            "a transaction that is over holds nothing", f"{memory.held_bytes} bytes are held instead of {held_bytes}"
        )


def _inspect_queues(world: World) -> None:
    expected = {number: book.description.to_fields() for number, book in world.ledger.books.items()}
    actual = {queue.number: queue.description.to_fields() for queue in _entities(world)}
    if actual != expected:
        raise Violation("queues are what they were made", f"{actual} instead of {expected}")


def _entities(world: World) -> list[Queue]:
    """Queues, topics and subscriptions."""
    return list(world.namespace._by_number.values())


def _inspect_rules(world: World) -> None:
    """In memory and on disk: each rule once, as it was made last."""
    expected: dict[tuple[int, str], dict[str, object]] = {}
    for book in world.books("subscription"):
        for rule in world.ledger.rules_of(book):
            expected[book.number, rule.name] = Rule.from_fields(rule.name, rule.fields, 0).to_fields()
    subscriptions = [one for one in _entities(world) if isinstance(one, Subscription)]
    actual = {(one.number, rule.name): rule.to_fields() for one in subscriptions for rule in one.rules.values()}
    if actual != expected:
        raise Violation("rules are what they were made", f"{actual} instead of {expected}")
    kept = {(rule.queue_number, rule.name): rule.fields for rule in world.disk.recorded().rules}
    if kept != expected:
        raise Violation("rules are what they were made", f"the store has {kept} instead of {expected}")


def _inspect_bodies(world: World) -> None:
    """A body is on disk as long as a message shares it, and is counted once, to its topic."""
    expected = {
        body.number: (copies, body.stream, body.size_bytes)
        for body, copies in world.ledger.bodies(world.ledger.entries.values()).items()
    }
    actual = world.disk.bodies()
    if actual != expected:
        differences = {number: (actual.get(number), expected.get(number)) for number in actual.keys() ^ expected.keys()}
        raise Violation("a body goes with its last copy", f"{differences or actual} instead of {expected}")
    for book in world.books("topic"):
        actual_bytes, expected_bytes = world.queue(book).size_bytes, world.ledger.size_of(book)
        if actual_bytes != expected_bytes:
            raise Violation(
                "counts are exact", f"{book.description.name} has {actual_bytes} bytes instead of {expected_bytes}"
            )


def _inspect_counts(world: World) -> None:
    totals = world.ledger.totals()
    on_disk = {record.stream: record for record in world.disk.recorded().streams}
    for queue in _entities(world):
        size = queue.size
        if size.decided_bytes != size.committed_bytes:
            raise Violation(
                "counts are exact",
                f"{queue.name} has {size.decided_bytes} bytes at rest, on disk {size.committed_bytes}",
            )
        for subqueue in queue.subqueues():
            expected = totals.pop(subqueue.stream)
            counts = subqueue.counts
            actual = Totals(counts.active, counts.deferred, counts.scheduled, counts.size_bytes)
            if actual != expected:
                raise Violation("counts are exact", f"{subqueue.path} says {actual} instead of {expected}")
            record = on_disk.pop(subqueue.stream, None)
            kept = Totals(0, 0, 0, 0)
            if record is not None:
                kept = Totals(record.active, record.deferred, record.scheduled, record.size_bytes)
            if kept != expected:
                raise Violation("counts are exact", f"the store says {kept} of {subqueue.path} instead of {expected}")
    if on_disk:
        raise Violation("a deleted queue leaves nothing", f"the store counts {on_disk}")


def _inspect_clocks(world: World) -> None:
    """Nothing that is due stays undone."""
    now_ms = world.now_ms
    for entry in world.ledger.entries.values():
        transaction = entry.transaction
        if transaction is not None and transaction.deadline_ms <= now_ms:
            entry.transaction = transaction = None
            if isinstance(entry.holder, Hold):
                entry.holder.grace_ms = now_ms + 1_000
        if entry.state == SCHEDULED:
            if entry.due_ms <= now_ms:
                raise Violation("what is due is done", f"{entry} is due since {now_ms - entry.due_ms} ms")
        elif entry.lock is not None:
            if isinstance(entry.holder, Hold) or transaction is not None:
                continue
            if entry.until_ms <= now_ms:
                raise Violation("what is due is done", f"{entry} should be free since {now_ms - entry.until_ms} ms")
        elif entry.state == ACTIVE and entry.expires_ms <= now_ms:
            raise Violation("what is due is done", f"{entry} expired {now_ms - entry.expires_ms} ms ago")
    kept = {entry.holder for entry in world.ledger.entries.values() if entry.transaction is not None}
    for hold in world.ledger.holds.values():
        if hold not in kept and max(hold.until_ms, hold.grace_ms) <= now_ms:
            raise Violation("what is due is done", f"{hold.receiver} holds its session since {hold.until_ms}")
    for book in world.ledger.books.values():
        idle_ms = book.description.auto_delete_on_idle_ms
        if idle_ms is None or _is_used(world, book.number):
            book.unused_since_ms = now_ms
            book.is_overdue = False
        elif max(book.unused_since_ms, _accessed_ms(world, book)) + 2 * idle_ms < now_ms:
            if not book.is_overdue:
                # It may have been in use until a moment ago, by hours of this clock: the time counts from here.
                book.unused_since_ms = now_ms
                book.is_overdue = True
                continue
            raise Violation("what is due is done", f"{book.description.name} is idle since {book.accessed_ms}")


def _inspect_ids(world: World) -> None:
    """Ids of messages are remembered as long as was promised, and not for ever."""
    now_ms = world.now_ms
    for place, seen_ms in world.ledger.seen.items():
        assert isinstance(place, tuple)
        assert isinstance(seen_ms, int)
        book = world.ledger.books[place[0]]
        until_ms = seen_ms + book.description.duplicate_detection_history_time_window_ms
        if max(until_ms, book.described_ms) + _FORGETTING_MS < now_ms:
            raise Violation("ids are forgotten in time", f"{place} was seen {now_ms - seen_ms} ms ago")


def _accessed_ms(world: World, book: Book) -> int:
    """A topic is used by whoever uses one of its subscriptions."""
    books = [book, *world.ledger.subscriptions(book)] if book.is_topic else [book]
    return max([one.accessed_ms for one in books])


def _is_used(world: World, number: int) -> bool:
    book = world.ledger.books[number]
    if book.is_topic and any(_is_used(world, one.number) for one in world.ledger.subscriptions(book)):
        return True
    if any(entry.stream >> 2 == number and entry.state == SCHEDULED for entry in world.ledger.entries.values()):
        return True
    return any(receiver.is_open and receiver.stream >> 2 == number for receiver in world.receivers)


def _inspect_receivers(world: World) -> None:
    """Nobody waits for what is there."""
    ledger = world.ledger
    now_ms = world.now_ms
    for receiver in world.receivers:
        if not receiver.is_open:
            continue
        if receiver.is_waiting_for_session:
            _inspect_waiter(world, receiver.stream, receiver.wait_until_ms or 0)
            continue
        if receiver.is_paused:
            continue
        if receiver.is_draining:
            raise Violation("drain is always answered", repr(receiver))
        if receiver.credit > 0:
            first = ledger.first_available(receiver.stream, receiver.session_id, now_ms)
            if first is not None:
                raise Violation("a waiting receiver gets what is there", f"{receiver} waits and {first} is there")


def _inspect_waiter(world: World, stream: int, until_ms: int) -> None:
    if until_ms <= world.now_ms:
        raise Violation("a receiver that waits for a session is answered", f"one of {stream} waits since {until_ms}")
    for entry in world.ledger.entries.values():
        is_of_session = entry.stream == stream and entry.state == ACTIVE and entry.session_id is not None
        if is_of_session and (stream, entry.session_id) not in world.ledger.holds:
            raise Violation("a receiver that waits for a session is answered", f"{entry} is free")


def _inspect_memory(world: World) -> None:
    for queue in _entities(world):
        for subqueue in queue.subqueues():
            _inspect_outlet(subqueue.outlet)
            if subqueue.sessions is not None:
                for session in subqueue.sessions._accepted.values():
                    _inspect_outlet(session.outlet)


def _inspect_outlet(outlet: Outlet) -> None:
    head = outlet.head
    largest = max([message.size_bytes for message in head._ready], default=0)
    if len(head._ready) > MAX_HEAD_MESSAGES or head._ready_bytes > 2 * MAX_HEAD_BYTES + largest:
        raise Violation("memory is bounded", f"{len(head._ready)} messages of {head._ready_bytes} bytes in a head")
    if len(head._returned) > MAX_HEAD_MESSAGES or len(head._dropped) > len(head._ready) + len(head._returned):
        raise Violation(
            "memory is bounded", f"{len(head._returned)} returned and {len(head._dropped)} dropped in a head"
        )
    _inspect_line(outlet.locks)


def _inspect_line(locks: LockTable) -> None:
    """Whoever is in line to expire is held, and stands between its neighbours."""
    earlier: Lock | None = None
    lock = locks._first
    while lock is not None:
        if locks.held.get(lock.message.sequence_number) is not lock or lock.earlier is not earlier:
            raise Violation("only what is held expires", f"the lock of row {lock.message.row} is out of line")
        if earlier is not None and earlier.locked_until_ms > lock.locked_until_ms:
            raise Violation("locks expire in order", f"that of row {lock.message.row} before its predecessor")
        earlier, lock = lock, lock.later
    if locks._last is not earlier:
        raise Violation("only what is held expires", "the line of locks has another end")


def compare_with_disk(world: World, store: Store) -> None:
    """Every message is on disk as the ledger says, and nothing else is."""
    found: dict[int, BrokeredMessage] = {}

    def collect(messages: list[BrokeredMessage]) -> None:
        found.update({message.row: message for message in messages})

    for number in world.ledger.books:
        for kind in (MAIN, 1, 2):
            stream = number << 2 | kind
            store.read(MessagesQuery(stream, 0, SEQUENCE_MASK, 1_000_000, 1 << 60, None, False, collect))
    for row, entry in world.ledger.by_row.items():
        message = found.pop(row, None)
        if message is None:
            raise Violation("nothing acknowledged is lost", f"{entry} is not on disk")
        assert message.stored is not None
        actual = (
            int.from_bytes(message.stored.bare[-8:], "big"),
            Content.of_bare(message.stored.bare).key,
            message.state,
            message.delivery_count,
            message.session_id,
            message.expires_at_ms,
            message.due_at_ms,
            message.size_bytes,
        )
        expected = (
            entry.sent,
            entry.content.key,
            entry.state,
            entry.delivery_count,
            entry.session_id,
            entry.expires_ms,
            entry.due_ms,
            entry.size_bytes,
        )
        if actual != expected:
            raise Violation("what is on disk is what was decided", f"{actual} instead of {expected}")
    if found:
        raise Violation("nothing completed and acknowledged comes back", f"{len(found)} messages too many on disk")
