"""Messages as commands show them: as JSON, one object to a line, or as a table.

The broker's JSON API and a receiver's link give the same names to the same things, so that a script can read from
either.
"""

from __future__ import annotations

import base64
import decimal
import json
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tandem import wire_names
from tandem.cli.shared.output import fits_terminal, moment_text, neutral, print_records, print_table

if TYPE_CHECKING:
    from tandem.amqp import Message
    from tandem.amqp.message import MessageId

__all__ = ["MessageFields", "body_bytes", "event_fields", "fields_of", "print_messages"]

Part = TypeVar("Part")

# The properties of one message by name.
MessageFields = dict[str, Any]

# Characters. What a table shows of a body, and of the application properties.
_PREVIEW_CHARACTERS: Final = 200

# Bytes. What a table shows of a body that is no text.
_PREVIEW_BYTES: Final = 32

# Of a table: heading and field. A column in which nothing stands is left out.
_COLUMNS: Final = {
    "partition": "partition",
    "sequence": "sequence_number",
    "key": "partition_key",
    "publisher": "publisher",
    "message id": "message_id",
    "label": "label",
    "session": "session_id",
    "deliveries": "delivery_count",
    "enqueued": "enqueued_time_ms",
    "scheduled for": "scheduled_enqueue_time_ms",
    "reason": "dead_letter_reason",
    "description": "dead_letter_error_description",
    "properties": "application_properties",
    "body": "body",
    "unreadable": "unreadable",
}
_DESCRIPTION: Final = "description"
_OF_DEAD_LETTERS: Final = frozenset({wire_names.DEAD_LETTER_REASON, wire_names.DEAD_LETTER_ERROR_DESCRIPTION})
_NUMBERS: Final = ("sequence", "deliveries")
_UNBROKEN: Final = ("enqueued", "scheduled for")


# --- as JSON --------------------------------------------------------------------------------------------------------


def fields_of(message: Message) -> MessageFields:
    """A message that was received. What of it is no AMQP is left out, and told as `unreadable`."""
    from tandem.amqp.message import Header, Properties

    complaints: list[str] = []
    header = _read(lambda: message.header, complaints) or Header()
    properties = _read(lambda: message.properties, complaints) or Properties()
    annotations = _read(lambda: message.message_annotations, complaints) or {}
    user = _read(lambda: message.application_properties, complaints) or {}
    body, encoding = _read(lambda: _body(message), complaints) or (b"", None)
    enqueued_time_ms, ttl_ms = annotations.get(wire_names.ENQUEUED_TIME), header.ttl_ms
    return {
        "sequence_number": annotations.get(wire_names.SEQUENCE_NUMBER),
        "message_id": _identifier(properties.message_id),
        "label": properties.subject,
        "content_type": properties.content_type,
        "correlation_id": _identifier(properties.correlation_id),
        "session_id": properties.group_id,
        "to": properties.to,
        "reply_to": properties.reply_to,
        "enqueued_time_ms": enqueued_time_ms,
        "expires_at_ms": enqueued_time_ms + ttl_ms if isinstance(enqueued_time_ms, int) and ttl_ms else None,
        "time_to_live_ms": ttl_ms,
        "locked_until_ms": annotations.get(wire_names.LOCKED_UNTIL),
        "delivery_count": header.delivery_count,
        "size_in_bytes": len(message.payload),
        "application_properties": {name: _plain(value) for name, value in user.items()},
        "dead_letter_reason": _optional_text(user.get(wire_names.DEAD_LETTER_REASON)),
        "dead_letter_error_description": _optional_text(user.get(wire_names.DEAD_LETTER_ERROR_DESCRIPTION)),
        "dead_letter_source": annotations.get(wire_names.DEAD_LETTER_SOURCE),
        "body_size_in_bytes": len(body),
        **_body_fields(body, encoding),
        "unreadable": "; ".join(complaints) or None,
    }


# What an event has in common with a message.
_EVENT_FIELDS: Final = (
    *("sequence_number", "enqueued_time_ms", "message_id", "label", "content_type", "correlation_id", "size_in_bytes"),
    *("application_properties", "body_size_in_bytes", "body", "body_encoding", "unreadable"),
)


