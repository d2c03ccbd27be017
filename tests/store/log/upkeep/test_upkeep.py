"""Sealing, retention and the length of the journal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.store.log.check import check_log
from tandem.store.log.event_log import JOURNAL_NAME
from tandem.store.log.journal.journal import journal_files
from tandem.store.log.sealing.job import SealResult
from tests.markers import mission
from tests.store.log.drive import (
    HUB,
    HUBS,
    OTHER_HUB,
    SMALL,
    Home,
    Writer,
    body,
    commit,
    maintained,
    numbers,
    read_all,
    streamed,
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


@pytest.fixture
def writer(home: Home) -> Writer:
    return Writer(home.log)


def segment_files(home: Home, hub_number: int = HUB, partition_id: int = 0) -> list[Path]:
    return sorted((home.directory / str(hub_number) / str(partition_id)).glob("*.arrow"))


def filled(home: Home, writer: Writer, turns: int, count: int = 5, partition_id: int = 0) -> None:
    """Some seconds of events, with upkeep."""
    for _ in range(turns):
        writer.now_ms += 1_000
        writer.append(count, partition_id=partition_id)
        maintained(home.log, writer.now_ms)


# --- sealing --------------------------------------------------------------------------------------------------


def test_a_tail_is_sealed_when_it_has_enough_events(home: Home, writer: Writer) -> None:
    filled(home, writer, 7)
    assert segment_files(home) == []
    filled(home, writer, 3)
    (path,) = segment_files(home)
    assert path.name.startswith("00000000000000000000-40-2000-9000-")
    assert path.with_suffix(".amqp").exists()
    assert numbers(read_all(home.log)) == list(range(50))


def test_a_tail_is_sealed_when_it_has_enough_bytes(home: Home, writer: Writer) -> None:
    writer.append(2, padding=2_000)
    maintained(home.log, 2_000, 2)
    assert len(segment_files(home)) == 1


def test_a_tail_that_became_long_is_sealed_in_portions(home: Home, writer: Writer) -> None:
    for _ in range(50):
        writer.append(5)
    maintained(home.log, 2_000, 8)
    counts = [int(path.name.split("-")[1]) for path in segment_files(home)]
    assert sum(counts) + 40 > 250
    assert max(counts) <= SMALL.segment_events + 5
    assert numbers(read_all(home.log)) == list(range(250))


def test_files_of_the_journal_go_when_all_in_them_is_sealed(home: Home, writer: Writer) -> None:
    filled(home, writer, 60)
    files = journal_files(home.directory / JOURNAL_NAME)
    assert files[0] > 1
    assert len(files) <= 3


def test_sealing_that_fails_is_told_once_and_tried_again_now_and_then(
    home: Home, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    home.sealer.is_failing = True
    with caplog.at_level(logging.ERROR):
        filled(home, writer, 30)
    assert home.sealer.job_count == 3
    assert len(caplog.records) == 1
    assert "could not be sealed 3 times" in caplog.text
    assert "it does not work" in caplog.text
    assert numbers(read_all(home.log)) == list(range(150))
    maintained(home.log, writer.now_ms + 60_000, 2)
    assert home.sealer.job_count == 4
    assert len(caplog.records) == 1
    home.sealer.is_failing = False
    maintained(home.log, writer.now_ms + 130_000, 9)
    assert len(segment_files(home)) >= 2
    assert numbers(read_all(home.log)) == list(range(150))


def test_a_hub_can_be_dropped_while_it_is_sealed(home: Home, writer: Writer) -> None:
    for _ in range(10):
        writer.append(5)
    home.log.maintain(2_000, {})
    assert home.sealer.is_busy
    home.log.drop_hub(HUB)
    commit(home.log)
    # The sealer may still be writing into the folder.
    assert not home.log.sweep()
    assert (home.directory / str(HUB)).exists()
    maintained(home.log, 4_000, 2)
    while home.log.sweep():
        pass
    assert not (home.directory / str(HUB)).exists()
    assert journal_files(home.directory / JOURNAL_NAME) == [1]


def test_a_segment_whose_sealer_could_not_answer_is_taken_all_the_same(home: Home, writer: Writer) -> None:
    for _ in range(10):
        writer.append(5)
    home.log.maintain(2_000, {})
    home.sealer.poll()
    home.sealer.result = SealResult("it was killed")
    maintained(home.log, 4_000, 2)
    assert len(segment_files(home)) == 1
    assert numbers(read_all(home.log)) == list(range(50))
    assert check_log(home.directory, HUBS).findings == []


# --- retention ------------------------------------------------------------------------------------------------


@mission("M10")
def test_segments_that_are_too_old_are_dropped_whole(home: Home, writer: Writer) -> None:
    filled(home, writer, 40)
    before = len(segment_files(home))
    # The second segment has the events of the seconds 10 to 17.
    assert home.log.maintain(writer.now_ms, {HUB: (writer.now_ms - 17_000, None)}) == []
    writer.now_ms += 1_000
    moved = home.log.maintain(writer.now_ms, {HUB: (writer.now_ms - 17_500, None)})
    assert moved == [(HUB, 0, 80)]
    assert numbers(read_all(home.log))[0] == 80
    assert home.log.find_time(HUB, 0, 0) == 80
    # Nothing is deleted before it is on disk that it may be.
    assert len(segment_files(home)) == before
    commit(home.log)
    maintained(home.log, writer.now_ms)
    assert len(segment_files(home)) == before - 2
    log = home.reopen()
    assert log.recover(HUBS).partitions[0].begin_sequence_number == 80
    assert check_log(home.directory, HUBS).findings == []


def test_the_oldest_segments_go_when_there_are_too_many_bytes(home: Home, writer: Writer) -> None:
    filled(home, writer, 40)
    size_bytes = home.log.size_bytes(HUB, 0)
    ((_, _, begin),) = home.log.maintain(writer.now_ms + 2_000, {HUB: (None, size_bytes // 2)})
    commit(home.log)
    assert 0 < begin < 200
    assert size_bytes // 3 < home.log.size_bytes(HUB, 0) <= size_bytes // 2
    assert home.log.maintain(writer.now_ms + 4_000, {HUB: (None, size_bytes // 2)}) == []


@mission("M10")
def test_an_empty_partition_goes_on_with_its_numbers(home: Home, writer: Writer) -> None:
    filled(home, writer, 20)
    writer.append(3, partition_id=1)
    moved = home.log.maintain(writer.now_ms + 100_000, {HUB: (1_000, None)})
    assert moved == [(HUB, 0, 100), (HUB, 1, 3)]
    commit(home.log)
    assert read_all(home.log) == []
    assert home.log.size_bytes(HUB, 0) == 0
    # Until every file that ever held its events is gone.
    for _ in range(80):
        writer.now_ms += 1_000
        writer.append(5, hub_number=OTHER_HUB)
        maintained(home.log, writer.now_ms)
    assert journal_files(home.directory / JOURNAL_NAME)[0] > 1
    assert segment_files(home) == []
    log = home.reopen()
    found = log.recover(HUBS).partitions
    assert [one[2:] for one in found[:2]] == [(100, 100, 21_000, 0), (3, 3, 21_000, 0)]
    log.append([writer.record()])
    commit(log)
    assert numbers(read_all(log)) == [100]


def test_what_retention_took_does_not_come_back_with_a_crash(home: Home, writer: Writer) -> None:
    filled(home, writer, 20)
    home.log.maintain(writer.now_ms + 10_000, {HUB: (writer.now_ms, None)})
    commit(home.log)
    begin = numbers(read_all(home.log))[0]
    assert begin >= 40
    # The files were to be deleted, and are there.
    assert len(segment_files(home)) == 2
    log = home.crash()
    assert log.recover(HUBS).partitions[0].begin_sequence_number == begin
    log.maintain(writer.now_ms, {})
    assert all(int(path.name[:20]) >= begin for path in segment_files(home))


def test_a_snapshot_can_be_streamed_though_retention_has_taken_its_events(home: Home, writer: Writer) -> None:
    import pyarrow as pa

    filled(home, writer, 20)
    snapshot = home.log.snapshot(HUB, 0, 0, 1_000)
    home.log.maintain(writer.now_ms + 100_000, {HUB: (1_000, None)})
    commit(home.log)
    for turn in range(60):
        writer.append(5, hub_number=OTHER_HUB)
        maintained(home.log, writer.now_ms + 200_000 + 1_000 * turn)
    assert streamed(home.log, 0, 0, 1_000).num_rows == 0
    table = pa.ipc.open_stream(b"".join(snapshot.stream())).read_all()
    assert table["body"].to_pylist() == [body(number) for number in range(100)]
    assert segment_files(home) != []
    snapshot.close()
    maintained(home.log, writer.now_ms + 400_000, 3)
    assert segment_files(home) == []
    assert journal_files(home.directory / JOURNAL_NAME)[0] > 1


def test_the_files_of_a_dropped_hub_stay_while_they_are_streamed(home: Home, writer: Writer) -> None:
    filled(home, writer, 20)
    snapshot = home.log.snapshot(HUB, 0, 0, 1_000)
    home.log.drop_hub(HUB)
    commit(home.log)
    assert not home.log.sweep()
    maintained(home.log, writer.now_ms + 1_000, 3)
    assert len(b"".join(snapshot.stream())) > 1_000
    snapshot.close()
    while home.log.sweep():
        pass
    assert not (home.directory / str(HUB)).exists()


# --- carrying over --------------------------------------------------------------------------------------------


@pytest.fixture
def pressed_home(tmp_path: Path) -> Iterator[Home]:
    """With a journal that is to be short."""
    made = Home(tmp_path, replace(SMALL, journal_bytes=6_000))
    yield made
    made.close()


@mission("M10")
def test_a_partition_that_is_quiet_does_not_keep_the_journal_long(pressed_home: Home) -> None:
    home = pressed_home
    writer = Writer(home.log)
    writer.append(2, partition_id=1)
    writer.append(1, hub_number=OTHER_HUB)
    for turn in range(300):
        writer.now_ms += 1_000
        writer.append(5)
        if turn == 100:
            writer.append(1, partition_id=1)
        maintained(home.log, writer.now_ms)
    folder = home.directory / JOURNAL_NAME
    assert journal_files(folder)[0] > 5
    assert sum(path.stat().st_size for path in folder.iterdir()) < 6_000 + 2 * SMALL.rotate_bytes
    assert segment_files(home, HUB, 1) == []
    for _ in range(2):
        assert numbers(read_all(home.log, 1)) == [0, 1, 2]
        assert numbers(read_all(home.log, 0, OTHER_HUB)) == [0]
        assert numbers(read_all(home.log, limit=100)) == list(range(1_500))
        home.reopen().recover(HUBS)
    assert check_log(home.directory, HUBS).findings == []


def test_a_quiet_partition_with_much_in_it_is_sealed_instead(pressed_home: Home) -> None:
    writer = Writer(pressed_home.log)
    writer.append(4, partition_id=1, padding=200)
    filled(pressed_home, writer, 200)
    (path,) = segment_files(pressed_home, HUB, 1)
    assert "-4-" in path.name
    assert journal_files(pressed_home.directory / JOURNAL_NAME)[0] > 5
