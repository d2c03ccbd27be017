"""Messages of the official SDK: taken apart into single ones, and rewritten for the detour."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from tandem import wire_names
from tandem.client.messaging.message import BROKER_MARKS
from tandem.pairing.backlog import BACKLOG_BATCH_BYTES, detour_size_text
from tandem.pairing.ping import PING_CONTENT_TYPE, PING_TIME_TO_LIVE
from tandem.pairing.rewriting import SCHEDULED_ENQUEUE_TIME, Kept, with_kept

__all__ = [
    "DivertedMessages",
    "PairedMessageBatch",
    "SdkMessage",
    "make_ping",
    "rewrite",
    "schedule",
    "single_messages",
    "too_large_for_detour",
]

# What the SDK sends: its own message, the one below that, or a dictionary of the first one's parameters.
SdkMessage = ServiceBusMessage | AmqpAnnotatedMessage | Mapping[str, Any]

# Bytes. What the envelope of a batch adds to a message of 256 bytes or more; to a smaller one it adds less.
_ENVELOPE_BYTES_PER_MESSAGE: Final = 8


# Bytes. More than any message may have.
_UNBOUNDED: Final = 2**31 - 1

_EMPTY_BATCH_BYTES: Final = ServiceBusMessageBatch(_UNBOUNDED).size_in_bytes


class PairedMessageBatch(ServiceBusMessageBatch):
    """A batch of the SDK that also remembers what was put in it: on the detour each message is rewritten."""

    def __init__(self, max_size_in_bytes: int) -> None:
        super().__init__(max_size_in_bytes)
        self.messages: list[SdkMessage] = []

    def add_message(self, message: SdkMessage) -> None:
        """Add one more. MessageSizeExceededError if it does not fit any more."""
        super().add_message(message)
        self.messages.append(message)


def single_messages(message: SdkMessage | Iterable[SdkMessage] | ServiceBusMessageBatch) -> list[SdkMessage]:
    """Whatever `send_messages` takes, one by one."""
    if isinstance(message, PairedMessageBatch):
        return list(message.messages)
    if isinstance(message, ServiceBusMessageBatch):
        raise TypeError("the batch was not made by this sender: use its create_message_batch")
    if isinstance(message, ServiceBusMessage | AmqpAnnotatedMessage | Mapping):
        return [message]
    return list(message)


def rewrite(message: SdkMessage, path: str) -> AmqpAnnotatedMessage:
    """A copy for a backlog queue, of a message that was sent to `path`."""
    diverted = copy.deepcopy(_annotated(message))
    session_id = None
    if diverted.properties is not None:
        session_id = _text(diverted.properties.group_id)
        diverted.properties.group_id = None
    time_to_live = None
    if diverted.header is not None and diverted.header.time_to_live:
        time_to_live = timedelta(milliseconds=diverted.header.time_to_live)
        diverted.header.time_to_live = None
        if diverted.properties is not None:
            # The SDK derives it from the time to live, and again when the message is sent with one.
            diverted.properties.absolute_expiry_time = None
    annotations = {str(_text(key)): value for key, value in (diverted.annotations or {}).items()}
    scheduled = _moment(annotations.pop(wire_names.SCHEDULED_ENQUEUE_TIME, None))
    diverted.annotations = {key: value for key, value in annotations.items() if key not in BROKER_MARKS}
    properties = {str(_text(key)): value for key, value in (diverted.application_properties or {}).items()}
    changed: dict[str | bytes, Any] = {}
    changed.update(with_kept(properties, Kept(path, session_id, time_to_live, scheduled)))
    if scheduled is not None:
        # The SDK writes its own types only.
        changed[SCHEDULED_ENQUEUE_TIME] = scheduled
    diverted.application_properties = changed
    return diverted


class DivertedMessages:
    """The messages of one send, rewritten once for the detour, with the bytes that each has as it is sent."""

    def __init__(self, messages: Sequence[SdkMessage], path: str) -> None:
        self._path = path
        self._messages = [rewrite(message, path) for message in messages]
        self._sizes = [_encoded_size(message) for message in self._messages]

    # Any: a sender of the SDK, with or without asyncio.
    def portion(self, left: int, sender: Any, queue: str) -> list[AmqpAnnotatedMessage]:
        """Return the first of the last `left` messages: as many as one transfer to a backlog queue has, at least one.

        Refuses all of them if one is too large for the queue, before the first is sent. An open link knows what the
        queue takes, and the SDK does not show it; before, or should the SDK rename it, the queue itself refuses.
        """
        first = len(self._messages) - left
        limit_bytes = getattr(sender, "_max_message_size_on_link", 0)
        largest_bytes = max(self._sizes[first:])
        if limit_bytes and largest_bytes > limit_bytes:
            reason = f"the message has {largest_bytes:,} bytes as it is sent; '{queue}' takes at most {limit_bytes:,}"
            raise too_large_for_detour(self._path, reason)
        count, size_bytes = 0, _EMPTY_BATCH_BYTES
        for one in self._sizes[first:]:
            size_bytes += one + _ENVELOPE_BYTES_PER_MESSAGE
            if count and size_bytes > BACKLOG_BATCH_BYTES:
                break
            count += 1
        return self._messages[first : first + count]


def too_large_for_detour(path: str, reason: str) -> MessageSizeExceededError:
    return MessageSizeExceededError(message=detour_size_text(path, reason))


def _encoded_size(message: AmqpAnnotatedMessage) -> int:
    batch = ServiceBusMessageBatch(_UNBOUNDED)
    batch.add_message(message)
    return batch.size_in_bytes - _EMPTY_BATCH_BYTES - _ENVELOPE_BYTES_PER_MESSAGE


def schedule(message: SdkMessage, moment: datetime) -> AmqpAnnotatedMessage:
    """A copy that appears at a time."""
    scheduled = copy.deepcopy(_annotated(message))
    scheduled.annotations = {**(scheduled.annotations or {}), wire_names.SCHEDULED_ENQUEUE_TIME.encode(): moment}
    return scheduled


def make_ping() -> ServiceBusMessage:
    return ServiceBusMessage(b"", content_type=PING_CONTENT_TYPE, time_to_live=PING_TIME_TO_LIVE)


def _annotated(message: SdkMessage) -> AmqpAnnotatedMessage:
    if isinstance(message, AmqpAnnotatedMessage):
        return message
    whole = ServiceBusMessage(**message) if isinstance(message, Mapping) else message
    return whole.raw_amqp_message


def _text(value: object) -> str | None:
    """The SDK has texts as bytes in what it received."""
    return None if value is None else value.decode() if isinstance(value, bytes) else str(value)


def _moment(value: object) -> datetime | None:
    if isinstance(value, int):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC)
    return None
