"""A message as a request and as an answer: its body, the header `BrokerProperties`, and a header for each property.

    POST /orders/messages
    BrokerProperties: {"MessageId": "1", "Label": "new", "TimeToLive": 60}
    Priority: "high"              application properties are JSON: a text has quotes, a number has none
    Content-Type: text/plain

Properties that HTTP has no way to write as a header are left out of answers: by their name, for being too long for
clients to read, or because the header means something to whoever gets it, such as `Location` or `Set-Cookie`.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import Final

from tandem.amqp.message import Header, Message, Properties, encode_message, id_text
from tandem.amqp.types import Array, Described, Timestamp
from tandem.engine.message import BrokeredMessage
from tandem.errors import ArgumentError, DecodeError, EncodeError
from tandem.limits import MAX_HEADER_PROPERTIES, MAX_REST_HEADER_CHARACTERS
from tandem.wire_names import BROKER_PROPERTIES_HEADER, PARTITION_KEY, SCHEDULED_ENQUEUE_TIME, VIA_PARTITION_KEY

__all__ = [
    "answer_headers",
    "body_of",
    "broker_properties",
    "message_bytes",
    "user_properties",
]

# Headers that are about the request and not about the message. Those of proxies and tracing begin with x-.
_ABOUT_THE_REQUEST: Final = frozenset(
    {
        *("accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "brokerproperties"),
        *("cache-control", "connection", "content-encoding", "content-length", "content-type", "cookie", "date"),
        *("dnt", "expect", "forwarded", "from", "host", "if-match", "if-modified-since", "if-none-match", "if-range"),
        *("if-unmodified-since", "keep-alive", "max-forwards", "origin", "pragma", "proxy-authorization", "range"),
        *("referer", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "user-agent", "via"),
        "upgrade-insecure-requests",
    }
)
# Headers of an answer that are an order to the client. A sender must not give any in the broker's name.
_ORDERS: Final = frozenset(
    {
        *("accept-ranges", "age", "allow", "alt-svc", "clear-site-data", "content-disposition", "content-language"),
        *("content-location", "content-range", "content-security-policy", "etag", "expires", "last-modified", "link"),
        *("location", "proxy-authenticate", "refresh", "retry-after", "server", "set-cookie", "sourcemap"),
        *("strict-transport-security", "timing-allow-origin", "vary", "warning", "www-authenticate"),
    }
)
_SPECIAL_PREFIXES: Final = ("x-", "sec-", "access-control-", "proxy-", "cross-origin-")

# Characters. One header of an answer: common clients read lines of up to 8,190.
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
        values = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"BrokerProperties must be a JSON object: {error}") from None
    if not isinstance(values, dict):
        raise ArgumentError(f"BrokerProperties must be a JSON object, got {text!r:.80}")
    return values


def _refuse_constant(name: str) -> object:
    """Python reads NaN and Infinity, which JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def user_properties(headers: Mapping[str, str]) -> dict[str, object]:
    """The headers that are properties of the message."""
    found: dict[str, object] = {}
    for name, text in headers.items():
        folded = name.lower()
        if folded in _ABOUT_THE_REQUEST or folded.startswith(_SPECIAL_PREFIXES):
            continue
        found[name] = _literal(text)
        if len(found) > MAX_HEADER_PROPERTIES:
            raise ArgumentError(f"the request has more than {MAX_HEADER_PROPERTIES} application properties as headers")
    return found


