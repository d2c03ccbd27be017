"""The write-ahead log of SQLite, read without SQLite, which silently ignores everything after the first damaged frame.

A frame carries the checksum of all frames up to it, computed from that of the frame before. So each frame can be
verified by itself, from the checksum that is stored in its predecessor: those after a damaged one are as trustworthy as
those before it. The format is described at https://sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tandem.store.checksums import PageVerifier

__all__ = ["LogHead", "LogHeader", "Wal", "pages_in_log", "read_log_header", "scan"]

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
_VERSION: Final = 3_007_000
_MASK: Final = 0xFFFFFFFF

_Sum = tuple[int, int]


class LogHeader(NamedTuple):
    """The header of a log, whose checksum is right."""

    sequence: int
    salts: _Sum
    checksum: _Sum
    is_big_endian: bool


@dataclass
class Wal:
    """The frames that a log holds for pages of the database."""

    # By page: the offset of the page's bytes in its newest intact frame.
    pages: dict[int, int] = field(default_factory=dict)
    # Pages whose newest frame is damaged, with the offset of the frame before; None if that is the page of the
    # database. By the damaged frame: its head may be what is damaged, and then it is of another page.
    stale: dict[int, int | None] = field(default_factory=dict)
    # Damaged frames whose page is not known.
    unknown_count: int = 0
    damaged_frames: list[int] = field(default_factory=list)
    # Frames of committed transactions that the file does not hold.
    missing_count: int = 0
    # The size of the database in pages after the last commit; 0 if the log has none.
    page_count: int = 0


def read_log_header(path: Path) -> LogHeader | None:
    """Return the header of a log; None if there is no log or its header is damaged."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER.size)
    except FileNotFoundError:
        return None
    return _header_of(head)


def pages_in_log(path: Path, page_bytes: int) -> set[int]:
    """Return the pages of which a log holds a version, by the heads of its frames: nothing is verified."""
    header = read_log_header(path)
    pages: set[int] = set()
    if header is None:
        return pages
    with path.open("rb", buffering=0) as file:
        at = _HEADER.size
        while len(head := os.pread(file.fileno(), _FRAME.size, at)) == _FRAME.size:
            page, _, *salts, _, _ = _FRAME.unpack(head)
            if (salts[0], salts[1]) != header.salts:
                break
            pages.add(page)
            at += _FRAME.size + page_bytes
    return pages


class LogHead:
    """The header of a log that is in use, which changes when the log begins anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._head = b""
        self._marks = (0, 0)

    def read(self) -> _Sum:
        """Return the sequence number and the first salt of the log. SQLite keeps the file as long as it is open."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDONLY)
            head = os.pread(self._descriptor, _HEADER.size, 0)
        except OSError:
            # The record of commits then says less about the log; the commit itself is durable.
            return self._marks
        if head != self._head and len(head) == _HEADER.size:
            self._head = head
            fields = _HEADER.unpack(head)
            self._marks = (fields[3], fields[4])
        return self._marks

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _header_of(head: bytes) -> LogHeader | None:
    if len(head) < _HEADER.size:
        return None
    magic, version, _, sequence, *salts, one, two = _HEADER.unpack(head)
    if magic & ~1 != _MAGIC or version != _VERSION:
        return None
    is_big_endian = bool(magic & 1)
    if _checksum((0, 0), head[:24], is_big_endian) != (one, two):
        return None
    return LogHeader(sequence, (salts[0], salts[1]), (one, two), is_big_endian)


def _checksum(seed: _Sum, content: bytes, is_big_endian: bool) -> _Sum:
    words = struct.unpack(f"{'>' if is_big_endian else '<'}{len(content) // 4}I", content)
    one, two = seed
    pairs = iter(words)
    for first, second in zip(pairs, pairs, strict=True):
        one = (one + first + two) & _MASK
        two = (two + second + one) & _MASK
    return one, two


