"""Sessions: messages with the same session id, in any case, are received by one consumer at a time, in order.

The lock is on the session. It ends when the consumer leaves, and then its messages are as if they had never been
handed out; or it expires, and then each message that was handed out counts as a failed delivery.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from tandem.engine.consumer import Consumer
from tandem.engine.effects import Notice, NoticeKind, SetSessionState
from tandem.engine.lock_table import Lock, find_lock
from tandem.engine.message import NEVER_MS, BrokeredMessage
from tandem.engine.outlet import Outlet
from tandem.engine.queries import ReadySessionsQuery, SessionListQuery, SessionStateQuery
from tandem.engine.session_key import session_key
from tandem.errors import OperationTimeout, Scope, SessionCannotBeLocked, SessionLockLost
from tandem.limits import MAX_SESSIONS_PER_PAGE

if TYPE_CHECKING:
    from tandem.engine.subqueue import SubQueue

__all__ = ["Session", "Sessions"]

_SESSION_LOCK_LOST: Final = "The session lock has expired on the MessageSession. Accept a new MessageSession."

# Milliseconds. How soon to look again whether a transaction that keeps a session locked has ended.
_ENLISTED_MS: Final = 1_000


class Session:
    """A session that a consumer has accepted, in the spelling in which it was accepted."""

    __slots__ = ("consumer", "enlisted_count", "is_held", "key", "locked_until_ms", "outlet", "session_id")

    def __init__(
        self,
        subqueue: SubQueue,
        session_id: str,
        consumer: Consumer,
        locked_until_ms: int,
        locks_of_all_sessions: dict[int, Lock],
    ) -> None:
        self.session_id = session_id
        self.key = session_key(session_id)
        self.consumer = consumer
        self.locked_until_ms = locked_until_ms
        self.is_held = True
        # Open transactions that set its state: the lock lasts as long as these.
        self.enlisted_count = 0
        self.outlet = Outlet(subqueue, self, locks_of_all_sessions)
        self.outlet.open(consumer)


class Sessions:
    """The sessions of one queue that are locked, and the consumers that wait for one."""

    __slots__ = ("_accepted", "_is_searching", "_locks", "_subqueue", "_to_pump", "_waiters")

    def __init__(self, subqueue: SubQueue) -> None:
        self._subqueue = subqueue
        # By their keys, as is what is to be pumped.
        self._accepted: dict[str, Session] = {}
        # Consumers that will take any session, and until when. Whoever came first is first.
        self._waiters: OrderedDict[Consumer, int] = OrderedDict()
        # The locks of messages of all sessions, by sequence number.
        self._locks: dict[int, Lock] = {}
        self._is_searching = False
        self._to_pump: dict[str, None] = {}

    @property
    def subqueue(self) -> SubQueue:
        return self._subqueue

    # --- accepting ------------------------------------------------------------------------------------------

    def accept(self, consumer: Consumer, session_id: str | None, wait_ms: int) -> None:
        if session_id is None:
            deadline_ms = self._subqueue.namespace.now_ms + wait_ms
            self._waiters[consumer] = deadline_ms
            self._subqueue.wake_at(deadline_ms)
            self._search()
        elif session_key(session_id) in self._accepted:
            self._refuse(
                consumer,
                SessionCannotBeLocked(
                    f"The requested session '{session_id}' cannot be accepted. It may be locked by another receiver."
                ),
            )
        else:
            self._give(consumer, session_id)

    def _give(self, consumer: Consumer, session_id: str) -> None:
        subqueue = self._subqueue
        locked_until_ms = subqueue.namespace.now_ms + subqueue.queue.description.lock_duration_ms
        session = Session(subqueue, session_id, consumer, locked_until_ms, self._locks)
        self._accepted[session.key] = session
        subqueue.wake_at(locked_until_ms)
        subqueue.namespace.effects.notices.append(Notice(NoticeKind.SESSION_ACCEPTED, consumer))

    def _refuse(self, consumer: Consumer, error: Exception) -> None:
        consumer.is_open = False
        self._subqueue.forget_consumer(consumer)
        self._subqueue.namespace.effects.notices.append(Notice(NoticeKind.SESSION_REFUSED, consumer, error))

    def _search(self) -> None:
        """Ask the store which sessions have messages. One question at a time: its answer serves all who wait."""
        if not self._waiters or self._is_searching:
            return
        self._is_searching = True
        limit = len(self._accepted) + len(self._waiters)

        def answer(session_ids: list[str]) -> None:
            self._found(session_ids, limit)

        self._subqueue.namespace.effects.queries.append(ReadySessionsQuery(self._subqueue.stream, limit, answer))

    def _found(self, session_ids: list[str], limit: int) -> None:
        self._is_searching = False
        for session_id in session_ids:
            if not self._waiters:
                return
            if session_key(session_id) not in self._accepted:
                self._give(self._waiters.popitem(last=False)[0], session_id)
        if len(session_ids) == limit:
            # Some of them were accepted by name since the question was asked: there may be more.
            self._search()

    def publish(self, message: BrokeredMessage) -> None:
        """A message of a session is on disk."""
        session_id = message.session_id
        assert session_id is not None
        session = self._accepted.get(session_key(session_id))
        if session is not None:
            session.outlet.head.add(message)
            self._to_pump[session.key] = None
        elif self._waiters:
            self._give(self._waiters.popitem(last=False)[0], session_id)

    def put_in_line(self, message: BrokeredMessage) -> None:
        """Offer a message that is older than others of its session, or of a session that somebody waits for."""
        session = self.find(message.session_id)
        if session is None:
            self.publish(message)
        else:
            session.outlet.head.add_out_of_order(message)
            self._to_pump[session.key] = None

    def pump(self) -> None:
        """Every session that something has become available in."""
        keys = list(self._to_pump)
        self._to_pump.clear()
        for key in keys:
            session = self._accepted.get(key)
            if session is not None:
                session.outlet.pump()

    # --- holding --------------------------------------------------------------------------------------------

    def find(self, session_id: str | None) -> Session | None:
        """The session, if somebody holds it."""
        return None if session_id is None else self._accepted.get(session_key(session_id))

    def of_consumer(self, consumer: Consumer) -> Session | None:
        outlet = consumer.outlet
        return None if outlet is None else outlet.session

    def find_lock(self, token: bytes) -> Lock | None:
        """Return the lock with this token, if it is of a session that is still held."""
        lock = find_lock(self._locks, token)
        session = None if lock is None else lock.outlet.session
        return lock if session is not None and session.is_held else None

    def held(self, session_id: str) -> Session:
        """The session, or SessionLockLost."""
        session = self._accepted.get(session_key(session_id))
        if session is None or session.locked_until_ms <= self._subqueue.namespace.now_ms:
            raise SessionLockLost(_SESSION_LOCK_LOST, Scope.DELIVERY)
        return session

    def renew(self, session_id: str) -> int:
        """The lock lasts as long as a new one, from now on."""
        session = self.held(session_id)
        subqueue = self._subqueue
        self.lock_until(session, subqueue.namespace.now_ms + subqueue.queue.description.lock_duration_ms)
        return session.locked_until_ms

    def lock_until(self, session: Session, until_ms: int) -> None:
        """Let the lock of a session, and of the messages that were handed out of it, end at this time."""
        session.locked_until_ms = until_ms
        for lock in session.outlet.locks.held.values():
            lock.locked_until_ms = until_ms
        self._subqueue.wake_at(until_ms)

    def close(self, consumer: Consumer) -> None:
        """The consumer left. Its session is free at once, and its messages were never handed out."""
        session = self.of_consumer(consumer)
        if session is None:
            self._waiters.pop(consumer, None)
            return
        if session.is_held:
            self._free(session)
            for lock in list(session.outlet.locks.held.values()):
                self._subqueue.release(lock)
            self._search()

    def forget_heads(self) -> None:
        """The memory of the entity is given up."""
        for session in self._accepted.values():
            session.outlet.head.clear()

    def _free(self, session: Session) -> None:
        session.is_held = False
        self._accepted.pop(session.key, None)
        session.outlet.close(session.consumer)

    # --- state ----------------------------------------------------------------------------------------------

    def get_state(self, session_id: str, asker: object) -> None:
        effects = self._subqueue.namespace.effects

        def answer(state: bytes | None) -> None:
            if not self._subqueue.is_gone(asker):
                self._subqueue.namespace.effects.reply(asker, (state or None,))

        effects.queries.append(SessionStateQuery(self._subqueue.stream, session_id, answer))

    def set_state(self, session_id: str, state: bytes | None, asker: object) -> None:
        """Keep the state of a session beside its messages, and count it with them. An empty state is none."""
        subqueue = self._subqueue
        state = state or None
        subqueue.queue.check_state_size(0 if state is None else len(state))

        def answer(old: bytes | None) -> None:
            if not subqueue.is_gone(asker):
                self.put_state(session_id, old, state)
                subqueue.namespace.effects.reply(asker, None)

        subqueue.namespace.effects.queries.append(SessionStateQuery(subqueue.stream, session_id, answer))

    def put_state(self, session_id: str, old: bytes | None, state: bytes | None) -> None:
        """Replace the old state, which is the one on disk."""
        subqueue = self._subqueue
        by = len(state or b"") - len(old or b"")
        subqueue.counts.resize(by)
        effects = subqueue.namespace.effects
        effects.changes.append(SetSessionState(subqueue.stream, session_id, state, subqueue.namespace.now_ms))

    def list_sessions(self, updated_after_ms: int | None, skip: int, top: int, asker: object) -> None:
        def answer(session_ids: list[str]) -> None:
            if not self._subqueue.is_gone(asker):
                self._subqueue.namespace.effects.reply(asker, session_ids)

        limit = min(max(top, 1), MAX_SESSIONS_PER_PAGE)
        query = SessionListQuery(self._subqueue.stream, updated_after_ms, max(skip, 0), limit, answer)
        self._subqueue.namespace.effects.queries.append(query)

    # --- time -----------------------------------------------------------------------------------------------

    def on_time(self, now_ms: int) -> None:
        for session in [one for one in self._accepted.values() if one.locked_until_ms <= now_ms]:
            if session.enlisted_count or any(lock.is_enlisted for lock in session.outlet.locks.held.values()):
                # A settlement or its state is part of an open transaction: the lock lasts as long as that.
                self.lock_until(session, now_ms + _ENLISTED_MS)
                continue
            self._free(session)
            for lock in list(session.outlet.locks.held.values()):
                self._subqueue.fail(lock)
            self._subqueue.forget_consumer(session.consumer)
            error = SessionLockLost(_SESSION_LOCK_LOST)
            self._subqueue.namespace.effects.notices.append(Notice(NoticeKind.CLOSED, session.consumer, error))
        for consumer in [one for one, deadline_ms in self._waiters.items() if deadline_ms <= now_ms]:
            del self._waiters[consumer]
            self._refuse(
                consumer,
                OperationTimeout("The operation did not complete within the allotted time: no session has messages."),
            )
        self._search()

    def next_deadline_ms(self) -> int:
        deadline_ms = NEVER_MS
        for session in self._accepted.values():
            deadline_ms = min(deadline_ms, session.locked_until_ms)
        for until_ms in self._waiters.values():
            deadline_ms = min(deadline_ms, until_ms)
        return deadline_ms
