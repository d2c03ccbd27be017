"""What only a store on disk has: a directory of its own, a format, a log, and plans for its statements."""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tandem.amqp.message import Message
from tandem.engine.effects import Effects, ForgetDuplicates
from tandem.engine.message import DEFERRED
from tandem.errors import StoreError, StoreFailed
from tandem.store.check import check
from tandem.store.checksums import checksum_vfs
from tandem.store.schema import APPLICATION_ID, FORMAT_VERSION
from tandem.store.sqlite import DATABASE_NAME, LOCK_NAME, SqliteStore
from tandem.testing.disk import FaultyDisk
from tests.markers import mission
from tests.store.drive import (
    DEAD,
    committed,
    drop_queue,
    due,
    enqueued_before,
    events,
    expired,
    message,
    messages,
    moved,
    next_times,
    numbers,
    put_queue,
    ready_sessions,
    removed,
    rows,
    scheduled,
    sent,
    session_list,
    session_state,
    set_state,
    state_of,
)

FORMATS = Path(__file__).parent / "formats"


def opened(directory: Path) -> SqliteStore:
    return SqliteStore(directory, ballast_bytes=0)


# --- opening ------------------------------------------------------------------------------------------------


def test_a_store_makes_the_directory_it_is_given(tmp_path: Path) -> None:
    opened(tmp_path / "a" / "b").close()
    assert (tmp_path / "a" / "b" / DATABASE_NAME).exists()


def test_a_second_store_is_refused_though_the_lock_file_is_deleted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, ballast_bytes=0)
    for _ in range(2):
        (tmp_path / LOCK_NAME).unlink(missing_ok=True)
        with pytest.raises(StoreError, match="in use by another broker"):
            SqliteStore(tmp_path, ballast_bytes=0)
        with pytest.raises(StoreError, match="in use by a broker"):
            check(tmp_path)
    store.close()
    SqliteStore(tmp_path, ballast_bytes=0).close()


def test_a_store_is_refused_while_an_earlier_version_has_the_lock_file(tmp_path: Path) -> None:
    SqliteStore(tmp_path, ballast_bytes=0).close()
    with (tmp_path / LOCK_NAME).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="in use by another broker"):
            SqliteStore(tmp_path, ballast_bytes=0)


def test_a_second_store_on_one_directory_is_refused(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(StoreError, match="in use by another broker"):
        opened(tmp_path)
    committed(first, sent(message(1)))
    first.close()
    opened(tmp_path).close()


def test_a_store_of_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with apsw.Connection(str(tmp_path / DATABASE_NAME), vfs=checksum_vfs()) as connection:
        connection.pragma("user_version", FORMAT_VERSION + 1)
    connection.close()
    before = (tmp_path / DATABASE_NAME).read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError, match=f"format {FORMAT_VERSION + 1}, this Tandem knows formats up to"):
            opened(tmp_path)
    assert (tmp_path / DATABASE_NAME).read_bytes() == before