def event_fields(message: Message, partition: str) -> MessageFields:
    """An event of a hub, which has neither a lock nor a time to live, and a place of its own."""
    fields = fields_of(message)
    annotations = _read(lambda: message.message_annotations, []) or {}
    return {
        "partition": partition,
        "offset": _optional_text(annotations.get(wire_names.OFFSET)),
        "partition_key": _optional_text(annotations.get(wire_names.PARTITION_KEY)),
        "publisher": _optional_text(annotations.get(wire_names.PUBLISHER)),
        **{name: fields[name] for name in _EVENT_FIELDS},
    }


def _read(part: Callable[[], Part], complaints: list[str]) -> Part | None:
    from tandem.errors import DecodeError

    try:
        return part()
    except DecodeError as error:
        complaints.append(str(error))
        return None


def _plain(value: object) -> object:
    """A value that JSON has, or an object of one entry that names its type, as in rules: {"uuid": "..."}."""
    from tandem.rules.values import DateTime, TimeSpan, rule_value

    value = rule_value(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, DateTime):
        return {"datetime": value.ticks}
    if isinstance(value, TimeSpan):
        return {"timespan": value.ticks}
    if isinstance(value, bytes):
        return {"binary": value.hex()}
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return {type(value).__name__.lower(): str(value)}
    return str(value)


def _identifier(value: MessageId | None) -> str | None:
    """AMQP has four types for the ids of messages."""
    from tandem.amqp.message import id_text

    return None if value is None else id_text(value)


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)


def body_bytes(message: Message) -> bytes:
    """The bytes of a data section; a text in UTF-8; any other value as JSON."""
    return _body(message)[0]


def _body(message: Message) -> tuple[bytes, str | None]:
    """Its bytes and, if these are no text of the sender, how they came about."""
    data = message.data
    if data is not None:
        return data, None
    value = message.sequence if message.value is None else message.value
    if value is None:
        return b"", None
    if isinstance(value, (bytes, str)):
        return value if isinstance(value, bytes) else value.encode(errors="replace"), None
    return json.dumps(value, default=_plain).encode(), "json"


def _body_fields(body: bytes, encoding: str | None) -> MessageFields:
    try:
        return {"body": body.decode(), "body_encoding": encoding or "text"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


# --- as a table -----------------------------------------------------------------------------------------------------


def print_messages(messages: Sequence[MessageFields]) -> None:
    """Print a table. Dead letters whose descriptions do not fit into one are printed line by line instead: a column of
    sentences that is a few characters wide cannot be read."""
    rows = [{heading: _cell(message, field) for heading, field in _COLUMNS.items()} for message in messages]
    headings = [heading for heading in _COLUMNS if heading == "body" or any(row[heading] for row in rows)]
    cells = [[row[heading] for heading in headings] for row in rows]
    if _DESCRIPTION in headings and not fits_terminal(headings, cells):
        print_records([{heading: row[heading] for heading in headings if row[heading]} for row in rows])
    else:
        print_table(headings, cells, _NUMBERS, _UNBROKEN)


def _cell(message: MessageFields, field: str) -> str:
    value = message.get(field)
    # Most messages were delivered for the first time, which needs no column.
    if value is None or (field == "delivery_count" and not value):
        return ""
    if field == "body":
        return _body_text(value, message.get("body_encoding"))
    if field == "application_properties":
        # The reason of a dead letter and its description are among them, and have columns of their own.
        shown = {name: one for name, one in value.items() if name not in _OF_DEAD_LETTERS}
        return _cut(", ".join(f"{neutral(name)}={_value_text(one)}" for name, one in shown.items()))
    if field.endswith("_time_ms"):
        # Without the zone, for which a table has little room: everything of a broker is in UTC.
        return moment_text(value).removesuffix(" UTC")
    return neutral(str(value))


def _value_text(value: object) -> str:
    """As people write it, if it is a type that rules know."""
    from tandem.engine.rule import typed_values
    from tandem.errors import ArgumentError

    try:
        value = typed_values("value", {"value": {"": value}})[""]
    except ArgumentError:
        return neutral(json.dumps(value))
    return neutral(value.hex() if isinstance(value, bytes) else str(value))


def _body_text(body: str, encoding: str | None) -> str:
    if encoding != "base64":
        return _cut(neutral(body))
    octets = base64.b64decode(body)
    more = "…" if len(octets) > _PREVIEW_BYTES else ""
    return f"{len(octets):,} bytes: {octets[:_PREVIEW_BYTES].hex(' ')}{more}"


def _cut(text: str) -> str:
    return text if len(text) <= _PREVIEW_CHARACTERS else f"{text[:_PREVIEW_CHARACTERS]}…"
