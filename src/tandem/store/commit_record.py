"""The durable count of commits, kept in a small file beside the database.

    DIR/commits     one file of 8 KiB, written in place

Each commit has a number, which the database keeps in its table `commit_count`. Once a commit is durable, the same
number goes into this file with one small write and without an fsync: that survives the end of the process, and after a
loss of power it may be behind the database, never ahead of it. A database that is behind this file has lost commits.

The file also says how much of the write-ahead log the database still needs, so that a missing log is noticed, and where
the tables begin, so that they are found when the first page of the database is damaged. There are two copies of each
part. One that is damaged is replaced with the other, and reported.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from zlib import crc32

from tandem.errors import StoreFailed
from tandem.store.damage import Damage
from tandem.store.quarantine import sync_folder

__all__ = ["COMMITS_NAME", "CommitRecord", "RecordFile", "read_record"]

COMMITS_NAME: Final = "commits"

_MAGIC: Final = b"TndmCmts"
_COUNTS: Final = struct.Struct(">8sQIIII")
_CHECKSUM: Final = struct.Struct(">I")
_COUNTS_BYTES: Final = _COUNTS.size + _CHECKSUM.size

# Where the copies are: in different sectors of a disk, and the roots in different blocks of a file system.
_COUNTS_AT: Final = (0, 512)
_ROOTS_AT: Final = (2_048, 5_120)
_ROOTS_HEAD: Final = struct.Struct(">II")
_MAX_ROOTS_BYTES: Final = 3_072 - _ROOTS_HEAD.size
_FILE_BYTES: Final = 8_192

_HAS_PAGE_CHECKSUMS: Final = 1


@dataclass(frozen=True)
class CommitRecord:
    """What the file says about the store.

    commits         the number of the last durable commit
    log_sequence    the checkpoint sequence number in the header of the write-ahead log
    log_salt        the first salt in that header
    log_frames      how many frames of that log the database still needs; 0 if it needs none
    """

    commits: int = 0
    log_sequence: int = 0
    log_salt: int = 0
    log_frames: int = 0
    has_page_checksums: bool = True
    # The root pages of tables and indexes, by name.
    roots: dict[str, int] = field(default_factory=dict)

    def encode_counts(self) -> bytes:
        flags = _HAS_PAGE_CHECKSUMS if self.has_page_checksums else 0
        encoded = _COUNTS.pack(_MAGIC, self.commits, self.log_sequence, self.log_salt, self.log_frames, flags)
        return encoded + _CHECKSUM.pack(crc32(encoded))

    def encode_roots(self) -> bytes:
        encoded = json.dumps(self.roots).encode()
        assert len(encoded) <= _MAX_ROOTS_BYTES, "the schema has too many tables for the file of commits"
        return _ROOTS_HEAD.pack(len(encoded), crc32(encoded)) + encoded


def _decode_counts(copy: bytes) -> CommitRecord | None:
    if len(copy) < _COUNTS_BYTES or crc32(copy[: _COUNTS.size]) != _CHECKSUM.unpack_from(copy, _COUNTS.size)[0]:
        return None
    magic, commits, sequence, salt, frames, flags = _COUNTS.unpack_from(copy)
    if magic != _MAGIC:
        return None
    return CommitRecord(commits, sequence, salt, frames, bool(flags & _HAS_PAGE_CHECKSUMS))


def _decode_roots(copy: bytes) -> dict[str, int] | None:
    if len(copy) < _ROOTS_HEAD.size:
        return None
    size_bytes, checksum = _ROOTS_HEAD.unpack_from(copy)
    encoded = copy[_ROOTS_HEAD.size : _ROOTS_HEAD.size + size_bytes]
    if size_bytes == 0 or len(encoded) != size_bytes or crc32(encoded) != checksum:
        return None
    roots: dict[str, int] = json.loads(encoded)
    return roots


def read_record(directory: Path) -> tuple[CommitRecord | None, list[Damage]]:
    """Return what the file says, and its damage. None if there is no file, or none of its counts is intact."""
    path = directory / COMMITS_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None, []
    copies = [_decode_counts(content[at : at + _COUNTS_BYTES]) for at in _COUNTS_AT]
    counts = [one for one in copies if one is not None]
    roots = [found for at in _ROOTS_AT if (found := _decode_roots(content[at : at + 3_072])) is not None]
    unit = f"the file '{COMMITS_NAME}'"
    if not counts:
        text = "its count of commits is damaged: whether the last commits are all there is not known"
        return None, [Damage(unit, text)]
    damages: list[Damage] = []
    if len(content) < _FILE_BYTES or len(counts) < len(_COUNTS_AT) or len(roots) < len(_ROOTS_AT):
        damages.append(Damage(unit, "a part of it is damaged, and was replaced with its second copy"))
    # A process may end between the two copies.
    newest = max(counts, key=lambda one: one.commits)
    return replace(newest, roots=roots[0] if roots else {}), damages


class RecordFile:
    """The file of a store that is open."""

    def __init__(self, directory: Path, record: CommitRecord) -> None:
        self.record = record
        path = directory / COMMITS_NAME
        is_new = not path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            content = bytearray(_FILE_BYTES)
            for at in _COUNTS_AT:
                content[at : at + _COUNTS_BYTES] = record.encode_counts()
            roots = record.encode_roots()
            for at in _ROOTS_AT:
                content[at : at + len(roots)] = roots
            os.pwrite(self._descriptor, content, 0)
            os.fsync(self._descriptor)
            if is_new:
                sync_folder(directory)
        except OSError:
            os.close(self._descriptor)
            raise

    def keep(self, record: CommitRecord) -> None:
        """Write the counts without an fsync. The roots stay as they are."""
        self.record = record
        encoded = record.encode_counts()
        try:
            os.pwrite(self._descriptor, encoded.ljust(_COUNTS_AT[1], b"\0") + encoded, 0)
        except OSError as error:
            raise StoreFailed(f"the file {COMMITS_NAME} could not be written: {error}") from error

    def sync(self) -> None:
        with contextlib.suppress(OSError):
            # Behind is allowed: the next start finds the database ahead of it.
            os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)