@pytest.mark.parametrize("user_version", [0, 1])
def test_a_database_of_another_program_is_left_alone(tmp_path: Path, user_version: int) -> None:
    path = tmp_path / DATABASE_NAME
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs(x)")
    connection.pragma("user_version", user_version)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not Tandem's"):
        opened(tmp_path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / DATABASE_NAME
    path.write_bytes(b"once upon a time " * 1_000)
    with pytest.raises(StoreError, match="cannot be opened"):
        opened(tmp_path)
    assert path.read_bytes() == b"once upon a time " * 1_000


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be opened"):
        opened(tmp_path / "file" / "data")


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    opened(tmp_path).close()
    header = (tmp_path / DATABASE_NAME).read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert header[68:72] == b"Tndm"


def test_settings_are_kept_beside_the_messages(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.setting("key") is None
    store.put_setting("key", "one")
    store.put_setting("key", "two")
    store.close()
    store = opened(tmp_path)
    assert store.setting("key") == "two"
    store.close()


def test_two_threads_at_once_are_refused(tmp_path: Path) -> None:
    """The connection would not notice, and the file might be destroyed."""
    store = opened(tmp_path)
    refusals: list[StoreFailed] = []

    def interfere() -> None:
        with pytest.raises(StoreFailed, match="another thread uses the store") as refusal:
            store.commit()
        refusals.append(refusal.value)

    with store.turn:
        thread = threading.Thread(target=interfere)
        thread.start()
        thread.join()
    assert len(refusals) == 1
    store.commit()
    store.close()


# --- formats ------------------------------------------------------------------------------------------------


def test_there_is_a_store_of_every_format() -> None:
    assert sorted(path.name for path in FORMATS.iterdir()) == [str(number + 1) for number in range(FORMAT_VERSION)]


@mission("M3")
@pytest.mark.parametrize("number", range(1, FORMAT_VERSION + 1))
def test_a_store_of_any_format_opens_and_reads(tmp_path: Path, number: int) -> None:
    """Made by tests.store.make_format."""
    shutil.copytree(FORMATS / str(number), tmp_path, dirs_exist_ok=True)
    store = opened(tmp_path)
    recovered = store.recover()
    assert [record.fields["name"] for record in recovered.queues][:2] == ["queue-1", "queue-2"]
    assert numbers(messages(store)) == [1, 2, 3, 4]
    (dead,) = messages(store, DEAD)
    assert dead.stored is not None
    assert Message(dead.stored.bare).application_properties == {"DeadLetterReason": "tired"}
    assert due(store, 5_000) == [3]
    assert expired(store, 5_000) == [2]
    assert ready_sessions(store, stream=8) == ["s"]
    assert state_of(store, "s", 8) == b"half way"
    again = message(9, enqueued_time_ms=1_500, duplicate_keys=[(1, "id", 1_000)])
    assert committed(store, sent(again)) == {again.row}
    assert store.setting("made by") == f"format {number}"
    if number > 1:
        assert [record.kind for record in recovered.queues[2:]] == ["topic", "subscription", "subscription"]
        assert [(rule.queue_number, rule.name) for rule in recovered.rules] == [(4, "$Default"), (5, "$Default")]
        (plain,), (changed,) = messages(store, 16), messages(store, 20)
        assert plain.stored is not None
        assert changed.stored is not None
        assert Message(plain.stored.bare).data == Message(changed.stored.bare).data == b"shared"
        assert Message(changed.stored.bare).application_properties == {"RuleName": "r"}
    if number > 2:
        assert [record.fields["consumer_groups"] for record in recovered.hubs] == [["$Default", "readers"]]
        found = events(store, 1_000)
        assert [Message(event.encoded()).data for event in found] == [b"a", b"b", b"c", b"d", b"e", b"f"]
        assert [(event.sequence_number, event.enqueued_at_ms) for event in found] == [(n, 1_000 + n) for n in range(6)]
        assert [Message(event.bare).data for event in events(store, 1_000, partition_id=1)] == [b"g"]
    store.close()
    assert check(tmp_path).findings == []


def test_spellings_of_one_session_id_become_one_session_when_an_older_store_is_opened(tmp_path: Path) -> None:
    """The store was made by the last Tandem that told them apart; ADR 17 says what becomes of them."""
    shutil.copytree(Path(__file__).parent / "spellings", tmp_path, dirs_exist_ok=True)
    store = opened(tmp_path)
    (stream,) = [one for one in store.recover().streams if one.stream == 8]
    assert (stream.active, stream.deferred) == (8, 1)
    # Spelled as where the state was set last, or else as where the oldest message is; other letters than A to Z stay.
    assert ready_sessions(store, stream=8) == ["order-1", "Order-2", "Ä", "ä", "single"]
    assert session_list(store, stream=8) == ["order-1", "Order-2", "single", "state ONLY", "Ä", "ä"]
    found = messages(store, 8, session_id="ORDER-1")
    assert [(one.sequence_number, one.session_id) for one in found] == [
        *((1, "Order-1"), (2, "order-1"), (4, "Order-1"), (5, "ORDER-1")),
    ]
    assert numbers(messages(store, 8, session_id="order-2")) == [3, 6]
    assert [numbers(messages(store, 8, session_id=one)) for one in ("Ä", "ä")] == [[7], [8]]
    assert (state_of(store, "Order-1", 8), state_of(store, "STATE only", 8)) == (b"newer", b"state")
    # Ten bytes of state are left of 25, beside the messages.
    assert stream.size_bytes == 9 * 100 + len(b"newer") + len(b"state")
    # One session in line: it is there until the last message of any spelling is gone.
    committed(store, removed(message(1, 8, session_id="Order-1")), removed(message(2, 8, session_id="order-1")))
    assert ready_sessions(store, stream=8)[0] == "order-1"
    committed(store, removed(message(4, 8, session_id="Order-1")))
    assert ready_sessions(store, stream=8)[0] == "Order-2"
    store.close()
    assert check(tmp_path).findings == []
    with closing(sqlite3.connect(tmp_path / DATABASE_NAME)) as database:
        superseded = database.execute("SELECT * FROM superseded_session_state ORDER BY updated_at_ms").fetchall()
    assert superseded == [(8, "oRDER-1", b"oldest one", 500), (8, "Order-1", b"older", 1_000)]


# --- commits ------------------------------------------------------------------------------------------------


@mission("M3")
def test_every_commit_is_one_sync(tmp_path: Path) -> None:
    with FaultyDisk(tmp_path) as disk:
        store = SqliteStore(tmp_path, vfs=disk.name, ballast_bytes=0)
        # The first commit to a new log also syncs its header.
        committed(store, sent(message(1)))
        for number in range(2, 12):
            before = disk.sync_count
            store.write(sent(message(number)))
            store.write(removed(message(number - 1)))
            assert disk.sync_count == before
            store.commit()
            assert disk.sync_count == before + 1
        store.close()


def test_a_commit_of_nothing_does_nothing(tmp_path: Path) -> None:
    with FaultyDisk(tmp_path) as disk:
        store = SqliteStore(tmp_path, vfs=disk.name, ballast_bytes=0)
        before = disk.sync_count
        store.commit()
        assert disk.sync_count == before
        store.close()


def test_a_commit_can_run_in_another_thread(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(1, 51):
        store.write(sent(message(number)))
        thread = threading.Thread(target=store.commit)
        thread.start()
        thread.join()
        assert len(messages(store)) == number
    store.close()


def wait_for_checkpoint() -> None:
    for thread in threading.enumerate():
        if thread.name == "checkpoint":
            thread.join()


def test_the_log_starts_from_its_beginning_again_and_again(tmp_path: Path) -> None:
    """Otherwise it would grow as long as there is traffic."""
    store = SqliteStore(tmp_path, ballast_bytes=0, checkpoint_pages=50)
    log = tmp_path / f"{DATABASE_NAME}-wal"
    longest_bytes = 0
    for number in range(1, 301):
        committed(store, sent(message(number)), removed(message(number - 1)))
        wait_for_checkpoint()
        longest_bytes = max(longest_bytes, log.stat().st_size)
    # 300 commits of some 5 pages each would be 1,500 pages of 8 KiB.
    assert longest_bytes < 100 * 8_192
    store.close()
    assert not log.exists()


def test_a_store_can_be_closed_while_its_log_is_copied(tmp_path: Path) -> None:
    with FaultyDisk(tmp_path) as disk:
        store = SqliteStore(tmp_path, vfs=disk.name, ballast_bytes=0, checkpoint_pages=1)
        disk.sync_delay_s = 0.05
        committed(store, put_queue(), sent(*[message(number) for number in range(1, 100)]))
        assert any(thread.name == "checkpoint" for thread in threading.enumerate())
        store.close()
    assert check(tmp_path).message_count == 99


def test_a_log_that_cannot_be_copied_fails_the_next_commit(tmp_path: Path) -> None:
    """The copy is made in the background: nobody else would hear of a disk that is dying."""
    with FaultyDisk(tmp_path) as disk:
        store = SqliteStore(tmp_path, vfs=disk.name, ballast_bytes=0, checkpoint_pages=1)
        disk.failing_suffix = DATABASE_NAME
        disk.are_syncs_failing = True
        committed(store, put_queue())
        wait_for_checkpoint()
        with pytest.raises(StoreFailed, match="nothing more is acknowledged"):
            committed(store, sent(message(1)))
        disk.are_syncs_failing = False
        store.close()
    assert check(tmp_path).message_count == 0


# --- plans --------------------------------------------------------------------------------------------------


class Statements:
    """Everything that the connections of a store execute."""

    def __init__(self, path: Path) -> None:
        self._executed: list[str] = []
        self._path = path

    def watch(self, connection: apsw.Connection) -> None:
        connection.exec_trace = self._record

    def _record(self, cursor: apsw.Cursor, statement: str, bindings: apsw.Bindings | None) -> bool:
        self._executed.append(statement)
        return True

    def forget(self) -> None:
        self._executed.clear()

    def take_plans(self) -> list[tuple[str, str]]:
        """Each statement since the last call that has a plan, with the plan."""
        connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.exec_trace = None
        taken, self._executed = self._executed, []
        plans = [(one, list(connection.execute(f"EXPLAIN QUERY PLAN {one}", _no_values(one)))) for one in taken]
        connection.close()
        return [(statement, "; ".join(str(step[3]) for step in plan)) for statement, plan in plans if plan]


def _no_values(statement: str) -> tuple[None, ...]:
    """A plan does not depend on the values."""
    numbered = [number for number in range(1, 20) if f"?{number}" in statement]
    return (None,) * (max(numbered) if numbered else statement.count("?"))


@pytest.fixture
def statements(tmp_path: Path) -> Iterator[Statements]:
    made = Statements(tmp_path / DATABASE_NAME)
    apsw.connection_hooks.append(made.watch)
    yield made
    apsw.connection_hooks.remove(made.watch)


def test_every_query_reads_along_an_index(tmp_path: Path, statements: Statements) -> None:
    store = opened(tmp_path)
    statements.forget()
    for ask, index in (
        (lambda: messages(store), "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (lambda: messages(store, is_active_only=True), "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (lambda: messages(store, session_id="s"), "message_session (<expr>=? AND <expr>=? AND row>? AND row<?)"),
        (
            lambda: messages(store, session_id="s", is_active_only=True),
            "message_session (<expr>=? AND <expr>=? AND row>? AND row<?)",
        ),
        (lambda: rows(store, [1]), "INTEGER PRIMARY KEY (rowid=?)"),
        (lambda: due(store, 1), "message_due (<expr>=? AND due_at_ms>? AND due_at_ms<?)"),
        (lambda: expired(store, 1), "message_expiry (<expr>=? AND expires_at_ms>? AND expires_at_ms<?)"),
        (lambda: enqueued_before(store, 1), "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (
            lambda: enqueued_before(store, 1, session_id="s"),
            "message_session (<expr>=? AND <expr>=? AND row>? AND row<?)",
        ),
        (lambda: ready_sessions(store), "session_ready (stream=?)"),
        (lambda: session_list(store), "session_id (stream=?)"),
        (lambda: state_of(store, "s"), "session_id (stream=? AND <expr>=?)"),
    ):
        ask()
        ((statement, plan),) = statements.take_plans()
        assert plan.startswith("SEARCH"), statement
        assert plan.endswith(index), statement
    # This one is sorted: its order is that of the ids, its index that of the times.
    session_list(store, updated_after_ms=1)
    ((_, plan),) = statements.take_plans()
    assert "session_updated (stream=? AND updated_at_ms>?)" in plan
    next_times(store)
    due_plan, expiry_plan = [plan for _, plan in statements.take_plans()]
    assert "COVERING INDEX message_due" in due_plan
    assert "COVERING INDEX message_expiry" in expiry_plan
    store.close()


def test_many_deleted_queues_are_swept_in_few_steps_and_many_messages_in_many(tmp_path: Path) -> None:
    store = opened(tmp_path)
    committed(store, *[put_queue(number) for number in range(1, 201)])
    committed(store, sent(*[message(number) for number in range(1, 7_001)]))
    committed(store, *[drop_queue(number) for number in range(1, 201)])
    left = []
    while store.sweep() is not None:
        left.append(len(messages(store, limit=7_000)))
    assert left[:4] == [5_000, 3_000, 1_000, 0]
    assert len(left) < 10
    store.close()


def test_no_statement_that_writes_reads_a_whole_table(tmp_path: Path, statements: Statements) -> None:
    store = opened(tmp_path)
    statements.forget()
    one = message(1, session_id="s", duplicate_keys=[(1, "id", 10)])
    forget = Effects()
    forget.changes.append(ForgetDuplicates(1, 5))
    committed(store, put_queue(), sent(one))
    committed(store, set_state(one, DEFERRED, 1, {"a": 1}))
    committed(store, moved(one, DEAD, 1, {"a": 1}))
    committed(store, removed(one), session_state("s", None, 5), forget, drop_queue())
    store.sweep()
    plans = [entry for entry in statements.take_plans() if "FROM garbage LIMIT" not in entry[0]]
    assert len(plans) > 10
    for statement, plan in plans:
        assert "SCAN" not in plan, statement
        assert "TEMP" not in plan, statement
    store.close()


def test_a_schedule_of_one_stream_does_not_slow_another(tmp_path: Path) -> None:
    """The indexes begin with the stream: what is due elsewhere is not even looked at."""
    store = opened(tmp_path)
    committed(store, sent(*[scheduled(number, number, 8) for number in range(1, 50)], scheduled(50, 7)))
    assert due(store, 1_000) == [50]
    assert next_times(store)[0] == 7
    store.close()
