"""A store on a disk that is full, that does not sync, or that loses its power at any moment."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tandem.engine.effects import Effects
from tandem.engine.message import DEFERRED, BrokeredMessage
from tandem.errors import StoreError, StoreFailed
from tandem.store.check import check
from tandem.store.log.files import Bytes, DiskFiles
from tandem.store.sqlite import DATABASE_NAME, SqliteStore
from tandem.testing.disk import FaultyDisk
from tests.markers import mission
from tests.store.drive import (
    DEAD,
    MAIN,
    appended,
    committed,
    drop_queue,
    events,
    message,
    messages,
    moved,
    numbers,
    put_hub,
    put_queue,
    removed,
    sent,
    session_state,
    set_state,
    stored,
)

MEGABYTE = 1 << 20
# More than the log ever holds here.
BALLAST_BYTES = 20 * MEGABYTE
# Below 32 MiB of free space no new messages are taken.
RESERVE_BYTES = 32 * MEGABYTE


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FaultyDisk]:
    with FaultyDisk(tmp_path) as made:
        yield made


def open_on(disk: FaultyDisk, directory: Path, checkpoint_pages: int = 1_000) -> SqliteStore:
    return SqliteStore(
        directory,
        vfs=disk.name,
        free_bytes=disk.free_bytes,
        ballast_bytes=BALLAST_BYTES,
        checkpoint_pages=checkpoint_pages,
    )


def large(number: int) -> BrokeredMessage:
    return message(number, size_bytes=100_000, stored=stored(bytes(100_000)))


def used_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


# --- full ---------------------------------------------------------------------------------------------------


@mission("M15")
def test_there_is_no_room_before_the_disk_is_full_indeed(tmp_path: Path, disk: FaultyDisk) -> None:
    store = open_on(disk, tmp_path)
    assert store.has_room()
    disk.capacity_bytes = used_bytes(tmp_path) + RESERVE_BYTES
    assert store.has_room()
    disk.capacity_bytes -= 1
    assert not store.has_room()
    store.close()


def test_a_disk_without_room_for_the_ballast_has_no_room_for_messages(tmp_path: Path, disk: FaultyDisk) -> None:
    disk.capacity_bytes = RESERVE_BYTES + BALLAST_BYTES // 2
    store = open_on(disk, tmp_path)
    assert not store.has_room()
    disk.capacity_bytes = None
    assert store.has_room()
    assert (tmp_path / "ballast").stat().st_size == BALLAST_BYTES
    store.close()


@mission("M15")
def test_the_batch_that_finds_the_disk_full_is_committed_in_place_of_the_ballast(
    tmp_path: Path, disk: FaultyDisk
) -> None:
    store = open_on(disk, tmp_path)
    committed(store, put_queue(), sent(*[large(number) for number in range(1, 6)]))
    disk.capacity_bytes = used_bytes(tmp_path) + 10_000
    store.write(sent(large(6), large(7)))
    store.write(removed(large(1)))
    store.commit()
    assert not (tmp_path / "ballast").exists()
    assert not store.has_room()
    assert numbers(messages(store)) == [2, 3, 4, 5, 6, 7]
    disk.has_power = False
    store.close()
    disk.restore_power()
    store = open_on(disk, tmp_path)
    assert numbers(messages(store)) == [2, 3, 4, 5, 6, 7]
    store.close()
    assert check(tmp_path).findings == []


@mission("M15")
def test_a_batch_is_written_again_as_it_was_decided(tmp_path: Path, disk: FaultyDisk) -> None:
    """The engine goes on while a commit runs: a dead letter may have been abandoned meanwhile."""
    store = open_on(disk, tmp_path)
    one = message(1)
    committed(store, put_queue(), sent(one, large(2)))
    disk.capacity_bytes = used_bytes(tmp_path)
    store.write(sent(large(3)))
    store.write(moved(one, DEAD, 1))
    one.delivery_count = 7
    one.state = DEFERRED
    store.commit()
    assert not (tmp_path / "ballast").exists()
    (found,) = messages(store, DEAD)
    assert (found.delivery_count, found.state) == (0, 0)
    store.close()
    assert check(tmp_path).findings == []


@mission("M15")
def test_messages_can_be_settled_on_a_disk_that_stays_full(tmp_path: Path, disk: FaultyDisk) -> None:
    """Every removal writes to the log: it must not need more space for ever."""
    store = open_on(disk, tmp_path)
    backlog = [large(number) for number in range(1, 401)]
    for start in range(0, 400, 20):
        committed(store, put_queue(), sent(*backlog[start : start + 20]))
    disk.capacity_bytes = used_bytes(tmp_path)
    for start in range(0, 400, 2):
        committed(store, removed(*backlog[start : start + 2]), set_state(large(400), 0, start))
        if start == 396:
            break
    assert numbers(messages(store)) == [399, 400]
    assert not store.has_room()
    store.close()
    assert check(tmp_path).findings == []


@mission("M15")
def test_room_comes_back_when_the_messages_that_filled_the_disk_are_gone(tmp_path: Path, disk: FaultyDisk) -> None:
    store = open_on(disk, tmp_path)
    backlog = [large(number) for number in range(1, 401)]
    for start in range(0, 400, 20):
        committed(store, put_queue(), sent(*backlog[start : start + 20]))
    disk.capacity_bytes = used_bytes(tmp_path) + RESERVE_BYTES - MEGABYTE
    assert not store.has_room()
    for start in range(0, 400, 20):
        committed(store, removed(*backlog[start : start + 20]))
    while store.sweep():
        pass
    assert store.has_room()
    assert (tmp_path / DATABASE_NAME).stat().st_size < MEGABYTE
    assert not store.sweep()
    committed(store, sent(message(401)))
    store.close()
    assert check(tmp_path).findings == []


def test_room_comes_back_when_the_disk_has_room_again(tmp_path: Path, disk: FaultyDisk) -> None:
    store = open_on(disk, tmp_path)
    disk.capacity_bytes = used_bytes(tmp_path)
    committed(store, put_queue(), sent(large(1)))
    assert not store.has_room()
    disk.capacity_bytes = None
    assert store.has_room()
    assert (tmp_path / "ballast").exists()
    store.close()


def test_a_batch_that_fits_nowhere_fails_the_store_and_is_not_there_later(tmp_path: Path, disk: FaultyDisk) -> None:
    store = open_on(disk, tmp_path)
    committed(store, put_queue(), sent(message(1)))
    disk.capacity_bytes = used_bytes(tmp_path)
    store.write(sent(*[large(number) for number in range(2, 250)]))
    with pytest.raises(StoreFailed):
        store.commit()
    store.close()
    disk.capacity_bytes = None
    store = open_on(disk, tmp_path)
    assert numbers(messages(store)) == [1]
    store.close()


def test_deleted_queues_wait_until_there_is_space_to_sweep_them(tmp_path: Path, disk: FaultyDisk) -> None:
    store = open_on(disk, tmp_path)
    committed(store, put_queue(), sent(*[large(number) for number in range(1, 50)]))
    committed(store, drop_queue())
    disk.capacity_bytes = 0
    assert not store.sweep()
    disk.capacity_bytes = None
    assert store.sweep()
    store.close()


# --- syncs --------------------------------------------------------------------------------------------------


@mission("M3")
def test_a_failed_sync_fails_the_store_and_what_was_committed_before_is_there(tmp_path: Path, disk: FaultyDisk) -> None:
    store = open_on(disk, tmp_path)
    committed(store, put_queue(), sent(message(1)))
    store.write(sent(message(2)))
    disk.are_syncs_failing = True
    with pytest.raises(StoreFailed, match="nothing more is acknowledged"):
        store.commit()
    disk.has_power = False
    store.close()
    disk.are_syncs_failing = False
    disk.restore_power()
    store = open_on(disk, tmp_path)
    # Nobody was told of the second: it may be there or not.
    assert numbers(messages(store)) in ([1], [1, 2])
    store.close()
    assert check(tmp_path).findings == []


def test_a_failed_sync_fails_settings_and_sweeping_too(tmp_path: Path, disk: FaultyDisk) -> None:
    store = open_on(disk, tmp_path)
    committed(store, put_queue(), sent(message(1)))
    committed(store, drop_queue())
    disk.are_syncs_failing = True
    with pytest.raises(StoreFailed, match="swept"):
        store.sweep()
    with pytest.raises(StoreFailed, match="the setting name"):
        store.put_setting("name", "value")
    store.close()


# --- power --------------------------------------------------------------------------------------------------


class Ledger:
    """What was written to a store, and which of it was committed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._next = 1
        self._has_queue = False
        self.alive: dict[int, BrokeredMessage] = {}

    def batch(self) -> tuple[list[Effects], dict[int, BrokeredMessage]]:
        """Some of everything, and the messages that there will be."""
        alive = dict(self.alive)
        batches: list[Effects] = []
        if not self._has_queue:
            batches.append(put_queue(requires_session=True))
        new = []
        for _ in range(self._random.randrange(1, 12)):
            body = bytes(self._random.randrange(0, 9_000))
            session_id = self._random.choice("abc")
            new.append(message(self._next, session_id=session_id, stored=stored(body)))
            self._next += 1
        batches.append(sent(*new))
        for one in self._random.sample(list(alive.values()), min(len(alive), self._random.randrange(0, 12))):
            del alive[one.row]
            if one.stream == MAIN and self._random.random() < 0.3:
                dead = message(one.sequence_number, session_id=one.session_id)
                batches.append(moved(dead, DEAD, one.sequence_number, {"DeadLetterReason": "tired"}))
                alive[dead.row] = dead
            else:
                batches.append(removed(one))
        alive.update((one.row, one) for one in new)
        batches.append(session_state("a", b"abc", 5) if self._has_queue else session_state("a", b"abc", 5, 3))
        return batches, alive

    def committed(self, alive: dict[int, BrokeredMessage]) -> None:
        self.alive = alive
        self._has_queue = True


