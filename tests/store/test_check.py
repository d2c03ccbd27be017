"""The check finds each contradiction that a store can have, and none in a sound one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import apsw
import pytest

from tandem.engine.message import DEFERRED
from tandem.errors import StoreError
from tandem.store.check import Report, check
from tandem.store.checksums import checksum_vfs
from tandem.store.schema import FORMAT_VERSION
from tandem.store.sqlite import DATABASE_NAME, SqliteStore
from tests.markers import mission
from tests.store.drive import (
    DEAD,
    committed,
    drop_queue,
    message,
    moved,
    put_queue,
    scheduled,
    sent,
    session_state,
    set_state,
)

SESSIONS = 8


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with some of everything: a queue, one with sessions, and one that was deleted."""
    directory = tmp_path_factory.mktemp("sound")
    store = SqliteStore(directory, ballast_bytes=0)
    dead, deferred = message(4), message(2)
    committed(store, put_queue(1, requires_duplicate_detection=True), put_queue(2, requires_session=True), put_queue(3))
    committed(store, sent(message(1, duplicate_keys=[(1, "id", 1_000)]), deferred, scheduled(3, 99), dead))
    committed(store, set_state(deferred, DEFERRED, 1))
    committed(store, moved(dead, DEAD, 4, {"DeadLetterReason": "tired"}))
    committed(store, sent(*[message(number, SESSIONS, session_id="ab"[number % 2]) for number in range(1, 6)]))
    committed(store, session_state("a", b"half way", 5, 8, SESSIONS), session_state("c", b"", 5, 0, SESSIONS))
    committed(store, sent(message(1, 12), message(2, 13, duplicate_keys=[(3, "id", 1_000)])), drop_queue(3))
    store.close()
    return directory


@pytest.fixture
def directory(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "data")
    return tmp_path / "data"


def damage(directory: Path, *statements: str) -> Report:
    """Change the tables behind the store's back, and check."""
    connection = apsw.Connection(str(directory / DATABASE_NAME), vfs=checksum_vfs())
    for statement in statements:
        connection.execute(statement)
        assert connection.changes() > 0 or not statement.startswith(("UPDATE", "DELETE"))
    connection.close()
    return check(directory)


def test_a_sound_store_has_no_findings_and_is_counted(directory: Path) -> None:
    report = check(directory)
    assert report.findings == []
    assert report.is_sound
    assert report.format_version == FORMAT_VERSION
    assert (report.message_count, report.garbage_message_count) == (9, 2)
    assert (report.session_count, report.duplicate_count, report.size_bytes) == (3, 1, 908)
    plain, with_sessions = report.queues
    assert (plain.name, plain.active_message_count, plain.deferred_message_count) == ("queue-1", 1, 1)
    assert (plain.scheduled_message_count, plain.dead_letter_message_count, plain.size_bytes) == (1, 1, 400)
    assert (with_sessions.name, with_sessions.active_message_count, with_sessions.session_count) == ("queue-2", 5, 3)
    assert with_sessions.size_bytes == 508


def test_a_check_changes_nothing(directory: Path) -> None:
    before = (directory / DATABASE_NAME).read_bytes()
    check(directory)
    assert (directory / DATABASE_NAME).read_bytes() == before


def test_progress_is_told_and_ends_where_all_is_done(directory: Path) -> None:
    told: list[tuple[str, int, int]] = []
    check(directory, lambda what, done, total: told.append((what, done, total)))
    assert [what for what, _, _ in told] == [
        "checksums of pages",
        "database",
        "messages",
        "messages",
        "shared bodies",
        "sessions",
        "counts",
    ]
    assert told[3] == ("messages", 11, 11)


MAIN_NAME = r"queue \(stream 4\) of queue 'queue-1'"
SESSIONS_NAME = r"queue \(stream 8\) of queue 'queue-2'"


