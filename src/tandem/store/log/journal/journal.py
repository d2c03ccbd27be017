"""What is young: one journal for the partitions of all hubs, so that one fsync is enough for everybody.

Frames are gathered on the event loop, where their places are decided, and written by `write` in another thread with
one call and one sync. The journal is a row of files; a new one is begun when the last is full. A file is deleted when
no frame in it is needed any more: its owner counts them.

A frame that is damaged is skipped, and what lies behind it is read. Only at the end of the last file is what cannot be
read a write that a crash tore, unless something says that it was on disk: a later frame, or the marks. A damaged file
is neither cut nor written to any more, and is moved aside when it would be deleted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tandem.errors import StateError, StoreFailed
from tandem.store.log.damage_log import DamageLog, EventsDamaged
from tandem.store.log.files import Bytes, Files, is_unreadable
from tandem.store.log.journal.frames import (
    FORMAT_VERSION,
    HEADER_BYTES,
    MARKER,
    Frame,
    encode_header,
    frame_head,
    locate_frame,
    salt_of,
    version_of,
)
from tandem.store.log.journal.marks import JournalMark

__all__ = [
    "DAMAGED_NAME",
    "FileScan",
    "Found",
    "Journal",
    "JournalFile",
    "JournalFull",
    "Place",
    "journal_files",
    "journal_path",
    "scan_journal",
]

_SUFFIX: Final = ".journal"

# The folder beside that of the journal to which damaged files are moved when nothing needs them any more.
DAMAGED_NAME: Final = "damaged"

# Bytes. A payload that is larger is written from where it lies; smaller ones are copied into one piece, because a
# call with a few pieces is cheaper than one with thousands.
_LARGE_BYTES: Final = 16_384

# Bytes. What is given up of a file if the disk cannot read some of it.
_BLOCK_BYTES: Final = 4_096


class Place(NamedTuple):
    """Where a frame lies."""

    file_number: int
    position: int
    length: int


class Found(NamedTuple):
    """A frame that a scan found, in the content of its file."""

    place: Place
    frame: Frame
    buffer: Bytes


class JournalFile:
    """One file, open for as long as it exists."""

    __slots__ = ("descriptor", "is_damaged", "live_count", "marked_bytes", "number", "path", "salt", "size_bytes")

    def __init__(self, number: int, salt: int, path: Path, descriptor: int, size_bytes: int) -> None:
        self.number = number
        self.salt = salt
        self.path = path
        self.descriptor = descriptor
        self.size_bytes = size_bytes
        # Records of events in it that lie nowhere else.
        self.live_count = 0
        self.is_damaged = False
        # How long it once was, by its mark: more than it is now if it was cut off.
        self.marked_bytes = 0

    @property
    def mark(self) -> JournalMark:
        return JournalMark(self.number, self.salt, max(self.size_bytes, self.marked_bytes))


class JournalFull(StoreFailed):
    """There was no room. What was gathered can be written again."""


class Journal:
    """The files, and what is gathered for the last of them."""

    def __init__(self, folder: Path, files: Files, rotate_bytes: int, damages: DamageLog) -> None:
        self.folder = folder
        self._files = files
        self._rotate_bytes = rotate_bytes
        self._damages = damages
        self.files: dict[int, JournalFile] = {}
        self._last_number = 0
        self._salt = 0
        # Up to where the last file is on disk, and where the next frame will lie.
        self._synced = 0
        self._next_position = 0
        self._pieces: list[Bytes] = []
        self._small = bytearray()
        self._is_writing = False
        # Nothing is written behind damage.
        self._is_closed_off = False
        # Whether it was written by a version that keeps marks.
        self.expects_marks = False

    # --- gathering ------------------------------------------------------------------------------------------

    @property
    def has_gathered(self) -> bool:
        return self._next_position > self._synced

    @property
    def is_full(self) -> bool:
        """Whether the next frames belong into a new file."""
        return self._last_number == 0 or self._is_closed_off or self._synced >= self._rotate_bytes

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files.values())

    @property
    def last_number(self) -> int:
        return self._last_number

    @property
    def last_mark(self) -> JournalMark | None:
        """What is on disk of the last file."""
        file = self.files.get(self._last_number)
        return None if file is None else file.mark

    def rotate(self) -> None:
        """What is gathered from now on goes into a new file. Nothing may be gathered yet."""
        self._last_number += 1
        self._is_closed_off = False
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
        """A file that nothing needs any more. A crash may bring it back. A damaged one is moved aside."""
        del self.files[file.number]
        try:
            self._files.close(file.descriptor)
            if file.is_damaged:
                aside = self.folder.with_name(DAMAGED_NAME)
                self._files.make_folder(aside)
                self._files.rename(file.path, aside / file.path.name)
                self._files.sync_folder(aside)
            else:
                self._files.unlink(file.path)
        except OSError as error:
            raise StoreFailed(f"{file.path} could not be deleted: {error}") from error

    def close(self) -> None:
        for file in self.files.values():
            self._files.close(file.descriptor)
        self.files.clear()

    # --- reading --------------------------------------------------------------------------------------------

    def read(self, place: Place) -> tuple[bytes, Frame]:
        """A frame that was written, from any thread. EventsDamaged if it is not what was written."""
        file = self.files[place.file_number]
        try:
            buffer = os.pread(file.descriptor, place.length, place.position)
        except OSError as error:
            if not is_unreadable(error):
                raise
            buffer = b""
        frame = locate_frame(buffer, 0, file.salt)
        if frame is None:
            file.is_damaged = True
            raise EventsDamaged(f"the record at {place.position} of {file.path.name} is damaged")
        return buffer, frame

    @property
    def salts(self) -> dict[int, int]:
        return {number: file.salt for number, file in self.files.items()}

    def scan(self, marks: Mapping[int, JournalMark]) -> Iterator[Found]:
        """Open all files and go through their frames. What a crash left behind the last whole one is cut off."""
        self._last_number = max(marks, default=0)
        for scan in scan_journal(self.folder, marks, self._damages):
            if scan.is_torn_header:
                self._files.unlink(scan.path)
                continue
            self._last_number = max(self._last_number, scan.number)
            if scan.salt is None:
                # Nothing of it can be read. It stays, and is looked at again by the next start.
                self._is_closed_off = True
                continue
            self.expects_marks = self.expects_marks or scan.has_marks
            descriptor = self._files.open(scan.path)
            size_bytes = scan.path.stat().st_size
            file = self.files[scan.number] = JournalFile(scan.number, scan.salt, scan.path, descriptor, size_bytes)
            yield from scan.frames()
            file.is_damaged = self._is_closed_off = scan.is_damaged
            file.marked_bytes = scan.marked_bytes
            if scan.end < size_bytes and not scan.is_damaged:
                self._files.truncate(descriptor, scan.end)
                self._files.sync(descriptor)
                file.size_bytes = scan.end
            self._salt = scan.salt
            self._synced = self._next_position = file.size_bytes
        if self._last_number not in self.files:
            self._is_closed_off = True


class FileScan:
    """One file of the journal, gone through once. What is found wrong is reported on the way."""

    def __init__(self, path: Path, number: int, is_last: bool, mark: JournalMark | None, damages: DamageLog) -> None:
        self.path = path
        self.number = number
        self._is_last = is_last
        # What was on disk once. Nothing before this is a torn write.
        self.marked_bytes = 0 if mark is None else mark.size_bytes
        self._report: Callable[[str], None] = lambda what: damages.add_file(path, what)
        self.is_damaged = False
        # Where the frames end: what lies behind is a write that a crash tore, unless the file is damaged.
        self.end = HEADER_BYTES
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
            self.size_bytes = os.fstat(file.fileno()).st_size
        self.salt = salt_of(header, number)
        # Made, and never written to.
        self.is_torn_header = is_last and self.size_bytes <= HEADER_BYTES and self.marked_bytes <= HEADER_BYTES
        self.has_marks = self.salt is not None and version_of(header) == FORMAT_VERSION
        if self.salt is None and not self.is_torn_header:
            self.salt = None if mark is None else mark.salt
            self._fail("the header is damaged" + (", and with it the file cannot be read" if mark is None else ""))

    def _fail(self, what: str) -> None:
        self.is_damaged = True
        self._report(what)

    def frames(self) -> Generator[Found, None, None]:
        """The frames that are whole."""
        assert self.salt is not None
        if self.size_bytes > HEADER_BYTES:
            yield from self._scan(_content(self.path), self.salt)
        if self.end < self.marked_bytes and not self.is_damaged:
            self._fail(f"{self.marked_bytes} bytes were written, and only {self.end} are there")

    def _scan(self, buffer: bytes, salt: int) -> Generator[Found, None, None]:
        at = HEADER_BYTES
        while at < len(buffer):
            frame = locate_frame(buffer, at, salt)
            if frame is not None:
                yield Found(Place(self.number, at, frame.end - at), frame, buffer)
                at = self.end = frame.end
                continue
            found, is_behind_synced = _next_frame(buffer, at, salt)
            if self._is_last and at >= self.marked_bytes and not is_behind_synced:
                return
            self._fail(f"bytes {at} to {(found or len(buffer)) - 1} are damaged")
            if found is None:
                return
            at = found


def scan_journal(folder: Path, marks: Mapping[int, JournalMark], damages: DamageLog) -> Iterator[FileScan]:
    """All files, oldest first. The last one that was ever written is reported if it is missing: older ones may be."""
    numbers = journal_files(folder)
    for number in numbers:
        path = journal_path(folder, number)
        yield FileScan(path, number, number == numbers[-1], marks.get(number), damages)
    last = max(marks, default=0)
    if last and last not in numbers:
        damages.add_file(journal_path(folder, last), "the file is missing")


def journal_path(folder: Path, number: int) -> Path:
    return folder / f"{number:010d}{_SUFFIX}"


def journal_files(folder: Path) -> list[int]:
    """The numbers of the files, oldest first."""
    if not folder.exists():
        return []
    return sorted(int(path.stem) for path in folder.iterdir() if path.suffix == _SUFFIX and path.stem.isdecimal())


def _next_frame(buffer: bytes, at: int, salt: int) -> tuple[int | None, bool]:
    """Where the next whole frame lies, and whether it or a later one says that the file was on disk beyond `at`."""
    first: int | None = None
    candidate = buffer.find(MARKER, at + 1)
    while candidate >= 0:
        frame = locate_frame(buffer, candidate, salt)
        if frame is None:
            candidate = buffer.find(MARKER, candidate + 1)
            continue
        if first is None:
            first = candidate
        if frame.synced > at:
            return first, True
        candidate = buffer.find(MARKER, frame.end)
    return first, False


def _content(path: Path) -> bytes:
    """A whole file. Blocks that the disk cannot read are zeros: then their frames are damaged, and no others."""
    try:
        return path.read_bytes()
    except OSError as error:
        if not is_unreadable(error):
            raise
    content = bytearray()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for at in range(0, os.fstat(descriptor).st_size, _BLOCK_BYTES):
            try:
                content += os.pread(descriptor, _BLOCK_BYTES, at)
            except OSError as error:
                if not is_unreadable(error):
                    raise
                content += bytes(_BLOCK_BYTES)
    finally:
        os.close(descriptor)
    return bytes(content)
