"""Where in a partition to begin or to stop, in the words of Event Hubs and of Kafka.

    {"offset": "-1"}  {"offset": "@latest"}  {"seqNo": 7, "isInclusive": true}  {"enqueuedTime": "2026-11-16T07:00:00Z"}
    earliest  latest  {"orders": {"0": 23, "1": -2}}                              -2 is the oldest, -1 the end

Nothing here asks a hub: which event a time or an offset means is found out by whoever can.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

__all__ = [
    "EARLIEST",
    "LATEST",
    "BadPosition",
    "NamedPartition",
    "Position",
    "PositionChoice",
    "PositionKind",
    "event_hubs_position",
    "event_hubs_positions",
    "kafka_assignment",
    "kafka_offsets",
    "kafka_timestamp",
    "kafka_timestamps",
]

_KAFKA_LATEST: Final = -1
_KAFKA_EARLIEST: Final = -2
_FIELDS: Final = ("offset", "seqNo", "enqueuedTime", "isInclusive")


class BadPosition(ValueError):
    """A position that cannot be read. The message says what is allowed."""


class PositionKind(enum.Enum):
    """What a position is told by."""

    EARLIEST = "earliest"
    LATEST = "latest"
    SEQUENCE_NUMBER = "sequence number"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True)
class Position:
    """A place in a partition: at the event that is named, or behind it."""

    kind: PositionKind
    # The sequence number, or milliseconds since 1970 in UTC.
    number: int = 0
    offset: str = ""
    is_inclusive: bool = True


EARLIEST: Final = Position(PositionKind.EARLIEST)
LATEST: Final = Position(PositionKind.LATEST)


@dataclass(frozen=True)
class NamedPartition:
    """A partition of a hub, or of every hub that is read."""

    partition: str
    # In lower case; None for every hub.
    hub: str | None = None


@dataclass(frozen=True)
class PositionChoice:
    """A position for each partition that was named, and one for all others."""

    default: Position
    by_partition: Mapping[NamedPartition, Position] = field(default_factory=dict)

    def of(self, hub: str, partition: str) -> Position:
        for_every_hub = self.by_partition.get(NamedPartition(partition), self.default)
        return self.by_partition.get(NamedPartition(partition, hub.lower()), for_every_hub)


def event_hubs_position(text: str) -> Position:
    """As the connector for Event Hubs writes it."""
    if text.lower() in {"earliest", "latest"}:
        return EARLIEST if text.lower() == "earliest" else LATEST
    return _from_fields(_json_object(text))


def event_hubs_positions(text: str) -> dict[NamedPartition, Position]:
    """By partition. The connector for Event Hubs has JSON in the keys: `{"ehName": "orders", "partitionId": 0}`."""
    found: dict[NamedPartition, Position] = {}
    for key, value in _json_object(text).items():
        if not isinstance(value, dict):
            raise BadPosition(f'{key!r:.80} has {value!r:.80}; a position is an object such as {{"offset": "-1"}}')
        found[_named_partition(key)] = _from_fields(value)
    return found


def kafka_offsets(text: str) -> Position | dict[NamedPartition, Position]:
    """`earliest`, `latest`, or the number of the first event by hub and partition."""
    if text.lower() in {"earliest", "latest"}:
        return EARLIEST if text.lower() == "earliest" else LATEST
    return _by_partition(text, _kafka_number)


def kafka_timestamp(text: str) -> Position:
    """Milliseconds since 1970 in UTC."""
    if not text.isascii() or not text.isdigit():
        raise BadPosition("it must be milliseconds since 1970 in UTC")
    return Position(PositionKind.TIME, int(text))


def kafka_timestamps(text: str) -> dict[NamedPartition, Position]:
    return _by_partition(text, lambda milliseconds: Position(PositionKind.TIME, milliseconds))


def kafka_assignment(text: str) -> list[NamedPartition]:
    """Partitions by hub: `{"orders": [0, 3]}`."""
    found: list[NamedPartition] = []
    for hub, partitions in _json_object(text).items():
        if not isinstance(partitions, list) or not partitions:
            raise BadPosition(f'it must look like {{"{hub}": [0, 3]}}')
        found += [NamedPartition(_partition_id(str(one)), hub.lower()) for one in partitions]
    return found


def _kafka_number(number: int) -> Position:
    if number == _KAFKA_LATEST:
        return LATEST
    if number == _KAFKA_EARLIEST:
        return EARLIEST
    return Position(PositionKind.SEQUENCE_NUMBER, number)


def _by_partition(text: str, read: Callable[[int], Position]) -> dict[NamedPartition, Position]:
    found: dict[NamedPartition, Position] = {}
    for hub, partitions in _json_object(text).items():
        if not isinstance(partitions, dict):
            raise BadPosition('it must look like {"HUB": {"0": 23, "1": -2}}')
        for partition, number in partitions.items():
            if isinstance(number, bool) or not isinstance(number, int) or number < _KAFKA_EARLIEST:
                raise BadPosition(f"partition {partition!r:.40} has {number!r:.80}; it must be a whole number")
            found[NamedPartition(_partition_id(partition), hub.lower())] = read(number)
    return found


def _named_partition(key: str) -> NamedPartition:
    if not key.startswith("{"):
        return NamedPartition(_partition_id(key))
    fields = _json_object(key)
    named = fields.get("ehName")
    if named is not None and not isinstance(named, str):
        raise BadPosition(f"ehName is {named!r:.80}; it must be the name of a hub")
    return NamedPartition(_partition_id(str(fields.get("partitionId"))), None if named is None else named.lower())


def _partition_id(text: str) -> str:
    if not text.isascii() or not text.isdigit():
        raise BadPosition(f"a partition is named {text!r:.80}; it must be a number such as 0")
    return str(int(text))


def _from_fields(fields: Mapping[str, object]) -> Position:
    for name in fields:
        if name not in _FIELDS:
            raise BadPosition(f"it has {name!r:.40}; a position has {', '.join(_FIELDS)}")
    is_inclusive = fields.get("isInclusive", True)
    if not isinstance(is_inclusive, bool):
        raise BadPosition(f"isInclusive is {is_inclusive!r:.40}; it must be true or false")
    offset, number, moment = fields.get("offset"), fields.get("seqNo"), fields.get("enqueuedTime")
    # The connector for Event Hubs writes all fields, with -1 for a number that is not meant.
    if offset is not None:
        return _from_offset(offset, is_inclusive)
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return Position(PositionKind.SEQUENCE_NUMBER, number, is_inclusive=is_inclusive)
    if moment is not None:
        return Position(PositionKind.TIME, _milliseconds(moment), is_inclusive=is_inclusive)
    raise BadPosition("it names neither offset nor seqNo nor enqueuedTime")


def _from_offset(offset: object, is_inclusive: bool) -> Position:
    if not isinstance(offset, str):
        raise BadPosition(f"offset is {offset!r:.80}; it must be a text")
    if offset == "-1":
        return EARLIEST
    if offset == "@latest":
        return LATEST
    return Position(PositionKind.OFFSET, offset=offset, is_inclusive=is_inclusive)


def _milliseconds(moment: object) -> int:
    try:
        parsed = datetime.fromisoformat(str(moment))
    except ValueError:
        raise BadPosition(f"enqueuedTime is {moment!r:.80}; write it as 2026-11-16T07:00:00Z") from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    return int(parsed.timestamp() * 1_000)


def _json_object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        raise BadPosition("it is no JSON") from None
    if not isinstance(value, dict):
        raise BadPosition("it must be a JSON object")
    return value
