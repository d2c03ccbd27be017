"""Damage to the files of a log: it is reported with the numbers of the events, and everything else is served."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.store.log.check import check_log
from tandem.store.log.damage_log import EventsDamaged
from tandem.store.log.event_log import JOURNAL_NAME, EventLog
from tandem.store.log.journal.frames import HEADER_BYTES, encode_header
from tandem.store.log.journal.journal import DAMAGED_NAME, journal_files, journal_path
from tandem.store.log.journal.marks import SLOT_BYTES, marks_path, read_marks
from tandem.store.log.partitions.number_ranges import NumberRanges
from tests.markers import mission
from tests.patience import wait_until
from tests.store.log.drive import (
    HUB,
    HUBS,
    OTHER_HUB,
    SMALL,
    Home,
    Writer,
    commit,
    maintained,
    numbers,
    read_all,
    streamed,
)

NAMES = {HUB: "orders", OTHER_HUB: "other"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A log with two segments of 40 events and a tail of 20 in one partition, and a tail in another."""
    made = Home(tmp_path, replace(SMALL, scrub_interval_ms=1 << 40))
    writer = Writer(made.log)
    for _ in range(20):
        writer.now_ms += 1_000
        writer.append(5)
        maintained(made.log, writer.now_ms)
    writer.append(3, partition_id=1)
    yield made
    made.close()


def folder(home: Home) -> Path:
    return home.directory / str(HUB) / "0"


def segment(home: Home, suffix: str, at: int = 0) -> Path:
    return sorted(folder(home).glob(f"*{suffix}"))[at]


def damage(path: Path, text: bytes) -> None:
    """Change a byte of an event."""
    whole = path.read_bytes()
    at = whole.index(text)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])


def started(home: Home) -> EventLog:
    log = home.reopen()
    log.recover(HUBS, names=NAMES)
    return log


def units(log: EventLog) -> list[str]:
    return [one.unit for one in log.damages]


def findings(home: Home) -> list[str]:
    home.log.close()
    return check_log(home.directory, HUBS, names=NAMES).findings


def body_of(number: int) -> bytes:
    return b"event %d of" % number


# --- segments ---------------------------------------------------------------------------------------------------------


@mission("M10")
@pytest.mark.parametrize("is_running", [True, False])
def test_a_flipped_bit_costs_one_event_for_every_reader(home: Home, is_running: bool) -> None:
    if not is_running:
        started(home)
    damage(segment(home, ".arrow"), body_of(7))
    home.log.recover(HUBS, names=NAMES) if not is_running else None
    expected = [number for number in range(100) if number != 7]
    assert numbers(read_all(home.log)) == expected
    with pytest.raises(EventsDamaged):
        streamed(home.log, 0, 0, 100)
    assert streamed(home.log, 0, 0, 100).column("sequenceNumber").to_pylist() == expected
    assert any(unit.endswith("partition 0, event 7") for unit in units(home.log))
    assert any("hub 'orders' partition 0, event 7" in finding for finding in findings(home))


@mission("M10")
def test_a_bulk_read_serves_a_batch_whose_amqp_part_is_damaged(home: Home) -> None:
    path = segment(home, ".amqp")
    path.write_bytes(b"")
    assert numbers(read_all(home.log)) == list(range(40, 100))
    assert streamed(home.log, 0, 0, 100).num_rows == 100
    # The heads are in that part: those that are gone are null.
    heads = streamed(home.log, 0, 0, 100, is_of_heads=True)
    assert heads["sequenceNumber"].to_pylist() == list(range(100))
    assert [number for number, head in enumerate(heads["head"].to_pylist()) if head is None] == list(range(40))


