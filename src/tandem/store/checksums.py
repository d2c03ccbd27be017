"""Checksums of stored data.

pages     SQLite's checksum VFS, which apsw's wheels carry, keeps eight bytes at the end of each page of the database
          and verifies them with each read. A page of zeros has a valid checksum.
content   the bytes of large messages and shared bodies, and all session states, have a CRC-32 in a column of their own:
          what goes on in overflow pages could otherwise end in zeros. Small messages are whole in one page, and SQLite
          notices a page of a table that is all zeros. Without the VFS, all messages have one.
"""

from __future__ import annotations

import functools
from typing import Final
from zlib import crc32

import apsw

__all__ = ["PAGE_CHECKSUM_BYTES", "PageVerifier", "checked_bytes", "checksum_vfs", "content_checksum"]

_VFS_NAME: Final = "cksmvfs"

# Bytes at the end of each page that SQLite leaves to the VFS.
PAGE_CHECKSUM_BYTES: Final = 8


@functools.cache
def checksum_vfs() -> str | None:
    """Return the name of the VFS that keeps checksums of pages; None if this build of apsw has none."""
    default = apsw.vfs_names()[0]
    try:
        from apsw import sqlite_extra

        connection = apsw.Connection(":memory:")
        try:
            sqlite_extra.load(connection, "cksumvfs")
        finally:
            connection.close()
    except (ImportError, OSError, ValueError, apsw.Error):
        return None
    if _VFS_NAME not in apsw.vfs_names():
        return None
    # Loading made it the default of the process: other users of SQLite did not ask for that.
    apsw.set_default_vfs(default)
    return _VFS_NAME


@functools.cache
def checked_bytes() -> int:
    """Return from how many bytes on a message has a checksum of its own: less than what goes on in a second page."""
    return 4_096 if checksum_vfs() is not None else 0


class PageVerifier:
    """Verifies checksums of pages at the speed of C. Without the VFS every page passes."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:") if checksum_vfs() is not None else None

    @property
    def is_able(self) -> bool:
        return self._connection is not None

    def is_intact(self, page: bytes) -> bool:
        if self._connection is None:
            return True
        return bool(self._connection.execute("SELECT verify_checksum(?)", (page,)).get)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def content_checksum(
    header: bytes, delivery_annotations: bytes | None, message_annotations: bytes | None, bare: bytes
) -> int:
    """Return the checksum of the bytes of a message, which is never 0."""
    checksum = crc32(header)
    if delivery_annotations:
        checksum = crc32(delivery_annotations, checksum)
    if message_annotations:
        checksum = crc32(message_annotations, checksum)
    return crc32(bare, checksum) or 1
