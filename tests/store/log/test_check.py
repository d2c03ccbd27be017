"""`tandem check` of a log: it is silent about a sound one, and names what is wrong with another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.store.log.check import LogReport, check_log
from tandem.store.log.event_log import JOURNAL_NAME
from tandem.store.log.journal.frames import HEADER_BYTES
from tandem.store.log.journal.journal import journal_files, journal_path
from tests.store.log.drive import HUB, HUBS, OTHER_HUB, Home, Writer, maintained


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A log with two segments and a tail in one partition, and a tail in another."""
    made = Home(tmp_path)
    writer = Writer(made.log)
    for _ in range(20):
        writer.now_ms += 1_000
        writer.append(5)
        maintained(made.log, writer.now_ms)
    writer.append(3, partition_id=1)
    yield made
    made.close()


def report(home: Home) -> LogReport:
    home.log.close()
    return check_log(home.directory, HUBS)


def segments(home: Home) -> list[Path]:
    return sorted((home.directory / str(HUB) / "0").glob("*.arrow"))


def test_a_sound_log_is_counted(home: Home) -> None:
    size_bytes = home.log.size_bytes(HUB, 0) + home.log.size_bytes(HUB, 1)
    told: list[str] = []
    home.log.close()
    found = check_log(home.directory, HUBS, lambda what, done, total: told.append(what))
    assert found.findings == []
    assert (found.event_count, found.segment_count, found.size_bytes) == (103, 2, size_bytes)
    assert found.journal_record_count >= 5
    assert set(told) == {"journal", "partitions"}


def test_a_log_that_was_never_written_is_sound(tmp_path: Path) -> None:
    assert check_log(tmp_path / "hubs", HUBS) == LogReport()


@pytest.mark.parametrize("suffix", [".arrow", ".amqp"])
def test_a_byte_that_is_wrong_in_a_segment_is_found(home: Home, suffix: str) -> None:
    path = segments(home)[0].with_suffix(suffix)
    whole = path.read_bytes()
    # Of an event, so that the file can be read as before.
    at = whole.index(b"event 3 of" if suffix == ".arrow" else b"\x00\x53\x75\xa0")
    path.write_bytes(whole[:at] + b"E" + whole[at + 1 :])
    findings = report(home).findings
    assert findings
    assert all(segments(home)[0].stem in finding for finding in findings)


def test_a_segment_that_cannot_be_read_is_told(home: Home) -> None:
    path = segments(home)[0]
    path.write_bytes(b"ARROW1 no more")
    findings = report(home).findings
    assert any("the checksum of the file is wrong" in finding for finding in findings)
    assert any("partition 0, events 0 to 39: they are damaged" in finding for finding in findings)


@pytest.mark.parametrize("suffix", [".arrow", ".amqp"])
def test_a_file_that_is_missing_is_told(home: Home, suffix: str) -> None:
    segments(home)[0].with_suffix(suffix).unlink()
    findings = report(home).findings
    assert any("partition 0, events 0 to 39" in finding and "40 events" in finding for finding in findings)
    assert any(f"{suffix} " in finding and "is missing" in finding for finding in findings)


def test_damage_to_the_journal_is_told(home: Home) -> None:
    folder = home.directory / JOURNAL_NAME
    path = journal_path(folder, journal_files(folder)[0])
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + b"\xff" + whole[41:])
    findings = report(home).findings
    assert any(f"journal/{path.name}: bytes {HEADER_BYTES} to" in finding for finding in findings)


def test_what_a_crash_leaves_is_counted_and_no_fault(home: Home) -> None:
    folder = segments(home)[0].parent
    (folder / "00000000000000000080-5-0-0-1.arrow.tmp").write_bytes(b"half")
    (folder / "00000000000000000080-5-0-0-1.amqp").write_bytes(b"whole, and without its other half")
    (home.directory / str(OTHER_HUB + 9) / "0").mkdir(parents=True)
    home.log.close()
    last = journal_path(home.directory / JOURNAL_NAME, journal_files(home.directory / JOURNAL_NAME)[-1])
    last.write_bytes(last.read_bytes() + b"torn")
    found = check_log(home.directory, HUBS)
    assert found.findings == []
    assert (found.leftover_count, found.torn_bytes) == (3, 4)
    home.reopen().recover(HUBS)
    while home.log.sweep():
        pass
    home.log.close()
    found = check_log(home.directory, HUBS)
    assert (found.findings, found.leftover_count, found.torn_bytes) == ([], 0, 0)


def test_a_file_that_is_not_ours_is_told_and_left_alone(home: Home) -> None:
    stranger = segments(home)[0].with_name("notes.txt")
    stranger.write_text("mine")
    assert report(home).findings == [f"{stranger} is not a file of this log"]
    home.reopen().recover(HUBS)
    assert stranger.read_text() == "mine"
