"""What every store promises, over each of them."""

from __future__ import annotations

import pytest

from tandem.amqp.message import Message
from tandem.engine.effects import Effects, ForgetDuplicates, PutRule
from tandem.engine.message import ACTIVE, DEFERRED, NEVER_MS, SCHEDULED, BrokeredMessage
from tandem.engine.queries import ExpiredQuery
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.errors import StoreFailed
from tandem.store.base import QueueRecord, Recovered, Store, StreamRecord
from tandem.store.log.recovery import LogRecovery
from tests.markers import mission
from tests.store.conftest import Home
from tests.store.drive import (
    DEAD,
    MAIN,
    QUEUE,
    committed,
    drop_hub,
    drop_progress,
    drop_queue,
    due,
    enqueued_before,
    expired,
    message,
    messages,
    moved,
    next_times,
    numbers,
    put_hub,
    put_progress,
    put_queue,
    ready_sessions,
    removed,
    rows,
    scheduled,
    seen,
    sent,
    session_list,
    session_state,
    set_state,
    state_of,
    stored,
)

# --- messages -----------------------------------------------------------------------------------------------

# What a store that holds nothing recovers.
NOTHING = Recovered([], [], [], 0, [], 0, LogRecovery([], [], 0), [])


def test_a_message_is_read_as_it_was_written(store: Store) -> None:
    one = message(
        7,
        state=DEFERRED,
        delivery_count=3,
        enqueued_time_ms=123,
        expires_at_ms=456,
        time_to_live_ms=333,
        session_id="Sitzung ß",
        size_bytes=99,
        enqueue_sequence_number=5,
        hop_count=2,
        partition=11,
        dead_letter_source="elsewhere",
        stored=stored(b"\x00\xff", {"x-opt-partition-key": "k"}),
    )
    expected = seen(one)
    committed(store, sent(one))
    assert [seen(found) for found in messages(store)] == [expected]
    assert [seen(found) for found in rows(store, [7])] == [expected]


def test_what_a_reader_does_to_a_message_does_not_change_the_stored_one(store: Store) -> None:
    one = message(1)
    committed(store, sent(one))
    expected = seen(messages(store)[0])
    for mine in (one, messages(store)[0]):
        assert mine.stored is not None
        mine.stored = mine.stored.modified({"mine": 1})
        mine.delivery_count = 9
        mine.stored = None
    assert seen(messages(store)[0]) == expected


def test_a_write_is_seen_before_its_commit(store: Store) -> None:
    store.write(sent(message(1)))
    assert numbers(messages(store)) == [1]


def test_messages_come_in_the_order_of_their_numbers_and_within_bounds(store: Store) -> None:
    committed(store, sent(message(1), message(2), message(3)), sent(message(8), message(9)))
    committed(store, sent(message(5, DEAD)))
    assert numbers(messages(store)) == [1, 2, 3, 8, 9]
    assert numbers(messages(store, after=2)) == [3, 8, 9]
    assert numbers(messages(store, after=1, up_to=8)) == [2, 3, 8]
    assert numbers(messages(store, limit=2)) == [1, 2]
    assert numbers(messages(store, DEAD)) == [5]


def test_a_page_ends_with_the_message_that_fills_its_bytes(store: Store) -> None:
    committed(store, sent(*[message(number, size_bytes=100) for number in range(1, 6)]))
    assert numbers(messages(store, limit_bytes=150)) == [1, 2]
    assert numbers(messages(store, limit_bytes=200)) == [1, 2]
    assert numbers(messages(store, limit_bytes=1)) == [1]


def test_only_active_messages_can_be_asked_for(store: Store) -> None:
    committed(store, sent(message(1), message(2, state=DEFERRED), scheduled(3, 99), message(4)))
    assert numbers(messages(store, is_active_only=True)) == [1, 4]
    assert numbers(messages(store)) == [1, 2, 3, 4]


