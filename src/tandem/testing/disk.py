"""A disk that fails on purpose: full, with syncs that fail or take their time, or without power from one moment on.

It stands between SQLite and the files, and writes through to them, so that everything is real but the failure. What
was written and not synced is remembered; when the power is lost each sector of it survives or not, as the seed wills.

    with FaultyDisk(directory, seed=7) as disk:
        store = SqliteStore(directory, vfs=disk.name, free_bytes=disk.free_bytes)
        disk.lose_power_after(5)
        ...                            # StoreFailed, somewhere
        store.close()
        disk.restore_power()           # what the next start finds
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

import apsw

from tandem.store.checksums import checksum_vfs

__all__ = ["FaultyDisk"]

# Bytes. What a disk writes whole or not at all.
SECTOR_BYTES: Final = 512

_numbers = itertools.count(1)


class _SyncFailed(apsw.IOError):
    """What SQLite is told when an fsync fails."""

    extendedresult = apsw.SQLITE_IOERR_FSYNC


class _Unsynced(NamedTuple):
    """One write or, with `new` None, one truncation that may not survive."""

    offset: int
    old: bytes
    new: bytes | None
    old_size_bytes: int


class FaultyDisk(apsw.VFS):
    """The disk below one directory. `name` is what SQLite knows it by.

    capacity_bytes      files cannot grow beyond this in total; None is no limit
    are_syncs_failing   syncs fail, as on a disk that is dying
    failing_suffix      those of files whose names end like this
    sync_delay_s        how long each sync takes longer
    sync_count          how many syncs succeeded
    """

    def __init__(self, directory: Path, *, seed: int = 0, capacity_bytes: int | None = None) -> None:
        self.name = f"faulty-disk-{next(_numbers)}"
        # Above the checksums of pages: what it writes through gets them.
        super().__init__(self.name, base=_base())
        self.capacity_bytes = capacity_bytes
        self.are_syncs_failing = False
        self.failing_suffix = ""
        self.sync_delay_s = 0.0
        self.sync_count = 0
        self._directory = directory
        self._random = random.Random(seed)  # noqa: S311 # repeatable, nothing is secret
        self._unsynced: dict[str, list[_Unsynced]] = {}
        self._operations_left: int | None = None
        self.has_power = True
        # The writing connection and the one that copies the log are in different threads.
        self._mutex = threading.RLock()

    def __enter__(self) -> FaultyDisk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unregister()

    # --- failures -------------------------------------------------------------------------------------------

    def free_bytes(self) -> int:
        """The free space, as a store asks for it."""
        if self.capacity_bytes is None:
            return 1 << 40
        used = sum(path.stat().st_size for path in self._directory.rglob("*") if path.is_file())
        return max(0, self.capacity_bytes - used)

    def lose_power_after(self, operations: int) -> None:
        """Writes, syncs, truncations and deletions from now on: the last one of these may or may not have happened."""
        self._operations_left = operations

    def restore_power(self) -> None:
        """Leave in the files what survived. Every connection must be closed."""
        with self._mutex:
            for path, unsynced in self._unsynced.items():
                file = Path(path)
                if file.exists():
                    file.write_bytes(self._survived(bytearray(file.read_bytes()), unsynced))
            self._unsynced.clear()
            for file in self._directory.rglob("*-shm"):
                # Shared memory, kept in a file.
                file.unlink()
            self.has_power = True
            self._operations_left = None

    def _survived(self, image: bytearray, unsynced: list[_Unsynced]) -> bytes:
        for one in reversed(unsynced):
            if one.new is None:
                image += one.old
            else:
                image[one.offset : one.offset + len(one.old)] = one.old
                del image[one.old_size_bytes :]
        # Nothing, a random half, or everything: each teaches something of its own.
        probability = self._random.choice((0.0, 0.5, 0.9, 1.0))
        for one in unsynced:
            for start, piece in _sectors(one):
                if self._random.random() >= probability:
                    continue
                if piece is None:
                    del image[start:]
                else:
                    image.extend(bytes(max(0, start - len(image))))
                    image[start : start + len(piece)] = piece
        return bytes(image)

    # --- what SQLite calls ----------------------------------------------------------------------------------

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 # SQLite's name
        if name is None:
            return super().xOpen(name, flags)
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 # SQLite's name
        with self._mutex:
            self.operate()
            super().xDelete(filename, syncdir)
            self._unsynced.pop(filename, None)

    def excepthook(
        self, etype: type[BaseException] | None, evalue: BaseException | None, etraceback: TracebackType | None
    ) -> bool:
        """Errors that SQLite has nobody to tell are what was asked for."""
        return True

    # --- what its files call --------------------------------------------------------------------------------

    @property
    def mutex(self) -> threading.RLock:
        return self._mutex

    def operate(self) -> bool:
        """One operation. False if it is the last: the power goes during it."""
        if not self.has_power:
            raise apsw.IOError("the disk has no power")
        if self._operations_left is None:
            return True
        self._operations_left -= 1
        self.has_power = self._operations_left > 0
        return self.has_power

    def require_space(self, growth_bytes: int) -> None:
        if growth_bytes > 0 and self.capacity_bytes is not None and growth_bytes > self.free_bytes():
            raise apsw.FullError(f"the disk is full: {growth_bytes} bytes more than {self.free_bytes()} free")

    def remember(self, path: str, unsynced: _Unsynced) -> None:
        self._unsynced.setdefault(path, []).append(unsynced)

    def synced(self, path: str) -> None:
        self._unsynced.pop(path, None)
        self.sync_count += 1

    def does_last_sync_succeed(self) -> bool:
        return self._random.random() < 0.5


class _File(apsw.VFSFile):
    """One file on it."""

    def __init__(self, disk: FaultyDisk, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__(_base(), name, flags)
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 # SQLite's name
        disk = self._disk
        with disk.mutex:
            has_power = disk.operate()
            size_bytes = self.xFileSize()
            disk.require_space(offset + len(data) - size_bytes)
            old_bytes = max(0, min(len(data), size_bytes - offset))
            old = self.xRead(old_bytes, offset).ljust(old_bytes, b"\0") if old_bytes else b""
            super().xWrite(data, offset)
            # Not `data`: the checksums are made on the way to the file.
            with Path(self._path).open("rb") as file:
                file.seek(offset)
                new = file.read(len(data))
            disk.remember(self._path, _Unsynced(offset, old, new, size_bytes))
            if not has_power:
                raise apsw.IOError("the power was lost during a write")

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 # SQLite's name
        disk = self._disk
        with disk.mutex:
            has_power = disk.operate()
            size_bytes = self.xFileSize()
            if newsize < size_bytes:
                cut_bytes = size_bytes - newsize
                old = self.xRead(cut_bytes, newsize).ljust(cut_bytes, b"\0")
                disk.remember(self._path, _Unsynced(newsize, old, None, size_bytes))
            super().xTruncate(newsize)
            if not has_power:
                raise apsw.IOError("the power was lost during a truncation")

    def xSync(self, flags: int) -> None:  # noqa: N802 # SQLite's name
        disk = self._disk
        if disk.sync_delay_s:
            time.sleep(disk.sync_delay_s)
        with disk.mutex:
            has_power = disk.operate()
            if disk.are_syncs_failing and self._path.endswith(disk.failing_suffix):
                raise _SyncFailed("the disk could not be synced")
            if has_power or disk.does_last_sync_succeed():
                super().xSync(flags)
                disk.synced(self._path)
            if not has_power:
                raise apsw.IOError("the power was lost during a sync")

    def excepthook(
        self, etype: type[BaseException] | None, evalue: BaseException | None, etraceback: TracebackType | None
    ) -> bool:
        """As that of the disk."""
        return True


def _base() -> str:
    return checksum_vfs() or ""


def _sectors(one: _Unsynced) -> Iterator[tuple[int, bytes | None]]:
    """A write in pieces that survive or not, each by itself."""
    if one.new is None:
        yield one.offset, None
        return
    start = one.offset
    end = one.offset + len(one.new)
    while start < end:
        stop = min(end, start - start % SECTOR_BYTES + SECTOR_BYTES)
        yield start, one.new[start - one.offset : stop - one.offset]
        start = stop
