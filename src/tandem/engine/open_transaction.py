"""One open transaction: what is to be done at its discharge, and what holds until then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tandem.engine.enlistment import (
    Cancellation,
    Enlistment,
    LockRenewal,
    SessionLockRenewal,
    StateChange,
    require_scheduled,
)
from tandem.engine.intake import Draft, partition_of
from tandem.engine.lock_table import Lock
from tandem.engine.message import SEQUENCE_MASK, BrokeredMessage
from tandem.engine.partition_choice import PartitionChoice
from tandem.engine.queries import RowsQuery
from tandem.engine.session_key import session_key
from tandem.engine.transaction_memory import TransactionMemory
from tandem.errors import MessageNotFound, NotAllowed, ProtocolError, QuotaExceeded, Scope
from tandem.limits import MAX_MESSAGES_PER_TRANSACTION, MESSAGE_OVERHEAD_BYTES

if TYPE_CHECKING:
    from tandem.engine.queue import Queue
    from tandem.engine.sessions import Sessions
    from tandem.engine.subqueue import SubQueue

__all__ = ["Transaction"]


class Transaction:
    """One open transaction."""

    __slots__ = (
        "_final",
        "_memory",
        "_partitions",
        "_sent_bytes",
        "deadline_ms",
        "enlistments",
        "failure",
        "held_bytes",
        "identifier",
        "is_open",
        "locks",
        "message_count",
        "owner",
        "sends",
        "settlements",
    )

    def __init__(self, identifier: bytes, owner: object, deadline_ms: int, memory: TransactionMemory) -> None:
        self._memory = memory
        self.identifier = identifier
        self.owner = owner
        self.deadline_ms = deadline_ms
        self.message_count = 0
        # What it holds in memory, and how much of that are messages.
        self.held_bytes = 0
        self._sent_bytes = 0
        self.sends: list[tuple[Queue, list[Draft]]] = []
        self.locks: list[Lock] = []
        self.settlements: list[Callable[[], None]] = []
        # Locks of deliveries that their receivers have settled.
        self._final: set[Lock] = set()
        self.enlistments: list[Enlistment] = []
        self.is_open = True
        # Why it can only be rolled back any more.
        self.failure: ProtocolError | None = None
        self._partitions = PartitionChoice()

    @property
    def queues(self) -> list[Queue]:
        """The entities that it is about, some more than once."""
        queues = [queue for queue, _ in self.sends]
        queues += [lock.outlet.subqueue.queue for lock in self.locks]
        return queues + [enlistment.subqueue.queue for enlistment in self.enlistments]

    def _count(self, messages: int) -> None:
        count = self.message_count + messages
        if count > MAX_MESSAGES_PER_TRANSACTION:
            raise NotAllowed(
                f"A transaction has at most {MAX_MESSAGES_PER_TRANSACTION} messages, this one {count}.",
                Scope.DELIVERY,
            )
        self.message_count = count

    def _hold(self, size_bytes: int) -> None:
        """Hold so many more bytes. A refusal lets the transaction only be rolled back."""
        try:
            self._memory.take(self.owner, self.held_bytes, size_bytes)
        except QuotaExceeded as error:
            self.fail(error)
            raise
        self.held_bytes += size_bytes

    def _give_back(self, size_bytes: int) -> None:
        self._memory.give_back(self.owner, size_bytes)
        self.held_bytes -= size_bytes

    def fail(self, error: ProtocolError) -> None:
        """Let it only be rolled back, since one of its operations was refused. It needs its messages no longer."""
        if self.failure is None:
            self.failure = error
        self.sends.clear()
        self._give_back(self._sent_bytes)
        self._sent_bytes = 0

    # --- sends ----------------------------------------------------------------------------------------------

    def send(self, queue: Queue, drafts: list[Draft], via: Queue | None = None) -> None:
        """Send messages to a queue. `via` is the entity by way of which they go, if that is another one."""
        partitions = self._partitions.copy()
        for draft in drafts:
            partitions.send(queue, draft, via)
        self._count(len(drafts))
        if self.failure is not None:
            return
        size_bytes = _size_of(drafts)
        already_bytes = sum([_size_of(others) for other, others in self.sends if other is queue])
        try:
            queue.check_room(already_bytes + size_bytes)
        except QuotaExceeded as error:
            self.fail(error)
            raise
        held_bytes = size_bytes + len(drafts) * MESSAGE_OVERHEAD_BYTES
        self._hold(held_bytes)
        self._sent_bytes += held_bytes
        self._partitions = partitions
        self.sends.append((queue, drafts))

    # --- settlements ----------------------------------------------------------------------------------------

    def settle(self, lock: Lock, settlement: Callable[[], None], held_bytes: int = 0, is_final: bool = False) -> None:
        """Keep the lock until the discharge, and do this then. It must not fail while the lock holds.

        `held_bytes` is what the settlement holds in memory, such as properties that it sets. `is_final` says that the
        receiver has settled the delivery, and so has no way to settle it otherwise after a rollback: then the delivery
        has failed, and the message is available at once.
        """
        self._check_settlements([lock])
        self._hold(held_bytes + MESSAGE_OVERHEAD_BYTES)
        self._settle(lock, settlement)
        if is_final:
            self._final.add(lock)

    def settle_all(self, locks: list[Lock], settle: Callable[[Lock], None], held_bytes: int = 0) -> None:
        """Settle all of these messages, or none, in one way. What that holds is held once for all of them."""
        self._check_settlements(locks)
        self._hold(held_bytes + len(locks) * MESSAGE_OVERHEAD_BYTES)
        for lock in locks:
            self._settle(lock, partial(settle, lock))

    def _check_settlements(self, locks: list[Lock]) -> None:
        partitions = self._partitions.copy()
        for lock in locks:
            lock.outlet.subqueue.check(lock)
            if lock.is_enlisted:
                raise NotAllowed("The message is settled by a transaction already.", Scope.DELIVERY)
            partitions.join(lock.outlet.subqueue.queue, lock.message.partition, None)
        self._count(len(locks))
        self._partitions = partitions

    def _settle(self, lock: Lock, settlement: Callable[[], None]) -> None:
        lock.is_enlisted = True
        self.locks.append(lock)
        self.settlements.append(settlement)

    # --- scheduled messages ---------------------------------------------------------------------------------

    def cancel_scheduled(self, subqueue: SubQueue, sequence_numbers: list[int], asker: object) -> None:
        """Cancel all of these scheduled messages, or none. Answered with None, or with why it cannot be.

        The cancellation is part of the transaction at once, and taken out of it again if it is refused: a discharge
        that does not wait for the answer includes it, and then finds what is wrong with it by itself.
        """
        numbers = sorted({number & SEQUENCE_MASK for number in sequence_numbers})
        for other in self.enlistments:
            if isinstance(other, Cancellation) and other.subqueue is subqueue and set(numbers) & set(other.numbers):
                raise MessageNotFound("The transaction cancels one or more of these scheduled messages already.")
        self._count(len(numbers))
        cancellation = Cancellation(subqueue, numbers)
        self.enlistments.append(cancellation)

        def answer(messages: list[BrokeredMessage]) -> None:
            if subqueue.is_gone(asker):
                return
            partitions = self._partitions.copy()
            try:
                require_scheduled(numbers, messages)
                for message in messages:
                    partitions.join(subqueue.queue, message.partition, None)
            except ProtocolError as error:
                if self.is_open:
                    self.message_count -= len(numbers)
                    self.enlistments.remove(cancellation)
                subqueue.namespace.effects.reply(asker, error)
                return
            self._partitions = partitions
            subqueue.namespace.effects.reply(asker, None)

        subqueue.queue.touch()
        subqueue.namespace.effects.queries.append(RowsQuery(subqueue.stream, numbers, 0, answer))

    # --- sessions -------------------------------------------------------------------------------------------

    def set_session_state(self, sessions: Sessions, session_id: str, state: bytes | None) -> None:
        """Set the state of a session that is held. The last state of a transaction counts."""
        session = sessions.held(session_id)
        subqueue = sessions.subqueue
        # An empty state is none.
        state = state or None
        subqueue.queue.check_state_size(len(state or b""))
        change = self._state_change(subqueue, session.key)
        if change is not None:
            self._hold(len(state or b""))
            self._give_back(len(change.state or b""))
            change.state = state
            return
        partitions = self._partitions.copy()
        partitions.join(subqueue.queue, partition_of(session.key), session.key)
        self._count(1)
        self._hold(len(state or b"") + MESSAGE_OVERHEAD_BYTES)
        self._partitions = partitions
        self.enlistments.append(StateChange(sessions, session, state))

    def get_session_state(self, sessions: Sessions, session_id: str, asker: object) -> None:
        """Answer with the state of a session as the transaction sees it: as it has set it, or as it is."""
        change = self._state_change(sessions.subqueue, session_key(session_id))
        if change is None:
            sessions.get_state(session_id, asker)
        else:
            sessions.subqueue.namespace.effects.reply(asker, (change.state,))

    def _state_change(self, subqueue: SubQueue, key: str) -> StateChange | None:
        for one in self.enlistments:
            if isinstance(one, StateChange) and one.subqueue is subqueue and one.session_key == key:
                return one
        return None

    # --- locks ----------------------------------------------------------------------------------------------

    def renew(self, locks: list[Lock]) -> list[int]:
        """Renew these locks until their own end, or until a rollback. Returns when they end."""
        for lock in locks:
            lock.outlet.subqueue.check_can_renew(lock)
        return [self._renewal(lock).renew() for lock in locks]

    def _renewal(self, lock: Lock) -> LockRenewal:
        for one in self.enlistments:
            if isinstance(one, LockRenewal) and one.lock is lock:
                return one
        renewal = LockRenewal(lock)
        self.enlistments.append(renewal)
        return renewal

    def renew_session(self, sessions: Sessions, session_id: str) -> int:
        """Renew the lock of a session until its own end, or until a rollback. Returns when it ends."""
        session = sessions.held(session_id)
        for one in self.enlistments:
            if isinstance(one, SessionLockRenewal) and one.session is session:
                return one.renew()
        renewal = SessionLockRenewal(sessions, session)
        self.enlistments.append(renewal)
        return renewal.renew()

    # --- the end --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if a part of it cannot be done any more."""
        if self.failure is not None:
            raise NotAllowed(f"One of its operations was refused. {self.failure}", Scope.DELIVERY)
        for queue in self.queues:
            if queue.is_dropped:
                raise NotAllowed(f"The messaging entity '{queue.name}' was deleted.")
        for lock in self.locks:
            lock.outlet.subqueue.check(lock)
        for enlistment in self.enlistments:
            enlistment.check()
        for queue, size_bytes in self._growth().items():
            queue.check_room(size_bytes)

    def _growth(self) -> dict[Queue, int]:
        """Return by how many bytes the commit makes each entity grow at most: a quota is for all parts together."""
        growth: dict[Queue, int] = {}
        for queue, drafts in self.sends:
            growth[queue] = growth.get(queue, 0) + _size_of(drafts)
        for enlistment in self.enlistments:
            if isinstance(enlistment, StateChange):
                subscription = enlistment.subqueue.queue
                # What a subscription holds is part of its topic.
                queue = subscription if subscription.topic is None else subscription.topic
                growth[queue] = growth.get(queue, 0) + enlistment.growth_bytes
        return growth

    def commit(self, now_ms: int) -> None:
        """Do all of it. It was checked."""
        for lock in self.locks:
            # A settlement checks its lock: from here on time does not pass.
            lock.is_enlisted = True
        for settlement in self.settlements:
            settlement()
        for enlistment in self.enlistments:
            enlistment.commit()
        for queue, drafts in self.sends:
            for draft in drafts:
                draft.message.enqueued_time_ms = now_ms
            queue.take(drafts)

    def roll_back(self, now_ms: int) -> None:
        """Do nothing of it."""
        for enlistment in self.enlistments:
            enlistment.roll_back()
        for lock in self.locks:
            lock.is_enlisted = False
            is_over = lock.locked_until_ms <= now_ms and lock.outlet.session is None
            if lock.is_held and (is_over or lock in self._final):
                lock.outlet.subqueue.fail(lock)


def _size_of(drafts: list[Draft]) -> int:
    size_bytes = 0
    for draft in drafts:
        size_bytes += draft.message.size_bytes
    return size_bytes
