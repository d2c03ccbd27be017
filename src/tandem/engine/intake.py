"""From the bytes of a transfer to messages that a queue can take: what is read of them, and what is refused."""

from __future__ import annotations

from typing import Final

from tandem.amqp.batch import BATCH_FORMAT, split_batch
from tandem.amqp.message import Message, MessageId, Properties, id_text, text_of
from tandem.amqp.rewriting import has_message_id, with_message_id, with_service_decimals
from tandem.amqp.sections import APPLICATION_PROPERTIES, DECIMAL128, HEADER, MESSAGE_ANNOTATIONS, Entries
from tandem.amqp.stored import prepare_with_ttl
from tandem.amqp.types import Int, Timestamp
from tandem.engine.description import QueueDescription
from tandem.engine.message import ACTIVE, NEVER_MS, SCHEDULED, BrokeredMessage
from tandem.engine.session_key import session_key
from tandem.errors import (
    ArgumentOutOfRange,
    DecodeError,
    MessageSizeExceeded,
    NotAllowed,
    Scope,
)
from tandem.ids import Nonces
from tandem.limits import MAX_ID_CHARACTERS, MAX_MESSAGES_PER_SENT_BATCH, PARTITION_COUNT
from tandem.wire_names import (
    DELIVERY_TIME,
    MESSAGE_STATE,
    PARTITION_KEY,
    PING_CONTENT_TYPE,
    SCHEDULED_ENQUEUE_TIME,
    VIA_PARTITION_KEY,
)

__all__ = [
    "Draft",
    "canonical_id",
    "check_size",
    "message_id_of",
    "partition_key_of",
    "partition_of",
    "read_transfer",
    "schedule",
    "scheduled_time_of",
    "session_id_of",
    "usable_session_id",
    "via_partition_key_of",
]

_SCHEDULED_TIME: Final = SCHEDULED_ENQUEUE_TIME.encode()
_DELIVERY_TIME: Final = DELIVERY_TIME.encode()
_PARTITION_KEY: Final = PARTITION_KEY.encode()
_VIA_PARTITION_KEY: Final = VIA_PARTITION_KEY.encode()
# The end of both annotations that hold the key of a partition, so that one search finds either.
_PARTITION_KEYS: Final = b"-partition-key"

# A ping of the paired namespaces: an empty message of this content type. The text is looked for before anything is
# decoded, and only in messages small enough to be one.
_PING: Final = PING_CONTENT_TYPE.encode()
_MAX_PING_BYTES: Final = 1_024

_MAX_UINT: Final = 0xFFFF_FFFF
# Where `Sections.spans` has the end of the application properties; the start of their value is before it.
_PROPERTIES_END: Final = 3 * (APPLICATION_PROPERTIES - HEADER) + 2

_NO_SESSION_ID: Final = (
    "The SessionId was not set on a message, and it cannot be sent to the entity. Entities that have session support "
    "enabled can only receive messages that have the SessionId set to a valid value."
)


class Draft:
    """A message on its way in, and what is only of interest until it is in."""

    __slots__ = ("destination", "duplicate_key", "is_ping", "message", "partition_key")

    def __init__(self, message: BrokeredMessage, is_ping: bool) -> None:
        self.message = message
        self.is_ping = is_ping
        # Where a message that is sent by way of this queue shall go.
        self.destination: str | None = None
        self.duplicate_key: str | None = None
        self.partition_key: str | None = None


def read_transfer(
    payload: bytes,
    message_format: int,
    description: QueueDescription,
    max_message_size_bytes: int,
    now_ms: int,
    nonces: Nonces,
) -> list[Draft]:
    """Return the messages of one transfer, all of which can be taken, or raise an error that ends the delivery only."""
    try:
        if message_format != BATCH_FORMAT:
            return [_read(payload, description, max_message_size_bytes, now_ms, nonces)]
        pieces = split_batch(payload)
        if len(pieces) > MAX_MESSAGES_PER_SENT_BATCH:
            raise MessageSizeExceeded(
                f"The batch has {len(pieces)} messages; at most {MAX_MESSAGES_PER_SENT_BATCH} are allowed in one. Send "
                "them in several batches.",
                Scope.DELIVERY,
            )
        return [_read(piece, description, max_message_size_bytes, now_ms, nonces) for piece in pieces]
    except DecodeError as error:
        # Its bytes were framed well: the connection is sound, the message is not.
        raise DecodeError(str(error), Scope.DELIVERY) from None