def rows_of(store: SqliteStore) -> set[int]:
    return {one.row for stream in (MAIN, DEAD) for one in messages(store, stream, limit=100_000)}


def live(directory: Path, disk: FaultyDisk, ledger: Ledger, chance: random.Random) -> dict[int, BrokeredMessage]:
    """Write until the power is lost. Returns what there is if the last batch was committed after all."""
    pending = ledger.alive
    store: SqliteStore | None = None
    try:
        store = SqliteStore(directory, vfs=disk.name, ballast_bytes=0, checkpoint_pages=chance.choice((5, 40)))
        assert rows_of(store) == set(ledger.alive)
        for _ in range(chance.randrange(1, 20)):
            batches, pending = ledger.batch()
            for effects in batches:
                store.write(effects)
            store.commit()
            ledger.committed(pending)
    except StoreError:
        if disk.has_power:
            raise
    finally:
        if store is not None:
            store.close()
    return pending


@mission("M3")
@pytest.mark.parametrize("seed", range(8))
def test_after_a_loss_of_power_exactly_the_committed_batches_are_there(tmp_path: Path, seed: int) -> None:
    """The batch whose commit was under way is there as a whole or not at all."""
    chance = random.Random(seed)
    ledger = Ledger(seed)
    losses = 0
    with FaultyDisk(tmp_path, seed=seed) as disk:
        for _ in range(40):
            # It may go in the middle of a start, or of making the store.
            disk.lose_power_after(chance.randrange(1, 200))
            pending = live(tmp_path, disk, ledger, chance)
            losses += not disk.has_power
            disk.restore_power()
            if ledger.alive:
                assert check(tmp_path).findings == []
            store = SqliteStore(tmp_path, ballast_bytes=0)
            found = rows_of(store)
            store.close()
            assert found in (set(ledger.alive), set(pending))
            if found != set(ledger.alive):
                ledger.committed(pending)
    assert losses > 20


