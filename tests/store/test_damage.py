"""Damaged files of a store: nothing wrong is served, nothing intact is lost, all is reported, nothing is deleted."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tandem.errors import StoreDamaged, StoreError
from tandem.store import check as check_module
from tandem.store import checksums, connection, opening
from tandem.store.base import LAST_DROPPED_HUB
from tandem.store.check import check
from tandem.store.commit_record import COMMITS_NAME, read_record
from tandem.store.connection import PAGE_BYTES
from tandem.store.opening import DATABASE_NAME
from tandem.store.quarantine import SUSPECT_NAME, read_reports
from tandem.store.salvage import page_bytes_of
from tandem.store.scrub import find_damaged_page
from tandem.store.sqlite import SqliteStore
from tandem.store.wal import scan
from tests.markers import mission
from tests.store.damage import FILES, Sweep
from tests.store.drive import (
    MAIN,
    committed,
    drop_hub,
    drop_queue,
    message,
    messages,
    numbers,
    put_hub,
    put_queue,
    put_topic,
    sent,
    session_state,
    state_of,
    stored,
)
from tests.store.faults import Fault, draw_fault
from tests.store.layout import LOG_NAME, find_layout

FORMATS = Path(__file__).parent / "formats"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return Sweep(tmp_path_factory.mktemp("sweep"), seed=5, rounds=14)


@mission("M3", "M38")
@pytest.mark.parametrize("name", FILES)
def test_a_single_fault_is_harmless_or_reported_and_costs_nothing_that_is_intact(sweep: Sweep, name: str) -> None:
    """The short form of `python -m tests.store.damage`."""
    chance = random.Random(name)
    variants = [one for one in sweep.variants if (one.directory / name).exists()]
    for number in range(10):
        variant = variants[number % len(variants)]
        outcome = sweep.try_fault(variant, draw_fault(chance, variant.directory / name, name))
        assert not outcome.broken, (str(outcome.fault), variant.name, outcome.broken, outcome.reported)


@mission("M3", "M38")
@pytest.mark.parametrize(
    "offset, bit",
    [(0, 0), (16, 1), (18, 0), (20, 3), (28, 7), (60, 0), (68, 1), (8_191, 4)],
    ids=["magic", "page size", "format", "reserved bytes", "page count", "user version", "application", "checksum"],
)
def test_a_damaged_first_page_costs_nothing(sweep: Sweep, offset: int, bit: int) -> None:
    (stopped,) = [one for one in sweep.variants if one.name == "stopped"]
    outcome = sweep.try_fault(stopped, Fault(DATABASE_NAME, "flip", offset, offset + 1, bit))
    assert (outcome.broken, outcome.verdict) == ([], "reported")


@mission("M3", "M38")
@pytest.mark.parametrize("number", range(1, 27))
def test_a_page_of_zeros_is_noticed_though_its_checksum_is_right(sweep: Sweep, number: int) -> None:
    (stopped,) = [one for one in sweep.variants if one.name == "stopped"]
    start = (number - 1) * PAGE_BYTES
    outcome = sweep.try_fault(stopped, Fault(DATABASE_NAME, "zero-8192", start, start + PAGE_BYTES))
    assert outcome.broken == []
    assert outcome.verdict != "harmless"


@mission("M3", "M38")
@pytest.mark.parametrize("frame", [0, 3, 6, 9, 20])
def test_what_follows_a_damaged_frame_is_not_overwritten_before_it_is_salvaged(sweep: Sweep, frame: int) -> None:
    """SQLite ends such a log at the damage: whatever an opening writes goes there."""
    (killed,) = [one for one in sweep.variants if one.name == "killed before the first checkpoint"]
    start = 32 + frame * (PAGE_BYTES + 24) + 24 + 4_000
    outcome = sweep.try_fault(killed, Fault(LOG_NAME, "flip", start, start + 1, 2))
    assert (outcome.broken, outcome.lost_count, outcome.verdict) == ([], 0, "reported")


@mission("M3", "M38")
def test_a_frame_that_does_not_say_its_page_any_more_costs_no_other_page(sweep: Sweep) -> None:
    (killed,) = [one for one in sweep.variants if one.name == "killed before the first checkpoint"]
    record, _ = read_record(killed.directory)
    assert record is not None
    for frame in range(10, record.log_frames, record.log_frames // 12):
        start = 32 + frame * (PAGE_BYTES + 24)
        outcome = sweep.try_fault(killed, Fault(LOG_NAME, "zero-512", start, start + 24))
        assert outcome.broken == [], frame
        assert outcome.verdict.startswith("reported")


@mission("M3", "M38")
def test_a_root_that_is_damaged_in_the_log_costs_nothing(sweep: Sweep) -> None:
    (killed,) = [one for one in sweep.variants if one.name == "killed before the first checkpoint"]
    record, _ = read_record(killed.directory)
    assert record is not None
    newest = scan(killed.directory / LOG_NAME, PAGE_BYTES, record.log_frames).pages[record.roots["message"]]
    outcome = sweep.try_fault(killed, Fault(LOG_NAME, "flip", newest + 100, newest + 101, 2))
    assert (outcome.broken, outcome.lost_count, outcome.verdict) == ([], 0, "reported")


@mission("M3", "M38")
@pytest.mark.parametrize("name", ["stopped", "killed"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_page_that_was_cut_in_the_middle_is_noticed(sweep: Sweep, name: str, part: float) -> None:
    """SQLite takes the rest of such a page for zeros, and the VFS does not verify it."""
    (variant,) = [one for one in sweep.variants if one.name == name]
    size_bytes = (variant.directory / DATABASE_NAME).stat().st_size
    start = int(size_bytes * part) // PAGE_BYTES * PAGE_BYTES + 5_000
    outcome = sweep.try_fault(variant, Fault(DATABASE_NAME, "cut", start, size_bytes))
    assert outcome.broken == []
    assert outcome.verdict.startswith("reported")


@mission("M3", "M38")
def test_a_database_that_is_missing_costs_no_session_whose_state_is_in_the_log(sweep: Sweep) -> None:
    """The description of its queue may be lost with the database: there is a queue for it all the same."""
    (killed,) = [one for one in sweep.variants if one.name == "killed"]
    size_bytes = (killed.directory / DATABASE_NAME).stat().st_size
    outcome = sweep.try_fault(killed, Fault(DATABASE_NAME, "missing", 0, size_bytes))
    assert outcome.broken == []


@mission("M3", "M38")
def test_tandem_check_names_the_message_that_goes_on_in_a_page_of_zeros(sweep: Sweep) -> None:
    """A page of overflow may be zeros, and its checksum is right then: it is found by what it holds."""
    (stopped,) = [one for one in sweep.variants if one.name == "stopped"]
    copies = stopped.layout.copies
    large = [copies[unit][0] for unit in copies if unit[0] == "message" and len(copies[unit][0]) > 3]
    for places in large[:5]:
        _, start, end = places[1]
        outcome = sweep.try_fault(stopped, Fault(DATABASE_NAME, "zero-8192", start, end))
        assert outcome.broken == []


def place_of_message(directory: Path, choose: Callable[[list[int]], int]) -> tuple[str, int, int]:
    """The page in which the first or the last message is."""
    copies = find_layout(directory).copies
    row = choose([key for kind, key in copies if kind == "message" and isinstance(key, int)])
    return copies["message", row][0][0]


# --- stores of our own ----------------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store that was stopped, with fifty messages of 2 KB."""
    store = SqliteStore(tmp_path, ballast_bytes=0)
    committed(store, put_queue())
    for number in range(1, 51):
        # One of them is large enough for a checksum of its own.
        committed(store, sent(message(number, stored=stored(b"%d" % number * (9_000 if number == 7 else 700)))))
    store.close()
    return tmp_path


