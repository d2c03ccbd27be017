"""Connections to the database of a store, with the settings that all of them have."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import apsw

from tandem.store.schema import format_of

__all__ = ["connect", "copy_log"]

# Bytes. A tree of larger pages is rebuilt less often while messages go, and each takes longer to write: with 16 KiB the
# second costs more than the first saves.
_PAGE_BYTES: Final = 8_192

# Bytes. A log that a slow disk made longer than this is cut when it starts from its beginning again.
_KEPT_LOG_BYTES: Final = 67_108_864


def connect(path: Path, *, vfs: str | None = None) -> apsw.Connection:
    """A connection with the settings that all of ours have. A database that is not ours is left as it is."""
    with contextlib.ExitStack() as opened:
        # Without a mutex: SQLite would take it for each column of each row, and each connection is used by one thread
        # at a time in any case.
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
        connection = opened.enter_context(contextlib.closing(apsw.Connection(str(path), vfs=vfs, flags=flags)))
        connection.set_busy_timeout(5_000)
        format_of(connection)
        # Pages that hold some messages of 1 KB, and pages of messages that are gone can be given back to the disk. Both
        # count when the file is made.
        connection.pragma("page_size", _PAGE_BYTES)
        connection.pragma("auto_vacuum", "incremental")
        connection.pragma("journal_mode", "wal")
        connection.pragma("journal_size_limit", _KEPT_LOG_BYTES)
        connection.pragma("synchronous", "FULL")
        # 64 MiB of pages: what was sent a moment ago is mostly still in them when it is received.
        connection.pragma("cache_size", -65_536)
        # Nothing reaches the log before the commit, so that only a commit can find the disk full.
        connection.pragma("cache_spill", 0)
        connection.pragma("temp_store", "memory")
        connection.wal_autocheckpoint(0)
        opened.pop_all()
    return connection


def copy_log(connection: apsw.Connection) -> bool:
    """Copy the log into the database. Whether all of it was: a full disk is no failure, the log stays."""
    try:
        pages, copied_pages = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except (apsw.FullError, apsw.BusyError):
        return False
    return pages == copied_pages
