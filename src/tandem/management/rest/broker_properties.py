"""A message as a request and as an answer: its body, the header `BrokerProperties`, and a header for each property.

    POST /orders/messages
    BrokerProperties: {"MessageId": "1", "Label": "new", "TimeToLive": 60}
    Priority: "high"              application properties are JSON: a text has quotes, a number has none
    Content-Type: text/plain

Names of properties that HTTP has no way to write as a header are left out of answers.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Final

from tandem.amqp.message import Header, Message, Properties, encode_message
from tandem.amqp.types import Timestamp
from tandem.engine.message import BrokeredMessage
from tandem.errors import ArgumentError, DecodeError

__all__ = [
    "MAX_HEADER_PROPERTIES",
    "answer_headers",
    "body_of",
    "broker_properties",
    "message_bytes",
    "user_properties",
]

# Application properties of one request.
MAX_HEADER_PROPERTIES: Final = 100

# Digits. A number that is longer is no number that AMQP has a type for.
_MAX_DIGITS: Final = 19

# Headers that are about the request and not about the message. Those of proxies and tracing begin with x-.
_ABOUT_THE_REQUEST: Final = frozenset(
    {
        *("accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "brokerproperties"),
        *("cache-control", "connection", "content-encoding", "content-length", "content-type", "cookie", "date"),
        *("expect", "forwarded", "from", "host", "if-match", "if-none-match", "keep-alive", "origin", "pragma"),
        *("referer", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "user-agent", "via"),
    }
)
_TEXTS: Final = {
    "CorrelationId": "correlation_id",
    "SessionId": "group_id",
    "MessageId": "message_id",
    "Label": "subject",
    "ReplyTo": "reply_to",
    "To": "to",
    "ReplyToSessionId": "reply_to_group_id",
}
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TIME_SPAN: Final = re.compile(r"(?:(\d{1,8})\.)?(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,7}))?")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DEFAULT_CONTENT_TYPE: Final = "application/atom+xml;type=entry;charset=utf-8"

_STATES: Final = {0: "Active", 1: "Deferred", 2: "Scheduled"}

# --- from a request -------------------------------------------------------------------------------------------------


def broker_properties(text: str | None) -> Mapping[str, object]:
    """The header, which is a JSON object."""
    if text is None:
        return {}
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"BrokerProperties must be a JSON object: {error}") from None
    if not isinstance(values, dict):
        raise ArgumentError(f"BrokerProperties must be a JSON object, got {text!r:.80}")
    return values


def user_properties(headers: Mapping[str, str]) -> dict[str, object]:
    """The headers that are properties of the message."""
    found: dict[str, object] = {}
    for name, text in headers.items():
        folded = name.lower()
        if folded in _ABOUT_THE_REQUEST or folded.startswith(("x-", "sec-")):
            continue
        found[name] = _literal(text)
        if len(found) > MAX_HEADER_PROPERTIES:
            raise ArgumentError(f"the request has more than {MAX_HEADER_PROPERTIES} application properties as headers")
    return found


def _literal(text: str) -> object:
    """JSON; what is none is a text without its quotes."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, str):
        return _date(value) or value
    return plain_value(value, text)


def plain_value(value: object, text: object) -> object:
    if value is None or isinstance(value, (bool, float, str)):
        return value
    if isinstance(value, int) and len(str(abs(value))) <= _MAX_DIGITS and -(2**63) <= value < 2**63:
        return value
    return str(text)


def _date(text: str) -> Timestamp | None:
    # Cheap to see that it is none: `Sun, 06 Nov 1994 08:49:37 GMT`.
    if len(text) != 29 or not text.endswith(" GMT"):
        return None
    try:
        return _timestamp(parsedate_to_datetime(text))
    except (ValueError, TypeError):
        return None


def _timestamp(moment: datetime) -> Timestamp:
    return Timestamp(round((moment.astimezone(UTC) - _EPOCH).total_seconds() * 1_000))


def message_bytes(
    body: bytes, content_type: str | None, broker: Mapping[str, object], user: Mapping[str, object]
) -> bytes:
    """The AMQP message. What BrokerProperties says beyond what a sender can set is passed over, as the service does."""
    annotations: dict[str, object] = {}
    scheduled = broker.get("ScheduledEnqueueTimeUtc")
    if scheduled is not None:
        annotations["x-opt-scheduled-enqueue-time"] = _scheduled(scheduled)
    for name, key in (("PartitionKey", "x-opt-partition-key"), ("ViaPartitionKey", "x-opt-via-partition-key")):
        text = _text(name, broker)
        if text is not None:
            annotations[key] = text
    ttl_ms = _time_to_live_ms(broker)
    return encode_message(
        header=None if ttl_ms is None else Header(ttl_ms=ttl_ms),
        message_annotations=annotations or None,
        properties=Properties(
            message_id=_text("MessageId", broker),
            to=_text("To", broker),
            subject=_text("Label", broker),
            reply_to=_text("ReplyTo", broker),
            correlation_id=_text("CorrelationId", broker),
            content_type=content_type or _text("ContentType", broker),
            group_id=_text("SessionId", broker),
            reply_to_group_id=_text("ReplyToSessionId", broker),
        ),
        application_properties=dict(user) or None,
        data=body,
    )


