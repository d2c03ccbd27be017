"""What an action changes in a message, and how it is written into the message's bytes."""

from __future__ import annotations

from typing import Final

from tandem.amqp.message import Message, Properties
from tandem.amqp.sections import APPLICATION_PROPERTIES, HEADER, PROPERTIES, Entries, Sections
from tandem.errors import DecodeError, EncodeError
from tandem.rules.errors import RuleEvaluationError

__all__ = ["REMOVED", "Changes", "Removed", "apply_changes"]


class Removed:
    """The type of REMOVED."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "REMOVED"


# Stands in the place of a value for a user property that is taken away. Null would be a value.
REMOVED: Final = Removed()

# System properties that are in the header and in annotations.
_ELSEWHERE: Final = frozenset(("time_to_live_ms", "scheduled_enqueue_time_ms", "partition_key"))


class Changes:
    """The new values of properties.

    `user` has the names as they are to be written, with AMQP values or REMOVED. `system` has the names message_id,
    correlation_id, content_type, label, to, reply_to, session_id, reply_to_session_id and partition_key with strings,
    and time_to_live_ms and scheduled_enqueue_time_ms with integers; None clears what was there.
    """

    __slots__ = ("system", "user")

    def __init__(self) -> None:
        self.user: dict[str, object] = {}
        self.system: dict[str, object] = {}

    def __bool__(self) -> bool:
        return bool(self.user) or bool(self.system)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Changes) and self.user == other.user and self.system == other.system

    def __hash__(self) -> int:
        return hash((tuple(self.user), tuple(self.system)))

    def __repr__(self) -> str:
        return f"Changes(user={self.user!r}, system={self.system!r})"


def apply_changes(bare: bytes, changes: Changes) -> bytes:
    """The bare message with the changes in its properties and application-properties; the other bytes as they were.

    The time to live, the scheduled enqueue time and the partition key are not in the bare message: they are left to the
    caller.
    """
    try:
        message = Message(bare)
        # The later section first, so that the offsets of the earlier one stay right.
        spans: list[tuple[int, int, bytes]] = []
        if changes.user:
            spans.append(_application_properties(message.sections, changes.user))
        if not _ELSEWHERE.issuperset(changes.system):
            properties = message.properties or Properties()
            _set_fields(properties, changes.system)
            spans.append(_properties(message.sections, properties))
    except (DecodeError, EncodeError) as error:
        raise RuleEvaluationError(f"the action's changes cannot be written into the message: {error}") from error
    for start, end, section in sorted(spans, key=_start, reverse=True):
        bare = b"".join((bare[:start], section, bare[end:]))
    return bare


def _start(span: tuple[int, int, bytes]) -> int:
    return span[0]


def _application_properties(sections: Sections, user: dict[str, object]) -> tuple[int, int, bytes]:
    """Where the section stands or would stand, and what takes its place. Properties that stay keep their bytes."""
    written = {name: value for name, value in user.items() if value is not REMOVED}
    fresh = Entries.with_string_keys(written).with_service_decimals()
    kept = sections.entries(APPLICATION_PROPERTIES, {name.encode() for name in user})
    section = kept.followed_by(fresh).to_section(APPLICATION_PROPERTIES)
    at = 3 * (APPLICATION_PROPERTIES - HEADER)
    start, end = sections.spans[at], sections.spans[at + 2]
    return (sections.body_start(), sections.body_start(), section) if start < 0 else (start, end, section)


def _properties(sections: Sections, properties: Properties) -> tuple[int, int, bytes]:
    at = 3 * (PROPERTIES - HEADER)
    start, end = sections.spans[at], sections.spans[at + 2]
    if start < 0:
        following = sections.spans[3 * (APPLICATION_PROPERTIES - HEADER)]
        start = end = sections.body_start() if following < 0 else following
    return start, end, properties.encode()


def _set_fields(properties: Properties, system: dict[str, object]) -> None:
    for name, value in system.items():
        text = None if value is None else str(value)
        if name == "message_id":
            properties.message_id = text
        elif name == "correlation_id":
            properties.correlation_id = text
        elif name == "content_type":
            properties.content_type = text
        elif name == "label":
            properties.subject = text
        elif name == "to":
            properties.to = text
        elif name == "reply_to":
            properties.reply_to = text
        elif name == "session_id":
            properties.group_id = text
        elif name == "reply_to_session_id":
            properties.reply_to_group_id = text
