"""Where messages go out: the head of a queue or of a session, its locks, and the consumers in line for the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import TYPE_CHECKING, Final

from tandem.engine.consumer import Consumer, Gate
from tandem.engine.effects import HandedOut, Notice, NoticeKind
from tandem.engine.head import Head
from tandem.engine.lock_table import Lock, LockTable
from tandem.engine.message import BrokeredMessage
from tandem.engine.queries import MessagesQuery, RowsQuery
from tandem.limits import MAX_HEAD_BYTES, MAX_PAGE_MESSAGES, MESSAGE_OVERHEAD_BYTES

if TYPE_CHECKING:
    from tandem.engine.sessions import Session
    from tandem.engine.subqueue import SubQueue

__all__ = ["Outlet"]

# Messages. The least that is read from disk at once: a query costs about as much as ten messages.
_MIN_PAGE_MESSAGES: Final = 50

# How many times as many messages are kept at hand as went, or are wanted, at once.
_PAGES_AHEAD: Final = 4


class Outlet:
    """One line of available messages and one line of consumers."""

    __slots__ = ("_consumer_count", "_left_count", "_waiting", "head", "locks", "session", "subqueue")

    def __init__(
        self, subqueue: SubQueue, session: Session | None, locks_of_all_sessions: dict[int, Lock] | None = None
    ) -> None:
        self.subqueue = subqueue
        self.session = session
        self.head = Head(False, subqueue.namespace.heads)
        self.locks = LockTable(locks_of_all_sessions)
        self._waiting: deque[Consumer] = deque()
        # How many of those who wait have closed since. They leave the line together, when they are half of it.
        self._left_count = 0
        self._consumer_count = 0

    # --- consumers ------------------------------------------------------------------------------------------

    def open(self, consumer: Consumer) -> None:
        consumer.outlet = self
        self._consumer_count += 1

    def close(self, consumer: Consumer) -> None:
        """Its locks stay; what nobody is there to receive need not be in memory."""
        consumer.is_open = False
        consumer.credit = 0
        self._consumer_count -= 1
        if not self._consumer_count:
            self._waiting.clear()
            self._left_count = 0
            self.head.clear()
        elif consumer.is_waiting:
            self._left_count += 1
            if self._left_count * 2 > len(self._waiting):
                self._waiting = deque([one for one in self._waiting if one.is_open])
                self._left_count = 0

    @property
    def has_consumers(self) -> bool:
        return self._consumer_count > 0

    def grant(self, consumer: Consumer, credit: int, is_draining: bool) -> None:
        """The consumer takes this many messages from now on, in place of what was said before."""
        consumer.credit = credit
        consumer.is_draining = is_draining
        self.wake(consumer)

    def wake(self, consumer: Consumer) -> None:
        if not consumer.is_waiting and consumer.can_take():
            consumer.is_waiting = True
            self._waiting.append(consumer)
        self.pump()
        if consumer.is_draining and consumer.credit <= 0:
            self._drained(consumer)

    # --- handing out ----------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Give available messages to waiting consumers, one each in turn."""
        waiting = self._waiting
        head = self.head
        now_ms = self.subqueue.namespace.now_ms
        given = 0
        while waiting:
            consumer = waiting[0]
            if not consumer.can_take():
                waiting.popleft()
                consumer.is_waiting = False
                if not consumer.is_open:
                    self._left_count -= 1
                continue
            message = head.first()
            if message is None:
                break
            if message.expires_at_ms <= now_ms:
                self.take(message)
                self.subqueue.expire(message)
                continue
            if message.stored is None:
                self._load_bytes()
                return
            self.take(message)
            consumer.credit -= 1
            given += 1
            if consumer.gate is not None:
                consumer.gate.owed_bytes += message.size_bytes + MESSAGE_OVERHEAD_BYTES
            if consumer.deletes:
                self._hand_out(message, consumer)
            else:
                self._lock(message, consumer, now_ms)
            if consumer.is_draining and consumer.credit <= 0:
                self._drained(consumer)
            if len(waiting) > 1:
                waiting.rotate(-1)
        if (given or waiting) and not head.is_loading:
            self._look_ahead(waiting, given)

    def take(self, message: BrokeredMessage) -> None:
        """Remove the first message of the head, which leaves the line: no cursor may find it any more."""
        self.head.take(message)
        cursors = self.subqueue.cursors
        if cursors is not None:
            cursors.drop(message.sequence_number, self)

    def _lock(self, message: BrokeredMessage, consumer: Consumer, now_ms: int) -> None:
        lock = self.lock(message, consumer, consumer.gate, now_ms)
        stored = message.stored
        assert stored is not None
        stored = message.as_delivered(stored)
        lock.prefix = message.locked_prefix(stored, lock.locked_until_ms, lock.token)
        lock.bare = stored.bare
        # The bytes are on disk; the lock may last for minutes.
        message.stored = None
        self.subqueue.namespace.effects.deliveries.append(lock)

    def lock(self, message: BrokeredMessage, consumer: Consumer | None, gate: Gate | None, now_ms: int) -> Lock:
        subqueue = self.subqueue
        session = self.session
        if session is not None:
            locked_until_ms = session.locked_until_ms
        else:
            locked_until_ms = now_ms + subqueue.queue.description.lock_duration_ms
            subqueue.wake_at(locked_until_ms)
        lock = Lock(self, message, consumer, gate, locked_until_ms, subqueue.namespace.nonces.next_pair())
        self.locks.add(lock)
        return lock

    def _hand_out(self, message: BrokeredMessage, consumer: Consumer) -> None:
        namespace = self.subqueue.namespace
        payload = message.handed_out_payload()
        self.subqueue.remove(message)
        consumer.unsent_count += 1
        namespace.effects.handed_out.append(HandedOut(consumer, message, payload))

    def _drain(self, waiting: deque[Consumer]) -> None:
        for consumer in [one for one in waiting if one.is_draining]:
            self._drained(consumer)

    def _drained(self, consumer: Consumer) -> None:
        consumer.is_draining = False
        consumer.credit = 0
        self.subqueue.namespace.effects.notices.append(Notice(NoticeKind.DRAINED, consumer))

    # --- reading from disk ----------------------------------------------------------------------------------

    def _look_ahead(self, waiting: deque[Consumer], given: int) -> None:
        """Ask for messages beyond the cursor: about as many as are wanted, so that little is held for nobody.

        The next page is read after a commit, and consumers do not wait for that: it is asked for while those of the
        last one are handed out, some times as many as went just now. Credit for as many is on its way.
        """
        head = self.head
        wanted = _MIN_PAGE_MESSAGES + _PAGES_AHEAD * given
        for consumer in waiting:
            wanted += _PAGES_AHEAD * consumer.credit
            if wanted >= head.room:
                break
        if head.is_short_of(wanted):
            self.load(min(wanted, head.room))
        elif waiting and head.first() is None:
            self._drain(waiting)

    def load(self, limit: int) -> None:
        subqueue = self.subqueue
        head = self.head
        generation = head.begin_loading()
        limit_bytes = head.limit_bytes
        up_to = subqueue.tail

        def answer(messages: list[BrokeredMessage]) -> None:
            self._loaded(messages, limit, limit_bytes, up_to, generation)

        session_id = None if self.session is None else self.session.session_id
        query = MessagesQuery(subqueue.stream, head.cursor, up_to, limit, limit_bytes, session_id, True, answer)
        subqueue.namespace.effects.queries.append(query)

    def _loaded(
        self, messages: list[BrokeredMessage], limit: int, limit_bytes: int, up_to: int, generation: int
    ) -> None:
        head = self.head
        # What a deleted queue held is not forwarded any more, though it may still be on disk.
        if generation != head.generation or self.subqueue.queue.is_dropped:
            return
        size_bytes = 0
        for message in messages:
            size_bytes += message.size_bytes
        taken: Container[int] | None = self.locks.held
        if self.subqueue.pending:
            taken = self.locks.held.keys() | self.subqueue.pending
        elif messages and messages[0].sequence_number > self.locks.highest:
            taken = None
        self.fill(messages, taken, len(messages) < limit and size_bytes < limit_bytes, up_to)
        if self.session is not None:
            self.pump()
        else:
            self.subqueue.pump()
        if head.memory.is_full and self._consumer_count and not self._waiting and not head.is_loading:
            # Nobody can take them now, and others need the memory. They are on disk.
            head.clear()

    def fill(self, messages: list[BrokeredMessage], taken: Container[int] | None, is_all: bool, up_to: int) -> None:
        """Put messages into the head that were read up to this number: all that there are, or the first of them."""
        self.head.fill(messages, taken, is_all)

    def _load_bytes(self) -> None:
        """Messages that came back have their bytes on disk only."""
        head = self.head
        if head.is_loading:
            return
        missing = head.without_bytes(MAX_PAGE_MESSAGES // 10)
        generation = head.generation
        head.is_loading = True

        def answer(messages: list[BrokeredMessage]) -> None:
            self._loaded_bytes(missing, messages, generation)

        numbers = [message.sequence_number for message in missing]
        self.subqueue.namespace.effects.queries.append(RowsQuery(self.subqueue.stream, numbers, MAX_HEAD_BYTES, answer))

    def _loaded_bytes(self, missing: list[BrokeredMessage], messages: list[BrokeredMessage], generation: int) -> None:
        if generation != self.head.generation:
            return
        self.head.is_loading = False
        # One that is not found any more has expired or was deleted: who did that has dropped it from the head.
        found = {message.sequence_number: message.stored for message in messages}
        for message in missing:
            message.stored = found.get(message.sequence_number)
        self.judge(missing)
        self.pump()

    def judge(self, messages: list[BrokeredMessage]) -> None:
        """Look at messages that came back and have their bytes again, before they are handed out."""
