"""Messages of the official SDK: taken apart into single ones, and rewritten for the detour."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from tandem.pairing.ping import PING_CONTENT_TYPE, PING_TIME_TO_LIVE
from tandem.pairing.rewriting import SCHEDULED_ENQUEUE_TIME, Kept, with_kept

__all__ = ["PairedMessageBatch", "SdkMessage", "fitting_portion", "make_ping", "rewrite", "schedule", "single_messages"]

# What the SDK sends: its own message, the one below that, or a dictionary of the first one's parameters.
SdkMessage = ServiceBusMessage | AmqpAnnotatedMessage | Mapping[str, Any]

# Bytes. What a backlog queue takes, and takes in any tier.
_BACKLOG_BATCH_BYTES: Final = 262_144

_SCHEDULED: Final = "x-opt-scheduled-enqueue-time"

# What the broker says about a message it hands out, and what a message that is sent again must not say.
_FROM_BROKER: Final = frozenset(
    {
        "x-opt-sequence-number",
        "x-opt-enqueue-sequence-number",
        "x-opt-enqueued-time",
        "x-opt-locked-until",
        "x-opt-deadletter-source",
        "x-opt-message-state",
    }
)


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
    scheduled = _moment(annotations.pop(_SCHEDULED, None))
    diverted.annotations = {key: value for key, value in annotations.items() if key not in _FROM_BROKER}
    properties = {str(_text(key)): value for key, value in (diverted.application_properties or {}).items()}
    changed: dict[str | bytes, Any] = {}
    changed.update(with_kept(properties, Kept(path, session_id, time_to_live, scheduled)))
    if scheduled is not None:
        # The SDK writes its own types only.
        changed[SCHEDULED_ENQUEUE_TIME] = scheduled
    diverted.application_properties = changed
    return diverted


def fitting_portion(messages: Sequence[SdkMessage], path: str) -> list[AmqpAnnotatedMessage]:
    """The first of these messages, rewritten: as many as one batch for a backlog queue holds, and at least one."""
    batch = ServiceBusMessageBatch(_BACKLOG_BATCH_BYTES)
    portion: list[AmqpAnnotatedMessage] = []
    for message in messages:
        diverted = rewrite(message, path)
        try:
            batch.add_message(diverted)
        except MessageSizeExceededError:
            # One that is too large alone is refused by the queue, with its own words.
            return portion or [diverted]
        portion.append(diverted)
    return portion


def schedule(message: SdkMessage, moment: datetime) -> AmqpAnnotatedMessage:
    """A copy that appears at a time."""
    scheduled = copy.deepcopy(_annotated(message))
    scheduled.annotations = {**(scheduled.annotations or {}), _SCHEDULED.encode(): moment}
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