def served(directory: Path) -> list[int]:
    """Open, read and close; open again while damage is found, as the host of a namespace is."""
    for _ in range(3):
        store = SqliteStore(directory, ballast_bytes=0)
        try:
            store.recover()
            return numbers(messages(store))
        except StoreDamaged:
            continue
        finally:
            store.close()
    raise AssertionError("opening again does not help")


def damages(directory: Path) -> list[str]:
    return [one.sentence for report in read_reports(directory) for one in report.damages]


@mission("M38")
def test_wrong_bytes_with_a_right_checksum_of_their_page_are_not_served(directory: Path) -> None:
    """As after a checkpoint of a log that was damaged on disk, whose pages get new checksums on the way."""
    writer = apsw.Connection(str(directory / DATABASE_NAME), vfs=checksums.checksum_vfs())
    writer.execute("UPDATE message SET bare = zeroblob(length(bare)) WHERE row & 63 = 7")
    writer.close()
    assert not check(directory).is_sound
    assert served(directory) == [number for number in range(1, 51) if number != 7]
    assert [one for one in damages(directory) if "messages 7" in one and "'queue-1'" in one]
    assert check(directory).is_sound


@mission("M38")
def test_a_wrong_state_of_a_session_with_a_right_checksum_of_its_page_is_not_served(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, ballast_bytes=0)
    committed(store, put_queue(2, requires_session=True), session_state("s", b"right", 5, 5, 8))
    store.close()
    writer = apsw.Connection(str(tmp_path / DATABASE_NAME), vfs=checksums.checksum_vfs())
    writer.execute("UPDATE session SET state = CAST('wrong' AS BLOB)")
    writer.close()
    assert not check(tmp_path).is_sound
    store = SqliteStore(tmp_path, ballast_bytes=0)
    with pytest.raises(StoreDamaged):
        state_of(store, "s", 8)
    store.close()
    store = SqliteStore(tmp_path, ballast_bytes=0)
    assert state_of(store, "s", 8) is None
    store.close()
    assert [one for one in damages(tmp_path) if one.startswith("session 's' of 'queue-2'")]


