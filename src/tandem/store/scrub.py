"""Verify the checksums of all pages of a database in the background, at a bounded rate.

Damage to a page that nobody reads for months is found early, not when the page is needed. The file is read directly,
past SQLite and its cache. A page that is being written at that moment is read again, and one that the write-ahead log
has a newer version of is left out: it is about to be overwritten.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Final

from tandem.store.checksums import PAGE_CHECKSUM_BYTES, PageVerifier
from tandem.store.connection import PAGE_BYTES
from tandem.store.wal import pages_in_log

__all__ = ["Scrubber", "find_damaged_page"]

# Pages that are read at once, and seconds from one such read to the next: 2 MiB a second.
_PIECE_PAGES: Final = 64
_PIECE_INTERVAL_S: Final = 0.25

# Seconds from one pass over the database to the next: a day.
_PASS_INTERVAL_S: Final = 86_400.0

_ZEROS: Final = bytes(PAGE_BYTES)

# Of the pointer map: entries on a page, and kinds of entries (unused; the root and other pages of a tree).
_MAP_ENTRIES: Final = (PAGE_BYTES - PAGE_CHECKSUM_BYTES) // 5
_FREE: Final = b"\2"
_TREE_PAGES: Final = (b"\1", b"\5")

# How often a page is read before its checksum counts as wrong, and seconds between these reads.
_READS: Final = 4
_READ_INTERVAL_S: Final = 0.5


def find_damaged_page(
    database: Path, pause: Callable[[float], bool], piece_interval_s: float = _PIECE_INTERVAL_S
) -> int | None:
    """Read a database once and return the number of the first page with a wrong checksum; None if there is none.

    `pause` waits for some seconds, and returns whether to stop.
    """
    with contextlib.closing(PageVerifier()) as verifier, database.open("rb", buffering=0) as file:
        first = 1
        while True:
            file.seek((first - 1) * PAGE_BYTES)
            piece = file.read(_PIECE_PAGES * PAGE_BYTES)
            if len(piece) < PAGE_BYTES:
                return None
            for index in range(len(piece) // PAGE_BYTES):
                page = piece[index * PAGE_BYTES : (index + 1) * PAGE_BYTES]
                number = first + index
                if _looks_damaged(file, number, page, verifier) and _is_damaged(database, number, verifier, pause):
                    return number
            first += _PIECE_PAGES
            if pause(piece_interval_s):
                return None


def _looks_damaged(file: FileIO, number: int, page: bytes, verifier: PageVerifier) -> bool:
    """Whether a page has a wrong checksum, or is all zeros, which has a right one, where zeros cannot be."""
    if page != _ZEROS:
        return not verifier.is_intact(page)
    map_page = (number - 2) // (_MAP_ENTRIES + 1) * (_MAP_ENTRIES + 1) + 2
    if number <= map_page:
        return True
    file.seek((map_page - 1) * PAGE_BYTES + 5 * (number - map_page - 1))
    kind = file.read(1)
    if kind == _FREE:
        # Unused pages may be anything, but for the first one of their list.
        file.seek(32)
        first_free, free_count = struct.unpack(">2I", file.read(8))
        return bool(number == first_free and free_count > 1)
    # Those of overflow may be zeros; what clients sent has its own checksum.
    return kind in _TREE_PAGES


def _is_damaged(database: Path, number: int, verifier: PageVerifier, pause: Callable[[float], bool]) -> bool:
    for _ in range(_READS - 1):
        if pause(_READ_INTERVAL_S):
            return False
        with database.open("rb", buffering=0) as file:
            file.seek((number - 1) * PAGE_BYTES)
            page = file.read(PAGE_BYTES)
            # The file may be shorter by now.
            if len(page) < PAGE_BYTES or not _looks_damaged(file, number, page, verifier):
                return False
        if number in pages_in_log(database.with_name(f"{database.name}-wal"), PAGE_BYTES):
            return False
    return True


class Scrubber:
    """A thread that verifies a database after the start and then every day. `on_damage` is called from it."""

    def __init__(self, database: Path, on_damage: Callable[[str], None]) -> None:
        self._database = database
        self._on_damage = on_damage
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scrub", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        # Not at once: the start of a broker has better uses for the disk.
        while not self._stopped.wait(_PIECE_INTERVAL_S):
            try:
                number = find_damaged_page(self._database, self._stopped.wait)
            except OSError:
                # Whoever needs the file finds out what is wrong with it.
                number = None
            if number is not None:
                self._on_damage(f"page {number} of the database is damaged")
                return
            if self._stopped.wait(_PASS_INTERVAL_S):
                return
