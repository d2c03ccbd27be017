"""A message with the names that the service gives its parts: `BrokeredMessage`, to be sent or as it was received.

Of a received message nothing is decoded before it is asked for, and the body never unless `body` or `value` is read.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, overload

from tandem import wire_names
from tandem.amqp import Message
from tandem.amqp.message import BodyKind, Header, MessageId, Properties, encode_message
from tandem.amqp.sections import FOOTER
from tandem.amqp.stored import BROKER_ANNOTATIONS
from tandem.amqp.types import Timestamp
from tandem.client.messaging.message_body import Body, read_body, written_body
from tandem.client.wire.checks import require_timedelta
from tandem.errors import EncodeError, UsageError
from tandem.limits import MAX_MESSAGE_TIME_TO_LIVE_MS
from tandem.rules.values import TimeSpan, amqp_value

if TYPE_CHECKING:
    from tandem.client.messaging.transaction import Transaction

__all__ = ["BROKER_MARKS", "BrokeredMessage", "MessageState", "Settlement", "Settler"]

# What the broker says about a message it hands out, and what a message that is sent again must not say.
BROKER_MARKS: Final = frozenset(name.decode() for name in BROKER_ANNOTATIONS)

_MILLISECOND: Final = timedelta(milliseconds=1)


class MessageState(enum.Enum):
    """Where a message stands in its entity."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


class Settlement(enum.Enum):
    """What becomes of a locked message, by the name that `$management` has for it."""

    COMPLETE = "completed"
    ABANDON = "abandoned"
    DEFER = "defered"
    DEAD_LETTER = "suspended"


class Settler(Protocol):
    """The receiver that a locked message came from."""

    async def settle(
        self,
        message: BrokeredMessage,
        settlement: Settlement,
        properties: Mapping[str, object] | None,
        transaction: Transaction | None,
    ) -> None:
        """Tell the service what becomes of the message, and wait until it has done it."""

    async def renew_lock(self, message: BrokeredMessage) -> datetime:
        """Hold the message for another lock duration."""


_EMPTY_HEADER: Final = Header()

Value = TypeVar("Value")


class _SenderProperty(Generic[Value]):
    """A property of a message that is a field of AMQP's section `properties`, by the name it has there."""

    __slots__ = ("_field",)

    def __init__(self, field: str) -> None:
        self._field = field

    @overload
    def __get__(self, message: None, owner: type[BrokeredMessage]) -> _SenderProperty[Value]: ...

    @overload
    def __get__(self, message: BrokeredMessage, owner: type[BrokeredMessage]) -> Value: ...

    def __get__(self, message: BrokeredMessage | None, owner: type[BrokeredMessage]) -> _SenderProperty[Value] | Value:
        if message is None:
            return self
        value: Value = getattr(message.sender_properties, self._field)
        return value

    def __set__(self, message: BrokeredMessage, value: Value) -> None:
        setattr(message.sender_properties, self._field, value)


