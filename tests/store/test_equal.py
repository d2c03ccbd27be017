"""Random batches, as an engine would make them, leave both stores with the same answers to all questions."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.engine.effects import Effects, ForgetDuplicates, Move, SetState
from tandem.engine.message import ACTIVE, DEFERRED, SCHEDULED, BrokeredMessage
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.store.base import Store
from tests.store.conftest import DiskHome, Home, MemoryHome
from tests.store.drive import (
    due,
    enqueued_before,
    expired,
    message,
    messages,
    next_times,
    put_queue,
    ready_sessions,
    rows,
    seen,
    session_list,
    session_state,
    state_of,
)

QUEUES = (1, 2)
SESSIONS = ("a", "b", "B", "ü", "Ü", "Äb", "ÄB", "n\0b", "N\0c")
TIMES = (50, 100, 150)
PROPERTIES: tuple[dict[str, object] | None, ...] = (None, {"a": 1}, {"b": "c"})


class Clerk:
    """Makes batches that an engine could have made: it knows which messages there are."""

    def __init__(self) -> None:
        self.next_numbers = dict.fromkeys(QUEUES, 1)
        self.alive: dict[int, BrokeredMessage] = {}
        self.states: dict[tuple[int, str], int] = {}

    def copy(self) -> Clerk:
        other = Clerk()
        other.next_numbers = dict(self.next_numbers)
        other.alive = {row: copy_of(one) for row, one in self.alive.items()}
        other.states = dict(self.states)
        return other

    def take_number(self, effects: Effects, queue: int) -> int:
        number = self.next_numbers[queue]
        self.next_numbers[queue] = number + 1
        change = effects.stream_change(queue * STREAMS_PER_QUEUE)
        change.next_sequence_number = number + 1
        change.accessed_at_ms = 1_000 + number
        return number

    def batch(self, draw: st.DataObject) -> Effects:
        effects = Effects()
        # A message is not removed in the batch in which it came.
        old = list(self.alive)
        for _ in range(draw.draw(st.integers(1, 6))):
            action = draw.draw(st.sampled_from(["send", "send", "settle", "settle", "move", "state", "forget"]))
            if action == "send":
                self.send(effects, draw)
            elif action == "state":
                self.set_session_state(effects, draw)
            elif action == "forget":
                effects.changes.append(ForgetDuplicates(draw.draw(st.sampled_from(QUEUES)), draw.draw(times)))
            elif old:
                row = old.pop(draw.draw(st.integers(0, len(old) - 1)))
                if action == "move":
                    self.move(effects, row, draw)
                else:
                    self.settle(effects, row, draw)
        return effects

    def send(self, effects: Effects, draw: st.DataObject) -> None:
        queue = draw.draw(st.sampled_from(QUEUES))
        one = message(self.take_number(effects, queue), queue * STREAMS_PER_QUEUE)
        one.enqueued_time_ms = draw.draw(times)
        one.size_bytes = draw.draw(st.integers(1, 300))
        one.session_id = draw.draw(st.sampled_from((None, *SESSIONS)))
        if draw.draw(st.booleans()):
            one.expires_at_ms = draw.draw(times)
        if draw.draw(st.booleans()):
            one.state = SCHEDULED
            one.due_at_ms = draw.draw(times)
        elif draw.draw(st.booleans()):
            one.duplicate_keys = [(queue, draw.draw(st.sampled_from("xyz")), 60)]
        effects.appended.append(one)
        effects.stream_change(one.stream).add(one, 1)

    def settle(self, effects: Effects, row: int, draw: st.DataObject) -> None:
        one = self.alive[row]
        change = effects.stream_change(one.stream)
        change.add(one, -1)
        if draw.draw(st.booleans()):
            effects.removed.append(row)
            del self.alive[row]
            return
        if one.state == ACTIVE and draw.draw(st.booleans()):
            one.state = DEFERRED
        one.delivery_count += 1
        change.add(one, 1)
        properties = draw.draw(st.sampled_from(PROPERTIES))
        effects.changes.append(SetState(row, one.state, one.delivery_count, properties))

    def move(self, effects: Effects, row: int, draw: st.DataObject) -> None:
        one = self.alive.pop(row)
        queue, kind = divmod(one.stream, STREAMS_PER_QUEUE)
        effects.stream_change(one.stream).add(one, -1)
        one.state = ACTIVE
        one.due_at_ms = 0
        if kind == 0 and draw.draw(st.booleans()):
            one.stream += 1
            one.session_id = None
        else:
            queue = draw.draw(st.sampled_from(QUEUES))
            one.stream = queue * STREAMS_PER_QUEUE
            one.sequence_number = self.take_number(effects, queue)
        effects.stream_change(one.stream).add(one, 1)
        self.alive[one.row] = one
        effects.changes.append(Move(row, copy_of(one), draw.draw(st.sampled_from(PROPERTIES))))

    def set_session_state(self, effects: Effects, draw: st.DataObject) -> None:
        stream = draw.draw(st.sampled_from(QUEUES)) * STREAMS_PER_QUEUE
        session_id = draw.draw(st.sampled_from(SESSIONS))
        state = draw.draw(st.sampled_from((None, b"", b"abc")))
        size_bytes = len(state or b"")
        by_bytes = size_bytes - self.states.get((stream, session_id), 0)
        self.states[stream, session_id] = size_bytes
        made = session_state(session_id, state, draw.draw(times), 0, stream)
        effects.stream_change(stream).size_bytes += by_bytes
        effects.changes += made.changes

    def written(self, effects: Effects, duplicates: set[int]) -> None:
        for one in effects.appended:
            if one.row not in duplicates:
                self.alive[one.row] = copy_of(one)


times = st.sampled_from(TIMES)


def copy_of(one: BrokeredMessage) -> BrokeredMessage:
    return BrokeredMessage(
        *(one.stream, one.sequence_number, one.state, one.delivery_count, one.enqueued_time_ms, one.expires_at_ms),
        *(one.due_at_ms, one.time_to_live_ms, one.session_id, one.size_bytes, one.enqueue_sequence_number),
        *(one.hop_count, one.partition, one.dead_letter_source, one.stored),
    )


def answers(store: Store) -> list[object]:
    found: list[object] = [store.recover()]
    for queue in QUEUES:
        main = queue * STREAMS_PER_QUEUE
        for stream in (main, main + 1):
            found += [[seen(one) for one in messages(store, stream)], next_times(store, 0, 0, stream)]
            found += [[seen(one) for one in messages(store, stream, 1, 5, 3, 250, None, True)]]
            found += [[seen(one) for one in rows(store, [1, 3, 5], stream)]]
            for at_ms in TIMES:
                found += [due(store, at_ms, 3, stream), expired(store, at_ms, 0, 0, 3, stream)]
                found += [expired(store, 1_000, at_ms, 3, 3, stream), next_times(store, at_ms, 3, stream)]
                found += [enqueued_before(store, at_ms, 1, 9, 3, None, stream)]
                found += [session_list(store, at_ms, 0, 9, stream)]
        found += [ready_sessions(store, 9, main), ready_sessions(store, 1, main), session_list(store, None, 1, 2, main)]
        for session_id in SESSIONS:
            found += [[seen(one) for one in messages(store, main, 0, 99, 2, 999, session_id, True)]]
            found += [enqueued_before(store, 100, 0, 99, 3, session_id, main), state_of(store, session_id, main)]
    return found


@settings(max_examples=40)
@given(data=st.data())
def test_both_stores_answer_alike_whatever_was_written_and_lost(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as opened:
        homes: list[Home] = [DiskHome(Path(directory)), MemoryHome()]
        for home in homes:
            opened.callback(home.close)
        clerk = Clerk()
        for home in homes:
            for queue in QUEUES:
                home.store.write(put_queue(queue))
            home.store.commit()
        kept = clerk.copy()
        for _ in range(data.draw(st.integers(1, 8))):
            effects = clerk.batch(data)
            duplicates = [set(home.store.write(effects).duplicates) for home in homes]
            assert duplicates[0] == duplicates[1]
            clerk.written(effects, duplicates[0])
            assert answers(homes[0].store) == answers(homes[1].store)
            end = data.draw(st.sampled_from(["go on", "commit", "commit", "reopen", "crash"]))
            if end in {"commit", "reopen"}:
                for home in homes:
                    home.store.commit()
                kept = clerk.copy()
            if end == "reopen":
                assert answers(homes[0].reopen()) == answers(homes[1].reopen())
            if end == "crash":
                assert answers(homes[0].crash()) == answers(homes[1].crash())
                clerk = kept.copy()
