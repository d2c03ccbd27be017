"""Messages in one SQLite database, through apsw.

`synchronous=FULL` and a write-ahead log: a commit is one append and one fsync of the log, whatever it holds. The log
is copied into the database in the background by a second connection; the writing one only finishes what that left.
A batch becomes few statements: messages that came are one executemany, messages that went are deleted by ranges.
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TextIO, TypeVar, cast

import apsw
import msgspec

from tandem.engine.effects import (
    Change,
    DropHub,
    DropQueue,
    DropRule,
    Effects,
    ForgetDuplicates,
    Move,
    PutHub,
    PutQueue,
    PutRule,
    PutSetting,
    SetSessionState,
    SetState,
    StreamChange,
)
from tandem.engine.message import Admission
from tandem.engine.queries import Query
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.engine.session_key import session_key
from tandem.errors import StoreError, StoreFailed
from tandem.store.ballast import BALLAST_BYTES, Ballast
from tandem.store.base import (
    LAST_DROPPED_HUB,
    RESERVED_EVENTS,
    Entities,
    HubRecord,
    QueueRecord,
    Recovered,
    RuleRecord,
    StreamRecord,
    Swept,
    Written,
)
from tandem.store.connection import connect, copy_log
from tandem.store.garbage import Garbage
from tandem.store.log.event_log import EventLog
from tandem.store.log.files import DiskFiles, Files
from tandem.store.log.journal import JournalFull
from tandem.store.log.log_limits import LogLimits
from tandem.store.modify import modified
from tandem.store.reader import Reader
from tandem.store.rows import (
    ALL_COLUMNS,
    Row,
    all_columns,
    body_columns,
    copy_columns,
    fixed_columns,
    message_of,
)
from tandem.store.schema import migrate
from tandem.store.session_counts import count_by_session
from tandem.store.with_log import WithLog

__all__ = ["DATABASE_NAME", "LOCK_NAME", "LOG_NAME", "SqliteStore"]

DATABASE_NAME: Final = "messages.db"
LOCK_NAME: Final = "lock"
LOG_NAME: Final = "hubs"

# Pages of the write-ahead log after which it is copied into the database: 32 MiB.
_CHECKPOINT_PAGES: Final = 4_096

# Free pages that are given back to the disk at once.
_VACUUM_PAGES: Final = 2_000

_INSERT: Final = f"INSERT INTO message({ALL_COLUMNS}) VALUES ({', '.join('?' * 18)})"  # noqa: S608 # constants
_MOVE: Final = (
    "UPDATE message SET row = ?, state = ?, delivery_count = ?, enqueued_time_ms = ?, expires_at_ms = ?, "
    "due_at_ms = ?, time_to_live_ms = ?, session_id = ?, size_bytes = ?, enqueue_sequence_number = ?, "
    "hop_count = ?, partition = ?, dead_letter_source = ?, body_number = ? WHERE row = ?"
)
_COUNT: Final = """
INSERT INTO stream VALUES (?1, ?2, ?3, ?4, ?5, max(?6, 1), ?7) ON CONFLICT DO UPDATE SET
    active = active + ?2, deferred = deferred + ?3, scheduled = scheduled + ?4, size_bytes = size_bytes + ?5,
    next_sequence_number = max(next_sequence_number, ?6), accessed_at_ms = max(accessed_at_ms, ?7)
