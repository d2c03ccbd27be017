"""Open the database of a data directory: find damage before anything is served, and salvage what is intact.

    before SQLite opens it   the header of the database, and the write-ahead log against the record of commits
    with SQLite              every description is read, and the number of the last commit is compared with the record
    a suspect                a file that a running broker left when it read something damaged

Whatever is found is salvaged (store.salvage) and reported. The rest of the pages are verified when they are read.
"""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from zlib import crc32

import apsw

from tandem.errors import StoreError
from tandem.store.checksums import PAGE_CHECKSUM_BYTES, checksum_vfs, content_checksum
from tandem.store.commit_record import COMMITS_NAME, CommitRecord, RecordFile, read_record
from tandem.store.connection import PAGE_BYTES, connect, copy_log, has_page_checksums, is_damage, keep_log_on_close
from tandem.store.damage import Damage
from tandem.store.quarantine import SUSPECT_NAME, copy_aside, sync_folder
from tandem.store.salvage import finish_interrupted, page_bytes_of, salvage
from tandem.store.schema import format_of, migrate
from tandem.store.wal import pages_in_log, read_log_header

__all__ = ["DATABASE_NAME", "OpenedDatabase", "find_damage", "open_database", "suspect"]

logger = logging.getLogger(__name__)

DATABASE_NAME: Final = "messages.db"

# The format that has checksums and counts its commits.
_COUNTING_FORMAT: Final = 5

# Pages that the log could hold: a damaged header may state any number of pages.
_MAX_MISSING_PAGES: Final = 10_000_000

# Rows that get a checksum in one transaction.
_CONVERTED_ROWS: Final = 2_000

# Small tables, which are read from end to end: what of them is damaged is found at the start.
_PROBES: Final = (
    "SELECT count(*) FROM queue WHERE NOT json_valid(fields)",
    "SELECT count(*) FROM rule WHERE NOT json_valid(fields)",
    "SELECT count(*) FROM hub WHERE NOT json_valid(fields)",
    "SELECT count(*) FROM setting WHERE length(value) < 0",
    "SELECT count(*) FROM garbage WHERE stream < 0",
    "SELECT count(*) FROM stream WHERE next_sequence_number < 0",
)


class OpenedDatabase(NamedTuple):
    """A database that is open, its record of commits, and the damage that was found and mended."""

    connection: apsw.Connection
    record: RecordFile
    damages: list[Damage]
    has_page_checksums: bool


class _Damaged(Exception):
    """The database must be salvaged."""


def open_database(directory: Path, vfs: str | None = None) -> OpenedDatabase:
    """Open the database of a data directory; what is damaged of it is salvaged first."""
    database = directory / DATABASE_NAME
    finish_interrupted(database)
    record, damages = read_record(directory)
    if damages:
        copy_aside(directory, [directory / COMMITS_NAME], damages)
    with contextlib.ExitStack() as opened:
        why = find_damage(directory, record)
        connection: apsw.Connection | None = None
        if why is None:
            try:
                connection = _open(database, vfs, record)
            except _Damaged as error:
                why = str(error)
        if connection is None:
            logger.warning("%s: %s; what is intact is copied into a new database", database, why)
            damages += salvage(database, record, why or "")
            connection = _open(database, vfs, None)
        opened.enter_context(contextlib.closing(connection))
        if record is None and not damages and _is_older_than(connection, 1):
            damages.append(_missing_record(directory))
        (directory / SUSPECT_NAME).unlink(missing_ok=True)
        file = RecordFile(directory, _record_of(connection, record, is_salvaged=why is not None))
        opened.pop_all()
    return OpenedDatabase(connection, file, damages, has_page_checksums(connection))


def _is_older_than(connection: apsw.Connection, commits: int) -> bool:
    return _commits(connection) >= commits


def _commits(connection: apsw.Connection) -> int:
    commits: int = connection.execute("SELECT commits FROM commit_count").get or 0
    return commits


def _missing_record(directory: Path) -> Damage:
    damage = Damage(f"the file '{COMMITS_NAME}'", "it is missing: whether the last commits are all there is not known")
    copy_aside(directory, [], [damage])
    return damage


def _record_of(connection: apsw.Connection, record: CommitRecord | None, *, is_salvaged: bool) -> CommitRecord:
    found = connection.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0")
    roots = {cast("str", name): cast("int", root) for name, root in found}
    return replace(
        CommitRecord() if record is None or is_salvaged else record,
        commits=_commits(connection),
        has_page_checksums=has_page_checksums(connection),
        roots=roots,
    )


def suspect(directory: Path, why: str) -> None:
    """Remember that something damaged was read, so that the next opening salvages."""
    with contextlib.suppress(OSError):
        (directory / SUSPECT_NAME).write_text(why, encoding="utf-8")


# --- before SQLite opens it -------------------------------------------------------------------------------------


def find_damage(directory: Path, record: CommitRecord | None) -> str | None:
    """Return what is wrong with the files as far as it can be told without SQLite; None if nothing is."""
    database = directory / DATABASE_NAME
    log = directory / f"{DATABASE_NAME}-wal"
    is_missing = not database.exists() or not database.stat().st_size
    if record is not None and is_missing:
        return _explain_missing(database, log, record)
    if (directory / SUSPECT_NAME).exists() and not is_missing:
        text = (directory / SUSPECT_NAME).read_text(encoding="utf-8", errors="replace")
        return text or "damaged data was read"
    if record is None:
        return None
    header = page_bytes_of(database)
    if header is None:
        return "the header of the database is damaged"
    if record.has_page_checksums and header != (PAGE_BYTES, PAGE_CHECKSUM_BYTES):
        return "the header of the database is damaged"
    if not record.has_page_checksums and checksum_vfs() is not None and header[1] == PAGE_CHECKSUM_BYTES:
        return "the pages were written by a build of apsw without checksums"
    return _complaint_about_size(database, log) or _complaint_about_log(log, record)


