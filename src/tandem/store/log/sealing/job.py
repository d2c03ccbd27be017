"""What is to be sealed: the segment to make, and where the journal has its records."""

from __future__ import annotations

import msgspec

from tandem.store.log.segments.segment import Segment

__all__ = ["SealJob", "SealResult"]


class SealJob(msgspec.Struct, frozen=True):
    """Told to the sealer as it is. The columns of places are arrays of 64-bit integers as they lie in memory."""

    directory: str
    journal_folder: str
    hub_number: int
    partition_id: int
    first_sequence_number: int
    count: int
    first_at_ms: int
    last_at_ms: int
    size_bytes: int
    record_count: int
    # Of the files of the journal, by their numbers: their headers may be damaged.
    salts: dict[int, int]
    first_numbers: bytes
    file_numbers: bytes
    positions: bytes
    lengths: bytes
    batch_rows: int
    batch_bytes: int

    @property
    def segment(self) -> Segment:
        return Segment(self.first_sequence_number, self.count, self.first_at_ms, self.last_at_ms, self.size_bytes)


class SealResult(msgspec.Struct, frozen=True):
    """What came of a job: a segment, or the reason why there is none.

    `damaged` are the first sequence numbers of records that the journal does not hold any more.
    """

    error: str | None = None
    damaged: list[int] = []