def test_messages_of_one_session_can_be_asked_for(store: Store) -> None:
    committed(store, sent(*[message(number, session_id="ab"[number % 2]) for number in range(1, 7)]))
    committed(store, set_state(message(3, session_id="b"), DEFERRED))
    assert numbers(messages(store, session_id="b")) == [1, 3, 5]
    assert numbers(messages(store, session_id="b", is_active_only=True)) == [1, 5]
    assert numbers(messages(store, session_id="a", after=2, up_to=4)) == [4]
    assert numbers(messages(store, session_id="c")) == []


def test_messages_by_number_are_those_that_exist(store: Store) -> None:
    committed(store, sent(message(1), message(2), message(4)))
    assert numbers(rows(store, [1, 3, 4])) == [1, 4]
    assert rows(store, []) == []
    size_bytes = rows(store, [1])[0].size_bytes
    for limit_bytes, expected in ((0, [False, False]), (size_bytes, [True, False]), (size_bytes + 1, [True, True])):
        found = rows(store, [1, 4], limit_bytes=limit_bytes)
        assert [one.stored is not None for one in found] == expected


def test_removed_messages_are_gone_and_their_neighbours_are_not(store: Store) -> None:
    sent_messages = [message(number) for number in range(1, 11)]
    committed(store, sent(*sent_messages))
    committed(store, removed(*[one for one in sent_messages if one.sequence_number in {9, 2, 3, 4, 7}]))
    assert numbers(messages(store)) == [1, 5, 6, 8, 10]


def test_a_changed_state_and_delivery_count_are_kept(store: Store) -> None:
    committed(store, sent(message(1)))
    committed(store, set_state(message(1), DEFERRED, 4))
    (found,) = messages(store)
    assert (found.state, found.delivery_count) == (DEFERRED, 4)


def test_properties_are_set_with_the_state(store: Store) -> None:
    committed(store, sent(message(1)))
    committed(store, set_state(message(1), ACTIVE, 1, {"tried": True}))
    committed(store, set_state(message(1), ACTIVE, 2, {"by": "me"}))
    (found,) = messages(store)
    assert found.stored is not None
    assert Message(found.stored.bare).application_properties == {"tried": True, "by": "me"}
    assert Message(found.stored.bare).data == b"1"


def test_a_moved_message_has_its_new_place_and_properties_and_its_old_bytes(store: Store) -> None:
    one = message(3, expires_at_ms=5_000, session_id="s")
    committed(store, sent(one))
    one.expires_at_ms = NEVER_MS
    one.hop_count = 1
    one.dead_letter_source = "queue"
    committed(store, moved(one, DEAD, 3, {"DeadLetterReason": "tired"}))
    assert messages(store) == []
    (found,) = messages(store, DEAD)
    assert (found.sequence_number, found.hop_count, found.dead_letter_source) == (3, 1, "queue")
    assert (found.expires_at_ms, found.session_id) == (NEVER_MS, None)
    assert found.stored is not None
    assert Message(found.stored.bare).application_properties == {"DeadLetterReason": "tired"}
    assert Message(found.stored.bare).data == b"3"


def test_a_message_can_move_twice_in_one_batch(store: Store) -> None:
    one = message(1)
    committed(store, sent(one))
    first, second = moved(one, DEAD, 1), moved(one, 2 * STREAMS_PER_QUEUE, 6)
    committed(store, first, second)
    assert messages(store) == messages(store, DEAD) == []
    assert numbers(messages(store, 2 * STREAMS_PER_QUEUE)) == [6]


def test_a_change_of_a_message_that_is_gone_changes_nothing(store: Store) -> None:
    committed(store, sent(message(1)))
    effects = Effects()
    effects.changes += set_state(message(2), DEFERRED, 1, {"a": 1}).changes
    effects.changes += moved(message(3), DEAD, 3, {"a": 1}).changes
    effects.removed.append(message(4).row)
    committed(store, effects)
    assert numbers(messages(store)) == [1]
    assert messages(store, DEAD) == []