@mission("M3")
@pytest.mark.parametrize(
    "statement, finding",
    [
        ("UPDATE stream SET active = 7 WHERE stream = 4", f"the {MAIN_NAME} counts 7 active messages and has 1"),
        ("UPDATE stream SET deferred = 0 WHERE stream = 4", f"the {MAIN_NAME} counts 0 deferred messages and has 1"),
        ("UPDATE stream SET scheduled = 2 WHERE stream = 4", f"the {MAIN_NAME} counts 2 scheduled messages and has 1"),
        ("UPDATE stream SET size_bytes = 1 WHERE stream = 4", f"the {MAIN_NAME} counts 1 bytes and has 300"),
        (
            "UPDATE session SET state = x'01020304' WHERE session_id = 'a'",
            f"the {SESSIONS_NAME} counts 508 bytes and has 504",
        ),
        (
            "UPDATE stream SET next_sequence_number = 4 WHERE stream = 4",
            r"the dead-letter queue \(stream 5\) of queue 'queue-1' has a message 4, and its next number is 4",
        ),
        ("DELETE FROM stream WHERE stream = 5", r"dead-letter queue \(stream 5\) .* has 1 messages and no counts"),
        ("UPDATE session SET active = 9 WHERE session_id = 'b'", "session 'b' .* counts 9 active messages and has 3"),
        (
            "DELETE FROM session WHERE session_id = 'b'",
            f"session 'b' of the {SESSIONS_NAME} has messages, and no record",
        ),
        (
            "UPDATE session SET state = NULL WHERE session_id = 'c'",
            "session 'c' .* has neither messages nor a state, and should be gone",
        ),
        (
            "INSERT INTO session VALUES (400, 'x', 0, 0, x'', 1, NULL)",
            r"session 'x' of the queue \(stream 400\) of queue 100, which has no record has nobody who could accept it",
        ),
        (
            "DELETE FROM garbage WHERE stream = 12",
            r"queue \(stream 12\) of queue 3, which has no record has 1 messages that nobody can receive",
        ),
        ("DELETE FROM garbage WHERE stream = 12", "1 message ids are remembered for queue 3, which has no record"),
        ("INSERT INTO garbage VALUES (5)", r"dead-letter queue \(stream 5\) .* is to be deleted, but the queue exists"),
        ("UPDATE queue SET fields = '{' WHERE number = 1", "the description of queue 1 cannot be used"),
        ("UPDATE queue SET fields = '[]' WHERE number = 1", "the description of queue 1 cannot be used"),
        ("UPDATE queue SET fields = '{\"name\": 5}' WHERE number = 1", "description of queue 1 .* name must be a text"),
        (
            "UPDATE queue SET fields = (SELECT fields FROM queue WHERE number = 1) WHERE number = 2",
            "2 queues have the name 'queue-1'",
        ),
        ("UPDATE message SET state = 3 WHERE state = 1", f"message 2 in the {MAIN_NAME} has the unknown state 3"),
        ("UPDATE message SET due_at_ms = NULL WHERE state = 2", "message 3 .* has state 2 and is due at 0"),
        ("UPDATE message SET due_at_ms = 5 WHERE state = 1", "message 2 .* has state 1 and is due at 5"),
        (
            "UPDATE message SET session_id = NULL WHERE row >> 44 = 8",
            f"message 1 in the {SESSIONS_NAME} has no session",
        ),
        ("UPDATE message SET session_id = 'x' WHERE state = 1", "message 2 .* has the session 'x'"),
        ("UPDATE message SET bare = x'00ff' WHERE state = 1", "message 2 .* cannot be read"),
        ("UPDATE message SET bare = 'text' WHERE state = 1", "message 2 .* has no bytes"),
        ("UPDATE message SET size_bytes = 'many' WHERE state = 1", "message 2 .* has 'many' where a number belongs"),
        (
            "UPDATE message SET message_annotations = x'01' WHERE state = 1",
            "message 2 .* annotations that cannot be read",
        ),
    ],
)
def test_a_contradiction_is_found_and_named(directory: Path, statement: str, finding: str) -> None:
    report = damage(directory, statement)
    assert not report.is_sound
    assert [one for one in report.findings if re.search(finding, one)], report.findings


def test_a_damaged_page_is_found(directory: Path) -> None:
    path = directory / DATABASE_NAME
    connection = apsw.Connection(str(path))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'message'").get
    page_bytes: int = connection.pragma("page_size")
    connection.close()
    image = bytearray(path.read_bytes())
    start = (root - 1) * page_bytes
    image[start + 200 : start + page_bytes - 1_000] = bytes(page_bytes - 1_200)
    image[start : start + 8] = b"\xff" * 8
    path.write_bytes(image)
    report = check(directory)
    assert "is damaged" in report.findings[0]
    assert [one for one in report.findings if one.startswith("'queue-1': page ")], report.findings


def test_findings_are_bounded(directory: Path) -> None:
    report = damage(
        directory,
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1500) "
        "INSERT INTO session SELECT 8, 'empty' || x, 0, 0, NULL, NULL, NULL FROM n",
    )
    assert len(report.findings) == 1_000
    assert report.unlisted_finding_count == 500


def test_a_store_in_use_is_not_checked(directory: Path) -> None:
    store = SqliteStore(directory, ballast_bytes=0)
    with pytest.raises(StoreError, match="in use by a broker"):
        check(directory)
    store.close()
    assert check(directory).is_sound


def test_a_log_that_was_left_behind_is_part_of_the_store(directory: Path, tmp_path: Path) -> None:
    store = SqliteStore(directory, ballast_bytes=0)
    committed(store, sent(message(5)))
    shutil.copytree(directory, tmp_path / "copy")
    store.close()
    assert (tmp_path / "copy" / f"{DATABASE_NAME}-wal").stat().st_size > 0
    report = check(tmp_path / "copy")
    assert (report.findings, report.message_count) == ([], 10)


def test_a_directory_without_a_store_and_one_of_another_program_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no store"):
        check(tmp_path)
    with pytest.raises(StoreError, match="holds no store"):
        check(tmp_path / "nowhere")
    connection = apsw.Connection(str(tmp_path / DATABASE_NAME))
    connection.execute("CREATE TABLE theirs(x)")
    connection.close()
    with pytest.raises(StoreError, match="not Tandem's"):
        check(tmp_path)
    (tmp_path / DATABASE_NAME).write_bytes(b"no database at all " * 500)
    with pytest.raises(StoreError, match="cannot be read"):
        check(tmp_path)


def test_an_older_format_is_not_looked_into(directory: Path) -> None:
    report = damage(directory, "PRAGMA user_version = 0")
    assert report.format_version == 0
    assert "start the broker once" in report.findings[0]