class BrokeredMessage:
    """A message.

    The body is bytes; a text is written as UTF-8. `properties` are the program's own, and what rules look at. Times
    are datetimes with a time zone. A message id is made unless one is given, so that a message that is sent twice, as
    it may be when a connection is lost, can be known as one.
    """

    __slots__ = (
        "_annotations",
        "_application_properties",
        "_body",
        "_delivery",
        "_header",
        "_lock_token",
        "_locked_until_ms",
        "_properties",
        "_settler",
        "_source",
    )

    def __init__(
        self,
        body: bytes | str = b"",
        *,
        message_id: MessageId | None = None,
        label: str | None = None,
        content_type: str | None = None,
        correlation_id: MessageId | None = None,
        session_id: str | None = None,
        reply_to: str | None = None,
        reply_to_session_id: str | None = None,
        to: str | None = None,
        partition_key: str | None = None,
        time_to_live: timedelta | None = None,
        scheduled_enqueue_time_utc: datetime | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> None:
        # What was received, for as long as not all of it is decoded; None for a message that was made here.
        self._source: Message | None = None
        self._settler: Settler | None = None
        self._locked_until_ms: int | None = None
        # What its receiver knows it by on the link.
        self._delivery: object = None
        self._lock_token: uuid.UUID | None = None
        # None is the body of the source.
        self._body: bytes | None = written_body(body)
        self._header: Header | None = None
        self._annotations: dict[str, object] | None = {}
        self._application_properties: dict[str, object] | None = dict(properties) if properties else {}
        self._properties: Properties | None = Properties(
            message_id=uuid.uuid4().hex if message_id is None else message_id,
            to=to,
            subject=label,
            reply_to=reply_to,
            correlation_id=correlation_id,
            content_type=content_type,
            group_id=session_id,
            reply_to_group_id=reply_to_session_id,
        )
        if partition_key is not None:
            self.partition_key = partition_key
        if time_to_live is not None:
            self.time_to_live = time_to_live
        if scheduled_enqueue_time_utc is not None:
            self.scheduled_enqueue_time_utc = scheduled_enqueue_time_utc

    @classmethod
    def from_payload(cls, payload: bytes, settler: Settler | None = None) -> BrokeredMessage:
        """A message as it was received, with who can settle it. For the inside of this library."""
        message = cls.__new__(cls)
        message._source = Message(payload)
        message._body = None
        message._settler = settler
        message._locked_until_ms = None
        message._delivery = None
        message._lock_token = None
        message._header = None
        message._annotations = None
        message._application_properties = None
        message._properties = None
        return message

    def clone(self) -> BrokeredMessage:
        """A message to be sent, with the same body, byte for byte, and the same properties."""
        copy = BrokeredMessage.from_payload(self.to_payload())
        copy._annotations = {key: value for key, value in self._marks.items() if key not in BROKER_MARKS}
        copy._head.delivery_count = 0
        return copy

    # --- the body -------------------------------------------------------------------------------------------

    @property
    def body(self) -> bytes:
        """The bytes of the body. Of a body that is one AMQP string or binary, these."""
        if self._body is not None:
            return self._body
        source = self.received
        data = source.data
        if data is not None:
            return data
        value = source.value
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes):
            return value
        if source.body_kind is not BodyKind.SEQUENCE and value is None:
            return b""
        raise UsageError(f"the body is an {source.body_kind.value} and not bytes; read `value`")

    @body.setter
    def body(self, body: bytes | str) -> None:
        self._body = written_body(body)

    @overload
    def get_body(self) -> bytes: ...

    @overload
    def get_body(self, kind: type[Body]) -> Body: ...

    def get_body(self, kind: type[Body] | type[bytes] = bytes) -> Body | bytes:
        """Return the body as a type: bytes, str, or whatever JSON can be read as.

        `bytes` is the body as it is, `str` is UTF-8. Any other type is read from JSON and checked: `dict`, `list`,
        `int`, `dict[str, int]`, a dataclass, a TypedDict, a `msgspec.Struct`. A body that another client wrote as an
        AMQP value, such as a map, is converted to the type in the same way.
        """
        return read_body(self.value, kind, self)

    @property
    def value(self) -> object:
        """The body as other AMQP clients may write it: one value, or a list of those of a sequence; else the bytes."""
        if self._body is not None:
            return self._body
        source = self.received
        if source.body_kind is BodyKind.VALUE:
            return source.value
        if source.body_kind is BodyKind.SEQUENCE:
            return source.sequence
        return source.data or b""

    # --- what the sender says -------------------------------------------------------------------------------

    @property
    def received(self) -> Message:
        """The message as it came, before any change. For the inside of this library."""
        assert self._source is not None, "what is not set was received"
        return self._source

    @property
    def sender_properties(self) -> Properties:
        """The section `properties`. For the inside of this library."""
        if self._properties is None:
            self._properties = self.received.properties or Properties()
        return self._properties

    @property
    def _head(self) -> Header:
        if self._header is None:
            self._header = (self._source.header if self._source is not None else None) or Header()
        return self._header

    @property
    def _marks(self) -> dict[str, object]:
        if self._annotations is None:
            marks = self.received.message_annotations or {}
            self._annotations = {str(key): value for key, value in marks.items()}
        return self._annotations

    @property
    def properties(self) -> dict[str, object]:
        """The program's own properties, which rules look at."""
        if self._application_properties is None:
            self._application_properties = self.received.application_properties or {}
        return self._application_properties

    message_id = _SenderProperty[MessageId | None]("message_id")
    label = _SenderProperty[str | None]("subject")
    content_type = _SenderProperty[str | None]("content_type")
    correlation_id = _SenderProperty[MessageId | None]("correlation_id")
    session_id = _SenderProperty[str | None]("group_id")
    reply_to = _SenderProperty[str | None]("reply_to")
    reply_to_session_id = _SenderProperty[str | None]("reply_to_group_id")
    to = _SenderProperty[str | None]("to")

    @property
    def partition_key(self) -> str | None:
        return _text(self._marks.get(wire_names.PARTITION_KEY))

    @partition_key.setter
    def partition_key(self, partition_key: str | None) -> None:
        _put(self._marks, wire_names.PARTITION_KEY, partition_key)

    @property
    def via_partition_key(self) -> str | None:
        return _text(self._marks.get(wire_names.VIA_PARTITION_KEY))

    @via_partition_key.setter
    def via_partition_key(self, partition_key: str | None) -> None:
        _put(self._marks, wire_names.VIA_PARTITION_KEY, partition_key)

    @property
    def time_to_live(self) -> timedelta | None:
        """How long the message may wait to be received; None if its sender set no limit."""
        ttl_ms = self._head.ttl_ms
        return None if ttl_ms is None else timedelta(milliseconds=ttl_ms)

    @time_to_live.setter
    def time_to_live(self, time_to_live: timedelta | None) -> None:
        if time_to_live is not None:
            require_timedelta("time_to_live", time_to_live)
        ttl_ms = None if time_to_live is None else time_to_live // _MILLISECOND
        if ttl_ms is not None and not 1 <= ttl_ms <= MAX_MESSAGE_TIME_TO_LIVE_MS:
            longest = timedelta(milliseconds=MAX_MESSAGE_TIME_TO_LIVE_MS)
            raise UsageError(
                f"time_to_live is {time_to_live}; it must be from 1 ms to {longest}, or None for the entity's own"
            )
        self._head.ttl_ms = ttl_ms

    @property
    def scheduled_enqueue_time_utc(self) -> datetime | None:
        return _moment(self._marks.get(wire_names.SCHEDULED_ENQUEUE_TIME))

    @scheduled_enqueue_time_utc.setter
    def scheduled_enqueue_time_utc(self, moment: datetime | None) -> None:
        _put(
            self._marks,
            wire_names.SCHEDULED_ENQUEUE_TIME,
            None if moment is None else _timestamp("scheduled_enqueue_time_utc", moment),
        )

    # --- what the service says ------------------------------------------------------------------------------

    @property
    def sequence_number(self) -> int | None:
        """Given by the entity when it takes the message: 1, 2, 3 and so on."""
        return _number(self._marks.get(wire_names.SEQUENCE_NUMBER))

    @property
    def enqueued_sequence_number(self) -> int | None:
        """The sequence number in the topic or queue from which it was passed on."""
        return _number(self._marks.get(wire_names.ENQUEUE_SEQUENCE_NUMBER))

    @property
    def delivery_count(self) -> int:
        """How often it was handed out before, in vain: 0 at its first delivery."""
        return self._head.delivery_count

    @property
    def enqueued_time_utc(self) -> datetime | None:
        return _moment(self._marks.get(wire_names.ENQUEUED_TIME))

    @property
    def expires_at_utc(self) -> datetime | None:
        """When it expires by its own time to live; None if it has none."""
        enqueued, time_to_live = self.enqueued_time_utc, self.time_to_live
        return None if enqueued is None or time_to_live is None else enqueued + time_to_live

    @property
    def lock_token(self) -> uuid.UUID | None:
        """What its lock is known by; None if it is not locked."""
        return self._lock_token

    @property
    def locked_until_utc(self) -> datetime | None:
        if self._locked_until_ms is not None:
            return Timestamp(self._locked_until_ms).to_datetime()
        return _moment(self._marks.get(wire_names.LOCKED_UNTIL))

    @property
    def dead_letter_source(self) -> str | None:
        return _text(self._marks.get(wire_names.DEAD_LETTER_SOURCE))

    @property
    def dead_letter_reason(self) -> str | None:
        return _text(self.properties.get(wire_names.DEAD_LETTER_REASON))

    @property
    def dead_letter_error_description(self) -> str | None:
        return _text(self.properties.get(wire_names.DEAD_LETTER_ERROR_DESCRIPTION))

    @property
    def state(self) -> MessageState:
        return MessageState(_number(self._marks.get(wire_names.MESSAGE_STATE)) or 0)

    @property
    def size(self) -> int:
        """Bytes: as it was received, or as it would be sent."""
        return len(self.to_payload() if self._source is None else self._source.payload)

    def hold(self, delivery: object, lock_token: uuid.UUID | None) -> None:
        """Remember what the message is settled by. For the inside of this library."""
        self._delivery = delivery
        self._lock_token = lock_token

    def take_delivery(self) -> object:
        """The delivery to settle it by, once: on a link each is settled once. For the inside of this library."""
        delivery, self._delivery = self._delivery, None
        return delivery

    # --- settling -------------------------------------------------------------------------------------------

    async def complete(self, *, transaction: Transaction | None = None) -> None:
        """The message was dealt with: it is consumed."""
        await self._lock_holder.settle(self, Settlement.COMPLETE, None, transaction)

    async def abandon(
        self, properties: Mapping[str, object] | None = None, *, transaction: Transaction | None = None
    ) -> None:
        """Unlock the message at once for the next receiver, with some properties changed if you like."""
        await self._lock_holder.settle(self, Settlement.ABANDON, properties, transaction)

    async def defer(
        self, properties: Mapping[str, object] | None = None, *, transaction: Transaction | None = None
    ) -> None:
        """Set the message aside. From now on it is only received by its sequence number, which you must keep."""
        await self._lock_holder.settle(self, Settlement.DEFER, properties, transaction)

    async def dead_letter(
        self,
        reason: str | None = None,
        description: str | None = None,
        properties: Mapping[str, object] | None = None,
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Move the message to the dead-letter queue of its entity, and say why."""
        changes = dict(properties or {})
        if reason is not None:
            changes[wire_names.DEAD_LETTER_REASON] = reason
        if description is not None:
            changes[wire_names.DEAD_LETTER_ERROR_DESCRIPTION] = description
        await self._lock_holder.settle(self, Settlement.DEAD_LETTER, changes, transaction)

    async def renew_lock(self) -> datetime:
        """Keep the lock for another lock duration from now. Returns when it will end."""
        until = await self._lock_holder.renew_lock(self)
        self._locked_until_ms = Timestamp.from_datetime(until)
        return until

    @property
    def _lock_holder(self) -> Settler:
        if self._settler is None:
            raise UsageError(
                "the message is not locked: it was made here, peeked at, or received in the mode RECEIVE_AND_DELETE"
            )
        return self._settler

    # --- on the wire ----------------------------------------------------------------------------------------

    @property
    def _written_header(self) -> Header | None:
        """The header, unless nothing is set in it: a message that is sent again is no larger than it was."""
        header = self._header if self._source is None else self._head
        return None if header == _EMPTY_HEADER else header

    def to_payload(self) -> bytes:
        """The message encoded. For the inside of this library."""
        if self._body is not None:
            return encode_message(
                header=self._written_header,
                message_annotations=self._marks,
                properties=self.sender_properties,
                application_properties=_encodable(self.properties),
                data=self._body,
            )
        head = encode_message(
            header=self._written_header,
            message_annotations=self._marks,
            properties=self.sender_properties,
            application_properties=_encodable(self.properties),
        )
        sections = self.received.sections
        # The body as it was received, of whatever kind: it is not decoded to be sent again.
        return head + (sections.raw(sections.body_code) if sections.body_code else b"") + sections.raw(FOOTER)

    def __repr__(self) -> str:
        number = self.sequence_number
        return f"BrokeredMessage({self.message_id!r}{'' if number is None else f', sequence_number={number}'})"


def _encodable(properties: dict[str, object]) -> dict[str, object]:
    """Properties with Python's own times as the service writes them."""
    for value in properties.values():
        if isinstance(value, (datetime, timedelta)):
            return {name: _encodable_value(name, each) for name, each in properties.items()}
    return properties


def _encodable_value(name: str, value: object) -> object:
    if isinstance(value, datetime):
        return _timestamp(f"properties[{name!r}]", value)
    if isinstance(value, timedelta):
        return amqp_value(TimeSpan.of_ms(value // _MILLISECOND))
    return value


def _put(marks: dict[str, object], key: str, value: object) -> None:
    if value is None:
        marks.pop(key, None)
    else:
        marks[key] = value


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None


def _moment(value: object) -> datetime | None:
    return value.to_datetime() if isinstance(value, Timestamp) else None


def _timestamp(field: str, moment: datetime) -> Timestamp:
    try:
        return Timestamp.from_datetime(moment)
    except EncodeError as error:
        raise UsageError(f"{field}: {error}") from None