"""
# One look into an index for each queue, however many ids are remembered. With NULL in place of a list of numbers, these
# select everything.
_RECORDED_QUEUES: Final = """
    SELECT number, kind, fields, created_at_ms, updated_at_ms,
        ifnull((SELECT max(seen_at_ms) FROM duplicate WHERE queue = number), 0)
    FROM queue WHERE ?1 IS NULL OR number IN (SELECT value FROM json_each(?1)) ORDER BY number"""
_RECORDED_STREAMS: Final = f"""
    SELECT * FROM stream WHERE ?1 IS NULL OR stream / {STREAMS_PER_QUEUE} IN (SELECT value FROM json_each(?1))
    ORDER BY stream"""  # noqa: S608 # a constant
_RECORDED_RULES: Final = """
    SELECT queue, name, fields, created_at_ms FROM rule
    WHERE ?1 IS NULL OR queue IN (SELECT value FROM json_each(?1)) ORDER BY queue, created_at_ms, name"""
_INSERT_BODY: Final = "INSERT INTO body VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RELEASE: Final = """
UPDATE body SET copies = copies - ?2 WHERE number = ?1 RETURNING number, copies, stream, size_bytes
"""
_SET_BYTES: Final = (
    "UPDATE message SET header = ?, delivery_annotations = ?, message_annotations = ?, bare = ? WHERE row = ?"
)
# A session keeps its place in line from the message on that made it non-empty.
_COUNT_SESSION: Final = """
INSERT INTO session(stream, session_id, active, since) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET
    since = CASE WHEN active = 0 THEN ?4 ELSE since END, active = active + ?3
