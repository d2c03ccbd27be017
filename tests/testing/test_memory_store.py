"""What only the store in memory has: it crashes when it is told to."""

from __future__ import annotations

import pytest

from tandem.errors import StoreFailed
from tandem.testing.memory_store import MemoryStore
from tests.store.drive import committed, message, messages, numbers, sent


def test_a_crash_in_the_middle_of_a_commit_leaves_it_done_or_undone_as_the_caller_chooses() -> None:
    for is_committed, expected in ((False, [1]), (True, [1, 2])):
        store = MemoryStore()
        committed(store, sent(message(1)))
        store.write(sent(message(2)))
        store.crash(is_committed)
        store.reopen()
        assert numbers(messages(store)) == expected


def test_nothing_can_be_done_with_a_crashed_store() -> None:
    store = MemoryStore()
    store.crash()
    for use in (lambda: store.write(sent(message(1))), store.commit, store.recover, lambda: messages(store)):
        with pytest.raises(StoreFailed, match="reopen it first"):
            use()
    store.reopen()
    committed(store, sent(message(1)))


def test_the_power_can_fail_again_and_again() -> None:
    store = MemoryStore()
    for number in range(1, 20):
        committed(store, sent(message(number)))
        store.write(sent(message(number + 1, expires_at_ms=5)))
        store.reopen()
        assert numbers(messages(store)) == list(range(1, number + 1))


def test_a_full_disk_can_be_played() -> None:
    store = MemoryStore()
    store.is_full = True
    assert not store.has_room()


def test_settings_survive_a_crash() -> None:
    store = MemoryStore()
    assert store.setting("key") is None
    store.put_setting("key", "value")
    store.reopen()
    assert store.setting("key") == "value"
