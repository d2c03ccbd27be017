"""What is young: one journal for the partitions of all hubs, so that one fsync is enough for everybody.

Frames are gathered on the event loop, where their places are decided, and written by `write` in another thread with
one call and one sync. The journal is a row of files; a new one is begun when the last is full. A file is deleted when
no frame in it is needed any more: its owner counts them.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tandem.errors import StateError, StoreCorrupt, StoreFailed
from tandem.store.log.files import Bytes, Files
from tandem.store.log.frames import HEADER_BYTES, MARKER, Frame, encode_header, frame_head, locate_frame, salt_of

__all__ = [
    "Found",
    "Journal",
    "JournalFile",
    "JournalFull",
    "Place",
    "journal_files",
    "journal_path",
    "read_salt",
    "scan_file",
]

_SUFFIX: Final = ".journal"

# Bytes. A payload that is larger is written from where it lies; smaller ones are copied into one piece, because a
# call with a few pieces is cheaper than one with thousands.
_LARGE_BYTES: Final = 16_384


class Place(NamedTuple):
    """Where a frame lies."""

    file_number: int
    position: int
    length: int


class Found(NamedTuple):
    """A frame that a scan found. The buffer is valid until the scan goes on to the next file."""

    place: Place
    frame: Frame
    buffer: Bytes


class JournalFile:
    """One file, open for as long as it exists."""

    __slots__ = ("descriptor", "live_count", "number", "path", "salt", "size_bytes")

    def __init__(self, number: int, salt: int, path: Path, descriptor: int, size_bytes: int) -> None:
        self.number = number
        self.salt = salt
        self.path = path
        self.descriptor = descriptor
        self.size_bytes = size_bytes
        # Records of events in it that lie nowhere else.
        self.live_count = 0


class JournalFull(StoreFailed):
    """There was no room. What was gathered can be written again."""


class Journal:
    """The files, and what is gathered for the last of them."""

    def __init__(self, folder: Path, files: Files, rotate_bytes: int) -> None:
        self.folder = folder
        self._files = files
        self._rotate_bytes = rotate_bytes
        self.files: dict[int, JournalFile] = {}
        self._last_number = 0
        self._salt = 0
        # Up to where the last file is on disk, and where the next frame will lie.
        self._synced = 0
        self._next_position = 0
        self._pieces: list[Bytes] = []
        self._small = bytearray()
        self._is_writing = False

    # --- gathering ------------------------------------------------------------------------------------------

    @property
    def has_gathered(self) -> bool:
        return self._next_position > self._synced

    @property
    def is_full(self) -> bool:
        """Whether the next frames belong into a new file."""
        return self._last_number == 0 or self._synced >= self._rotate_bytes

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files.values())

    @property
    def last_number(self) -> int:
        return self._last_number

    def rotate(self) -> None:
        """What is gathered from now on goes into a new file. Nothing may be gathered yet."""
        self._last_number += 1
        self._salt = int.from_bytes(os.urandom(4), "big")
        # Its header is synced before a frame is written.
        self._synced = self._next_position = HEADER_BYTES

    def gather(self, kind: int, fixed: bytes, payload: bytes = b"") -> Place:
        if self._is_writing:
            raise StateError("nothing can be appended to the journal of event hubs while it is written")
        head = frame_head(self._salt, kind, self._synced, fixed, payload)
        length = len(head) + len(payload)
        place = Place(self._last_number, self._next_position, length)
        self._next_position += length
        self._small += head
        if len(payload) < _LARGE_BYTES:
            self._small += payload
        else:
            self._pieces += (self._small, payload)
            self._small = bytearray()
        return place

    # --- writing --------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write and sync what was gathered. StoreFailed is final, but for JournalFull: what is on disk is not known."""
        if not self.has_gathered:
            return
        pieces = [*self._pieces, self._small] if self._small else self._pieces
        self._is_writing = True
        try:
            file = self.files.get(self._last_number) or self._begin_file(self._last_number)
            self._files.write(file.descriptor, self._synced, pieces)
            self._files.sync(file.descriptor)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                # All of it is still here, and is written to the same place again if somebody makes room.
                self._is_writing = False
                raise JournalFull(
                    f"the disk is full: the journal of event hubs could not be written: {error}"
                ) from error
            raise StoreFailed(
                f"the journal of event hubs could not be written, nothing more is acknowledged: {error}"
            ) from error
        file.size_bytes = self._synced = self._next_position
        self._pieces = []
        self._small = bytearray()
        self._is_writing = False

    def _begin_file(self, number: int) -> JournalFile:
        path = journal_path(self.folder, number)
        if not self.files:
            self._files.make_folder(self.folder)
        descriptor = self._files.open(path)
        self._files.write(descriptor, 0, [encode_header(number, self._salt)])
        self._files.sync(descriptor)
        self._files.sync_folder(self.folder)
        file = self.files[number] = JournalFile(number, self._salt, path, descriptor, HEADER_BYTES)
        return file

    def release(self, file_numbers: list[int]) -> None:
        """Records in these files, one for each number, are not needed any more."""
        for number in file_numbers:
            self.files[number].live_count -= 1

    def delete(self, file: JournalFile) -> None:
        """A file that nothing needs any more. A crash may bring it back."""
        del self.files[file.number]
        try:
            self._files.close(file.descriptor)
            self._files.unlink(file.path)
        except OSError as error:
            raise StoreFailed(f"{file.path} could not be deleted: {error}") from error

    def close(self) -> None:
        for file in self.files.values():
            self._files.close(file.descriptor)
        self.files.clear()

    # --- reading --------------------------------------------------------------------------------------------

    def read(self, place: Place) -> tuple[bytes, Frame]:
        """A frame that was written, from any thread."""
        file = self.files[place.file_number]
        buffer = os.pread(file.descriptor, place.length, place.position)
        frame = locate_frame(buffer, 0, file.salt)
        if frame is None:
            raise StoreCorrupt(f"{file.path}: the record at {place.position} is damaged; run `tandem check`")
        return buffer, frame

    def scan(self) -> Iterator[Found]:
        """Open all files and go through their frames. What a crash left behind the last whole one is cut off."""
        numbers = journal_files(self.folder)
        if numbers and journal_path(self.folder, numbers[-1]).stat().st_size <= HEADER_BYTES:
            # Made, and never written to: its header may be torn.
            self._files.unlink(journal_path(self.folder, numbers.pop()))
        for number in numbers:
            path = journal_path(self.folder, number)
            self._salt = read_salt(path, number)
            descriptor = self._files.open(path)
            file = self.files[number] = JournalFile(number, self._salt, path, descriptor, path.stat().st_size)
            end = yield from scan_file(path, number, is_last=number == numbers[-1])
            if end < file.size_bytes:
                self._files.truncate(descriptor, end)
                self._files.sync(descriptor)
                file.size_bytes = end
            self._last_number = number
            self._synced = self._next_position = end


