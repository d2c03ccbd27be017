"""A message (AMQP 1.0 part 3.2): read section by section when asked, never sooner, and written from its parts.

`Message(payload)` finds the sections and decodes none. What a property returns is decoded at its first use and kept:
treat it as read-only. The body is only ever decoded by `data`, `sequence` and `value`, so that a broker that does not
call them stores and passes on bodies that it could not read.

Bytes that are not as the specification says raise DecodeError, which names the section and, where there is one, the
field: "properties.content-type must be a symbol, got UInt(3)".
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from tandem.amqp.decode import decode
from tandem.amqp.encode import encode, encode_described_list
from tandem.amqp.fields import Fields, show
from tandem.amqp.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SECTION_NAMES,
    Entries,
    Sections,
    data_section,
    data_start,
    locate,
)
from tandem.amqp.types import Symbol, Timestamp, UByte, UInt, ULong
from tandem.errors import DecodeError, UsageError

__all__ = [
    "NO_VALUE",
    "BodyKind",
    "Header",
    "Message",
    "MessageId",
    "Properties",
    "encode_message",
    "id_text",
    "text_of",
]

# A plain int is written as ulong, the only number that a message-id may be (parts 3.2.11 to 3.2.14).
MessageId: TypeAlias = str | bytes | int | uuid.UUID

_HEADER_FIELDS: Final = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")
_PROPERTIES_FIELDS: Final = (
    *("message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding"),
    *("absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id"),
)


class BodyKind(enum.Enum):
    """What the body of a message consists of."""

    NONE = "none"
    DATA = "data"
    SEQUENCE = "amqp-sequence"
    VALUE = "amqp-value"


_BODY_KINDS: Final = {
    0: BodyKind.NONE,
    DATA: BodyKind.DATA,
    AMQP_SEQUENCE: BodyKind.SEQUENCE,
    AMQP_VALUE: BodyKind.VALUE,
}


class _NoValue:
    """The type of NO_VALUE."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_VALUE"


# Says that no amqp-value is meant where None would be one: null is a value.
NO_VALUE: Final = _NoValue()


class Header:
    """The transport header (part 3.2.1). None is "not set" and is passed on as such: no defaults are filled in."""

    __slots__ = ("delivery_count", "durable", "first_acquirer", "priority", "ttl_ms")

    def __init__(
        self,
        durable: bool | None = None,
        priority: int | None = None,
        ttl_ms: int | None = None,
        first_acquirer: bool | None = None,
        delivery_count: int = 0,
    ) -> None:
        self.durable = durable
        self.priority = priority
        self.ttl_ms = ttl_ms
        self.first_acquirer = first_acquirer
        self.delivery_count = delivery_count

    @staticmethod
    def decode(payload: bytes, offset: int, end: int) -> Header:
        fields = _fields(payload, offset, end, "header", _HEADER_FIELDS)
        values = fields.values
        return Header(
            None if values[0] is None else fields.boolean(0, False),
            None if values[1] is None else fields.ubyte(1),
            None if values[2] is None else fields.uint(2),
            None if values[3] is None else fields.boolean(3, False),
            0 if values[4] is None else fields.uint(4) or 0,
        )

    def encode(self) -> bytes:
        return encode_described_list(HEADER, self._values())

    def _values(self) -> list[object]:
        return [
            self.durable,
            None if self.priority is None else UByte(self.priority),
            None if self.ttl_ms is None else UInt(self.ttl_ms),
            self.first_acquirer,
            UInt(self.delivery_count),
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Header) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values()))

    def __repr__(self) -> str:
        return show("Header", _HEADER_FIELDS, self._values())


