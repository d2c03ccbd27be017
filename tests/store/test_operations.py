"""What stores promise to those who look for messages by their state, and at sessions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tandem.engine.message import ACTIVE, DEFERRED, SCHEDULED, BrokeredMessage
from tandem.engine.queries import ANY_STATE, ScanQuery, SessionPageQuery, SessionRecord
from tandem.store.base import Store
from tests.store.drive import (
    DEAD,
    LAST,
    MAIN,
    committed,
    message,
    numbers,
    published,
    put_topic,
    scheduled,
    seen,
    sent,
    session_state,
    stored,
)

Found = tuple[list[BrokeredMessage], int]


def scan(
    store: Store,
    state: int = ANY_STATE,
    after: int = 0,
    up_to: int = LAST,
    limit: int = 1_000,
    limit_bytes: int = 1 << 30,
    limit_rows: int = 1_000,
    needs_bytes: bool = False,
    stream: int = MAIN,
) -> Found:
    answers: list[Found] = []

    def answer(found: list[BrokeredMessage], seen_up_to: int) -> None:
        answers.append((found, seen_up_to))

    store.read(ScanQuery(stream, state, after, up_to, limit, limit_bytes, limit_rows, needs_bytes, answer))
    (only,) = answers
    return only


def plain(found: Found) -> tuple[list[int], int]:
    return numbers(found[0]), found[1]


def session_page(store: Store, after: str | None = None, limit: int = 100) -> list[tuple[object, ...]]:
    answers: list[list[SessionRecord]] = []
    store.read(SessionPageQuery(MAIN, after, limit, answers.append))
    (only,) = answers
    return [(one.session_id, one.active_count, one.state_bytes, one.updated_at_ms) for one in only]


@pytest.fixture
def mixed(store: Store) -> Store:
    """1 active, 2 deferred, 3 scheduled, 4 active, 7 deferred; 5 is dead."""
    committed(store, sent(message(1), message(2, state=DEFERRED), scheduled(3, 99), message(4)))
    committed(store, sent(message(7, state=DEFERRED)), sent(message(5, DEAD)))
    return store


@pytest.mark.parametrize(
    "state,expected",
    [(ACTIVE, [1, 4]), (DEFERRED, [2, 7]), (SCHEDULED, [3]), (ANY_STATE, [1, 2, 3, 4, 7])],
)
def test_a_scan_finds_the_messages_of_one_state_in_order(mixed: Store, state: int, expected: list[int]) -> None:
    assert plain(scan(mixed, state)) == (expected, LAST)


def test_a_scan_stays_within_its_bounds_and_its_stream(mixed: Store) -> None:
    assert plain(scan(mixed, after=1, up_to=4)) == ([2, 3, 4], 4)
    assert plain(scan(mixed, DEFERRED, after=2, up_to=6)) == ([], 6)
    assert plain(scan(mixed, stream=DEAD)) == ([5], LAST)
    assert plain(scan(mixed, stream=DEAD + 1)) == ([], LAST)


def test_a_scan_that_found_enough_says_where_to_go_on(mixed: Store) -> None:
    assert plain(scan(mixed, DEFERRED, limit=1)) == ([2], 2)
    assert plain(scan(mixed, DEFERRED, after=2, limit=1)) == ([7], 7)
    assert plain(scan(mixed, DEFERRED, after=7, limit=1)) == ([], LAST)


def test_a_scan_that_looked_at_enough_says_where_to_go_on_though_it_found_nothing(mixed: Store) -> None:
    assert plain(scan(mixed, SCHEDULED, limit_rows=2)) == ([], 2)
    assert plain(scan(mixed, SCHEDULED, after=2, limit_rows=2)) == ([3], 4)
    assert plain(scan(mixed, SCHEDULED, after=4, limit_rows=2)) == ([], LAST)


def test_a_scan_with_bytes_ends_with_the_message_that_fills_them(mixed: Store) -> None:
    assert plain(scan(mixed, limit_bytes=150, needs_bytes=True)) == ([1, 2], 2)
    # Without bytes there is nothing to be filled.
    assert plain(scan(mixed, limit_bytes=150, limit=4)) == ([1, 2, 3, 4], 4)


def test_a_scan_reads_messages_as_they_were_written(store: Store) -> None:
    one = message(1, session_id="s", stored=stored(b"\x00\xff", {"x-opt-partition-key": "k"}))
    expected = seen(one)
    committed(store, sent(one))
    assert [seen(found) for found in scan(store, needs_bytes=True)[0]] == [expected]
    assert [found.stored for found in scan(store)[0]] == [None]


def test_a_scan_reads_copies_with_the_bytes_that_they_share(store: Store) -> None:
    committed(store, put_topic(3, 4, 5))
    shared = stored(b"shared")
    committed(store, published(1, 3, message(1, 16, stored=None), message(1, 20, stored=None), bytes_=shared))
    ((one,), _) = scan(store, needs_bytes=True, stream=16)
    assert one.stored is not None
    assert one.stored.bare == shared.bare


def by_every_portion(store: Store, state: int, limit_rows: int) -> list[int]:
    found: list[int] = []
    after = 0
    for _ in range(100):
        page, after = plain(scan(store, state, after, up_to=20, limit=2, limit_rows=limit_rows))
        found += page
        if after == 20:
            return found
    raise AssertionError("the scan does not come to its end")


@pytest.mark.parametrize("limit_rows", [1, 2, 3, 100])
def test_portions_of_any_size_find_everything_once(store: Store, limit_rows: int) -> None:
    make: list[Callable[[int], BrokeredMessage]] = [
        message,
        lambda number: message(number, state=DEFERRED),
        lambda number: scheduled(number, 50),
    ]
    committed(store, sent(*[make[number % 3](number) for number in range(1, 20)]))
    for state in (ACTIVE, DEFERRED, SCHEDULED):
        expected = [number for number in range(1, 20) if number % 3 == state]
        assert by_every_portion(store, state, limit_rows) == expected


def test_sessions_come_in_the_order_of_their_ids_with_what_is_known_of_them(store: Store) -> None:
    committed(store, sent(message(1, session_id="b"), message(2, session_id="b"), message(3, session_id="")))
    committed(store, session_state("b", b"four", 77), session_state("c", b"", 78), session_state("é", None, 79))
    assert session_page(store) == [("", 1, -1, 0), ("b", 2, 4, 77), ("c", 0, 0, 78)]
    assert session_page(store, limit=1) == [("", 1, -1, 0)]
    assert session_page(store, after="") == [("b", 2, 4, 77), ("c", 0, 0, 78)]
    assert session_page(store, after="b", limit=1) == [("c", 0, 0, 78)]
    assert session_page(store, after="c") == []
