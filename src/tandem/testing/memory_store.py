"""A store in memory, for tests and simulations of the engine: it keeps every promise of `tandem.store.base`.

All state is in dictionaries of values that never change, so that a transaction is undone by putting old values back:
`write` notes each value that it replaces, `commit` forgets the notes, `crash` follows them backwards. Orders are kept
beside the dictionaries and made anew after a crash.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator
from functools import singledispatchmethod
from typing import Final, NamedTuple, cast

from tandem.amqp.stored import Stored
from tandem.engine import queries
from tandem.engine.effects import (
    Change,
    DropHub,
    DropProgress,
    DropQueue,
    DropRule,
    Effects,
    ForgetDuplicates,
    Move,
    PutHub,
    PutProgress,
    PutQueue,
    PutRule,
    PutSetting,
    SetSessionState,
    SetState,
    StreamChange,
)
from tandem.engine.message import ACTIVE, NEVER_MS, SEQUENCE_BITS, SEQUENCE_MASK, BrokeredMessage, SharedBody
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.engine.session_key import session_key
from tandem.errors import StoreFailed
from tandem.store.base import (
    LAST_DROPPED_HUB,
    Entities,
    HubRecord,
    ProgressRecord,
    QueueRecord,
    Recovered,
    RuleRecord,
    StreamRecord,
    Written,
)
from tandem.store.events import StoredEvents
from tandem.store.modify import modified
from tandem.store.session_counts import count_by_session
from tandem.testing.memory_log import MemoryLog

__all__ = ["MemoryStore"]


class _Kept(NamedTuple):
    """A message, apart from where it lies."""

    state: int
    delivery_count: int
    enqueued_time_ms: int
    expires_at_ms: int
    due_at_ms: int
    time_to_live_ms: int
    session_id: str | None
    size_bytes: int
    enqueue_sequence_number: int
    hop_count: int
    partition: int
    dead_letter_source: str | None
    body_number: int
    stored: Stored

    @property
    def expiry_ms(self) -> int:
        """When a search for expired messages finds it."""
        return self.expires_at_ms if self.state == ACTIVE else NEVER_MS


class _Body(NamedTuple):
    """A shared body. The bytes are with its copies: memory shares them by itself, and only the accounts are kept."""

    copies: int
    stream: int
    size_bytes: int


class _Session(NamedTuple):
    session_id: str
    active: int
    since: int
    state: bytes | None
    updated_at_ms: int


class _Stream:
    """The messages of one line, and the orders in which they are looked for."""

    __slots__ = ("by_due", "by_expiry", "messages", "order", "sessions")

    def __init__(self) -> None:
        self.messages: dict[int, _Kept] = {}
        # By their keys.
        self.sessions: dict[str, _Session] = {}
        self.order: list[int] = []
        self.by_due: list[tuple[int, int]] = []
        self.by_expiry: list[tuple[int, int]] = []

    def put_in_order(self) -> None:
        self.order = sorted(self.messages)
        self.by_due = sorted([(one.due_at_ms, number) for number, one in self.messages.items() if one.due_at_ms])
        self.by_expiry = sorted(
            [(one.expiry_ms, number) for number, one in self.messages.items() if one.expiry_ms < NEVER_MS]
        )

    def enter(self, number: int, message: _Kept) -> None:
        order = self.order
        if not order or number > order[-1]:
            order.append(number)
        else:
            insort(order, number)
        if message.due_at_ms:
            insort(self.by_due, (message.due_at_ms, number))
        if message.expires_at_ms < NEVER_MS and message.state == ACTIVE:
            insort(self.by_expiry, (message.expires_at_ms, number))

    def leave(self, number: int, message: _Kept) -> None:
        del self.order[bisect_left(self.order, number)]
        if message.due_at_ms:
            del self.by_due[bisect_left(self.by_due, (message.due_at_ms, number))]
        if message.expires_at_ms < NEVER_MS and message.state == ACTIVE:
            del self.by_expiry[bisect_left(self.by_expiry, (message.expires_at_ms, number))]

    def within(self, after: int, up_to: int) -> Iterator[tuple[int, _Kept]]:
        order = self.order
        for number in order[bisect_right(order, after) : bisect_right(order, up_to)]:
            yield number, self.messages[number]


class _Missing:
    """The type of _MISSING, which stands for no value where None is one."""


_MISSING: Final = _Missing()

# A dictionary, a key in it, and what was there. Each is of its own types.
_Note = tuple[dict, object, object]  # type: ignore[type-arg]


class MemoryStore:
    """A store that lasts as long as the object. `is_full` says for tests that there is no room."""

    def __init__(self) -> None:
        self.is_full = False
        self._is_crashed = False
        self._settings: dict[str, str] = {}
        self._queues: dict[int, QueueRecord] = {}
        self._counts: dict[int, StreamRecord] = {}
        self._streams: dict[int, _Stream] = {}
        self._duplicates: dict[int, dict[str, int]] = {}
        self._rules: dict[tuple[int, str], RuleRecord] = {}
        self._bodies: dict[int, _Body] = {}
        self._hubs: dict[int, HubRecord] = {}
        self._progress: dict[tuple[int, int, str], ProgressRecord] = {}
        self.log = MemoryLog()
        self.events = StoredEvents(self.log)
        # Streams of deleted queues: what is still written to one has no reader, and nobody counts it.
        self._dropped: dict[int, bool] = {}
        self._notes: list[_Note] = []

    # --- start and end --------------------------------------------------------------------------------------

    def recover(self) -> Recovered:
        self._require_power()
        # As in a store on disk: a new queue may get the number of the last one that was deleted.
        first = (max(self._queues, default=-1) + 1) * STREAMS_PER_QUEUE
        self._dropped = {stream: True for stream in self._dropped if stream < first}
        queues, streams, rules = self.read_entities({*self._queues, *self._counted_queues})
        hubs = [self._hubs[number] for number in sorted(self._hubs)]
        log = self.log.recover({hub.number: cast("int", hub.fields["partition_count"]) for hub in hubs})
        last_dropped_hub = int(self._settings.get(LAST_DROPPED_HUB, 0))
        progress = [self._progress[key] for key in sorted(self._progress)]
        return Recovered(queues, streams, rules, max(self._bodies, default=0), hubs, last_dropped_hub, log, progress)

    @property
    def _counted_queues(self) -> set[int]:
        return {stream // STREAMS_PER_QUEUE for stream in self._counts}

    def read_entities(self, numbers: Collection[int]) -> Entities:
        queues = [
            self._queues[number]._replace(last_id_at_ms=max(self._duplicates.get(number, {}).values(), default=0))
            for number in sorted(numbers)
            if number in self._queues
        ]
        rules = sorted(self._rules.values(), key=lambda rule: (rule.queue_number, rule.created_at_ms, rule.name))
        return Entities(
            queues,
            [self._counts[stream] for stream in sorted(self._counts) if stream // STREAMS_PER_QUEUE in numbers],
            [rule for rule in rules if rule.queue_number in numbers],
        )

    def setting(self, name: str) -> str | None:
        return self._settings.get(name)

    def put_setting(self, name: str, value: str) -> None:
        self._settings[name] = value

    def has_room(self) -> bool:
        return not self.is_full

    def sweep(self) -> None:
        """Deleted queues leave nothing here."""

    def close(self) -> None:
        """The messages stay: a simulated broker starts again on the same store."""

    def commit(self) -> None:
        self._require_power()
        self._notes.clear()
        if self.log.has_uncommitted:
            self.log.commit()

    def crash(self, is_committed: bool = False) -> None:
        """The power fails. In the middle of a commit it may be on disk already: the caller chooses."""
        if not is_committed:
            for dictionary, key, old in reversed(self._notes):
                if old is _MISSING:
                    dictionary.pop(key, None)
                else:
                    dictionary[key] = old
            for stream in self._streams.values():
                stream.put_in_order()
            self.log.revert()
        elif self.log.has_uncommitted:
            self.log.commit()
        self.log.committed()
        self.events.dropped_hubs.clear()
        self._notes.clear()
        self._is_crashed = True

    def reopen(self) -> None:
        """Back to what was committed last. Without a crash before, this is one."""
        if not self._is_crashed:
            self.crash()
        self._is_crashed = False

    def _require_power(self) -> None:
        if self._is_crashed:
            raise StoreFailed("the store has crashed: reopen it first")

    # --- writing --------------------------------------------------------------------------------------------

    def _set(self, dictionary: dict, key: object, value: object) -> None:  # type: ignore[type-arg] # see _Note
        self._notes.append((dictionary, key, dictionary.get(key, _MISSING)))
        dictionary[key] = value

    def _delete(self, dictionary: dict, key: object) -> None:  # type: ignore[type-arg] # see _Note
        if key in dictionary:
            self._notes.append((dictionary, key, dictionary.pop(key)))

    def _stream(self, number: int) -> _Stream:
        stream = self._streams.get(number)
        if stream is None:
            stream = _Stream()
            self._set(self._streams, number, stream)
        return stream

    def write(self, effects: Effects) -> Written:
        self._require_power()
        if effects.events:
            self.log.append(effects.events)
        duplicates: set[int] = set()
        corrections: dict[int, StreamChange] = {}
        shared_bytes: dict[int, int] = {}
        refused = {one for one in effects.admissions if not self._is_new(one.keys, one.at_ms)}
        for message in effects.appended:
            keys = message.duplicate_keys
            if message.admission in refused or (keys is not None and not self._is_new(keys, message.enqueued_time_ms)):
                duplicates.add(message.row)
                # The engine has counted it.
                corrections.setdefault(message.stream, StreamChange()).add(message, -1)
                continue
            if message.body_number:
                self._share(effects.bodies[message.body_number], shared_bytes)
            assert message.stored is not None
            self._insert(message.stream, message.sequence_number, _keep(message, message.stored))
        for entry in effects.changes:
            self._write_change(entry)
        for row in effects.removed:
            self._remove(row)
        for body_number, count in effects.released.items():
            self._release(body_number, count, shared_bytes)
        for entry in effects.changes:
            # After all that its messages were released for: the rest goes with the queue.
            if isinstance(entry, DropQueue):
                self._drop_queue(entry.number, shared_bytes)
        for number, by_bytes in shared_bytes.items():
            corrections.setdefault(number, StreamChange()).size_bytes += by_bytes
        for number, decided in effects.streams.items():
            self._count(number, decided, corrections.pop(number, None))
        for number, change in corrections.items():
            self._count(number, StreamChange(), change)
        return Written(duplicates, shared_bytes)

    def _share(self, body: SharedBody, shared_bytes: dict[int, int]) -> None:
        """One more copy of it."""
        known = self._bodies.get(body.number)
        if known is None:
            known = _Body(0, body.stream, body.size_bytes)
            shared_bytes[body.stream] = shared_bytes.get(body.stream, 0) + body.size_bytes
        self._set(self._bodies, body.number, known._replace(copies=known.copies + 1))

    def _release(self, body_number: int, count: int, shared_bytes: dict[int, int]) -> None:
        """So many copies less; a body goes with the last one."""
        body = self._bodies[body_number]
        if body.copies > count:
            self._set(self._bodies, body_number, body._replace(copies=body.copies - count))
        else:
            self._delete(self._bodies, body_number)
            shared_bytes[body.stream] = shared_bytes.get(body.stream, 0) - body.size_bytes

    def _insert(self, number: int, sequence_number: int, message: _Kept) -> None:
        if number in self._dropped:
            return
        stream = self._stream(number)
        if sequence_number in stream.messages:
            raise StoreFailed(f"stream {number} has a message {sequence_number} already")
        self._set(stream.messages, sequence_number, message)
        stream.enter(sequence_number, message)

    def _remove(self, row: int) -> _Kept | None:
        stream = self._streams.get(row >> SEQUENCE_BITS)
        message = None if stream is None else stream.messages.get(row & SEQUENCE_MASK)
        if stream is not None and message is not None:
            self._delete(stream.messages, row & SEQUENCE_MASK)
            stream.leave(row & SEQUENCE_MASK, message)
        return message

    def _is_new(self, keys: list[tuple[int, str, int]], at_ms: int) -> bool:
        """All detections must find it new; those that did will know it from now on."""
        is_new = True
        for number, key, window_ms in keys:
            seen = self._duplicates.get(number)
            if seen is None:
                seen = {}
                self._set(self._duplicates, number, seen)
            if key in seen and seen[key] > at_ms - window_ms:
                is_new = False
            else:
                self._set(seen, key, at_ms)
        return is_new

    def _write_change(self, change: Change) -> None:
        if isinstance(change, SetState):
            self._set_state(change)
        elif isinstance(change, Move):
            old = self._remove(change.row)
            if old is not None:
                message = change.message
                kept = _keep(message, _with_properties(old.stored, change.properties))
                self._insert(message.stream, message.sequence_number, kept)
        elif isinstance(change, SetSessionState):
            self._set_session_state(change)
        elif isinstance(change, PutHub):
            self._set(
                self._hubs,
                change.number,
                HubRecord(change.number, change.fields, change.created_at_ms, change.updated_at_ms),
            )
        elif isinstance(change, DropHub):
            self._delete(self._hubs, change.number)
            last = max(int(self._settings.get(LAST_DROPPED_HUB, 0)), change.number)
            self._set(self._settings, LAST_DROPPED_HUB, str(last))
            self._drop_progress(change.number, None)
            self.events.dropped_hubs.add(change.number)
        elif isinstance(change, PutProgress):
            record_key = (change.hub_number, change.partition_id, change.group)
            self._set(self._progress, record_key, ProgressRecord(*record_key, change.fields))
        elif isinstance(change, DropProgress):
            self._drop_progress(change.hub_number, change.group)
        elif isinstance(change, PutSetting):
            self._set(self._settings, change.name, change.value)
        elif isinstance(change, PutQueue):
            record = QueueRecord(
                change.number, change.kind, dict(change.fields), change.created_at_ms, change.updated_at_ms
            )
            self._set(self._queues, change.number, record)
        elif isinstance(change, PutRule):
            rule = RuleRecord(change.queue_number, change.name, dict(change.fields), change.created_at_ms)
            self._set(self._rules, (change.queue_number, change.name), rule)
        elif isinstance(change, DropRule):
            self._delete(self._rules, (change.queue_number, change.name))
        elif isinstance(change, ForgetDuplicates):
            seen = self._duplicates.get(change.queue_number, {})
            for key in [key for key, seen_at_ms in seen.items() if seen_at_ms <= change.before_ms]:
                self._delete(seen, key)

    def _drop_progress(self, hub_number: int, group: str | None) -> None:
        """Delete what is kept of one consumer group of a hub, or of all."""
        for key in [one for one in self._progress if one[0] == hub_number and group in {None, one[2]}]:
            self._delete(self._progress, key)

    def _drop_queue(self, queue_number: int, shared_bytes: dict[int, int]) -> None:
        self._delete(self._queues, queue_number)
        self._delete(self._duplicates, queue_number)
        for rule_key in [one for one in self._rules if one[0] == queue_number]:
            self._delete(self._rules, rule_key)
        first = queue_number * STREAMS_PER_QUEUE
        for number in range(first, first + STREAMS_PER_QUEUE):
            dropped = self._streams.get(number)
            for one in dropped.messages.values() if dropped is not None else ():
                if one.body_number:
                    self._release(one.body_number, 1, shared_bytes)
            self._delete(self._streams, number)
            self._delete(self._counts, number)
            self._set(self._dropped, number, True)

    def _set_state(self, change: SetState) -> None:
        stream = self._streams.get(change.row >> SEQUENCE_BITS)
        number = change.row & SEQUENCE_MASK
        old = None if stream is None else stream.messages.get(number)
        if stream is not None and old is not None:
            stored = _with_properties(old.stored, change.properties)
            new = old._replace(state=change.state, delivery_count=change.delivery_count, stored=stored)
            stream.leave(number, old)
            self._set(stream.messages, number, new)
            stream.enter(number, new)

    def _set_session_state(self, change: SetSessionState) -> None:
        if change.stream in self._dropped:
            return
        sessions = self._stream(change.stream).sessions
        key = session_key(change.session_id)
        old = sessions.get(key)
        if old is None:
            old = _Session(change.session_id, 0, 0, None, 0)
        if change.state is None and old.active == 0:
            self._delete(sessions, key)
        else:
            new = old._replace(state=change.state, updated_at_ms=change.updated_at_ms)
            self._set(sessions, key, new)

    def _count(self, number: int, one: StreamChange, two: StreamChange | None) -> None:
        if number in self._dropped:
            return
        two = two or StreamChange()
        old = self._counts.get(number)
        if old is None:
            old = StreamRecord(number, 0, 0, 0, 0, 1, 0)
        new = StreamRecord(
            number,
            old.active + one.active + two.active,
            old.deferred + one.deferred + two.deferred,
            old.scheduled + one.scheduled + two.scheduled,
            old.size_bytes + one.size_bytes + two.size_bytes,
            max(old.next_sequence_number, one.next_sequence_number),
            max(old.accessed_at_ms, one.accessed_at_ms),
        )
        self._set(self._counts, number, new)
        if one.sessions or two.sessions:
            self._count_sessions(self._stream(number).sessions, one, two)

    def _count_sessions(self, sessions: dict[str, _Session], one: StreamChange, two: StreamChange) -> None:
        counts = count_by_session(one, two)
        # Sessions that became ready in one batch keep the order of their messages: see the store on disk.
        since = one.next_sequence_number - sum([1 for by in counts.values() if by > 0])
        for session_id, by in counts.items():
            if by > 0:
                since += 1
            if by == 0:
                continue
            key = session_key(session_id)
            old = sessions.get(key)
            if old is None:
                new = _Session(session_id, by, since, None, 0)
            else:
                new = old._replace(active=old.active + by, since=since if old.active == 0 else old.since)
            if by < 0 and new.active == 0 and new.state is None:
                self._delete(sessions, key)
            else:
                self._set(sessions, key, new)

    # --- reading --------------------------------------------------------------------------------------------

    def read(self, query: queries.Query) -> None:
        self._require_power()
        if self.events.read(query):
            return
        self._read(query, self._streams.get(query.stream) or _Stream())

    @singledispatchmethod
    def _read(self, query: queries.Query, stream: _Stream) -> None:
        raise NotImplementedError(f"there is no reader for {query!r}")

    @_read.register
    def _read_messages(self, query: queries.MessagesQuery, stream: _Stream) -> None:
        messages: list[BrokeredMessage] = []
        size_bytes = 0
        for number, message in stream.within(query.after, query.up_to):
            if len(messages) >= query.limit or size_bytes >= query.limit_bytes:
                break
            if query.is_active_only and message.state != ACTIVE:
                continue
            if _is_of_session(message, query.session_id):
                messages.append(_made(query.stream, number, message, message.stored))
                size_bytes += message.size_bytes
        query.answer(messages)

    @_read.register
    def _read_rows(self, query: queries.RowsQuery, stream: _Stream) -> None:
        messages: list[BrokeredMessage] = []
        size_bytes = 0
        for number in query.sequence_numbers:
            found = stream.messages.get(number)
            if found is not None:
                stored = found.stored if size_bytes < query.limit_bytes else None
                messages.append(_made(query.stream, number, found, stored))
                size_bytes += found.size_bytes
        query.answer(messages)

    @_read.register
    def _scan(self, query: queries.ScanQuery, stream: _Stream) -> None:
        messages: list[BrokeredMessage] = []
        size_bytes = 0
        up_to = query.up_to
        for seen, (number, message) in enumerate(stream.within(query.after, query.up_to), 1):
            if query.state == queries.ANY_STATE or query.state == message.state:
                messages.append(_made(query.stream, number, message, message.stored if query.needs_bytes else None))
                size_bytes += message.size_bytes if query.needs_bytes else 0
            if seen >= query.limit_rows or len(messages) >= query.limit or size_bytes >= query.limit_bytes:
                up_to = number
                break
        query.answer(messages, up_to)

    @_read.register
    def _read_due(self, query: queries.DueQuery, stream: _Stream) -> None:
        end = bisect_left(stream.by_due, (query.now_ms + 1, 0))
        numbers = [number for _, number in stream.by_due[: min(end, query.limit)]]
        found = [(number, stream.messages[number]) for number in numbers]
        query.answer(
            [_made(query.stream, number, one, one.stored if query.needs_bytes else None) for number, one in found]
        )

    @_read.register
    def _read_expired(self, query: queries.ExpiredQuery, stream: _Stream) -> None:
        start = bisect_right(stream.by_expiry, (query.after_ms, query.after))
        end = bisect_left(stream.by_expiry, (query.now_ms + 1, 0))
        numbers = [number for _, number in stream.by_expiry[start : min(end, start + query.limit)]]
        query.answer([_made(query.stream, number, stream.messages[number], None) for number in numbers])

    @_read.register
    def _read_enqueued_before(self, query: queries.EnqueuedBeforeQuery, stream: _Stream) -> None:
        messages: list[BrokeredMessage] = []
        for number, message in stream.within(query.after, query.up_to):
            if len(messages) >= query.limit:
                break
            is_early = message.state == ACTIVE and message.enqueued_time_ms <= query.enqueued_ms
            if is_early and _is_of_session(message, query.session_id):
                messages.append(_made(query.stream, number, message, None))
        query.answer(messages)

    @_read.register
    def _read_next_times(self, query: queries.NextTimesQuery, stream: _Stream) -> None:
        start = bisect_right(stream.by_expiry, (query.after_ms, query.after))
        query.answer(
            stream.by_due[0][0] if stream.by_due else NEVER_MS,
            stream.by_expiry[start][0] if start < len(stream.by_expiry) else NEVER_MS,
        )

    @_read.register
    def _read_ready_sessions(self, query: queries.ReadySessionsQuery, stream: _Stream) -> None:
        ready = sorted([(one.since, one.session_id) for one in stream.sessions.values() if one.active > 0])
        query.answer([session_id for _, session_id in ready[: query.limit]])

    @_read.register
    def _read_session_list(self, query: queries.SessionListQuery, stream: _Stream) -> None:
        after_ms = query.updated_after_ms
        if after_ms is None:
            found = [key for key, one in stream.sessions.items() if one.active > 0 or one.state is not None]
        else:
            updated = [(key, one) for key, one in stream.sessions.items() if one.state is not None]
            found = [key for key, one in updated if one.updated_at_ms > after_ms]
        page = sorted(found)[query.skip : query.skip + query.limit]
        query.answer([stream.sessions[key].session_id for key in page])

    @_read.register
    def _read_session_page(self, query: queries.SessionPageQuery, stream: _Stream) -> None:
        found = [key for key, one in stream.sessions.items() if one.active > 0 or one.state is not None]
        after = None if query.after is None else session_key(query.after)
        page = sorted([key for key in found if after is None or key > after])[: query.limit]
        query.answer([_record(stream.sessions[key]) for key in page])

    @_read.register
    def _read_session_state(self, query: queries.SessionStateQuery, stream: _Stream) -> None:
        session = stream.sessions.get(session_key(query.session_id))
        query.answer(None if session is None else session.state)


def _is_of_session(message: _Kept, session_id: str | None) -> bool:
    """Return whether a query for messages of this session, or of any for None, wants the message."""
    own = message.session_id
    return session_id is None or (own is not None and session_key(own) == session_key(session_id))


def _record(session: _Session) -> queries.SessionRecord:
    state_bytes = -1 if session.state is None else len(session.state)
    return queries.SessionRecord(session.session_id, session.active, state_bytes, session.updated_at_ms)


def _keep(message: BrokeredMessage, stored: Stored) -> _Kept:
    return _Kept(
        message.state,
        message.delivery_count,
        message.enqueued_time_ms,
        min(message.expires_at_ms, NEVER_MS),
        message.due_at_ms,
        min(message.time_to_live_ms, NEVER_MS),
        message.session_id,
        message.size_bytes,
        message.enqueue_sequence_number,
        message.hop_count,
        message.partition,
        message.dead_letter_source,
        message.body_number,
        stored,
    )


def _made(stream: int, number: int, message: _Kept, stored: Stored | None) -> BrokeredMessage:
    """What a reader gets is its own, apart from the bytes, which nobody changes."""
    made = BrokeredMessage(stream, number, *message[:12], stored)
    made.body_number = message.body_number
    return made


def _with_properties(stored: Stored, properties: dict[str, object] | None) -> Stored:
    return stored.with_bare(modified(stored.bare, properties)) if properties else stored
