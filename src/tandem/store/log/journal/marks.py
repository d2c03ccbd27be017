"""How far the log has come, kept outside of its folder: what notices that the folder, or the end of a file, is gone.

    file       slot, slot, ...         each of 64 bytes, the last four of which are the CRC-32 of those before
    HEADER     magic 8s · format version u16
    FREE       nothing
    JOURNAL    number of the file u64 · salt u32 · length that is on disk u64
    PARTITION  hub u64 · partition u16 · begin u64 · next u64 · last enqueued at, ms i64

All little-endian, each behind a byte that says which it is. A slot is written after the sync of what it says, and is
not synced itself: it survives the end of the process, lags behind after a power failure, and never says too much. So
it is a lower bound of what must be there. Every start writes the file anew, with free slots behind those in use.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tandem.store.log.files import Bytes, Files
from tandem.store.log.journal.frames import Position

__all__ = ["FoundMarks", "JournalMark", "Marks", "marks_path", "read_marks"]

logger = logging.getLogger(__name__)

SLOT_BYTES: Final = 64
FORMAT_VERSION: Final = 1

_MAGIC: Final = b"TANDEMHM"
_HEADER: Final = 0x48
_FREE: Final = 0x46
_JOURNAL: Final = 0x4A
_PARTITION: Final = 0x50

# A slot up to its CRC.
_HEADER_SLOT_START: Final = struct.Struct("<B8sH49x")
_FREE_SLOT_START: Final = struct.Struct("<B59x")
_JOURNAL_SLOT_START: Final = struct.Struct("<BQIQ39x")
_PARTITION_SLOT_START: Final = struct.Struct("<BQHQQq25x")

# Slots that are added at once: a block of the file system.
_GROWTH: Final = 64

_TEMPORARY_SUFFIX: Final = ".tmp"


class JournalMark(NamedTuple):
    """What is on disk of one file of the journal."""

    number: int
    salt: int
    size_bytes: int


class FoundMarks(NamedTuple):
    """What a start finds."""

    journal: dict[int, JournalMark]
    partitions: dict[tuple[int, int], Position]
    is_there: bool = False
    # What is wrong with the file, as sentences.
    faults: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.is_there and not self.faults


def marks_path(directory: Path) -> Path:
    """The marks of the log in this folder lie beside it."""
    return directory.with_name(directory.name + ".marks")


def _slot(start: bytes) -> bytes:
    return start + zlib.crc32(start).to_bytes(4, "little")


_FREE_SLOT: Final = _slot(_FREE_SLOT_START.pack(_FREE))
_HEADER_SLOT: Final = _slot(_HEADER_SLOT_START.pack(_HEADER, _MAGIC, FORMAT_VERSION))


def read_marks(path: Path) -> FoundMarks:
    """Read all slots that are whole."""
    if not path.exists():
        return FoundMarks({}, {})
    content = path.read_bytes()
    faults: list[str] = []
    if content[:SLOT_BYTES] != _HEADER_SLOT:
        faults.append("its header is damaged, or of another version")
    if len(content) % (_GROWTH * SLOT_BYTES) or not content:
        faults.append(f"it was cut off after {len(content)} bytes")
    found = FoundMarks({}, {}, True)
    damaged = 0
    for at in range(SLOT_BYTES, len(content) - SLOT_BYTES + 1, SLOT_BYTES):
        slot = content[at : at + SLOT_BYTES]
        kind = slot[0]
        if zlib.crc32(slot[:-4]).to_bytes(4, "little") != slot[-4:] or kind not in (_FREE, _JOURNAL, _PARTITION):
            damaged += 1
        elif kind == _JOURNAL:
            mark = JournalMark(*_JOURNAL_SLOT_START.unpack_from(slot)[1:])
            found.journal[mark.number] = mark
        elif kind == _PARTITION:
            position = Position(*_PARTITION_SLOT_START.unpack_from(slot)[1:])
            found.partitions[position.hub_number, position.partition_id] = position
    if damaged:
        faults.append(f"{damaged} of its slots are damaged")
    return found._replace(faults=tuple(faults))


class Marks:
    """The file, written by one log. What cannot be written is left out: the marks are a lower bound."""

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self._files = files
        self._descriptor: int | None = None
        # The file as it is to be: 64 bytes for each partition.
        self._content = bytearray()
        self._slots: dict[object, int] = {}
        self._free: list[int] = []

    def begin(self, journal: Iterable[JournalMark] = (), positions: Iterable[Position] = ()) -> None:
        """Begin a new file with these slots. A damaged one must have been set aside."""
        entries: list[tuple[object, bytes]] = [(mark.number, _journal_slot(mark)) for mark in journal]
        entries += [((one.hub_number, one.partition_id), _partition_slot(one)) for one in positions]
        self._content = bytearray(_HEADER_SLOT + b"".join([slot for _, slot in entries]))
        self._slots = {key: at for at, (key, _) in enumerate(entries, 1)}
        self._free = []
        self.close()
        try:
            self._grow()
        except OSError as error:
            logger.warning("%s could not be written: %s", self.path, error)

    def set_aside(self) -> None:
        """Keep the file, which is damaged, under another name."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        self._files.rename(self.path, aside)

    def note(self, journal: JournalMark | None, positions: Iterable[Position]) -> None:
        """Write what was just synced, without a sync."""
        slots: dict[int, bytes] = {}
        try:
            if not self._content:
                self.begin()
            if self._descriptor is None:
                self._save()
            if journal is not None:
                slots[self._slot_of(journal.number)] = _journal_slot(journal)
            for position in positions:
                key = (position.hub_number, position.partition_id)
                slots[self._slot_of(key)] = _partition_slot(position)
            self._write(slots)
        except OSError as error:
            logger.warning("%s could not be written: %s", self.path, error)

    def forget(self, keys: Iterable[object]) -> None:
        """Free the slots of files of the journal, by their numbers, and of partitions."""
        slots = {slot: _FREE_SLOT for key in keys if (slot := self._slots.pop(key, None)) is not None}
        try:
            self._write(slots)
        except OSError as error:
            logger.warning("%s could not be written: %s", self.path, error)
        self._free += slots

    def _slot_of(self, key: object) -> int:
        slot = self._slots.get(key)
        if slot is None:
            if not self._free:
                self._grow()
            slot = self._slots[key] = self._free.pop()
        return slot

    def _grow(self) -> None:
        """Add free slots. The whole file is written, under another name first: a crash must not leave half of it."""
        count = len(self._content) // SLOT_BYTES
        capacity = (count // _GROWTH + 1) * _GROWTH
        self._content += _FREE_SLOT * (capacity - count)
        self._free = list(range(capacity - 1, count - 1, -1))
        self._save()

    def _save(self) -> None:
        """Write the whole file."""
        self.close()
        temporary = self.path.with_name(self.path.name + _TEMPORARY_SUFFIX)
        descriptor = self._files.open(temporary)
        try:
            self._files.truncate(descriptor, 0)
            self._files.write(descriptor, 0, [self._content])
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)
        self._files.rename(temporary, self.path)
        self._files.sync_folder(self.path.parent)
        self._descriptor = self._files.open(self.path)

    def _write(self, slots: Mapping[int, bytes]) -> None:
        """Neighbours with one call."""
        if self._descriptor is None:
            return
        start, pieces = 0, list[Bytes]()
        for slot in sorted(slots):
            self._content[slot * SLOT_BYTES : (slot + 1) * SLOT_BYTES] = slots[slot]
            if start + len(pieces) != slot:
                if pieces:
                    self._files.write(self._descriptor, start * SLOT_BYTES, pieces)
                start, pieces = slot, []
            pieces.append(slots[slot])
        if pieces:
            self._files.write(self._descriptor, start * SLOT_BYTES, pieces)

    def close(self) -> None:
        if self._descriptor is not None:
            self._files.close(self._descriptor)
            self._descriptor = None


def _journal_slot(mark: JournalMark) -> bytes:
    return _slot(_JOURNAL_SLOT_START.pack(_JOURNAL, *mark))


def _partition_slot(position: Position) -> bytes:
    return _slot(_PARTITION_SLOT_START.pack(_PARTITION, *position))
