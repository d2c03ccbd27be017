"""The pages and trees of a SQLite database, read without SQLite, which gives up a tree at its first damaged page.

    pages      the database file, with the newest intact frames of its write-ahead log laid over it
    trees      the rows of all intact leaves. The children of a damaged interior page are found through the pointer map,
               in which `auto_vacuum` keeps the parent of each page.

The format is described at https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from tandem.store.checksums import PAGE_CHECKSUM_BYTES, PageVerifier
from tandem.store.rows import Row, Value
from tandem.store.wal import Wal

__all__ = ["Found", "Gap", "PageReader", "Tree", "UnreadableRow", "read_schema"]

# Kinds of pages, and kinds of entries in the pointer map.
_INTERIOR_INDEX: Final = 2
_INTERIOR_TABLE: Final = 5
_LEAF_INDEX: Final = 10
_LEAF_TABLE: Final = 13
_FREE: Final = 2
_CHILD: Final = 5

# The widths of integers by their serial types.
_INTEGER_BYTES: Final = (0, 1, 2, 3, 4, 6, 8)
_FIRST_PAGE_HEADER_BYTES: Final = 100

# The page with this byte is never used: SQLite locks it.
_LOCK_BYTE: Final = 0x40000000

# What parsing a page raises that is not what its kind says.
_MALFORMED: Final = (IndexError, ValueError, struct.error, OverflowError, UnicodeDecodeError)


class Gap(NamedTuple):
    """A page that cannot be read, and the keys that its rows had: above `low` and up to `high`; None is not known."""

    page: int
    low: int | None
    high: int | None
    what: str
    # An older version of the page was used.
    is_older_used: bool = False


class UnreadableRow(NamedTuple):
    """A row that is there, and whose content cannot be read because of a page that it is or goes on in."""

    key: int | None
    page: int
    what: str


class Found(NamedTuple):
    """A row of a tree. A tree of an index, or of a table without row ids, has no keys."""

    key: int | None
    columns: Row


class PageReader:
    """The pages of a database and its log."""

    def __init__(
        self, database: Path, log: Path, wal: Wal, verifier: PageVerifier, page_bytes: int, *, are_verified: bool
    ) -> None:
        self._wal = wal
        self._verifier = verifier if are_verified else None
        self.page_bytes = page_bytes
        self.usable_bytes = page_bytes - PAGE_CHECKSUM_BYTES
        self._database = database.open("rb") if database.exists() else None
        self._log = log.open("rb") if log.exists() else None
        self.page_count = max(wal.page_count, max(wal.pages, default=0)) or self._count_pages()
        # Whether some page may be an older version: the log has a damaged frame, of which page is not known.
        self.is_outdated = wal.unknown_count > 0
        # Pages that were asked for and cannot be read, with the reason.
        self.unreadable: dict[int, str] = {}

    def _count_pages(self) -> int:
        """Return how many pages the file has, or should have by its header: it may be cut."""
        if self._database is None:
            return 0
        size_bytes = self._database.seek(0, 2)
        file_pages = -(-size_bytes // self.page_bytes)
        first = self._read_file(1)
        if len(first) == self.page_bytes and (self._verifier is None or self._verifier.is_intact(first)):
            return max(file_pages, int.from_bytes(first[28:32], "big"))
        return file_pages

    def close(self) -> None:
        for file in (self._database, self._log):
            if file is not None:
                file.close()

    def read(self, number: int) -> bytes | None:
        """Return a page; None if it is damaged or missing."""
        page = self._read_log(number)
        if page is not None:
            return page
        what = self._complaint(number)
        if what is None:
            page = self._read_file(number)
            if len(page) < self.page_bytes:
                what = f"page {number} is missing: the file was cut"
            elif self._verifier is None or self._verifier.is_intact(page):
                return page
            else:
                what = f"page {number} has a wrong checksum"
        self.unreadable[number] = what
        return None

    def read_older(self, number: int) -> bytes | None:
        """Return the version before of a page whose newest one is damaged in the log; None if there is none."""
        if number not in self._wal.stale:
            return None
        at = self._wal.stale[number]
        if at is not None and self._log is not None:
            self._log.seek(at)
            return self._log.read(self.page_bytes)
        page = self._read_file(number)
        is_intact = len(page) == self.page_bytes and (self._verifier is None or self._verifier.is_intact(page))
        return page if is_intact else None

    def _complaint(self, number: int) -> str | None:
        if not 0 < number <= self.page_count:
            return f"page {number} does not exist"
        if number in self._wal.stale:
            return f"the newest version of page {number} is damaged in the write-ahead log"
        return None

    def _read_log(self, number: int) -> bytes | None:
        at = self._wal.pages.get(number)
        if at is None or self._log is None:
            return None
        self._log.seek(at)
        return self._log.read(self.page_bytes)

    def _read_file(self, number: int) -> bytes:
        if self._database is None:
            return b""
        self._database.seek((number - 1) * self.page_bytes)
        return self._database.read(self.page_bytes)

    # --- the pointer map ------------------------------------------------------------------------------------

    def entry(self, number: int) -> tuple[int, int] | None:
        """Return the kind and the parent of a page; None if the pointer map does not tell."""
        entries_per_page = self.usable_bytes // 5
        map_page = (number - 2) // (entries_per_page + 1) * (entries_per_page + 1) + 2
        if map_page == _LOCK_BYTE // self.page_bytes + 1:
            map_page += 1
        at = 5 * (number - map_page - 1)
        if number < 3 or at < 0:
            return None
        page = self.read(map_page)
        if page is None:
            return None
        kind, parent = struct.unpack_from(">BI", page, at)
        return kind, parent

    def is_free(self, number: int) -> bool:
        entry = self.entry(number)
        return entry is not None and entry[0] == _FREE

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """The pages of trees by their parents."""
        children: dict[int, list[int]] = defaultdict(list)
        for number in range(3, self.page_count + 1):
            entry = self.entry(number)
            if entry is not None and entry[0] == _CHILD:
                children[entry[1]].append(number)
        return children


class Tree:
    """One table or index. `rows` yields what is intact, `gaps` and `unreadable` hold what is not."""

    def __init__(self, pages: PageReader, root: int, *, is_table: bool, uses_older: bool = False) -> None:
        """`uses_older`: of a leaf that is damaged in the log, use the rows of its version before."""
        self._uses_older = uses_older
        # Rows of these, last: a row that is also in an intact page is newer there.
        self._older: list[Found] = []
        self._pages = pages
        self._root = root
        self._is_table = is_table
        self._visited: set[int] = set()
        self.gaps: list[Gap] = []
        self.unreadable: list[UnreadableRow] = []

    @property
    def damaged(self) -> list[Gap | UnreadableRow]:
        return [*self.gaps, *self.unreadable]

    def rows(self) -> Iterator[Found]:
        yield from self._walk(self._root, None, None)
        if self._pages.is_outdated:
            # An interior page may be an older version, which does not know its newest children.
            for parent in list(self._visited):
                for child in self._pages.children.get(parent, []):
                    yield from self._walk(child, None, None)
        yield from self._older

    def _walk(self, number: int, low: int | None, high: int | None) -> Iterator[Found]:
        if number in self._visited or (self._pages.is_outdated and not self._belongs_here(number)):
            return
        self._visited.add(number)
        page = self._pages.read(number)
        if page is None:
            yield from self._walk_around(number, low, high, self._pages.unreadable[number])
            return
        try:
            kind, right, cells = self._parse(number, page)
        except _MALFORMED:
            yield from self._walk_around(number, low, high, f"page {number} is not a page of this table")
            return
        for cell in cells:
            child_high = high
            if kind in {_INTERIOR_TABLE, _INTERIOR_INDEX}:
                child = int.from_bytes(page[cell : cell + 4], "big")
                if kind == _INTERIOR_TABLE:
                    child_high, _ = _varint(page, cell + 4)
                yield from self._walk(child, low, child_high)
                low = child_high if kind == _INTERIOR_TABLE else low
            if kind != _INTERIOR_TABLE:
                yield from self._row(number, page, cell, kind)
        if right:
            yield from self._walk(right, low, high)

    def _belongs_here(self, number: int) -> bool:
        """Whether a page still is one of this tree: what an older version of its parent says may not be so any more."""
        entry = self._pages.entry(number)
        return number == self._root or entry is None or (entry[0] == _CHILD and entry[1] in self._visited)

    def _walk_around(self, number: int, low: int | None, high: int | None, what: str) -> Iterator[Found]:
        children = self._pages.children.get(number, [])
        if self._uses_older and not children and self._read_older(number, low, high):
            self.gaps.append(Gap(number, low, high, f"{what}; its version before was used", is_older_used=True))
            return
        if not children or not self._is_table:
            # A leaf, or an interior page with rows of its own.
            self.gaps.append(Gap(number, low, high, what))
        for child in children:
            yield from self._walk(child, None, None)

    def _read_older(self, number: int, low: int | None, high: int | None) -> bool:
        page = self._pages.read_older(number)
        if page is None:
            return False
        try:
            kind, _, cells = self._parse(number, page)
        except _MALFORMED:
            return False
        if kind != _LEAF_TABLE:
            return False
        for cell in cells:
            for found in self._row(number, page, cell, kind):
                assert found.key is not None
                # What lies outside went to another page since.
                if (low is None or found.key > low) and (high is None or found.key <= high):
                    self._older.append(found)
        return True

    def _parse(self, number: int, page: bytes) -> tuple[int, int, tuple[int, ...]]:
        """Return the kind of a page, its rightmost child and where its cells are."""
        start = _FIRST_PAGE_HEADER_BYTES if number == 1 else 0
        kind, _, cell_count = struct.unpack_from(">BHH", page, start)
        if kind not in ((_INTERIOR_TABLE, _LEAF_TABLE) if self._is_table else (_INTERIOR_INDEX, _LEAF_INDEX)):
            raise ValueError(f"kind {kind}")
        is_interior = kind in {_INTERIOR_TABLE, _INTERIOR_INDEX}
        right = struct.unpack_from(">I", page, start + 8)[0] if is_interior else 0
        cells = struct.unpack_from(f">{cell_count}H", page, start + (12 if is_interior else 8))
        if cells and max(cells) >= self._pages.usable_bytes:
            raise ValueError("a cell outside of the page")
        return kind, right, cells

    def _row(self, number: int, page: bytes, cell: int, kind: int) -> Iterator[Found]:
        key: int | None = None
        try:
            at = cell + 4 if kind == _INTERIOR_INDEX else cell
            size_bytes, at = _varint(page, at)
            if self._is_table:
                key, at = _varint(page, at)
                # Keys are signed.
                key = key - (1 << 64) if key >> 63 else key
            payload = self._payload(page, at, size_bytes)
            if isinstance(payload, int):
                self.unreadable.append(UnreadableRow(key, payload, self._pages.unreadable[payload]))
                return
            columns = decode_record(payload)
        except _MALFORMED:
            self.unreadable.append(UnreadableRow(key, number, f"a row in page {number} is not readable"))
            return
        yield Found(key, columns)

    def _payload(self, page: bytes, at: int, size_bytes: int) -> bytes | int:
        """Return the bytes of a row, or the number of the page that they go on in and that cannot be read."""
        usable = self._pages.usable_bytes
        limit = usable - 35 if self._is_table else (usable - 12) * 64 // 255 - 23
        if size_bytes <= limit:
            return page[at : at + size_bytes]
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size_bytes - least) % (usable - 4)
        local = local if local <= limit else least
        parts = [page[at : at + local]]
        following = int.from_bytes(page[at + local : at + local + 4], "big")
        left = size_bytes - local
        while left > 0:
            overflow = self._pages.read(following)
            if overflow is None:
                return following
            part = overflow[4 : 4 + min(left, usable - 4)]
            parts.append(part)
            left -= len(part)
            following = int.from_bytes(overflow[:4], "big")
        return b"".join(parts)


def decode_record(payload: bytes) -> Row:
    """Return the columns of a row."""
    header_bytes, at = _varint(payload, 0)
    if header_bytes > len(payload):
        raise ValueError("a header longer than its row")
    columns: list[Value] = []
    value_at = header_bytes
    while at < header_bytes:
        serial, at = _varint(payload, at)
        value, width = _value(payload, value_at, serial)
        columns.append(value)
        value_at += width
    if value_at != len(payload):
        raise ValueError("a row of another length than its header says")
    return tuple(columns)


def _value(payload: bytes, at: int, serial: int) -> tuple[Value, int]:
    if serial == 0:
        return None, 0
    if serial < len(_INTEGER_BYTES):
        width = _INTEGER_BYTES[serial]
        return int.from_bytes(payload[at : at + width], "big", signed=True), width
    if serial == 7:
        return struct.unpack_from(">d", payload, at)[0], 8
    if serial in {8, 9}:
        return serial - 8, 0
    if serial < 12:
        raise ValueError(f"serial type {serial}")
    width = (serial - 12) // 2
    value = payload[at : at + width]
    if len(value) < width:
        raise ValueError("a row that ends too early")
    return (value.decode() if serial & 1 else value), width


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        byte = page[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | page[at], at + 1


def read_schema(pages: PageReader) -> dict[str, int] | None:
    """Return the root pages of tables and indexes by name; None if the first page cannot be read."""
    tree = Tree(pages, 1, is_table=True)
    rows = [found.columns for found in tree.rows()]
    if tree.damaged:
        return None
    # type, name, table, root page, statement
    return {str(row[1]): row[3] for row in rows if len(row) == 5 and isinstance(row[3], int)}