def check_size(size_bytes: int, limit_bytes: int) -> None:
    """Refuse a message, or a batch of them, that is too large."""
    if size_bytes > limit_bytes:
        raise MessageSizeExceeded(
            f"The received message (size:{size_bytes} bytes) exceeds the limit ({limit_bytes} bytes) currently allowed "
            "on the link.",
            Scope.DELIVERY,
        )


def _read(
    payload: bytes, description: QueueDescription, max_message_size_bytes: int, now_ms: int, nonces: Nonces
) -> Draft:
    size_bytes = len(payload)
    check_size(size_bytes, max_message_size_bytes)
    source = Message(payload)
    stored, ttl_ms = prepare_with_ttl(source)
    time_to_live_ms = NEVER_MS if ttl_ms is None else ttl_ms
    if ttl_ms == _MAX_UINT:
        time_to_live_ms = max(time_to_live_ms, _written_lifetime_ms(source))
    if not has_message_id(source):
        # Clients tell messages by it, and not all of them give one: it is made here, 32 digits as the service's are.
        stored.front = with_message_id(stored.front, nonces.next().hex() + nonces.next().hex())
    message = BrokeredMessage(
        0, 0, ACTIVE, 0, now_ms, NEVER_MS, 0, time_to_live_ms, None, size_bytes, 0, 0, 0, None, stored
    )
    draft = Draft(message, False)
    if size_bytes < _MAX_PING_BYTES and _PING in payload:
        draft.is_ping = _is_ping(source)
    spans = source.sections.spans
    end = spans[_PROPERTIES_END]
    if end >= 0 and payload.find(DECIMAL128, spans[_PROPERTIES_END - 1], end) >= 0:
        stored.front = with_service_decimals(stored.front)
    if stored.delivery_annotations.count:
        stored.delivery_annotations = stored.delivery_annotations.with_service_decimals()
    annotations = stored.message_annotations
    if annotations.count:
        annotations = stored.message_annotations = annotations.with_service_decimals()
        if _SCHEDULED_TIME in annotations.encoded:
            _read_scheduled_time(source, message, now_ms)
        elif _DELIVERY_TIME in annotations.encoded:
            _read_delivery_time(source, message, now_ms)
        if _PARTITION_KEYS in annotations.encoded:
            draft.partition_key = _annotated_text(source, message, PARTITION_KEY)
            _annotated_text(source, message, VIA_PARTITION_KEY)
    # A ping has no session, and is taken all the same: it asks whether the entity can be reached.
    if description.judges_properties and not draft.is_ping:
        _read_properties(source, draft, description)
    return draft


def _written_lifetime_ms(source: Message) -> int:
    """The time to live as .NET clients write what the header cannot hold, 49 days and more: between two times."""
    properties = source.properties
    if properties is None or properties.absolute_expiry_time is None or properties.creation_time is None:
        return 0
    return properties.absolute_expiry_time - properties.creation_time


def _is_ping(source: Message) -> bool:
    properties = source.properties
    return properties is not None and properties.content_type == _PING.decode() and not source.data


def _read_scheduled_time(source: Message, message: BrokeredMessage, now_ms: int) -> None:
    at_ms = (source.message_annotations or {}).get(_SCHEDULED_TIME.decode())
    if at_ms is None:
        return
    if not isinstance(at_ms, Timestamp):
        raise DecodeError(f"message-annotations.{SCHEDULED_ENQUEUE_TIME} must be a timestamp, got {at_ms!r:.80}")
    if at_ms > now_ms:
        schedule(message, int(at_ms))


def _read_delivery_time(source: Message, message: BrokeredMessage, now_ms: int) -> None:
    """Schedule a message as clients of JMS do, which write milliseconds since 1970 as a number."""
    at_ms = (source.message_annotations or {}).get(DELIVERY_TIME)
    if isinstance(at_ms, int) and not isinstance(at_ms, bool) and at_ms > now_ms:
        schedule(message, min(int(at_ms), NEVER_MS))


def schedule(message: BrokeredMessage, due_at_ms: int) -> None:
    """Make a message one that its sender has scheduled. As from the service, it is delivered as such even when due."""
    stored = message.stored
    assert stored is not None
    message.stored = stored.with_annotations({MESSAGE_STATE: Int(SCHEDULED)})
    message.set_state(SCHEDULED, due_at_ms)