class Properties:
    """The immutable properties of the bare message (part 3.2.4). Both times are milliseconds since 1970 in UTC."""

    __slots__ = (
        "absolute_expiry_time",
        "content_encoding",
        "content_type",
        "correlation_id",
        "creation_time",
        "group_id",
        "group_sequence",
        "message_id",
        "reply_to",
        "reply_to_group_id",
        "subject",
        "to",
        "user_id",
    )

    def __init__(
        self,
        message_id: MessageId | None = None,
        user_id: bytes | None = None,
        to: str | None = None,
        subject: str | None = None,
        reply_to: str | None = None,
        correlation_id: MessageId | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        absolute_expiry_time: int | None = None,
        creation_time: int | None = None,
        group_id: str | None = None,
        group_sequence: int | None = None,
        reply_to_group_id: str | None = None,
    ) -> None:
        self.message_id = message_id
        self.user_id = user_id
        self.to = to
        self.subject = subject
        self.reply_to = reply_to
        self.correlation_id = correlation_id
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.absolute_expiry_time = absolute_expiry_time
        self.creation_time = creation_time
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.reply_to_group_id = reply_to_group_id

    @staticmethod
    def decode(payload: bytes, offset: int, end: int) -> Properties:
        fields = _fields(payload, offset, end, "properties", _PROPERTIES_FIELDS)
        values = fields.values
        # Most fields are null in most messages: those cost no call.
        return Properties(
            None if values[0] is None else _message_id(fields, 0),
            None if values[1] is None else fields.binary(1),
            None if values[2] is None else fields.string(2),
            None if values[3] is None else fields.string(3),
            None if values[4] is None else fields.string(4),
            None if values[5] is None else _message_id(fields, 5),
            None if values[6] is None else _symbol_or_string(fields, 6),
            None if values[7] is None else _symbol_or_string(fields, 7),
            None if values[8] is None else _timestamp(fields, 8),
            None if values[9] is None else _timestamp(fields, 9),
            None if values[10] is None else fields.string(10),
            None if values[11] is None else fields.uint(11),
            None if values[12] is None else fields.string(12),
        )

    def encode(self) -> bytes:
        return encode_described_list(PROPERTIES, self._values())

    def _values(self) -> list[object]:
        return [
            _message_id_value(self.message_id),
            self.user_id,
            _string_value(self.to),
            _string_value(self.subject),
            _string_value(self.reply_to),
            _message_id_value(self.correlation_id),
            None if self.content_type is None else Symbol(self.content_type),
            None if self.content_encoding is None else Symbol(self.content_encoding),
            None if self.absolute_expiry_time is None else Timestamp(self.absolute_expiry_time),
            None if self.creation_time is None else Timestamp(self.creation_time),
            _string_value(self.group_id),
            None if self.group_sequence is None else UInt(self.group_sequence),
            _string_value(self.reply_to_group_id),
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Properties) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values()))

    def __repr__(self) -> str:
        return show("Properties", _PROPERTIES_FIELDS, self._values())


