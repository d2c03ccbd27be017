"""Encoded messages with one part changed: every other section keeps its bytes, and is not decoded."""

from __future__ import annotations

from collections.abc import Mapping

from tandem.amqp.message import Header, Message, Properties
from tandem.amqp.sections import (
    APPLICATION_PROPERTIES,
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Entries,
    Sections,
    locate,
)
from tandem.errors import DecodeError

__all__ = [
    "application_properties_section",
    "has_message_id",
    "splice",
    "with_application_properties",
    "with_lifetime",
    "with_message_id",
    "with_service_decimals",
    "without_body",
]


def splice(
    message: Message | bytes,
    header: Header | bytes | None = None,
    delivery_annotations: Mapping[str, object] | None = None,
    message_annotations: Mapping[str, object] | None = None,
) -> bytes:
    """The same message with a new header, and with annotations added to the sender's own, in canonical order.

    A new annotation takes the place of the sender's with the same key. `header` None keeps the sender's, b"" means
    none at all. Nothing of the message is decoded. `stored.py` does the same work for messages that are delivered
    again and again.
    """
    sections = message.sections if isinstance(message, Message) else locate(message)
    if header is None:
        header = sections.raw(HEADER)
    elif isinstance(header, Header):
        header = header.encode()
    return b"".join(
        (
            header,
            _merged_annotations(sections, DELIVERY_ANNOTATIONS, delivery_annotations),
            _merged_annotations(sections, MESSAGE_ANNOTATIONS, message_annotations),
            sections.bare(),
        )
    )


def application_properties_section(message: Message | bytes, changes: Mapping[str, object]) -> bytes:
    """The application-properties section with some properties set anew; the others keep their bytes, and so types."""
    sections = message.sections if isinstance(message, Message) else locate(message)
    fresh = Entries.with_string_keys(changes).with_service_decimals()
    kept = sections.entries(APPLICATION_PROPERTIES, {key.encode() for key in changes})
    return kept.followed_by(fresh).to_section(APPLICATION_PROPERTIES)


def with_application_properties(message: Message | bytes, changes: Mapping[str, object]) -> bytes:
    """The same message with some application properties set anew, and every other section as it was."""
    sections = message.sections if isinstance(message, Message) else locate(message)
    section = application_properties_section(message, changes)
    at = 3 * (APPLICATION_PROPERTIES - HEADER)
    start = sections.spans[at]
    end = sections.spans[at + 2]
    if start < 0:
        start = end = sections.body_start()
    return b"".join((sections.payload[:start], section, sections.payload[end:]))


def has_message_id(message: Message) -> bool:
    """Whether the properties have one, without decoding them: it is their first field."""
    start, end = message.sections.value_span(PROPERTIES)
    if start < 0:
        return False
    payload = message.sections.payload
    # Past the constructor, the size and the count of a list, of one byte or of four each.
    first = start + (3 if payload[start] == 0xC0 else 9)
    return first < end and payload[first] != 0x40


def with_message_id(bare: bytes, message_id: str) -> bytes:
    """The same bare message with another message-id; everything behind the properties keeps its bytes."""
    message = Message(bare)
    properties = message.properties or Properties()
    properties.message_id = message_id
    return _with_properties(message, properties)


def with_lifetime(bare: bytes, creation_time_ms: int, absolute_expiry_time_ms: int) -> bytes:
    """The same bare message with other times among its properties. Properties that are not valid AMQP stay."""
    try:
        message = Message(bare)
        properties = message.properties or Properties()
    except DecodeError:
        return bare
    properties.creation_time = creation_time_ms
    properties.absolute_expiry_time = absolute_expiry_time_ms
    return _with_properties(message, properties)


def _with_properties(bare: Message, properties: Properties) -> bytes:
    """The bare message with other properties, which are its first section."""
    _, end = bare.sections.value_span(PROPERTIES)
    return properties.encode() + bare.payload[max(0, end) :]


def with_service_decimals(bare: bytes) -> bytes:
    """The same bare message with each decimal128 among its application properties in the layout that SDKs read.

    Application properties that are not valid AMQP stay as they are.
    """
    try:
        sections = locate(bare)
        entries = sections.entries(APPLICATION_PROPERTIES)
        changed = entries.with_service_decimals()
    except DecodeError:
        return bare
    if changed is entries:
        return bare
    # Both layouts take the same 16 bytes.
    _, end = sections.value_span(APPLICATION_PROPERTIES)
    return bare[: end - len(entries.encoded)] + changed.encoded + bare[end:]


def without_body(payload: bytes) -> bytes:
    """The same message in canonical order without its body."""
    spans = locate(payload).body_spans
    return payload[: spans[0]] + payload[spans[-1] :] if spans else payload


def _merged_annotations(sections: Sections, code: int, fresh: Mapping[str, object] | None) -> bytes:
    if not fresh:
        return sections.raw(code)
    # Encoded first: afterwards every key is known to be text that can be encoded.
    entries = Entries.with_symbol_keys(fresh)
    return entries.followed_by(sections.entries(code, {key.encode() for key in fresh})).to_section(code)
