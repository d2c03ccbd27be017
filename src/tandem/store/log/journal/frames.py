"""How a record lies in the journal.

    file     header, frame, frame, ...
    header   magic 8s · format version u16 · number of the file u64 · salt u32 · CRC-32 of these u32
    frame    marker 4s · CRC-32 of what follows u32 · length of the body u32 · kind u8 · synced u64 · body
    EVENTS   hub u64 · partition u16 · first sequence number u64 · count u32 · enqueued at, ms i64 · flags u8
             · producer id, epoch and number i64 each · length of key u32 · length of publisher u32
             · key · publisher · payload
    POSITION hub u64 · partition u16 · begin u64 · next u64 · last enqueued at, ms i64
    PRODUCER hub u64 · partition u16 · producer id, epoch and number i64 each
             · events in its last transfer u32 · CRC-32 of that transfer u32
    HUB_DROPPED hub u64: it is gone, and its number is never given again

All little-endian. `synced` is the length up to which the file was known to be on disk when the frame was written. It
tells a write that was torn by a crash, behind which nothing was ever acknowledged, from damage to what was. The salt is
random, and where the CRC of every frame in the file begins: so nothing that a sender puts into an event, and nothing
that a deleted file left on the disk, is ever taken for a frame.

Older files have PRODUCER frames without the last transfer. Of an EVENTS frame it follows from count and payload. Files
of format 1 are the same, and were written by versions that kept no marks: see `marks`.

To change the format, raise FORMAT_VERSION and read the old one for as long as it can be met.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from tandem.engine.hubs.record import EventRecord, ProducerMark, transfer_checksum
from tandem.store.log.files import Bytes

__all__ = [
    "EVENTS",
    "FORMAT_VERSION",
    "HEADER_BYTES",
    "HUB_DROPPED",
    "MARKER",
    "NEVER_MS",
    "POSITION",
    "PRODUCER",
    "Frame",
    "Position",
    "RecordHead",
    "decode_hub_dropped",
    "decode_position",
    "decode_producer",
    "decode_record",
    "decode_record_head",
    "encode_header",
    "encode_hub_dropped",
    "encode_position",
    "encode_producer",
    "encode_record",
    "frame_head",
    "locate_frame",
    "salt_of",
    "version_of",
]

FORMAT_VERSION: Final = 2
_READABLE_VERSIONS: Final = (1, 2)

EVENTS: Final = 1
POSITION: Final = 2
PRODUCER: Final = 3
HUB_DROPPED: Final = 4

_MAGIC: Final = b"TANDEMEL"
_HEADER: Final = struct.Struct("<8sHQI")
HEADER_BYTES: Final = _HEADER.size + 4

# Found by a search when a frame is damaged, so not a byte sequence that text has.
MARKER: Final = b"\xf6\x9dTE"
_START: Final = struct.Struct("<4sI")
_COVERED: Final = struct.Struct("<IBQ")
_HEAD_BYTES: Final = _START.size + _COVERED.size

_EVENTS: Final = struct.Struct("<QHQIqBqqqII")
_POSITION: Final = struct.Struct("<QHQQq")
_PRODUCER: Final = struct.Struct("<QHqqq")
_LAST_TRANSFER: Final = struct.Struct("<II")
_HUB_DROPPED: Final = struct.Struct("<Q")

_IS_BATCH: Final = 1
_HAS_KEY: Final = 2
_HAS_PUBLISHER: Final = 4
_HAS_PRODUCER: Final = 8

# Stands for the last enqueued time of a partition that never had an event.
NEVER_MS: Final = -1


class Frame(NamedTuple):
    """A frame that was found, with a CRC that holds."""

    kind: int
    synced: int
    body_at: int
    end: int


class RecordHead(NamedTuple):
    """What the index needs of a record of events."""

    hub_number: int
    partition_id: int
    first_sequence_number: int
    event_count: int
    enqueued_at_ms: int
    size_bytes: int
    producer: ProducerMark | None


class Position(NamedTuple):
    """Where a partition stands."""

    hub_number: int
    partition_id: int
    begin_sequence_number: int
    next_sequence_number: int
    last_enqueued_at_ms: int


def encode_header(number: int, salt: int, version: int = FORMAT_VERSION) -> bytes:
    start = _HEADER.pack(_MAGIC, version, number, salt)
    return start + zlib.crc32(start).to_bytes(4, "little")


def salt_of(header: bytes, number: int) -> int | None:
    """What the header of the file with this number says, or None if it is not that."""
    if len(header) < HEADER_BYTES:
        return None
    _, version, _, salt = _HEADER.unpack_from(header)
    is_sound = version in _READABLE_VERSIONS and header == encode_header(number, salt, version)
    return int(salt) if is_sound else None


def version_of(header: bytes) -> int:
    """The format of a file whose header is sound."""
    version: int = _HEADER.unpack_from(header)[1]
    return version


def frame_head(salt: int, kind: int, synced: int, fixed: bytes, payload: bytes = b"") -> bytes:
    """A frame up to its payload, which is not copied: it is written behind."""
    covered = _COVERED.pack(len(fixed) + len(payload), kind, synced) + fixed
    return _START.pack(MARKER, zlib.crc32(payload, zlib.crc32(covered, salt))) + covered


def locate_frame(buffer: Bytes, at: int, salt: int) -> Frame | None:
    """The frame at this place, or None if there is none that is whole."""
    body_at = at + _HEAD_BYTES
    if body_at > len(buffer):
        return None
    marker, crc = _START.unpack_from(buffer, at)
    length, kind, synced = _COVERED.unpack_from(buffer, at + _START.size)
    end = body_at + length
    if marker != MARKER or end > len(buffer):
        return None
    if zlib.crc32(memoryview(buffer)[at + _START.size : end], salt) != crc:
        return None
    return Frame(kind, synced, body_at, end)


def encode_record(record: EventRecord) -> bytes:
    """The body of an EVENTS frame up to the payload."""
    flags = _IS_BATCH if record.is_batch else 0
    key = publisher = b""
    if record.partition_key is not None:
        flags |= _HAS_KEY
        key = record.partition_key.encode()
    if record.publisher is not None:
        flags |= _HAS_PUBLISHER
        publisher = record.publisher.encode()
    producer_id = epoch = number = 0
    producer = record.producer
    if producer is not None:
        flags |= _HAS_PRODUCER
        producer_id, epoch, number = producer.producer_id, producer.epoch, producer.sequence_number
    fixed = _EVENTS.pack(
        record.hub_number,
        record.partition_id,
        record.first_sequence_number,
        record.count,
        record.enqueued_at_ms,
        flags,
        producer_id,
        epoch,
        number,
        len(key),
        len(publisher),
    )
    return fixed + key + publisher if key or publisher else fixed


class _Fixed(NamedTuple):
    """The fixed part of a record of events."""

    hub_number: int
    partition_id: int
    first_sequence_number: int
    event_count: int
    enqueued_at_ms: int
    flags: int
    producer_id: int
    producer_epoch: int
    producer_number: int
    key_bytes: int
    publisher_bytes: int

    def producer(self, payload: bytes | memoryview) -> ProducerMark | None:
        if not self.flags & _HAS_PRODUCER:
            return None
        return ProducerMark(
            self.producer_id, self.producer_epoch, self.producer_number, self.event_count, transfer_checksum(payload)
        )


def decode_record_head(buffer: Bytes, frame: Frame) -> RecordHead:
    fixed = _Fixed(*_EVENTS.unpack_from(buffer, frame.body_at))
    payload_at = frame.body_at + _EVENTS.size + fixed.key_bytes + fixed.publisher_bytes
    producer = fixed.producer(memoryview(buffer)[payload_at : frame.end])
    return RecordHead(*fixed[:5], frame.end - payload_at, producer)


def decode_record(buffer: bytes, frame: Frame) -> EventRecord:
    """The whole record, with a payload of its own."""
    fixed = _Fixed(*_EVENTS.unpack_from(buffer, frame.body_at))
    key_at = frame.body_at + _EVENTS.size
    publisher_at = key_at + fixed.key_bytes
    payload_at = publisher_at + fixed.publisher_bytes
    payload = buffer[payload_at : frame.end]
    return EventRecord(
        fixed.hub_number,
        fixed.partition_id,
        fixed.first_sequence_number,
        fixed.event_count,
        fixed.enqueued_at_ms,
        payload,
        bool(fixed.flags & _IS_BATCH),
        buffer[key_at:publisher_at].decode() if fixed.flags & _HAS_KEY else None,
        buffer[publisher_at:payload_at].decode() if fixed.flags & _HAS_PUBLISHER else None,
        fixed.producer(payload),
    )


def encode_position(position: Position) -> bytes:
    return _POSITION.pack(*position)


def decode_position(buffer: Bytes, frame: Frame) -> Position:
    return Position(*_POSITION.unpack_from(buffer, frame.body_at))


def encode_producer(hub_number: int, partition_id: int, mark: ProducerMark) -> bytes:
    standing = _PRODUCER.pack(hub_number, partition_id, mark.producer_id, mark.epoch, mark.sequence_number)
    return standing + _LAST_TRANSFER.pack(mark.count, mark.checksum)


def decode_producer(buffer: Bytes, frame: Frame) -> tuple[int, int, ProducerMark]:
    hub, partition, producer_id, epoch, number = _PRODUCER.unpack_from(buffer, frame.body_at)
    transfer_at = frame.body_at + _PRODUCER.size
    count, checksum = _LAST_TRANSFER.unpack_from(buffer, transfer_at) if transfer_at < frame.end else (0, 0)
    return hub, partition, ProducerMark(producer_id, epoch, number, count, checksum)


def encode_hub_dropped(hub_number: int) -> bytes:
    return _HUB_DROPPED.pack(hub_number)


def decode_hub_dropped(buffer: Bytes, frame: Frame) -> int:
    number: int = _HUB_DROPPED.unpack_from(buffer, frame.body_at)[0]
    return number