"""
_SEE: Final = """
INSERT INTO duplicate VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET seen_at_ms = ?3 WHERE seen_at_ms <= ?3 - ?4
"""


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _alone(
    method: Callable[Concatenate[SqliteStore, Parameters], Result],
) -> Callable[Concatenate[SqliteStore, Parameters], Result]:
    """One thread at a time: the connection has no mutex of its own, and two at once could destroy what is on disk."""

    @wraps(method)
    def guarded(store: SqliteStore, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        if not store.turn.acquire(blocking=False):
            raise StoreFailed(f"{method.__name__} was called while another thread uses the store")
        try:
            return method(store, *arguments, **named)
        finally:
            store.turn.release()

    return guarded


class _Written:
    """What is found out while a batch is written."""

    __slots__ = ("added", "duplicates", "refused", "shared_bytes")

    def __init__(self) -> None:
        self.added: dict[int, StreamChange] = {}
        self.duplicates: set[int] = set()
        self.refused: set[Admission] = set()
        self.shared_bytes: dict[int, int] = {}


class SqliteStore(WithLog):
    """A data directory. `free_bytes` tells the free space of its disk, and is a parameter for tests."""

    def __init__(
        self,
        directory: Path,
        *,
        vfs: str | None = None,
        free_bytes: Callable[[], int] | None = None,
        ballast_bytes: int = BALLAST_BYTES,
        checkpoint_pages: int = _CHECKPOINT_PAGES,
        log_limits: LogLimits | None = None,
        log_files: Files | None = None,
    ) -> None:
        # Held by the thread that uses the connection.
        self.turn = threading.Lock()
        self._checkpoint_pages = self._checkpoint_at_pages = checkpoint_pages
        path = directory / DATABASE_NAME
        try:
            DiskFiles().make_folder(directory)
            with contextlib.ExitStack() as opened:
                self._lock_file = opened.enter_context(_lock(directory))
                self._connection = opened.enter_context(contextlib.closing(connect(path, vfs=vfs)))
                migrate(self._connection)
                self._checkpoints = opened.enter_context(contextlib.closing(connect(path, vfs=vfs)))
                self._execute = self._connection.execute
                self._garbage = Garbage(self._connection, self._release)
                self._is_file_too_long = False
                self._ballast = Ballast(directory, ballast_bytes, free_bytes)
                self.log = EventLog(
                    directory / LOG_NAME, limits=log_limits or LogLimits(), files=log_files or DiskFiles()
                )
                opened.pop_all()
        except (apsw.Error, OSError) as error:
            raise StoreError(f"{path} cannot be opened: {error}") from error
        super().__init__(self.log)
        # Sweeping gives the space of messages that are gone back to the disk, though the disk is not full.
        self.gives_back_space = False
        self._batch: list[Effects] = []
        # Numbers of events that are reserved by the transaction of the batch.
        self._reserved_in_batch: dict[int, list[int]] = {}
        # What the moves of the batch write: their messages change while a commit runs.
        self._moves: dict[Move, Row] = {}
        self._log_pages = 0
        self._checkpoint_thread: threading.Thread | None = None
        self._checkpoint_error: apsw.Error | None = None
        self._is_checkpoint_behind = False
        self._connection.set_wal_hook(self._on_log_grown)
        self._reader = Reader(self._connection)

    # --- start and end --------------------------------------------------------------------------------------

    @_alone
    def recover(self) -> Recovered:
        try:
            return self._recover()
        except apsw.Error as error:
            raise StoreFailed(f"the store could not be recovered: {error}") from error

    def _recover(self) -> Recovered:
        last_number: int = self._execute("SELECT ifnull(max(number), -1) FROM queue").get
        # The counts below are those after it.
        self._garbage.sweep_from(last_number + 1)
        queues, streams, rules = self._entities(None)
        last_body_number: int = self._execute("SELECT ifnull(max(number), 0) FROM body").get
        hubs = [
            HubRecord(number, msgspec.json.decode(fields), created_at_ms, updated_at_ms)
            for number, fields, created_at_ms, updated_at_ms in self._execute("SELECT * FROM hub ORDER BY number")
        ]
        dropped: str | None = self._execute("SELECT value FROM setting WHERE name = ?", (LAST_DROPPED_HUB,)).get
        reserved = self._execute("SELECT name, value FROM setting WHERE name GLOB ?", (f"{RESERVED_EVENTS}*",))
        log = self.log.recover(
            {hub.number: cast("int", hub.fields["partition_count"]) for hub in hubs},
            names={hub.number: cast("str", hub.fields["name"]) for hub in hubs},
            reserved={int(name[len(RESERVED_EVENTS) :]): msgspec.json.decode(value) for name, value in reserved},
            last_dropped_hub=int(dropped or 0),
        )
        return Recovered(queues, streams, rules, last_body_number, hubs, int(dropped or 0), log)

    @_alone
    def read_entities(self, numbers: Collection[int]) -> Entities:
        try:
            return self._entities(sorted(numbers))
        except apsw.Error as error:
            raise StoreFailed(f"entities could not be read from the store: {error}") from error

    def _entities(self, numbers: list[int] | None) -> Entities:
        """Those with these numbers; None stands for all."""
        chosen = (None if numbers is None else msgspec.json.encode(numbers).decode(),)
        queues = [
            QueueRecord(number, kind, msgspec.json.decode(fields), created_at_ms, updated_at_ms, last_id_at_ms)
            for number, kind, fields, created_at_ms, updated_at_ms, last_id_at_ms in self._execute(
                _RECORDED_QUEUES, chosen
            )
        ]
        streams = [StreamRecord(*row) for row in self._execute(_RECORDED_STREAMS, chosen)]
        rules = [
            RuleRecord(number, name, msgspec.json.decode(fields), created_at_ms)
            for number, name, fields, created_at_ms in self._execute(_RECORDED_RULES, chosen)
        ]
        return Entities(queues, streams, rules)

    @_alone
    def setting(self, name: str) -> str | None:
        """A value kept beside the messages, such as the keys of the namespace."""
        value: str | None = self._execute("SELECT value FROM setting WHERE name = ?", (name,)).get
        return value

    @_alone
    def put_setting(self, name: str, value: str) -> None:
        """Kept at once: call it only between batches."""
        try:
            with self._connection:
                self._execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (name, value))
        except apsw.Error as error:
            raise StoreFailed(f"the setting {name} could not be kept: {error}") from error

    def close(self) -> None:
        self.log.close()
        self._wait_for_checkpoint()
        self._connection.set_wal_hook(None)
        # If one of these fails: what was committed is in the log, and the next start reads it from there.
        with contextlib.suppress(apsw.Error):
            self._checkpoints.close()
        with contextlib.suppress(apsw.Error):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        with contextlib.suppress(apsw.Error):
            self._connection.close()
        self._lock_file.close()

    # --- writing --------------------------------------------------------------------------------------------

    @_alone
    def write(self, effects: Effects) -> Written:
        if effects.events:
            self.log.append(effects.events)
        if not effects.has_rows:
            return Written((), {})
        try:
            if not self._batch:
                self._execute("BEGIN IMMEDIATE")
            self._batch.append(effects)
            written = self._write(effects)
        except apsw.Error as error:
            raise StoreFailed(f"the store could not be written: {error}") from error
        return Written(written.duplicates, written.shared_bytes)

    def _write(self, effects: Effects) -> _Written:
        written = _Written()
        if effects.admissions:
            self._admit(effects.admissions, written)
        if effects.appended:
            self._append(effects, written)
        for entry in effects.changes:
            self._write_change(entry)
        if effects.removed:
            self._connection.executemany("DELETE FROM message WHERE row BETWEEN ? AND ?", _runs(effects.removed))
        if effects.released:
            self._release(effects.released, written.shared_bytes)
        streams = effects.streams
        added = written.added
        for stream, by_bytes in written.shared_bytes.items():
            if stream not in self._garbage:
                added.setdefault(stream, StreamChange()).size_bytes += by_bytes
        for stream in streams.keys() | added.keys():
            self._count(stream, streams.get(stream), added.get(stream))
        return written

    def _admit(self, admissions: list[Admission], written: _Written) -> None:
        for admission in admissions:
            if not self._is_new(admission.keys, admission.at_ms):
                written.refused.add(admission)

    def _append(self, effects: Effects, written: _Written) -> None:
        rows: list[Row] = []
        added = written.added
        copies: dict[int, int] = {}
        for message in effects.appended:
            if (message.admission is not None and message.admission in written.refused) or (
                message.duplicate_keys is not None
                and not self._is_new(message.duplicate_keys, message.enqueued_time_ms)
            ):
                written.duplicates.add(message.row)
                continue
            stream = message.stream
            change = added.get(stream)
            if change is None:
                change = added[stream] = StreamChange()
            change.add(message, 1)
            number = message.body_number
            if number:
                copies[number] = copies.get(number, 0) + 1
                rows.append(copy_columns(message, effects.bodies[number]))
            else:
                rows.append(all_columns(message))
        self._connection.executemany(_INSERT, rows)
        for number, count in copies.items():
            body = effects.bodies[number]
            self._execute(_INSERT_BODY, body_columns(body, count))
            written.shared_bytes[body.stream] = written.shared_bytes.get(body.stream, 0) + body.size_bytes

    def _release(self, released: Mapping[int, int], shared_bytes: dict[int, int]) -> None:
        """Copies are gone; a body goes with the last one."""
        gone: list[tuple[int]] = []
        for number, copies, stream, size_bytes in self._connection.executemany(_RELEASE, released.items()):
            if copies <= 0:
                gone.append((number,))
                shared_bytes[stream] = shared_bytes.get(stream, 0) - size_bytes
        self._connection.executemany("DELETE FROM body WHERE number = ?", gone)

    def _is_new(self, keys: list[tuple[int, str, int]], at_ms: int) -> bool:
        """All detections must find it new; those that did will know it from now on."""
        is_new = True
        for number, key, window_ms in keys:
            self._execute(_SEE, (number, key, at_ms, window_ms))
            is_new = is_new and self._connection.changes() > 0
        return is_new

    def _write_change(self, change: Change) -> None:
        execute = self._execute
        if isinstance(change, SetState):
            if change.properties:
                self._modify(change.row, change.properties)
            execute(
                "UPDATE message SET state = ?, delivery_count = ? WHERE row = ?",
                (change.state, change.delivery_count, change.row),
            )
        elif isinstance(change, Move):
            if change.properties:
                self._modify(change.row, change.properties)
            columns = self._moves.get(change)
            if columns is None:
                columns = self._moves[change] = fixed_columns(change.message)
            if change.shared_body_number:
                self._give_own_bytes(change.row, change.shared_body_number)
            execute(_MOVE, (*columns, change.row))
        elif isinstance(change, SetSessionState):
            execute(
                "INSERT INTO session(stream, session_id, active, since, state, updated_at_ms) "
                "VALUES (?1, ?2, 0, 0, ?3, ?4) ON CONFLICT DO UPDATE SET state = ?3, updated_at_ms = ?4",
                (change.stream, change.session_id, change.state, change.updated_at_ms),
            )
            if change.state is None:
                self._drop_empty_session(change.stream, change.session_id)
        elif isinstance(change, PutQueue):
            execute(
                "INSERT OR REPLACE INTO queue(number, kind, fields, created_at_ms, updated_at_ms) "
                "VALUES (?, ?, ?, ?, ?)",
                (
                    change.number,
                    change.kind,
                    msgspec.json.encode(change.fields).decode(),
                    change.created_at_ms,
                    change.updated_at_ms,
                ),
            )
        elif isinstance(change, PutRule):
            execute(
                "INSERT OR REPLACE INTO rule VALUES (?, ?, ?, ?)",
                (
                    change.queue_number,
                    change.name,
                    msgspec.json.encode(change.fields).decode(),
                    change.created_at_ms,
                ),
            )
        elif isinstance(change, DropRule):
            execute("DELETE FROM rule WHERE queue = ? AND name = ?", (change.queue_number, change.name))
        elif isinstance(change, ForgetDuplicates):
            execute(
                "DELETE FROM duplicate WHERE queue = ? AND seen_at_ms <= ?", (change.queue_number, change.before_ms)
            )
        elif isinstance(change, DropQueue):
            self._drop_queue(change.number)
        elif isinstance(change, PutHub):
            self._put_hub(change)
        elif isinstance(change, DropHub):
            self._drop_hub(change.number)
        elif isinstance(change, PutSetting):
            self._execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (change.name, change.value))

    def _put_hub(self, change: PutHub) -> None:
        self.log.name_hub(change.number, cast("str", change.fields["name"]))
        self._execute(
            "INSERT OR REPLACE INTO hub VALUES (?, ?, ?, ?)",
            (
                change.number,
                msgspec.json.encode(change.fields).decode(),
                change.created_at_ms,
                change.updated_at_ms,
            ),
        )

    def _drop_hub(self, number: int) -> None:
        self._execute("DELETE FROM hub WHERE number = ?", (number,))
        # The log hears of it after the commit, which may be never: this remembers that the number was given.
        self._execute(
            "INSERT INTO setting VALUES (?, ?) ON CONFLICT(name) DO UPDATE "
            "SET value = excluded.value WHERE CAST(excluded.value AS INTEGER) > CAST(value AS INTEGER)",
            (LAST_DROPPED_HUB, str(number)),
        )
        self._execute("DELETE FROM setting WHERE name = ?", (f"{RESERVED_EVENTS}{number}",))
        self._dropped_hubs.add(number)

    def _modify(self, row: int, properties: dict[str, object]) -> None:
        found = self._execute("SELECT bare, header, body_number FROM message WHERE row = ?", (row,)).fetchone()
        if found is None:
            return
        bare, header, body_number = cast("tuple[bytes, bytes | None, int | None]", found)
        if header is None and body_number is not None:
            # From now on this copy has properties of its own.
            front_bytes, *columns, shared = self._reader.body(body_number)
            columns.append(modified(cast("bytes", shared)[: cast("int", front_bytes)], properties))
            self._execute(_SET_BYTES, (*columns, row))
        else:
            self._execute("UPDATE message SET bare = ? WHERE row = ?", (modified(bare, properties), row))

    def _give_own_bytes(self, row: int, body_number: int) -> None:
        """The copy leaves those that it shares its body with."""
        found = self._execute(f"SELECT {ALL_COLUMNS} FROM message WHERE row = ?", (row,)).fetchone()  # noqa: S608
        if found is not None:
            message = message_of(cast("Row", found))
            message.body_number = body_number
            self._reader.complete(message)
            message.body_number = 0
            self._execute(_SET_BYTES, (*all_columns(message)[-4:], row))

    def _drop_empty_session(self, stream: int, session_id: str) -> None:
        self._execute(
            "DELETE FROM session WHERE stream = ? AND lower(session_id) = ? AND active = 0 AND state IS NULL",
            (stream, session_key(session_id)),
        )

    def _drop_queue(self, number: int) -> None:
        """Its messages are deleted later, a few at a time: there may be millions."""
        first = number * STREAMS_PER_QUEUE
        streams = [(stream,) for stream in range(first, first + STREAMS_PER_QUEUE)]
        self._execute("DELETE FROM queue WHERE number = ?", (number,))
        self._execute("DELETE FROM rule WHERE queue = ?", (number,))
        self._connection.executemany("DELETE FROM stream WHERE stream = ?", streams)
        for stream in streams:
            self._garbage.add(stream[0])

    def _count(self, stream: int, decided: StreamChange | None, added: StreamChange | None) -> None:
        if stream in self._garbage:
            # Something that was under way when the queue was deleted.
            self._garbage.add(stream)
            return
        one = decided or StreamChange()
        two = added or StreamChange()
        self._execute(
            _COUNT,
            (
                stream,
                one.active + two.active,
                one.deferred + two.deferred,
                one.scheduled + two.scheduled,
                one.size_bytes + two.size_bytes,
                one.next_sequence_number,
                one.accessed_at_ms,
            ),
        )
        if one.sessions or two.sessions:
            self._count_sessions(stream, one, two)

    def _count_sessions(self, stream: int, one: StreamChange, two: StreamChange) -> None:
        counts = count_by_session(one, two)
        # Each session that grew has had a number of its own in this batch at least: so the places are not taken, and
        # sessions that became ready in one batch keep the order of their messages.
        since = one.next_sequence_number - sum([1 for by in counts.values() if by > 0])
        for session_id, by in counts.items():
            if by > 0:
                since += 1
            if by:
                self._execute(_COUNT_SESSION, (stream, session_id, by, since))
            if by < 0:
                self._drop_empty_session(stream, session_id)

    # --- committing -----------------------------------------------------------------------------------------

    @_alone
    def commit(self) -> None:
        if self.log.has_uncommitted:
            self._commit_events()
            self._reserve_events()
        if not self._batch:
            return
        try:
            if self._checkpoint_error is not None:
                raise self._checkpoint_error
            try:
                self._execute("COMMIT")
            except apsw.FullError:
                self._commit_without_ballast()
            if self._is_checkpoint_behind:
                # The background has copied nearly all: finish, so that the log starts from its beginning again.
                self._is_checkpoint_behind = False
                if copy_log(self._connection):
                    self._log_pages = 0
                    self._checkpoint_at_pages = self._checkpoint_pages
        except apsw.Error as error:
            raise StoreFailed(f"the store could not be committed, nothing more is acknowledged: {error}") from error
        self._batch.clear()
        self._moves.clear()
        if self._reserved_in_batch:
            self.log.reserved(self._reserved_in_batch)
            self._reserved_in_batch = {}
        if self._log_pages > self._checkpoint_at_pages and self._checkpoint_thread is None:
            # If this one fails for want of space, the next is worth a try when the log is as much longer.
            self._checkpoint_at_pages = self._log_pages + self._checkpoint_pages
            self._checkpoint_thread = threading.Thread(target=self._checkpoint, name="checkpoint", daemon=True)
            self._checkpoint_thread.start()

    def _commit_events(self) -> None:
        try:
            self.log.commit()
        except JournalFull:
            self._ballast.give_up()
            self.log.commit()

    def _reserve_events(self) -> None:
        """Tell the tables, now and then, up to where the numbers of events may have been given."""
        blocks = self.log.unreserved()
        if not blocks:
            return
        effects = Effects()
        effects.changes += [
            PutSetting(f"{RESERVED_EVENTS}{hub}", msgspec.json.encode(numbers).decode())
            for hub, numbers in blocks.items()
        ]
        try:
            if not self._batch:
                self._execute("BEGIN IMMEDIATE")
            # Part of the batch, which is written again if the disk is full.
            self._batch.append(effects)
            self._write(effects)
        except apsw.Error as error:
            raise StoreFailed(f"the store could not be written: {error}") from error
        self._reserved_in_batch = blocks

    def _commit_without_ballast(self) -> None:
        """The disk is full. Give up the ballast, and write the batch again into the space that it took."""
        if self._connection.in_transaction:
            self._execute("ROLLBACK")
        self._ballast.give_up()
        # A log that was copied starts from its beginning, and then the batch may need no space at all.
        self._wait_for_checkpoint()
        copy_log(self._connection)
        self._execute("BEGIN IMMEDIATE")
        for effects in self._batch:
            self._write(effects)
        self._execute("COMMIT")

    def _on_log_grown(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        try:
            self._is_checkpoint_behind = copy_log(self._checkpoints)
        except apsw.Error as error:
            # A disk that does not take the database will not be trusted with the log: the next commit says so.
            self._checkpoint_error = error
        finally:
            self._checkpoint_thread = None

    def _wait_for_checkpoint(self) -> None:
        thread = self._checkpoint_thread
        if thread is not None:
            thread.join()

    def has_room(self) -> bool:
        return self._ballast.has_room()

    def free_bytes(self) -> int:
        """The free space of the disk."""
        return self._ballast.free_bytes()

    @_alone
    def sweep(self) -> Swept | None:
        if self._batch:
            return Swept({}) if self._garbage.is_left else None
        if self.log.sweep():
            return Swept({})
        try:
            if self._garbage.is_left:
                return Swept(self._garbage.sweep())
            is_space_wanted = self._ballast.is_space_low or self.gives_back_space
            return Swept({}) if is_space_wanted and self._give_back_pages() else None
        except apsw.FullError:
            # There will be work again when there is space to write down that it was done.
            return None
        except apsw.Error as error:
            raise StoreFailed(f"the store could not be swept: {error}") from error

    def _give_back_pages(self) -> bool:
        """A disk that messages filled has room again when they are gone."""
        if self._connection.pragma("freelist_count"):
            self._execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
            self._is_file_too_long = True
        if not self._is_file_too_long:
            return False
        # The file becomes shorter when the log is copied; another copy may be under way just now.
        self._is_file_too_long = not copy_log(self._connection)
        return True

    # --- reading --------------------------------------------------------------------------------------------

    @_alone
    def read(self, query: Query) -> None:
        if self.read_events(query):
            return
        try:
            self._reader.read(query)
        except apsw.Error as error:
            raise StoreFailed(f"the store could not be read: {error}") from error


def _runs(rows: list[int]) -> list[tuple[int, int]]:
    """Rows as ranges without gaps: messages are mostly consumed in the order in which they lie."""
    rows = sorted(rows)
    runs: list[tuple[int, int]] = []
    first = last = rows[0]
    for row in rows:
        if row > last + 1:
            runs.append((first, last))
            first = row
        last = row
    runs.append((first, last))
    return runs


def _lock(directory: Path) -> TextIO:
    """Two brokers on one directory would each trust their own memory."""
    file = (directory / LOCK_NAME).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise StoreError(
            f"{directory} is in use by another broker: stop it, or choose another data directory"
        ) from None
    return file
