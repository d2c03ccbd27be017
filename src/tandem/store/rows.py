"""A message as a row of the table, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from tandem.amqp.sections import NO_ENTRIES, Entries
from tandem.amqp.stored import Stored
from tandem.engine.message import NEVER_MS, SEQUENCE_BITS, SEQUENCE_MASK, BrokeredMessage, SharedBody
from tandem.errors import StoreDamaged
from tandem.store.checksums import checked_bytes, content_checksum

__all__ = [
    "ALL_COLUMNS",
    "BYTES_COLUMNS",
    "COLUMNS",
    "Row",
    "Value",
    "all_columns",
    "body_columns",
    "bytes_columns",
    "copy_columns",
    "fixed_columns",
    "message_of",
    "message_without_bytes",
    "page_of",
    "stored_of",
]

Value = int | float | str | bytes | None
Row = tuple[Value, ...]

COLUMNS: Final = (
    "row, state, delivery_count, enqueued_time_ms, expires_at_ms, due_at_ms, time_to_live_ms, session_id, size_bytes, "
    "enqueue_sequence_number, hop_count, partition, dead_letter_source, body_number"
)
BYTES_COLUMNS: Final = "header, delivery_annotations, message_annotations, bare, checksum"
ALL_COLUMNS: Final = f"{COLUMNS}, {BYTES_COLUMNS}"


def fixed_columns(message: BrokeredMessage) -> Row:
    expires_at_ms = message.expires_at_ms
    time_to_live_ms = message.time_to_live_ms
    return (
        message.row,
        message.state,
        message.delivery_count,
        message.enqueued_time_ms,
        None if expires_at_ms >= NEVER_MS else expires_at_ms,
        message.due_at_ms or None,
        None if time_to_live_ms >= NEVER_MS else time_to_live_ms,
        message.session_id,
        message.size_bytes,
        message.enqueue_sequence_number or None,
        message.hop_count or None,
        message.partition or None,
        message.dead_letter_source,
        message.body_number or None,
    )


def all_columns(message: BrokeredMessage) -> Row:
    stored = message.stored
    assert stored is not None
    return (*fixed_columns(message), *bytes_columns(stored, stored.bare))


def bytes_columns(stored: Stored, bare: bytes) -> Row:
    """The bytes of a message, and their checksum. `bare` is what the row holds of the bare message."""
    header = stored.header_fields
    delivery_annotations = _entries_column(stored.delivery_annotations)
    message_annotations = _entries_column(stored.message_annotations)
    size_bytes = len(header) + len(delivery_annotations or b"") + len(message_annotations or b"") + len(bare)
    checksum = None
    if size_bytes >= checked_bytes():
        # One of a small message would cost more than all else that is done for its row.
        checksum = content_checksum(header, delivery_annotations, message_annotations, bare)
    return header, delivery_annotations, message_annotations, bare, checksum


def copy_columns(message: BrokeredMessage, body: SharedBody) -> Row:
    """A message whose bytes are in a shared body, apart from those that an action changed for it."""
    stored = message.stored
    assert stored is not None
    if stored is body.stored:
        return (*fixed_columns(message), None, None, None, b"", None)
    if stored.tail:
        return (*fixed_columns(message), *bytes_columns(stored, stored.front))
    behind = len(body.stored.bare) - body.front_bytes
    return (*fixed_columns(message), *bytes_columns(stored, stored.bare[: len(stored.bare) - behind]))


def body_columns(body: SharedBody, copies: int) -> Row:
    return (
        body.number,
        copies,
        body.stream,
        body.size_bytes,
        body.front_bytes,
        *bytes_columns(body.stored, body.stored.bare),
    )


def stored_of(row: Row) -> Stored:
    """Return the bytes of a row's BYTES_COLUMNS. StoreDamaged if they are not those that were written."""
    return _stored(*cast("tuple[bytes, bytes | None, bytes | None, bytes, int | None]", row))


def _stored(
    header: bytes,
    delivery_annotations: bytes | None,
    message_annotations: bytes | None,
    bare: bytes,
    checksum: Value,
) -> Stored:
    # Small messages have none.
    if checksum is not None and checksum != content_checksum(header, delivery_annotations, message_annotations, bare):
        raise StoreDamaged("the bytes of a stored message have a wrong checksum")
    return Stored(header, _entries(delivery_annotations), _entries(message_annotations), bare)


def _entries_column(entries: Entries) -> bytes | None:
    return entries.count.to_bytes(4, "big") + entries.encoded if entries.count else None


def _entries(column: bytes | None) -> Entries:
    return NO_ENTRIES if column is None else Entries(column[4:], int.from_bytes(column[:4], "big"))


def message_without_bytes(row: Row) -> BrokeredMessage:
    # The types are those of the table's columns.
    key = cast("int", row[0])
    expires_at_ms = row[4]
    time_to_live_ms = row[6]
    message = BrokeredMessage(
        key >> SEQUENCE_BITS,
        key & SEQUENCE_MASK,
        cast("int", row[1]),
        cast("int", row[2]),
        cast("int", row[3]),
        NEVER_MS if expires_at_ms is None else cast("int", expires_at_ms),
        _number(row[5]),
        NEVER_MS if time_to_live_ms is None else cast("int", time_to_live_ms),
        cast("str | None", row[7]),
        cast("int", row[8]),
        _number(row[9]),
        _number(row[10]),
        _number(row[11]),
        cast("str | None", row[12]),
        None,
    )
    message.body_number = _number(row[13])
    return message


def _number(value: Value) -> int:
    return 0 if value is None else cast("int", value)


def message_of(row: Row) -> BrokeredMessage:
    """With its bytes; of a copy, only with those that it does not share. StoreDamaged if their checksum is wrong."""
    message = message_without_bytes(row)
    header = cast("bytes | None", row[14])
    if header is not None:
        message.stored = _stored(
            header, cast("bytes | None", row[15]), cast("bytes | None", row[16]), cast("bytes", row[17]), row[18]
        )
    return message


def page_of(rows: Iterable[Row], limit_bytes: int) -> list[BrokeredMessage]:
    """Messages until they are this large together; of the row after that, nothing is read."""
    messages: list[BrokeredMessage] = []
    size_bytes = 0
    for row in rows:
        message = message_of(row)
        messages.append(message)
        size_bytes += message.size_bytes
        if size_bytes >= limit_bytes:
            break
    return messages
