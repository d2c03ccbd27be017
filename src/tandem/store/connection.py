"""Connections to the database of a store, with the settings that all of them have."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import apsw

from tandem.store.checksums import PAGE_CHECKSUM_BYTES, checksum_vfs
from tandem.store.schema import format_of

__all__ = ["PAGE_BYTES", "connect", "copy_log", "has_page_checksums", "is_damage", "keep_log_on_close"]

# Bytes. A tree of larger pages is rebuilt less often while messages go, and each takes longer to write: with 16 KiB the
# second costs more than the first saves.
PAGE_BYTES: Final = 8_192

# Bytes. A log that a slow disk made longer than this is cut when it starts from its beginning again.
_KEPT_LOG_BYTES: Final = 67_108_864

_DAMAGE_RESULTS: Final = frozenset({apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS, apsw.SQLITE_IOERR_SHORT_READ})


def connect(path: Path, *, vfs: str | None = None) -> apsw.Connection:
    """A connection with the settings that all of ours have. A database that is not ours is left as it is."""
    is_new = not path.exists() or not path.stat().st_size
    with contextlib.ExitStack() as opened:
        # Without a mutex: SQLite would take it for each column of each row, and each connection is used by one thread
        # at a time in any case.
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
        vfs = vfs or checksum_vfs()
        connection = opened.enter_context(contextlib.closing(apsw.Connection(str(path), vfs=vfs, flags=flags)))
        connection.set_busy_timeout(5_000)
        keep_log_on_close(connection, is_kept=True)
        if is_new:
            # Pages that hold some messages of 1 KB with room for a checksum, and pages of messages that are gone can be
            # given back to the disk. Of a file that is there, the last of these would write a page into the log: and if
            # the log is damaged, over what follows the damage.
            if checksum_vfs() is not None:
                connection.reserve_bytes(reserve=PAGE_CHECKSUM_BYTES)
            connection.pragma("page_size", PAGE_BYTES)
            connection.pragma("auto_vacuum", "incremental")
        format_of(connection)
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


def keep_log_on_close(connection: apsw.Connection, *, is_kept: bool) -> None:
    """Choose whether the last connection to a database copies and deletes its log, damaged or not."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(is_kept))


def is_damage(error: apsw.Error) -> bool:
    """Whether an error says that what is on disk is damaged, unlike a disk that is full or fails."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return True
    return getattr(error, "extendedresult", 0) in _DAMAGE_RESULTS


def has_page_checksums(connection: apsw.Connection) -> bool:
    """Whether the VFS verifies the pages of the database."""
    # A text; None without the VFS.
    return str(connection.pragma("checksum_verification")) == "1"


def copy_log(connection: apsw.Connection) -> bool:
    """Copy the log into the database. Whether all of it was: a full disk is no failure, the log stays."""
    try:
        pages, copied_pages = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except (apsw.FullError, apsw.BusyError):
        return False
    return pages == copied_pages