@mission("M1")
def test_properties_that_are_no_amqp_do_not_keep_a_message_from_being_dead_lettered(store: Store) -> None:
    """Nobody looks into them when the message is sent. The constructor 0x01 does not exist."""
    bare = b"\x00\x53\x74\xc1\x06\x02\xa1\x01k\x01v" + b"\x00\x53\x75\xa0\x01x"
    one = message(1)
    assert one.stored is not None
    one.stored.front = bare
    committed(store, sent(one))
    committed(store, moved(one, DEAD, 1, {"DeadLetterReason": "tired"}))
    (found,) = messages(store, DEAD)
    assert found.stored is not None
    assert found.stored.bare == bare


def test_a_number_is_not_taken_twice(store: Store) -> None:
    committed(store, sent(message(1)))
    with pytest.raises(StoreFailed):
        store.write(sent(message(1)))


# --- counts -------------------------------------------------------------------------------------------------


def test_counts_follow_messages_that_come_change_and_go(home: Home) -> None:
    store = home.store
    first, second, third = message(1), message(2, size_bytes=50), scheduled(3, 99)
    committed(store, put_queue(), sent(first, second, third))
    assert store.recover().streams == [StreamRecord(MAIN, 2, 0, 1, 250, 4, 1_000)]
    committed(store, set_state(first, DEFERRED))
    assert store.recover().streams == [StreamRecord(MAIN, 1, 1, 1, 250, 4, 1_000)]
    committed(store, moved(second, DEAD, 2), removed(third))
    expected = [StreamRecord(MAIN, 0, 1, 0, 100, 4, 1_000), StreamRecord(DEAD, 1, 0, 0, 50, 1, 0)]
    assert store.recover().streams == expected
    assert home.reopen().recover().streams == expected


def test_the_next_number_and_the_time_of_access_never_go_back(store: Store) -> None:
    committed(store, sent(message(5, enqueued_time_ms=2_000)))
    effects = Effects()
    effects.stream_change(MAIN).next_sequence_number = 3
    effects.stream_change(MAIN).accessed_at_ms = 1_000
    committed(store, effects, removed(message(5)))
    assert store.recover().streams == [StreamRecord(MAIN, 0, 0, 0, 0, 6, 2_000)]


def test_some_entities_are_read_with_their_counts_and_rules_and_no_others(store: Store) -> None:
    rules = Effects()
    rules.changes += [PutRule(number, f"rule-{number}", {"a": number}, 5) for number in (1, 2, 3)]
    # The stream of queue 1 is MAIN; 2 holds nothing.
    third = sent(message(7, stream=3 * STREAMS_PER_QUEUE))
    committed(store, put_queue(1), put_queue(2), put_queue(3), rules, sent(message(5), message(6)), third)
    everything = store.recover()
    found = store.read_entities([1, 2, 99])
    assert found.queues == [one for one in everything.queues if one.number in {1, 2}]
    assert found.streams == everything.streams[:1] == [StreamRecord(MAIN, 2, 0, 0, 200, 7, 1_000)]
    assert len(everything.streams) == 2
    assert [(rule.queue_number, rule.name, rule.fields) for rule in found.rules] == [
        (1, "rule-1", {"a": 1}),
        (2, "rule-2", {"a": 2}),
    ]


def test_queues_are_recorded_replaced_and_listed_by_number(home: Home) -> None:
    store = home.store
    committed(store, put_queue(2), put_queue(1), put_queue(2, max_delivery_count=3, user_metadata="ä"))
    first, second = store.recover().queues
    assert (first.number, second.number) == (1, 2)
    assert second.fields["max_delivery_count"] == 3
    assert second.fields["user_metadata"] == "ä"
    assert first == QueueRecord(1, "queue", first.fields, 10, 20)
    assert home.reopen().recover().queues == [first, second]


# --- time ---------------------------------------------------------------------------------------------------


def test_due_messages_come_earliest_first(store: Store) -> None:
    committed(store, sent(scheduled(1, 300), scheduled(2, 100), scheduled(3, 100), scheduled(4, 500), message(5)))
    assert due(store, 99) == []
    assert due(store, 100) == [2, 3]
    assert due(store, 400) == [2, 3, 1]
    assert due(store, 400, limit=1) == [2]
    assert due(store, 400, stream=DEAD) == []


