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
from tandem.errors import MessageNotFound, NotAllowed, ProtocolError, Scope
from tandem.limits import MAX_MESSAGES_PER_TRANSACTION

if TYPE_CHECKING:
    from tandem.engine.queue import Queue
    from tandem.engine.sessions import Sessions
    from tandem.engine.subqueue import SubQueue

__all__ = ["Transaction"]


class Transaction:
    """One open transaction."""

    __slots__ = (
        "_partitions",
        "deadline_ms",
        "enlistments",
        "failure",
        "identifier",
        "is_open",
        "locks",
        "message_count",
        "owner",
        "sends",
        "settlements",
    )

    def __init__(self, identifier: bytes, owner: object, deadline_ms: int) -> None:
        self.identifier = identifier
        self.owner = owner
        self.deadline_ms = deadline_ms
        self.message_count = 0
        self.sends: list[tuple[Queue, list[Draft]]] = []
        self.locks: list[Lock] = []
        self.settlements: list[Callable[[], None]] = []
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

    # --- sends ----------------------------------------------------------------------------------------------

    def send(self, queue: Queue, drafts: list[Draft], via: Queue | None = None) -> None:
        """Send messages to a queue. `via` is the entity by way of which they go, if that is another one."""
        partitions = self._partitions.copy()
        for draft in drafts:
            partitions.send(queue, draft, via)
        self._count(len(drafts))
        self._partitions = partitions
        self.sends.append((queue, drafts))

    # --- settlements ----------------------------------------------------------------------------------------

    def settle(self, lock: Lock, settlement: Callable[[], None]) -> None:
        """Keep the lock until the discharge, and do this then. It must not fail while the lock holds."""
        self._check_settlements([lock])
        self._settle(lock, settlement)

    def settle_all(self, locks: list[Lock], settle: Callable[[Lock], None]) -> None:
        """Settle all of these messages, or none, in one way."""
        self._check_settlements(locks)
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
        subqueue.namespace.effects.queries.append(RowsQuery(subqueue.stream, numbers, answer))

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
            change.state = state
            return
        partitions = self._partitions.copy()
        partitions.join(subqueue.queue, partition_of(session.key), session.key)
        self._count(1)
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
        for queue, drafts in self.sends:
            queue.check_room(sum([draft.message.size_bytes for draft in drafts]))
        for enlistment in self.enlistments:
            enlistment.check()

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
            if lock.is_held and lock.locked_until_ms <= now_ms and lock.outlet.session is None:
                lock.outlet.subqueue.fail(lock)
