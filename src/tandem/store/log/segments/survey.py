"""Where everything lies in the two files of a segment: made when it is sealed, or from a segment without checksums.

It loads pyarrow, and is imported where it is needed and not before.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from typing import Any, Final

from tandem.arrow import load_arrow
from tandem.event_columns import HEAD, PUBLIC_SCHEMA
from tandem.store.log.damage_log import EventsDamaged
from tandem.store.log.segments.checksums import BatchIndex, Piece, SegmentIndex
from tandem.store.log.segments.event_batches import AMQP_SCHEMA

__all__ = ["ARROW_CRC_KEY", "SUMS_KEY", "batch_of", "heads_in", "surveyed", "surveyed_unsummed"]

pa: Final = load_arrow()

# In the footer of the .amqp file: the CRC-32 of the .arrow file, and whether there is a .sums file.
ARROW_CRC_KEY: Final = b"arrow-crc32"
SUMS_KEY: Final = b"sums"

# What a file of Arrow begins with.
_MAGIC_BYTES: Final = 8

# The columns of the .arrow file that readers over AMQP need; of the .amqp file they need all.
_ARROW_COLUMNS: Final = ("body", "enqueuedTime", "publisher", "partitionKey")


def surveyed(arrow: Any, amqp: Any, arrow_crc: int) -> SegmentIndex:
    """The index of two files that lie in memory as buffers of Arrow, the CRC of the first of which is known."""
    arrow_batches = list(_batches(arrow, PUBLIC_SCHEMA))
    amqp_batches = list(_batches(amqp, None))
    if [batch.num_rows for _, batch in arrow_batches] != [batch.num_rows for _, batch in amqp_batches]:
        raise EventsDamaged("the files of the segment do not have the same rows")
    return SegmentIndex(
        Piece(0, arrow.size, arrow_crc),
        Piece(0, amqp.size, zlib.crc32(amqp)),
        [
            BatchIndex(
                batch.num_rows,
                piece,
                amqp_piece,
                {
                    **{name: _buffers(arrow, batch.column(name)) for name in _ARROW_COLUMNS},
                    **{name: _buffers(amqp, amqp_batch.column(name)) for name in amqp_batch.schema.names},
                },
            )
            for (piece, batch), (amqp_piece, amqp_batch) in zip(arrow_batches, amqp_batches, strict=True)
        ],
    )


def _batches(content: Any, schema: Any) -> Iterator[tuple[Piece, Any]]:
    """The batches of a file and where they lie, one message behind the other."""
    reader = pa.BufferReader(content)
    reader.seek(_MAGIC_BYTES)
    found_schema = pa.ipc.read_schema(pa.ipc.read_message(reader))
    schema = schema or (AMQP_SCHEMA if len(found_schema) == len(AMQP_SCHEMA) else found_schema)
    if not found_schema.equals(schema):
        raise EventsDamaged("the columns of a file of the segment are not those of a segment")
    while True:
        start = reader.tell()
        try:
            message = pa.ipc.read_message(reader)
        except EOFError:
            return
        batch = pa.ipc.read_record_batch(message, schema)
        end = reader.tell()
        yield Piece(start, end - start, zlib.crc32(content[start:end])), batch


def _buffers(content: Any, column: Any) -> list[tuple[int, int]]:
    return [
        (0, 0) if buffer is None or not buffer.size else (buffer.address - content.address, buffer.size)
        for buffer in column.buffers()
    ]


def batch_of(piece: bytes) -> Any:
    """The record batch of public columns that these bytes are."""
    return pa.ipc.read_record_batch(pa.py_buffer(piece), PUBLIC_SCHEMA)


def heads_in(piece: bytes, names: Collection[str]) -> Any:
    """The heads in the record batch of columns for AMQP that these bytes are. Older segments have fewer columns."""
    schema = pa.schema([field for field in AMQP_SCHEMA if field.name in names])
    return pa.ipc.read_record_batch(pa.py_buffer(piece), schema).column(HEAD)


def surveyed_unsummed(arrow: bytes, amqp: bytes) -> tuple[SegmentIndex, bool]:
    """The index of a segment without checksums of its events, and whether it should have them.

    Raises EventsDamaged. Everything that can be verified is: the CRC of the .arrow file, and that every offset of
    either file lies within it, so that reading a row afterwards is safe.
    """
    try:
        arrow_file = pa.ipc.open_file(pa.py_buffer(arrow))
        amqp_file = pa.ipc.open_file(pa.py_buffer(amqp))
        metadata = amqp_file.metadata or {}
        arrow_crc = zlib.crc32(arrow)
        if metadata.get(ARROW_CRC_KEY) != str(arrow_crc).encode():
            raise EventsDamaged("the CRC of the .arrow file is not the one that the .amqp file has")
        for file in (arrow_file, amqp_file):
            for at in range(file.num_record_batches):
                file.get_batch(at).validate(full=True)
        return surveyed(pa.py_buffer(arrow), pa.py_buffer(amqp), arrow_crc), SUMS_KEY in metadata
    except EventsDamaged:
        raise
    except Exception as error:
        # Whatever pyarrow makes of damaged bytes, SystemError included.
        raise EventsDamaged(f"a file of the segment cannot be read: {error}") from error