def test_an_activated_message_is_not_due_any_more(store: Store) -> None:
    one = scheduled(1, 100)
    committed(store, sent(one))
    committed(store, moved(one, MAIN, 2))
    assert due(store, 1_000) == []
    (found,) = messages(store)
    assert (found.sequence_number, found.state, found.due_at_ms) == (2, ACTIVE, 0)


def test_expired_messages_come_earliest_first_and_after_the_last_one_that_was_handled(store: Store) -> None:
    times = {1: 300, 2: 100, 3: 100, 4: 500}
    committed(store, sent(*[message(number, expires_at_ms=at_ms) for number, at_ms in times.items()], message(5)))
    assert expired(store, 99) == []
    assert expired(store, 300) == [2, 3, 1]
    assert expired(store, 300, limit=2) == [2, 3]
    assert expired(store, 300, after_ms=100, after=2) == [3, 1]
    assert expired(store, 1_000, after_ms=100, after=3) == [1, 4]
    assert expired(store, 1_000, after_ms=500, after=4) == []


def test_only_active_messages_expire(store: Store) -> None:
    deferred = message(1, expires_at_ms=100)
    sleeping = message(2, state=SCHEDULED, due_at_ms=50, expires_at_ms=100)
    committed(store, sent(deferred, sleeping, message(3, expires_at_ms=100)))
    committed(store, set_state(deferred, DEFERRED))
    assert expired(store, 1_000) == [3]


def test_next_times_are_those_of_the_earliest_messages(store: Store) -> None:
    assert next_times(store) == (NEVER_MS, NEVER_MS)
    committed(store, sent(scheduled(1, 70), scheduled(2, 60), message(3, expires_at_ms=50), message(4)))
    committed(store, sent(message(5, expires_at_ms=40)))
    assert next_times(store) == (60, 40)
    assert next_times(store, after_ms=40, after=5) == (60, 50)
    assert next_times(store, after_ms=50, after=3) == (60, NEVER_MS)
    assert next_times(store, stream=DEAD) == (NEVER_MS, NEVER_MS)


def test_messages_enqueued_before_a_time_are_found_within_bounds(store: Store) -> None:
    times = {1: 10, 2: 30, 3: 20, 4: 10, 5: 10}
    committed(
        store,
        sent(*[message(number, enqueued_time_ms=at_ms, session_id="s") for number, at_ms in times.items()]),
        sent(message(6, enqueued_time_ms=10, session_id="t")),
        set_state(message(4, session_id="s"), DEFERRED),
    )
    assert enqueued_before(store, 20) == [1, 3, 5, 6]
    assert enqueued_before(store, 20, after=1, up_to=5) == [3, 5]
    assert enqueued_before(store, 20, limit=2) == [1, 3]
    assert enqueued_before(store, 20, session_id="s") == [1, 3, 5]
    assert enqueued_before(store, 9) == []


def test_what_is_only_looked_for_comes_without_its_bytes(store: Store) -> None:
    found: list[BrokeredMessage] = []
    committed(store, sent(message(1, expires_at_ms=5)))
    store.read(ExpiredQuery(MAIN, 10, 0, 0, 10, found.extend))
    assert found[0].stored is None


# --- duplicates ---------------------------------------------------------------------------------------------


def marked(number: int, key: str, at_ms: int, window_ms: int = 1_000) -> BrokeredMessage:
    return message(number, enqueued_time_ms=at_ms, duplicate_keys=[(QUEUE, key, window_ms)])


def test_a_message_id_is_a_duplicate_within_its_window_and_not_after(store: Store) -> None:
    assert committed(store, sent(marked(1, "a", 5_000))) == set()
    assert committed(store, sent(marked(2, "a", 5_999))) == {message(2).row}
    assert committed(store, sent(marked(3, "a", 6_000))) == set()
    assert committed(store, sent(marked(4, "a", 6_500))) == {message(4).row}
    assert committed(store, sent(marked(5, "b", 6_500))) == set()
    assert numbers(messages(store)) == [1, 3, 5]