class _FastCheck:
    """Verifies the checksum of a frame with the function of SQLite that verifies pages, some fifty times as fast.

    Zeros turn a pair of sums (one, two) into (one + two, one + 2 * two) with each eight bytes. All is linear: what
    a seed contributes can be subtracted from a checksum, and what follows up to the size of a page can be zeros.
    """

    def __init__(self, page_bytes: int, verifier: PageVerifier) -> None:
        self._verifier = verifier
        # Eight bytes of the head and the page; then zeros up to twice the size of a page, apart from the checksum.
        self._zeros = bytes(2 * page_bytes - 8 - page_bytes - 8)
        self._of_seed = _power((8 + page_bytes) // 8)
        self._of_zeros = _power(len(self._zeros) // 8)

    def is_right(self, seed: _Sum, head: bytes, data: bytes, checksum: _Sum) -> bool:
        of_seed = _times(self._of_seed, seed)
        of_content = (checksum[0] - of_seed[0]) & _MASK, (checksum[1] - of_seed[1]) & _MASK
        expected = _times(self._of_zeros, of_content)
        return self._verifier.is_intact(b"".join((head, data, self._zeros, struct.pack("<2I", *expected))))


_Matrix = tuple[int, int, int, int]


def _power(steps: int) -> _Matrix:
    result: _Matrix = (1, 0, 0, 1)
    for _ in range(steps):
        a, b, c, d = result
        result = (a + c) & _MASK, (b + d) & _MASK, (a + 2 * c) & _MASK, (b + 2 * d) & _MASK
    return result


def _times(matrix: _Matrix, pair: _Sum) -> _Sum:
    a, b, c, d = matrix
    return (a * pair[0] + b * pair[1]) & _MASK, (c * pair[0] + d * pair[1]) & _MASK


class _Frame(NamedTuple):
    place: int
    page: int
    # The size of the database in pages if the frame ends a commit, else 0.
    commit_pages: int
    is_intact: bool


def scan(path: Path, page_bytes: int, committed_frames: int) -> Wal:
    """Return which pages a log holds. All of it is read.

    Of this many frames it is known that they were committed. Behind them the log ends with the first frame that is not
    intact: a transaction that was never finished, or what an earlier generation of the log left there.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    with contextlib.closing(PageVerifier()) as verifier:
        frames = list(_Scan(content, page_bytes, committed_frames, verifier).frames())
    wal = _overlay(frames, page_bytes, committed_frames)
    wal.missing_count = max(0, committed_frames - len(frames))
    return wal


class _Scan:
    """One pass over the frames of a log."""

    def __init__(self, content: bytes, page_bytes: int, committed_frames: int, verifier: PageVerifier) -> None:
        self._content = content
        self._page_bytes = page_bytes
        self._step = page_bytes + _FRAME.size
        self._committed_frames = committed_frames
        self._header = _header_of(content[: _HEADER.size])
        self._salts = self._header.salts if self._header is not None else self._likely_salts()
        self._is_big_endian = (
            self._header.is_big_endian if self._header is not None else content[3:4] == bytes([_MAGIC + 1 & 0xFF])
        )

        # SQLite's function sums up words of little-endian machines, as logs have them that were written on one.
        can_be_fast = verifier.is_able and not self._is_big_endian
        self._fast = _FastCheck(page_bytes, verifier) if can_be_fast else None

    def _likely_salts(self) -> _Sum:
        """Return the salts of the first frames, which are those of the header that is damaged."""
        offsets = range(_HEADER.size, len(self._content) - self._step + 1, self._step)
        salts = [_FRAME.unpack_from(self._content, at)[2:4] for at in offsets[:8]]
        return Counter(salts).most_common(1)[0][0] if salts else (0, 0)

    def _seeds(self) -> list[_Sum]:
        """Return the checksums that the header may have had: one of them is right if only a part of it is damaged."""
        if len(self._content) < _HEADER.size:
            return []
        _, _, _, sequence, *_, one, two = _HEADER.unpack_from(self._content)
        magic = _MAGIC | self._is_big_endian
        repaired = struct.pack(">6I", magic, _VERSION, self._page_bytes, sequence, *self._salts)
        return [(one, two), _checksum((0, 0), repaired, self._is_big_endian)]

    def frames(self) -> Iterator[_Frame]:
        seeds = self._seeds()
        held: _Frame | None = None
        # Whether the checksum that is stored in the frame before may be used as a seed.
        is_seed_known = True
        for index, at in enumerate(range(_HEADER.size, len(self._content) - self._step + 1, self._step)):
            page, commit_pages, *salts, one, two = _FRAME.unpack_from(self._content, at)
            has_salts = (salts[0], salts[1]) == self._salts
            if self._is_quickly_verified(seeds, at, (one, two)):
                sums = [(one, two)]
            else:
                sums = [self._sum(seed, at) for seed in seeds]
            is_intact = (one, two) in sums
            if is_intact and held is not None and sums[0] != (one, two):
                # By its content, not by its stored checksum: only that checksum was damaged.
                held = held._replace(is_intact=True)
            if not is_intact and has_salts and not is_seed_known:
                # Nothing can be said against it: the checksum to verify it with is lost with the frame before.
                is_intact = True
            if held is not None:
                yield held
            held = _Frame(index, page, commit_pages, is_intact)
            if not is_intact and index >= self._committed_frames:
                return
            is_seed_known = has_salts or is_intact
            seeds = [(one, two), *[computed for computed in sums if computed != (one, two)]]
        if held is not None:
            yield held

    def _is_quickly_verified(self, seeds: list[_Sum], at: int, checksum: _Sum) -> bool:
        content = self._content
        if self._fast is None or not seeds:
            return False
        data = content[at + _FRAME.size : at + self._step]
        return self._fast.is_right(seeds[0], content[at : at + 8], data, checksum)

    def _sum(self, seed: _Sum, at: int) -> _Sum:
        content = self._content
        head_sum = _checksum(seed, content[at : at + 8], self._is_big_endian)
        return _checksum(head_sum, content[at + _FRAME.size : at + self._step], self._is_big_endian)


def _overlay(frames: list[_Frame], page_bytes: int, committed_frames: int) -> Wal:
    wal = Wal()
    step = page_bytes + _FRAME.size
    commits = [frame for frame in frames if frame.is_intact and frame.commit_pages]
    # A commit of which a part is missing at the end of the file did not happen as far as the rest can tell.
    end = committed_frames if len(frames) >= committed_frames else 0
    end = max([end, *[frame.place + 1 for frame in commits]])
    wal.page_count = max([frame.commit_pages for frame in commits[-1:]], default=0)
    highest = max([wal.page_count, *[frame.page for frame in frames if frame.is_intact]])
    for frame in frames:
        if frame.place >= end:
            break
        if frame.is_intact:
            wal.pages[frame.page] = _HEADER.size + frame.place * step + _FRAME.size
            wal.stale.pop(frame.page, None)
            continue
        wal.damaged_frames.append(frame.place)
        if 0 < frame.page <= highest:
            wal.stale.setdefault(frame.page, wal.pages.pop(frame.page, None))
        else:
            wal.unknown_count += 1
    return wal
