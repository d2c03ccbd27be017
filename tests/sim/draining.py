"""The end of a run: whatever is still there can be received, and then nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from tandem.engine.lock_table import Lock
from tandem.engine.message import DEFERRED, SCHEDULED
from tandem.engine.stored_description import description_of
from tests.sim.clients import Receiver
from tests.sim.inspection import inspect
from tests.sim.ledger import MAIN, Violation
from tests.sim.receiving import close_receiver, settlement

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["drain_everything"]

_MAX_ROUNDS: Final = 60


def drain_everything(world: World) -> None:
    world.disk.is_full = False
    world.disk.is_failing = False
    world.turn([_open_all_queues])
    for _ in range(_MAX_ROUNDS):
        world.rest()
        entries = list(world.ledger.entries.values())
        if not entries:
            inspect(world)
            return
        _let_time_pass(world)
        for stream in sorted({entry.stream for entry in entries}):
            book = world.ledger.books.get(stream >> 2)
            # Nobody receives from a topic: what waits in it goes on by itself.
            if book is not None and not (book.is_topic and stream & 3 == MAIN):
                _drain_stream(world, stream)
    raise Violation("everything can be received", f"left are {list(world.ledger.entries.values())[:5]}")


def _open_all_queues(world: World) -> None:
    """Active, and without forwarding, so that what is there stays there until it is received."""
    for book in list(world.ledger.books.values()):
        fields = book.description.to_fields()
        changes = {
            "status": "Active",
            "forward_to": None,
            "forward_dead_lettered_messages_to": None,
            "auto_delete_on_idle_ms": None,
        }
        fields.update({field: value for field, value in changes.items() if field in fields})
        description = description_of(book.description.kind, fields)
        world.auditor.descriptions[description.name] = description
        world.namespace.update_queue(world.queue(book), description)
        world.auditor.audit()


def _let_time_pass(world: World) -> None:
    """Until locks are over and scheduled messages are due."""
    due = [entry.due_ms for entry in world.ledger.entries.values() if entry.state == SCHEDULED]
    locked = [entry.until_ms for entry in world.ledger.entries.values() if entry.lock is not None]
    if due or locked:
        world.clock.time_ms = max([world.now_ms, *due, *locked])
        world.rest()


def _drain_stream(world: World, stream: int) -> None:
    entries = world.ledger.of_stream(stream)
    sessions = sorted({entry.session_id for entry in entries if entry.session_id is not None})
    for session_id in cast("list[str | None]", sessions) or [None]:
        receiver = _open(world, stream, session_id)
        _receive_deferred(world, stream, session_id)
        while receiver.is_open and world.ledger.first_available(stream, session_id, world.now_ms) is not None:
            before = len(world.ledger.entries)
            _receive(world, receiver)
            if len(world.ledger.entries) >= before:
                raise Violation("everything can be received", f"{receiver} gets nothing")
        if receiver.is_open:
            world.turn([lambda one, receiver=receiver: close_receiver(one, receiver)])  # type: ignore[misc]
        world.rest()


def _open(world: World, stream: int, session_id: str | None) -> Receiver:
    subqueue = world.subqueue(stream)
    receiver = Receiver(world.connections[0], subqueue, False, session_id, None)

    def attach(_: World) -> None:
        if session_id is None:
            receiver.consumer = subqueue.open_consumer(receiver, False)
        else:
            receiver.consumer = subqueue.accept_session(receiver, False, session_id, 0)

    world.receivers.append(receiver)
    world.connections[0].receivers.append(receiver)
    world.turn([attach])
    return receiver


def _receive(world: World, receiver: Receiver) -> None:
    def grant(_: World) -> None:
        consumer = receiver.consumer
        assert consumer is not None
        if consumer.outlet is not None:
            receiver.credit = 200
            consumer.outlet.grant(consumer, 200, False)

    world.turn([grant])
    world.rest()
    locks, receiver.locks = receiver.locks, []
    world.turn([lambda one: _complete(one, locks)])
    world.rest()


def _complete(world: World, locks: list[Lock]) -> None:
    for lock in locks:
        entry = world.ledger.by_row.get(lock.message.row)
        if entry is not None and entry.lock is lock:
            world.auditor.settling[entry.uid] = "complete"
            settlement(world, lock, "complete")()


def _receive_deferred(world: World, stream: int, session_id: str | None) -> None:
    entries = [one for one in world.ledger.of_stream(stream) if one.state == DEFERRED and one.session_id == session_id]
    numbers = [entry.seq for entry in entries if entry.lock is None]
    if not numbers:
        return
    auditor = world.auditor

    def asked() -> None:
        auditor.taken.update([entry.uid for entry in entries if entry.lock is None])

    def decided(answer: object) -> None:
        if not isinstance(answer, list) or len(answer) != len(numbers):
            raise Violation("a deferred message can be received", f"{numbers} of {stream}: {answer!r}")

    def receive(_: World) -> None:
        subqueue = world.subqueue(stream)
        world.ask("drain", decided, asked, lambda ask: subqueue.receive_deferred(numbers, True, session_id, ask))

    world.turn([receive])
    world.rest()
