"""What a start makes of a journal that a crash tore, or that is damaged.

A test that cuts a journal off as a power failure does has to take the marks back too, as a power failure may.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.amqp.message import encode_message
from tandem.engine.hubs.record import EventRecord
from tandem.errors import StateError, StoreCorrupt, StoreFailed
from tandem.store.log.event_log import JOURNAL_NAME
from tandem.store.log.journal.frames import HEADER_BYTES, PRODUCER, decode_producer, frame_head, locate_frame
from tandem.store.log.journal.journal import journal_files, journal_path
from tandem.store.log.journal.marks import marks_path
from tandem.store.log.log_limits import LogLimits
from tests.markers import mission
from tests.store.log.drive import HUB, HUBS, Home, Writer, commit, numbers, read_all

UNSEALED = LogLimits(rotate_bytes=3_000)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path, UNSEALED)
    yield made
    made.close()


def last_file(home: Home) -> Path:
    folder = home.directory / JOURNAL_NAME
    return journal_path(folder, journal_files(folder)[-1])


def without_marks(home: Home) -> None:
    """As after a power failure: the marks are not synced."""
    home.log.close()
    marks_path(home.directory).unlink(missing_ok=True)


def started(home: Home) -> list[int]:
    """What a start finds in the first partition."""
    log = home.reopen()
    log.recover(HUBS)
    return numbers(read_all(log, limit=1_000))


@mission("M10")
def test_a_journal_that_is_cut_anywhere_in_its_last_records_has_all_before(home: Home) -> None:
    writer = Writer(home.log)
    for count in (3, 1, 4):
        writer.append(count)
    home.log.close()
    path = last_file(home)
    whole = path.read_bytes()
    ends = [HEADER_BYTES, *(found.frame.end for found in home.reopen()._journal.scan({}))]
    # The header, then the state of the log: the highest number, and where the three partitions stand.
    counts = [0, 0, 0, 0, 0, 3, 4, 8]
    assert len(ends) == len(counts)
    for size in range(ends[-3] - 30, len(whole) + 1):
        path.write_bytes(whole[:size])
        without_marks(home)
        whole_frames = sum(end <= size for end in ends)
        assert started(home) == list(range(counts[whole_frames - 1])), size


def test_what_was_cut_off_is_written_anew(home: Home) -> None:
    writer = Writer(home.log)
    writer.append(3)
    writer.append(2)
    home.log.close()
    path = last_file(home)
    path.write_bytes(path.read_bytes()[:-1])
    without_marks(home)
    assert started(home) == [0, 1, 2]
    writer = Writer(home.log)
    writer.continue_at(HUB, 0, 3)
    writer.append(4)
    assert started(home) == [0, 1, 2, 3, 4, 5, 6]


@mission("M10")
@pytest.mark.parametrize("has_marks", [True, False])
def test_damage_to_a_record_costs_that_record_only(home: Home, has_marks: bool) -> None:
    """A byte that is wrong is not taken for the end of the journal if something says that it was on disk."""
    writer = Writer(home.log)
    for _ in range(3):
        writer.append(2)
    home.log.close()
    path = last_file(home)
    whole = path.read_bytes()
    marks = marks_path(home.directory).read_bytes()
    starts = [*(found.place.position for found in home.reopen()._journal.scan({})), len(whole)]
    events = starts[-4:]
    # Without marks, the record before the last may have been lost together with it, for all that the file says.
    for position in range(HEADER_BYTES, events[-1] if has_marks else events[1], 5):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        home.log.close()
        marks_path(home.directory).write_bytes(marks)
        if not has_marks:
            without_marks(home)
        hit = sum(start <= position for start in events) - 1
        expected = [number for number in range(6) if number // 2 != hit]
        assert started(home) == expected, position
        assert home.log.damages[0].unit == f"file journal/{path.name}"
        # Nothing was cut off or written over.
        assert path.read_bytes() == damaged
    path.write_bytes(whole)
    assert started(home) == list(range(6))


@mission("M10")
def test_damage_to_a_file_that_is_not_the_last_is_reported(home: Home) -> None:
    writer = Writer(home.log)
    for _ in range(40):
        writer.append(3)
    home.log.close()
    folder = home.directory / JOURNAL_NAME
    assert len(journal_files(folder)) > 2
    path = journal_path(folder, 2)
    whole = path.read_bytes()
    for damaged, lost in ((whole[:-1], 3), (whole + b"\0", 0), (whole[:-20] + bytes(20), 3), (b"\0" + whole[1:], 0)):
        path.write_bytes(damaged)
        found = started(home)
        assert len(found) == 120 - lost
        assert f"file journal/{path.name}" in [damage.unit for damage in home.log.damages]
    path.write_bytes(whole)
    assert started(home) == list(range(120))


@mission("M10")
def test_a_file_of_the_journal_that_is_missing_is_reported_by_its_events(home: Home) -> None:
    writer = Writer(home.log)
    for _ in range(40):
        writer.append(3)
    home.log.close()
    journal_path(home.directory / JOURNAL_NAME, 2).unlink()
    found = started(home)
    lost = sorted(set(range(120)) - set(found))
    assert lost
    assert [damage.unit for damage in home.log.damages] == [f"hub {HUB} partition 0, events {lost[0]} to {lost[-1]}"]


@mission("M10")
def test_the_end_of_a_journal_that_is_missing_is_reported_and_its_numbers_are_not_given_again(home: Home) -> None:
    writer = Writer(home.log)
    for count in (3, 2, 4):
        writer.append(count)
    home.log.close()
    path = last_file(home)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        marks = marks_path(home.directory).read_bytes()
        found = started(home)
        assert found in ([], [0, 1, 2], [0, 1, 2, 3, 4])
        assert home.log.recover(HUBS).partitions[0].next_sequence_number == 9
        units = [damage.unit for damage in home.log.damages]
        assert f"hub {HUB} partition 0, events {len(found)} to 8" in units
        home.log.close()
        marks_path(home.directory).write_bytes(marks)


@mission("M10")
def test_what_comes_after_damage_goes_into_a_new_file(home: Home) -> None:
    writer = Writer(home.log)
    writer.append(2)
    writer.append(2)
    home.log.close()
    path = last_file(home)
    path.write_bytes(path.read_bytes()[:-5])
    assert started(home) == [0, 1]
    writer = Writer(home.log)
    writer.continue_at(HUB, 0, 4)
    writer.append(3)
    assert last_file(home) != path
    assert started(home) == [0, 1, 4, 5, 6]


def test_a_header_that_is_damaged_is_made_up_for_by_the_marks(home: Home) -> None:
    writer = Writer(home.log)
    writer.append(2)
    home.log.close()
    path = last_file(home)
    whole = path.read_bytes()
    path.write_bytes(bytes(HEADER_BYTES) + whole[HEADER_BYTES:])
    assert started(home) == [0, 1]
    assert [damage.what for damage in home.log.damages] == ["the header is damaged"]


def test_a_file_that_was_begun_and_not_written_is_no_damage(home: Home) -> None:
    writer = Writer(home.log)
    writer.append(3)
    home.log.close()
    for torn in (b"", b"TAND", bytes(HEADER_BYTES)):
        journal_path(home.directory / JOURNAL_NAME, 2).write_bytes(torn)
        assert started(home) == [0, 1, 2]
        assert journal_files(home.directory / JOURNAL_NAME) == [1]


def test_a_record_of_a_newer_version_is_told(home: Home) -> None:
    Writer(home.log).append()
    home.log._journal.gather(99, b"from the future")
    commit(home.log)
    with pytest.raises(StoreCorrupt, match="unknown kind 99"):
        started(home)


def test_a_payload_of_any_size_comes_back(home: Home) -> None:
    writer = Writer(home.log)
    sizes = (0, 1, 16_300, 16_384, 70_000, 1_000_000)
    home.log.append([writer.record(padding=size) for size in sizes])
    commit(home.log)
    log = home.reopen()
    log.recover(HUBS)
    assert [len(event.bare) > size for event, size in zip(read_all(log), sizes, strict=True)] == [True] * 6


@mission("M10")
def test_a_write_that_fails_is_final(home: Home) -> None:
    writer = Writer(home.log)
    writer.append(2)
    home.log.append([writer.record()])
    home.files.are_writes_failing = True
    with pytest.raises(StoreFailed, match="could not be written, nothing more is acknowledged"):
        home.log.commit()
    home.files.are_writes_failing = False
    assert started(home) == [0, 1]


@mission("M10")
def test_a_sync_that_fails_is_final(home: Home) -> None:
    writer = Writer(home.log)
    writer.append(2)
    home.log.append([writer.record()])
    home.files.are_syncs_failing = True
    with pytest.raises(StoreFailed, match="could not be written"):
        home.log.commit()
    with pytest.raises(StoreFailed, match="could not be written"):
        home.log.commit()


def test_nothing_is_appended_while_a_commit_runs_or_after_it_failed(home: Home) -> None:
    """What was gathered has its place in the file: the place of what comes then would be a guess."""
    writer = Writer(home.log)
    home.log.append([writer.record()])
    home.files.are_syncs_failing = True
    with pytest.raises(StoreFailed):
        home.log.commit()
    with pytest.raises(StateError, match="while it is written"):
        home.log.append([writer.record()])


def test_a_frame_that_a_sender_puts_into_an_event_is_not_taken_for_one(home: Home) -> None:
    """It would say that more was synced, so that a torn write looks like damage: and the broker would not start."""
    forged = frame_head(0, 1, 1 << 40, b"forged")
    payload = encode_message(data=forged)
    home.log.append([EventRecord(HUB, 0, 0, 1, 1_000, payload, False)])
    commit(home.log)
    home.log.close()
    path = last_file(home)
    whole = path.read_bytes()
    at = whole.index(payload)
    path.write_bytes(whole[: at - 1] + b"\xff" + whole[at:])
    assert started(home) == []


def test_a_producer_in_a_journal_of_an_older_version_is_read_without_its_last_transfer() -> None:
    body = struct.pack("<QHqqq", HUB, 1, 7, 2, 41)
    frame = locate_frame(frame_head(5, PRODUCER, 0, body), 0, 5)
    assert frame is not None
    hub_number, partition_id, mark = decode_producer(frame_head(5, PRODUCER, 0, body), frame)
    assert (hub_number, partition_id, mark.producer_id, mark.epoch, mark.sequence_number) == (HUB, 1, 7, 2, 41)
    assert (mark.count, mark.checksum) == (0, 0)
