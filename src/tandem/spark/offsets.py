"""How far a query has come in a hub, and what it reads next. Pure: numbers in, numbers out.

An offset is what Spark keeps in its checkpoint: the number of the next event to read of each partition, and which hub
that was. A hub that was deleted and made again has another incarnation, and numbers of the old one mean nothing in it.

    {"v": 1, "hub": "orders", "epoch": "17", "seq": {"0": 123, "1": 99}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tandem.errors import TandemError

__all__ = [
    "DataLoss",
    "EventRange",
    "HubExtent",
    "HubOffset",
    "PartitionExtent",
    "advance",
    "apportion",
    "bounded_by",
    "damaged",
    "expired",
    "ranges_between",
]

_VERSION: Final = 1

_TOLERATE: Final = "set failOnDataLoss to false to go on without them"


class DataLoss(TandemError):
    """Events that a query has not read yet are gone. The message says which, and how to go on without them."""


@dataclass(frozen=True)
class PartitionExtent:
    """The events that a partition holds: from `begin` to the one before `next`."""

    begin: int
    next: int
    # None where the service does not tell.
    size_bytes: int | None = None


@dataclass(frozen=True)
class HubExtent:
    """All partitions of a hub, seen at one moment."""

    hub: str
    incarnation: str
    partitions: Mapping[str, PartitionExtent]


@dataclass(frozen=True)
class HubOffset:
    """The number of the next event to read, by partition."""

    hub: str
    incarnation: str
    next_numbers: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Spark compares offsets as texts: the partitions are always in the same order."""
        numbers = {partition: self.next_numbers[partition] for partition in sorted(self.next_numbers, key=int)}
        return {"v": _VERSION, "hub": self.hub, "epoch": self.incarnation, "seq": numbers}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> HubOffset:
        if fields.get("v") != _VERSION:
            raise TandemError(
                f"the checkpoint has offsets of version {fields.get('v')!r:.40}; this is for {_VERSION}: "
                "use the release that wrote them, or a new checkpoint"
            )
        numbers = {str(partition): int(number) for partition, number in fields["seq"].items()}
        return HubOffset(str(fields["hub"]), str(fields["epoch"]), numbers)


@dataclass(frozen=True)
class EventRange:
    """Events of one partition from `first` to the one before `end`: what one task reads, as often as it has to."""

    partition: str
    first: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.first


def expired(hub: str, partition: str, expected: int, oldest: int) -> DataLoss:
    """The error about events that retention has taken."""
    return DataLoss(
        f"events {expected:,} to {oldest - 1:,} of partition {partition} of '{hub}' are gone: the oldest that is kept "
        f"is {oldest:,}. Raise the retention of the hub, or read more often; {_TOLERATE}"
    )


def damaged(hub: str, partition: str, first: int, last: int) -> DataLoss:
    """The error about events that the broker has lost."""
    return DataLoss(
        f"events {first:,} to {last:,} of partition {partition} of '{hub}' are damaged on the broker's disk. Run "
        f"`tandem check` there; {_TOLERATE}"
    )


def advance(
    start: HubOffset,
    extent: HubExtent,
    *,
    max_events: int | None = None,
    max_bytes: int | None = None,
    fails_on_data_loss: bool = True,
) -> HubOffset:
    """Up to where the next batch goes: never back, and never further than what the hub holds."""
    start = _in_this_hub(start, extent, fails_on_data_loss)
    numbers: dict[str, int] = {}
    backlogs: dict[str, int] = {}
    for partition, found in extent.partitions.items():
        # A partition that was added is read from its first event on.
        number = start.next_numbers.get(partition, 0)
        if number < found.begin:
            if fails_on_data_loss:
                raise expired(extent.hub, partition, number, found.begin)
            number = found.begin
        # Where it is tolerated, nothing is read until the hub has come so far again.
        if number > found.next and fails_on_data_loss:
            raise DataLoss(
                f"partition {partition} of '{extent.hub}' ends before event {found.next:,}, and was read up to "
                f"{number:,} before: it has lost events, as after a restore from a backup; {_TOLERATE}"
            )
        numbers[partition] = number
        backlogs[partition] = max(0, found.next - number)
    limit = _smaller(max_events, _events_of(max_bytes, extent, backlogs))
    shares = backlogs if limit is None else apportion(backlogs, limit)
    return HubOffset(
        extent.hub, extent.incarnation, {partition: numbers[partition] + shares[partition] for partition in numbers}
    )


