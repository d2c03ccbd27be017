"""What is old: events of one partition in three files, and what their common name says of them.

    <first sequence number>-<count>-<first time>-<last time>-<bytes>.arrow    the columns that Spark reads
    <the same>.amqp                                                           what only readers over AMQP need
    <the same>.sums                                                           the checksums of both, by `sums`

So a start has to list folders and to open nothing. Times are when the first and the last event were enqueued, in
milliseconds; bytes are those of the payloads as they were sent. A segment exists when its .arrow file does.
Older segments have no .sums file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = [
    "AMQP_SUFFIX",
    "ARROW_SUFFIX",
    "SUMS_SUFFIX",
    "TEMPORARY_SUFFIX",
    "Segment",
    "Verified",
    "partition_folder",
    "segment_of",
]

ARROW_SUFFIX: Final = ".arrow"
AMQP_SUFFIX: Final = ".amqp"
SUMS_SUFFIX: Final = ".sums"
# While it is being written.
TEMPORARY_SUFFIX: Final = ".tmp"

_STEM: Final = re.compile(r"(\d{20})-(\d+)-(-?\d+)-(-?\d+)-(\d+)")


class Segment:
    """Events without gaps, for good: a segment never changes."""

    __slots__ = ("count", "first_at_ms", "first_sequence_number", "last_at_ms", "size_bytes")

    def __init__(
        self, first_sequence_number: int, count: int, first_at_ms: int, last_at_ms: int, size_bytes: int
    ) -> None:
        self.first_sequence_number = first_sequence_number
        self.count = count
        self.first_at_ms = first_at_ms
        self.last_at_ms = last_at_ms
        self.size_bytes = size_bytes

    @property
    def next_sequence_number(self) -> int:
        return self.first_sequence_number + self.count

    @property
    def stem(self) -> str:
        numbers = (self.count, self.first_at_ms, self.last_at_ms, self.size_bytes)
        return "-".join([f"{self.first_sequence_number:020d}", *map(str, numbers)])

    def arrow_path(self, folder: Path) -> Path:
        return folder / (self.stem + ARROW_SUFFIX)

    def amqp_path(self, folder: Path) -> Path:
        return folder / (self.stem + AMQP_SUFFIX)

    def sums_path(self, folder: Path) -> Path:
        return folder / (self.stem + SUMS_SUFFIX)

    def paths(self, folder: Path) -> tuple[Path, Path, Path]:
        """All its files. The one that makes it a segment is the first."""
        return self.arrow_path(folder), self.amqp_path(folder), self.sums_path(folder)


# Batches of .arrow files whose bytes were found to be right, by file and number of the batch; with when the file was
# changed last, in nanoseconds, and its length at that moment.
Verified = dict[Path, dict[int, tuple[int, int]]]


def segment_of(stem: str) -> Segment | None:
    """What a name says, or None if it is not that of a segment."""
    match = _STEM.fullmatch(stem)
    return None if match is None else Segment(*map(int, match.groups()))


def partition_folder(directory: Path, hub_number: int, partition_id: int) -> Path:
    return directory / str(hub_number) / str(partition_id)
