"""How far a query has come in its hubs, and what it reads next. Pure: numbers in, numbers out.

An offset is what Spark keeps in its checkpoint: for each hub the number of the next event to read of each partition,
and which hub that was. A hub that was deleted and made again has another incarnation, and numbers of the old one mean
nothing in it.

    {"v": 1, "hub": "orders", "epoch": "17", "seq": {"0": 123, "1": 99}}                 one hub
    {"v": 2, "hubs": {"invoices": {"epoch": "4", "seq": {"0": 5}}, "orders": …}}         several of them

Where data loss is tolerated, a partition may have to be read from another event on than the last batch ended with. The
end of the batch that does so says where: `"from": {"0": 50}`. A batch is known by its start and its end alone, because
Spark plans it again from these after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tandem.errors import TandemError

__all__ = [
    "DataLoss",
    "EventRange",
    "HubExtent",
    "HubOffset",
    "PartitionExtent",
    "ReadPartition",
    "SourceOffset",
    "advance",
    "apportion",
    "bounded_by",
    "damaged",
    "expired",
    "head_of",
    "made_again",
    "ranges_between",
    "split_ranges",
    "stepped_back",
]

_ONE_HUB: Final = 1
_SEVERAL_HUBS: Final = 2

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
    # As the end of a batch: partitions that it reads from this event on, wherever the batch before has ended.
    resumed_at: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Spark compares offsets as texts: the partitions are always in the same order."""
        fields: dict[str, Any] = {"epoch": self.incarnation, "seq": _in_order(self.next_numbers)}
        return {**fields, "from": _in_order(self.resumed_at)} if self.resumed_at else fields

    @staticmethod
    def from_json(hub: str, fields: Mapping[str, Any]) -> HubOffset:
        numbers, resumed = (
            {str(partition): int(number) for partition, number in fields.get(name, {}).items()}
            for name in ("seq", "from")
        )
        return HubOffset(hub, str(fields["epoch"]), numbers, resumed)


@dataclass(frozen=True)
class SourceOffset:
    """Offsets of all hubs that a query reads. Names of hubs are the same in any case."""

    hubs: Mapping[str, HubOffset]

    @staticmethod
    def of(offsets: Sequence[HubOffset]) -> SourceOffset:
        return SourceOffset({one.hub.lower(): one for one in sorted(offsets, key=lambda one: one.hub.lower())})

    def to_json(self) -> dict[str, Any]:
        if len(self.hubs) == 1:
            [only] = self.hubs.values()
            return {"v": _ONE_HUB, "hub": only.hub, **only.to_json()}
        return {"v": _SEVERAL_HUBS, "hubs": {one.hub: one.to_json() for one in self.hubs.values()}}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> SourceOffset:
        version = fields.get("v")
        if version == _ONE_HUB:
            return SourceOffset.of([HubOffset.from_json(str(fields["hub"]), fields)])
        if version == _SEVERAL_HUBS:
            return SourceOffset.of([HubOffset.from_json(str(hub), one) for hub, one in fields["hubs"].items()])
        raise TandemError(
            f"the checkpoint has offsets of version {version!r:.40}; this is for {_ONE_HUB} and {_SEVERAL_HUBS}: "
            "use the release that wrote them, or a new checkpoint"
        )


@dataclass(frozen=True)
class EventRange:
    """Events of one partition from `first` to the one before `end`: what one task reads, as often as it has to."""

    hub: str
    incarnation: str
    partition: str
    first: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.first


# --- loss -----------------------------------------------------------------------------------------------------------


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


def stepped_back(hub: str, partition: str, number: int, behind: int) -> DataLoss:
    """The error about a partition that ends before an event that it had."""
    return DataLoss(
        f"partition {partition} of '{hub}' ends before event {behind:,}, and had events up to {number - 1:,} before: "
        f"it has lost some, as after a restore from a backup; {_TOLERATE}"
    )


