"""What a request sends: one message, or an array of them as JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

import msgspec
from aiohttp import hdrs, web

from tandem.errors import ArgumentError
from tandem.limits import MAX_MESSAGES_PER_SENT_BATCH
from tandem.management.rest.broker_properties import broker_properties, message_bytes, plain_value, user_properties
from tandem.wire_names import BROKER_PROPERTIES_HEADER

__all__ = ["is_batch", "read_batch", "read_message"]

_BATCH_TYPE: Final = "application/vnd.microsoft.servicebus.json"


def is_batch(request: web.Request) -> bool:
    return request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower() == _BATCH_TYPE


def read_message(request: web.Request, body: bytes) -> bytes:
    """As AMQP: the body, the header BrokerProperties, and the headers that are properties."""
    broker = broker_properties(request.headers.get(BROKER_PROPERTIES_HEADER))
    return message_bytes(body, request.headers.get(hdrs.CONTENT_TYPE), broker, user_properties(request.headers))


def read_batch(body: bytes) -> list[bytes]:
    try:
        items = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ArgumentError(f"the body must be a JSON array of messages: {error}") from None
    if not isinstance(items, list) or not items:
        raise ArgumentError("the body must be a JSON array of messages that is not empty")
    if len(items) > MAX_MESSAGES_PER_SENT_BATCH:
        raise ArgumentError(
            f"the batch has {len(items):,} messages; at most {MAX_MESSAGES_PER_SENT_BATCH:,} are allowed"
        )
    return [_read_item(number, item) for number, item in enumerate(items)]


def _read_item(number: int, item: object) -> bytes:
    if not isinstance(item, dict):
        raise ArgumentError(f"message {number} of the batch must be an object, got {item!r:.80}")
    text = item.get("Body", "")
    if not isinstance(text, str):
        raise ArgumentError(f"Body of message {number} must be a text, got {text!r:.80}")
    body = text.encode()
    is_base64 = item.get("IsBodyBase64", False)
    if not isinstance(is_base64, bool):
        raise ArgumentError(f"IsBodyBase64 of message {number} must be true or false, got {is_base64!r:.80}")
    if is_base64:
        try:
            body = base64.b64decode(text, validate=True)
        # Also for characters outside ASCII.
        except ValueError:
            raise ArgumentError(f"Body of message {number} is not base64") from None
    broker = _object(f"BrokerProperties of message {number}", item.get(BROKER_PROPERTIES_HEADER))
    user = _object(f"UserProperties of message {number}", item.get("UserProperties"))
    return message_bytes(body, None, broker, {name: plain_value(value) for name, value in user.items()})


def _object(what: str, value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ArgumentError(f"{what} must be an object, got {value!r:.80}")
    return value
