"""Messages of queues and topics as rows, in both directions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from tandem.client import BrokeredMessage
from tandem.engine.hubs.rows import json_text
from tandem.errors import DecodeError, UsageError
from tandem.spark.schemas import arrow_schema
from tandem.spark.typed_properties import COLUMN, column_of, values_of

__all__ = ["message_of", "messages_batch", "row_of"]


def message_of(row: dict[str, Any]) -> BrokeredMessage:
    """The message that a row describes. What is null, or not there, is not set; a message id is made."""
    time_to_live_ms, scheduled = row.get("timeToLiveMs"), row.get("scheduledEnqueueTime")
    return BrokeredMessage(
        row["body"],
        message_id=row.get("messageId"),
        label=row.get("label"),
        content_type=row.get("contentType"),
        correlation_id=row.get("correlationId"),
        session_id=row.get("sessionId"),
        reply_to=row.get("replyTo"),
        reply_to_session_id=row.get("replyToSessionId"),
        to=row.get("to"),
        partition_key=row.get("partitionKey"),
        time_to_live=None if time_to_live_ms is None else timedelta(milliseconds=time_to_live_ms),
        scheduled_enqueue_time_utc=None if scheduled is None else _in_utc(scheduled),
        properties=values_of(row.get("properties")),
    )


def row_of(message: BrokeredMessage, queue: str) -> dict[str, Any]:
    """Return what is seen of a message. Values that are not text are JSON, but properties are as they were sent."""
    time_to_live = message.time_to_live
    return {
        "queue": queue,
        "sequenceNumber": message.sequence_number,
        "enqueuedTime": message.enqueued_time_utc,
        "state": message.state.name.lower(),
        "deliveryCount": message.delivery_count,
        "expiresAt": message.expires_at_utc,
        "deadLetterReason": message.dead_letter_reason,
        "deadLetterErrorDescription": message.dead_letter_error_description,
        "deadLetterSource": message.dead_letter_source,
        "body": _body(message),
        "messageId": _text(message.message_id),
        "label": _text(message.label),
        "contentType": _text(message.content_type),
        "correlationId": _text(message.correlation_id),
        "sessionId": _text(message.session_id),
        "replyTo": _text(message.reply_to),
        "replyToSessionId": _text(message.reply_to_session_id),
        "to": _text(message.to),
        "partitionKey": _text(message.partition_key),
        "timeToLiveMs": None if time_to_live is None else time_to_live // timedelta(milliseconds=1),
        "scheduledEnqueueTime": message.scheduled_enqueue_time_utc,
        COLUMN: message.properties,
    }


def messages_batch(messages: list[BrokeredMessage], queue: str, schema: StructType) -> Any:
    """Rows of messages as a record batch with the columns of the schema."""
    rows = [row_of(message, queue) for message in messages]
    arrow = arrow_schema(schema)
    columns = []
    for field in schema:
        values, kind = [row[field.name] for row in rows], arrow.field(field.name).type
        columns.append(column_of(values, field.dataType, kind) if field.name == COLUMN else pa.array(values, kind))
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _body(message: BrokeredMessage) -> bytes:
    try:
        return message.body
    except UsageError:
        # A value or a sequence of AMQP, which other clients may send.
        return json_text(message.value).encode()
    except DecodeError:
        return b""


def _text(value: object) -> str | None:
    return None if value is None else json_text(value)


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
