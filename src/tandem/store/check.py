"""Reads a store from end to end and says what contradicts what: the engine room of `tandem check`.

Nothing is written and nothing is migrated; the memory it takes does not depend on the number of messages, apart from
two integers for each body that messages share. The broker
must be stopped: a running one counts ahead of what is on disk.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from zlib import crc32

import apsw
import msgspec

from tandem.amqp.sections import locate
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.message import ACTIVE, DEFERRED, SCHEDULED, SEQUENCE_BITS, SEQUENCE_MASK
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.engine.rule import Rule
from tandem.engine.stored_description import description_of
from tandem.errors import DecodeError, StoreDamaged, StoreError, TandemError
from tandem.limits import MAX_FINDINGS
from tandem.store.base import LAST_DROPPED_HUB, RESERVED_EVENTS, StreamRecord
from tandem.store.checksums import PAGE_CHECKSUM_BYTES, PageVerifier, checksum_vfs
from tandem.store.commit_record import COMMITS_NAME, CommitRecord, read_record
from tandem.store.connection import PAGE_BYTES, is_damage
from tandem.store.directory_lock import DirectoryUse, lock_directory
from tandem.store.log.check import check_log
from tandem.store.opening import find_damage
from tandem.store.quarantine import read_reports
from tandem.store.rows import ALL_COLUMNS, BYTES_COLUMNS, Row, message_of, message_without_bytes, stored_of
from tandem.store.salvage import assess, committed_frames, page_bytes_of
from tandem.store.schema import FORMAT_VERSION, format_of
from tandem.store.sqlite import DATABASE_NAME, LOG_NAME
from tandem.store.wal import scan

__all__ = ["QueueReport", "Report", "check"]

# Messages between two calls of the progress callback.
_PROGRESS_MESSAGES: Final = 10_000

_STREAM_NAMES: Final = ("queue", "dead-letter queue", "transfer dead-letter queue", "spare stream")

_MISCOUNTED_BODIES: Final = """
SELECT number, body.copies, ifnull(counted.copies, 0) FROM body LEFT JOIN
    (SELECT body_number, count(*) AS copies FROM message WHERE body_number IS NOT NULL GROUP BY body_number) AS counted
    ON number = body_number