@mission("M10")
def test_damage_to_columns_that_only_bulk_readers_need_costs_nothing(home: Home) -> None:
    """They are made again from what readers over AMQP get."""
    expected = streamed(home.log, 0, 0, 100)
    path = segment(home, ".arrow")
    partition = home.log._table.get(HUB, 0)
    batch = home.log._opened(partition, partition.segments[0]).index.batches[0]
    used = sorted((at, at + size) for buffers in batch.buffers.values() for at, size in buffers if size)
    whole = bytearray(path.read_bytes())
    at = next(
        at
        for at in range(batch.arrow.at + 600, batch.arrow.at + batch.arrow.length)
        if whole[at] and not any(low <= at < high for low, high in used)
    )
    whole[at] ^= 0x40
    path.write_bytes(whole)
    assert streamed(home.log, 0, 0, 100).equals(expected)
    assert numbers(read_all(home.log)) == list(range(100))
    assert findings(home)


@pytest.mark.parametrize("position", range(0, 900, 13))
def test_no_damage_to_an_offset_ends_the_process(home: Home, position: int) -> None:
    """pyarrow raises SystemError, or worse, for some."""
    path = segment(home, ".amqp")
    whole = bytearray(path.read_bytes())
    whole[position : position + 4] = b"\xff\xff\xff\x7f"
    path.write_bytes(whole)
    found = numbers(read_all(home.log))
    assert set(range(40, 100)) <= set(found)
    home.log.find_time(HUB, 0, 3_500)
    assert findings(home)


@mission("M10")
@pytest.mark.parametrize("remove", [lambda path: path.unlink(), lambda path: path.write_bytes(b"TANDEMSU no more")])
def test_checksums_that_are_lost_cost_nothing_and_are_reported(home: Home, remove: Callable[[Path], None]) -> None:
    remove(segment(home, ".sums"))
    log = started(home)
    assert numbers(read_all(log)) == list(range(100))
    assert streamed(log, 0, 0, 100).num_rows == 100
    assert units(log) == [f"file 0/{segment(home, '.arrow').stem}.sums"]
    assert len(findings(home)) == 1


def test_a_segment_of_an_older_version_has_no_checksums_and_is_counted(home: Home) -> None:
    """Its `.amqp` file does not say that there are any."""
    for path in folder(home).glob("*.sums"):
        path.unlink()
    for path in folder(home).glob("*.amqp"):
        # The key of the entry that says so; lengths and offsets stay as they are.
        path.write_bytes(path.read_bytes().replace(b"sums", b"none"))
    log = started(home)
    assert numbers(read_all(log)) == list(range(100))
    assert log.damages == []
    log.close()
    report = check_log(home.directory, HUBS)
    assert (report.findings, report.unsummed_segment_count) == ([], 2)
    damage(segment(home, ".arrow"), body_of(7))
    log = started(home)
    assert numbers(read_all(log)) == list(range(40, 100))
    assert "hub 'orders' partition 0, events 0 to 39" in units(log)


