"""What stores promise about topics: bodies that are kept once, rules, and duplicates that are judged once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tandem.amqp.message import Message
from tandem.engine.effects import DropRule, Effects, Move, PutRule, SetState
from tandem.engine.message import Admission, BrokeredMessage
from tandem.store.base import Store
from tandem.store.check import check
from tandem.store.sqlite import SqliteStore
from tests.markers import mission
from tests.store.conftest import Home
from tests.store.drive import committed, drop_queue, message, messages, published, put_topic, removed, rows, stored

TOPIC = 3
FIRST, SECOND, THIRD = 16, 20, 24
BODY = b"x" * 10_000


def copies(*streams: int) -> list[BrokeredMessage]:
    return [message(1, stream, stored=None) for stream in streams]


def bytes_of(one: BrokeredMessage) -> bytes:
    assert one.stored is not None
    return one.stored.bare


def size_of_topic(store: Store) -> int:
    return sum(record.size_bytes for record in store.recover().streams if record.stream == TOPIC * 4)


@pytest.fixture
def topic(store: Store) -> Store:
    committed(store, put_topic(TOPIC, 4, 5, 6))
    return store


@mission("M7")
def test_copies_are_read_with_the_bytes_that_they_share(topic: Store, home: Home) -> None:
    shared = stored(BODY, {"x-opt-mine": 1})
    committed(topic, published(1, TOPIC, *copies(FIRST, SECOND), bytes_=shared))
    for is_reopened in (False, True):
        store = home.reopen() if is_reopened else topic
        for stream in (FIRST, SECOND):
            (one,) = messages(store, stream)
            assert bytes_of(one) == shared.bare
            assert one.stored is not None
            assert one.stored.header_fields == shared.header_fields
            assert one.stored.message_annotations.encoded == shared.message_annotations.encoded
            assert one.body_number == 1
            assert [bytes_of(found) for found in rows(store, [1], stream)] == [shared.bare]


@mission("M8")
def test_a_copy_that_an_action_changed_has_its_own_properties_and_the_shared_body(topic: Store, home: Home) -> None:
    shared = stored(BODY)
    changed = shared.modified({"RuleName": "r"})
    plain, other = copies(FIRST, SECOND)
    other.stored = changed
    committed(topic, published(1, TOPIC, plain, other, bytes_=shared))
    store = home.reopen()
    assert bytes_of(messages(store, FIRST)[0]) == shared.bare
    assert bytes_of(messages(store, SECOND)[0]) == changed.bare


def test_a_copy_whose_properties_were_all_removed_stays_without_any(topic: Store) -> None:
    shared = stored(BODY)
    plain, other = copies(FIRST, SECOND)
    sections = Message(shared.bare).sections
    other.stored = shared.with_bare(shared.bare[sections.body_start() :])
    committed(topic, published(1, TOPIC, plain, other, bytes_=shared))
    (found,) = messages(topic, SECOND)
    assert Message(bytes_of(found)).properties is None
    assert Message(bytes_of(found)).data == BODY


def test_properties_that_are_modified_on_one_copy_leave_the_others_alone(topic: Store, home: Home) -> None:
    shared = stored(BODY)
    one, other = copies(FIRST, SECOND)
    committed(topic, published(1, TOPIC, one, other, bytes_=shared))
    effects = Effects()
    effects.changes.append(SetState(one.row, 0, 1, {"tried": True}))
    effects.changes.append(SetState(one.row, 0, 2, {"again": True}))
    committed(topic, effects)
    store = home.reopen()
    changed = Message(bytes_of(messages(store, FIRST)[0]))
    assert changed.application_properties == {"tried": True, "again": True}
    assert changed.data == BODY
    assert bytes_of(messages(store, SECOND)[0]) == shared.bare


def test_a_body_is_counted_to_its_topic_until_its_last_copy_is_gone(topic: Store) -> None:
    one, two, three = copies(FIRST, SECOND, THIRD)
    written = topic.write(published(1, TOPIC, one, two, three, size_bytes=700))
    assert written.shared_bytes == {TOPIC * 4: 700}
    assert size_of_topic(topic) == 700
    assert topic.write(removed(one)).shared_bytes == {}
    assert size_of_topic(topic) == 700
    assert topic.write(removed(two, three)).shared_bytes == {TOPIC * 4: -700}
    topic.commit()
    assert size_of_topic(topic) == 0


def test_a_copy_that_leaves_its_topic_takes_its_bytes_along(topic: Store, home: Home) -> None:
    shared = stored(BODY)
    one, two = copies(FIRST, SECOND)
    committed(topic, published(1, TOPIC, one, two, bytes_=shared))
    effects = Effects()
    row = one.row
    effects.stream_change(one.stream).add(one, -1)
    one.stream, one.sequence_number, one.body_number, one.stored = 4, 9, 0, None
    effects.stream_change(4).add(one, 1)
    effects.stream_change(4).next_sequence_number = 10
    effects.changes.append(Move(row, one, {"DeadLetterReason": "r"}, 1))
    effects.release(1)
    committed(topic, effects, removed(two))
    store = home.reopen()
    (found,) = messages(store, 4)
    assert found.body_number == 0
    assert Message(bytes_of(found)).data == BODY
    assert Message(bytes_of(found)).application_properties == {"DeadLetterReason": "r"}
    assert size_of_topic(store) == 0


def test_a_refused_admission_keeps_all_copies_out(topic: Store) -> None:
    first = published(1, TOPIC, *copies(FIRST, SECOND))
    admission = Admission([(TOPIC, "id", 1_000)], 100)
    for one in first.appended:
        one.admission = admission
    first.admissions.append(admission)
    assert committed(topic, first) == set()
    again = published(2, TOPIC, message(2, FIRST, stored=None), message(2, SECOND, stored=None))
    refused = Admission([(TOPIC, "id", 1_000)], 900)
    for one in again.appended:
        one.admission = refused
    again.admissions.append(refused)
    before = size_of_topic(topic)
    assert committed(topic, again) == {one.row for one in again.appended}
    assert size_of_topic(topic) == before
    assert [len(messages(topic, stream)) for stream in (FIRST, SECOND)] == [1, 1]
    late = Effects()
    late.admissions.append(Admission([(TOPIC, "id", 1_000)], 1_100))
    assert committed(topic, late) == set()


def test_an_id_is_remembered_though_no_subscription_wanted_the_message(topic: Store) -> None:
    lonely = Effects()
    lonely.admissions.append(Admission([(TOPIC, "id", 1_000)], 100))
    assert lonely.has_writes
    committed(topic, lonely)
    again = published(1, TOPIC, *copies(FIRST, SECOND))
    refused = Admission([(TOPIC, "id", 1_000)], 200)
    for one in again.appended:
        one.admission = refused
    again.admissions.append(refused)
    assert committed(topic, again) == {one.row for one in again.appended}


@mission("M7")
def test_after_a_crash_all_copies_of_a_send_are_there_or_none(topic: Store, home: Home) -> None:
    committed(topic, published(1, TOPIC, *copies(FIRST, SECOND)))
    topic.write(published(2, TOPIC, message(2, FIRST, stored=None), message(2, SECOND, stored=None)))
    store = home.crash()
    assert [len(messages(store, stream)) for stream in (FIRST, SECOND)] == [1, 1]
    assert size_of_topic(store) == 100
    assert store.recover().last_body_number == 1


def test_rules_are_kept_replaced_and_dropped(topic: Store, home: Home) -> None:
    effects = Effects()
    effects.changes.append(PutRule(4, "r", {"filter": {"kind": "false"}, "action": None}, 30))
    effects.changes.append(
        PutRule(4, "$Default", {"filter": {"kind": "sql", "expression": "a = 1"}, "action": None}, 10)
    )
    effects.changes.append(DropRule(5, "$Default"))
    committed(topic, effects)
    rules = home.reopen().recover().rules
    assert [(rule.queue_number, rule.name) for rule in rules] == [(4, "$Default"), (4, "r"), (6, "$Default")]
    assert rules[0].fields == {"filter": {"kind": "sql", "expression": "a = 1"}, "action": None}


def test_a_dropped_subscription_takes_its_rules_and_its_share_of_bodies(topic: Store, home: Home) -> None:
    one, two = copies(FIRST, SECOND)
    committed(topic, published(1, TOPIC, one, two))
    committed(topic, drop_queue(4))
    while topic.sweep():
        pass
    assert bytes_of(messages(topic, SECOND)[0])
    assert size_of_topic(topic) == 100
    committed(topic, removed(two))
    assert size_of_topic(topic) == 0
    assert [rule.queue_number for rule in home.reopen().recover().rules] == [5, 6]


def test_a_body_that_only_deleted_subscriptions_held_is_given_back_to_its_topic(topic: Store) -> None:
    committed(topic, published(1, TOPIC, *copies(FIRST, SECOND)))
    changes: Counter[int] = Counter()
    for number in (4, 5):
        changes.update(topic.write(drop_queue(number)).shared_bytes)
        topic.commit()
        while (swept := topic.sweep()) is not None:
            changes.update(swept.shared_bytes)
    assert changes == {TOPIC * 4: -100}
    assert size_of_topic(topic) == 0


@mission("M7")
def test_a_hundred_copies_of_a_large_message_grow_the_store_by_one_body(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, ballast_bytes=0)
    committed(store, put_topic(3, *range(4, 104)))
    store.close()
    before = (tmp_path / "messages.db").stat().st_size
    store = SqliteStore(tmp_path, ballast_bytes=0)
    large = stored(b"x" * 1_000_000)
    everybody = [message(1, number * 4, stored=None) for number in range(4, 104)]
    committed(store, published(1, 3, *everybody, bytes_=large))
    store.close()
    assert (tmp_path / "messages.db").stat().st_size - before < 1_100_000
    assert check(tmp_path).findings == []


@pytest.mark.parametrize(
    "statement, finding",
    [
        ("UPDATE body SET copies = 3", "counts 3 copies and has 2"),
        ("DELETE FROM body", "shares the body 1, which is not there"),
        ("UPDATE body SET size_bytes = 5", "counts 100 bytes and has 5"),
        ("UPDATE body SET front_bytes = 99999", "99999 bytes before it"),
        ("UPDATE body SET bare = x'00'", "the shared body 1 cannot be read"),
        ("UPDATE rule SET queue = 77 WHERE queue = 4", "subscription 77, which has no record"),
        ("UPDATE rule SET fields = '{\"filter\": 1}'", "cannot be used: filter must be an object"),
    ],
)
def test_check_finds_what_contradicts_what(tmp_path: Path, statement: str, finding: str) -> None:
    store = SqliteStore(tmp_path, ballast_bytes=0)
    committed(store, put_topic(TOPIC, 4, 5))
    committed(store, published(1, TOPIC, *copies(FIRST, SECOND)))
    store._execute(statement)
    store.close()
    assert any(finding in found for found in check(tmp_path).findings), check(tmp_path).findings