WHERE body.copies <> ifnull(counted.copies, 0)
"""

_DIFFERENCES: Final = """
SELECT count(*) FROM (
    SELECT * FROM (SELECT {columns} FROM {table} EXCEPT SELECT * FROM {table}_copy)
    UNION ALL SELECT * FROM (SELECT * FROM {table}_copy EXCEPT SELECT {columns} FROM {table})
)
"""

# What is being done, how much of it is done, and out of how much; 0 if nobody knows.
Progress = Callable[[str, int, int], None]


@dataclass
class QueueReport:
    """What one queue holds."""

    name: str
    number: int
    active_message_count: int = 0
    deferred_message_count: int = 0
    scheduled_message_count: int = 0
    dead_letter_message_count: int = 0
    transfer_dead_letter_message_count: int = 0
    session_count: int = 0
    size_bytes: int = 0


@dataclass
class Report:
    """What was found. A store without findings is sound."""

    format_version: int = 0
    message_count: int = 0
    size_bytes: int = 0
    session_count: int = 0
    duplicate_count: int = 0
    # Messages of deleted queues that are still to be deleted.
    garbage_message_count: int = 0
    queues: list[QueueReport] = field(default_factory=list)
    hub_count: int = 0
    event_count: int = 0
    event_size_bytes: int = 0
    # Segments of event hubs that an older version has written, without checksums of their events.
    unsummed_segment_count: int = 0
    findings: list[str] = field(default_factory=list)
    # What is worth knowing of a store that is sound.
    notes: list[str] = field(default_factory=list)
    # Damage that the broker found and salvaged: the folders of the damaged files are still there.
    earlier_damages: list[str] = field(default_factory=list)
    # Findings beyond those that are listed.
    unlisted_finding_count: int = 0

    @property
    def is_sound(self) -> bool:
        return not self.findings

    def add(self, finding: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)
        else:
            self.unlisted_finding_count += 1


def check(directory: Path, progress: Progress | None = None) -> Report:
    """Check the store of a data directory. StoreError if there is none, or if it is in use."""
    path = directory / DATABASE_NAME
    record, record_damages = read_record(directory)
    if record is None and not record_damages and not path.is_file():
        raise StoreError(f"{directory} holds no store: there is no {DATABASE_NAME} in it")
    report = Report()
    for one in record_damages:
        report.add(one.sentence)
    for earlier in read_reports(directory):
        report.earlier_damages += [f"{earlier.time} ({earlier.folder}): {one.sentence}" for one in earlier.damages]
    with contextlib.ExitStack() as opened:
        opened.enter_context(lock_directory(directory, DirectoryUse.CHECK))
        try:
            why = _check_files(directory, record, report, progress or _no_progress)
        except StoreError as error:
            # The database is missing.
            report.add(str(error))
            return report
        if why is not None:
            report.add(f"{why}: the next start of the broker salvages what is intact")
        else:
            why = _check_content(directory, record, report, progress or _no_progress)
        if why is not None:
            _assess(path, record, why, report)
    return report


def _check_files(directory: Path, record: CommitRecord | None, report: Report, progress: Progress) -> str | None:
    """Return what is wrong with the files of the database; None if nothing is."""
    path = directory / DATABASE_NAME
    log = directory / f"{DATABASE_NAME}-wal"
    why = find_damage(directory, record)
    if why is not None or record is None:
        return why
    progress("checksums of pages", 0, 0)
    wal = scan(log, PAGE_BYTES, committed_frames(log, record))
    if wal.damaged_frames or wal.missing_count:
        return "the write-ahead log is damaged"
    if not record.has_page_checksums or checksum_vfs() is None:
        report.notes.append("the pages of the database have no checksums: this build of apsw cannot make them")
        return None
    with contextlib.closing(PageVerifier()) as verifier, path.open("rb") as file:
        number = 0
        while page := file.read(PAGE_BYTES):
            number += 1
            # A loss of power may leave a page half copied; the log still has the whole of it then.
            if number not in wal.pages and not verifier.is_intact(page):
                return f"page {number} of the database is damaged"
    return None


def _check_content(directory: Path, record: CommitRecord | None, report: Report, progress: Progress) -> str | None:
    """Read everything. Return why the database cannot be read, if it cannot."""
    path = directory / DATABASE_NAME
    try:
        with contextlib.closing(
            apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=checksum_vfs())
        ) as connection:
            connection.pragma("query_only", True)
            connection.pragma("temp_store", "memory")
            report.format_version = format_of(connection)
            if report.format_version < FORMAT_VERSION:
                report.add(
                    f"the store has format {report.format_version} and was not looked into: start the broker once, "
                    f"which brings it to format {FORMAT_VERSION}"
                )
                return None
            # One transaction: all questions are about the same moment.
            with connection:
                check = _Check(connection, report, progress)
                check.run()
                commits: int = connection.execute("SELECT commits FROM commit_count").get
        _check_record(record, commits, report)
        _check_events(directory, check, report, progress)
        if check.is_damaged:
            return "the broker salvages what is intact as soon as it reads what is not"
    except apsw.ReadOnlyError:
        raise StoreError(f"{path} was left in the middle of being made: start the broker once") from None
    except apsw.Error as error:
        if not is_damage(error) or (record is None and isinstance(error, apsw.NotADBError)):
            raise StoreError(f"{path} cannot be read: {error}") from error
        why = f"the database is damaged: {error}"
        report.add(f"{why}: the next start of the broker salvages what is intact")
        return why
    return None


def _check_record(record: CommitRecord | None, commits: int, report: Report) -> None:
    if record is None and commits:
        report.add(f"the file '{COMMITS_NAME}' is missing: whether the last commits are all there is not known")
    elif record is not None and commits < record.commits:
        report.add(f"{record.commits:,} commits were acknowledged, and the database holds {commits:,}")


def _assess(path: Path, record: CommitRecord | None, why: str, report: Report) -> None:
    """Name what is damaged and what is lost, as the broker will at its next start. Nothing of the store is changed."""
    if record is None and page_bytes_of(path) != (PAGE_BYTES, PAGE_CHECKSUM_BYTES):
        # An older format.
        return
    with tempfile.TemporaryDirectory(prefix="tandem-check-") as scratch:
        for damage in assess(path, record, why, Path(scratch) / DATABASE_NAME):
            report.add(damage.sentence)


def _check_events(directory: Path, check: _Check, report: Report, progress: Progress) -> None:
    found = check_log(
        directory / LOG_NAME,
        check.hubs,
        progress,
        names=check.hub_names,
        reserved=check.reserved_events,
        last_dropped_hub=check.last_dropped_hub,
    )
    report.hub_count = len(check.hubs)
    report.event_count = found.event_count
    report.event_size_bytes = found.size_bytes
    report.unsummed_segment_count = found.unsummed_segment_count
    for finding in found.findings:
        report.add(finding)


def _no_progress(what: str, done: int, total: int) -> None:
    """Nobody watches."""


class _Tally:
    """What the messages of one stream add up to."""

    __slots__ = ("counts", "highest", "size_bytes")

    def __init__(self) -> None:
        self.counts = [0, 0, 0]
        self.size_bytes = 0
        self.highest = 0


class _Check:
    """One run."""

    def __init__(self, connection: apsw.Connection, report: Report, progress: Progress) -> None:
        self._connection = connection
        self._report = report
        self._progress = progress
        self._names: dict[int, str] = {}
        self._with_sessions: set[int] = set()
        self._by_number: dict[int, QueueReport] = {}
        self._garbage: set[int] = set()
        self._streams: dict[int, StreamRecord] = {}
        self._tallies: dict[int, _Tally] = {}
        # Something cannot be read as it was written: the salvage knows what that costs.
        self.is_damaged = False
        # Event hubs: how many partitions each has.
        self.hubs: dict[int, int] = {}
        self.hub_names: dict[int, str] = {}
        self.reserved_events: dict[int, list[int]] = {}
        self.last_dropped_hub = 0

    def run(self) -> None:
        if not self._check_database():
            return
        self._garbage = {stream for (stream,) in self._rows("SELECT stream FROM garbage")}
        self._streams = {
            record.stream: record for record in [StreamRecord(*row) for row in self._rows("SELECT * FROM stream")]
        }
        self._check_queues()
        self._check_rules()
        self._check_messages()
        self._check_bodies()
        self._check_sessions()
        self._check_streams()
        self._check_duplicates()
        self._check_hubs()
        for table in ("queue", "rule", "hub", "setting"):
            columns = "number, fields, created_at_ms, updated_at_ms, kind" if table == "queue" else "*"
            if next(self._rows(_DIFFERENCES.format(columns=columns, table=table)))[0]:
                self._report.add(f"the table '{table}' differs from its second copy")

    def _rows(self, statement: str, bindings: tuple[int | str, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Any: each statement has its own types."""
        return iter(self._connection.execute(statement, bindings))

    def _stream_name(self, stream: int) -> str:
        number, kind = divmod(stream, STREAMS_PER_QUEUE)
        name = self._names.get(number)
        of = f"queue {number}, which has no record" if name is None else f"queue '{name}'"
        return f"{_STREAM_NAMES[kind]} (stream {stream}) of {of}"

    def _check_database(self) -> bool:
        """Whether the file is sound as a database: otherwise nothing that it says means anything."""
        self._progress("database", 0, 0)
        for (finding,) in self._rows(f"PRAGMA integrity_check({MAX_FINDINGS})"):
            if finding != "ok":
                self.is_damaged = True
                self._report.add(f"the database is damaged: {finding}")
        return not self.is_damaged

    def _check_queues(self) -> None:
        names: Counter[str] = Counter()
        for number, kind, fields in self._rows("SELECT number, kind, fields FROM queue ORDER BY number"):
            try:
                description = description_of(kind, msgspec.json.decode(fields, type=dict[str, object]))
            except (msgspec.DecodeError, TandemError) as error:
                self._report.add(f"the description of queue {number} cannot be used: {error}")
                self._names[number] = str(number)
            else:
                self._names[number] = description.name
                names[description.name.lower()] += 1
                if description.requires_session:
                    self._with_sessions.add(number * STREAMS_PER_QUEUE)
            self._by_number[number] = QueueReport(self._names[number], number)
            first = number * STREAMS_PER_QUEUE
            for stream in sorted(self._garbage.intersection(range(first, first + STREAMS_PER_QUEUE))):
                self._report.add(f"the {self._stream_name(stream)} is to be deleted, but the queue exists")
        for name, count in names.items():
            if count > 1:
                self._report.add(f"{count} queues have the name '{name}'")
        self._report.queues = list(self._by_number.values())

    def _check_hubs(self) -> None:
        for number, fields in self._rows("SELECT number, fields FROM hub ORDER BY number"):
            try:
                description = EventHubDescription.from_fields(msgspec.json.decode(fields, type=dict[str, object]))
            except (msgspec.DecodeError, TandemError) as error:
                self._report.add(f"the description of hub {number} cannot be used: {error}")
            else:
                self.hubs[number] = description.partition_count
                self.hub_names[number] = description.name
        for name, value in self._rows(
            "SELECT name, value FROM setting WHERE name = ? OR name GLOB ?", (LAST_DROPPED_HUB, f"{RESERVED_EVENTS}*")
        ):
            if name == LAST_DROPPED_HUB:
                self.last_dropped_hub = int(value)
            else:
                self.reserved_events[int(name[len(RESERVED_EVENTS) :])] = msgspec.json.decode(value)

    # --- messages -------------------------------------------------------------------------------------------

    def _check_messages(self) -> None:
        total = sum(record.active + record.deferred + record.scheduled for record in self._streams.values())
        done = 0
        for row in self._rows(f"SELECT {ALL_COLUMNS} FROM message ORDER BY row"):  # noqa: S608 # a constant
            if done % _PROGRESS_MESSAGES == 0:
                self._progress("messages", done, max(total, done))
            done += 1
            key = cast("int", row[0])
            stream = key >> SEQUENCE_BITS
            if stream in self._garbage:
                self._report.garbage_message_count += 1
                continue
            tally = self._tallies.get(stream)
            if tally is None:
                tally = self._tallies[stream] = _Tally()
            tally.highest = key & SEQUENCE_MASK
            self._check_message(stream, row, tally)
        self._progress("messages", done, done)
        self._report.message_count = done - self._report.garbage_message_count

    def _check_message(self, stream: int, row: Row, tally: _Tally) -> None:
        wrong = _wrong_types(row)
        if wrong is not None:
            self._complain(stream, row, wrong)
            return
        try:
            message = message_of(row)
        except StoreDamaged as error:
            self._complain(stream, row, f"is damaged: {error}")
            message = message_without_bytes(row)
        if message.state not in {ACTIVE, DEFERRED, SCHEDULED}:
            self._complain(stream, row, f"has the unknown state {message.state}")
        else:
            tally.counts[message.state] += 1
        tally.size_bytes += message.held_bytes
        if (message.state == SCHEDULED) != bool(message.due_at_ms):
            self._complain(stream, row, f"has state {message.state} and is due at {message.due_at_ms}")
        if (stream in self._with_sessions) != (message.session_id is not None):
            has = "no session" if message.session_id is None else f"the session '{message.session_id}'"
            self._complain(stream, row, f"has {has}")
        if message.stored is None:
            return
        try:
            locate(message.stored.bare)
        except DecodeError as error:
            self._complain(stream, row, f"cannot be read: {error}")

    def _complain(self, stream: int, row: Row, what: str) -> None:
        number = cast("int", row[0]) & SEQUENCE_MASK
        self._report.add(f"message {number} in the {self._stream_name(stream)} {what}")

    def _check_bodies(self) -> None:
        """A shared body counts towards the size of its topic: so this is done before the streams."""
        self._progress("shared bodies", 0, 0)
        for number, copies, stream, size_bytes, front_bytes, *columns in self._rows(
            f"SELECT number, copies, stream, size_bytes, front_bytes, {BYTES_COLUMNS} FROM body"  # noqa: S608 # constants
        ):
            bare = columns[3]
            if stream not in self._garbage:
                self._tallies.setdefault(stream, _Tally()).size_bytes += size_bytes
            try:
                stored_of(tuple(columns))
                locate(bare)
            except (DecodeError, StoreDamaged) as error:
                # Which messages share it, the salvage knows.
                self.is_damaged = self.is_damaged or isinstance(error, StoreDamaged)
                self._report.add(f"the shared body {number} cannot be read: {error}")
            if not 0 <= front_bytes <= len(bare) or copies < 1:
                self._report.add(f"the shared body {number} has {copies} copies and {front_bytes} bytes before it")
        for number, copies, found in self._rows(_MISCOUNTED_BODIES):
            self._report.add(f"the shared body {number} counts {copies} copies and has {found}")
        for key, number in self._rows(
            "SELECT row, body_number FROM message WHERE body_number IS NOT NULL "
            "AND body_number NOT IN (SELECT number FROM body)"
        ):
            self._complain(key >> SEQUENCE_BITS, (key,), f"shares the body {number}, which is not there")

    def _check_rules(self) -> None:
        for number, name, fields in self._rows("SELECT queue, name, fields FROM rule ORDER BY queue, name"):
            if number not in self._by_number:
                self._report.add(f"the rule '{name}' is of subscription {number}, which has no record")
                continue
            try:
                Rule.from_fields(name, msgspec.json.decode(fields, type=dict[str, object]), 0)
            except (msgspec.DecodeError, TandemError) as error:
                self._report.add(f"the rule '{name}' of '{self._names[number]}' cannot be used: {error}")

    # --- counts ---------------------------------------------------------------------------------------------

    def _check_sessions(self) -> None:
        """Session states count towards the size of a stream: so this is done before the streams."""
        self._progress("sessions", 0, 0)
        for stream, session_id, active, state, checksum in self._rows(
            "SELECT stream, session_id, active, state, checksum FROM session"
        ):
            state_bytes = None if state is None else len(state)
            if stream in self._garbage:
                continue
            self._report.session_count += 1
            what = f"session '{session_id}' of the {self._stream_name(stream)}"
            queue = self._by_number.get(stream // STREAMS_PER_QUEUE)
            if state is not None and checksum is not None and checksum != crc32(state):
                self._report.add(f"the state of {what} has a wrong checksum")
            if queue is None:
                self._report.add(f"{what} has nobody who could accept it")
                continue
            queue.session_count += 1
            self._tallies.setdefault(stream, _Tally()).size_bytes += state_bytes or 0
            (counted,) = next(
                self._rows(
                    "SELECT count(*) FROM message WHERE row >> 44 = ? AND lower(session_id) = lower(?) "
                    "AND session_id IS NOT NULL AND state = 0",
                    (stream, session_id),
                )
            )
            if active != counted:
                self._report.add(f"{what} counts {active} active messages and has {counted}")
            if not active and state_bytes is None:
                self._report.add(f"{what} has neither messages nor a state, and should be gone")
        for stream, session_id in self._rows(
            "SELECT DISTINCT row >> 44, session_id FROM message WHERE session_id IS NOT NULL AND state = 0 "
            "AND NOT EXISTS (SELECT 1 FROM session AS known WHERE known.stream = row >> 44 "
            "AND lower(known.session_id) = lower(message.session_id))"
        ):
            if stream not in self._garbage:
                name = self._stream_name(stream)
                self._report.add(f"session '{session_id}' of the {name} has messages, and no record")

    def _check_streams(self) -> None:
        self._progress("counts", 0, 0)
        for stream in sorted(self._streams.keys() | self._tallies.keys()):
            number, kind = divmod(stream, STREAMS_PER_QUEUE)
            record = self._streams.get(stream)
            tally = self._tallies.get(stream) or _Tally()
            name = self._stream_name(stream)
            queue = self._by_number.get(number)
            if queue is None or kind == STREAMS_PER_QUEUE - 1:
                self._report.add(f"the {name} has {sum(tally.counts)} messages that nobody can receive")
            elif record is None:
                self._report.add(f"the {name} has {sum(tally.counts)} messages and no counts")
            else:
                self._compare(name, record, tally)
                _add_to(queue, kind, tally)
            # Dead letters keep the numbers that they had in the queue, whose counter makes them all.
            counter = self._streams.get(number * STREAMS_PER_QUEUE)
            next_number = 1 if counter is None else counter.next_sequence_number
            if queue is not None and tally.highest >= next_number:
                self._report.add(f"the {name} has a message {tally.highest}, and its next number is {next_number}")
        self._report.size_bytes = sum(queue.size_bytes for queue in self._report.queues)

    def _compare(self, name: str, record: StreamRecord, tally: _Tally) -> None:
        for what, recorded, counted in (
            ("active messages", record.active, tally.counts[ACTIVE]),
            ("deferred messages", record.deferred, tally.counts[DEFERRED]),
            ("scheduled messages", record.scheduled, tally.counts[SCHEDULED]),
            ("bytes", record.size_bytes, tally.size_bytes),
        ):
            if recorded != counted:
                self._report.add(f"the {name} counts {recorded} {what} and has {counted}")

    def _check_duplicates(self) -> None:
        for number, count in self._rows("SELECT queue, count(*) FROM duplicate GROUP BY queue"):
            if number in self._by_number:
                self._report.duplicate_count += count
            elif number * STREAMS_PER_QUEUE not in self._garbage:
                self._report.add(f"{count} message ids are remembered for queue {number}, which has no record")


def _add_to(queue: QueueReport, kind: int, tally: _Tally) -> None:
    queue.size_bytes += tally.size_bytes
    if kind == 0:
        queue.active_message_count = tally.counts[ACTIVE]
        queue.deferred_message_count = tally.counts[DEFERRED]
        queue.scheduled_message_count = tally.counts[SCHEDULED]
    elif kind == 1:
        queue.dead_letter_message_count = sum(tally.counts)
    else:
        queue.transfer_dead_letter_message_count = sum(tally.counts)


def _wrong_types(row: Row) -> str | None:
    """SQLite keeps whatever it is given in any column: a damaged value may be of another type."""
    header, bare = row[14], row[17]
    if not isinstance(bare, bytes) or not (isinstance(header, bytes) or (header is None and row[13] is not None)):
        return "has no bytes"
    for value in (row[1], row[2], row[3], row[8]):
        if not isinstance(value, int):
            return f"has {value!r:.80} where a number belongs"
    for entries in (row[15], row[16]):
        if entries is not None and (not isinstance(entries, bytes) or len(entries) < 4):
            return "has annotations that cannot be read"
    return None
