"""What a start makes of a journal that a crash tore, or that is damaged."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.amqp.message import encode_message
from tandem.engine.hubs.record import EventRecord
from tandem.errors import StateError, StoreCorrupt, StoreFailed
from tandem.store.log.event_log import JOURNAL_NAME
from tandem.store.log.frames import HEADER_BYTES, PRODUCER, decode_producer, frame_head, locate_frame
from tandem.store.log.journal import journal_files, journal_path
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
        whole_frames = sum(end <= size for end in ends)
        assert started(home) == list(range(counts[whole_frames - 1])), size


def test_what_was_cut_off_is_written_anew(home: Home) -> None:
    writer = Writer(home.log)
    writer.append(3)
    writer.append(2)
    home.log.close()
    path = last_file(home)
    path.write_bytes(path.read_bytes()[:-1])
    assert started(home) == [0, 1, 2]
    writer = Writer(home.log)
    writer.continue_at(HUB, 0, 3)
    writer.append(4)
    assert started(home) == [0, 1, 2, 3, 4, 5, 6]


@mission("M10")
def test_damage_to_what_was_acknowledged_is_told(home: Home) -> None:
    """A byte that is wrong is not taken for the end of the journal if something was synced behind it."""
    writer = Writer(home.log)
    for _ in range(3):
        writer.append(2)
    home.log.close()
    path = last_file(home)
    whole = path.read_bytes()
    starts = [found.place.position for found in home.reopen()._journal.scan({})]
    for position in range(HEADER_BYTES, starts[-1]):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        if position >= starts[-2]:
            # The record before the last may have been lost together with it, for all that the file says.
            continue
        with pytest.raises(StoreCorrupt, match=rf"{path.name}: the record at \d+ is damaged"):
            started(home)
    path.write_bytes(whole)
    assert started(home) == list(range(6))


def test_damage_to_a_file_that_is_not_the_last_is_told(home: Home) -> None:
    writer = Writer(home.log)
    for _ in range(40):
        writer.append(3)
    home.log.close()
    folder = home.directory / JOURNAL_NAME
    assert len(journal_files(folder)) > 2
    path = journal_path(folder, 2)
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole + b"\0", whole[:-20] + bytes(20), b"\0" + whole[1:]):
        path.write_bytes(damaged)
        with pytest.raises(StoreCorrupt, match=path.name):
            started(home)
    path.write_bytes(whole)
    assert started(home) == list(range(120))


def test_a_file_of_the_journal_that_is_missing_is_told(home: Home) -> None:
    writer = Writer(home.log)
    for _ in range(40):
        writer.append(3)
    home.log.close()
    journal_path(home.directory / JOURNAL_NAME, 2).unlink()
    with pytest.raises(StoreCorrupt, match="partition 0: events are there up to"):
        started(home)


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
