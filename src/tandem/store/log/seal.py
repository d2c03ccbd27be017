"""From records of the journal to a segment.

    write both files under temporary names, sync both  →  name the .amqp file, sync the folder
                                                       →  name the .arrow file, sync the folder: the segment exists

Whatever is left by a crash in between is not a segment, and the journal still has everything.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tandem.arrow import load_arrow
from tandem.engine.hubs.event import Event
from tandem.errors import StoreCorrupt
from tandem.event_columns import PUBLIC_SCHEMA, public_batch
from tandem.store.log.columns import AMQP_SCHEMA, amqp_batch, rows_of, with_metadata
from tandem.store.log.files import Files
from tandem.store.log.frames import decode_record, locate_frame
from tandem.store.log.job import SealJob
from tandem.store.log.journal import journal_path, read_salt
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.segment import TEMPORARY_SUFFIX, Segment, partition_folder

__all__ = ["ARROW_CRC_KEY", "seal"]

pa: Final = load_arrow()

# In the footer of the .amqp file: the CRC-32 of the .arrow file.
ARROW_CRC_KEY: Final = b"arrow-crc32"


def seal(job: SealJob, files: Files) -> None:
    """Make the segment that the job describes. StoreCorrupt if the journal does not hold what the job says."""
    segment = job.segment
    folder = partition_folder(Path(job.directory), job.hub_number, job.partition_id)
    limits = LogLimits(batch_rows=job.batch_rows, batch_bytes=job.batch_bytes)
    arrow = pa.BufferOutputStream()
    beside: list[Any] = []
    with pa.ipc.new_file(arrow, with_metadata(PUBLIC_SCHEMA, _metadata(job, segment))) as writer:
        for rows in rows_of(_records(job), limits):
            writer.write_batch(public_batch(rows, job.partition_id))
            beside.append(amqp_batch(rows))
    arrow_buffer = arrow.getvalue()
    crc = str(zlib.crc32(arrow_buffer)).encode()
    amqp = pa.BufferOutputStream()
    with pa.ipc.new_file(amqp, AMQP_SCHEMA, metadata={ARROW_CRC_KEY: crc}) as writer:
        for batch in beside:
            writer.write_batch(batch)
    files.make_folder(folder)
    paths = (segment.amqp_path(folder), segment.arrow_path(folder))
    try:
        for path, buffer in zip(paths, (amqp.getvalue(), arrow_buffer), strict=True):
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
    numbers, positions, lengths = (array("q", column) for column in (job.file_numbers, job.positions, job.lengths))
    descriptors: dict[int, int] = {}
    salts: dict[int, int] = {}
    try:
        for number, position, length in zip(numbers, positions, lengths, strict=True):
            descriptor = descriptors.get(number)
            if descriptor is None:
                path = journal_path(Path(job.journal_folder), number)
                salts[number] = read_salt(path, number)
                descriptor = descriptors[number] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            buffer = os.pread(descriptor, length, position)
            frame = locate_frame(buffer, 0, salts[number])
            if frame is None:
                raise StoreCorrupt(f"file {number} of the journal: the record at {position} is damaged")
            record = decode_record(buffer, frame)
            events = record.events()
            if record.first_sequence_number != expected or len(events) != record.count:
                raise StoreCorrupt(
                    f"file {number} of the journal: the record at {position} has {len(events)} events from "
                    f"{record.first_sequence_number} on, {record.count} from {expected} on were expected"
                )
            expected = record.next_sequence_number
            yield events
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
    if expected != job.segment.next_sequence_number:
        raise StoreCorrupt(
            f"the records of {job.segment.stem} end at {expected}, not at {job.segment.next_sequence_number}"
        )
