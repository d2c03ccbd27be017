"""What the broker must hold: every message, where it is, and what became of it.

The ledger shares nothing with the engine but the words. What happens is entered by the auditor in the order in which
the engine decides it. Whatever is on disk only with the next commit is in a log as well, with what it was before, so
that a crash can be undone here as it is undone on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from tandem.engine.description import QueueDescription
from tandem.engine.message import ACTIVE, DEFERRED, NEVER_MS, SCHEDULED, SEQUENCE_BITS
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tests.sim.published_counts import PublishedCounts
from tests.sim.violation import Violation
from tests.sim.vocabulary import Content, SimRule

if TYPE_CHECKING:
    from tandem.engine.lock_table import Lock
    from tests.sim.clients import Receiver, SimTransaction

__all__ = ["MAIN", "Body", "Book", "Entry", "Hold", "Ledger", "Stop", "Totals", "Violation"]

MAIN: Final = 0
DEAD: Final = 1
TRANSFER: Final = 2

# The service's figure, stated here once more on purpose.
HOPS: Final = 4

# Copies of a message are told apart by what is above these bits of their ids; below is the id that was sent.
_SENT_BITS: Final = 48

DuplicateKey = tuple[int, str, int]


class Body:
    """The bytes of a published message, which several of its copies share."""

    __slots__ = ("number", "size_bytes", "stream")

    def __init__(self, number: int, stream: int, size_bytes: int) -> None:
        self.number = number
        # That of the topic, to which it is counted.
        self.stream = stream
        self.size_bytes = size_bytes


class Entry:
    """One message."""

    __slots__ = (
        "body",
        "content",
        "delivery_count",
        "due_ms",
        "duplicate_keys",
        "enqueued_ms",
        "expires_ms",
        "holder",
        "hops",
        "is_acknowledged",
        "is_settlement_acknowledged",
        "lock",
        "scheduled_ms",
        "sent",
        "seq",
        "session_id",
        "size_bytes",
        "state",
        "stream",
        "time_to_live_ms",
        "transaction",
        "uid",
        "until_ms",
        "visible_at",
    )

    def __init__(self, uid: int, content: Content) -> None:
        self.uid = uid
        # The id that its body ends with. Copies of one message have it in common.
        self.sent = uid & (1 << _SENT_BITS) - 1
        self.content = content
        # When its sender, or an action, wants it enqueued: where it is forwarded to, that counts once more.
        self.scheduled_ms = 0
        self.body: Body | None = None
        # Below zero: there is no such message, not yet or not any more.
        self.stream = -1
        self.seq = 0
        self.state = ACTIVE
        self.delivery_count = 0
        self.session_id: str | None = None
        self.size_bytes = 0
        self.time_to_live_ms = NEVER_MS
        self.expires_ms = NEVER_MS
        self.due_ms = 0
        self.enqueued_ms = 0
        self.hops = 0
        self.duplicate_keys: list[DuplicateKey] = []
        # The position in the log that has to be on disk before anybody may see the message here.
        self.visible_at = 0
        self.is_acknowledged = False
        self.is_settlement_acknowledged = False
        # Locks are not on disk.
        self.lock: Lock | None = None
        self.until_ms = 0
        self.holder: Receiver | Hold | None = None
        self.transaction: SimTransaction | None = None

    @property
    def row(self) -> int:
        return self.stream << SEQUENCE_BITS | self.seq

    @property
    def kind(self) -> int:
        return self.stream & 3

    @property
    def held_bytes(self) -> int:
        """What it adds to the size of its queue."""
        return 0 if self.body is not None else self.size_bytes

    def unlock(self) -> None:
        self.lock = None
        self.holder = None
        self.transaction = None

    def __repr__(self) -> str:
        state = ("active", "deferred", "scheduled")[self.state]
        lock = "" if self.lock is None else f" locked until {self.until_ms}"
        session = "" if self.session_id is None else f" of session {self.session_id}"
        return (
            f"<message {self.uid} in stream {self.stream} as {self.seq}: {state}{session}, delivered "
            f"{self.delivery_count} times, expires {self.expires_ms}{lock}>"
        )


class Hold:
    """A session that a receiver holds."""

    __slots__ = ("grace_ms", "receiver", "session_id", "stream", "until_ms", "was_enlisted")

    def __init__(self, stream: int, session_id: str, receiver: Receiver, until_ms: int) -> None:
        self.stream = stream
        self.session_id = session_id
        self.receiver = receiver
        self.until_ms = until_ms
        # A transaction may keep it beyond its time; the engine looks only now and then whether that is over.
        self.was_enlisted = False
        self.grace_ms = 0


class Book:
    """One queue, topic or subscription."""

    __slots__ = (
        "accessed_ms",
        "described_ms",
        "description",
        "is_overdue",
        "last_seq",
        "max_delivery_ever",
        "number",
        "tail",
        "unused_since_ms",
    )

    def __init__(self, number: int, description: QueueDescription, now_ms: int) -> None:
        self.number = number
        self.description = description
        self.accessed_ms = now_ms
        self.unused_since_ms = now_ms
        # Since when the broker knows what it does about it.
        self.described_ms = now_ms
        self.is_overdue = False
        # A message that failed often may stay when the limit is lowered, until it fails once more.
        self.max_delivery_ever = description.max_delivery_count
        # The highest sequence number that was given, and the highest that is on disk.
        self.last_seq = 0
        self.tail = 0

    @property
    def is_topic(self) -> bool:
        return isinstance(self.description, TopicDescription)

    @property
    def topic_name(self) -> str | None:
        """Of a subscription, whose it is."""
        description = self.description
        return description.topic_name if isinstance(description, SubscriptionDescription) else None


class Stop(NamedTuple):
    """A place where a message may come to rest: the book, its part, the hops, and the books that it came through."""

    book: Book
    kind: int
    hops: int
    passed: list[Book]
    # Until when it waits there; zero if it does not, or only for its turn.
    due_ms: int = 0

    @property
    def stream(self) -> int:
        return self.book.number << 2 | self.kind


class Totals(NamedTuple):
    """The counts of one stream."""

    active: int
    deferred: int
    scheduled: int
    size_bytes: int


Saved = tuple[int, int, int, int, str | None, int, int, int, int, int, int, Content, Body | None]
# A message and what it was; or a part of the ledger, a key of it, and what was kept there.
Change = tuple[Entry, Saved] | tuple[dict[object, object], object, object]


class Ledger:
    """All queues and all messages."""

    def __init__(self) -> None:
        self.books: dict[int, Book] = {}
        self.entries: dict[int, Entry] = {}
        self.by_row: dict[int, Entry] = {}
        self.fates: dict[int, str] = {}
        self.holds: dict[tuple[int, str], Hold] = {}
        self.session_states: dict[object, object] = {}
        # When a message id was seen first, by queue and key.
        self.seen: dict[object, object] = {}
        self.queues: dict[object, object] = {}
        # By the number of the subscription and the name in lower case.
        self.rules: dict[object, object] = {}
        # What each send came to at first, and how many copies were ever made of it.
        self.of_send: dict[int, list[Entry]] = {}
        self._copies: dict[int, int] = {}
        self._all_books: dict[int, Book] = {}
        # Queues that are about to be entered as deleted.
        self.doomed: set[int] = set()
        # What deleted subscriptions shared: their topics may count it until it is swept.
        self.unswept: set[Body] = set()
        # How much comes to any queue in what is being judged just now, in an order that the ledger does not know.
        self.arriving_bytes = 0
        self.numbered: list[tuple[Book, int]] = []
        self._log: deque[Change] = deque()
        self.position = 0
        self.written_position = 0
        self.committed_position = 0
        # Where the messages are that are on disk.
        self.published = PublishedCounts()
        self._awaiting: deque[tuple[int, int, int, Entry]] = deque()
        self._available: dict[object, list[tuple[int, int]]] = {}

    # --- log ------------------------------------------------------------------------------------------------

    def touch(self, entry: Entry) -> None:
        """The entry is about to change in a way that is on disk with the next commit."""
        self._log.append(
            (
                entry,
                (
                    entry.stream,
                    entry.seq,
                    entry.state,
                    entry.delivery_count,
                    entry.session_id,
                    entry.expires_ms,
                    entry.due_ms,
                    entry.enqueued_ms,
                    entry.hops,
                    entry.visible_at,
                    entry.time_to_live_ms,
                    entry.content,
                    entry.body,
                ),
            )
        )
        self.position += 1

    def put(self, part: dict[object, object], key: object, value: object) -> None:
        """Keep a value besides messages, or with None nothing."""
        self._log.append((part, key, part.get(key)))
        self.position += 1
        if value is None:
            part.pop(key, None)
        else:
            part[key] = value

    def commit(self) -> None:
        """Everything up to the last write is on disk."""
        position = self.written_position
        touched: dict[Entry, None] = {}
        for _ in range(position - self.committed_position):
            change = self._log.popleft()
            if len(change) == 2:
                touched[change[0]] = None
        self.committed_position = position
        if touched:
            self._publish(touched)
        awaiting = self._awaiting
        while awaiting and awaiting[0][0] <= position:
            _, stream, seq, entry = awaiting.popleft()
            if stream & 3 == MAIN:
                book = self.books.get(stream >> 2)
                if book is not None and seq > book.tail:
                    book.tail = seq
            if entry.stream == stream and entry.seq == seq:
                self.make_available(entry)

    def _publish(self, touched: Iterable[Entry]) -> None:
        """Note where these messages are on disk: where they were before whatever is decided and not written yet."""
        later: dict[Entry, Saved] = {}
        for change in reversed(self._log):
            if len(change) == 2:
                later[change[0]] = change[1]
        for entry in touched:
            saved = later.get(entry)
            self.published.commit(entry, (entry.stream, entry.state) if saved is None else (saved[0], saved[2]))

    def crash(self, is_committed: bool) -> None:
        """The process is gone. What was not on disk never happened, and no lock is left."""
        if is_committed:
            self.commit()
        while self._log:
            change = self._log.pop()
            if len(change) == 2:
                self._undo(*change)
            else:
                part, key, value = change
                if value is None:
                    part.pop(key, None)
                else:
                    part[key] = value
        self.position = self.written_position = self.committed_position
        self._awaiting.clear()
        self.holds.clear()
        self._available.clear()
        self.by_row = {entry.row: entry for entry in self.entries.values()}
        for entry in self.entries.values():
            entry.unlock()
            self.make_available(entry)
        for gone in [one for one in self.books if one not in self.queues]:
            del self.books[gone]
        for number, description in self.queues.items():
            assert isinstance(number, int)
            assert isinstance(description, QueueDescription)
            book = self.books[number] = self._all_books[number]
            book.description = description
            book.last_seq = book.tail

    def _undo(self, entry: Entry, saved: Saved) -> None:
        was_there = entry.stream >= 0
        (
            entry.stream,
            entry.seq,
            entry.state,
            entry.delivery_count,
            entry.session_id,
            entry.expires_ms,
            entry.due_ms,
            entry.enqueued_ms,
            entry.hops,
            entry.visible_at,
            entry.time_to_live_ms,
            entry.content,
            entry.body,
        ) = saved
        if entry.stream >= 0:
            if entry.is_settlement_acknowledged and not was_there:
                raise Violation("nothing completed and acknowledged comes back", repr(entry))
            self.entries[entry.uid] = entry
            self.fates.pop(entry.uid, None)
        else:
            if entry.is_acknowledged:
                raise Violation("nothing acknowledged is lost", f"a crash undid message {entry.uid}")
            self.entries.pop(entry.uid, None)
            self.fates.pop(entry.uid, None)

    # --- messages -------------------------------------------------------------------------------------------

    def copy_uid(self, sent: int) -> int:
        """An id for one more copy of a message."""
        self._copies[sent] = count = self._copies.get(sent, 0) + 1
        return count << _SENT_BITS | sent

    def enter(self, entry: Entry, stream: int, seq: int) -> None:
        """A message comes to a place, for the first time or from elsewhere; `touch` was called."""
        if entry.stream >= 0:
            del self.by_row[entry.row]
        entry.stream = stream
        entry.seq = seq
        other = self.by_row.get(entry.row)
        if other is not None:
            raise Violation("sequence numbers are unique and rise", f"{entry} takes the place of {other}")
        self.by_row[entry.row] = entry
        self.entries[entry.uid] = entry

    def await_commit(self, entry: Entry) -> None:
        entry.visible_at = self.position
        self._awaiting.append((self.position, entry.stream, entry.seq, entry))

    def remove(self, entry: Entry, fate: str) -> None:
        self.touch(entry)
        del self.by_row[entry.row]
        del self.entries[entry.uid]
        entry.stream = -1
        entry.unlock()
        self.fates[entry.uid] = fate

    def put_queue(self, number: int, description: QueueDescription, now_ms: int) -> None:
        """A queue was made or changed."""
        self.put(self.queues, number, description)
        book = self.books.get(number)
        if book is None:
            book = self.books[number] = self._all_books[number] = Book(number, description, now_ms)
        book.description = description
        book.described_ms = now_ms
        book.max_delivery_ever = max(book.max_delivery_ever, description.max_delivery_count)

    def drop_queue(self, number: int) -> None:
        """A queue is gone, with all it held."""
        for entry in [one for one in self.entries.values() if one.stream >> 2 == number]:
            if entry.body is not None:
                self.unswept.add(entry.body)
            self.remove(entry, "gone with its queue")
        for part in (self.session_states, self.seen):
            for key in [key for key in part if isinstance(key, tuple) and self._is_of(part, key, number)]:
                self.put(part, key, None)
        for rule_key in [key for key in self.rules if isinstance(key, tuple) and key[0] == number]:
            self.put(self.rules, rule_key, None)
        for key in [key for key in self.holds if key[0] >> 2 == number]:
            del self.holds[key]
        self.put(self.queues, number, None)
        del self.books[number]

    def _is_of(self, part: dict[object, object], key: tuple[int, str], number: int) -> bool:
        return (key[0] if part is self.seen else key[0] >> 2) == number

    def number(self, stream: int, seq: int) -> None:
        """A queue has given a sequence number. Those of one audit come in no order, and after all earlier ones."""
        book = self.books[stream >> 2]
        if seq <= book.last_seq:
            raise Violation(
                "sequence numbers are unique and rise", f"queue {book.number} gave {seq} after {book.last_seq}"
            )
        self.numbered.append((book, seq))

    def is_visible(self, entry: Entry) -> bool:
        return entry.visible_at <= self.committed_position

    def make_available(self, entry: Entry) -> None:
        """The message can be delivered, unless it is not active."""
        if entry.state == ACTIVE and entry.lock is None:
            key = entry.stream if entry.session_id is None else (entry.stream, entry.session_id)
            heap = self._available.get(key)
            if heap is None:
                heap = self._available[key] = []
            heappush(heap, (entry.seq, entry.uid))

    def first_available(self, stream: int, session_id: str | None, now_ms: int) -> Entry | None:
        """The message that is next in line."""
        key = stream if session_id is None else (stream, session_id)
        heap = self._available.get(key)
        while heap:
            seq, uid = heap[0]
            entry = self.entries.get(uid)
            if (
                entry is not None
                and entry.stream == stream
                and entry.seq == seq
                and entry.state == ACTIVE
                and entry.lock is None
                and entry.session_id == session_id
                and entry.expires_ms > now_ms
            ):
                return entry
            heappop(heap)
        return None

    def rebuild_available(self) -> None:
        """Heaps only grow with messages that come back: begin anew now and then."""
        for key in [key for key, heap in self._available.items() if not heap]:
            del self._available[key]
        for heap in self._available.values():
            if len(heap) > 2_000:
                heap[:] = set(heap)
                heapify(heap)

    def of_stream(self, stream: int) -> list[Entry]:
        """In the order of their sequence numbers."""
        return [entry for _, entry in sorted([(one.seq, one) for one in self.entries.values() if one.stream == stream])]

    def ready_sessions(self, stream: int) -> set[str]:
        """The sessions with active messages or with state."""
        ready = {one.session_id for one in self.entries.values() if one.stream == stream and one.state == ACTIVE}
        kept = {key[1] for key in self.session_states if isinstance(key, tuple) and key[0] == stream}
        return {session_id for session_id in ready | kept if session_id is not None}

    def totals(self) -> dict[int, Totals]:
        """By stream, for all streams of all queues."""
        counts: dict[int, list[int]] = {}
        for number in self.books:
            for kind in (MAIN, DEAD, TRANSFER):
                counts[number << 2 | kind] = [0, 0, 0, 0]
        for entry in self.entries.values():
            line = counts[entry.stream]
            line[entry.state] += 1
            line[3] += entry.held_bytes
        for body in self.bodies(self.entries.values()):
            counts[body.stream][3] += body.size_bytes
        for key, state in self.session_states.items():
            assert isinstance(key, tuple)
            assert isinstance(state, bytes)
            counts[key[0]][3] += len(state)
        return {
            stream: Totals(line[ACTIVE], line[DEFERRED], line[SCHEDULED], line[3]) for stream, line in counts.items()
        }

    def bodies(self, entries: Iterable[Entry]) -> dict[Body, int]:
        """What is shared by at least one of these messages, and by how many."""
        counts: dict[Body, int] = {}
        for entry in entries:
            if entry.body is not None:
                counts[entry.body] = counts.get(entry.body, 0) + 1
        return counts

    # --- where messages go ----------------------------------------------------------------------------------

    def find(self, name: str | None) -> Book | None:
        """A queue or a topic. Subscriptions cannot be sent to."""
        if name is None:
            return None
        for book in self.books.values():
            is_named = book.topic_name is None and book.description.name.lower() == name.lower()
            if is_named and book.number not in self.doomed:
                return book
        return None

    def subscriptions(self, topic: Book) -> list[Book]:
        name = topic.description.name
        return [one for one in self.books.values() if one.topic_name == name and one.number not in self.doomed]

    def rules_of(self, subscription: Book) -> list[SimRule]:
        rules = [rule for key, rule in self.rules.items() if isinstance(key, tuple) and key[0] == subscription.number]
        return [rule for rule in rules if isinstance(rule, SimRule)]

    def refusal(self, target: Book | None, entry: Entry) -> str | None:
        """Why a message cannot be forwarded to a queue."""
        if target is None:
            return "missing"
        if not target.description.can_send:
            return "disabled"
        if target.description.requires_session and entry.session_id is None:
            return "no session"
        return None

    def stops(self, book: Book, entry: Entry, now_ms: int = NEVER_MS) -> list[Stop]:
        """Where a message that comes to this queue can end, the expected one first. There is more than one if a queue
        on its way may be full. One that is to be enqueued after `now_ms` waits where it is forwarded to first."""
        hops = entry.hops
        passed = [book]
        maybe: list[Stop] = []
        while book.description.forward_to is not None:
            target = self.find(book.description.forward_to)
            if hops >= HOPS or target is None or self.refusal(target, entry) is not None:
                return [Stop(book, DEAD, hops, passed), *maybe]
            if self.is_full(target, entry.size_bytes):
                maybe.append(Stop(book, DEAD, hops, passed))
            hops += 1
            book = target
            passed = [*passed, book]
            if entry.scheduled_ms > now_ms:
                return [Stop(book, MAIN, hops, passed, entry.scheduled_ms), *maybe]
        return [Stop(book, MAIN, hops, passed), *maybe]

    def dead_letter_stops(self, book: Book, entry: Entry) -> list[Stop]:
        """The same for a message of this queue that is dead."""
        here = Stop(book, DEAD, entry.hops, [book])
        target = self.find(book.description.forward_dead_lettered_messages_to)
        if target is None or entry.hops >= HOPS or self.refusal(target, entry) is not None:
            return [here]
        entry.hops += 1
        try:
            stops = self.stops(target, entry)
        finally:
            entry.hops -= 1
        return [*stops, here] if self.is_full(target, entry.size_bytes) else stops

    def is_full(self, book: Book, by_bytes: int) -> bool:
        """Whether a queue may be too full for so much more. What is on its way in or out may count or not."""
        if book.topic_name is not None:
            topic = self.find(book.topic_name)
            return topic is not None and self.is_full(topic, by_bytes)
        if book.description.max_size_in_megabytes != 1:
            return False
        return self.size_of(book) + self._let_go(book) + self.arriving_bytes + by_bytes > 0.8 * (1 << 20)

    def _let_go(self, book: Book) -> int:
        """The size of the bodies that no copy needs any more: a topic counts them until that is on disk, or swept."""
        if not book.is_topic:
            return 0
        gone = self.unswept.union([change[1][-1] for change in self._log if len(change) == 2])
        held = self.bodies(self.entries.values())
        stream = book.number << 2
        return sum([one.size_bytes for one in gone if one is not None and one.stream == stream and one not in held])

    def size_of(self, book: Book) -> int:
        """A topic is as large as all its subscriptions hold, what they share once."""
        numbers = {book.number}
        if book.is_topic:
            numbers.update([one.number for one in self.subscriptions(book)])
        entries = [one for one in self.entries.values() if one.stream >> 2 in numbers]
        size_bytes = sum([one.held_bytes for one in entries])
        if book.is_topic:
            size_bytes += sum([body.size_bytes for body in self.bodies(entries)])
        for key, state in self.session_states.items():
            if isinstance(key, tuple) and isinstance(state, bytes) and key[0] >> 2 in numbers:
                size_bytes += len(state)
        return size_bytes