def test_duplicates_are_found_within_one_batch_and_are_not_counted(store: Store) -> None:
    assert committed(store, sent(marked(1, "a", 1), marked(2, "a", 1))) == {message(2).row}
    assert store.recover().streams == [StreamRecord(MAIN, 1, 0, 0, 100, 3, 1)]


def test_a_message_must_be_new_to_each_of_its_detections(store: Store) -> None:
    both = [(1, "a", 1_000), (2, "a", 1_000)]
    assert committed(store, sent(message(1, duplicate_keys=[both[1]]))) == set()
    assert committed(store, sent(message(2, duplicate_keys=both))) == {message(2).row}
    # The first detection had not seen it, and has now.
    assert committed(store, sent(message(3, duplicate_keys=[both[0]]))) == {message(3).row}


def test_forgotten_message_ids_are_new(store: Store) -> None:
    committed(store, sent(marked(1, "a", 100), marked(2, "b", 200)))
    effects = Effects()
    effects.changes.append(ForgetDuplicates(QUEUE, 100))
    committed(store, effects)
    assert committed(store, sent(marked(3, "a", 300), marked(4, "b", 300))) == {message(4).row}


def test_the_time_of_the_youngest_message_id_is_recovered(home: Home) -> None:
    """It may lie ahead of a clock that was set back: ids are forgotten when it has passed, not earlier or never."""
    committed(home.store, put_queue(QUEUE), put_queue(QUEUE + 1))
    committed(home.store, sent(marked(1, "a", 900), marked(2, "b", 200), marked(3, "c", 500)))
    assert [queue.last_id_at_ms for queue in home.reopen().recover().queues] == [900, 0]


def test_message_ids_of_one_queue_are_not_those_of_another(store: Store) -> None:
    committed(store, sent(marked(1, "a", 100)))
    assert committed(store, sent(message(2, duplicate_keys=[(QUEUE + 1, "a", 1_000)]))) == set()


# --- sessions -----------------------------------------------------------------------------------------------


def in_session(number: int, session_id: str) -> BrokeredMessage:
    return message(number, session_id=session_id)


def test_sessions_are_ready_in_the_order_in_which_they_became_so(store: Store) -> None:
    committed(store, sent(in_session(1, "c"), in_session(2, "a"), in_session(3, "c")), sent(in_session(4, "b")))
    assert ready_sessions(store) == ["c", "a", "b"]
    assert ready_sessions(store, limit=2) == ["c", "a"]
    committed(store, removed(in_session(1, "c")), sent(in_session(5, "a")))
    assert ready_sessions(store) == ["c", "a", "b"]
    committed(store, removed(in_session(3, "c")))
    assert ready_sessions(store) == ["a", "b"]
    committed(store, sent(in_session(6, "c")))
    assert ready_sessions(store) == ["a", "b", "c"]


def test_a_session_is_found_and_counted_by_any_spelling_of_its_id(store: Store) -> None:
    committed(store, sent(in_session(1, "Red"), in_session(2, "blue"), in_session(3, "RED")))
    assert ready_sessions(store) == ["Red", "blue"]
    assert [one.session_id for one in messages(store, session_id="reD")] == ["Red", "RED"]
    committed(store, session_state("rEd", b"state", 5, 5))
    assert (session_list(store), session_list(store, 4)) == (["blue", "Red"], ["Red"])
    assert [state_of(store, one) for one in ("red", "RED", "Blue")] == [b"state", b"state", None]
    effects = removed(in_session(1, "Red"))
    effects.removed.append(in_session(3, "RED").row)
    effects.stream_change(MAIN).add(in_session(3, "RED"), -1)
    committed(store, effects)
    assert ready_sessions(store) == ["blue"]
    committed(store, session_state("RED", None, 6, -5))
    assert session_list(store) == ["blue"]
    committed(store, sent(in_session(4, "RED")))
    assert session_list(store) == ["blue", "RED"]


