"""A message as a row of the table, and back."""

from __future__ import annotations

from typing import Final, cast

from tandem.amqp.sections import NO_ENTRIES, Entries
from tandem.amqp.stored import Stored
from tandem.engine.message import NEVER_MS, SEQUENCE_BITS, SEQUENCE_MASK, BrokeredMessage

__all__ = [
    "ALL_COLUMNS",
    "COLUMNS",
    "Row",
    "Value",
    "byte_columns",
    "fixed_columns",
    "message_of",
    "message_without_bytes",
]

Value = int | float | str | bytes | None
Row = tuple[Value, ...]

COLUMNS: Final = (
    "row, state, delivery_count, enqueued_time_ms, expires_at_ms, due_at_ms, time_to_live_ms, session_id, size_bytes, "
    "enqueue_sequence_number, hop_count, partition, dead_letter_source"
)
ALL_COLUMNS: Final = f"{COLUMNS}, header, delivery_annotations, message_annotations, bare"


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
    )


def byte_columns(stored: Stored | None) -> Row:
    assert stored is not None
    return (
        stored.header_fields,
        _entries_column(stored.delivery_annotations),
        _entries_column(stored.message_annotations),
        stored.bare,
    )


def _entries_column(entries: Entries) -> bytes | None:
    return entries.count.to_bytes(4, "big") + entries.encoded if entries.count else None


def _entries(column: bytes | None) -> Entries:
    return NO_ENTRIES if column is None else Entries(column[4:], int.from_bytes(column[:4], "big"))


def message_without_bytes(row: Row) -> BrokeredMessage:
    key, state, delivery_count, enqueued_ms, expires_ms, due_ms, ttl_ms, session_id, size_bytes, *rest = row
    enqueue_number, hop_count, partition, dead_letter_source = rest
    # The types are those of the table's columns.
    key = cast("int", key)
    return BrokeredMessage(
        key >> SEQUENCE_BITS,
        key & SEQUENCE_MASK,
        cast("int", state),
        cast("int", delivery_count),
        cast("int", enqueued_ms),
        NEVER_MS if expires_ms is None else cast("int", expires_ms),
        cast("int", due_ms or 0),
        NEVER_MS if ttl_ms is None else cast("int", ttl_ms),
        cast("str | None", session_id),
        cast("int", size_bytes),
        cast("int", enqueue_number or 0),
        cast("int", hop_count or 0),
        cast("int", partition or 0),
        cast("str | None", dead_letter_source),
        None,
    )


def message_of(row: Row) -> BrokeredMessage:
    message = message_without_bytes(row[:13])
    header, delivery_annotations, message_annotations, bare = cast(
        "tuple[bytes, bytes | None, bytes | None, bytes]", row[13:]
    )
    message.stored = Stored(header, _entries(delivery_annotations), _entries(message_annotations), bare)
    return message
