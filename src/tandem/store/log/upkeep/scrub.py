"""Reads sealed segments now and then, so that damage is found before somebody needs what is damaged.

One segment at a time, in a thread: reading and checksums leave the interpreter to the event loop. A round goes through
all segments, and begins again a day after it began.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tandem.errors import ArrowUnavailable
from tandem.store.log.damage_log import DamageLog, EventsDamaged
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.partitions.partition_log import PartitionLog
from tandem.store.log.partitions.partition_table import PartitionTable
from tandem.store.log.segments.segment import Segment, partition_folder
from tandem.store.log.upkeep.pins import Pins

__all__ = ["Scrub"]


class Scrub:
    """On the event loop, but for the reading. `on_lost` hears of damaged events, in any thread."""

    def __init__(
        self,
        directory: Path,
        table: PartitionTable,
        pins: Pins,
        damages: DamageLog,
        limits: LogLimits,
        on_lost: Callable[[PartitionLog, int, int, str, bool], None],
    ) -> None:
        self._directory = directory
        self._table = table
        self._pins = pins
        self._damages = damages
        self._limits = limits
        self._on_lost = on_lost
        self._thread: threading.Thread | None = None
        self._to_do: deque[tuple[PartitionLog, Segment]] = deque()
        self._round_at_ms: int | None = None
        self._next_at_ms = 0

    def run(self, now_ms: int) -> None:
        """Begin with the next segment, if it is time."""
        if self._round_at_ms is None:
            # Not in the first moments, when there is enough to do.
            self._round_at_ms = now_ms - self._limits.scrub_round_ms
            self._next_at_ms = now_ms + self._limits.scrub_interval_ms
        if now_ms < self._next_at_ms or (self._thread is not None and self._thread.is_alive()):
            return
        if not self._to_do:
            if now_ms < self._round_at_ms + self._limits.scrub_round_ms:
                return
            self._round_at_ms = now_ms
            self._to_do.extend((partition, segment) for partition in self._table for segment in partition.segments)
        self._next_at_ms = now_ms + self._limits.scrub_interval_ms
        while self._to_do:
            partition, segment = self._to_do.popleft()
            is_there = self._table.find(partition.hub_number, partition.partition_id) is partition
            if is_there and partition.segment_with(segment.first_sequence_number) is segment:
                self._start(partition, segment)
                return

    def _start(self, partition: PartitionLog, segment: Segment) -> None:
        folder = partition_folder(self._directory, partition.hub_number, partition.partition_id)
        pinned = segment.paths(folder)
        self._pins.take(pinned)

        def verify() -> None:
            try:
                self._verify(partition, segment, folder)
            finally:
                self._pins.give_back(pinned)

        self._thread = threading.Thread(target=verify, name="scrub", daemon=True)
        self._thread.start()

    def _verify(self, partition: PartitionLog, segment: Segment, folder: Path) -> None:
        from tandem.store.log.segments.open_segment import OpenSegment

        try:
            opened = OpenSegment(segment, folder, self._damages)
        except EventsDamaged as error:
            first, end = segment.first_sequence_number, segment.next_sequence_number
            self._on_lost(partition, first, end, error.what, True)
            return
        except (ArrowUnavailable, OSError):
            # It has no checksums and cannot be looked into, or there are too many open files: the next round tries.
            return
        faulty = opened.faulty_files()
        for suffix in faulty:
            self._damages.add_file(segment.arrow_path(folder).with_suffix(suffix), "the checksum of the file is wrong")
        if faulty:
            what = f"they are damaged in {segment.stem}"
            for first, end in opened.lost():
                self._on_lost(partition, first, end, what, False)
            for first, end in opened.lost_columns():
                self._on_lost(partition, first, end, what, True)

    def close(self) -> None:
        """Nothing is read any more when this returns."""
        if self._thread is not None:
            self._thread.join()
