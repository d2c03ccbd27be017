"""Judges messages that come in: what is sent, where it goes, which copies a topic makes of it, what is a duplicate."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from tandem.engine.description import QueueDescription
from tandem.engine.effects import Effects, ForgetDuplicates
from tandem.engine.message import NEVER_MS, SCHEDULED, Admission, BrokeredMessage
from tests.sim.ledger import MAIN, TRANSFER, Body, Book, DuplicateKey, Entry, Ledger, Stop, Violation
from tests.sim.publishing import WHOLE, Match, Publication
from tests.sim.vocabulary import Content

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["Arrivals", "SendIntent"]


class SendIntent(NamedTuple):
    """A message that a client sends."""

    uid: int
    number: int
    size_bytes: int
    content: Content
    time_to_live_ms: int
    # Zero if it is not scheduled; and what its sender said, though that may be over.
    due_ms: int
    scheduled_ms: int
    destination: str | None


class Arrivals:
    """The part of the auditor that looks at new messages."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ledger: Ledger = world.ledger
        # What clients have asked for and the engine is about to decide.
        self.sends: dict[int, SendIntent] = {}
        self.cancelled: set[int] = set()
        # Messages that waited in their topic, and have been passed on by it.
        self.published: set[int] = set()
        self.forgotten: list[ForgetDuplicates] = []
        self._unjudged: dict[int, tuple[Entry, Admission | None]] = {}
        self._appended = self._admitted = 0

    def start(self) -> None:
        self.sends.clear()
        self.cancelled.clear()
        self.published.clear()
        self.forgotten.clear()
        self._unjudged.clear()
        self.begin()

    def begin(self) -> None:
        """Of the effects that follow, nothing was read."""
        self._appended = self._admitted = 0

    def news(self, effects: Effects) -> list[BrokeredMessage]:
        """New messages that were not read yet."""
        return effects.appended[self._appended :]

    def has_news(self, effects: Effects) -> bool:
        return len(effects.appended) > self._appended or bool(self.sends)

    def _now(self) -> int:
        return self._world.now_ms

    def read(self, effects: Effects, removed: list[int], *, is_current: bool) -> None:
        """New messages: those that were sent, and copies of those that a topic has passed on."""
        publications = self._waiting_publications(removed)
        fresh = self.news(effects)
        self._appended += len(fresh)
        admissions = effects.admissions[self._admitted :]
        self._admitted += len(admissions)
        if is_current:
            kept = [message for message in fresh if message.stream & 3 == TRANSFER]
            publications += self._sent_publications({_sent(message) for message in kept})
        copies: dict[int, list[BrokeredMessage]] = {publication.original.sent: [] for publication in publications}
        for message in fresh:
            sent = _sent(message)
            if sent in copies:
                copies[sent].append(message)
            else:
                self._judge_appended(sent, message)
        for sent, mine in copies.items():
            wanted = [copy for one in publications if one.original.sent == sent for copy in one.copies]
            if len(mine) != len(wanted):
                raise Violation(WHOLE, f"{len(mine)} copies of message {sent} instead of {wanted}")
        for publication in publications:
            # A topic passes on one message after the other: the copies of one follow each other.
            mine = copies[publication.original.sent]
            count = len(publication.copies)
            self._judge_published(publication, publication.match(mine[:count]), admissions)
            del mine[:count]
        if admissions:
            raise Violation("duplicates are told by their keys", f"{[one.keys for one in admissions]} are too many")

    # --- messages that come ---------------------------------------------------------------------------------

    def _judge_appended(self, uid: int, message: BrokeredMessage) -> None:
        ledger = self.ledger
        intent = self.sends.pop(uid, None)
        if intent is None:
            raise Violation("a message comes only from a sender", f"message {uid} was written and not sent just now")
        entry = self._entry_of(intent)
        ledger.touch(entry)
        entry.session_id = intent.content.group_id
        source = ledger.books[intent.number]
        source.accessed_ms = self._now()
        if intent.due_ms:
            entry.state = SCHEDULED
            entry.due_ms = intent.due_ms
            stop = Stop(source, MAIN, 0, [source])
            keys = self._sent_keys(source, intent.content)
        elif intent.destination is not None:
            stop, keys = self._transfer(source, entry, intent, message)
        else:
            stop = chosen(ledger.stops(source, entry, self._now()), message)
            first = self._sent_keys(source, intent.content)
            keys = self._forwarded_keys(stop.passed[1:], intent.content, first)
        entry.duplicate_keys = keys
        if stop.kind != MAIN:
            assert message.stored is not None
            entry.content = Content.of_bare(message.stored.bare)
            if not entry.content.user.items() >= intent.content.user.items():
                raise Violation("a message is kept as it is", f"{entry.content} instead of {intent.content}")
        self.come_to_rest(entry, stop)
        self._append(entry, stop, message, None)
        ledger.of_send[uid] = [entry]

    def _entry_of(self, intent: SendIntent) -> Entry:
        entry = Entry(intent.uid, intent.content)
        entry.size_bytes = intent.size_bytes
        entry.time_to_live_ms = intent.time_to_live_ms
        entry.scheduled_ms = intent.scheduled_ms
        entry.enqueued_ms = self._now()
        return entry

    def _append(self, entry: Entry, stop: Stop, message: BrokeredMessage, admission: Admission | None) -> None:
        """A new message is where the ledger says that it must be."""
        ledger = self.ledger
        ledger.number(message.stream, message.sequence_number)
        ledger.enter(entry, stop.stream, message.sequence_number)
        ledger.await_commit(entry)
        self.compare(entry, message)
        if (message.duplicate_keys or []) != entry.duplicate_keys or message.admission is not admission:
            raise Violation(
                "duplicates are told by their keys",
                f"{message.duplicate_keys} and {message.admission} instead of {entry.duplicate_keys} and {admission}",
            )
        self._unjudged[entry.row] = (entry, admission)

    def come_to_rest(self, entry: Entry, stop: Stop) -> None:
        """Fill in what a message becomes by the place that it comes to."""
        now_ms = self._now()
        description = stop.book.description
        entry.hops = stop.hops
        if stop.due_ms:
            entry.state = SCHEDULED
            entry.due_ms = stop.due_ms
        elif stop.book.is_topic and stop.kind == MAIN and not entry.due_ms:
            # From elsewhere: it waits for its turn to be passed on.
            entry.state = SCHEDULED
            entry.due_ms = now_ms
        if stop.kind != MAIN or not description.requires_session:
            entry.session_id = None
        entry.expires_ms = self._expiry(entry, description, now_ms) if stop.kind == MAIN else NEVER_MS
        entry.enqueued_ms = now_ms

    def _sent_keys(self, book: Book, content: Content) -> list[DuplicateKey]:
        """What the queue that a message is sent to knows it by."""
        description = book.description
        if not description.requires_duplicate_detection:
            return []
        key = content.message_id
        # Messages with the same id and different keys lie in different partitions.
        if description.enable_partitioning and content.group_id is not None:
            key = f"{content.group_id}\x00{key}"
        return [(book.number, key, description.duplicate_detection_history_time_window_ms)]

    def _forwarded_keys(
        self, books: list[Book], content: Content, first: list[DuplicateKey] | None = None
    ) -> list[DuplicateKey]:
        """The same for queues that it is forwarded to, behind the first ones. Each queue knows it by one key: a message
        that comes back on its way is not a duplicate of itself."""
        keys = list(first or [])
        for book in books:
            if book.description.requires_duplicate_detection and book.number not in [number for number, _, _ in keys]:
                window_ms = book.description.duplicate_detection_history_time_window_ms
                keys.append((book.number, content.message_id, window_ms))
        return keys

    def _transfer(
        self, source: Book, entry: Entry, intent: SendIntent, message: BrokeredMessage
    ) -> tuple[Stop, list[DuplicateKey]]:
        """A message that is sent by way of another queue."""
        ledger = self.ledger
        target = ledger.find(intent.destination)
        first = self._sent_keys(source, intent.content)
        kept = Stop(source, TRANSFER, 0, [source])
        if target is None or ledger.refusal(target, entry) is not None:
            return kept, first
        if message.stream == kept.stream and ledger.is_full(target, entry.size_bytes):
            return kept, first
        stop = chosen(ledger.stops(target, entry, self._now()), message)
        return stop, self._forwarded_keys(stop.passed, intent.content, first)

    # --- messages that a topic passes on ----------------------------------------------------------------------

    def _waiting_publications(self, removed: list[int]) -> list[Publication]:
        """Messages that waited in their topic: it removes them in the batch in which it makes their copies."""
        publications: list[Publication] = []
        for row in removed:
            entry = self.ledger.by_row.get(row)
            if entry is None:
                continue
            topic = self.ledger.books[entry.stream >> 2]
            if not topic.is_topic or entry.state != SCHEDULED or entry.uid in self.cancelled:
                continue
            if entry.due_ms > self._now():
                raise Violation("no scheduled message appears early", f"{entry} is due at {entry.due_ms}")
            self.published.add(entry.uid)
            publications.append(Publication(self.ledger, topic, entry, [], self._now()))
        return publications

    def _sent_publications(self, kept: set[int]) -> list[Publication]:
        """Messages that were sent to a topic just now, or by way of another queue, unless that has kept them."""
        publications: list[Publication] = []
        for intent in list(self.sends.values()):
            source = self.ledger.books[intent.number]
            keys = self._sent_keys(source, intent.content)
            topic = source
            if intent.due_ms or intent.uid in kept:
                continue
            if intent.destination is not None:
                target = self.ledger.find(intent.destination)
                if target is None or not target.description.can_send:
                    continue
                topic = target
                keys = self._forwarded_keys([topic], intent.content, keys)
            if topic.is_topic:
                del self.sends[intent.uid]
                source.accessed_ms = self._now()
                publications.append(Publication(self.ledger, topic, self._entry_of(intent), keys, self._now()))
        return publications

    def _judge_published(self, publication: Publication, matches: list[Match], admissions: list[Admission]) -> None:
        ledger = self.ledger
        original = publication.original
        is_waiting = original.uid in self.published
        admission = self._judge_admission(publication, admissions)
        body = self._judge_sharing(publication, matches)
        entries: list[Entry] = []
        for match in matches:
            entry = Entry(ledger.copy_uid(original.sent), match.content)
            ledger.touch(entry)
            entry.size_bytes = match.copy.size_bytes
            entry.time_to_live_ms = match.copy.time_to_live_ms
            entry.scheduled_ms = match.copy.scheduled_ms
            entry.session_id = match.content.group_id
            entry.duplicate_keys = self._forwarded_keys(match.stop.passed[1:], match.content)
            entry.body = body if match.stop.book is match.copy.subscription else None
            self.come_to_rest(entry, match.stop)
            self._append(entry, match.stop, match.message, admission)
            entries.append(entry)
        if not is_waiting:
            ledger.of_send[original.sent] = entries
            if not entries:
                ledger.fates[original.sent] = "selected by nobody"

    def _judge_admission(self, publication: Publication, admissions: list[Admission]) -> Admission | None:
        """Whether a message was seen before is asked once, whoever gets it, and also if nobody does."""
        if not publication.keys:
            return None
        for admission in admissions:
            if admission.keys == publication.keys:
                admissions.remove(admission)
                return admission
        raise Violation("duplicates are told by their keys", f"nobody asked for {publication.keys}")

    def _judge_sharing(self, publication: Publication, matches: list[Match]) -> Body | None:
        """From two copies on, those that stay with the topic have their bytes in common."""
        mine = [match.message for match in matches if match.stop.book is match.copy.subscription]
        others = [match.message for match in matches if match.stop.book is not match.copy.subscription]
        numbers = {message.body_number for message in mine}
        is_right = numbers == {0} if len(mine) == 1 else 0 not in numbers and len(numbers) == (len(mine) > 1)
        if not is_right or any(message.body_number for message in others):
            raise Violation("copies share their bytes", f"{len(mine)} copies have the bodies {numbers}")
        if len(mine) < 2:
            return None
        original = publication.original
        return Body(numbers.pop(), publication.topic.number << 2, original.size_bytes)

    def _expiry(self, entry: Entry, description: QueueDescription, now_ms: int) -> int:
        default_ms = description.default_message_time_to_live_ms
        life_ms = min(entry.time_to_live_ms, NEVER_MS if default_ms is None else default_ms)
        start_ms = entry.due_ms if entry.state == SCHEDULED else now_ms
        return NEVER_MS if life_ms >= NEVER_MS else start_ms + life_ms

    def compare(self, entry: Entry, message: BrokeredMessage) -> None:
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
            message.body_number,
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
            0 if entry.body is None else entry.body.number,
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
                "body",
            )
            wrong = [f"{name} {a} instead of {e}" for name, a, e in zip(names, actual, expected, strict=True) if a != e]
            raise Violation(
                _INVARIANT_OF.get(wrong[0].split(" ")[0], "a message is kept as it is"), f"{entry}: {wrong}"
            )

    # --- duplicates -----------------------------------------------------------------------------------------

    def judge_duplicates(self, effects: Effects, duplicates: Collection[int]) -> None:
        """A batch was written, and these of its messages were not, for being duplicates."""
        ledger = self.ledger
        admitted: dict[Admission, bool | None] = {}
        for one in effects.admissions:
            admitted[one] = self._is_new(one.keys, one.at_ms)
        for message in effects.appended:
            entry, admission = self._unjudged.pop(message.row)
            is_new = True if admission is None else admitted[admission]
            if is_new is not False:
                is_new_here = self._is_new(entry.duplicate_keys, message.enqueued_time_ms)
                is_new = is_new_here if is_new is True or is_new_here is False else None
            if is_new is None:
                is_new = message.row not in duplicates
            elif is_new != (message.row not in duplicates):
                what = "appears twice" if not is_new else "was taken for one"
                raise Violation(
                    "duplicates within the window appear once", f"message {entry}, {entry.duplicate_keys}, {what}"
                )
            if not is_new and entry.stream >= 0:
                ledger.remove(entry, "a duplicate")
        for change in self.forgotten:
            for place, seen in list(ledger.seen.items()):
                if cast("tuple[int, str]", place)[0] == change.queue_number and cast("int", seen) <= change.before_ms:
                    ledger.put(ledger.seen, place, None)
        self.forgotten.clear()

    def _is_new(self, keys: list[DuplicateKey], at_ms: int) -> bool | None:
        """Whether none of these was seen before, and see them now. None if that is not known any more."""
        ledger = self.ledger
        is_new = is_known = True
        for number, key, window_ms in keys:
            if number not in ledger.books:
                # Sent, and this queue deleted, in one batch: what it knew of its messages is gone as well.
                is_known = False
                continue
            seen_ms = cast("int | None", ledger.seen.get((number, key)))
            if seen_ms is None or seen_ms <= at_ms - window_ms:
                ledger.put(ledger.seen, (number, key), at_ms)
            else:
                is_new = False
        return is_new if is_known or not is_new else None


def _sent(message: BrokeredMessage) -> int:
    """What its body ends with."""
    assert message.stored is not None
    return int.from_bytes(message.stored.bare[-8:], "big")


def chosen(stops: list[Stop], message: BrokeredMessage) -> Stop:
    """The stop that the broker has chosen, if it may, or else the expected one."""
    here = [stop for stop in stops if (stop.stream, stop.hops) == (message.stream, message.hop_count)]
    for stop in here:
        if stop.due_ms == message.due_at_ms:
            return stop
    return here[-1] if here else stops[0]


_INVARIANT_OF: Final = {
    "delivery": "the delivery count is exact",
    "stream": "a message goes where its queue sends it",
    "expiry": "a message lives as long as it was promised",
    "due": "no scheduled message appears early",
    "state": "no scheduled message appears early",
}
