"""Reads what the engine decides, as it decides it, and judges it against the ledger.

A client announces what it asks for; the engine decides; the auditor then finds each decision in the effects and asks
why it was lawful: because it was asked for, because a lock, a message or a schedule ran out, or because a queue
forwards. What was asked for and not decided is found as well. Nothing is taken from the engine's own state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from tandem.addresses import subscription_path
from tandem.engine.description import QueueDescription
from tandem.engine.effects import (
    Change,
    DropQueue,
    DropRule,
    Effects,
    ForgetDuplicates,
    HandedOut,
    Move,
    PutQueue,
    PutRule,
    SetSessionState,
    SetState,
)
from tandem.engine.lock_table import Lock
from tandem.engine.message import ACTIVE, DEFERRED, SCHEDULED
from tandem.engine.rule import Rule
from tests.sim.arrivals import Arrivals, chosen
from tests.sim.ledger import DEAD, MAIN, Book, Entry, Hold, Ledger, Violation
from tests.sim.vocabulary import SimRule

if TYPE_CHECKING:
    from tests.sim.clients import Ask, Receiver
    from tests.sim.world import World

__all__ = ["Auditor"]

_NONE: Final[list[int]] = []


class Auditor:
    """The judge of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ledger: Ledger = world.ledger
        self.arrivals = Arrivals(world)
        # What clients have asked for and the engine is about to decide.
        self.sends = self.arrivals.sends
        self.cancelled = self.arrivals.cancelled
        self.settling: dict[int, str] = {}
        self.descriptions: dict[str, QueueDescription] = {}
        self.dropping: set[int] = set()
        # By the path of the subscription and the name; None if it shall go.
        self.rules: dict[tuple[str, str], SimRule | None] = {}
        self.session_states: list[tuple[int, str, bytes | None]] = []
        # Streams in which a batch delete goes on, with its bound in time and its session.
        self.deleting: dict[int, tuple[int, str | None]] = {}
        self.deleted_count = 0
        self.is_deleting = False
        self.taken: set[int] = set()
        self.handed: dict[HandedOut, tuple[int, int]] = {}
        self.handed_ever: set[int] = set()
        self.start(Effects())

    def start(self, effects: Effects) -> None:
        """The broker starts, with nothing decided yet."""
        self._effects = effects
        self._deliveries = effects.deliveries
        self._notices = effects.notices
        self._noticed = 0
        self._changed = self._removed = self._handed_out = self._replied = self._delivered = 0
        # Each by itself: mypy has no name for what they have in common.
        self.arrivals.start()
        self.settling.clear()
        self.dropping.clear()
        self.rules.clear()
        self.session_states.clear()
        self.deleting.clear()
        self.descriptions.clear()
        self.taken.clear()
        self.handed.clear()

    # --- reading effects ------------------------------------------------------------------------------------

    def audit(self) -> None:
        """Judge what was decided since the last time."""
        self.audit_written(self._world.namespace.effects)

    def audit_written(self, effects: Effects) -> None:
        """The same for effects that were taken from the engine to be written."""
        if effects is not self._effects:
            self._read(self._effects, is_current=False)
            self._effects = effects
            self._changed = self._removed = self._handed_out = self._replied = 0
            self.arrivals.begin()
        self._read(effects, is_current=True)

    def _read(self, effects: Effects, *, is_current: bool) -> None:
        removed = effects.removed[self._removed :] if len(effects.removed) > self._removed else _NONE
        self._removed += len(removed)
        moved = [change.message for change in effects.changes[self._changed :] if isinstance(change, Move)]
        self.ledger.arriving_bytes = sum([one.size_bytes for one in moved + self.arrivals.news(effects)])
        if removed or self.arrivals.has_news(effects):
            self.arrivals.read(effects, removed, is_current=is_current)
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
        self.ledger.arriving_bytes = 0
        handed = self._read_given(effects)
        for row in removed:
            self._judge_removed(row)
        if self.ledger.numbered:
            for book, seq in self.ledger.numbered:
                book.last_seq = max(book.last_seq, seq)
            self.ledger.numbered.clear()
        if drops:
            # The last of it: what was left of the queues went before.
            self._judge_drops([drop.number for drop in drops])
        for item in handed:
            uid, _ = self.handed[item]
            if uid in self.taken:
                raise Violation("receive-and-delete deletes", f"message {uid} was handed out and is still there")
            self.handed[item] = (uid, self.ledger.position)
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
            (item.consumer.subqueue.stream, item.message.sequence_number, item) for item in handed
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
            description = self._described(change)
            if (description.kind, description.to_fields()) != (change.kind, change.fields):
                raise Violation(
                    "queues are what they were made", f"{change.fields} instead of {description.to_fields()}"
                )
            ledger.put_queue(change.number, description, self._now())
        elif isinstance(change, PutRule):
            self._judge_rule(change.queue_number, change.name, change.fields)
        elif isinstance(change, DropRule):
            self._judge_rule(change.queue_number, change.name, None)
        elif isinstance(change, ForgetDuplicates):
            window_ms = ledger.books[change.queue_number].description.duplicate_detection_history_time_window_ms
            if change.before_ms > self._now() - window_ms:
                raise Violation(
                    "duplicates within the window appear once", f"queue {change.queue_number} forgets ids too early"
                )
            self.arrivals.forgotten.append(change)

    def _described(self, change: PutQueue) -> QueueDescription:
        topic_name = change.fields.get("topic_name")
        name = str(change.fields["name"])
        return self.descriptions.pop(name if topic_name is None else subscription_path(str(topic_name), name))

    def _judge_rule(self, number: int, name: str, fields: dict[str, object] | None) -> None:
        ledger = self.ledger
        path = ledger.books[number].description.name
        wanted = self.rules.pop((path, name.lower()), False)
        if wanted is False or (wanted is None) is not (fields is None):
            raise Violation("rules are what they were made", f"nobody asked for {name} of {path}: {fields}")
        if wanted is not None:
            assert isinstance(wanted, SimRule)
            if fields != Rule.from_fields(name, wanted.fields, 0).to_fields():
                raise Violation("rules are what they were made", f"{fields} instead of {wanted}")
        ledger.put(ledger.rules, (number, name.lower()), wanted)

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
        entry.content = entry.content.with_user(change.properties)
        entry.unlock()
        ledger.make_available(entry)

    def _limit(self, entry: Entry) -> int:
        return self.ledger.books[entry.stream >> 2].description.max_delivery_count

    def _judge_move(self, change: Move) -> None:
        ledger = self.ledger
        entry = self._at(change.row)
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
        self._move(entry, change, source, is_dead, count)

    def _move(self, entry: Entry, change: Move, source: Book, is_dead: bool, count: int) -> None:
        ledger = self.ledger
        message = change.message
        is_own_dead = is_dead and message.stream == source.number << 2 | DEAD
        if is_dead:
            stops = ledger.dead_letter_stops(source, entry)
        else:
            # A message that comes back to a queue which forwards has no bytes at hand that say when it is wanted.
            stops = ledger.stops(source, entry, self._now()) + ledger.stops(source, entry)
        stop = chosen(stops, message)
        was_visible = ledger.is_visible(entry)
        ledger.touch(entry)
        entry.unlock()
        entry.state = ACTIVE
        entry.due_ms = 0
        entry.content = entry.content.with_user(change.properties)
        left = entry.body if stop.book is not source else None
        if left is not None:
            # What it shared belongs to its topic: from here on it has bytes of its own.
            entry.body = None
        if change.shared_body_number != (0 if left is None else left.number):
            raise Violation("copies share their bytes", f"{entry} left body {change.shared_body_number}")
        # A message that was forwarded begins anew.
        entry.delivery_count = count if is_own_dead else 0
        enqueued_ms = entry.enqueued_ms
        self.arrivals.come_to_rest(entry, stop)
        if not is_own_dead:
            ledger.number(message.stream, message.sequence_number)
        else:
            entry.enqueued_ms = enqueued_ms
            if message.sequence_number != entry.seq:
                raise Violation("a dead letter keeps its number", f"{entry} became {message.sequence_number}")
        ledger.enter(entry, stop.stream, message.sequence_number)
        self.arrivals.compare(entry, message)
        if not is_own_dead or not was_visible:
            ledger.await_commit(entry)
        else:
            ledger.make_available(entry)

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
        elif entry.uid in self.arrivals.published:
            self.arrivals.published.discard(entry.uid)
            fate = "published"
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
        row = receiver.stream << 44 | item.message.sequence_number
        entry = self._judge_given(row, item.payload, receiver, is_deleting=True)
        if entry.uid in self.handed_ever:
            raise Violation("receive-and-delete hands out once", repr(entry))
        self.handed[item] = (entry.uid, 0)
        self.taken.add(entry.uid)

    def released_hand_out(self, item: HandedOut) -> int:
        """A message that was received and deleted goes out."""
        uid, position = self.handed.pop(item)
        if position > self.ledger.committed_position:
            raise Violation(
                "receive-and-delete hands out once", f"message {uid} went out before its removal was on disk"
            )
        if uid in self.handed_ever:
            raise Violation("receive-and-delete hands out once", f"message {uid} was handed out twice")
        self.handed_ever.add(uid)
        return uid

    def _judge_drops(self, numbers: list[int]) -> None:
        ledger = self.ledger
        for number in numbers:
            book = ledger.books[number]
            topic = ledger.find(book.topic_name)
            if number in self.dropping:
                self.dropping.discard(number)
            elif topic is None or topic.number not in numbers:
                self._world.judge_idle(book)
        for number in numbers:
            ledger.drop_queue(number)

    # --- messages that are given ----------------------------------------------------------------------------

    def _judge_given(self, row: int, payload: bytes, receiver: Receiver, *, is_deleting: bool) -> Entry:
        """What holds for every message that goes to a receiver, under a lock or for good."""
        ledger = self.ledger
        sent = int.from_bytes(payload[-8:], "big")
        entry = ledger.by_row.get(row)
        if entry is None or entry.sent != sent:
            fate = ledger.fates.get(sent, "unknown")
            raise Violation(
                "nothing completed and acknowledged is seen again", f"message {sent} is {fate}, and delivered"
            )
        uid = entry.uid
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
        entry = self._judge_given(lock.message.row, lock.payload, receiver, is_deleting=False)
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


def _place(given: tuple[int, int, HandedOut | Lock]) -> tuple[int, int]:
    return given[:2]
