"""Messages as a test writes and reads them, in the words of the official SDK's own message classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tandem import wire_names
from tandem.amqp import Message
from tandem.amqp.message import Header, Properties, encode_message
from tandem.amqp.types import Timestamp

__all__ = ["BusMessage", "encode_bus_message", "read_bus_message"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# The values of x-opt-message-state.
_STATES: Final = ("active", "deferred", "scheduled")


@dataclass(frozen=True)
class BusMessage:
    """A message that is, or was, in a queue or a subscription. `str` gives its body as text."""

    body: bytes
    sequence_number: int
    enqueued_time_utc: datetime
    # "active", "deferred" or "scheduled".
    state: str
    delivery_count: int
    message_id: str | None = None
    subject: str | None = None
    session_id: str | None = None
    correlation_id: str | None = None
    content_type: str | None = None
    to: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    partition_key: str | None = None
    time_to_live: timedelta | None = None
    scheduled_enqueue_time_utc: datetime | None = None
    dead_letter_source: str | None = None
    # With those that say why a message is dead, as receivers see them.
    application_properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dead_letter_reason(self) -> str | None:
        return _text(self.application_properties.get(wire_names.DEAD_LETTER_REASON))

    @property
    def dead_letter_error_description(self) -> str | None:
        return _text(self.application_properties.get(wire_names.DEAD_LETTER_ERROR_DESCRIPTION))

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    def __str__(self) -> str:
        return self.body.decode()


def encode_bus_message(
    body: bytes | str,
    *,
    message_id: str | None = None,
    subject: str | None = None,
    session_id: str | None = None,
    correlation_id: str | None = None,
    content_type: str | None = None,
    to: str | None = None,
    reply_to: str | None = None,
    reply_to_session_id: str | None = None,
    partition_key: str | None = None,
    time_to_live: timedelta | None = None,
    scheduled_enqueue_time_utc: datetime | None = None,
    application_properties: Mapping[str, Any] | None = None,
) -> bytes:
    """The AMQP message with this body and these properties, as the official SDK would send it."""
    annotations: dict[str, object] = {}
    if partition_key is not None:
        annotations[wire_names.PARTITION_KEY] = partition_key
    if scheduled_enqueue_time_utc is not None:
        annotations[wire_names.SCHEDULED_ENQUEUE_TIME] = Timestamp(_milliseconds(scheduled_enqueue_time_utc - _EPOCH))
    return encode_message(
        header=None if time_to_live is None else Header(ttl_ms=_milliseconds(time_to_live)),
        message_annotations=annotations,
        properties=Properties(
            message_id=message_id,
            to=to,
            subject=subject,
            reply_to=reply_to,
            correlation_id=correlation_id,
            content_type=content_type,
            group_id=session_id,
            reply_to_group_id=reply_to_session_id,
        ),
        application_properties=application_properties,
        data=body.encode() if isinstance(body, str) else body,
    )


def read_bus_message(payload: bytes) -> BusMessage:
    """What a receiver was given, or would be."""
    message = Message(payload)
    header = message.header or Header()
    annotations = message.message_annotations or {}
    properties = message.properties or Properties()
    state = annotations.get(wire_names.MESSAGE_STATE, 0)
    return BusMessage(
        body=_body(message),
        sequence_number=_number(annotations.get(wire_names.SEQUENCE_NUMBER)),
        enqueued_time_utc=_moment(_number(annotations.get(wire_names.ENQUEUED_TIME))),
        state=_STATES[_number(state)],
        delivery_count=header.delivery_count,
        message_id=_text(properties.message_id),
        subject=properties.subject,
        session_id=properties.group_id,
        correlation_id=_text(properties.correlation_id),
        content_type=_text(properties.content_type),
        to=properties.to,
        reply_to=properties.reply_to,
        reply_to_session_id=properties.reply_to_group_id,
        partition_key=_text(annotations.get(wire_names.PARTITION_KEY)),
        time_to_live=None if header.ttl_ms is None else timedelta(milliseconds=header.ttl_ms),
        scheduled_enqueue_time_utc=_scheduled(annotations.get(wire_names.SCHEDULED_ENQUEUE_TIME)),
        dead_letter_source=_text(annotations.get(wire_names.DEAD_LETTER_SOURCE)),
        application_properties=message.application_properties or {},
    )


def _body(message: Message) -> bytes:
    """The bytes of the data sections; of a body of another kind, what it says as JSON."""
    if message.data is not None:
        return message.data
    value = message.sequence if message.value is None else message.value
    return value.encode() if isinstance(value, str) else json.dumps(value, default=str).encode()


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def _scheduled(value: object) -> datetime | None:
    return None if value is None else _moment(_number(value))


def _number(value: object) -> int:
    return int(value) if isinstance(value, int) else 0


def _text(value: object) -> str | None:
    return None if value is None else str(value)