def made_again(hub: str, before: str, now: str) -> DataLoss:
    """The error about a hub that has the name of another one."""
    return DataLoss(
        f"the event hub '{hub}' is not the one that was read before (its incarnation was {before!r}, and is {now!r}): "
        f"it was deleted and made again, or the checkpoint was written over another transport. Use a new checkpoint; "
        f"or to begin with the oldest event, {_TOLERATE}"
    )


def _vanished(hub: str) -> DataLoss:
    return DataLoss(f"the event hub '{hub}' was read before, and does not exist any more; {_TOLERATE}")


# --- the next batch -------------------------------------------------------------------------------------------------


class ReadPartition(NamedTuple):
    """A partition that is read: sorted by hub, then by number."""

    hub: str
    number: int

    @property
    def id(self) -> str:
        return str(self.number)


def advance(
    start: SourceOffset,
    extents: Sequence[HubExtent],
    *,
    max_events: int | None = None,
    max_bytes: int | None = None,
    fails_on_data_loss: bool = True,
) -> SourceOffset:
    """Return where the next batch ends: at most as far as the hubs hold events.

    A hub that was not read before is read from its oldest event on, and so is a partition that was added.
    """
    by_hub = {extent.hub.lower(): extent for extent in extents}
    if fails_on_data_loss:
        for name, offset in start.hubs.items():
            if name not in by_hub:
                raise _vanished(offset.hub)
    starts = {name: _start_in(extent, start.hubs.get(name), fails_on_data_loss) for name, extent in by_hub.items()}
    backlogs = {
        ReadPartition(name, int(partition)): max(0, by_hub[name].partitions[partition].next - number)
        for name, (numbers, _) in starts.items()
        for partition, number in numbers.items()
    }
    limit = _smaller(max_events, _events_of(max_bytes, by_hub, backlogs))
    shares = backlogs if limit is None else apportion(backlogs, limit)
    ends: list[HubOffset] = []
    for name, (numbers, resumed) in starts.items():
        extent = by_hub[name]
        ends_at = {one: number + shares[ReadPartition(name, int(one))] for one, number in numbers.items()}
        end = HubOffset(extent.hub, extent.incarnation, ends_at, resumed)
        before = start.hubs.get(name)
        # Of a batch that has nothing to read, Spark must see that it ends where it starts.
        is_same = before is not None and _without_resumption(before) == _without_resumption(end) and not resumed
        ends.append(before if is_same and before is not None else end)
    return SourceOffset.of(ends)


