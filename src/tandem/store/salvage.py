"""Build a new database from everything that is intact in a damaged one.

The rows of all intact pages are copied into a fresh database; indexes, counts and sessions are computed from them. The
damaged files are moved into a folder of their own (store.quarantine), which also holds a report: which messages of
which entities are missing, and why. A crash at any moment leaves either the damaged files in their places, or a folder
from which `finish_interrupted` goes on.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import apsw

from tandem.errors import StoreError
from tandem.store.checksums import PageVerifier
from tandem.store.commit_record import CommitRecord, RecordFile, read_record
from tandem.store.connection import PAGE_BYTES, connect, copy_log, keep_log_on_close
from tandem.store.damage import Damage
from tandem.store.pages import PageReader, Tree, read_schema
from tandem.store.quarantine import SUSPECT_NAME, UNFINISHED_SUFFIX, new_folder, sync_folder, write_report
from tandem.store.rebuild import Rebuild
from tandem.store.rows import Row
from tandem.store.schema import FORMAT_VERSION, migrate
from tandem.store.wal import Wal, read_log_header, scan

__all__ = ["assess", "committed_frames", "finish_interrupted", "page_bytes_of", "salvage"]

_SALVAGING_NAME: Final = "salvaging.db"
_READY_NAME: Final = "ready.db"

# Bytes of rows that are written in one transaction.
_BATCH_BYTES: Final = 16_777_216


def salvage(database: Path, record: CommitRecord | None, why: str) -> list[Damage]:
    """Replace a damaged database with what is intact of it, and return what was found."""
    folder = new_folder(database.parent, UNFINISHED_SUFFIX)
    damages = assess(database, record, why, folder / _SALVAGING_NAME)
    write_report(folder, damages)
    (folder / _SALVAGING_NAME).rename(folder / _READY_NAME)
    _install(database, folder)
    return damages


def assess(database: Path, record: CommitRecord | None, why: str, new: Path) -> list[Damage]:
    """Build a new database from what is intact of a damaged one, which stays as it is, and return what was found."""
    log = database.with_name(f"{database.name}-wal")
    wal = scan(log, PAGE_BYTES, committed_frames(log, record))
    with contextlib.ExitStack() as opened:
        verifier = opened.enter_context(contextlib.closing(PageVerifier()))
        are_verified = record is None or record.has_page_checksums
        pages = opened.enter_context(
            contextlib.closing(PageReader(database, log, wal, verifier, PAGE_BYTES, are_verified=are_verified))
        )
        _require_known_format(pages)
        return _build(new, pages, wal, record, why)


def _require_known_format(pages: PageReader) -> None:
    first = pages.read(1)
    version = 0 if first is None else int.from_bytes(first[60:64], "big")
    if version > FORMAT_VERSION:
        raise StoreError(
            f"the store is damaged, and has format {version}: this Tandem can salvage formats up to {FORMAT_VERSION}, "
            "use a newer one"
        )


def committed_frames(log: Path, record: CommitRecord | None) -> int:
    """Return how many frames the log must hold, by the record of commits."""
    if record is None:
        return 0
    header = read_log_header(log)
    if header is not None and (header.sequence, header.salts[0]) != (record.log_sequence, record.log_salt):
        # It began anew, which it does only after all of its frames were copied into the database.
        return 0
    return record.log_frames


def _build(path: Path, pages: PageReader, wal: Wal, record: CommitRecord | None, why: str) -> list[Damage]:
    roots = read_schema(pages)
    if roots is None:
        roots = record.roots if record is not None else {}
    source = _Source(pages, roots)
    new = connect(path)
    try:
        migrate(new)
        rebuild = Rebuild(new, source, wal, record)
        _write_messages(new, rebuild)
        with new:
            rebuild.finish()
        for number in range(1, pages.page_count + 1):
            if number not in pages.unreadable:
                pages.read(number)
        damages = rebuild.damages(why)
        new.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        keep_log_on_close(new, is_kept=False)
    finally:
        new.close()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return damages


def _write_messages(new: apsw.Connection, rebuild: Rebuild) -> None:
    """Copy bodies and messages in transactions of a bounded size."""
    for statement, rows in ((rebuild.INSERT_BODY, rebuild.bodies()), (rebuild.INSERT_MESSAGE, rebuild.messages())):
        for batch in _batches(rows):
            with new:
                new.executemany(statement, batch)
            copy_log(new)


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size_bytes = 0
    for row in rows:
        batch.append(row)
        size_bytes += sum([len(column) for column in row if isinstance(column, bytes)]) + 100
        if size_bytes >= _BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


class _Source:
    """The tables of the damaged database."""

    def __init__(self, pages: PageReader, roots: dict[str, int]) -> None:
        self.pages = pages
        self._roots = roots

    def tree(self, name: str, *, is_table: bool, uses_older: bool = False) -> Tree:
        """Return a table, or an index or table without row ids. One whose root is not known is empty, with a gap."""
        return Tree(self.pages, self._roots.get(name, 0), is_table=is_table, uses_older=uses_older)


# --- replacing the files ----------------------------------------------------------------------------------------


def _install(database: Path, folder: Path) -> None:
    """Move the damaged files into the folder and the new database into their place."""
    directory = database.parent
    # The log first: SQLite would lay that of the old database over the new one.
    for suffix in ("-wal", "-shm", ""):
        path = database.with_name(database.name + suffix)
        kept = folder / path.name
        if path.exists() and not kept.exists():
            path.rename(kept)
    sync_folder(folder)
    record, _ = read_record(directory)
    if record is not None:
        # The new database has no log.
        RecordFile(directory, replace(record, log_frames=0)).close()
    (folder / _READY_NAME).rename(database)
    (directory / SUSPECT_NAME).unlink(missing_ok=True)
    sync_folder(directory)
    folder.rename(folder.with_name(folder.name.removesuffix(UNFINISHED_SUFFIX)))
    sync_folder(directory)


def finish_interrupted(database: Path) -> None:
    """Go on where a crash interrupted the replacement of damaged files."""
    for folder in sorted(database.parent.glob(f"*{UNFINISHED_SUFFIX}/")):
        if (folder / _READY_NAME).exists():
            _install(database, folder)
        elif any(folder.glob(f"{database.name}*")):
            # All was moved but the folder itself.
            folder.rename(folder.with_name(folder.name.removesuffix(UNFINISHED_SUFFIX)))
        else:
            # Nothing of the store was moved yet: only an unfinished copy is in it.
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def page_bytes_of(database: Path) -> tuple[int, int] | None:
    """Return the page size and the reserved bytes that the header of a database states; None if it has no header."""
    try:
        with database.open("rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        return None
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        return None
    (size,) = struct.unpack_from(">H", head, 16)
    return (65_536 if size == 1 else size), head[20]
