"""What a log does beside appending and reading: it seals long tails, drops what is old, and shortens its journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from tandem.errors import StoreFailed
from tandem.store.log.files import Files
from tandem.store.log.journal.batch import Batch
from tandem.store.log.journal.journal import Journal
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.partitions.partition_log import PartitionLog
from tandem.store.log.partitions.partition_table import PartitionTable
from tandem.store.log.sealing.job import SealJob
from tandem.store.log.sealing.sealer import Sealer
from tandem.store.log.segments.segment import partition_folder
from tandem.store.log.upkeep.pins import Pins

__all__ = ["Retention", "Upkeep"]

logger = logging.getLogger(__name__)

# Milliseconds and bytes of one partition that are kept, by the number of the hub; None is without bound.
Retention = Mapping[int, tuple[int | None, int | None]]

# Milliseconds. Going through all partitions takes a millisecond for some thousands of them.
_SURVEY_INTERVAL_MS: Final = 1_000

# Failures in a row after which sealing is tried only now and then. Nothing is lost: the journal keeps everything.
_MAX_SEAL_FAILURES: Final = 3
_SEAL_RETRY_MS: Final = 60_000


class Upkeep:
    """On the event loop, a little at a time. What it decides is written down by the next commit."""

    def __init__(
        self,
        directory: Path,
        journal: Journal,
        table: PartitionTable,
        batch: Batch,
        sealer: Sealer,
        files: Files,
        pins: Pins,
        limits: LogLimits,
        forget_segment: Callable[[Path], None],
        lose_record: Callable[[PartitionLog, int, str], None],
        forget_marks: Callable[[list[int]], None],
    ) -> None:
        self._directory = directory
        self._journal = journal
        self._table = table
        self._batch = batch
        self._sealer = sealer
        self._files = files
        self._pins = pins
        self._limits = limits
        self._forget_segment = forget_segment
        self._lose_record = lose_record
        self._forget_marks = forget_marks
        self._job: SealJob | None = None
        self._sealed_partition: PartitionLog | None = None
        self._seal_failures = 0
        self._seal_not_before_ms: int | None = None
        # Tails that are not long, but keep an old file of the journal alive.
        self._pressed: dict[PartitionLog, None] = {}
        self._surveyed_at_ms: int | None = None

    @property
    def busy_hub(self) -> int | None:
        """The hub that the sealer writes files of."""
        return None if self._job is None else self._job.hub_number

    def run(self, now_ms: int, retention: Retention) -> list[tuple[int, int, int]]:
        """Hub, partition and new begin of those that begin later now."""
        moved: list[tuple[int, int, int]] = []
        self._take_result(now_ms)
        self._drop_lost_records()
        if self._surveyed_at_ms is None or not 0 <= now_ms - self._surveyed_at_ms < _SURVEY_INTERVAL_MS:
            self._surveyed_at_ms = now_ms
            moved = self._retain(now_ms, retention)
            self._relieve_journal()
        self._start_sealing(now_ms)
        self._delete_journal_files()
        return moved

    # --- sealing --------------------------------------------------------------------------------------------

    @property
    def has_more_to_seal(self) -> bool:
        return self._seal_not_before_ms is None and (self._sealer.is_busy or bool(self._table.long or self._pressed))

    def _start_sealing(self, now_ms: int) -> None:
        if self._sealer.is_busy:
            return
        if self._seal_not_before_ms is not None and now_ms < self._seal_not_before_ms:
            return
        candidates = chain(self._pressed, self._table.long)
        partition = next((one for one in candidates if not one.is_trimming and not one.is_carrying), None)
        if partition is None:
            return
        self._pressed.pop(partition, None)
        if len(partition.tail):
            partition.is_sealing = True
            self._sealed_partition = partition
            self._job = self._job_of(partition)
            self._sealer.start(self._job)

    def _job_of(self, partition: PartitionLog) -> SealJob:
        tail = partition.tail
        # A segment has no gaps.
        record_count = tail.index_of_gap(tail.index_within(self._limits.segment_bytes, self._limits.segment_events))
        first, last = tail[0], tail[record_count - 1]
        first_numbers, file_numbers, positions, lengths = tail.places(0, record_count)
        return SealJob(
            str(self._directory),
            str(self._journal.folder),
            partition.hub_number,
            partition.partition_id,
            first.first_sequence_number,
            last.first_sequence_number + last.event_count - first.first_sequence_number,
            first.enqueued_at_ms,
            last.enqueued_at_ms,
            tail.size_of_first(record_count),
            record_count,
            self._journal.salts,
            first_numbers,
            file_numbers,
            positions,
            lengths,
            self._limits.batch_rows,
            self._limits.batch_bytes,
        )

    def _take_result(self, now_ms: int) -> None:
        result = self._sealer.poll()
        if result is None:
            return
        job, partition = self._job, self._sealed_partition
        assert job is not None
        assert partition is not None
        self._job = self._sealed_partition = None
        partition.is_sealing = False
        if self._table.find(job.hub_number, job.partition_id) is not partition:
            # Dropped meanwhile, and its files with it.
            return
        if result.damaged:
            for number in result.damaged:
                self._lose_record(partition, number, "the record in the journal is damaged")
            return
        if result.error is not None and not self._is_there(job):
            self._note_failure(result.error, now_ms)
            return
        self._seal_failures = 0
        self._seal_not_before_ms = None
        self._journal.release(partition.take_segment(job.segment, job.record_count))
        self._table.judge(partition)

    def _is_there(self, job: SealJob) -> bool:
        """Whether the sealer was done all the same, and could not say so."""
        folder = partition_folder(self._directory, job.hub_number, job.partition_id)
        if not job.segment.arrow_path(folder).exists():
            return False
        try:
            self._files.sync_folder(folder)
        except OSError as error:
            raise StoreFailed(f"{folder} could not be synced: {error}") from error
        return True

    def _note_failure(self, error: str, now_ms: int) -> None:
        self._seal_failures += 1
        if self._seal_failures < _MAX_SEAL_FAILURES:
            return
        self._seal_not_before_ms = now_ms + _SEAL_RETRY_MS
        if self._seal_failures == _MAX_SEAL_FAILURES:
            logger.error(
                "events could not be sealed %d times, and stay in the journal; the next try is in %d s: %s",
                self._seal_failures,
                _SEAL_RETRY_MS // 1_000,
                error,
            )

    def _drop_lost_records(self) -> None:
        """Forget damaged records, so that what lies before and behind them can be sealed."""
        for partition in [partition for partition in self._table.damaged if partition.lost_records]:
            self._journal.release(partition.drop_lost_records())
            self._table.judge(partition)
            if not partition.lost_records:
                self._table.damaged.pop(partition, None)

    # --- retention ------------------------------------------------------------------------------------------

    def _retain(self, now_ms: int, retention: Retention) -> list[tuple[int, int, int]]:
        moved: list[tuple[int, int, int]] = []
        for partition in self._table:
            retention_ms, retention_bytes = retention.get(partition.hub_number, (None, None))
            before_ms = None if retention_ms is None else now_ms - retention_ms
            dropped = partition.drop_segments(partition.expired_segments(before_ms, retention_bytes))
            released = partition.drop_records(partition.expired_records(before_ms, retention_bytes))
            if not dropped and not released:
                continue
            folder = partition_folder(self._directory, partition.hub_number, partition.partition_id)
            doomed = [path for segment in dropped for path in segment.paths(folder)]
            for path in doomed:
                self._forget_segment(path)
            self._batch.trim(partition, released, doomed)
            self._table.judge(partition)
            moved.append((partition.hub_number, partition.partition_id, partition.begin_sequence_number))
        return moved

    # --- the journal ----------------------------------------------------------------------------------------

    def _relieve_journal(self) -> None:
        """When the journal is too long: what keeps its oldest file alive is sealed, or is carried over if it is little.

        A partition that is written to rarely would otherwise keep everything that the others wrote.
        """
        files = self._journal.files
        if self._journal.size_bytes <= self._limits.journal_bytes or len(files) == 1:
            return
        oldest = min(files)
        left = self._limits.carry_bytes
        for partition in self._table:
            tail = partition.tail
            if partition.is_sealing or partition.is_carrying or not len(tail) or tail.oldest_file_number != oldest:
                continue
            if tail.size_bytes >= self._limits.carry_below_bytes:
                self._pressed.setdefault(partition)
            elif left > 0:
                self._batch.carry(partition)
                left -= tail.size_bytes

    def _delete_journal_files(self) -> None:
        """One at a time. Whatever else an old file says, the newest says too."""
        files = self._journal.files
        for file in files.values():
            if not file.live_count and file.number != max(files) and file.path not in self._pins:
                # First: a mark must not speak of a file that is gone.
                self._forget_marks([file.number])
                self._journal.delete(file)
                return