def _literal(text: str) -> object:
    """JSON; what is none is a text without its quotes."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    return plain_value(value, text)


def plain_value(value: object, text: str | None = None) -> object:
    """As AMQP has it. What it has no simple type for stays a text: that which was sent, or the value as JSON."""
    if isinstance(value, str):
        return _date(value) or value
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return json.dumps(value) if text is None else text


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
    try:
        return _encoded(body, content_type, broker, user)
    except EncodeError as error:
        raise ArgumentError(f"the message cannot be written: {error}") from None


def _encoded(body: bytes, content_type: str | None, broker: Mapping[str, object], user: Mapping[str, object]) -> bytes:
    annotations: dict[str, object] = {}
    scheduled = broker.get("ScheduledEnqueueTimeUtc")
    if scheduled is not None:
        annotations[SCHEDULED_ENQUEUE_TIME] = _scheduled(scheduled)
    for name, key in (("PartitionKey", PARTITION_KEY), ("ViaPartitionKey", VIA_PARTITION_KEY)):
        text = _text(name, broker)
        if text is not None:
            annotations[key] = text
    session_id, partition_key = _text("SessionId", broker), _text("PartitionKey", broker)
    if session_id and partition_key is not None and session_id != partition_key:
        raise ArgumentError(
            f"BrokerProperties.SessionId {session_id!r:.80} and PartitionKey {partition_key!r:.80} differ: a session "
            "is all in one partition"
        )
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
            group_id=session_id,
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
    try:
        moment = parsedate_to_datetime(value) if isinstance(value, str) else None
        if moment is not None:
            return _timestamp(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except (ValueError, TypeError, OverflowError):
        # Said below, as for all that is no date.
        pass
    raise ArgumentError(
        "BrokerProperties.ScheduledEnqueueTimeUtc must be a date such as 'Sun, 06 Nov 1994 08:49:37 GMT', "
        f"got {value!r:.80}"
    )


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
    """The bytes of a data section, or of a value that is binary or a text; of another body, what it says as JSON.

    A body that its sender wrote in a way that cannot be decoded is given as it stands: it is not worse over HTTP.
    """
    if message.data is not None:
        return message.data
    try:
        value = message.sequence if message.value is None else message.value
    except DecodeError:
        return message.sections.raw(message.sections.body_code)
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else json.dumps(_jsonable(value)).encode()


def _jsonable(value: object) -> object:
    """A value of AMQP as JSON has it: binary as base64, keys and what JSON has no word for as text."""
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, Array):
        return [_jsonable(item) for item in value.items]
    if isinstance(value, Described):
        return _jsonable(value.value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def answer_headers(message: Message, kept: BrokeredMessage, locked: tuple[str, int] | None) -> dict[str, str]:
    """The headers of an answer. `locked` is the lock token, and until when."""
    try:
        properties = message.properties or Properties()
    except DecodeError:
        properties = Properties()
    headers: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in _readable_properties(message).items():
        text = _header_text(value)
        if _is_writable(name) and name.lower() not in seen and len(name) + len(text) <= MAX_REST_HEADER_CHARACTERS:
            seen.add(name.lower())
            headers[name] = text
    headers[BROKER_PROPERTIES_HEADER] = json.dumps(_broker_properties(message, properties, kept, locked))
    headers["Content-Type"] = _content_type(properties.content_type)
    return headers


def _broker_properties(
    message: Message, properties: Properties, kept: BrokeredMessage, locked: tuple[str, int] | None
) -> dict[str, object]:
    broker: dict[str, object] = {
        # The first delivery is the first, here.
        "DeliveryCount": kept.delivery_count + 1,
        "EnqueuedSequenceNumber": kept.enqueue_sequence_number,
        "EnqueuedTimeUtc": _http_date(kept.enqueued_time_ms),
        "SequenceNumber": kept.visible_sequence_number,
        "State": _STATES.get(kept.state, "Active"),
    }
    texts = {name: getattr(properties, field) for name, field in _TEXTS.items()}
    texts["DeadLetterSource"] = kept.dead_letter_source
    annotations = message.message_annotations or {}
    for key, name in ((PARTITION_KEY, "PartitionKey"), (VIA_PARTITION_KEY, "ViaPartitionKey")):
        texts[name] = annotations.get(key) if isinstance(annotations.get(key), str) else None
    scheduled = annotations.get(SCHEDULED_ENQUEUE_TIME)
    if isinstance(scheduled, Timestamp):
        broker["ScheduledEnqueueTimeUtc"] = _http_date(int(scheduled))
    header = message.header
    # .NET's largest TimeSpan, in seconds: no limit.
    broker["TimeToLive"] = 922337203685.4775 if header is None or header.ttl_ms is None else header.ttl_ms / 1_000
    if locked is not None:
        broker["LockToken"] = locked[0]
        broker["LockedUntilUtc"] = _http_date(locked[1])
    room = MAX_REST_HEADER_CHARACTERS - len(json.dumps(broker))
    for name, value in texts.items():
        if value is not None:
            text = id_text(value)
            room -= len(json.dumps({name: text}))
            if room > 0:
                broker[name] = text
    return broker


def _is_writable(name: str) -> bool:
    folded = name.lower()
    return (
        _TOKEN.fullmatch(name) is not None
        and folded not in _ABOUT_THE_REQUEST
        and folded not in _ORDERS
        and not folded.startswith(_SPECIAL_PREFIXES)
    )


def _readable_properties(message: Message) -> Mapping[str, object]:
    try:
        return message.application_properties or {}
    except DecodeError:
        return {}


def _content_type(content_type: object) -> str:
    text = str(content_type or "")
    is_sound = text.isascii() and text.isprintable() and 0 < len(text) <= MAX_REST_HEADER_CHARACTERS
    return text if is_sound else _DEFAULT_CONTENT_TYPE


def _header_text(value: object) -> str:
    """As JSON, in ASCII: whatever a sender put into a property cannot end the line."""
    if isinstance(value, Timestamp):
        return json.dumps(_http_date(int(value)))
    if isinstance(value, bytes):
        return json.dumps(value.hex())
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return json.dumps(str(value))


def _http_date(at_ms: int) -> str:
    """AMQP has moments far beyond the calendar of HTTP: those are told as they are."""
    try:
        return format_datetime(_EPOCH + timedelta(milliseconds=at_ms), usegmt=True)
    except OverflowError:
        return str(at_ms)