def _text(name: str, broker: Mapping[str, object]) -> str | None:
    value = broker.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ArgumentError(f"BrokerProperties.{name} must be a text, got {value!r:.80}")
    return value


def _scheduled(value: object) -> Timestamp:
    moment = None
    if isinstance(value, str):
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, TypeError):
            moment = None
    if moment is None:
        raise ArgumentError(
            "BrokerProperties.ScheduledEnqueueTimeUtc must be a date such as 'Sun, 06 Nov 1994 08:49:37 GMT', "
            f"got {value!r:.80}"
        )
    return _timestamp(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def _time_to_live_ms(broker: Mapping[str, object]) -> int | None:
    seconds = broker.get("TimeToLive")
    span = broker.get("TimeToLiveTimeSpan")
    if seconds is not None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            raise ArgumentError(f"BrokerProperties.TimeToLive must be seconds, more than 0, got {seconds!r:.80}")
        value_ms = seconds * 1_000
    elif span is not None:
        match = _TIME_SPAN.fullmatch(span) if isinstance(span, str) and span.isascii() else None
        if match is None:
            raise ArgumentError(f"BrokerProperties.TimeToLiveTimeSpan must be [d.]hh:mm:ss, got {span!r:.80}")
        days, hours, minutes, whole, fraction = match.groups(default="0")
        value_ms = (((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(whole)) * 1_000
        value_ms += int(fraction.ljust(3, "0")[:3])
    else:
        return None
    # More than a header can say is as good as for ever.
    return None if value_ms >= 2**32 else max(1, int(value_ms))


# --- to an answer ---------------------------------------------------------------------------------------------------


def body_of(message: Message) -> bytes:
    """The bytes of a data section; of another body, what it says as JSON."""
    if message.data is not None:
        return message.data
    value = message.sequence if message.value is None else message.value
    if value is None:
        return b""
    return value.encode() if isinstance(value, str) else json.dumps(value, default=str).encode()


def answer_headers(message: Message, kept: BrokeredMessage, locked: tuple[str, int] | None) -> dict[str, str]:
    """The headers of an answer. `locked` is the lock token, and until when."""
    properties = message.properties or Properties()
    broker: dict[str, object] = {
        # The first delivery is the first, here.
        "DeliveryCount": kept.delivery_count + 1,
        "EnqueuedSequenceNumber": kept.enqueue_sequence_number,
        "EnqueuedTimeUtc": _http_date(kept.enqueued_time_ms),
        "SequenceNumber": kept.visible_sequence_number,
        "State": _STATES.get(kept.state, "Active"),
    }
    for name, field in _TEXTS.items():
        value = getattr(properties, field)
        if value is not None:
            broker[name] = value.hex() if isinstance(value, bytes) else str(value)
    if kept.dead_letter_source is not None:
        broker["DeadLetterSource"] = kept.dead_letter_source
    header = message.header
    # .NET's largest TimeSpan, in seconds: no limit.
    broker["TimeToLive"] = 922337203685.4775 if header is None or header.ttl_ms is None else header.ttl_ms / 1_000
    annotations = message.message_annotations or {}
    for key, name in (("x-opt-partition-key", "PartitionKey"), ("x-opt-via-partition-key", "ViaPartitionKey")):
        if isinstance(annotations.get(key), str):
            broker[name] = annotations[key]
    if locked is not None:
        broker["LockToken"] = locked[0]
        broker["LockedUntilUtc"] = _http_date(locked[1])
    headers = {
        name: _header_text(value)
        for name, value in _readable_properties(message).items()
        if _TOKEN.fullmatch(name) and name.lower() not in _ABOUT_THE_REQUEST
    }
    headers["BrokerProperties"] = json.dumps(broker)
    headers["Content-Type"] = _content_type(properties.content_type)
    return headers


def _readable_properties(message: Message) -> Mapping[str, object]:
    try:
        return {str(name): value for name, value in (message.application_properties or {}).items()}
    except DecodeError:
        return {}


def _content_type(content_type: object) -> str:
    text = str(content_type or "")
    return text if text and text.isascii() and text.isprintable() else _DEFAULT_CONTENT_TYPE


def _header_text(value: object) -> str:
    """As JSON, in ASCII: whatever a sender put into a property cannot end the line."""
    if isinstance(value, Timestamp):
        return json.dumps(_http_date(int(value)))
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    if isinstance(value, (bytes, uuid.UUID)):
        return json.dumps(value.hex() if isinstance(value, bytes) else str(value))
    return json.dumps(str(value))


def _http_date(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return format_datetime(moment, usegmt=True)
