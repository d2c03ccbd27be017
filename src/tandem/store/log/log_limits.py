"""How large the parts of an event log become. Tests make them small."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.limits import MAX_REMEMBERED_PRODUCERS

__all__ = ["LogLimits"]


@dataclass(frozen=True)
class LogLimits:
    """When a file is full, and a tail is long."""

    # Bytes. A file of the journal that has grown beyond this is followed by a new one.
    rotate_bytes: int = 67_108_864
    # Bytes. When the journal is longer, what keeps its oldest file alive is sealed or carried over. A start reads as
    # much: 256 MiB take about a third of a second.
    journal_bytes: int = 268_435_456
    # Bytes and events. A tail that has either is sealed: large enough that a read of columns is cheap for each event.
    seal_bytes: int = 8_388_608
    seal_events: int = 65_536
    # Bytes and events. What one segment takes at most of a tail that has become longer meanwhile.
    segment_bytes: int = 33_554_432
    segment_events: int = 262_144
    # Bytes. A tail that keeps the oldest file of the journal alive and is shorter is carried over instead of sealed.
    carry_below_bytes: int = 1_048_576
    # Bytes. Carried over at once, so that no commit waits for long.
    carry_bytes: int = 4_194_304
    # Rows and bytes of one record batch: what a reader of columns holds in memory.
    batch_rows: int = 16_384
    batch_bytes: int = 4_194_304
    # Segments that stay open for readers of single events.
    open_segments: int = 64
    # Idempotent producers of all partitions that a restart remembers.
    producers: int = MAX_REMEMBERED_PRODUCERS
    # Files that are deleted at once, so that the event loop does not stand still.
    deletions_at_once: int = 32
    # Milliseconds between two segments that are read to verify them, and between the beginnings of two rounds. With
    # segments of 32 MiB that is 3 MB a second.
    scrub_interval_ms: int = 10_000
    scrub_round_ms: int = 86_400_000