def journal_path(folder: Path, number: int) -> Path:
    return folder / f"{number:010d}{_SUFFIX}"


def journal_files(folder: Path) -> list[int]:
    """The numbers of the files, oldest first."""
    if not folder.exists():
        return []
    return sorted(int(path.stem) for path in folder.iterdir() if path.suffix == _SUFFIX and path.stem.isdecimal())


def read_salt(path: Path, number: int) -> int:
    with path.open("rb") as file:
        salt = salt_of(file.read(HEADER_BYTES), number)
    if salt is None:
        raise StoreCorrupt(f"{path}: the header is damaged, or of another format; run `tandem check`")
    return salt


def scan_file(path: Path, number: int, is_last: bool) -> Generator[Found, None, int]:
    """The frames of a file; returns where they end. StoreCorrupt names the file and the position of damage."""
    salt = read_salt(path, number)
    with _mapped(path) as buffer:
        at = HEADER_BYTES
        while at < len(buffer):
            frame = locate_frame(buffer, at, salt)
            if frame is None:
                if is_last and not _was_synced(buffer, at, salt):
                    return at
                raise StoreCorrupt(f"{path}: the record at {at} is damaged; run `tandem check`")
            yield Found(Place(number, at, frame.end - at), frame, buffer)
            at = frame.end
        return at


def _was_synced(buffer: mmap.mmap, at: int, salt: int) -> bool:
    """Whether a whole frame further on says that the file was on disk beyond this place."""
    candidate = buffer.find(MARKER, at + 1)
    while candidate >= 0:
        frame = locate_frame(buffer, candidate, salt)
        if frame is not None and frame.synced > at:
            return True
        candidate = buffer.find(MARKER, candidate + 1)
    return False


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
        yield buffer