def _explain_missing(database: Path, log: Path, record: CommitRecord) -> str | None:
    if log.exists() and log.stat().st_size > PAGE_BYTES:
        return "the database file is missing; the write-ahead log is there"
    if not record.commits:
        # Nothing was ever acknowledged.
        return None
    raise StoreError(
        f"{database} is missing or empty, and {database.parent / COMMITS_NAME} says that {record.commits:,} commits "
        "were acknowledged: restore the database from a backup, or, to begin with an empty store, move the whole data "
        "directory away"
    )


def _complaint_about_size(database: Path, log: Path) -> str | None:
    """Return whether the database was cut. SQLite takes what it cannot read behind the end of a file for zeros."""
    with database.open("rb") as file:
        page_count = int.from_bytes(file.read(32)[28:32], "big")
    whole_pages, rest_bytes = divmod(database.stat().st_size, PAGE_BYTES)
    if whole_pages >= page_count and not rest_bytes:
        return None
    # A loss of power while the log was copied leaves a short file, too. All that is missing is still in the log then.
    missing = range(whole_pages + 1, max(page_count, whole_pages + bool(rest_bytes)) + 1)
    if len(missing) <= _MAX_MISSING_PAGES and pages_in_log(log, PAGE_BYTES).issuperset(missing):
        return None
    return "the database file was cut"


def _complaint_about_log(log: Path, record: CommitRecord) -> str | None:
    if not record.log_frames:
        return None
    header = read_log_header(log)
    if header is None:
        return "the write-ahead log is missing, or its header is damaged"
    if (header.sequence, header.salts[0]) == (record.log_sequence, record.log_salt):
        needed_bytes = 32 + record.log_frames * (PAGE_BYTES + 24)
        return "the write-ahead log was cut" if log.stat().st_size < needed_bytes else None
    if header.sequence > record.log_sequence:
        return None
    return "the write-ahead log is not the one that was written last"


# --- with SQLite ------------------------------------------------------------------------------------------------


def _open(database: Path, vfs: str | None, record: CommitRecord | None) -> apsw.Connection:
    """Open a database and bring it to the present format. _Damaged if a part of it cannot be read."""
    connection: apsw.Connection | None = None
    is_counting = record is not None
    try:
        connection = connect(database, vfs=vfs)
        version = format_of(connection)
        is_counting = is_counting or version >= _COUNTING_FORMAT
        # Before anything is written: of a log that is damaged, SQLite overwrites what follows the damage.
        if record is not None and (version < _COUNTING_FORMAT or _commits(connection) < record.commits):
            raise _Damaged("the write-ahead log ends too early, or the database is older than its record of commits")
        migrate(connection)
        if not has_page_checksums(connection) and checksum_vfs() is not None:
            connection = _with_page_checksums(connection, database, vfs)
        for probe in _PROBES:
            if connection.execute(probe).get:
                raise _Damaged("a description is not readable")
    except apsw.Error as error:
        if connection is not None:
            connection.close()
        # A store of an older format has nothing to salvage with.
        if is_counting and is_damage(error):
            raise _Damaged(f"the database is damaged: {error}") from error
        raise
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def _with_page_checksums(connection: apsw.Connection, database: Path, vfs: str | None) -> apsw.Connection:
    """Give every row and every page a checksum: the database is written anew, beside the old one, which it replaces."""
    if not connection.execute("SELECT count(*) FROM (SELECT 1 FROM message LIMIT 1)").get:
        logger.debug("%s gets checksums", database)
    else:
        logger.warning("%s is brought to the present format: all of it is written anew with checksums", database)
    _add_content_checksums(connection)
    new = database.with_name(f"{database.name}.new")
    new.unlink(missing_ok=True)
    connection.pragma("page_size", PAGE_BYTES)
    connection.reserve_bytes(reserve=PAGE_CHECKSUM_BYTES)
    connection.execute("VACUUM INTO ?", (str(new),))
    descriptor = os.open(new, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    keep_log_on_close(connection, is_kept=False)
    connection.close()
    new.rename(database)
    sync_folder(database.parent)
    return connect(database, vfs=vfs)


def _add_content_checksums(connection: apsw.Connection) -> None:
    functions: dict[str, tuple[Any, int]] = {"content_checksum": (content_checksum, 4), "crc32": (crc32, 1)}
    for name, (function, argument_count) in functions.items():
        connection.create_scalar_function(name, function, argument_count)
    columns = "header, delivery_annotations, message_annotations, bare"
    for table, key, value, condition in (
        ("message", "row", f"content_checksum({columns})", "header IS NOT NULL"),
        ("body", "number", f"content_checksum({columns})", "TRUE"),
        ("session", "rowid", "crc32(state)", "state IS NOT NULL"),
    ):
        last = -(1 << 63)
        while True:
            keys = [
                found
                for (found,) in connection.execute(
                    f"SELECT {key} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT ?",  # noqa: S608 # constants
                    (last, _CONVERTED_ROWS),
                )
            ]
            if not keys:
                break
            with connection:
                connection.execute(
                    f"UPDATE {table} SET checksum = {value} "  # noqa: S608 # constants
                    f"WHERE {key} BETWEEN ? AND ? AND {condition}",
                    (keys[0], keys[-1]),
                )
            copy_log(connection)
            last = keys[-1]
