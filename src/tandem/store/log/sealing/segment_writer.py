"""From records of the journal to a segment.

    write all files under temporary names, sync all  →  name the .sums and the .amqp file, sync the folder
                                                     →  name the .arrow file, sync the folder: the segment exists

Whatever is left by a crash in between is not a segment, and the journal still has everything.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from tandem.arrow import load_arrow
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord
from tandem.errors import StoreCorrupt
from tandem.event_columns import PUBLIC_SCHEMA, public_batch
from tandem.store.log.damage_log import RecordsDamaged
from tandem.store.log.files import Files, is_unreadable
from tandem.store.log.journal.frames import decode_record, locate_frame
from tandem.store.log.journal.journal import journal_path
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.sealing.job import SealJob
from tandem.store.log.segments.checksums import encode_sums, event_checksum
from tandem.store.log.segments.event_batches import AMQP_SCHEMA, amqp_batch, rows_of, with_metadata
from tandem.store.log.segments.segment import TEMPORARY_SUFFIX, Segment, partition_folder
from tandem.store.log.segments.survey import ARROW_CRC_KEY, SUMS_KEY, surveyed

__all__ = ["seal"]

pa: Final = load_arrow()


def seal(job: SealJob, files: Files) -> None:
    """Make the segment that the job describes. RecordsDamaged names the records that are in its way."""
    segment = job.segment
    folder = partition_folder(Path(job.directory), job.hub_number, job.partition_id)
    limits = LogLimits(batch_rows=job.batch_rows, batch_bytes=job.batch_bytes)
    arrow = pa.BufferOutputStream()
    beside: list[Any] = []
    checksums = array("I")
    with pa.ipc.new_file(arrow, with_metadata(PUBLIC_SCHEMA, _metadata(job, segment))) as writer:
        for rows in rows_of(_summed(_records(job), checksums), limits):
            writer.write_batch(public_batch(rows, job.partition_id))
            beside.append(amqp_batch(rows))
    arrow_buffer = arrow.getvalue()
    crc = zlib.crc32(arrow_buffer)
    amqp = pa.BufferOutputStream()
    with pa.ipc.new_file(amqp, AMQP_SCHEMA, metadata={ARROW_CRC_KEY: str(crc).encode(), SUMS_KEY: b"1"}) as writer:
        for batch in beside:
            writer.write_batch(batch)
    amqp_buffer = amqp.getvalue()
    sums = encode_sums(surveyed(arrow_buffer, amqp_buffer, crc), checksums)
    files.make_folder(folder)
    paths = (segment.sums_path(folder), segment.amqp_path(folder), segment.arrow_path(folder))
    try:
        for path, buffer in zip(paths, (sums, amqp_buffer, arrow_buffer), strict=True):
            _write(files, _temporary(path), buffer)
    except OSError:
        # On a disk that is full, what was begun would take the space that others need.
        for path in paths:
            with contextlib.suppress(OSError):
                files.unlink(_temporary(path))
        raise
    for path in paths:
        files.rename(_temporary(path), path)
        files.sync_folder(folder)


def _summed(records: Iterator[list[Event]], checksums: array[int]) -> Iterator[list[Event]]:
    """The same events, whose checksums are gathered on the way."""
    for events in records:
        checksums.extend(map(event_checksum, events))
        yield events


def _metadata(job: SealJob, segment: Segment) -> dict[str, object]:
    return {
        "hubNumber": job.hub_number,
        "partition": job.partition_id,
        "firstSequenceNumber": segment.first_sequence_number,
        "lastSequenceNumber": segment.next_sequence_number - 1,
        "firstEnqueuedTimeMs": segment.first_at_ms,
        "lastEnqueuedTimeMs": segment.last_at_ms,
        "sizeBytes": segment.size_bytes,
    }


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + TEMPORARY_SUFFIX)


def _write(files: Files, path: Path, buffer: Any) -> None:
    descriptor = files.open(path)
    try:
        # One that a crash left behind may be longer.
        files.truncate(descriptor, 0)
        files.write(descriptor, 0, [memoryview(buffer)])
        files.sync(descriptor)
    finally:
        files.close(descriptor)


def _records(job: SealJob) -> Iterator[list[Event]]:
    """The events of each record, from the journal, judged anew."""
    expected = job.segment.first_sequence_number
    damaged: list[int] = []
    with _Journal(Path(job.journal_folder), job.salts) as journal:
        columns = [array("q", column) for column in (job.first_numbers, job.file_numbers, job.positions, job.lengths)]
        for first, number, position, length in zip(*columns, strict=True):
            record = journal.read(number, position, length)
            if record is None:
                damaged.append(first)
            if damaged or record is None:
                # There will be no segment: look only for more of the kind.
                continue
            events = record.events()
            if record.first_sequence_number != expected or len(events) != record.count:
                raise StoreCorrupt(
                    f"file {number} of the journal: the record at {position} has {len(events)} events from "
                    f"{record.first_sequence_number} on, {record.count} from {expected} on were expected"
                )
            expected = record.next_sequence_number
            yield events
    if damaged:
        raise RecordsDamaged(damaged)
    if expected != job.segment.next_sequence_number:
        raise StoreCorrupt(
            f"the records of {job.segment.stem} end at {expected}, not at {job.segment.next_sequence_number}"
        )


class _Journal:
    """The files of the journal that a job needs, opened when they are."""

    def __init__(self, folder: Path, salts: Mapping[int, int]) -> None:
        self._folder = folder
        self._salts = salts
        self._descriptors: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)

    def read(self, number: int, position: int, length: int) -> EventRecord | None:
        """A record, or None if it is damaged."""
        try:
            descriptor = self._descriptors.get(number)
            if descriptor is None:
                path = journal_path(self._folder, number)
                descriptor = self._descriptors[number] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            buffer = os.pread(descriptor, length, position)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return None
        frame = locate_frame(buffer, 0, self._salts[number])
        return None if frame is None else decode_record(buffer, frame)