@pytest.mark.parametrize("suffix", [".amqp", ".arrow"])
def test_no_damage_to_a_segment_of_an_older_version_ends_the_process(home: Home, suffix: str) -> None:
    """Its layout has to be taken from pyarrow, which raises SystemError for some bytes, and others for more."""
    for path in folder(home).glob("*.sums"):
        path.unlink()
    for path in folder(home).glob("*.amqp"):
        path.write_bytes(path.read_bytes().replace(b"sums", b"none"))
    path = segment(home, suffix)
    whole = path.read_bytes()
    for position in range(0, len(whole) - 4, max(1, len(whole) // 60)):
        path.write_bytes(whole[:position] + b"\xff\xff\xff\x7f" + whole[position + 4 :])
        assert set(range(40, 100)) <= set(numbers(read_all(started(home))))


@mission("M10")
def test_a_segment_that_is_missing_in_the_middle_is_skipped_and_reported(home: Home) -> None:
    shutil.copytree(folder(home), home.directory / "kept")
    home.log.close()
    # Records that the journal still has would stand in for it.
    for path in segment(home, ".arrow").parent.glob("0" * 20 + "-*"):
        path.unlink()
    log = started(home)
    found = numbers(read_all(log))
    assert found == streamed(log, 0, 0, 100).column("sequenceNumber").to_pylist()
    assert set(range(40, 100)) <= set(found)
    lost = sorted(set(range(100)) - set(found))
    assert units(log) == ([f"hub 'orders' partition 0, events {lost[0]} to {lost[-1]}"] if lost else [])
    assert log.read(HUB, 0, lost[0] if lost else 40, 1, 1)[0].sequence_number == 40


@mission("M10")
def test_the_journal_stands_in_for_a_segment_that_is_missing(tmp_path: Path) -> None:
    home = Home(tmp_path, replace(SMALL, rotate_bytes=1_000_000))
    writer = Writer(home.log)
    for _ in range(20):
        writer.now_ms += 1_000
        writer.append(5)
        maintained(home.log, writer.now_ms)
    home.log.close()
    segment(home, ".arrow").unlink()
    log = started(home)
    assert numbers(read_all(log)) == list(range(100))
    assert streamed(log, 0, 0, 100).column("sequenceNumber").to_pylist() == list(range(100))
    assert log.damages == []
    maintained(log, 100_000, 3)
    assert len(list(folder(home).glob("*.arrow"))) == 2
    assert numbers(read_all(log)) == list(range(100))
    log.maintain(200_000, {HUB: (1_000, None)})
    commit(log)
    assert log.read(HUB, 0, 0, 1, 1) == []
    home.close()


def scrub_now(home: Home) -> None:
    home.log._scrub._limits = replace(SMALL, scrub_interval_ms=0)
    home.log._scrub._next_at_ms = 0


@mission("M10")
def test_a_scrub_finds_damage_that_nobody_has_read(home: Home) -> None:
    damage(segment(home, ".amqp", 1), b"\x00\x53\x75\xa0")
    scrub_now(home)
    now_ms = [10**9]

    def is_found() -> bool:
        now_ms[0] += 1_000
        maintained(home.log, now_ms[0])
        return any("partition 0, event" in unit for unit in units(home.log))

    wait_until(is_found, "the scrub has found it")
    assert any(unit.endswith(".amqp") for unit in units(home.log))


def test_a_scrub_of_sound_segments_reports_nothing(home: Home) -> None:
    scrub_now(home)
    for turn in range(2):
        maintained(home.log, 10**9 + turn)
        thread = home.log._scrub._thread
        assert thread is not None
        thread.join()
    assert not home.log._scrub._to_do
    assert home.log.damages == []


# --- the journal ------------------------------------------------------------------------------------------------------


def last_journal(home: Home) -> Path:
    where = home.directory / JOURNAL_NAME
    return journal_path(where, journal_files(where)[-1])


def damage_tail(home: Home, number: int) -> None:
    for path in (home.directory / JOURNAL_NAME).iterdir():
        if body_of(number) in path.read_bytes():
            damage(path, body_of(number))


@mission("M10")
def test_a_record_that_is_damaged_while_the_broker_runs_is_skipped_and_its_file_kept(home: Home) -> None:
    damage_tail(home, 86)
    expected = [number for number in range(100) if not 85 <= number < 90]
    assert numbers(read_all(home.log)) == expected
    assert units(home.log) == [f"hub {HUB} partition 0, events 85 to 89"]
    # So that the quiet partition does not keep the file.
    home.log._upkeep._limits = replace(SMALL, journal_bytes=2_000)
    writer = Writer(home.log, 50_000)
    writer.continue_at(HUB, 0, 100)
    for _ in range(60):
        writer.now_ms += 1_000
        writer.append(5, padding=100)
        maintained(home.log, writer.now_ms)
    assert numbers(read_all(home.log, limit=1_000)) == [*expected, *range(100, 400)]
    kept = [*(home.directory / DAMAGED_NAME).iterdir()]
    assert len(kept) == 1
    home.log.close()
    report = check_log(home.directory, HUBS, names=NAMES)
    assert report.set_aside_count == 1
    assert [finding.split(":")[0] for finding in report.findings] == ["hub 'orders' partition 0, events 85 to 89"]


@mission("M10")
def test_a_record_that_is_damaged_is_not_carried_over(tmp_path: Path) -> None:
    home = Home(tmp_path, replace(SMALL, journal_bytes=6_000))
    writer = Writer(home.log)
    writer.append(3, partition_id=1)
    writer.append(2, partition_id=1)
    damage(journal_path(home.directory / JOURNAL_NAME, 1), b"event 1 of")
    for _ in range(30):
        writer.now_ms += 1_000
        writer.append(5, padding=100)
        maintained(home.log, writer.now_ms)
    assert numbers(read_all(home.log, 1)) == [3, 4]
    assert units(home.log) == [f"hub {HUB} partition 1, events 0 to 2"]
    assert 1 not in home.log._journal.files
    assert (home.directory / DAMAGED_NAME / "0000000001.journal").exists()
    home.close()


def test_a_producer_whose_last_events_are_lost_may_go_on(home: Home) -> None:
    from tandem.engine.hubs.record import ProducerMark

    writer = Writer(home.log)
    writer.continue_at(HUB, 1, 3)
    writer.append(producer=ProducerMark(7, 1, 0), partition_id=1)
    writer.append(producer=ProducerMark(7, 1, 1), partition_id=1)
    home.log.close()
    path = last_journal(home)
    path.write_bytes(path.read_bytes()[:-10])
    home.reopen()
    assert home.log.recover(HUBS).producers == []


def test_a_journal_of_the_first_format_is_read_without_marks(home: Home) -> None:
    home.log.close()
    marks_path(home.directory).unlink()
    for number in journal_files(home.directory / JOURNAL_NAME):
        path = journal_path(home.directory / JOURNAL_NAME, number)
        whole = path.read_bytes()
        salt = int.from_bytes(whole[HEADER_BYTES - 8 : HEADER_BYTES - 4], "little")
        path.write_bytes(encode_header(number, salt, 1) + whole[HEADER_BYTES:])
    log = started(home)
    assert numbers(read_all(log)) == list(range(100))
    assert log.damages == []
    assert marks_path(home.directory).exists()


# --- what is missing --------------------------------------------------------------------------------------------------


@mission("M10")
@pytest.mark.parametrize("what", ["", str(HUB), f"{HUB}/0", JOURNAL_NAME])
def test_numbers_go_on_where_they_were_whatever_is_missing(home: Home, what: str) -> None:
    home.log.close()
    shutil.rmtree(home.directory / what)
    assert findings(home)
    log = started(home)
    recovered = log.recover(HUBS, names=NAMES).partitions
    assert [found.next_sequence_number for found in recovered] == [100, 3, 0]
    assert any("hub 'orders' partition 0, events" in unit for unit in units(log))
    writer = Writer(log)
    writer.continue_at(HUB, 0, 100)
    writer.append(2)
    assert numbers(read_all(log))[-2:] == [100, 101]


@mission("M10")
def test_a_log_and_marks_that_are_lost_together_are_noticed_by_the_tables(home: Home) -> None:
    reserved = home.log.unreserved()
    assert [number > 100 for number in reserved[HUB]] == [True, True]
    home.log.close()
    shutil.rmtree(home.directory)
    marks_path(home.directory).unlink()
    assert check_log(home.directory, HUBS, names=NAMES, reserved=reserved).findings
    log = home.reopen()
    found = log.recover(HUBS, names=NAMES, reserved=reserved).partitions
    assert [one.next_sequence_number for one in found] == [*reserved[HUB], 0]
    assert f"hub 'orders' partition 0, events 0 to {reserved[HUB][0] - 1}" in units(log)


def test_the_tables_are_told_once_for_many_events(home: Home) -> None:
    home.log.reserved(home.log.unreserved())
    writer = Writer(home.log)
    writer.continue_at(HUB, 0, 100)
    writer.append(50)
    assert home.log.unreserved() == {}
    writer.append(hub_number=OTHER_HUB)
    assert list(home.log.unreserved()) == [OTHER_HUB]


@mission("M10")
def test_the_folder_of_a_hub_that_no_table_knows_is_kept(home: Home) -> None:
    home.log.close()
    log = home.reopen()
    log.recover({OTHER_HUB: 1}, last_dropped_hub=0)
    while log.sweep():
        pass
    assert len(list(folder(home).glob("*.arrow"))) == 2
    assert units(log) == [f"hub {HUB}"]


@mission("M10")
def test_what_is_left_of_a_segment_is_not_taken_for_an_unfinished_one(home: Home) -> None:
    home.log.close()
    path = segment(home, ".arrow")
    path.unlink()
    log = started(home)
    if numbers(read_all(log)) != list(range(100)):
        assert path.with_suffix(".amqp").exists()
        assert path.with_suffix(".sums").exists()


# --- marks ------------------------------------------------------------------------------------------------------------


def test_marks_are_never_ahead_of_the_journal_and_name_every_partition(home: Home) -> None:
    marks = read_marks(marks_path(home.directory))
    assert marks.is_whole
    file = last_journal(home)
    assert marks.journal[int(file.stem)].size_bytes == file.stat().st_size
    assert {key: position.next_sequence_number for key, position in marks.partitions.items()} == {
        (HUB, 0): 100,
        (HUB, 1): 3,
    }


@pytest.mark.parametrize("at", [0, 10, SLOT_BYTES + 5, 2 * SLOT_BYTES - 1, 20 * SLOT_BYTES])
def test_damaged_marks_cost_nothing_and_are_kept(home: Home, at: int) -> None:
    home.log.close()
    path = marks_path(home.directory)
    whole = bytearray(path.read_bytes())
    whole[at] ^= 4
    path.write_bytes(whole)
    assert findings(home)
    log = started(home)
    assert numbers(read_all(log)) == list(range(100))
    assert units(log) == [f"file {path.parent.name}/{path.name}"]
    assert path.with_name(f"{path.name}.damaged-1").read_bytes() == whole
    assert read_marks(path).is_whole


def test_marks_have_room_for_any_number_of_partitions(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.hubs = {HUB: 300}
    log = home.reopen()
    log.recover(home.hubs)
    writer = Writer(log)
    log.append([writer.record(partition_id=partition_id) for partition_id in range(300)])
    commit(log)
    assert len(read_marks(marks_path(home.directory)).partitions) == 300
    log.drop_hub(HUB)
    commit(log)
    assert read_marks(marks_path(home.directory)).partitions == {}
    home.close()


def test_marks_that_cannot_be_written_do_not_stop_a_log(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(home.log._marks, "_write", fail)
    writer = Writer(home.log)
    writer.continue_at(HUB, 0, 100)
    writer.append(1)
    assert numbers(read_all(home.log))[-1] == 100
    assert "could not be written" in caplog.text


# --- ranges -----------------------------------------------------------------------------------------------------------


def test_ranges_of_numbers_are_merged_and_cut() -> None:
    ranges = NumberRanges()
    assert ranges.add(5, 8)
    assert ranges.add(10, 12)
    assert not ranges.add(6, 8)
    assert not ranges.add(3, 3)
    assert ranges.add(8, 10)
    assert list(ranges) == [(5, 12)]
    assert ranges.add(20, 21)
    assert [ranges.next_outside(number) for number in (4, 5, 11, 12, 20)] == [4, 12, 12, 12, 21]
    assert [ranges.end_before(number, 100) for number in (0, 12, 21)] == [5, 20, 100]
    assert ranges.within(11, 30) == [(11, 12), (20, 21)]
    ranges.drop_below(11)
    assert list(ranges) == [(11, 12), (20, 21)]
    ranges.drop_below(21)
    assert list(ranges) == []
