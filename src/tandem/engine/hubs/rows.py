"""Events as rows: what stands in each column. Nothing here knows Arrow.

The body of most events is one data section. It is kept once, in the column of bodies, and what lies before and behind
it in the bare message goes into two others: head + body + footer are the bytes that were sent. Of any other event the
head is the whole bare message, the footer is None, and the body is what a reader of columns can make of it.
"""

from __future__ import annotations

import base64
import json
import math
import uuid
from typing import Final

from tandem.amqp.message import BodyKind, Message, Properties
from tandem.amqp.sections import DATA, MESSAGE_ANNOTATIONS, Entries, data_start
from tandem.amqp.types import Array, Decimal32, Decimal64, Decimal128, Described
from tandem.engine.hubs.event import Event
from tandem.errors import DecodeError, TandemError

__all__ = ["Pairs", "Rows", "head_properties", "json_text"]

# How a data section begins, up to the length of its content, in one byte or in four: what a head ends with.
_SHORT_DATA: Final = b"\x00\x53\x75\xa0"
_LONG_DATA: Final = b"\x00\x53\x75\xb0"

_NO_PROPERTIES: Final = Properties()


class Pairs:
    """A column of maps from text to text: all keys and values one behind the other, and where each row ends."""

    __slots__ = ("ends", "keys", "values")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.values: list[str] = []
        self.ends: list[int] = [0]

    def add(self, key: str, value: object) -> None:
        self.keys.append(key)
        self.values.append(json_text(value))

    def end_row(self) -> None:
        self.ends.append(len(self.keys))


class Rows:
    """Columns of consecutive events, from the first number on."""

    __slots__ = (
        "annotation_counts",
        "annotations",
        "bodies",
        "delivery_annotation_counts",
        "delivery_annotations",
        "first_sequence_number",
        "footers",
        "heads",
        "partition_keys",
        "properties",
        "publishers",
        "size_bytes",
        "system_properties",
        "times_ms",
    )

    def __init__(self, first_sequence_number: int) -> None:
        self.first_sequence_number = first_sequence_number
        self.bodies: list[bytes] = []
        self.times_ms: list[int] = []
        self.publishers: list[str | None] = []
        self.partition_keys: list[str | None] = []
        self.properties = Pairs()
        self.system_properties = Pairs()
        self.annotations: list[bytes] = []
        self.annotation_counts: list[int] = []
        self.delivery_annotations: list[bytes] = []
        self.delivery_annotation_counts: list[int] = []
        self.heads: list[bytes] = []
        self.footers: list[bytes | None] = []
        # About what the columns take.
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self.bodies)

    def fill(self, events: list[Event], start: int, max_rows: int, max_bytes: int) -> int:
        """Add events of a list from an index on until there are enough. The index of the first that was not added."""
        at = start
        while at < len(events) and len(self.bodies) < max_rows and self.size_bytes < max_bytes:
            self.add(events[at])
            at += 1
        return at

    def add(self, event: Event) -> None:
        """That its number is the next one is the caller's care."""
        bare = event.bare
        self.size_bytes += len(bare) + 64
        self.times_ms.append(event.enqueued_at_ms)
        self.publishers.append(event.publisher)
        self.partition_keys.append(event.partition_key)
        annotations = event.annotations
        self.annotations.append(annotations.encoded)
        self.annotation_counts.append(annotations.count)
        self.delivery_annotations.append(event.delivery_annotations.encoded)
        self.delivery_annotation_counts.append(event.delivery_annotations.count)
        body_at = _only_data(bare)
        if body_at:
            # As most senders write it: one data section, and nothing else.
            self.heads.append(bare[:body_at])
            self.bodies.append(bare[body_at:])
            self.footers.append(b"")
            if annotations.count:
                self._add_system_properties(_NO_PROPERTIES, annotations)
        else:
            self._add_message(Message(bare), annotations)
        self.properties.end_row()
        self.system_properties.end_row()

    def _add_message(self, message: Message, annotations: Entries) -> None:
        sections = message.sections
        bare = sections.payload
        spans = sections.body_spans
        if sections.body_code == DATA and len(spans) == 3:
            body_at = data_start(bare, spans[1])
            self.heads.append(bare[:body_at])
            self.bodies.append(bare[body_at : spans[2]])
            self.footers.append(bare[spans[2] :])
        else:
            self.heads.append(bare)
            self.bodies.append(_body_of(message))
            self.footers.append(None)
        try:
            for key, value in (message.application_properties or {}).items():
                self.properties.add(key, value)
        except DecodeError:
            # What cannot be read is delivered over AMQP as it came, and is no property here.
            pass
        try:
            properties = message.properties or _NO_PROPERTIES
        except DecodeError:
            properties = _NO_PROPERTIES
        self._add_system_properties(properties, annotations)

    def _add_system_properties(self, properties: Properties, annotations: Entries) -> None:
        own = _named(properties)
        for name, value in own.items():
            self.system_properties.add(name, value)
        if not annotations.count:
            return
        try:
            decoded = Message(annotations.to_section(MESSAGE_ANNOTATIONS)).message_annotations or {}
        except DecodeError:
            return
        names = set(own)
        for key, value in decoded.items():
            # A map has each key once: a number and a symbol of the same characters are one name here.
            name = str(key)
            if name not in names:
                names.add(name)
                self.system_properties.add(name, value)