class Message:
    """The sections of one encoded message."""

    __slots__ = (
        "_application_properties",
        "_data",
        "_delivery_annotations",
        "_footer",
        "_header",
        "_message_annotations",
        "_properties",
        "_sequence",
        "_value",
        "sections",
    )

    def __init__(self, payload: bytes) -> None:
        self.sections: Sections = locate(payload)
        # A section that is there decodes to something other than None, so None is "not decoded yet".
        self._header: Header | None = None
        self._delivery_annotations: dict[object, object] | None = None
        self._message_annotations: dict[object, object] | None = None
        self._properties: Properties | None = None
        self._application_properties: dict[str, object] | None = None
        self._footer: dict[object, object] | None = None
        self._data: bytes | None = None
        self._sequence: list[object] | None = None
        self._value: object = NO_VALUE

    @property
    def payload(self) -> bytes:
        return self.sections.payload

    @property
    def bare_bytes(self) -> bytes:
        """Properties to footer, in the order of the specification."""
        return self.sections.bare()

    @property
    def header(self) -> Header | None:
        if self._header is None:
            start, end = self.sections.value_span(HEADER)
            if start >= 0:
                self._header = Header.decode(self.sections.payload, start, end)
        return self._header

    @property
    def delivery_annotations(self) -> dict[object, object] | None:
        if self._delivery_annotations is None:
            self._delivery_annotations = _annotations(self.sections, DELIVERY_ANNOTATIONS)
        return self._delivery_annotations

    @property
    def message_annotations(self) -> dict[object, object] | None:
        if self._message_annotations is None:
            self._message_annotations = _annotations(self.sections, MESSAGE_ANNOTATIONS)
        return self._message_annotations

    @property
    def properties(self) -> Properties | None:
        if self._properties is None:
            start, end = self.sections.value_span(PROPERTIES)
            if start >= 0:
                self._properties = Properties.decode(self.sections.payload, start, end)
        return self._properties

    @property
    def application_properties(self) -> dict[str, object] | None:
        """The keys are plain strings, though some SDKs write symbols."""
        if self._application_properties is None:
            pairs = _map(self.sections, APPLICATION_PROPERTIES)
            if pairs is not None:
                properties: dict[str, object] = {}
                for key, value in pairs.items():
                    if not isinstance(key, str):
                        raise DecodeError(f"application-properties: a key must be a string, got {key!r:.80}")
                    properties[str(key)] = value
                self._application_properties = properties
        return self._application_properties

    @property
    def footer(self) -> dict[object, object] | None:
        if self._footer is None:
            self._footer = _annotations(self.sections, FOOTER)
        return self._footer

    @property
    def body_kind(self) -> BodyKind:
        return _BODY_KINDS[self.sections.body_code]

    @property
    def data_sections(self) -> list[bytes]:
        """The octets of each data section; none if the body is of another kind."""
        if self.sections.body_code != DATA:
            return []
        payload = self.sections.payload
        spans = self.sections.body_spans
        return [payload[data_start(payload, spans[at + 1]) : spans[at + 2]] for at in range(0, len(spans), 3)]

    @property
    def data(self) -> bytes | None:
        """The data sections joined; None if the body is of another kind."""
        if self._data is None and self.sections.body_code == DATA:
            self._data = b"".join(self.data_sections)
        return self._data

    @property
    def sequence(self) -> list[object] | None:
        """The elements of all amqp-sequence sections; None if the body is of another kind."""
        if self._sequence is None and self.sections.body_code == AMQP_SEQUENCE:
            elements: list[object] = []
            spans = self.sections.body_spans
            for at in range(0, len(spans), 3):
                value, _ = decode(self.sections.payload, spans[at + 1], spans[at + 2])
                if value is not None:
                    assert isinstance(value, list)
                    elements += value
            self._sequence = elements
        return self._sequence

    @property
    def value(self) -> object:
        """The amqp-value; None if it is null or the body is of another kind."""
        if self.sections.body_code != AMQP_VALUE:
            return None
        if self._value is NO_VALUE:
            spans = self.sections.body_spans
            self._value, _ = decode(self.sections.payload, spans[1], spans[2])
        return self._value


def encode_message(
    *,
    header: Header | None = None,
    delivery_annotations: Mapping[str, object] | None = None,
    message_annotations: Mapping[str, object] | None = None,
    properties: Properties | None = None,
    application_properties: Mapping[str, object] | None = None,
    data: bytes | Iterable[bytes] | None = None,
    sequence: list[object] | None = None,
    value: object = NO_VALUE,
    footer: Mapping[str, object] | None = None,
) -> bytes:
    """A message from its parts. Maps that are empty are not written; `data` may be the contents of several sections."""
    bodies = (data is not None) + (sequence is not None) + (value is not NO_VALUE)
    if bodies > 1:
        raise UsageError("a message has one kind of body: give data, sequence or value")
    parts: list[bytes] = []
    if header is not None:
        parts.append(header.encode())
    if delivery_annotations:
        parts.append(Entries.with_symbol_keys(delivery_annotations).to_section(DELIVERY_ANNOTATIONS))
    if message_annotations:
        parts.append(Entries.with_symbol_keys(message_annotations).to_section(MESSAGE_ANNOTATIONS))
    if properties is not None:
        parts.append(properties.encode())
    if application_properties:
        parts.append(Entries.with_string_keys(application_properties).to_section(APPLICATION_PROPERTIES))
    if data is not None:
        parts += [data_section(piece) for piece in ([data] if isinstance(data, bytes) else data)]
    if sequence is not None:
        parts.append(_section(AMQP_SEQUENCE, sequence))
    if value is not NO_VALUE:
        parts.append(_section(AMQP_VALUE, value))
    if footer:
        parts.append(Entries.with_symbol_keys(footer).to_section(FOOTER))
    return b"".join(parts)


