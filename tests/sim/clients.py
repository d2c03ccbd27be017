"""Simulated clients: what a connection holds on the broker's side, and what it remembers on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tandem.engine.consumer import Consumer
from tandem.engine.effects import HandedOut, Notice, NoticeKind
from tandem.engine.lock_table import Lock
from tandem.engine.subqueue import SubQueue
from tandem.engine.transactions import Transaction
from tandem.errors import OperationTimeout, ProtocolError, SessionCannotBeLocked, SessionLockLost
from tests.sim.ledger import Entry, Hold, Violation
from tests.sim.published_counts import judge_counts

if TYPE_CHECKING:
    from tests.sim.arrivals import SendIntent
    from tests.sim.world import World

__all__ = ["Ask", "Connection", "Receiver", "SimTransaction"]


class Ask:
    """A request whose answer is released when all that it caused is on disk."""

    __slots__ = ("_on_decided", "_on_released", "_world", "name", "position")

    def __init__(
        self,
        world: World,
        name: str,
        on_released: Callable[[object], None] | None = None,
        on_decided: Callable[[object], None] | None = None,
    ) -> None:
        self._world = world
        self.name = name
        self._on_decided = on_decided
        self._on_released = on_released
        self.position = -1

    def decided(self, answer: object) -> None:
        """The engine has answered; the answer is still under way."""
        self.position = self._world.ledger.position
        self._world.unanswered.discard(self)
        if self._on_decided is not None:
            self._on_decided(answer)

    def release(self, answer: object) -> None:
        """The runner lets the answer go."""
        if not 0 <= self.position <= self._world.ledger.committed_position:
            raise Violation("nothing is acknowledged before it is on disk", self.name)
        # Whoever is answered may ask for the counts at once.
        judge_counts(self._world)
        if self._on_released is not None:
            self._on_released(answer)


class SimTransaction:
    """A transaction that a client has open."""

    __slots__ = ("connection", "deadline_ms", "engine", "is_doomed", "is_open", "message_count", "sends", "settlements")

    def __init__(self, connection: Connection, engine: Transaction, deadline_ms: int) -> None:
        self.connection = connection
        self.engine = engine
        self.deadline_ms = deadline_ms
        self.is_open = True
        # A send of it was refused: it can only be rolled back.
        self.is_doomed = False
        self.message_count = 0
        self.sends: list[SendIntent] = []
        self.settlements: list[tuple[Entry, Lock, str]] = []


class Connection:
    """One client. The broker does not always know that it is gone."""

    def __init__(self, world: World, index: int) -> None:
        self.world = world
        self.index = index
        self.receivers: list[Receiver] = []
        self.transactions: list[SimTransaction] = []
        # What is sent to it arrives nowhere.
        self.is_deaf = False


class Receiver:
    """A receiving link, at both of its ends."""

    def __init__(
        self, connection: Connection, subqueue: SubQueue, deletes: bool, session_id: str | None, wait_ms: int | None
    ) -> None:
        self.world = connection.world
        self.connection = connection
        self.subqueue = subqueue
        self.stream = subqueue.stream
        self.deletes = deletes
        # The session that it has, or asks for; None with a time to wait asks for any.
        self.session_id = session_id
        self.has_session = False
        self.wait_until_ms = None if wait_ms is None else self.world.now_ms + wait_ms
        self.consumer: Consumer | None = None
        self.credit = 0
        self.is_open = True
        self.is_paused = False
        self.is_draining = False
        # Messages that the client has in hand.
        self.locks: list[Lock] = []

    @property
    def is_waiting_for_session(self) -> bool:
        return self.is_open and self.wait_until_ms is not None and not self.has_session

    def __repr__(self) -> str:
        return f"<receiver of {self.subqueue.path} session {self.session_id}>"

    # --- what the runner calls ------------------------------------------------------------------------------

    def deliver(self, locks: list[Lock]) -> None:
        for lock in locks:
            self._deliver(lock)

    def _deliver(self, lock: Lock) -> None:
        world = self.world
        lock.take_parts()
        if not self.is_open:
            # Gone in the very turn in which the message was locked for it.
            entry = world.ledger.by_row.get(lock.message.row)
            if entry is not None and entry.lock is lock:
                entry.unlock()
                world.ledger.make_available(entry)
            self.subqueue.release(lock)
            world.auditor.audit()
            return
        if not self.connection.is_deaf:
            self.locks.append(lock)

    def hand_out(self, message: HandedOut) -> None:
        assert self.consumer is not None
        self.consumer.unsent_count -= 1
        uid = self.world.auditor.released_hand_out(message)
        self.world.note(f"  message {uid} goes to {self} for good")

    def notify(self, notice: Notice) -> None:
        """The auditor has seen it before."""

    def judge(self, notice: Notice) -> None:
        """The engine has decided to tell this receiver something."""
        if notice.kind == NoticeKind.DRAINED:
            self._drained()
        elif notice.kind == NoticeKind.SESSION_ACCEPTED:
            self._accepted()
        elif notice.kind == NoticeKind.SESSION_REFUSED:
            self._refused(notice.error)
        else:
            self.closed(notice.error)

    def _drained(self) -> None:
        if not self.is_draining and self.is_open:
            raise Violation("drain is answered once", repr(self))
        self.is_draining = False
        self.credit = 0

    def _accepted(self) -> None:
        world = self.world
        assert self.consumer is not None
        assert self.consumer.outlet is not None
        session = self.consumer.outlet.session
        assert session is not None
        if self.session_id is not None and session.session_id != self.session_id:
            raise Violation("a session has one receiver", f"{self} got {session.session_id}")
        key = (self.stream, session.session_id)
        other = world.ledger.holds.get(key)
        if other is not None and other.receiver.is_open:
            raise Violation("a session has one receiver", f"{self} and {other.receiver} have {session.session_id}")
        self.session_id = session.session_id
        self.has_session = True
        if not self.is_open:
            return
        until_ms = world.now_ms + self.subqueue.queue.description.lock_duration_ms
        world.ledger.holds[key] = Hold(self.stream, session.session_id, self, until_ms)
        world.note(f"  {self} has session {session.session_id} until {until_ms}")

    def _refused(self, error: Exception | None) -> None:
        world = self.world
        if isinstance(error, SessionCannotBeLocked):
            assert self.session_id is not None
            if (self.stream, self.session_id) not in world.ledger.holds:
                raise Violation("a session that is free is given", repr(self))
        elif isinstance(error, OperationTimeout):
            assert self.wait_until_ms is not None
            if self.wait_until_ms > world.now_ms:
                raise Violation("a receiver that waits for a session is answered", f"{self} gave up early")
        else:
            raise Violation("a receiver that waits for a session is answered", f"{self} was refused for {error!r}")
        self.close_here()

    def closed(self, error: Exception | None) -> None:
        """The broker has closed the link."""
        world = self.world
        if isinstance(error, SessionLockLost):
            hold = world.ledger.holds.get((self.stream, self.session_id or ""))
            if hold is None or hold.receiver is not self or hold.until_ms > world.now_ms:
                raise Violation("a lock lasts as long as it was promised", f"{self} lost its session at {world.now_ms}")
            del world.ledger.holds[hold.stream, hold.session_id]
        elif not isinstance(error, ProtocolError):
            raise Violation("an error has a wire form", repr(error))
        self.close_here()

    def close_here(self) -> None:
        """Until now somebody used its queue."""
        self.is_open = False
        self.world.touch(self.stream)
        self.credit = 0
        if self in self.connection.receivers:
            self.connection.receivers.remove(self)