def head_properties(head: bytes) -> dict[str, object]:
    """The application properties of an event, by what is in the column of heads."""
    without_body = head
    if head[-5:-1] == _SHORT_DATA:
        without_body = head[:-5]
    elif head[-8:-4] == _LONG_DATA:
        without_body = head[:-8]
    for message in (without_body, head):
        if not message:
            continue
        try:
            return Message(message).application_properties or {}
        except DecodeError:
            # A head that is the whole message may end with anything.
            continue
    # What cannot be read is delivered over AMQP as it came, and is no property here.
    return {}


def _only_data(bare: bytes) -> int:
    """Where the body begins if the bare message is one data section and nothing else, or 0."""
    if bare[:3] != b"\x00\x53\x75":
        return 0
    size = len(bare)
    if size >= 5 and bare[3] == 0xA0 and 5 + bare[4] == size:
        return 5
    if size >= 8 and bare[3] == 0xB0 and 8 + int.from_bytes(bare[4:8], "big") == size:
        return 8
    return 0


def _named(properties: Properties) -> dict[str, object]:
    """Those that are set, by their names in AMQP."""
    if properties is _NO_PROPERTIES:
        return {}
    named: dict[str, object] = {
        "message-id": properties.message_id,
        "user-id": properties.user_id,
        "to": properties.to,
        "subject": properties.subject,
        "reply-to": properties.reply_to,
        "correlation-id": properties.correlation_id,
        "content-type": properties.content_type,
        "content-encoding": properties.content_encoding,
        "absolute-expiry-time": properties.absolute_expiry_time,
        "creation-time": properties.creation_time,
        "group-id": properties.group_id,
        "group-sequence": properties.group_sequence,
        "reply-to-group-id": properties.reply_to_group_id,
    }
    return {name: value for name, value in named.items() if value is not None}


def _body_of(message: Message) -> bytes:
    """What a body that is not one data section is to a reader of columns."""
    try:
        if message.body_kind is BodyKind.NONE:
            return b""
        if message.body_kind is BodyKind.DATA:
            return message.data or b""
        value = message.sequence if message.body_kind is BodyKind.SEQUENCE else message.value
    except DecodeError:
        return b""
    return value if isinstance(value, bytes) else json_text(value).encode()


def json_text(value: object) -> str:
    """Text as it is, anything else as JSON."""
    if isinstance(value, str):
        return str(value)
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> object:
    """The nearest that JSON has. What it has no form for becomes text: binary as base64, NaN by its name."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {json_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, Array)):
        return [_plain(item) for item in value]
    if isinstance(value, Described):
        return {"descriptor": _plain(value.descriptor), "value": _plain(value.value)}
    if isinstance(value, (Decimal32, Decimal64, Decimal128)):
        return str(value.to_decimal())
    raise TandemError(f"a {type(value).__name__} is not a value of AMQP")
