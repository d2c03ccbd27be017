"""What the broker must hold: every message, where it is, and what became of it.

The ledger shares nothing with the engine but the words. What happens is entered by the auditor in the order in which
the engine decides it. Whatever is on disk only with the next commit is in a log as well, with what it was before, so
that a crash can be undone here as it is undone on disk.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from tandem.engine.description import QueueDescription
from tandem.engine.message import ACTIVE, DEFERRED, NEVER_MS, SCHEDULED, SEQUENCE_BITS

if TYPE_CHECKING:
    from tandem.engine.lock_table import Lock
    from tests.sim.clients import Receiver, SimTransaction

__all__ = ["MAIN", "Book", "Entry", "Hold", "Ledger", "Totals", "Violation"]

MAIN: Final = 0
DEAD: Final = 1
TRANSFER: Final = 2

# The service's figure, stated here once more on purpose.
HOPS: Final = 4

DuplicateKey = tuple[int, str, int]


class Violation(BaseException):
    """A promise of the broker was broken. Not an Exception: the broker survives those."""

    def __init__(self, invariant: str, details: str) -> None:
        super().__init__(f"{invariant}: {details}")
        self.invariant = invariant
        self.details = details


class Entry:
    """One message."""

    __slots__ = (
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

    def __init__(self, uid: int) -> None:
        self.uid = uid
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
    """One queue."""

    __slots__ = (
        "accessed_ms",
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
        self.is_overdue = False
        # A message that failed often may stay when the limit is lowered, until it fails once more.
        self.max_delivery_ever = description.max_delivery_count
        # The highest sequence number that was given, and the highest that is on disk.
        self.last_seq = 0
        self.tail = 0


class Totals(NamedTuple):
    """The counts of one stream."""

    active: int
    deferred: int
    scheduled: int
    size_bytes: int


Saved = tuple[int, int, int, int, str | None, int, int, int, int, int]
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
        self._all_books: dict[int, Book] = {}
        # Queues that are about to be entered as deleted.
        self.doomed: set[int] = set()
        self.numbered: list[tuple[Book, int]] = []
        self._log: deque[Change] = deque()
        self.position = 0
        self.written_position = 0
        self.committed_position = 0
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
        for _ in range(position - self.committed_position):
            self._log.popleft()
        self.committed_position = position
        awaiting = self._awaiting
        while awaiting and awaiting[0][0] <= position:
            _, stream, seq, entry = awaiting.popleft()
            if stream & 3 == MAIN:
                book = self.books.get(stream >> 2)
                if book is not None and seq > book.tail:
                    book.tail = seq
            if entry.stream == stream and entry.seq == seq:
                self.make_available(entry)

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
        book.max_delivery_ever = max(book.max_delivery_ever, description.max_delivery_count)

    def drop_queue(self, number: int) -> None:
        """A queue is gone, with all it held."""
        for entry in [one for one in self.entries.values() if one.stream >> 2 == number]:
            self.remove(entry, "gone with its queue")
        for part in (self.session_states, self.seen):
            for key in [key for key in part if isinstance(key, tuple) and self._is_of(part, key, number)]:
                self.put(part, key, None)
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
            line[3] += entry.size_bytes
        for key, state in self.session_states.items():
            assert isinstance(key, tuple)
            assert isinstance(state, bytes)
            counts[key[0]][3] += len(state)
        return {
            stream: Totals(line[ACTIVE], line[DEFERRED], line[SCHEDULED], line[3]) for stream, line in counts.items()
        }

    # --- where messages go ----------------------------------------------------------------------------------

    def find(self, name: str | None) -> Book | None:
        if name is None:
            return None
        for book in self.books.values():
            if book.description.name.lower() == name.lower() and book.number not in self.doomed:
                return book
        return None

    def refusal(self, target: Book | None, entry: Entry) -> str | None:
        """Why a message cannot be forwarded to a queue."""
        if target is None:
            return "missing"
        if not target.description.can_send:
            return "disabled"
        if target.description.requires_session and entry.session_id is None:
            return "no session"
        return None

    def route(self, book: Book, entry: Entry) -> tuple[Book, int, int]:
        """Where a message that comes to this queue ends: the queue, its part, and the hops."""
        hops = entry.hops
        while book.description.forward_to is not None:
            if hops >= HOPS:
                return book, DEAD, hops
            target = self.find(book.description.forward_to)
            if target is None or self.refusal(target, entry) is not None:
                return book, DEAD, hops
            hops += 1
            book = target
        return book, MAIN, hops

    def dead_letter_route(self, book: Book, entry: Entry) -> tuple[Book, int, int]:
        """Where a message of this queue that is dead ends."""
        target = self.find(book.description.forward_dead_lettered_messages_to)
        if target is None or entry.hops >= HOPS or self.refusal(target, entry) is not None:
            return book, DEAD, entry.hops
        entry.hops += 1
        try:
            return self.route(target, entry)
        finally:
            entry.hops -= 1

    def is_full(self, book: Book, by_bytes: int) -> bool:
        """Whether a queue may be too full for so much more. What is on its way in or out may count or not."""
        return book.description.max_size_in_megabytes == 1 and self.size_of(book) + by_bytes > 0.8 * (1 << 20)

    def size_of(self, book: Book) -> int:
        size_bytes = sum([one.size_bytes for one in self.entries.values() if one.stream >> 2 == book.number])
        for key, state in self.session_states.items():
            if isinstance(key, tuple) and isinstance(state, bytes) and key[0] >> 2 == book.number:
                size_bytes += len(state)
        return size_bytes
