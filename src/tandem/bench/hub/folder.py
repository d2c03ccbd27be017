"""What `tandem bench hub` learns from the folder of a broker's event hubs: how it syncs, how far it has sealed.

And the same writes without a broker: what the disk itself takes for them.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from tandem.bench.measuring.peers import BenchmarkFailed
from tandem.store.log.damage_log import DamageLog
from tandem.store.log.event_log import JOURNAL_NAME
from tandem.store.log.journal.journal import FileScan, journal_files, journal_path
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.recovery import segments_on_disk
from tandem.store.log.segments.segment import Segment
from tandem.store.sqlite import LOG_NAME
from tandem.testing import Broker

__all__ = ["HubFolder", "WritePattern", "sequential_write_s"]

# Seconds, and bytes for each further one. A sealer that is slower than that does not keep step with anything.
SEAL_LIMIT_S: Final = 60.0
SEAL_BYTES_PER_SECOND: Final = 5_000_000
SEAL_POLL_S: Final = 0.1


class WritePattern(NamedTuple):
    """How events came to disk: bytes of the record of a transfer, and of what one sync was for, on average."""

    record_bytes: float
    commit_bytes: float


class HubFolder:
    """The folder of a broker with one hub beside its own."""

    def __init__(self, broker: Broker, hub: str) -> None:
        self._broker = broker
        self._hub = hub
        self._folder = broker.data_dir / LOG_NAME
        self._number = int(broker.hub(hub)["incarnation"])

    def write_pattern(self) -> WritePattern:
        """Each record of the journal says up to where the file was synced when it was written: as many different
        answers as there were syncs."""
        folder = self._folder / JOURNAL_NAME
        size_bytes = records = commits = 0
        numbers = journal_files(folder)
        for number in numbers:
            # One that is not needed any more may go at any time.
            with contextlib.suppress(FileNotFoundError):
                synced: set[int] = set()
                scan = FileScan(
                    journal_path(folder, number), number, number == numbers[-1], None, DamageLog(is_quiet=True)
                )
                for found in scan.frames() if scan.salt is not None else ():
                    size_bytes += found.place.length
                    records += 1
                    synced.add(found.frame.synced)
                commits += len(synced)
        if not records:
            raise BenchmarkFailed(f"the journal of the broker has no records: {folder}")
        return WritePattern(size_bytes / records, size_bytes / commits)

    def sealed_events(self) -> list[int]:
        """Of each partition, from its first on."""
        return [segments[-1].next_sequence_number if segments else 0 for segments in self._segments()]

    def wait_until_sealed(self) -> None:
        """Until no partition has as much left as makes a segment: a reader would share the disk with the sealer."""
        limits = LogLimits()
        partitions = self._broker.partitions(self._hub)
        size_bytes = sum(one["size_in_bytes"] for one in partitions)
        deadline = time.monotonic() + SEAL_LIMIT_S + size_bytes / SEAL_BYTES_PER_SECOND
        while True:
            left = [
                (
                    one["next_sequence_number"] - sum(segment.count for segment in segments),
                    one["size_in_bytes"] - sum(segment.size_bytes for segment in segments),
                )
                for one, segments in zip(partitions, self._segments(), strict=True)
            ]
            if all(events < limits.seal_events and young < limits.seal_bytes for events, young in left):
                return
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"events are not sealed in time: {left} events and bytes are left by partition")
            time.sleep(SEAL_POLL_S)

    def _segments(self) -> list[list[Segment]]:
        count = len(self._broker.partitions(self._hub))
        folders = segments_on_disk(self._folder, {self._number: count})
        return [
            folders[self._number, partition].segments if (self._number, partition) in folders else []
            for partition in range(count)
        ]

    @property
    def journal_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self._folder / JOURNAL_NAME).iterdir())

    def evict(self) -> None:
        """Out of the page cache, so that what is read comes from the disk. All of it was synced, or it would stay."""
        for path in self._folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    _evict(path)


def _evict(path: Path) -> None:
    # Linux and FreeBSD; others read what they have cached.
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sequential_write_s(folder: Path, size_bytes: int, commit_bytes: int) -> float:
    """Seconds to append so many bytes, forced to disk in groups, into files of the journal's size."""
    # macOS has no fdatasync; its fsync is the nearest.
    sync = getattr(os, "fdatasync", os.fsync)
    group = b"x" * commit_bytes
    rotate_bytes = LogLimits().rotate_bytes
    paths: list[Path] = []
    left = size_bytes
    started_at = time.perf_counter()
    while left > 0:
        paths.append(folder / f"sequential-{len(paths)}")
        with paths[-1].open("wb", buffering=0) as file:
            while left > 0 and file.tell() < rotate_bytes:
                file.write(group[:left])
                sync(file.fileno())
                left -= commit_bytes
    seconds = time.perf_counter() - started_at
    for path in paths:
        path.unlink()
    return seconds