def bounded_by(extent: HubExtent, target: HubOffset | None) -> HubExtent:
    """What a hub holds as if nothing had come since the target was noted."""
    if target is None or target.incarnation != extent.incarnation:
        return extent
    partitions = {
        partition: PartitionExtent(
            found.begin,
            max(found.begin, min(found.next, target.next_numbers.get(partition, found.begin))),
            found.size_bytes,
        )
        for partition, found in extent.partitions.items()
    }
    return HubExtent(extent.hub, extent.incarnation, partitions)


def apportion(backlogs: Mapping[str, int], limit: int) -> dict[str, int]:
    """Share a number of events among partitions by their backlogs.

    Each gets its part rounded down, and what is left goes by ones to those that were cut most. So no partition gets
    more than it has, none starves for ever, and the same backlogs always give the same shares.
    """
    total = sum(backlogs.values())
    if total <= limit:
        return dict(backlogs)
    shares = {partition: backlog * limit // total for partition, backlog in backlogs.items()}
    left = limit - sum(shares.values())
    by_remainder = sorted(backlogs, key=lambda partition: (-(backlogs[partition] * limit % total), int(partition)))
    for partition in by_remainder[:left]:
        shares[partition] += 1
    return shares


def ranges_between(start: HubOffset, end: HubOffset, min_ranges: int = 1) -> list[EventRange]:
    """What lies between two offsets, in at least so many ranges as far as there are events."""
    is_same_hub = start.incarnation == end.incarnation
    whole: list[EventRange] = []
    for partition in sorted(end.next_numbers, key=int):
        first = start.next_numbers.get(partition, 0) if is_same_hub else 0
        if end.next_numbers[partition] > first:
            whole.append(EventRange(partition, first, end.next_numbers[partition]))
    total = sum(one.count for one in whole)
    pieces: list[EventRange] = []
    for one in whole:
        # Rounded up: together they are at least as many as asked for.
        pieces += _split(one, min(one.count, -(-one.count * min_ranges // total)))
    return pieces


def _split(whole: EventRange, count: int) -> list[EventRange]:
    bounds = [whole.first + whole.count * number // count for number in range(count + 1)]
    return [EventRange(whole.partition, first, end) for first, end in pairwise(bounds)]


def _in_this_hub(start: HubOffset, extent: HubExtent, fails_on_data_loss: bool) -> HubOffset:
    if start.hub.lower() != extent.hub.lower():
        raise TandemError(
            f"the checkpoint is about the event hub '{start.hub}', and the query reads '{extent.hub}': "
            "give the query a checkpoint of its own"
        )
    if start.incarnation == extent.incarnation:
        return start
    if fails_on_data_loss:
        raise DataLoss(
            f"the event hub '{extent.hub}' is not the one that was read before (its incarnation was "
            f"{start.incarnation!r}, and is {extent.incarnation!r}): it was deleted and made again, or the checkpoint "
            f"was written over another transport. Use a new checkpoint; or to begin with the oldest event, {_TOLERATE}"
        )
    return HubOffset(extent.hub, extent.incarnation, {})


def _events_of(max_bytes: int | None, extent: HubExtent, backlogs: Mapping[str, int]) -> int | None:
    """How many events of the backlog have about so many bytes, and at least one of them."""
    if max_bytes is None:
        return None
    waiting_bytes = 0.0
    for partition, backlog in backlogs.items():
        found = extent.partitions[partition]
        if found.size_bytes is not None and found.next > found.begin:
            waiting_bytes += backlog * found.size_bytes / (found.next - found.begin)
    waiting = sum(backlogs.values())
    return None if waiting_bytes <= max_bytes else max(1, int(waiting * max_bytes / waiting_bytes))


def _smaller(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
