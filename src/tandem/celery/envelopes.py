"""kombu's messages as messages of the bus, and back.

The body is the body, as kombu has serialised it. Headers are application properties of the same names, so that rules,
`tandem peek` and programs in other languages see the name and the id of a task. What an application property cannot
hold, lists for example, goes as JSON into one property of our own, `kombu`, together with the rest that kombu wants
back. A message without that property is one that another program has sent: it has headers, a content type and a body.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kombu.utils.json import dumps, loads

from tandem.celery.routing_keys import OWN_PREFIX, properties_of_key
from tandem.client import BrokeredMessage

__all__ = ["read_envelope", "write_envelope"]

# The property with what does not fit elsewhere.
_REST: Final = OWN_PREFIX

# Integers that an AMQP long holds.
_MAX_LONG: Final = (1 << 63) - 1

# Properties that every message of the bus has.
_WITH_A_PLACE: Final = {"correlation_id", "delivery_info", "message_id", "reply_to"}

_TEXT_ENCODING: Final = "utf-8"

# A message as kombu's channels have it: `body`, `headers`, `properties`, `content-type`, `content-encoding`.
# Any: kombu says no more.
Envelope = dict[str, Any]


def write_envelope(envelope: Envelope, exchange: str, routing_key: str) -> BrokeredMessage:
    """Return what is to be sent for a message of kombu's."""
    properties, headers = envelope["properties"], envelope["headers"] or {}
    body = envelope["body"]
    message = BrokeredMessage(body.encode() if isinstance(body, str) else bytes(body or b""))
    message.message_id = properties["message_id"]
    message.label = routing_key or None
    message.content_type = envelope["content-type"]
    message.correlation_id = properties.get("correlation_id")
    message.reply_to = properties.get("reply_to")
    if properties.get("expiration"):
        # kombu has made a text with milliseconds of it.
        message.time_to_live = timedelta(milliseconds=max(1, int(properties["expiration"])))
    message.scheduled_enqueue_time_utc = _due_time(headers)
    plain = {name: value for name, value in headers.items() if _is_plain(name, value)}
    message.properties.update(plain)
    message.properties.update(properties_of_key(routing_key) if exchange else {})
    message.properties[_REST] = dumps(
        {
            "headers": {name: value for name, value in headers.items() if name not in plain},
            "properties": {name: value for name, value in properties.items() if name not in _WITH_A_PLACE},
            "content-encoding": envelope["content-encoding"],
            "exchange": exchange,
        }
    )
    return message


def read_envelope(message: BrokeredMessage) -> Envelope:
    """Return a message that was received as kombu's channels have it, with `delivery_info` among its properties."""
    rest = _read_rest(message.properties.get(_REST))
    own = {name: value for name, value in message.properties.items() if not name.startswith(OWN_PREFIX)}
    properties: dict[str, Any] = {
        **rest.get("properties", {}),
        "message_id": message.message_id,
        "correlation_id": message.correlation_id,
        "reply_to": message.reply_to,
        "delivery_info": {
            "exchange": rest.get("exchange", ""),
            "routing_key": message.label or "",
            "redelivered": message.delivery_count > 0,
        },
    }
    return {
        "body": message.body,
        "headers": {**own, **rest.get("headers", {})},
        "properties": properties,
        # On the wire it is a symbol, which is a kind of text of its own.
        "content-type": None if message.content_type is None else str(message.content_type),
        "content-encoding": rest.get("content-encoding", _TEXT_ENCODING),
    }


def _due_time(headers: Mapping[str, Any]) -> datetime | None:
    """Return when Celery wants a task to run, if that is later than now."""
    eta = headers.get("eta")
    if not isinstance(eta, str):
        return None
    try:
        moment = datetime.fromisoformat(eta)
    except ValueError:
        return None
    # Celery writes a time without an offset in UTC.
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment if moment > datetime.now(UTC) else None


def _is_plain(name: object, value: object) -> bool:
    """Return whether a header can be an application property of the same name and type."""
    if not isinstance(name, str) or name.startswith(OWN_PREFIX):
        return False
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= _MAX_LONG
    return isinstance(value, str | bool | float)


def _read_rest(text: object) -> dict[str, Any]:
    if not isinstance(text, str):
        return {}
    try:
        rest = loads(text)
    except ValueError:
        return {}
    return rest if isinstance(rest, dict) else {}