@mission("M38")
def test_an_older_database_is_noticed_by_the_count_of_commits(directory: Path) -> None:
    older = (directory / DATABASE_NAME).read_bytes()
    store = SqliteStore(directory, ballast_bytes=0)
    for number in (51, 52, 53):
        committed(store, sent(message(number)))
    store.close()
    (directory / DATABASE_NAME).write_bytes(older)
    assert [one for one in check(directory).findings if "acknowledged" in one]
    assert served(directory) == list(range(1, 51))
    assert [one for one in damages(directory) if "lost: the last 3 commits" in one]


@mission("M38")
def test_a_missing_database_is_refused_and_no_empty_one_is_begun(directory: Path) -> None:
    (directory / DATABASE_NAME).unlink()
    with pytest.raises(StoreError, match="restore the database from a backup"):
        SqliteStore(directory, ballast_bytes=0)
    assert not (directory / DATABASE_NAME).exists()
    assert not check(directory).is_sound


@mission("M38")
def test_everything_is_salvaged_from_the_log_when_the_database_is_missing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "live", ballast_bytes=0)
    committed(store, put_queue(), sent(*[message(number) for number in range(1, 31)]))
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    store.close()
    (tmp_path / "killed" / DATABASE_NAME).unlink()
    assert served(tmp_path / "killed") == list(range(1, 31))
    assert damages(tmp_path / "killed")


def test_a_missing_count_of_commits_is_reported_and_made_again(directory: Path) -> None:
    (directory / COMMITS_NAME).unlink()
    assert [one for one in check(directory).findings if COMMITS_NAME in one]
    assert served(directory) == list(range(1, 51))
    assert [one for one in damages(directory) if COMMITS_NAME in one]
    record, found = read_record(directory)
    assert (record is not None, found) == (True, [])


def test_the_count_of_commits_is_never_ahead_of_the_database(directory: Path) -> None:
    store = SqliteStore(directory, ballast_bytes=0)
    committed(store, sent(message(51)))
    record, _ = read_record(directory)
    assert record is not None
    assert record.commits == store._connection.execute("SELECT commits FROM commit_count").get
    assert record.log_frames == store._log_pages > 0
    store.close()
    record, _ = read_record(directory)
    assert record is not None
    assert record.log_frames == 0, "nothing of the log is needed after a stop"


