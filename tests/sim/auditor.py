"""Reads what the engine decides, as it decides it, and judges it against the ledger.

A client announces what it asks for; the engine decides; the auditor then finds each decision in the effects and asks
why it was lawful: because it was asked for, because a lock, a message or a schedule ran out, or because a queue
forwards. What was asked for and not decided is found as well. Nothing is taken from the engine's own state.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, cast

from tandem.engine.description import QueueDescription
from tandem.engine.effects import (
    Change,
    DropQueue,
    Effects,
    ForgetDuplicates,
    HandedOut,
    Move,
    PutQueue,
    SetSessionState,
    SetState,
)
from tandem.engine.lock_table import Lock
from tandem.engine.message import ACTIVE, DEFERRED, NEVER_MS, SCHEDULED, BrokeredMessage
from tests.sim.ledger import DEAD, MAIN, TRANSFER, Book, DuplicateKey, Entry, Hold, Ledger, Violation

if TYPE_CHECKING:
    from tests.sim.clients import Ask, Receiver
    from tests.sim.world import World

__all__ = ["Auditor", "SendIntent"]


class SendIntent(NamedTuple):
    """A message that a client sends."""

    uid: int
    number: int
    size_bytes: int
    message_id: str
    group_id: str | None
    time_to_live_ms: int
    # Zero if it is not scheduled.
    due_ms: int
    destination: str | None


class Auditor:
    """The judge of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ledger: Ledger = world.ledger
        # What clients have asked for and the engine is about to decide.
        self.sends: dict[int, SendIntent] = {}
        self.settling: dict[int, str] = {}
        self.descriptions: dict[str, QueueDescription] = {}
        self.dropping: set[int] = set()
        self.session_states: list[tuple[int, str, bytes | None]] = []
        # Streams in which a batch delete goes on, with its bound in time and its session.
        self.deleting: dict[int, tuple[int, str | None]] = {}
        self.deleted_count = 0
        self.is_deleting = False
        self.cancelled: set[int] = set()
        self.taken: set[int] = set()
        self.handed: dict[bytes, tuple[int, int]] = {}
        self.handed_ever: set[int] = set()
        self._unjudged: dict[int, tuple[Entry, int]] = {}
        self._forgotten: list[ForgetDuplicates] = []
        self.start(Effects())

    def start(self, effects: Effects) -> None:
        """The broker starts, with nothing decided yet."""
        self._effects = effects
        self._deliveries = effects.deliveries
        self._notices = effects.notices
        self._noticed = 0
        self._appended = self._changed = self._removed = self._handed_out = self._replied = self._delivered = 0
        # Each by itself: mypy has no name for what they have in common.
        self.sends.clear()
        self.settling.clear()
        self.dropping.clear()
        self.session_states.clear()
        self.deleting.clear()
        self.descriptions.clear()
        self.cancelled.clear()
        self.taken.clear()
        self.handed.clear()
        self._unjudged.clear()
        self._forgotten.clear()

    # --- reading effects ------------------------------------------------------------------------------------

    def audit(self) -> None:
        """Judge what was decided since the last time."""
        self.audit_written(self._world.namespace.effects)

    def audit_written(self, effects: Effects) -> None:
        """The same for effects that were taken from the engine to be written."""
        if effects is not self._effects:
            self._read(self._effects)
            self._effects = effects
            self._appended = self._changed = self._removed = self._handed_out = self._replied = 0
        self._read(effects)

    def _read(self, effects: Effects) -> None:
        if len(effects.appended) > self._appended:
            fresh = effects.appended[self._appended :]
            self._appended += len(fresh)
            for message in fresh:
                self._judge_appended(message)
        drops: list[DropQueue] = []
        if len(effects.changes) > self._changed:
            changes = effects.changes[self._changed :]
            self._changed += len(changes)
            drops = [change for change in changes if isinstance(change, DropQueue)]
            for change in changes:
                # Once its end is decided, nothing is forwarded to a queue any more.
                if isinstance(change, DropQueue):
                    self.ledger.doomed.add(change.number)
                else:
                    self._judge_change(change)
            self.ledger.doomed.clear()
        handed = self._read_given(effects)
        if len(effects.removed) > self._removed:
            removed = effects.removed[self._removed :]
            self._removed += len(removed)
            for row in removed:
                self._judge_removed(row)
        if self.ledger.numbered:
            for book, seq in self.ledger.numbered:
                book.last_seq = max(book.last_seq, seq)
            self.ledger.numbered.clear()
        for drop in drops:
            # The last of it: what was left of the queue went before.
            self._judge_drop(drop.number)
        for item in handed:
            uid, _ = self.handed[item.tag]
            if uid in self.taken:
                raise Violation("receive-and-delete deletes", f"message {uid} was handed out and is still there")
            self.handed[item.tag] = (uid, self.ledger.position)
        if effects.notices is not self._notices:
            self._notices = effects.notices
            self._noticed = 0
        if len(effects.notices) > self._noticed:
            notices = effects.notices[self._noticed :]
            self._noticed += len(notices)
            for notice in notices:
                cast("Receiver", notice.consumer.context).judge(notice)
        if len(effects.replies) > self._replied:
            replies = effects.replies[self._replied :]
            self._replied += len(replies)
            for asker, answer in replies:
                cast("Ask", asker).decided(answer)

    def _read_given(self, effects: Effects) -> list[HandedOut]:
        """Messages that go to receivers, in the order of their numbers: that is how a queue gives them."""
        handed = effects.handed_out[self._handed_out :]
        self._handed_out += len(handed)
        if effects.deliveries is not self._deliveries:
            self._deliveries = effects.deliveries
            self._delivered = 0
        locks = effects.deliveries[self._delivered :]
        self._delivered += len(locks)
        if not handed:
            for lock in locks:
                self._judge_delivery(lock)
            return handed
        given: list[tuple[int, int, HandedOut | Lock]] = [
            (item.consumer.subqueue.stream, int.from_bytes(item.tag[8:], "big"), item) for item in handed
        ]
        given += [(lock.outlet.subqueue.stream, lock.message.sequence_number, lock) for lock in locks]
        for _, _, one in sorted(given, key=_place):
            if isinstance(one, Lock):
                self._judge_delivery(one)
            else:
                self._judge_handed_out(one)
        return handed

    def expect_nothing_more(self) -> None:
        """All that was asked for has been decided."""
        if self.sends:
            raise Violation("nothing acknowledged is lost", f"{list(self.sends.values())} were taken and not written")
        if self.settling:
            uid, how = next(iter(self.settling.items()))
            raise Violation("a settlement is carried out", f"{how} of message {uid} was accepted and nothing was done")

    def _now(self) -> int:
        return self._world.now_ms

    def _at(self, row: int) -> Entry:
        entry = self.ledger.by_row.get(row)
        if entry is None:
            raise Violation(
                "every message has one place",
                f"the engine writes to row {row >> 44}/{row & (1 << 44) - 1}, where none is",
            )
        return entry

    # --- messages that come ---------------------------------------------------------------------------------

    def _judge_appended(self, message: BrokeredMessage) -> None:
        ledger = self.ledger
        now_ms = self._now()
        assert message.stored is not None
        uid = int.from_bytes(message.stored.bare[-8:], "big")
        intent = self.sends.pop(uid, None)
        if intent is None:
            raise Violation("a message comes only from a sender", f"message {uid} was written and not sent just now")
        entry = Entry(uid)
        ledger.touch(entry)
        entry.size_bytes = intent.size_bytes
        entry.time_to_live_ms = intent.time_to_live_ms
        entry.enqueued_ms = now_ms
        entry.session_id = intent.group_id
        source = ledger.books[intent.number]
        source.accessed_ms = now_ms
        if intent.due_ms:
            entry.state = SCHEDULED
            entry.due_ms = intent.due_ms
            book, kind, keys = source, MAIN, self._keys([source], intent, is_sent=True)
        elif intent.destination is not None:
            book, kind, keys = self._transfer(source, entry, intent, message)
        else:
            book, kind, keys = self._route(source, entry, intent, message, is_sent=True)
        description = book.description
        if kind != MAIN or not description.requires_session:
            entry.session_id = None
        entry.expires_ms = self._expiry(entry, description, now_ms) if kind == MAIN else NEVER_MS
        entry.duplicate_keys = keys
        ledger.number(book.number << 2, message.sequence_number)
        ledger.enter(entry, book.number << 2 | kind, message.sequence_number)
        ledger.await_commit(entry)
        self._compare(entry, message)
        if (message.duplicate_keys or []) != keys:
            raise Violation(
                "duplicates are told by their keys", f"{message.duplicate_keys} instead of {keys} of {entry}"
            )
        self._unjudged[entry.row] = (entry, uid)

    def _keys(self, books: list[Book], intent: SendIntent, *, is_sent: bool) -> list[DuplicateKey]:
        """The first of these queues is the one that the message was sent to, or all were forwarded to."""
        keys: list[DuplicateKey] = []
        for index, book in enumerate(books):
            description = book.description
            if description.requires_duplicate_detection:
                key = intent.message_id
                # Messages with the same id and different keys lie in different partitions.
                if is_sent and index == 0 and description.enable_partitioning and intent.group_id is not None:
                    key = f"{intent.group_id}\x00{key}"
                keys.append((book.number, key, description.duplicate_detection_history_time_window_ms))
        return keys

    def _route(
        self, book: Book, entry: Entry, intent: SendIntent, message: BrokeredMessage, *, is_sent: bool
    ) -> tuple[Book, int, list[DuplicateKey]]:
        """Where a new message goes, and which detections of duplicates it passes on its way."""
        ledger = self.ledger
        passed = [book]
        while book.description.forward_to is not None:
            target = ledger.find(book.description.forward_to)
            if entry.hops >= 4 or target is None or ledger.refusal(target, entry) is not None:
                return book, DEAD, self._keys(passed, intent, is_sent=is_sent)
            is_stopped = message.stream == book.number << 2 | DEAD and message.hop_count == entry.hops
            if is_stopped and ledger.is_full(target, entry.size_bytes):
                return book, DEAD, self._keys(passed, intent, is_sent=is_sent)
            entry.hops += 1
            book = target
            passed.append(book)
        return book, MAIN, self._keys(passed, intent, is_sent=is_sent)

    def _transfer(
        self, source: Book, entry: Entry, intent: SendIntent, message: BrokeredMessage
    ) -> tuple[Book, int, list[DuplicateKey]]:
        """A message that is sent by way of another queue."""
        target = self.ledger.find(intent.destination)
        first = self._keys([source], intent, is_sent=True)
        is_stopped = message.stream == source.number << 2 | TRANSFER
        if target is None or self.ledger.refusal(target, entry) is not None:
            return source, TRANSFER, first
        if is_stopped and self.ledger.is_full(target, entry.size_bytes):
            return source, TRANSFER, first
        book, kind, keys = self._route(target, entry, intent, message, is_sent=False)
        return book, kind, first + keys

    def _expiry(self, entry: Entry, description: QueueDescription, now_ms: int) -> int:
        default_ms = description.default_message_time_to_live_ms
        life_ms = min(entry.time_to_live_ms, NEVER_MS if default_ms is None else default_ms)
        start_ms = entry.due_ms if entry.state == SCHEDULED else now_ms
        return NEVER_MS if life_ms >= NEVER_MS else start_ms + life_ms

    def _compare(self, entry: Entry, message: BrokeredMessage) -> None:
        """What the engine wants written is what the ledger says."""
        actual = (
            message.stream,
            message.sequence_number,
            message.state,
            message.delivery_count,
            message.session_id,
            message.size_bytes,
            message.hop_count,
            message.enqueued_time_ms,
            message.expires_at_ms,
            message.due_at_ms if message.state == SCHEDULED else 0,
        )
        expected = (
            entry.stream,
            entry.seq,
            entry.state,
            entry.delivery_count,
            entry.session_id,
            entry.size_bytes,
            entry.hops,
            entry.enqueued_ms,
            entry.expires_ms,
            entry.due_ms,
        )
        if actual != expected:
            names = (
                "stream",
                "number",
                "state",
                "delivery count",
                "session",
                "size",
                "hops",
                "enqueued",
                "expiry",
                "due",
            )
            wrong = [f"{name} {a} instead of {e}" for name, a, e in zip(names, actual, expected, strict=True) if a != e]
            raise Violation(
                _INVARIANT_OF.get(wrong[0].split(" ")[0], "a message is kept as it is"), f"{entry}: {wrong}"
            )

    # --- messages that change -------------------------------------------------------------------------------

    def _judge_change(self, change: Change) -> None:
        ledger = self.ledger
        if isinstance(change, SetState):
            self._judge_state(change)
        elif isinstance(change, Move):
            self._judge_move(change)
        elif isinstance(change, SetSessionState):
            expected = (change.stream, change.session_id, change.state)
            if expected not in self.session_states:
                raise Violation("session state is what was set", f"{expected} was not asked for")
            self.session_states.remove(expected)
            ledger.put(ledger.session_states, (change.stream, change.session_id), change.state or None)
        elif isinstance(change, PutQueue):
            description = self.descriptions.pop(str(change.fields["name"]))
            if description.to_fields() != change.fields:
                raise Violation(
                    "queues are what they were made", f"{change.fields} instead of {description.to_fields()}"
                )
            ledger.put_queue(change.number, description, self._now())
        elif isinstance(change, ForgetDuplicates):
            window_ms = ledger.books[change.queue_number].description.duplicate_detection_history_time_window_ms
            if change.before_ms > self._now() - window_ms:
                raise Violation(
                    "duplicates within the window appear once", f"queue {change.queue_number} forgets ids too early"
                )
            self._forgotten.append(change)

    def _is_lock_over(self, entry: Entry) -> bool:
        """Whether the lock of a message has run out, so that the engine may act on its own."""
        if entry.lock is None:
            return False
        now_ms = self._now()
        transaction = entry.transaction
        if transaction is not None and transaction.deadline_ms > now_ms and transaction.is_open:
            return False
        until_ms = entry.holder.until_ms if isinstance(entry.holder, Hold) else entry.until_ms
        return until_ms <= now_ms

    def _judge_state(self, change: SetState) -> None:
        entry = self._at(change.row)
        how = self.settling.pop(entry.uid, None)
        if how is None and self._is_lock_over(entry):
            how = "abandon"
        if how == "defer":
            # It was delivered, and not completed.
            state, count = DEFERRED, entry.delivery_count + 1
        elif how == "abandon":
            # Dead letters are not counted any more: there is nowhere else to put them.
            state, count = entry.state, entry.delivery_count + (entry.kind == MAIN)
            if entry.kind == MAIN and count >= self._limit(entry):
                raise Violation("the dead-letter queue gets what failed too often", f"{entry} stays in its queue")
        else:
            raise Violation("a message changes only for a reason", f"{entry} was given a new state")
        if (change.state, change.delivery_count) != (state, count):
            raise Violation(
                "the delivery count is exact",
                f"{entry} got state {change.state} and count {change.delivery_count} instead of {state} and {count}",
            )
        ledger = self.ledger
        ledger.touch(entry)
        entry.state = state
        entry.delivery_count = count
        entry.unlock()
        ledger.make_available(entry)

    def _limit(self, entry: Entry) -> int:
        return self.ledger.books[entry.stream >> 2].description.max_delivery_count

    def _judge_move(self, change: Move) -> None:
        ledger = self.ledger
        entry = self._at(change.row)
        message = change.message
        how = self.settling.pop(entry.uid, None)
        source = ledger.books[entry.stream >> 2]
        is_dead = False
        count = entry.delivery_count
        if how == "dead-letter":
            is_dead = True
        elif how == "abandon" or (how is None and self._is_lock_over(entry)):
            count += 1
            is_dead = True
            if count < self._limit(entry):
                raise Violation("the delivery count is exact", f"{entry} was dead-lettered too early")
        elif entry.lock is not None:
            raise Violation("a locked message stays where it is", f"{entry} was moved")
        elif entry.state == SCHEDULED:
            if entry.due_ms > self._now():
                raise Violation("no scheduled message appears early", f"{entry} is due at {entry.due_ms}")
        elif entry.state == ACTIVE and entry.expires_ms <= self._now() and entry.kind == MAIN:
            is_dead = source.description.dead_lettering_on_message_expiration
            if not is_dead and source.description.forward_to is None:
                raise Violation("a message changes only for a reason", f"{entry} expired and was moved")
        elif entry.kind != MAIN or source.description.forward_to is None:
            raise Violation("a message changes only for a reason", f"{entry} was moved")
        if is_dead and entry.kind != MAIN:
            raise Violation("a dead letter dies once", repr(entry))
        self._move(entry, message, source, is_dead, count)

    def _move(self, entry: Entry, message: BrokeredMessage, source: Book, is_dead: bool, count: int) -> None:
        ledger = self.ledger
        is_own_dead = is_dead and message.stream == source.number << 2 | DEAD
        book, kind, hops = ledger.dead_letter_route(source, entry) if is_dead else ledger.route(source, entry)
        stop = message.stream
        is_predicted = (stop, message.hop_count) == (book.number << 2 | kind, hops)
        if not is_predicted and stop & 3 == DEAD and self._is_stopped_by_size(source, stop, entry):
            book, kind, hops = ledger.books[stop >> 2], DEAD, message.hop_count
        was_visible = ledger.is_visible(entry)
        ledger.touch(entry)
        entry.unlock()
        entry.state = ACTIVE
        entry.due_ms = 0
        entry.hops = hops
        # A message that was forwarded begins anew.
        entry.delivery_count = count if is_own_dead else 0
        if not is_own_dead:
            entry.enqueued_ms = self._now()
            ledger.number(message.stream, message.sequence_number)
        elif message.sequence_number != entry.seq:
            raise Violation("a dead letter keeps its number", f"{entry} became {message.sequence_number}")
        description = book.description
        if kind != MAIN or (not description.requires_session and book is not source):
            entry.session_id = None
        entry.expires_ms = self._expiry(entry, description, self._now()) if kind == MAIN else NEVER_MS
        ledger.enter(entry, book.number << 2 | kind, message.sequence_number)
        self._compare(entry, message)
        if not is_own_dead or not was_visible:
            ledger.await_commit(entry)
        else:
            ledger.make_available(entry)

    def _is_stopped_by_size(self, source: Book, stop: int, entry: Entry) -> bool:
        """Whether a message may have ended in this dead-letter queue because the next queue is full."""
        ledger = self.ledger
        book = ledger.books.get(stop >> 2)
        if book is None:
            return False
        names = [book.description.forward_to]
        if book is source:
            names.append(book.description.forward_dead_lettered_messages_to)
        targets = [ledger.find(name) for name in names]
        return any(target is not None and ledger.is_full(target, entry.size_bytes) for target in targets)

    # --- messages that go -----------------------------------------------------------------------------------

    def _judge_removed(self, row: int) -> None:
        entry = self._at(row)
        how = self.settling.pop(entry.uid, None)
        now_ms = self._now()
        if how == "complete":
            fate = "completed"
        elif how is not None:
            raise Violation("a settlement is carried out", f"{how} of {entry} removed it")
        elif entry.uid in self.taken:
            self.taken.discard(entry.uid)
            fate = "received and deleted"
        elif entry.uid in self.cancelled and entry.state == SCHEDULED:
            self.cancelled.discard(entry.uid)
            fate = "cancelled"
        elif entry.lock is not None:
            raise Violation("a locked message stays where it is", f"{entry} was removed")
        elif self.is_deleting and entry.stream in self.deleting and entry.state == ACTIVE:
            before_ms, session_id = self.deleting[entry.stream]
            if entry.enqueued_ms > before_ms or (session_id is not None and entry.session_id != session_id):
                raise Violation("batch delete deletes what it was asked to", repr(entry))
            self.deleted_count += 1
            fate = "deleted"
        elif entry.state == ACTIVE and entry.expires_ms <= now_ms and entry.kind == MAIN:
            if self.ledger.books[entry.stream >> 2].description.dead_lettering_on_message_expiration:
                raise Violation("nothing acknowledged is lost", f"{entry} expired and was not dead-lettered")
            fate = "expired"
        else:
            raise Violation("nothing acknowledged is lost", f"{entry} was removed without a reason")
        self.ledger.remove(entry, fate)

    def _judge_handed_out(self, item: HandedOut) -> None:
        receiver = cast("Receiver", item.consumer.context)
        entry = self._judge_given(item.payload, receiver, is_deleting=True)
        if entry.uid in self.handed_ever:
            raise Violation("receive-and-delete hands out once", repr(entry))
        self.handed[item.tag] = (entry.uid, 0)
        self.taken.add(entry.uid)

    def released_hand_out(self, item: HandedOut) -> int:
        """A message that was received and deleted goes out."""
        uid, position = self.handed.pop(item.tag)
        if position > self.ledger.committed_position:
            raise Violation(
                "receive-and-delete hands out once", f"message {uid} went out before its removal was on disk"
            )
        if uid in self.handed_ever:
            raise Violation("receive-and-delete hands out once", f"message {uid} was handed out twice")
        self.handed_ever.add(uid)
        return uid

    def _judge_drop(self, number: int) -> None:
        ledger = self.ledger
        if number in self.dropping:
            self.dropping.discard(number)
        else:
            self._world.judge_idle(ledger.books[number])
        ledger.drop_queue(number)

    # --- messages that are given ----------------------------------------------------------------------------

    def _judge_given(self, payload: bytes, receiver: Receiver, *, is_deleting: bool) -> Entry:
        """What holds for every message that goes to a receiver, under a lock or for good."""
        ledger = self.ledger
        uid = int.from_bytes(payload[-8:], "big")
        entry = ledger.entries.get(uid)
        if entry is None:
            fate = ledger.fates.get(uid, "unknown")
            raise Violation(
                "nothing completed and acknowledged is seen again", f"message {uid} is {fate}, and delivered"
            )
        if entry.stream != receiver.stream or entry.state != ACTIVE:
            raise Violation("a message is delivered from where it is", f"{entry} to a receiver of {receiver.stream}")
        if entry.lock is not None or uid in self.taken:
            raise Violation("one consumer at a time holds a message", repr(entry))
        if not ledger.is_visible(entry):
            raise Violation("no message is visible before its commit", repr(entry))
        now_ms = self._now()
        if entry.expires_ms <= now_ms:
            raise Violation("no expired message is delivered", f"{entry} at {now_ms}")
        if entry.session_id != receiver.session_id:
            raise Violation("a session has one receiver", f"{entry} to the receiver of {receiver.session_id}")
        if receiver.credit <= 0 or receiver.deletes is not is_deleting:
            raise Violation("a receiver gets what it asked for", f"{entry} with credit {receiver.credit}")
        receiver.credit -= 1
        first = ledger.first_available(entry.stream, entry.session_id, now_ms)
        if first is not entry and (first is None or first.uid not in self.taken):
            raise Violation("first in, first out", f"{entry} was delivered before {first}")
        # The last of the five fields of the header, at its end.
        count = entry.delivery_count
        end = 5 + payload[4]
        encoded = b"\x43" if count == 0 else bytes((0x52, count))
        if payload[end - len(encoded) : end] != encoded:
            raise Violation("the delivery count is exact", f"{entry} was delivered as {payload[:end].hex()}")
        return entry

    def _judge_delivery(self, lock: Lock) -> None:
        """A message was locked for a receiver."""
        assert lock.consumer is not None
        receiver = cast("Receiver", lock.consumer.context)
        entry = self._judge_given(lock.payload, receiver, is_deleting=False)
        if entry.kind == MAIN and entry.delivery_count >= self.ledger.books[entry.stream >> 2].max_delivery_ever:
            raise Violation("the dead-letter queue gets what failed too often", f"{entry} was delivered")
        self.lock(entry, lock, receiver)

    def lock(self, entry: Entry, lock: Lock, receiver: Receiver | None) -> None:
        """Enter that a message is locked, and check for how long."""
        ledger = self.ledger
        if lock.message.row != entry.row:
            raise Violation("a message is delivered from where it is", f"{entry} has a lock on row {lock.message.row}")
        hold: Hold | None = None
        if entry.session_id is not None:
            hold = ledger.holds.get((entry.stream, entry.session_id))
            if hold is None:
                raise Violation("a session has one receiver", f"{entry} is locked and nobody holds its session")
        if hold is not None:
            until_ms = hold.until_ms
        else:
            until_ms = self._now() + ledger.books[entry.stream >> 2].description.lock_duration_ms
        if lock.locked_until_ms != until_ms and not (hold is not None and hold.was_enlisted):
            raise Violation(
                "a lock lasts as long as it was promised", f"{lock.locked_until_ms} not {until_ms}: {entry}"
            )
        entry.lock = lock
        entry.until_ms = until_ms
        entry.holder = hold if hold is not None else receiver

    # --- duplicates -----------------------------------------------------------------------------------------

    def judge_duplicates(self, effects: Effects, duplicates: Collection[int]) -> None:
        """A batch was written, and these of its messages were not, for being duplicates."""
        ledger = self.ledger
        for message in effects.appended:
            entry, uid = self._unjudged.pop(message.row)
            is_new = True
            is_known = True
            for number, key, window_ms in entry.duplicate_keys:
                if number not in ledger.books:
                    # Sent, and this queue deleted, in one batch: what it knew of its messages is gone as well.
                    is_known = False
                    continue
                seen_ms = cast("int | None", ledger.seen.get((number, key)))
                if seen_ms is None or seen_ms <= message.enqueued_time_ms - window_ms:
                    ledger.put(ledger.seen, (number, key), message.enqueued_time_ms)
                else:
                    is_new = False
            if not is_known:
                is_new = is_new and message.row not in duplicates
            elif is_new != (message.row not in duplicates):
                what = "appears twice" if not is_new else "was taken for one"
                raise Violation(
                    "duplicates within the window appear once", f"message {uid}, {entry.duplicate_keys}, {what}"
                )
            if not is_new and entry.stream >= 0:
                ledger.remove(entry, "a duplicate")
        for change in self._forgotten:
            for place, seen in list(ledger.seen.items()):
                if cast("tuple[int, str]", place)[0] == change.queue_number and cast("int", seen) <= change.before_ms:
                    ledger.put(ledger.seen, place, None)
        self._forgotten.clear()


def _place(given: tuple[int, int, HandedOut | Lock]) -> tuple[int, int]:
    return given[:2]


_INVARIANT_OF = {
    "delivery": "the delivery count is exact",
    "stream": "a message goes where its queue sends it",
    "expiry": "a message lives as long as it was promised",
    "due": "no scheduled message appears early",
    "state": "no scheduled message appears early",
}
