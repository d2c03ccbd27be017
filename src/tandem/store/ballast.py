"""Space on the disk that is kept for nothing, and given up when the disk is full.

So what was accepted can still be settled, and what settling frees is given back to the disk. Why it is there, and what
a full disk refuses, is in ADR 7.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tandem.limits import MIN_FREE_DISK_BYTES
from tandem.store.descriptors import with_descriptors

__all__ = ["Ballast"]

# Bytes. As much as the log may hold, so that it can be copied into the database and start from its beginning.
_BALLAST_NAME: Final = "ballast"


class Ballast:
    """The ballast of a data directory. `free_bytes` tells the free space of its disk, and is a parameter for tests."""

    def __init__(self, directory: Path, size_bytes: int, free_bytes: Callable[[], int] | None) -> None:
        self._directory = directory
        self._path = directory / _BALLAST_NAME
        self._size_bytes = size_bytes
        self.free_bytes: Callable[[], int] = free_bytes or self._statvfs
        # There was no room when somebody looked last.
        self.is_space_low = False
        self._is_there = self._make()

    def has_room(self) -> bool:
        """Whether there is space for new messages, with the ballast in its place again."""
        if not self._is_there:
            self._is_there = self._make()
        has_room = self._is_there and self.free_bytes() >= MIN_FREE_DISK_BYTES
        self.is_space_low = not has_room
        return has_room

    def give_up(self) -> None:
        self._is_there = False
        self.is_space_low = True
        self._path.unlink(missing_ok=True)

    def _make(self) -> bool:
        if not self._size_bytes:
            return True
        if self._path.exists() and self._path.stat().st_size == self._size_bytes:
            return True
        if self.free_bytes() < self._size_bytes + MIN_FREE_DISK_BYTES:
            return False
        try:
            with with_descriptors(lambda: self._path.open("wb")) as file:
                os.posix_fallocate(file.fileno(), 0, self._size_bytes)
        except OSError:
            self._path.unlink(missing_ok=True)
            return False
        return True

    def _statvfs(self) -> int:
        status = os.statvfs(self._directory)
        return status.f_bavail * status.f_frsize