def _start_in(
    extent: HubExtent, start: HubOffset | None, fails_on_data_loss: bool
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the next number of each partition, and those of them that the last batch did not end with."""
    known: Mapping[str, int] = {} if start is None else start.next_numbers
    if start is not None and start.incarnation != extent.incarnation:
        if fails_on_data_loss:
            raise made_again(extent.hub, start.incarnation, extent.incarnation)
        known = {}
    numbers: dict[str, int] = {}
    resumed: dict[str, int] = {}
    for partition, found in extent.partitions.items():
        number = numbers[partition] = known.get(partition, 0)
        if number < found.begin:
            # What is new to the query has lost nothing.
            if fails_on_data_loss and partition in known:
                raise expired(extent.hub, partition, number, found.begin)
            numbers[partition] = resumed[partition] = found.begin
        elif number > found.next:
            if fails_on_data_loss:
                raise stepped_back(extent.hub, partition, number, found.next)
            # What comes from now on has numbers that were used before.
            numbers[partition] = resumed[partition] = found.next
    return numbers, resumed


def head_of(extents: Sequence[HubExtent]) -> SourceOffset:
    """Return the offset behind every event that hubs hold."""
    return SourceOffset.of(
        [
            HubOffset(extent.hub, extent.incarnation, {one: found.next for one, found in extent.partitions.items()})
            for extent in extents
        ]
    )


def bounded_by(extents: Sequence[HubExtent], target: SourceOffset | None) -> list[HubExtent]:
    """Return what hubs hold as if nothing had come since the target was noted."""
    if target is None:
        return list(extents)
    bounded: list[HubExtent] = []
    for extent in extents:
        known = target.hubs.get(extent.hub.lower())
        if known is not None and known.incarnation == extent.incarnation:
            bounded.append(_bounded(extent, known))
        elif known is not None:
            bounded.append(extent)
    return bounded


def _bounded(extent: HubExtent, target: HubOffset) -> HubExtent:
    partitions = {
        partition: PartitionExtent(
            found.begin,
            max(found.begin, min(found.next, target.next_numbers.get(partition, found.begin))),
            found.size_bytes,
        )
        for partition, found in extent.partitions.items()
    }
    return HubExtent(extent.hub, extent.incarnation, partitions)


def apportion(backlogs: Mapping[ReadPartition, int], limit: int) -> dict[ReadPartition, int]:
    """Share a number of events among partitions by their backlogs.

    Each gets its part rounded down, and what is left goes by ones to those that were cut most. So no partition gets
    more than it has, none starves for ever, and the same backlogs always give the same shares.
    """
    total = sum(backlogs.values())
    if total <= limit:
        return dict(backlogs)
    shares = {partition: backlog * limit // total for partition, backlog in backlogs.items()}
    left = limit - sum(shares.values())
    by_remainder = sorted(backlogs, key=lambda partition: (-(backlogs[partition] * limit % total), partition))
    for partition in by_remainder[:left]:
        shares[partition] += 1
    return shares


def ranges_between(start: SourceOffset, end: SourceOffset) -> list[EventRange]:
    """Return what lies between two offsets, a range for each partition that has events there."""
    return [one for name, until in end.hubs.items() for one in _ranges(start.hubs.get(name), until)]


def split_ranges(whole: Sequence[EventRange], min_ranges: int) -> list[EventRange]:
    """Split ranges into at least so many, as far as there are events."""
    total = sum(one.count for one in whole)
    pieces: list[EventRange] = []
    for one in whole:
        # Rounded up: together they are at least as many as asked for.
        pieces += _split(one, min(one.count, -(-one.count * min_ranges // total)))
    return pieces


def _ranges(start: HubOffset | None, end: HubOffset) -> Iterator[EventRange]:
    known = start.next_numbers if start is not None and start.incarnation == end.incarnation else {}
    for partition in sorted(end.next_numbers, key=int):
        first = end.resumed_at.get(partition, known.get(partition, 0))
        if end.next_numbers[partition] > first:
            yield EventRange(end.hub, end.incarnation, partition, first, end.next_numbers[partition])


def _split(whole: EventRange, count: int) -> list[EventRange]:
    bounds = [whole.first + whole.count * number // count for number in range(count + 1)]
    return [EventRange(whole.hub, whole.incarnation, whole.partition, first, end) for first, end in pairwise(bounds)]


def _events_of(
    max_bytes: int | None, extents: Mapping[str, HubExtent], backlogs: Mapping[ReadPartition, int]
) -> int | None:
    """Return how many events of the backlog have about so many bytes, and at least one of them."""
    if max_bytes is None:
        return None
    waiting_bytes = 0.0
    for partition, backlog in backlogs.items():
        found = extents[partition.hub].partitions[partition.id]
        if found.size_bytes is not None and found.next > found.begin:
            waiting_bytes += backlog * found.size_bytes / (found.next - found.begin)
    waiting = sum(backlogs.values())
    return None if waiting_bytes <= max_bytes else max(1, int(waiting * max_bytes / waiting_bytes))


def _smaller(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _without_resumption(offset: HubOffset) -> tuple[str, dict[str, int]]:
    return offset.incarnation, dict(offset.next_numbers)


def _in_order(numbers: Mapping[str, int]) -> dict[str, int]:
    return {partition: numbers[partition] for partition in sorted(numbers, key=int)}
