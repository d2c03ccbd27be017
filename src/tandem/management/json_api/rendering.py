"""A message or an event as JSON, for people to look at: whatever is in it, however little of it is as it should be."""

from __future__ import annotations

import base64
import codecs
import json
from typing import Literal, NamedTuple

from tandem.amqp.message import BodyKind, Message, MessageId, Properties, id_text
from tandem.amqp.types import Described
from tandem.engine.browsing import Browsed, MessageState
from tandem.engine.hubs.event import Event, offset_of
from tandem.engine.message import NEVER_MS
from tandem.engine.rule import plain_value
from tandem.errors import DecodeError
from tandem.limits import PREVIEW_BYTES
from tandem.management.json_api.hub_shapes import ShownEvent
from tandem.management.json_api.shapes import BodyMode, ShownMessage
from tandem.wire_names import DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON

__all__ = ["shown_bytes", "shown_event", "shown_message"]

_Encoding = Literal["text", "base64", "json"]
_Kind = Literal["none", "data", "amqp-sequence", "amqp-value"]


class _Body(NamedTuple):
    kind: _Kind | None = None
    size_bytes: int | None = None
    text: str | None = None
    encoding: _Encoding | None = None
    is_truncated: bool = False


def shown_message(browsed: Browsed, state: MessageState, mode: BodyMode) -> ShownMessage:
    message = browsed.message
    stored = message.stored
    assert stored is not None
    complaints: list[str] = []
    source = Message(stored.bare)
    properties = _properties(source, complaints)
    user = _application_properties(source, complaints)
    body = _body(source, mode, complaints)
    return ShownMessage(
        sequence_number=message.visible_sequence_number,
        enqueue_sequence_number=message.enqueue_sequence_number or None,
        state=state.value,
        message_id=_id(properties.message_id),
        label=_text(properties.subject),
        content_type=_text(properties.content_type),
        correlation_id=_id(properties.correlation_id),
        # In a dead-letter queue it has no session, and still says which it was sent to.
        session_id=message.session_id if message.session_id is not None else _text(properties.group_id),
        to=_text(properties.to),
        reply_to=_text(properties.reply_to),
        enqueued_time_ms=message.enqueued_time_ms,
        expires_at_ms=_or_never(message.expires_at_ms),
        time_to_live_ms=_or_never(message.time_to_live_ms),
        scheduled_enqueue_time_ms=message.due_at_ms or None,
        locked_until_ms=browsed.locked_until_ms or None,
        delivery_count=message.delivery_count,
        size_in_bytes=message.size_bytes,
        application_properties=user,
        dead_letter_reason=_property_text(user, DEAD_LETTER_REASON),
        dead_letter_error_description=_property_text(user, DEAD_LETTER_ERROR_DESCRIPTION),
        dead_letter_source=message.dead_letter_source,
        body_kind=body.kind,
        body_size_in_bytes=body.size_bytes,
        body=body.text,
        body_encoding=body.encoding,
        is_body_truncated=body.is_truncated,
        unreadable="; ".join(complaints) or None,
    )


def shown_event(event: Event, partition_id: int, mode: BodyMode) -> ShownEvent:
    complaints: list[str] = []
    source = Message(event.bare)
    properties = _properties(source, complaints)
    user = _application_properties(source, complaints)
    body = _body(source, mode, complaints)
    return ShownEvent(
        partition=str(partition_id),
        sequence_number=event.sequence_number,
        offset=offset_of(event.sequence_number),
        enqueued_time_ms=event.enqueued_at_ms,
        partition_key=event.partition_key,
        publisher=event.publisher,
        message_id=_id(properties.message_id),
        label=_text(properties.subject),
        content_type=_text(properties.content_type),
        correlation_id=_id(properties.correlation_id),
        size_in_bytes=event.size_bytes,
        application_properties=user,
        body_kind=body.kind,
        body_size_in_bytes=body.size_bytes,
        body=body.text,
        body_encoding=body.encoding,
        is_body_truncated=body.is_truncated,
        unreadable="; ".join(complaints) or None,
    )


def shown_bytes(content: bytes, limit_bytes: int) -> tuple[str, Literal["text", "base64"]]:
    """As text if it is one, up to so many bytes of it."""
    shown = content[:limit_bytes]
    try:
        # A character that the limit cuts in two is left out, and is no reason to call the rest binary.
        return codecs.getincrementaldecoder("utf-8")().decode(shown, final=len(content) <= limit_bytes), "text"
    except UnicodeDecodeError:
        return base64.b64encode(shown).decode(), "base64"


def _properties(source: Message, complaints: list[str]) -> Properties:
    try:
        return source.properties or Properties()
    except DecodeError as error:
        complaints.append(str(error))
        return Properties()


def _application_properties(source: Message, complaints: list[str]) -> dict[str, object]:
    try:
        written = source.application_properties or {}
    except DecodeError as error:
        complaints.append(str(error))
        return {}
    return {str(name): _json_value(value) for name, value in written.items()}


def _body(source: Message, mode: BodyMode, complaints: list[str]) -> _Body:
    kind: _Kind = source.body_kind.value
    if source.body_kind is BodyKind.NONE:
        return _Body(kind, 0)
    content = source.data
    encoding: _Encoding | None = None
    if content is None:
        try:
            content, encoding = _written(source.sequence if source.body_kind is BodyKind.SEQUENCE else source.value)
        except DecodeError as error:
            complaints.append(str(error))
            return _Body(kind)
    size_bytes = len(content)
    if mode == "none":
        return _Body(kind, size_bytes)
    limit_bytes = PREVIEW_BYTES if mode == "preview" else size_bytes
    text, found = shown_bytes(content, limit_bytes)
    return _Body(kind, size_bytes, text, encoding or found, size_bytes > limit_bytes)


def _written(value: object) -> tuple[bytes, _Encoding | None]:
    """A text or bytes as they are, and anything else as JSON."""
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace"), "text"
    if isinstance(value, bytes):
        return bytes(value), None
    return json.dumps(_json_value(value), ensure_ascii=False).encode(), "json"


def _json_value(value: object) -> object:
    """As rules write values. The decoder has bounded how deep it nests."""
    if isinstance(value, dict):
        return {str(_json_value(name)): _json_value(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(one) for one in value]
    plain = plain_value(value)
    if isinstance(plain, Described):
        return {"described": {"descriptor": _json_value(plain.descriptor), "value": _json_value(plain.value)}}
    if plain is None or isinstance(plain, (bool, dict)):
        return plain
    # AMQP's own numbers and texts are of types that JSON does not know.
    if isinstance(plain, int):
        return int(plain)
    return float(plain) if isinstance(plain, float) else str(plain)


def _id(value: MessageId | None) -> str | None:
    return None if value is None else id_text(value)


def _text(value: str | None) -> str | None:
    """A plain text also of an AMQP symbol."""
    return None if value is None else str(value)


def _property_text(user: dict[str, object], name: str) -> str | None:
    value = user.get(name)
    return None if value is None else str(value)


def _or_never(at_ms: int) -> int | None:
    return None if at_ms >= NEVER_MS else at_ms
