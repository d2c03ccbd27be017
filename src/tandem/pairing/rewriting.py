"""What is changed about a message that takes the detour, and how it is changed back.

A backlog queue holds messages for many entities, has no sessions, and must neither lose a message because its time to
live ends on the way nor hide it until a scheduled time comes. So these are cleared and kept as properties:

    x-ms-path                       the entity that the message was sent to
    x-ms-sessionid                  SessionId, a string
    x-ms-timetolive                 TimeToLive, a string as .NET writes a TimeSpan: 00:01:30, 1.00:00:00, 00:00:00.2500
    x-ms-scheduledenqueuetimeutc    ScheduledEnqueueTimeUtc, an AMQP timestamp

Everything else, the bytes of the body among it, stays as it is, and `restore` undoes `rewrite`. Messages that other
senders wrote are read too: names in any case; a time to live as a TimeSpan, as ISO 8601 or as a number of
milliseconds; a scheduled time as ISO 8601 or as milliseconds since 1970; a path as a whole URI.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tandem.addresses import parse_address
from tandem.amqp.types import Described, Timestamp
from tandem.client.entities.atom import read_duration
from tandem.client.messaging.message import BrokeredMessage
from tandem.errors import ArgumentError, TandemError, UsageError
from tandem.limits import MAX_MESSAGE_TIME_TO_LIVE_MS
from tandem.rules.values import TIMESPAN, TimeSpan

__all__ = [
    "PATH",
    "SCHEDULED_ENQUEUE_TIME",
    "SESSION_ID",
    "TIME_TO_LIVE",
    "Kept",
    "NotRestorable",
    "kept_in",
    "restore",
    "rewrite",
    "with_kept",
]

PATH: Final = "x-ms-path"
SESSION_ID: Final = "x-ms-sessionid"
TIME_TO_LIVE: Final = "x-ms-timetolive"
SCHEDULED_ENQUEUE_TIME: Final = "x-ms-scheduledenqueuetimeutc"

_NAMES: Final = frozenset({PATH, SESSION_ID, TIME_TO_LIVE, SCHEDULED_ENQUEUE_TIME})

# Put before a property of the application that has one of the names above, so that it survives; again and again if need
# be.
_ESCAPE: Final = "x-ms-kept-"

_MILLISECOND: Final = timedelta(milliseconds=1)

# [-][d.]hh:mm[:ss[.fffffff]]; what is negative or below a millisecond means nothing as a time to live.
_TIMESPAN_TEXT: Final = re.compile(r"(?:(\d{1,8})\.)?(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,7}))?)?", re.ASCII)


class NotRestorable(TandemError):
    """A message in a backlog queue does not say where it belongs, or says it in a way that nobody can read."""


@dataclass(frozen=True)
class Kept:
    """What a message was before it took the detour."""

    path: str
    session_id: str | None = None
    time_to_live: timedelta | None = None
    scheduled_enqueue_time_utc: datetime | None = None


def rewrite(message: BrokeredMessage, path: str) -> BrokeredMessage:
    """A copy for a backlog queue, of a message that was sent to `path`."""
    copy = message.clone()
    kept = Kept(path, message.session_id, message.time_to_live, message.scheduled_enqueue_time_utc)
    properties = with_kept(message.properties, kept)
    copy.properties.clear()
    copy.properties.update(properties)
    copy.session_id = None
    copy.time_to_live = None
    copy.scheduled_enqueue_time_utc = None
    return copy


def restore(message: BrokeredMessage) -> tuple[str, BrokeredMessage]:
    """Where a message from a backlog queue belongs, and a copy as it was sent there."""
    kept, properties = kept_in(message.properties)
    copy = message.clone()
    copy.properties.clear()
    copy.properties.update(properties)
    # Other senders may have left them where they were.
    if kept.session_id is not None:
        copy.session_id = kept.session_id
    if kept.time_to_live is not None:
        try:
            copy.time_to_live = kept.time_to_live
        except UsageError as error:
            raise NotRestorable(f"{TIME_TO_LIVE}: {error}") from None
    if kept.scheduled_enqueue_time_utc is not None:
        copy.scheduled_enqueue_time_utc = kept.scheduled_enqueue_time_utc
    return kept.path, copy


# --- properties -----------------------------------------------------------------------------------------------------


def with_kept(properties: Mapping[str, object], kept: Kept) -> dict[str, object]:
    """The properties of an application, and beside them what is kept of its message."""
    changed = {_escaped(name): value for name, value in properties.items()}
    changed[PATH] = kept.path
    if kept.session_id is not None:
        changed[SESSION_ID] = kept.session_id
    if kept.time_to_live is not None:
        changed[TIME_TO_LIVE] = str(TimeSpan.of_ms(kept.time_to_live // _MILLISECOND))
    if kept.scheduled_enqueue_time_utc is not None:
        changed[SCHEDULED_ENQUEUE_TIME] = Timestamp.from_datetime(kept.scheduled_enqueue_time_utc)
    return changed


def kept_in(properties: Mapping[str, object]) -> tuple[Kept, dict[str, object]]:
    """What is kept in the properties of a message, and those of the application."""
    kept: dict[str, object] = {}
    rest: dict[str, object] = {}
    for name, value in properties.items():
        if name.lower() in _NAMES:
            kept[name.lower()] = value
        else:
            rest[_unescaped(name)] = value
    return (
        Kept(
            _read_path(kept.get(PATH)),
            _read_session_id(kept.get(SESSION_ID)),
            _read_time_to_live(kept.get(TIME_TO_LIVE)),
            _read_moment(kept.get(SCHEDULED_ENQUEUE_TIME)),
        ),
        rest,
    )


def _escaped(name: str) -> str:
    return _ESCAPE + name if _is_reserved(name) else name


def _unescaped(name: str) -> str:
    return name.removeprefix(_ESCAPE) if _is_reserved(name) else name


def _is_reserved(name: str) -> bool:
    while name.startswith(_ESCAPE):
        name = name.removeprefix(_ESCAPE)
    return name.lower() in _NAMES


# --- values as senders write them -----------------------------------------------------------------------------------


def _read_path(value: object) -> str:
    if value is None:
        raise NotRestorable(f"the message has no property {PATH}: nobody knows which entity it was sent to")
    if not isinstance(value, str):
        # Followed to the letter, the documentation of the first such service puts the scheduled time here.
        raise NotRestorable(f"{PATH} is {value!r:.80}; it must be the path of a queue or a topic")
    try:
        path = parse_address(str(value)).path
    except ArgumentError as error:
        raise NotRestorable(f"{PATH}: {error}") from None
    if not path:
        raise NotRestorable(f"{PATH} is {value!r:.80}, which names no entity")
    return path


def _read_session_id(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    raise NotRestorable(f"{SESSION_ID} is {value!r:.80}; it must be a string")


def _read_time_to_live(value: object) -> timedelta | None:
    if value is None:
        return None
    ttl_ms = _time_to_live_ms(value)
    if ttl_ms is None:
        raise NotRestorable(
            f"{TIME_TO_LIVE} is {value!r:.80}; it must be a TimeSpan, such as 00:01:30 or PT1M30S, or milliseconds"
        )
    return None if ttl_ms > MAX_MESSAGE_TIME_TO_LIVE_MS else timedelta(milliseconds=ttl_ms)


def _time_to_live_ms(value: object) -> int | None:
    """None for what cannot be read. What means "for ever" is longer than anything."""
    if isinstance(value, Described) and str(value.descriptor) == TIMESPAN and isinstance(value.value, int):
        return TimeSpan(int(value.value)).to_ms()
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if not isinstance(value, str):
        return None
    match = _TIMESPAN_TEXT.fullmatch(value.strip())
    if match is None:
        try:
            return read_duration(value) // _MILLISECOND
        except ArgumentError:
            return None
    days, hours, minutes, seconds, fraction = match.groups(default="0")
    whole_s = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return whole_s * 1_000 + int(fraction.ljust(7, "0")[:3])


def _read_moment(value: object) -> datetime | None:
    if value is None:
        return None
    moment = None
    if isinstance(value, int) and not isinstance(value, bool):
        moment = _moment_of_ms(int(value))
    elif isinstance(value, datetime):
        moment = value
    elif isinstance(value, str):
        moment = _moment_of_text(str(value))
    if moment is None:
        raise NotRestorable(f"{SCHEDULED_ENQUEUE_TIME} is {value!r:.80}; it must be a timestamp, or a time as ISO 8601")
    return moment.replace(tzinfo=moment.tzinfo or UTC)


def _moment_of_ms(value_ms: int) -> datetime | None:
    """Exact: a float of seconds would not be."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value_ms)
    except OverflowError:
        return None


def _moment_of_text(text: str) -> datetime | None:
    """.NET writes seven digits of a second, of which Python keeps six."""
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.strip()))
    except ValueError:
        return None
