"""One line of messages: the queue itself, its dead-letter queue, or its transfer dead-letter queue.

A message that was sent becomes available when its commit is on disk. Counts are those of the last commit, too
(`stream_counts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.addresses import SubQueue as SubQueueKind
from tandem.engine.consumer import Consumer, Gate
from tandem.engine.cursors import Cursors
from tandem.engine.effects import Move, Notice, NoticeKind, SetState
from tandem.engine.enlistment import require_scheduled
from tandem.engine.lock_table import Lock
from tandem.engine.message import ACTIVE, DEFERRED, NEVER_MS, SEQUENCE_MASK, BrokeredMessage, row_of
from tandem.engine.outlet import Outlet
from tandem.engine.queries import EnqueuedBeforeQuery, MessagesQuery, RowsQuery
from tandem.engine.session_key import session_key
from tandem.engine.sessions import Sessions
from tandem.engine.stream_counts import StreamCounts
from tandem.engine.timetable import Timetable
from tandem.errors import (
    ArgumentOutOfRange,
    MessageLockLost,
    MessageNotFound,
    NotAllowed,
    NotFound,
    ProtocolError,
    QuotaExceeded,
    Scope,
    SessionLockLost,
)
from tandem.limits import (
    MAX_LOCKS_PER_CONNECTION,
    MAX_PAGE_MESSAGES,
    MAX_PEEK_BYTES,
    MAX_PEEK_MESSAGES,
    MAX_RECEIVE_BYTES,
)
from tandem.rules import SqlFilter
from tandem.wire_names import DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace
    from tandem.engine.queue import Queue

__all__ = ["SubQueue"]

_LOCK_LOST: Final = (
    "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue, or "
    "was received by a different receiver instance."
)
_SESSION_LOCK_LOST: Final = "The session lock has expired on the MessageSession. Accept a new MessageSession."
_TOO_LARGE: Final = (
    f"The messages are larger than {MAX_RECEIVE_BYTES} bytes together, the most that one request can receive. Ask for "
    "fewer of them."
)
_TOO_MANY_LOCKS: Final = (
    f"The connection would hold the locks of more than {MAX_LOCKS_PER_CONNECTION} messages. Settle some of them first."
)
_NOT_FOUND: Final = "Failed to lock one or more specified messages. The message does not exist."


class SubQueue:
    """A stream of messages with their consumers and locks."""

    __slots__ = (
        "_outlet",
        "_timer_ms",
        "attended_at_ms",
        "consumers",
        "counts",
        "cursors",
        "kind",
        "namespace",
        "path",
        "pending",
        "queue",
        "sessions",
        "stream",
        "tail",
        "timetable",
    )

    def __init__(self, queue: Queue, kind: SubQueueKind, stream: int, path: str, has_sessions: bool) -> None:
        self.queue = queue
        self.namespace: Namespace = queue.namespace
        self.kind = kind
        self.stream = stream
        self.path = path
        self.counts = StreamCounts(queue.namespace, stream, queue.size)
        # The highest sequence number that is on disk. Dead letters keep theirs, and need no commit to be seen: they
        # were on disk before.
        self.tail = 0 if kind is SubQueueKind.NONE else SEQUENCE_MASK
        # Sequence numbers of dead letters that never were anything else, as of messages sent by way of this queue to a
        # missing one: these were not on disk before, and are not to be seen until they are.
        self.pending: set[int] = set()
        self.consumers: dict[Consumer, None] = {}
        # Made for the first browser or selector: most lines never have one.
        self.cursors: Cursors | None = None
        # When the last of them left. Before the first one, when this was made or restored.
        self.attended_at_ms = queue.namespace.now_ms
        # Made when somebody needs it: most dead-letter queues have neither messages nor receivers.
        self._outlet: Outlet | None = None
        self.sessions: Sessions | None = Sessions(self) if has_sessions else None
        self.timetable = Timetable(self)
        self._timer_ms = NEVER_MS

    @property
    def outlet(self) -> Outlet:
        outlet = self._outlet
        if outlet is None:
            outlet = self._outlet = Outlet(self, None)
        return outlet

    @property
    def is_dead_letter(self) -> bool:
        return self.kind is not SubQueueKind.NONE

    def is_gone(self, asker: object) -> bool:
        """Whether the queue was deleted while a question was under way. Then the asker is told."""
        if self.queue.is_dropped:
            self.namespace.effects.reply(
                asker, NotFound(f"The messaging entity '{self.queue.name}' could not be found. It was deleted.")
            )
        return self.queue.is_dropped

    # --- counts ---------------------------------------------------------------------------------------------

    def restore(self, active: int, deferred: int, scheduled: int, size_bytes: int, tail: int) -> None:
        """What was on disk when the broker started."""
        self.counts.restore(active, deferred, scheduled, size_bytes)
        if not self.is_dead_letter:
            self.tail = tail
        if active or scheduled:
            self.timetable.ask()

    @property
    def active_count(self) -> int:
        return self.counts.active

    @property
    def deferred_count(self) -> int:
        return self.counts.deferred

    @property
    def scheduled_count(self) -> int:
        return self.counts.scheduled

    # --- messages coming ------------------------------------------------------------------------------------

    def publish(self, message: BrokeredMessage) -> None:
        """Make a message available whose commit is on disk. The caller must pump."""
        self.timetable.expect(message)
        self.tail = max(self.tail, message.sequence_number)
        if message.state != ACTIVE:
            return
        if self.sessions is not None:
            self.sessions.publish(message)
        else:
            self.outlet.head.add(message)

    def put_in_line(self, message: BrokeredMessage) -> None:
        """Offer an active message that may be older than those at the head: it came back, or from another line."""
        if self.sessions is not None:
            self.sessions.put_in_line(message)
        else:
            self.outlet.head.add_out_of_order(message)
        if self.cursors is not None:
            self.cursors.offer(message)
        self.namespace.pump_soon(self)

    def pump(self) -> None:
        if self.queue.description.forward_to is not None and not self.is_dead_letter:
            self.queue.forward_backlog()
        elif self.sessions is not None:
            self.sessions.pump()
        else:
            self.outlet.pump()
        if self.cursors is not None:
            self.cursors.pump()

    def forget_head(self) -> None:
        """The memory of the entity is given up: what its heads held is not counted any more."""
        if self._outlet is not None:
            self._outlet.head.clear()
        if self.sessions is not None:
            self.sessions.forget_heads()
        if self.cursors is not None:
            self.cursors.forget_heads()

    # --- consumers ------------------------------------------------------------------------------------------

    def open_consumer(
        self, context: object, deletes: bool, gate: Gate | None = None, condition: SqlFilter | None = None
    ) -> Consumer:
        """A receiver without a session: of all messages, or of those that a selector picks."""
        if self.sessions is not None:
            raise NotAllowed(
                "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.",
                Scope.LINK,
            )
        outlet = self.outlet if condition is None else self._open_cursors().select(condition)
        return self._open(Consumer(self, context, deletes, gate), outlet)

    def open_browser(self, context: object, gate: Gate | None = None, condition: SqlFilter | None = None) -> Consumer:
        """A receiver of copies: it takes nothing away, and locks nothing."""
        return self._open(Consumer(self, context, True, gate), self._open_cursors().browse(condition))

    def _open(self, consumer: Consumer, outlet: Outlet) -> Consumer:
        self.consumers[consumer] = None
        outlet.open(consumer)
        self.queue.touch()
        return consumer

    def _open_cursors(self) -> Cursors:
        if self.cursors is None:
            self.cursors = Cursors(self)
        return self.cursors

    def accept_session(
        self, context: object, deletes: bool, session_id: str | None, wait_ms: int, gate: Gate | None = None
    ) -> Consumer:
        """A receiver of one session, by name or whichever is available. A notice says which, or that there is none."""
        if self.sessions is None:
            raise NotAllowed(
                "A sessionful message receiver cannot be created on an entity that does not require sessions.",
                Scope.LINK,
            )
        forward_to = self.queue.description.forward_to
        if forward_to is not None:
            raise self._forwarding_error(forward_to)
        consumer = Consumer(self, context, deletes, gate)
        self.consumers[consumer] = None
        self.queue.touch()
        self.sessions.accept(consumer, session_id, wait_ms)
        return consumer

    def free_sessions(self) -> None:
        """Forwarding begins: take the sessions from their receivers, and find everything available on disk again.

        A session keeps its messages together: nothing of it may be forwarded while somebody holds it.
        """
        forward_to = self.queue.description.forward_to
        assert forward_to is not None
        self.close_all_consumers(self._forwarding_error(forward_to))
        self.outlet.head.floor = 0
        self.outlet.head.clear()

    def _forwarding_error(self, forward_to: str) -> NotAllowed:
        return NotAllowed(
            f"'{self.queue.name}' forwards its messages to '{forward_to}': no session of it can be received. "
            "Receive from there, or end the forwarding.",
            Scope.LINK,
        )

    def close_consumer(self, consumer: Consumer) -> None:
        if not consumer.is_open:
            return
        self.forget_consumer(consumer)
        if self.cursors is None or not self.cursors.close(consumer):
            if self.sessions is not None:
                self.sessions.close(consumer)
            else:
                self.outlet.close(consumer)
        consumer.is_open = False

    def forget_consumer(self, consumer: Consumer) -> None:
        """It receives no more. The queue was in use until now, and is idle from now on at the earliest."""
        self.consumers.pop(consumer, None)
        self.attended_at_ms = self.namespace.now_ms
        self.queue.touch()

    def close_all_consumers(self, error: ProtocolError) -> None:
        """The entity is gone or disabled: tell everybody."""
        for consumer in list(self.consumers):
            self.namespace.effects.notices.append(Notice(NoticeKind.CLOSED, consumer, error))
            self.close_consumer(consumer)

    # --- settling -------------------------------------------------------------------------------------------

    def find_lock(self, token: bytes) -> Lock:
        """The lock with this token, if it still holds."""
        lock = self.outlet.locks.find(token) if self.sessions is None else self.sessions.find_lock(token)
        if lock is None:
            raise MessageLockLost(_LOCK_LOST)
        self.check(lock)
        return lock

    def check(self, lock: Lock) -> None:
        """Raise if the lock is over."""
        if not lock.is_held or (lock.locked_until_ms <= self.namespace.now_ms and not lock.is_enlisted):
            if lock.outlet.session is not None:
                raise SessionLockLost(_SESSION_LOCK_LOST, Scope.DELIVERY)
            raise MessageLockLost(_LOCK_LOST)

    def complete(self, lock: Lock) -> None:
        """The message is done with."""
        self.check(lock)
        lock.outlet.locks.drop(lock)
        self.remove(lock.message)

    def remove(self, message: BrokeredMessage) -> None:
        effects = self.namespace.effects
        effects.removed.append(message.row)
        self.counts.leave(message)
        if message.body_number:
            effects.release(message.body_number)

    def abandon(self, lock: Lock, properties: dict[str, object] | None = None) -> None:
        """The message could not be processed: somebody may try again, unless it was tried too often."""
        self.check(lock)
        self.fail(lock, properties)

    def fail(self, lock: Lock, properties: dict[str, object] | None = None) -> None:
        """Count a delivery that was in vain: the message was abandoned, or its lock or its session's has expired."""
        message = lock.message
        lock.outlet.locks.drop(lock)
        if not self.is_dead_letter:
            message.delivery_count += 1
        limit = self.queue.description.max_delivery_count
        if message.delivery_count >= limit and not self.is_dead_letter:
            reason = {
                DEAD_LETTER_REASON: "MaxDeliveryCountExceeded",
                DEAD_LETTER_ERROR_DESCRIPTION: f"Message could not be consumed after {limit} delivery attempts.",
            }
            self.queue.dead_letter(self, message, {**(properties or {}), **reason})
            return
        self.namespace.effects.changes.append(SetState(message.row, message.state, message.delivery_count, properties))
        self._give_back(lock)

    def release(self, lock: Lock) -> None:
        """The message was not looked at. Nobody is told if the lock is over: it is what was asked for."""
        if lock.is_held:
            lock.outlet.locks.drop(lock)
            self._give_back(lock)

    def _give_back(self, lock: Lock) -> None:
        message = lock.message
        if message.state != ACTIVE:
            return
        if message.expires_at_ms <= self.namespace.now_ms:
            self.expire(message)
            return
        session = lock.outlet.session
        # A session that nobody holds is read from disk when it is accepted again.
        if session is None or session.is_held:
            self.put_in_line(message)

    def defer(self, lock: Lock, properties: dict[str, object] | None = None) -> None:
        """The message is put aside: from now on it is received by its sequence number only."""
        self.check(lock)
        message = lock.message
        lock.outlet.locks.drop(lock)
        # It was delivered, and not completed: that counts, though it is no failure.
        message.delivery_count += 1
        self.counts.change_state(message, DEFERRED)
        self.namespace.effects.changes.append(SetState(message.row, DEFERRED, message.delivery_count, properties))

    def dead_letter(
        self, lock: Lock, reason: object, description: object, properties: dict[str, object] | None = None
    ) -> None:
        """Move a message that nobody can process to the dead-letter queue.

        Reason and description are mostly strings, and keep the type that the receiver gave them.
        """
        self.check(lock)
        self.check_can_dead_letter()
        lock.outlet.locks.drop(lock)
        changes = dict(properties or {})
        if reason is not None:
            changes[DEAD_LETTER_REASON] = reason
        if description is not None:
            changes[DEAD_LETTER_ERROR_DESCRIPTION] = description
        self.queue.dead_letter(self, lock.message, changes)

    def check_can_dead_letter(self) -> None:
        if self.is_dead_letter:
            raise NotAllowed("A message of a dead-letter queue cannot be dead-lettered again.", Scope.DELIVERY)

    def renew(self, lock: Lock) -> int:
        """The lock lasts as long as a new one, from now on."""
        self.check_can_renew(lock)
        locked_until_ms = self.namespace.now_ms + self.queue.description.lock_duration_ms
        lock.outlet.locks.renew(lock, locked_until_ms)
        self.wake_at(locked_until_ms)
        return locked_until_ms

    def check_can_renew(self, lock: Lock) -> None:
        self.check(lock)
        if lock.outlet.session is not None:
            raise NotAllowed("The message is locked by its session: renew the lock of the session.", Scope.DELIVERY)

    # --- by sequence number ---------------------------------------------------------------------------------

    def receive_deferred(
        self,
        sequence_numbers: list[int],
        deletes: bool,
        session_id: str | None,
        asker: object,
        gate: Gate | None = None,
    ) -> None:
        """All of these deferred messages, or none. Answered with pairs of lock and bytes; no lock if deleted.

        The locks count to the connection whose gate is given.
        """
        numbers = [number & SEQUENCE_MASK for number in sequence_numbers]

        def answer(messages: list[BrokeredMessage]) -> None:
            if self.is_gone(asker):
                return
            if gate is not None and not deletes and gate.locked_count + len(messages) > MAX_LOCKS_PER_CONNECTION:
                self.namespace.effects.reply(asker, QuotaExceeded(_TOO_MANY_LOCKS))
                return
            self._received_deferred(numbers, messages, deletes, session_id, asker, gate)

        self.queue.touch()
        self.namespace.effects.queries.append(RowsQuery(self.stream, sorted(set(numbers)), MAX_RECEIVE_BYTES, answer))

    def _received_deferred(
        self,
        numbers: list[int],
        messages: list[BrokeredMessage],
        deletes: bool,
        session_id: str | None,
        asker: object,
        gate: Gate | None,
    ) -> None:
        effects = self.namespace.effects
        outlet = self.outlet
        if self.sessions is not None:
            session = self.sessions.find(session_id)
            if session is None:
                effects.reply(asker, SessionLockLost(_SESSION_LOCK_LOST, Scope.DELIVERY))
                return
            outlet = session.outlet
        found = {message.sequence_number: message for message in messages}
        for number in numbers:
            message = found.get(number)
            is_free = message is not None and message.state == DEFERRED and number not in outlet.locks.held
            if not is_free or (session_id is not None and message is not None and not _is_of(message, session_id)):
                effects.reply(asker, MessageNotFound(_NOT_FOUND))
                return
        if [message for message in messages if message.stored is None]:
            effects.reply(asker, QuotaExceeded(_TOO_LARGE))
            return
        answers: list[tuple[Lock | None, bytes]] = []
        for number in dict.fromkeys(numbers):
            message = found[number]
            if deletes:
                answers.append((None, message.unlocked_payload()))
                self.remove(message)
            else:
                lock = outlet.lock(message, None, gate, self.namespace.now_ms)
                answers.append((lock, message.locked_payload(lock.locked_until_ms, lock.token)))
                message.stored = None
        effects.reply(asker, answers)

    def peek(self, from_sequence_number: int, count: int, session_id: str | None, asker: object) -> None:
        """Browse. Answered with the bytes of messages in any state, locked or not."""
        if count < 1:
            raise ArgumentOutOfRange(f"message-count is {count}; it must be at least 1")
        after = max(from_sequence_number & SEQUENCE_MASK, 1) - 1
        now_ms = self.namespace.now_ms

        def answer(messages: list[BrokeredMessage]) -> None:
            if self.is_gone(asker):
                return
            alive = [one for one in messages if one.state != ACTIVE or one.expires_at_ms > now_ms]
            visible = [one for one in alive if one.sequence_number not in self.pending]
            self.namespace.effects.reply(asker, [self._browsed_payload(one) for one in visible])

        self.queue.touch()
        limit = min(count, MAX_PEEK_MESSAGES)
        self.namespace.effects.queries.append(
            MessagesQuery(self.stream, after, self.tail, limit, MAX_PEEK_BYTES, session_id, False, answer)
        )

    def _browsed_payload(self, message: BrokeredMessage) -> bytes:
        """A message as it is browsed. A deferred one says until when it is locked; if nobody has it, that is over."""
        if message.state != DEFERRED:
            return message.unlocked_payload()
        lock = self.lock_of(message)
        return message.unlocked_payload(self.namespace.now_ms if lock is None else lock.locked_until_ms)

    def cancel_scheduled(self, sequence_numbers: list[int], asker: object) -> None:
        """All of these scheduled messages, or none, are never sent."""
        numbers = sorted({number & SEQUENCE_MASK for number in sequence_numbers})

        def answer(messages: list[BrokeredMessage]) -> None:
            if self.is_gone(asker):
                return
            try:
                require_scheduled(numbers, messages)
            except ProtocolError as error:
                self.namespace.effects.reply(asker, error)
                return
            for message in messages:
                self.remove(message)
            self.namespace.effects.reply(asker, None)

        self.queue.touch()
        self.namespace.effects.queries.append(RowsQuery(self.stream, numbers, 0, answer))

    def delete_batch(self, count: int, enqueued_before_ms: int, session_id: str | None, asker: object) -> None:
        """Delete messages that are neither locked nor put aside. Answered with how many were."""
        limits = self.namespace.limits
        most = limits.max_batch_delete_messages
        if not 1 <= count <= most:
            raise ArgumentOutOfRange(
                f"message-count is {count}; it must be from 1 to {most} in the tier {limits.name} of this namespace"
            )
        self.queue.touch()
        self._delete_page(count, 0, 0, enqueued_before_ms, session_id, asker)

    def _delete_page(
        self, count: int, deleted: int, after: int, enqueued_before_ms: int, session_id: str | None, asker: object
    ) -> None:
        limit = min(count - deleted, MAX_PAGE_MESSAGES)

        def answer(messages: list[BrokeredMessage]) -> None:
            if self.is_gone(asker):
                return
            gone = deleted
            for message in messages:
                if self.is_free(message):
                    self.drop_from_head(message)
                    self.remove(message)
                    gone += 1
            if len(messages) == limit and gone < count:
                last = messages[-1].sequence_number
                self._delete_page(count, gone, last, enqueued_before_ms, session_id, asker)
            else:
                self.namespace.effects.reply(asker, gone)

        self.namespace.effects.queries.append(
            EnqueuedBeforeQuery(self.stream, enqueued_before_ms, after, self.tail, limit, session_id, answer)
        )

    def lock_of(self, message: BrokeredMessage) -> Lock | None:
        """The lock that somebody has on a message."""
        outlet = self._outlet_of(message)
        return None if outlet is None else outlet.locks.held.get(message.sequence_number)

    def is_free(self, message: BrokeredMessage) -> bool:
        """Whether a message that was read from the store can be taken away: it is on disk, and nobody has it locked."""
        return message.sequence_number not in self.pending and self.lock_of(message) is None

    def drop_from_head(self, message: BrokeredMessage) -> None:
        """A message that is free goes, for whatever reason: nobody is to be given it from memory any more."""
        # Only active ones are ever in the head. Of others it would remember for ever that they are not to be given out.
        outlet = self._outlet_of(message) if message.state == ACTIVE else None
        if outlet is not None:
            outlet.head.drop(message.sequence_number)
            if self.cursors is not None:
                self.cursors.drop(message.sequence_number, outlet)

    def _outlet_of(self, message: BrokeredMessage) -> Outlet | None:
        """Where the message would go out; None if its session is not in memory, since nobody holds it."""
        if self.sessions is None:
            return self.outlet
        session = self.sessions.find(message.session_id)
        return None if session is None else session.outlet

    # --- time -----------------------------------------------------------------------------------------------

    def wake_at(self, at_ms: int) -> None:
        if at_ms < self._timer_ms:
            self._timer_ms = at_ms
            self.namespace.timers.set(at_ms, self)

    def on_time(self, now_ms: int) -> None:
        """Whatever has come due: locks, sessions, scheduled messages, expired messages."""
        self._timer_ms = NEVER_MS
        if self.queue.is_dropped:
            return
        if not self.is_dead_letter and not self.queue.on_time(now_ms):
            return
        for lock in self.outlet.locks.take_expired(now_ms):
            self.fail(lock)
        if self.sessions is not None:
            self.sessions.on_time(now_ms)
            self.wake_at(self.sessions.next_deadline_ms())
        self.wake_at(self.outlet.locks.next_expiry_ms())
        self.timetable.on_time(now_ms)

    def expire(self, message: BrokeredMessage) -> None:
        """The message's time to live is over."""
        if self.queue.description.dead_lettering_on_message_expiration:
            self.queue.dead_letter(
                self,
                message,
                {
                    DEAD_LETTER_REASON: "TTLExpiredException",
                    DEAD_LETTER_ERROR_DESCRIPTION: "The message expired and was dead lettered.",
                },
            )
        else:
            self.remove(message)

    def move_out(self, message: BrokeredMessage) -> int:
        """The message leaves for another stream. Returns the row it had."""
        self.counts.leave(message)
        return row_of(self.stream, message.sequence_number)

    def record_move(
        self, row: int, message: BrokeredMessage, properties: dict[str, object] | None, shared_body_number: int = 0
    ) -> None:
        """The message arrives here from another row."""
        message.stream = self.stream
        self.namespace.effects.changes.append(Move(row, message, properties, shared_body_number))


def _is_of(message: BrokeredMessage, session_id: str) -> bool:
    """Return whether a message belongs to a session."""
    return message.session_id is not None and session_key(message.session_id) == session_key(session_id)
