"""Operations of a transaction that are neither a send nor a settlement: cancellations, session states, lock renewals.

A cancellation and a session state change nothing before the discharge. They ask the store once more when it comes,
since what they are about may have changed while the transaction was open. A renewal holds at once, because a lock that
is to last has to last now; a rollback takes it back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tandem.engine.lock_table import Lock
from tandem.engine.message import SCHEDULED, BrokeredMessage
from tandem.engine.queries import Query, RowsQuery, SessionStateQuery
from tandem.errors import MessageNotFound, Scope, SessionLockLost

if TYPE_CHECKING:
    from tandem.engine.sessions import Session, Sessions
    from tandem.engine.subqueue import SubQueue

__all__ = ["Cancellation", "Enlistment", "LockRenewal", "SessionLockRenewal", "StateChange", "require_scheduled"]

_NOT_SCHEDULED: Final = "Failed to cancel one or more scheduled messages. The message does not exist, or was sent."
_SESSION_LOST: Final = "The lock of the session ended before its state was set. Accept a new MessageSession."


def require_scheduled(numbers: list[int], messages: list[BrokeredMessage]) -> None:
    """Raise unless each of these numbers is that of a message that is still scheduled."""
    if len([message for message in messages if message.state == SCHEDULED]) != len(numbers):
        raise MessageNotFound(_NOT_SCHEDULED)


class Enlistment:
    """One operation of an open transaction."""

    __slots__ = ("subqueue",)

    def __init__(self, subqueue: SubQueue) -> None:
        self.subqueue = subqueue

    def question(self, answered: Callable[[], None]) -> Query | None:
        """Return what the store has to be asked before the commit, if anything. `answered` is called after that."""
        return None

    def check(self) -> None:
        """Raise if the operation cannot be part of a commit any more. Its entity still exists."""

    def commit(self) -> None:
        """Do it. It was checked, and must not fail."""

    def roll_back(self) -> None:
        """Take back whatever holds already."""


class Cancellation(Enlistment):
    """Scheduled messages that are never sent if the transaction is committed."""

    __slots__ = ("_found", "numbers")

    def __init__(self, subqueue: SubQueue, numbers: list[int]) -> None:
        super().__init__(subqueue)
        self.numbers = numbers
        self._found: list[BrokeredMessage] = []

    def question(self, answered: Callable[[], None]) -> Query | None:
        def answer(messages: list[BrokeredMessage]) -> None:
            self._found = messages
            answered()

        return RowsQuery(self.subqueue.stream, self.numbers, 0, answer)

    def check(self) -> None:
        require_scheduled(self.numbers, self._found)

    def commit(self) -> None:
        for message in self._found:
            self.subqueue.remove(message)


class StateChange(Enlistment):
    """The state that a session has if the transaction is committed. The lock of the session lasts as long as that."""

    __slots__ = ("_old", "_session", "_sessions", "state")

    def __init__(self, sessions: Sessions, session: Session, state: bytes | None) -> None:
        super().__init__(sessions.subqueue)
        self._sessions = sessions
        self._session = session
        self._old: bytes | None = None
        self.state = state
        session.enlisted_count += 1

    @property
    def session_key(self) -> str:
        return self._session.key

    @property
    def growth_bytes(self) -> int:
        """By how much the entity grows with the new state in the place of the old one; never less than 0."""
        return max(0, len(self.state or b"") - len(self._old or b""))

    def question(self, answered: Callable[[], None]) -> Query | None:
        def answer(old: bytes | None) -> None:
            self._old = old
            answered()

        return SessionStateQuery(self.subqueue.stream, self._session.session_id, answer)

    def check(self) -> None:
        if not self._session.is_held:
            raise SessionLockLost(_SESSION_LOST, Scope.DELIVERY)
        self.subqueue.queue.check_state_size(len(self.state or b""))

    def commit(self) -> None:
        self._session.enlisted_count -= 1
        self._sessions.put_state(self._session.session_id, self._old, self.state)

    def roll_back(self) -> None:
        self._session.enlisted_count -= 1


class LockRenewal(Enlistment):
    """The lock of a message is renewed, perhaps more than once."""

    __slots__ = ("_new_ms", "_old_ms", "lock")

    def __init__(self, lock: Lock) -> None:
        super().__init__(lock.outlet.subqueue)
        self.lock = lock
        self._old_ms = lock.locked_until_ms
        self._new_ms = lock.locked_until_ms

    def renew(self) -> int:
        """Renew the lock now; return when it ends."""
        if self.lock.locked_until_ms != self._new_ms:
            # Renewed outside of the transaction meanwhile, which a rollback does not take back.
            self._old_ms = self.lock.locked_until_ms
        self._new_ms = self.subqueue.renew(self.lock)
        return self._new_ms

    def roll_back(self) -> None:
        lock = self.lock
        if lock.is_held and lock.locked_until_ms == self._new_ms:
            lock.outlet.locks.renew(lock, self._old_ms)
            self.subqueue.wake_at(self._old_ms)


class SessionLockRenewal(Enlistment):
    """The lock of a session is renewed, perhaps more than once."""

    __slots__ = ("_new_ms", "_old_ms", "_sessions", "session")

    def __init__(self, sessions: Sessions, session: Session) -> None:
        super().__init__(sessions.subqueue)
        self._sessions = sessions
        self.session = session
        self._old_ms = session.locked_until_ms
        self._new_ms = session.locked_until_ms

    def renew(self) -> int:
        """Renew the lock now; return when it ends."""
        if self.session.locked_until_ms != self._new_ms:
            self._old_ms = self.session.locked_until_ms
        self._new_ms = self._sessions.renew(self.session.session_id)
        return self._new_ms

    def roll_back(self) -> None:
        session = self.session
        if session.is_held and session.locked_until_ms == self._new_ms:
            self._sessions.lock_until(session, self._old_ms)