def test_a_session_that_only_changes_its_spelling_within_a_batch_keeps_its_place(store: Store) -> None:
    committed(store, sent(in_session(1, "a")), sent(in_session(2, "b")))
    effects = sent(in_session(3, "A"))
    effects.removed.append(in_session(1, "a").row)
    effects.stream_change(MAIN).add(in_session(1, "a"), -1)
    committed(store, effects)
    assert ready_sessions(store) == ["a", "b"]


def test_a_session_that_stays_non_empty_within_a_batch_keeps_its_place(store: Store) -> None:
    committed(store, sent(in_session(1, "a")), sent(in_session(2, "b")))
    effects = sent(in_session(3, "a"))
    effects.removed.append(in_session(1, "a").row)
    effects.stream_change(MAIN).add(in_session(1, "a"), -1)
    committed(store, effects)
    assert ready_sessions(store) == ["a", "b"]


def test_many_sessions_of_one_batch_are_ready_in_the_order_of_their_messages(store: Store) -> None:
    names = [f"s{(number * 7_919) % 101}" for number in range(100)]
    committed(store, sent(*[in_session(number + 1, name) for number, name in enumerate(names)]))
    committed(store, sent(in_session(101, "z")))
    assert ready_sessions(store) == [*names, "z"]


def test_deferred_and_scheduled_messages_do_not_make_a_session_ready(store: Store) -> None:
    committed(store, sent(message(1, session_id="d"), message(2, session_id="s", state=SCHEDULED, due_at_ms=9)))
    committed(store, set_state(message(1, session_id="d"), DEFERRED))
    assert ready_sessions(store) == []
    assert session_list(store) == []


def test_the_state_of_a_session_is_kept_without_messages_until_it_is_cleared(home: Home) -> None:
    store = home.store
    committed(store, put_queue(requires_session=True), session_state("s", b"half way", 50, 8))
    assert state_of(store, "s") == b"half way"
    assert ready_sessions(store) == []
    assert session_list(store) == ["s"]
    assert state_of(home.reopen(), "s") == b"half way"
    assert home.store.recover().streams[0].size_bytes == 8
    committed(home.store, session_state("s", None, 60, -8))
    assert state_of(home.store, "s") is None
    assert session_list(home.store) == []


def test_an_empty_state_is_a_state(store: Store) -> None:
    committed(store, session_state("s", b"", 50))
    assert state_of(store, "s") == b""
    assert session_list(store) == ["s"]


def test_a_session_with_a_state_survives_its_last_message_and_queues_up_anew(store: Store) -> None:
    committed(store, sent(in_session(1, "a")), session_state("a", b"x", 5), sent(in_session(2, "b")))
    committed(store, removed(in_session(1, "a")))
    assert (ready_sessions(store), session_list(store)) == (["b"], ["a", "b"])
    committed(store, sent(in_session(3, "a")))
    assert ready_sessions(store) == ["b", "a"]
    assert state_of(store, "a") == b"x"


def test_a_cleared_state_leaves_a_session_that_has_messages(store: Store) -> None:
    committed(store, sent(in_session(1, "a")), session_state("a", b"x", 5))
    committed(store, session_state("a", None, 6))
    assert (ready_sessions(store), session_list(store), state_of(store, "a")) == (["a"], ["a"], None)


def test_sessions_are_listed_by_id_page_by_page_and_by_the_time_of_their_state(store: Store) -> None:
    committed(store, *[session_state(name, b"x", at_ms) for name, at_ms in {"c": 10, "ä": 30, "a": 20}.items()])
    committed(store, sent(in_session(1, "b")))
    assert session_list(store) == ["a", "b", "c", "ä"]
    assert session_list(store, skip=1, limit=2) == ["b", "c"]
    assert session_list(store, updated_after_ms=10) == ["a", "ä"]
    assert session_list(store, updated_after_ms=30) == []
    assert session_list(store, stream=DEAD) == []


# --- deleted queues -----------------------------------------------------------------------------------------


def sweep_all(store: Store) -> None:
    for _ in range(1_000):
        if not store.sweep():
            return
    raise AssertionError("there is always something to sweep")