@mission("M38")
def test_scrubbing_finds_a_page_that_nobody_reads(directory: Path) -> None:
    assert find_damaged_page(directory / DATABASE_NAME, lambda _: False) is None
    name, start, end = place_of_message(directory, max)
    Fault(name, "flip", start + 512, start + 513, 5).inject(directory)
    found = find_damaged_page(directory / DATABASE_NAME, lambda _: False)
    assert found == end // 8_192
    assert find_damaged_page(directory / DATABASE_NAME, lambda _: True) is None, "stopped"


@mission("M38")
@pytest.mark.parametrize("renames", range(6))
def test_a_crash_while_the_files_are_replaced_loses_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    name, start, _ = place_of_message(directory, min)
    Fault(name, "flip", start + 4_000, start + 4_001, 2).inject(directory)
    (directory / SUSPECT_NAME).write_text("a page has a wrong checksum")
    left = renames
    rename = Path.rename

    def crash(self: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left < 0:
            raise InterruptedError("the process ends here")
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", crash)
        with contextlib.suppress(StoreError):
            SqliteStore(directory, ballast_bytes=0).close()
    found = served(directory)
    lost = 50 - len(found)
    assert 0 < lost < 20, "those of one page"
    assert found == list(range(lost + 1, 51))
    kept = [folder for folder in directory.glob("damaged-*/") if (folder / DATABASE_NAME).exists()]
    assert len(kept) == 1, "the damaged database is kept, once"
    assert not list(directory.glob("*.unfinished"))
    assert check(directory).is_sound


# --- without the VFS ------------------------------------------------------------------------------------------------


@pytest.fixture
def without_vfs(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for module in (checksums, connection, opening, check_module):
        monkeypatch.setattr(module, "checksum_vfs", lambda: None)
    return monkeypatch


@mission("M38")
def test_a_store_without_checksums_of_pages_is_served_and_says_so(
    directory: Path, without_vfs: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(directory, ballast_bytes=0)
    assert not store.has_page_checksums
    committed(store, sent(message(51)))
    store.close()
    report = check(directory)
    assert report.is_sound
    assert [one for one in report.notes if "no checksums" in one]
    without_vfs.undo()
    # Pages that were written meanwhile have none: the database is written anew.
    store = SqliteStore(directory, ballast_bytes=0)
    assert store.has_page_checksums
    assert numbers(messages(store)) == list(range(1, 52))
    store.close()
    assert check(directory).is_sound


@pytest.mark.parametrize("version", ["1", "4"])
def test_an_older_store_gets_checksums_when_it_is_opened(tmp_path: Path, version: str) -> None:
    shutil.copytree(FORMATS / version, tmp_path / "data")
    store = SqliteStore(tmp_path / "data", ballast_bytes=0)
    assert store.has_page_checksums
    found = messages(store, MAIN)
    store.close()
    assert found
    assert page_bytes_of(tmp_path / "data" / DATABASE_NAME) == (8_192, 8)
    reader = apsw.Connection(str(tmp_path / "data" / DATABASE_NAME), vfs=checksums.checksum_vfs())
    assert reader.execute("SELECT count(*) FROM message WHERE header IS NOT NULL AND checksum IS NULL").get == 0
    reader.close()
    assert check(tmp_path / "data").is_sound


def test_descriptions_are_kept_twice_however_they_are_written(directory: Path) -> None:
    store = SqliteStore(directory, ballast_bytes=0)
    committed(store, put_hub(1_000), put_hub(1_001), put_topic(2, 3), put_queue(4))
    committed(store, drop_hub(1_000), drop_queue(4))
    # Deleting hubs updates a setting with an upsert.
    committed(store, drop_hub(1_001), put_queue(1, max_delivery_count=7))
    store.put_setting("name", "one")
    store.put_setting("name", "two")
    store.close()
    assert check(directory).findings == []
    reader = apsw.Connection(str(directory / DATABASE_NAME), vfs=checksums.checksum_vfs())
    assert reader.execute("SELECT value FROM setting_copy WHERE name = 'name'").get == "two"
    assert reader.execute("SELECT value FROM setting_copy WHERE name = ?", (LAST_DROPPED_HUB,)).get == "1001"
    assert reader.execute("SELECT count(*) FROM queue_copy").get == 3
    assert reader.execute("SELECT count(*) FROM hub_copy").get == 0
    reader.close()
