"""Messages in one SQLite database, through apsw.

`synchronous=FULL` and a write-ahead log: a commit is one append and one fsync of the log, whatever it holds. The log
is copied into the database in the background by a second connection; the writing one only finishes what that left.
A batch becomes few statements: messages that came are one executemany, messages that went are deleted by ranges.

Every commit has a number, which is also kept beside the database (store.commit_record). Data that turns out to be
damaged raises StoreDamaged: opening the store again salvages it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

import apsw
import msgspec

from tandem.engine.effects import Effects, PutSetting, StreamChange
from tandem.engine.message import Admission
from tandem.engine.queries import Query
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.errors import StoreDamaged, StoreError, StoreFailed
from tandem.limits import BALLAST_BYTES
from tandem.store.ballast import Ballast
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
from tandem.store.changes import Changes
from tandem.store.commit_record import CommitRecord
from tandem.store.connection import connect, copy_log, is_damage, keep_log_on_close
from tandem.store.directory_lock import LOCK_NAME, DirectoryUse, lock_directory
from tandem.store.events import StoredEvents
from tandem.store.garbage import Garbage
from tandem.store.log.event_log import EventLog
from tandem.store.log.files import DiskFiles, Files
from tandem.store.log.journal.journal import JournalFull
from tandem.store.log.log_limits import LogLimits
from tandem.store.opening import DATABASE_NAME, open_database, suspect
from tandem.store.progress import ANY_PROGRESS, progress_key, read_progress
from tandem.store.reader import Reader
from tandem.store.rows import (
    ALL_COLUMNS,
    Row,
    all_columns,
    body_columns,
    copy_columns,
)
from tandem.store.session_counts import count_by_session
from tandem.store.wal import LogHead

__all__ = ["DATABASE_NAME", "LOCK_NAME", "LOG_NAME", "SqliteStore"]

LOG_NAME: Final = "hubs"

# Pages of the write-ahead log after which it is copied into the database: 32 MiB.
_CHECKPOINT_PAGES: Final = 4_096

# Free pages that are given back to the disk at once.
_VACUUM_PAGES: Final = 2_000

_INSERT: Final = f"INSERT INTO message({ALL_COLUMNS}) VALUES ({', '.join('?' * 19)})"  # noqa: S608 # constants
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
_INSERT_BODY: Final = "INSERT INTO body VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RELEASE: Final = """
UPDATE body SET copies = copies - ?2 WHERE number = ?1 RETURNING number, copies, stream, size_bytes
"""
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

    __slots__ = ("corrections", "duplicates", "refused", "shared_bytes")

    def __init__(self) -> None:
        self.corrections: dict[int, StreamChange] = {}
        self.duplicates: set[int] = set()
        self.refused: set[Admission] = set()
        self.shared_bytes: dict[int, int] = {}


class SqliteStore:
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
                self._directory_lock = opened.enter_context(contextlib.ExitStack())
                self._directory_lock.enter_context(lock_directory(directory, DirectoryUse.BROKER))
                self._directory = directory
                database = open_database(directory, vfs)
                self._connection = opened.enter_context(contextlib.closing(database.connection))
                self._record = opened.enter_context(contextlib.closing(database.record))
                self.has_page_checksums = database.has_page_checksums
                # What was found damaged while opening, and mended.
                self.damages = database.damages
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
        self._is_damaged = False
        self.events = StoredEvents(self.log)
        # Sweeping gives the space of messages that are gone back to the disk, though the disk is not full.
        self.gives_back_space = False
        self._batch: list[Effects] = []
        # Numbers of events that are reserved by the transaction of the batch.
        self._reserved_in_batch: dict[int, list[int]] = {}
        self._log_head = LogHead(directory / f"{DATABASE_NAME}-wal")
        self._log_pages = 0
        self._checkpoint_thread: threading.Thread | None = None
        self._checkpoint_error: apsw.Error | None = None
        self._is_checkpoint_behind = False
        self._connection.set_wal_hook(self._on_log_grown)
        self._reader = Reader(self._connection)
        self._changes = Changes(
            self._connection, self._reader, self._garbage, self.events.dropped_hubs, self.log.name_hub
        )

    # --- start and end --------------------------------------------------------------------------------------

    @_alone
    def recover(self) -> Recovered:
        try:
            return self._recover()
        except apsw.Error as error:
            raise self._failed("the store could not be recovered", error) from error

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
        progress = [
            read_progress(name, value)
            for name, value in self._execute("SELECT name, value FROM setting WHERE name GLOB ?", (ANY_PROGRESS,))
        ]
        return Recovered(
            queues, streams, rules, last_body_number, hubs, int(dropped or 0), log, sorted(progress, key=progress_key)
        )

    @_alone
    def read_entities(self, numbers: Collection[int]) -> Entities:
        try:
            return self._entities(sorted(numbers))
        except apsw.Error as error:
            raise self._failed("entities could not be read from the store", error) from error

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
                self._count_commit()
        except apsw.Error as error:
            raise self._failed(f"the setting {name} could not be kept", error) from error
        self._keep_record()

    def close(self) -> None:
        self.log.close()
        self._wait_for_checkpoint()
        self._connection.set_wal_hook(None)
        # If one of these fails: what was committed is in the log, and the next start reads it from there.
        with contextlib.suppress(apsw.Error):
            self._checkpoints.close()
        with contextlib.suppress(apsw.Error):
            if not self._is_damaged and copy_log(self._connection):
                # Nothing of the log is needed any more: only now may it be missing.
                self._record.keep(replace(self._record.record, log_frames=0))
                self._record.sync()
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                keep_log_on_close(self._connection, is_kept=False)
        with contextlib.suppress(apsw.Error):
            self._connection.close()
        self._record.close()
        self._log_head.close()
        self._directory_lock.close()

    # --- damage ---------------------------------------------------------------------------------------------

    def _failed(self, what: str, error: apsw.Error) -> StoreFailed:
        """Return what an error of SQLite means: the disk fails, or what is on it is damaged."""
        if not is_damage(error):
            return StoreFailed(f"{what}: {error}")
        return self.damaged(f"{what}: {error}")

    def damaged(self, what: str) -> StoreDamaged:
        """Leave the files as they are from now on, and have the next opening salvage them."""
        self._is_damaged = True
        suspect(self._directory, what)
        return StoreDamaged(what)

    def _count_commit(self) -> None:
        """Give the commit that follows its number."""
        self._execute("UPDATE commit_count SET commits = ? WHERE id = 1", (self._record.record.commits + 1,))

    def _keep_record(self) -> None:
        """The commit is durable: remember its number beside the database."""
        record = self._record.record
        sequence, salt = self._log_head.read()
        self._record.keep(CommitRecord(record.commits + 1, sequence, salt, self._log_pages, self.has_page_checksums))

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
            raise self._failed("the store could not be written", error) from error
        except StoreDamaged as error:
            raise self.damaged(str(error)) from error
        return Written(written.duplicates, written.shared_bytes)

    def _write(self, effects: Effects) -> _Written:
        written = _Written()
        if effects.admissions:
            self._admit(effects.admissions, written)
        if effects.appended:
            self._append(effects, written)
        for entry in effects.changes:
            self._changes.write(entry)
        if effects.removed:
            self._connection.executemany("DELETE FROM message WHERE row BETWEEN ? AND ?", _runs(effects.removed))
        if effects.released:
            self._release(effects.released, written.shared_bytes)
        streams = effects.streams
        corrections = written.corrections
        for stream, by_bytes in written.shared_bytes.items():
            if stream not in self._garbage:
                corrections.setdefault(stream, StreamChange()).size_bytes += by_bytes
        for stream in streams.keys() | corrections.keys():
            self._count(stream, streams.get(stream), corrections.get(stream))
        return written

    def _admit(self, admissions: list[Admission], written: _Written) -> None:
        for admission in admissions:
            if not self._is_new(admission.keys, admission.at_ms):
                written.refused.add(admission)

    def _append(self, effects: Effects, written: _Written) -> None:
        rows: list[Row] = []
        corrections = written.corrections
        copies: dict[int, int] = {}
        for message in effects.appended:
            if (message.admission is not None and message.admission in written.refused) or (
                message.duplicate_keys is not None
                and not self._is_new(message.duplicate_keys, message.enqueued_time_ms)
            ):
                written.duplicates.add(message.row)
                # The engine has counted it.
                corrections.setdefault(message.stream, StreamChange()).add(message, -1)
                continue
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

    def _count(self, stream: int, decided: StreamChange | None, corrections: StreamChange | None) -> None:
        if stream in self._garbage:
            # Something that was under way when the queue was deleted.
            self._garbage.add(stream)
            return
        one = decided or StreamChange()
        two = corrections or StreamChange()
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
                self._changes.drop_empty_session(stream, session_id)

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
                self._count_commit()
                self._execute("COMMIT")
            except apsw.FullError:
                self._commit_without_ballast()
            self._keep_record()
            if self._is_checkpoint_behind:
                # The background has copied nearly all: finish, so that the log starts from its beginning again.
                self._is_checkpoint_behind = False
                if copy_log(self._connection):
                    self._log_pages = 0
                    self._checkpoint_at_pages = self._checkpoint_pages
        except apsw.Error as error:
            raise self._failed("the store could not be committed, nothing more is acknowledged", error) from error
        self._batch.clear()
        self._changes.clear()
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
            raise self._failed("the store could not be written", error) from error
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
        self._count_commit()
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
            raise self._failed("the store could not be swept", error) from error

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
        if self.events.read(query):
            return
        try:
            self._reader.read(query)
        except apsw.Error as error:
            raise self._failed("the store could not be read", error) from error
        except StoreDamaged as error:
            raise self.damaged(str(error)) from error


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
