"""An event, to be sent or as it was read. Of one that was read nothing is decoded before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tandem.amqp import Message
from tandem.amqp.message import BodyKind, MessageId, Properties, encode_message
from tandem.amqp.types import Timestamp
from tandem.client.messaging.message_body import written_body
from tandem.errors import UsageError
from tandem.wire_names import ENQUEUED_TIME, OFFSET, PARTITION_KEY, SEQUENCE_NUMBER

__all__ = ["EventData"]


class EventData:
    """An event. The body is bytes; a text is written as UTF-8. `properties` are the program's own.

    Events with the same `partition_key` go to the same partition, and readers see the key.
    """

    __slots__ = ("_annotations", "_body", "_properties", "_source", "_system")

    def __init__(
        self,
        body: bytes | str = b"",
        *,
        properties: Mapping[str, object] | None = None,
        content_type: str | None = None,
        correlation_id: MessageId | None = None,
        message_id: MessageId | None = None,
        partition_key: str | None = None,
    ) -> None:
        self._source: Message | None = None
        self._body: bytes | None = written_body(body)
        self._properties: dict[str, object] | None = dict(properties or {})
        self._annotations: dict[str, object] | None = {} if partition_key is None else {PARTITION_KEY: partition_key}
        self._system: Properties | None = None
        if content_type is not None or correlation_id is not None or message_id is not None:
            self._system = Properties(message_id, content_type=content_type, correlation_id=correlation_id)

    @classmethod
    def from_payload(cls, payload: bytes) -> EventData:
        """An event as it was read. For the inside of this library."""
        event = cls.__new__(cls)
        event._source = Message(payload)
        event._body = event._properties = event._annotations = event._system = None
        return event

    @property
    def body(self) -> bytes:
        """The bytes of the body."""
        if self._body is None:
            assert self._source is not None
            value = self._source.value
            if self._source.body_kind is BodyKind.SEQUENCE or not (value is None or isinstance(value, str | bytes)):
                raise UsageError(f"the body is an {self._source.body_kind.value} and not bytes")
            self._body = self._source.data or (value.encode() if isinstance(value, str) else value) or b""
        return self._body

    @property
    def properties(self) -> dict[str, object]:
        """The program's own properties."""
        if self._properties is None:
            assert self._source is not None
            self._properties = self._source.application_properties or {}
        return self._properties

    @property
    def content_type(self) -> str | None:
        return self._bare.content_type

    @property
    def correlation_id(self) -> MessageId | None:
        return self._bare.correlation_id

    @property
    def message_id(self) -> MessageId | None:
        return self._bare.message_id

    @property
    def system_properties(self) -> dict[str, object]:
        """What the hub says about an event that was read, by the names it has on the wire."""
        if self._annotations is None:
            assert self._source is not None
            annotations = self._source.message_annotations or {}
            self._annotations = {str(key): value for key, value in annotations.items()}
        return self._annotations

    @property
    def sequence_number(self) -> int | None:
        """Its place in its partition: 0, 1, 2 and so on."""
        number = self.system_properties.get(SEQUENCE_NUMBER)
        return int(number) if isinstance(number, int) else None

    @property
    def offset(self) -> str | None:
        """Where it lies in its partition, as a text that only means something to the hub."""
        offset = self.system_properties.get(OFFSET)
        return str(offset) if isinstance(offset, str) else None

    @property
    def enqueued_time_utc(self) -> datetime | None:
        """When the hub took it."""
        moment = self.system_properties.get(ENQUEUED_TIME)
        return moment.to_datetime() if isinstance(moment, Timestamp) else None

    @property
    def partition_key(self) -> str | None:
        """The key by which the sender chose the partition."""
        key = self.system_properties.get(PARTITION_KEY)
        return str(key) if isinstance(key, str) else None

    @property
    def routing_key(self) -> str | None:
        """The key that chooses the partition when the event is sent. An event that was read has none.

        For the inside of this library.
        """
        return self.partition_key if self._source is None else None

    @property
    def _bare(self) -> Properties:
        if self._system is None:
            self._system = (self._source.properties if self._source is not None else None) or Properties()
        return self._system

    def to_payload(self, partition_key: str | None) -> bytes:
        """Encode the event with this key, or with its own. For the inside of this library."""
        if partition_key is None:
            partition_key = self.routing_key
        return encode_message(
            message_annotations=None if partition_key is None else {PARTITION_KEY: partition_key},
            properties=self._system if self._source is None else self._bare,
            application_properties=self.properties,
            data=self.body,
        )

    def __repr__(self) -> str:
        return f"EventData(sequence_number={self.sequence_number}, offset={self.offset!r})"
