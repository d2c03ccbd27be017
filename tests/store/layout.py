"""Where on disk everything is that a store serves: what a fault in a file may cost, and what it may not.

    unit      a message, the state of a session, a description, an id of duplicate detection
    copy      the parts of files that all have to be intact for a unit to be read. Some units have two copies.
    version   of a page: in the database, or in a frame of the write-ahead log. The newest one counts.

A unit may be missing, or be an older one, only if the fault hits each of its copies. A message that is gone may be back
only if the fault hits the newest version of a page of which another version has it.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tandem.store.checksums import PageVerifier
from tandem.store.connection import PAGE_BYTES
from tandem.store.opening import DATABASE_NAME
from tandem.store.pages import Found, PageReader, Tree, _varint, read_schema
from tandem.store.rows import Row
from tandem.store.wal import scan
from tests.store.faults import Fault

__all__ = ["LOG_NAME", "Layout", "Unit", "find_layout"]

LOG_NAME: Final = f"{DATABASE_NAME}-wal"

LOG_HEADER_BYTES: Final = 32
FRAME_HEAD_BYTES: Final = 24
FRAME_BYTES: Final = FRAME_HEAD_BYTES + PAGE_BYTES

_LEAF_TABLE: Final = 13
# Rows of messages have a stream in their upper bits; those of all other tables are small numbers.
_FIRST_MESSAGE_ROW: Final = 1 << 44

# A kind, and what it is known by.
Unit = tuple[str, object]
# A file, and some bytes of it.
Place = tuple[str, int, int]

# Tables of which there is a second copy: both names, and whether they have row ids.
_PAIRS: Final = (
    ("queue", "queue", "queue_copy", True),
    ("rule", "rule", "rule_copy", False),
    ("setting", "setting", "setting_copy", False),
    ("duplicate", "duplicate", "duplicate_age", False),
)


@dataclass
class Layout:
    """Where the units of a data directory are."""

    # The copies of each.
    copies: dict[Unit, list[list[Place]]] = field(default_factory=lambda: defaultdict(list))
    # Frames of the log: where each starts, and of which page it is.
    frames: list[tuple[int, int]] = field(default_factory=list)
    # Where commits end in the log.
    commit_ends: list[int] = field(default_factory=list)
    # By page: the messages that any version of it has.
    messages_of_page: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def is_hit(self, fault: Fault, unit: Unit) -> bool:
        """Whether a fault hits all copies of a unit."""
        start = self._start(fault)
        return all(
            any(name == fault.file and begin < fault.end and end > start for name, begin, end in places)
            for places in self.copies.get(unit, [[]])
        )

    def revived(self, fault: Fault) -> set[int]:
        """Return the messages of which an older version may be served: those in pages whose newest version is hit."""
        if fault.file != LOG_NAME:
            return set()
        start = self._start(fault)
        newest = {page: at for at, page in self.frames}
        hit = [page for page, at in newest.items() if at < fault.end and at + FRAME_BYTES > start]
        return {row for page in hit for row in self.messages_of_page[page]}

    def _start(self, fault: Fault) -> int:
        """Return where the damage begins: of a commit that is cut, nothing is left."""
        if fault.file == LOG_NAME and fault.kind in {"cut", "missing"}:
            return max([end for end in self.commit_ends if end <= fault.start], default=0)
        return fault.start


class _PlaceFinder(Tree):
    """Remembers which pages each row was read from."""

    def __init__(self, pages: PageReader, root: int, *, is_table: bool) -> None:
        super().__init__(pages, root, is_table=is_table)
        self.found: list[tuple[Found, list[int]]] = []

    def _row(self, number: int, page: bytes, cell: int, kind: int) -> Any:
        asked: list[int] = []
        read = self._pages.read

        def remember(page_number: int) -> bytes | None:
            asked.append(page_number)
            return read(page_number)

        self._pages.read = remember  # type: ignore[assignment,method-assign]
        try:
            found: list[Found] = list(super()._row(number, page, cell, kind))
        finally:
            self._pages.read = read  # type: ignore[method-assign]
        self.found += [(one, [number, *asked]) for one in found]
        return found


class _Finder:
    """One directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = directory / LOG_NAME
        self._wal = scan(self._log, PAGE_BYTES, 0)
        self._verifier = PageVerifier()
        self._pages = PageReader(
            directory / DATABASE_NAME, self._log, self._wal, self._verifier, PAGE_BYTES, are_verified=True
        )
        roots = read_schema(self._pages)
        assert roots is not None
        self._roots = roots
        self.layout = Layout()

    def find(self) -> Layout:
        self._find_messages()
        for found, numbers in self._rows("session", is_table=True):
            self._add(("session", found.columns[1]), numbers)
        for kind, first, second, is_table in _PAIRS:
            for table in (first, second):
                for found, numbers in self._rows(table, is_table=is_table):
                    self._add((kind, _key(table, found)), numbers)
        self._find_versions()
        self._pages.close()
        self._verifier.close()
        return self.layout

    def _rows(self, table: str, *, is_table: bool) -> list[tuple[Found, list[int]]]:
        finder = _PlaceFinder(self._pages, self._roots[table], is_table=is_table)
        for _ in finder.rows():
            pass
        assert not finder.damaged
        return finder.found

    def _find_messages(self) -> None:
        bodies = {found.key: numbers for found, numbers in self._rows("body", is_table=True)}
        for found, numbers in self._rows("message", is_table=True):
            body_number = found.columns[17]
            shared = bodies[body_number] if isinstance(body_number, int) else []
            self._add(("message", found.key), [*numbers, *shared])

    def _add(self, unit: Unit, numbers: list[int]) -> None:
        self.layout.copies[unit].append([self._place(number) for number in numbers])

    def _place(self, number: int) -> Place:
        at = self._wal.pages.get(number)
        if at is None:
            return DATABASE_NAME, (number - 1) * PAGE_BYTES, number * PAGE_BYTES
        return LOG_NAME, at - FRAME_HEAD_BYTES, at + PAGE_BYTES

    def _find_versions(self) -> None:
        layout = self.layout
        database = (self._directory / DATABASE_NAME).read_bytes()
        for number in range(1, len(database) // PAGE_BYTES + 1):
            layout.messages_of_page[number] |= _messages_of(database[(number - 1) * PAGE_BYTES : number * PAGE_BYTES])
        log = self._log.read_bytes() if self._log.exists() else b""
        for at in range(LOG_HEADER_BYTES, len(log) - FRAME_BYTES + 1, FRAME_BYTES):
            if log[at + 8 : at + 16] != log[16:24]:
                # By its salts, this is what an earlier generation of the log has left.
                break
            number, commit_pages = struct.unpack_from(">2I", log, at)
            layout.frames.append((at, number))
            layout.messages_of_page[number] |= _messages_of(log[at + FRAME_HEAD_BYTES : at + FRAME_BYTES])
            if commit_pages:
                layout.commit_ends.append(at + FRAME_BYTES)


def _key(table: str, found: Found) -> object:
    columns: Row = found.columns
    if table.startswith("queue"):
        return found.key
    if table.startswith("setting"):
        return columns[0]
    # The index has the time between the two.
    return (columns[0], columns[2]) if table == "duplicate_age" else (columns[0], columns[1])


def _messages_of(page: bytes) -> set[int]:
    """Return the rows of messages in a page; none if it is of another kind."""
    if page[0] != _LEAF_TABLE:
        return set()
    rows: set[int] = set()
    (count,) = struct.unpack_from(">H", page, 3)
    for (cell,) in struct.iter_unpack(">H", page[8 : 8 + 2 * count]):
        _, at = _varint(page, cell)
        row, _ = _varint(page, at)
        if row >= _FIRST_MESSAGE_ROW:
            rows.add(row)
    return rows


def find_layout(directory: Path) -> Layout:
    """Find out where everything is in a directory that is intact."""
    return _Finder(directory).find()