def test_a_dropped_queue_leaves_nothing_when_all_is_swept(home: Home) -> None:
    store = home.store
    many = [marked(number, f"id-{number}", 1_000) for number in range(1, 4_501)]
    committed(store, put_queue(1), put_queue(2), sent(*many), sent(message(4_501, DEAD), in_session(4_502, "s")))
    committed(store, session_state("s", b"x", 5), sent(message(1, 2 * STREAMS_PER_QUEUE)))
    committed(store, drop_queue(1))
    recovered = store.recover()
    assert [record.number for record in recovered.queues] == [2]
    assert [record.stream for record in recovered.streams] == [2 * STREAMS_PER_QUEUE]
    sweep_all(store)
    store = home.reopen()
    assert messages(store) == messages(store, DEAD) == []
    assert session_list(store) == []
    assert numbers(messages(store, 2 * STREAMS_PER_QUEUE)) == [1]
    assert store.recover().streams == [StreamRecord(2 * STREAMS_PER_QUEUE, 1, 0, 0, 100, 2, 1_000)]


def test_a_queue_dropped_in_the_batch_of_its_last_message_is_gone(home: Home) -> None:
    """The engine forgets the counts of a queue that it drops, but the message was on its way."""
    store = home.store
    committed(store, put_queue(1), sent(message(1)))
    effects = sent(message(2))
    effects.changes += drop_queue().changes
    del effects.streams[MAIN]
    committed(store, effects)
    assert store.recover() == NOTHING
    sweep_all(store)
    assert home.reopen().recover() == NOTHING


def test_what_is_written_to_a_dropped_queue_later_is_not_kept(home: Home) -> None:
    """An answer that was under way when the queue was deleted."""
    store = home.store
    committed(store, put_queue(1), put_queue(2), sent(message(1), in_session(2, "s")))
    committed(store, drop_queue(1))
    sweep_all(store)
    committed(store, removed(message(1)), sent(message(3)), session_state("s", b"x", 5, 1), sent(in_session(4, "s")))
    sweep_all(store)
    assert store.recover().streams == []
    store = home.reopen()
    assert store.recover().streams == []
    assert messages(store) == []
    assert session_list(store) == []


@pytest.mark.parametrize("is_swept", [True, False])
def test_a_new_queue_with_the_number_of_a_dropped_one_starts_empty(home: Home, is_swept: bool) -> None:
    """After a restart the numbers go on behind those of the queues that are left."""
    store = home.store
    many = [marked(number, f"id-{number}", 1_000) for number in range(1, 2_501)]
    committed(store, put_queue(1), sent(*many), session_state("s", b"x", 5))
    committed(store, drop_queue(1))
    if is_swept:
        sweep_all(store)
    store = home.crash()
    assert store.recover() == NOTHING
    committed(store, put_queue(1))
    assert committed(store, sent(marked(1, "id-1", 1_000))) == set()
    sweep_all(store)
    assert numbers(messages(store)) == [1]
    assert session_list(store) == []
    assert store.recover().streams == [StreamRecord(MAIN, 1, 0, 0, 100, 2, 1_000)]


# --- crashes ------------------------------------------------------------------------------------------------


def everything(store: Store) -> object:
    return (
        [[seen(one) for one in messages(store, stream)] for stream in (MAIN, DEAD)],
        store.recover(),
        session_list(store),
        [state_of(store, name) for name in session_list(store)],
        ready_sessions(store),
        due(store, 1 << 40),
        expired(store, 1 << 40),
    )


