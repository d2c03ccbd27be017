"""What clients do that receive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from tandem.engine.lock_table import Lock
from tandem.engine.message import ACTIVE, DEFERRED
from tandem.errors import MessageLockLost, MessageNotFound, NotAllowed, SessionLockLost
from tests.sim.clients import Ask, Receiver
from tests.sim.ledger import MAIN, Entry, Hold, Violation

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = [
    "close_receiver",
    "drain",
    "flow",
    "is_lock_valid",
    "leave_sessions",
    "open_receiver",
    "pause",
    "receive_deferred",
    "renew",
    "settle",
    "settlement",
]

_SETTLEMENTS: Final = ("complete", "complete", "complete", "abandon", "abandon", "defer", "dead-letter", "release")


# --- links ----------------------------------------------------------------------------------------------------------


def open_receiver(world: World) -> None:
    """Of a queue or one of its dead-letter queues; of a session by its name, or of any."""
    random = world.random.random
    book = world.pick_source()
    if book is None or not book.description.can_receive or book.description.forward_to is not None:
        return
    kind = MAIN if random() < 0.7 else 1 + int(random() * 2)
    subqueue = world.subqueue(book.number << 2 | kind)
    connection = world.pick_connection()
    deletes = random() < world.profile.deleting_share
    is_sessionful = kind == MAIN and book.description.requires_session
    session_id = f"s{int(random() * world.profile.session_count)}" if is_sessionful and random() < 0.4 else None
    wait_ms = int(random() * 5_000) if is_sessionful and session_id is None else None
    receiver = Receiver(connection, subqueue, deletes, session_id, wait_ms)
    connection.receivers.append(receiver)
    world.receivers.append(receiver)
    book.accessed_ms = world.now_ms
    world.note(f"open {receiver} on connection {connection.index}, deletes {deletes}, waits {wait_ms}")
    if is_sessionful:
        receiver.consumer = subqueue.accept_session(receiver, deletes, session_id, wait_ms or 0)
    else:
        receiver.consumer = subqueue.open_consumer(receiver, deletes)


def leave_sessions(world: World, receivers: list[Receiver]) -> None:
    """The sessions of these receivers are free, and what they had in hand was never handed out."""
    for receiver in receivers:
        hold = world.ledger.holds.get((receiver.stream, receiver.session_id or ""))
        if hold is None or hold.receiver is not receiver:
            continue
        del world.ledger.holds[hold.stream, hold.session_id]
        for entry in world.ledger.entries.values():
            if entry.holder is hold:
                entry.unlock()
                world.ledger.make_available(entry)


def close_receiver(world: World, receiver: Receiver) -> None:
    """The link is detached, by its client or with its connection. Locks outside of sessions stay."""
    world.note(f"close {receiver}")
    leave_sessions(world, [receiver])
    world.loose_locks += receiver.locks
    receiver.close_here()
    world.touch(receiver.stream)
    assert receiver.consumer is not None
    receiver.subqueue.close_consumer(receiver.consumer)


def flow(world: World) -> None:
    receiver = world.pick_receiver()
    if receiver is not None:
        _grant(receiver, 1 + int(world.random.random() * world.profile.credit), is_draining=False)


def drain(world: World) -> None:
    """Whatever is there now, and then an answer in any case."""
    receiver = world.pick_receiver()
    if receiver is not None:
        _grant(receiver, int(world.random.random() * world.profile.credit), is_draining=True)


def _grant(receiver: Receiver, credit: int, *, is_draining: bool) -> None:
    consumer = receiver.consumer
    assert consumer is not None
    if consumer.outlet is None:
        return
    receiver.world.note(f"grant {credit} to {receiver}{', draining' if is_draining else ''}")
    receiver.credit = credit
    receiver.is_draining = is_draining
    consumer.outlet.grant(consumer, credit, is_draining)


def pause(world: World) -> None:
    """The connection is congested, or is not any more."""
    receiver = world.pick_receiver()
    if receiver is None:
        return
    assert receiver.consumer is not None
    receiver.is_paused = not receiver.is_paused
    receiver.consumer.is_paused = receiver.is_paused
    if not receiver.is_paused and receiver.consumer.outlet is not None:
        receiver.consumer.outlet.wake(receiver.consumer)


# --- settling -------------------------------------------------------------------------------------------------------


def is_lock_valid(world: World, lock: Lock) -> bool | None:
    """Whether a lock still holds. None if it hangs on whether the broker has looked at the clock."""
    entry = world.ledger.by_row.get(lock.message.row)
    if entry is None or entry.lock is not lock:
        return False
    if entry.transaction is not None:
        return True if entry.transaction.deadline_ms > world.now_ms else None
    if not isinstance(entry.holder, Hold):
        return entry.until_ms > world.now_ms
    if entry.holder.until_ms > world.now_ms:
        return True
    return None if entry.holder.was_enlisted else False


def settlement(world: World, lock: Lock, how: str) -> Callable[[], None]:
    """The step of the engine that carries a settlement out."""
    subqueue = lock.outlet.subqueue
    properties: dict[str, object] | None = {"why": how} if world.random.random() < 0.2 else None
    if how == "complete":
        return lambda: subqueue.complete(lock)
    if how == "abandon":
        return lambda: subqueue.abandon(lock, properties)
    if how == "defer":
        return lambda: subqueue.defer(lock, properties)
    if how == "dead-letter":
        return lambda: subqueue.dead_letter(lock, "reason", None, properties)
    return lambda: subqueue.release(lock)


def pick_lock(world: World) -> Lock | None:
    """A message that a client has in hand, or one whose link is gone."""
    random = world.random.random
    receiver = world.pick_receiver()
    if receiver is not None and receiver.locks and random() < 0.9:
        return receiver.locks.pop(int(random() * len(receiver.locks)))
    locks = world.loose_locks
    if not locks:
        return None
    if len(locks) > 20:
        # Nobody remembers what is long over.
        del locks[:10]
    at = int(random() * len(locks))
    locks[at], locks[-1] = locks[-1], locks[at]
    return locks.pop()


def settle(world: World) -> None:
    """The client settles a message; the answer may get lost, and then it tries again."""
    lock = pick_lock(world)
    if lock is None:
        return
    random = world.random.random
    draw = random()
    how = "complete" if draw < world.profile.completing_share else _SETTLEMENTS[int(random() * len(_SETTLEMENTS))]
    valid = is_lock_valid(world, lock)
    entry = world.ledger.by_row.get(lock.message.row)
    world.note(f"{how} {entry if valid else lock.message.sequence_number}, valid {valid}")
    if how == "release":
        if valid is not False or (entry is not None and entry.lock is lock):
            assert entry is not None
            entry.unlock()
            world.ledger.make_available(entry)
        lock.outlet.subqueue.release(lock)
        return
    uid = entry.uid if entry is not None else 0
    is_redead = how == "dead-letter" and lock.outlet.subqueue.is_dead_letter
    if entry is not None and entry.lock is lock and not is_redead:
        world.auditor.settling[uid] = how
    try:
        if random() < 0.2:
            # By its token, through the management node.
            lock.outlet.subqueue.find_lock(lock.token)
        settlement(world, lock, how)()
    except (MessageLockLost, SessionLockLost) as error:
        world.auditor.settling.pop(uid, None)
        if valid:
            raise Violation("a lock lasts as long as it was promised", f"{how} of {entry}: {error!r}") from error
        return
    except NotAllowed:
        if not is_redead:
            raise
        world.loose_locks.append(lock)
        return
    if valid is False:
        raise Violation("a lock that is over is worth nothing", f"{how} of {lock.message.row} was accepted: {entry}")
    _confirm(world, entry, how)
    if random() < 0.05:
        # The answer got lost: the client will try again.
        world.loose_locks.append(lock)


def _confirm(world: World, entry: Entry | None, how: str) -> None:
    assert entry is not None
    if how == "defer":
        world.deferred.append(entry.uid)

    def released(_: object) -> None:
        if how == "complete":
            entry.is_settlement_acknowledged = True
            if entry.uid in world.ledger.entries:
                raise Violation("nothing completed and acknowledged comes back", repr(entry))

    world.namespace.effects.reply(Ask(world, f"{how} of {entry.uid}", released), None)


def renew(world: World) -> None:
    """The lock of a message, or of a session."""
    receiver = world.pick_receiver()
    if receiver is None:
        return
    if receiver.has_session:
        _renew_session(world, receiver)
        return
    if not receiver.locks:
        return
    lock = receiver.locks[-1]
    entry = world.ledger.by_row.get(lock.message.row)
    valid = is_lock_valid(world, lock)
    try:
        until_ms = receiver.subqueue.renew(lock)
    except MessageLockLost as error:
        if valid:
            raise Violation("a lock lasts as long as it was promised", f"renewal of {entry}: {error!r}") from error
        return
    assert entry is not None
    if valid is False:
        raise Violation("a lock that is over is worth nothing", f"{entry} was renewed")
    world.note(f"renew {entry} until {until_ms}")
    entry.until_ms = world.now_ms + world.ledger.books[entry.stream >> 2].description.lock_duration_ms
    if until_ms != entry.until_ms:
        raise Violation("a lock lasts as long as it was promised", f"{entry} was renewed until {until_ms}")


def _renew_session(world: World, receiver: Receiver) -> None:
    assert receiver.session_id is not None
    assert receiver.subqueue.sessions is not None
    hold = world.ledger.holds.get((receiver.stream, receiver.session_id))
    is_valid = hold is not None and hold.until_ms > world.now_ms
    try:
        until_ms = receiver.subqueue.sessions.renew(receiver.session_id)
    except SessionLockLost as error:
        if is_valid:
            raise Violation("a lock lasts as long as it was promised", f"renewal of {receiver}: {error!r}") from error
        return
    assert hold is not None
    if not is_valid and not hold.was_enlisted:
        raise Violation("a lock that is over is worth nothing", f"{receiver} was renewed")
    hold.until_ms = until_ms
    world.note(f"renew {receiver} until {until_ms}")


# --- deferred messages ----------------------------------------------------------------------------------------------


def receive_deferred(world: World) -> None:
    """All of these messages or none, by their sequence numbers."""
    uids = world.pick_some(world.deferred)
    entries = [world.ledger.entries[uid] for uid in uids if uid in world.ledger.entries]
    if not entries:
        return
    stream, session_id = entries[0].stream, entries[0].session_id
    numbers = [entry.seq for entry in entries if entry.stream == stream]
    deletes = world.random.random() < world.profile.deleting_share
    world.touch(stream)
    ledger, auditor = world.ledger, world.auditor
    expected: list[Entry] | None = None

    def asked() -> None:
        nonlocal expected
        expected = []
        if session_id is not None and (stream, session_id) not in ledger.holds:
            expected = None
            return
        for number in dict.fromkeys(numbers):
            entry = ledger.by_row.get(stream << 44 | number)
            is_there = entry is not None and entry.state == DEFERRED and entry.lock is None
            if entry is None or not is_there or entry.session_id != session_id:
                expected = None
                return
            expected.append(entry)
        if deletes:
            auditor.taken.update([entry.uid for entry in expected])

    def decided(answer: object) -> None:
        if expected is None or not isinstance(answer, list):
            if not isinstance(answer, MessageNotFound | SessionLockLost) and stream >> 2 in ledger.books:
                raise Violation("a deferred message is received once", f"{numbers} of {stream}: {answer!r}")
            if expected is not None and stream >> 2 in ledger.books:
                raise Violation("a deferred message can be received", f"{expected}: {answer!r}")
            return
        given = cast("list[tuple[Lock | None, bytes]]", answer)
        for entry, (lock, payload) in zip(expected, given, strict=True):
            if int.from_bytes(payload[-8:], "big") != entry.sent:
                raise Violation("a message is delivered from where it is", f"another one for {entry}")
            if deletes:
                if entry.uid in auditor.handed_ever or entry.uid in auditor.taken:
                    raise Violation("receive-and-delete hands out once", repr(entry))
            else:
                assert lock is not None
                auditor.lock(entry, lock, None)
                world.loose_locks.append(lock)

    def released(answer: object) -> None:
        if deletes and isinstance(answer, list) and expected is not None:
            auditor.handed_ever.update([entry.uid for entry in expected])

    world.note(f"receive deferred {numbers} of stream {stream}, deletes {deletes}")
    subqueue = world.subqueue(stream)
    world.ask(
        "receive deferred",
        decided,
        asked,
        lambda ask: subqueue.receive_deferred(numbers, deletes, session_id, ask),
        released,
    )


def expected_peek(
    world: World, stream: int, after: int, count: int, session_id: str | None, tail: int, now_ms: int
) -> list[int]:
    """What a browse of this stream must show, by the ledger."""
    found = [
        entry
        for entry in world.ledger.of_stream(stream)
        if after < entry.seq <= tail and (session_id is None or entry.session_id == session_id)
    ]
    visible = [one for one in found[:count] if world.ledger.is_visible(one)]
    return [one.sent for one in visible if one.state != ACTIVE or one.expires_ms > now_ms]
