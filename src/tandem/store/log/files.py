"""The few things that an event log asks of a file system, so that a test can put one in between that fails."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

__all__ = ["Bytes", "DiskFiles", "Files", "is_unreadable"]

Bytes: TypeAlias = bytes | bytearray | memoryview | mmap.mmap

# Pieces of one call of writev: IOV_MAX of Linux.
_MAX_PIECES: Final = 1_024

# A file, or a part of it, that cannot be read. Whatever else goes wrong is a problem of this process.
_UNREADABLE: Final = (errno.ENOENT, errno.EIO, errno.EISDIR, errno.ENOTDIR)


def is_unreadable(error: OSError) -> bool:
    """Whether an error says that what was to be read is not there, or that the disk cannot read it."""
    return error.errno in _UNREADABLE


class Files(Protocol):
    """Whatever changes files. OSError says that it did not work. What is read is read past it."""

    def make_folder(self, path: Path) -> None:
        """With those above it, each as durable as its name in the one above."""

    def open(self, path: Path) -> int:
        """A descriptor to write and read with. The file is made if there is none."""

    def write(self, descriptor: int, position: int, pieces: Sequence[Bytes]) -> None:
        """All of it, one piece behind the other."""

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        """What lies behind is gone."""

    def sync(self, descriptor: int) -> None:
        """What was written survives a crash when this returns."""

    def close(self, descriptor: int) -> None:
        """Without syncing."""

    def rename(self, source: Path, target: Path) -> None:
        """In place of what has the name already."""

    def sync_folder(self, path: Path) -> None:
        """The names in it survive a crash when this returns."""

    def unlink(self, path: Path) -> None:
        """Not an error if it is gone."""

    def remove_folder(self, path: Path) -> None:
        """An empty one. Not an error if it is gone."""


class DiskFiles:
    """The real ones."""

    def make_folder(self, path: Path) -> None:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            self.sync_folder(folder.parent)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, descriptor: int, position: int, pieces: Sequence[Bytes]) -> None:
        for start in range(0, len(pieces), _MAX_PIECES):
            portion = list(pieces[start : start + _MAX_PIECES])
            while portion:
                written = os.pwritev(descriptor, portion, position)
                position += written
                while portion and written >= len(portion[0]):
                    written -= len(portion.pop(0))
                if written:
                    portion[0] = memoryview(portion[0])[written:]

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        os.ftruncate(descriptor, size_bytes)

    def sync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def sync_folder(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        if path.exists():
            path.rmdir()