@mission("M3")
def test_a_crash_undoes_everything_since_the_last_commit_and_nothing_before(home: Home) -> None:
    store = home.store
    first = message(1, expires_at_ms=10)
    committed(store, put_queue(), sent(first, message(2), scheduled(3, 99), in_session(4, "s"), marked(5, "id", 1_000)))
    committed(store, session_state("t", b"x", 5))
    expected = everything(store)
    store.write(sent(message(6, session_id="u", expires_at_ms=5), marked(7, "new", 1_000)))
    store.write(set_state(message(2), DEFERRED, 3, {"a": "b"}))
    store.write(moved(first, DEAD, 1, {"a": "b"}))
    store.write(moved(scheduled(3, 99), MAIN, 8))
    store.write(removed(in_session(4, "s")))
    store.write(session_state("t", None, 9))
    store.write(session_state("v", b"y", 9))
    store.write(put_queue(2))
    effects = Effects()
    effects.changes.append(ForgetDuplicates(QUEUE, 5_000))
    store.write(effects)
    assert everything(store) != expected
    store = home.crash()
    assert everything(store) == expected
    assert committed(store, sent(marked(6, "id", 1_001), marked(7, "new", 1_001))) == {message(6).row}


def test_a_crash_brings_a_queue_back_whose_deletion_was_not_committed(home: Home) -> None:
    store = home.store
    committed(store, put_queue(), sent(message(1), in_session(2, "s"), marked(3, "id", 1_000)))
    expected = everything(store)
    store.write(drop_queue())
    store = home.crash()
    assert not store.sweep()
    assert everything(store) == expected
    assert committed(store, sent(marked(4, "id", 1_001))) == {message(4).row}
    committed(store, sent(message(5)))
    assert numbers(messages(store)) == [1, 2, 3, 5]


def test_the_number_of_a_deleted_hub_is_remembered_by_the_tables_alone(home: Home) -> None:
    """The log hears of a deletion after the commit: a crash may come between the two."""
    store = home.store
    committed(store, put_hub(1_000, partition_count=1), put_hub(1_007, partition_count=1))
    store.write(drop_hub(1_007))
    assert home.crash().recover().last_dropped_hub == 0
    for number in (1_007, 1_000):
        home.store.write(drop_hub(number))
        home.store.commit()
        recovered = home.crash().recover()
        assert number not in [hub.number for hub in recovered.hubs]
        assert recovered.last_dropped_hub == 1_007


def progress(store: Store) -> list[tuple[object, ...]]:
    return [tuple(record) for record in store.recover().progress]


def test_the_progress_of_consumer_groups_is_kept_and_a_crash_undoes_what_was_not_committed(home: Home) -> None:
    hubs = [put_hub(number, partition_count=4) for number in (1, 10)]
    records = [
        put_progress(10, 2, "a-b", etag=1),
        put_progress(10, 0, "$default", offset=None),
        put_progress(1, 3, "x"),
    ]
    committed(home.store, *hubs, *records, put_progress(10, 2, "a-b", etag=2))
    expected = [(1, 3, "x", {}), (10, 0, "$default", {"offset": None}), (10, 2, "a-b", {"etag": 2})]
    assert progress(home.store) == expected
    for change in (put_progress(10, 2, "a-b", etag=3), drop_progress(10, "a-b"), drop_hub(10)):
        home.store.write(change)
        assert progress(home.crash()) == expected


def test_the_progress_of_a_group_goes_with_the_group_and_that_of_all_with_the_hub(home: Home) -> None:
    hubs = [put_hub(number, partition_count=4) for number in (1, 10)]
    records = [put_progress(number, 0, group) for number in (1, 10) for group in ("a", "a-b")]
    committed(home.store, *hubs, *records, put_progress(1, 3, "a"))
    committed(home.store, drop_progress(1, "a"))
    assert progress(home.reopen()) == [(1, 0, "a-b", {}), (10, 0, "a", {}), (10, 0, "a-b", {})]
    committed(home.store, drop_hub(1))
    assert progress(home.crash()) == [(10, 0, "a", {}), (10, 0, "a-b", {})]


def test_what_was_committed_survives_any_number_of_restarts(home: Home) -> None:
    committed(home.store, put_queue(), sent(message(1), in_session(2, "s"), scheduled(3, 5)))
    expected = everything(home.store)
    for _ in range(3):
        assert everything(home.reopen()) == expected
        assert everything(home.crash()) == expected


def test_a_store_has_room_and_nothing_to_sweep_to_begin_with(store: Store) -> None:
    assert store.has_room()
    assert not store.sweep()
    assert store.recover() == NOTHING
