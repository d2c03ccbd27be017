"""A batch: many messages in one transfer, told by the transfer's message-format.

Each data section of the envelope holds one whole encoded message. The envelope may have properties and annotations of
its own, which the SDKs copy from the first message; of these only the partition key says something about the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.amqp.message import BodyKind, Message, Properties, encode_message, text_of
from tandem.errors import DecodeError, UsageError
from tandem.limits import MAX_MESSAGES_PER_BATCH
from tandem.wire_names import PARTITION_KEY

__all__ = ["BATCH_FORMAT", "locate_batch", "make_batch", "partition_key", "split_batch"]

# The message-format of a transfer that carries a batch: vendor 0x800137, version 0.
BATCH_FORMAT: Final = 0x8001_3700


def split_batch(envelope: Message | bytes) -> list[bytes]:
    """The encoded messages of a batch. They are not looked into, so that they may still prove to be malformed."""
    message = envelope if isinstance(envelope, Message) else Message(envelope)
    if message.body_kind is BodyKind.DATA or message.body_kind is BodyKind.NONE:
        # Their number is bounded: a message has at most MAX_MESSAGES_PER_BATCH data sections.
        return message.data_sections
    raise DecodeError(f"a batch holds its messages in data sections, this one has {message.body_kind.value}")


def locate_batch(envelope: Message | bytes) -> list[Message]:
    """The messages of a batch. DecodeError says by its index which of them is malformed."""
    messages: list[Message] = []
    for index, payload in enumerate(split_batch(envelope)):
        try:
            messages.append(Message(payload))
        except DecodeError as error:
            raise DecodeError(f"message {index} of the batch: {error}") from None
    return messages


def partition_key(envelope: Message) -> str | None:
    """Return the key that the whole batch is routed by, None if its sender set none."""
    key = (envelope.message_annotations or {}).get(PARTITION_KEY)
    if key is None:
        return None
    text = text_of(key)
    if text is None:
        raise DecodeError(f"message-annotations.{PARTITION_KEY} must be a string, got {key!r:.80}")
    return text


def make_batch(
    messages: list[bytes],
    *,
    message_annotations: Mapping[str, object] | None = None,
    properties: Properties | None = None,
) -> bytes:
    """The envelope around encoded messages, to be sent with BATCH_FORMAT."""
    if len(messages) > MAX_MESSAGES_PER_BATCH:
        raise UsageError(
            f"a batch of {len(messages)} messages is more than the {MAX_MESSAGES_PER_BATCH} allowed; split it"
        )
    return encode_message(message_annotations=message_annotations, properties=properties, data=messages)