# --- events ---------------------------------------------------------------------------------------------------------


class FullFiles(DiskFiles):
    """A disk on which there is room for the journal only when the ballast is gone."""

    def __init__(self, ballast: Path) -> None:
        self._ballast = ballast
        self.refusal_count = 0

    def write(self, descriptor: int, position: int, pieces: Sequence[Bytes]) -> None:
        if self._ballast.exists():
            self.refusal_count += 1
            # Some of it was written, as a disk does.
            super().write(descriptor, position, [bytes(pieces[0])[:10]])
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(descriptor, position, pieces)


@mission("M10")
def test_events_that_find_the_disk_full_are_committed_in_place_of_the_ballast(tmp_path: Path) -> None:
    files = FullFiles(tmp_path / "ballast")
    store = SqliteStore(tmp_path, ballast_bytes=4_096, log_files=files, free_bytes=lambda: 1 << 30)
    committed(store, put_hub(1_000, partition_count=1))
    committed(store, appended(1_000, 0, b"a", b"b"))
    assert files.refusal_count == 1
    assert [event.sequence_number for event in events(store, 1_000)] == [0, 1]
    store.close()
    again = SqliteStore(tmp_path, ballast_bytes=0)
    again.recover()
    assert [event.sequence_number for event in events(again, 1_000)] == [0, 1]
    again.close()