def text_of(value: object) -> str | None:
    """Return a string, also one whose UTF-8 came as a binary; None for anything else.

    The official Python SDK reads strings as bytes, and writes them as binary when it sends a received message on.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return None
    return None


def id_text(message_id: MessageId) -> str:
    """Return a message id or correlation id as text: ids are texts to the service, whatever type the sender wrote.

    A binary that holds text is that text: the official Python SDK sends a received message on with its ids as binary.
    """
    text = text_of(message_id)
    if text is not None:
        return text
    if isinstance(message_id, bytes):
        return message_id.hex()
    return str(message_id) if isinstance(message_id, uuid.UUID) else str(int(message_id))


def _section(code: int, value: object) -> bytes:
    return bytes((0x00, 0x53, code)) + encode(value)


def _map(sections: Sections, code: int) -> dict[object, object] | None:
    start, end = sections.value_span(code)
    if start < 0:
        return None
    value, _ = decode(sections.payload, start, end)
    assert isinstance(value, dict)
    return value


def _annotations(sections: Sections, code: int) -> dict[object, object] | None:
    """Keys are symbols, or ulongs that the specification reserves (part 3.2.10); strings are taken for symbols."""
    pairs = _map(sections, code)
    if pairs is not None:
        for key in pairs:
            if not isinstance(key, (str, ULong)):
                raise DecodeError(f"{SECTION_NAMES[code]}: a key must be a symbol, got {key!r:.80}")
    return pairs


def _fields(payload: bytes, offset: int, end: int, name: str, names: tuple[str, ...]) -> Fields:
    """The list between `offset` and `end`, which `locate` has found to be a list, with nulls for absent fields."""
    values = _short_list(payload, offset, end)
    if values is None:
        decoded, _ = decode(payload, offset, end)
        assert isinstance(decoded, list)
        values = decoded
    fields = Fields(name, names, values)
    for _ in range(len(names) - len(values)):
        values.append(None)
    return fields


def _short_list(payload: bytes, offset: int, end: int) -> list[object] | None:
    """What the decoder makes of a list of less than 256 bytes, with nulls, booleans and short strings read in place.

    Header and properties are read once per message, and nearly all that they hold are these. None stands for any
    irregularity, of which the decoder then gives the account. Running over `end` shows in the last comparison.
    """
    if payload[offset] != 0xC0:
        return None
    values: list[object] = []
    try:
        at = offset + 3
        for _ in range(payload[offset + 2]):
            code = payload[at]
            if code == 0x40:
                values.append(None)
                at += 1
            elif code == 0xA1:
                start = at + 2
                at = start + payload[at + 1]
                values.append(payload[start:at].decode("utf-8"))
            elif code == 0x41 or code == 0x42:
                values.append(code == 0x41)
                at += 1
            else:
                value, at = decode(payload, at, end)
                values.append(value)
    except (DecodeError, IndexError, UnicodeDecodeError):
        return None
    return values if at == end else None


def _message_id(fields: Fields, index: int) -> MessageId:
    value = fields.values[index]
    if isinstance(value, (str, bytes, ULong, uuid.UUID)) and not isinstance(value, Symbol):
        return value
    raise fields.wrong(index, "a string, ulong, uuid or binary")


def _symbol_or_string(fields: Fields, index: int) -> str:
    """The specification says symbol; some SDKs write a string."""
    value = fields.values[index]
    if isinstance(value, str):
        return value
    raise fields.wrong(index, "a symbol")


def _timestamp(fields: Fields, index: int) -> int:
    value = fields.values[index]
    if isinstance(value, Timestamp):
        return value
    raise fields.wrong(index, "a timestamp")


def _message_id_value(message_id: MessageId | None) -> object:
    if isinstance(message_id, int):
        return ULong(message_id)
    return _string_value(message_id) if isinstance(message_id, str) else message_id


def _string_value(text: str | None) -> str | None:
    """A plain string also of a symbol, which is one in Python and is not in AMQP."""
    return None if text is None else str(text)
