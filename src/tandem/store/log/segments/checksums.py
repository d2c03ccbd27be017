"""The checksums of a segment: a third file beside the .arrow and the .amqp file.

    <name>.sums    magic 8s · format version u16 · length of the index u32 · CRC-32 of the index u32
                   · index · CRC-32 of each event u32

The index is MessagePack: how long both files are, their CRCs, and for each record batch where it lies in either file,
the CRC of those bytes, and where the buffers of the columns lie. So a reader over AMQP reads the rows that it wants
with nothing but these places, compares each event with its own CRC, and loses no event but the damaged ones.

To change the format, raise FORMAT_VERSION and read the old one for as long as it can be met.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from typing import Final

import msgspec

from tandem.engine.hubs.event import Event

__all__ = [
    "HEADER_BYTES",
    "BatchIndex",
    "Buffer",
    "Piece",
    "SegmentIndex",
    "decode_sums",
    "encode_sums",
    "event_checksum",
]

FORMAT_VERSION: Final = 1

_MAGIC: Final = b"TANDEMSU"
_HEADER: Final = struct.Struct("<8sHII")
HEADER_BYTES: Final = _HEADER.size

_EVENT: Final = struct.Struct("<qqiiiiii")


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Some bytes of a file."""

    at: int
    length: int
    crc: int


# Where a buffer lies in a file, and its length; (0, 0) if the column does without.
Buffer = tuple[int, int]


class BatchIndex(msgspec.Struct, frozen=True, array_like=True):
    """One record batch: the same rows in both files."""

    row_count: int
    arrow: Piece
    amqp: Piece
    # By the name of a column of either file: validity, ends, values; or validity, values.
    buffers: dict[str, list[Buffer]]


class SegmentIndex(msgspec.Struct, frozen=True, array_like=True):
    """Both files. Their CRCs are those of the whole: they cover what lies between the batches too."""

    arrow: Piece
    amqp: Piece
    batches: list[BatchIndex]
    # Where the CRCs of the events begin in the .sums file; None if there are none.
    events_at: int | None = None


def event_checksum(event: Event) -> int:
    """Return the CRC-32 of everything that a reader gets of an event."""
    key, publisher = event.partition_key, event.publisher
    own, delivery = event.annotations, event.delivery_annotations
    key_bytes = b"" if key is None else key.encode()
    publisher_bytes = b"" if publisher is None else publisher.encode()
    start = _EVENT.pack(
        event.sequence_number,
        event.enqueued_at_ms,
        -1 if key is None else len(key_bytes),
        -1 if publisher is None else len(publisher_bytes),
        own.count,
        len(own.encoded),
        delivery.count,
        len(delivery.encoded),
    )
    if key_bytes or publisher_bytes or own.encoded or delivery.encoded:
        start = b"".join((start, key_bytes, publisher_bytes, own.encoded, delivery.encoded))
    return zlib.crc32(event.bare, zlib.crc32(start))


def encode_sums(index: SegmentIndex, event_checksums: array[int]) -> bytes:
    """The content of the .sums file."""
    # The place of the events depends on the length of the index, which must not depend on it: it is left out.
    encoded = msgspec.msgpack.encode(msgspec.structs.replace(index, events_at=None))
    header = _HEADER.pack(_MAGIC, FORMAT_VERSION, len(encoded), zlib.crc32(encoded))
    return header + encoded + event_checksums.tobytes()


def decode_sums(content: bytes) -> SegmentIndex | None:
    """The index of a .sums file, or None if it is damaged."""
    if len(content) < HEADER_BYTES:
        return None
    magic, version, length, crc = _HEADER.unpack_from(content)
    encoded = content[HEADER_BYTES : HEADER_BYTES + length]
    if magic != _MAGIC or version != FORMAT_VERSION or len(encoded) != length or zlib.crc32(encoded) != crc:
        return None
    index = msgspec.msgpack.decode(encoded, type=SegmentIndex)
    return msgspec.structs.replace(index, events_at=HEADER_BYTES + length)