def _annotated_text(source: Message, message: BrokeredMessage, key: str) -> str | None:
    """Return an annotation that is a string. One that came as a binary is delivered as a string, as SDKs expect it."""
    value = (source.message_annotations or {}).get(key)
    if value is None:
        return None
    text = text_of(value)
    if text is None:
        raise DecodeError(f"message-annotations.{key} must be a string, got {value!r:.80}")
    if not isinstance(value, str):
        stored = message.stored
        assert stored is not None
        message.stored = stored.with_annotations({key: text})
    return _checked_id(key, text)


def _read_properties(source: Message, draft: Draft, description: QueueDescription) -> None:
    """Only queues that sort messages by their properties have these decoded."""
    properties = source.properties or Properties()
    session_id = properties.group_id
    if session_id is not None:
        session_id = _checked_id("session-id", session_id)
    if description.requires_session:
        if session_id is None:
            raise NotAllowed(_NO_SESSION_ID, Scope.DELIVERY)
        draft.message.session_id = session_id
    # An empty session id does not say where the message belongs; the partition key does.
    if session_id and draft.partition_key is not None and session_id != draft.partition_key:
        raise NotAllowed(
            f"The SessionId '{session_id}' and the PartitionKey '{draft.partition_key}' of a message must be the same.",
            Scope.DELIVERY,
        )
    message_id = None if properties.message_id is None else canonical_id(properties.message_id)
    key = session_id or (draft.partition_key if draft.partition_key is not None else session_id)
    if description.requires_duplicate_detection and message_id is not None:
        draft.duplicate_key = message_id
        if description.enable_partitioning and key is not None:
            draft.duplicate_key = f"{key}\x00{message_id}"
        key = key if key is not None else message_id
    if description.enable_partitioning:
        if session_id:
            key = session_key(session_id)
        elif key is None:
            # A message with nothing but a key for the way stays with those that the same transaction sends that way.
            key = _annotated_text(source, draft.message, _VIA_PARTITION_KEY.decode())
        draft.partition_key = key


def canonical_id(message_id: MessageId) -> str:
    """Return a message id of any type as the text by which duplicates are recognised."""
    return _checked_id("message-id", id_text(message_id))


def session_id_of(bare: bytes) -> str | None:
    """For a message that is forwarded to a queue with sessions from one without. One that cannot be used is none."""
    properties = _readable_properties(bare)
    return None if properties is None else usable_session_id(properties.group_id)


def usable_session_id(session_id: object) -> str | None:
    return session_id if isinstance(session_id, str) and len(session_id) <= MAX_ID_CHARACTERS else None


def _readable_properties(bare: bytes) -> Properties | None:
    """Nobody has looked at them so far, and whoever sent the message is not there to be told."""
    try:
        return Message(bare).properties
    except DecodeError:
        return None


def message_id_of(bare: bytes) -> str | None:
    """For a message that is forwarded to a queue that detects duplicates. One that cannot be used is none."""
    properties = _readable_properties(bare)
    if properties is None or properties.message_id is None:
        return None
    try:
        return canonical_id(properties.message_id)
    except ArgumentOutOfRange:
        return None


def partition_key_of(annotations: Entries) -> str | None:
    """The key that the sender gave, if it gave a text."""
    return _stored_text(annotations, _PARTITION_KEY)


def via_partition_key_of(annotations: Entries) -> str | None:
    """The key for the entity by way of which the message is sent, if the sender gave a text."""
    return _stored_text(annotations, _VIA_PARTITION_KEY)


def _stored_text(annotations: Entries, name: bytes) -> str | None:
    if name not in annotations.encoded:
        return None
    text = (Message(annotations.to_section(MESSAGE_ANNOTATIONS)).message_annotations or {}).get(name.decode())
    return str(text) if isinstance(text, str) else None


def scheduled_time_of(annotations: Entries) -> int:
    """When the message is to be enqueued, in milliseconds since 1970; 0 if it does not say."""
    if _SCHEDULED_TIME not in annotations.encoded:
        return 0
    message = Message(annotations.to_section(MESSAGE_ANNOTATIONS))
    at_ms = (message.message_annotations or {}).get(_SCHEDULED_TIME.decode())
    return int(at_ms) if isinstance(at_ms, Timestamp) else 0


def partition_of(key: str) -> int:
    """The same key always has the same partition: FNV-1a, which needs no state and spreads well."""
    value = 0x811C9DC5
    for byte in key.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value % PARTITION_COUNT


def _checked_id(field: str, text: str) -> str:
    if len(text) > MAX_ID_CHARACTERS:
        raise ArgumentOutOfRange(f"{field} has {len(text)} characters; at most {MAX_ID_CHARACTERS} are allowed")
    return text
