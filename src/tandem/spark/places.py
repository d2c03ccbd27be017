"""From what a user says about where to begin to the numbers of events, by asking the hub."""

from __future__ import annotations

from tandem.spark.given_options import OptionError
from tandem.spark.offsets import HubExtent, HubOffset, PartitionExtent, expired
from tandem.spark.options import EventHubsOptions
from tandem.spark.positions import Position, PositionChoice, PositionKind
from tandem.spark.transport import HubTransport

__all__ = ["chosen_extent", "ending_offset", "starting_offset"]


def chosen_extent(options: EventHubsOptions, transport: HubTransport) -> HubExtent:
    """How far the partitions have come that are to be read."""
    extent = transport.extent()
    partitions = options.hubs.partitions_of(extent.hub)
    if partitions is None:
        return extent
    for partition in partitions:
        if partition not in extent.partitions:
            raise OptionError(
                f"eventhubs: partitions names {partition}; '{extent.hub}' has 0 to {len(extent.partitions) - 1}"
            )
    chosen = {partition: extent.partitions[partition] for partition in partitions}
    return HubExtent(extent.hub, extent.incarnation, chosen)


def starting_offset(options: EventHubsOptions, transport: HubTransport, extent: HubExtent) -> HubOffset:
    """Where a query begins that has no checkpoint."""
    numbers = _numbers(options.starting, transport, extent)
    for partition, number in numbers.items():
        found = extent.partitions[partition]
        if number < found.begin:
            if options.fails_on_data_loss:
                raise expired(extent.hub, partition, number, found.begin)
            numbers[partition] = found.begin
        elif number > found.next:
            raise OptionError(
                f"eventhubs: the starting position of partition {partition} is {number:,}; its next event will have "
                f"number {found.next:,}"
            )
    return HubOffset(extent.hub, extent.incarnation, numbers)


def ending_offset(options: EventHubsOptions, transport: HubTransport, extent: HubExtent) -> HubOffset:
    """Where a batch read stops: never behind what is there."""
    numbers = _numbers(options.ending, transport, extent)
    bounded = {partition: min(number, extent.partitions[partition].next) for partition, number in numbers.items()}
    return HubOffset(extent.hub, extent.incarnation, bounded)


def _numbers(choice: PositionChoice, transport: HubTransport, extent: HubExtent) -> dict[str, int]:
    for named in choice.by_partition:
        if named.hub in {None, extent.hub.lower()} and named.partition not in extent.partitions:
            raise OptionError(
                f"eventhubs: a position names partition {named.partition}, which is not among those of '{extent.hub}' "
                "that are to be read"
            )
    at_times: dict[int, dict[str, int]] = {}
    numbers: dict[str, int] = {}
    for partition, found in extent.partitions.items():
        position = choice.of(extent.hub, partition)
        if position.kind is PositionKind.TIME:
            # Behind a time is at the next millisecond.
            time_ms = position.number if position.is_inclusive else position.number + 1
            if time_ms not in at_times:
                at_times[time_ms] = transport.numbers_at_time(time_ms)
            numbers[partition] = at_times[time_ms][partition]
        else:
            numbers[partition] = _number(position, transport, partition, found)
    return numbers


def _number(position: Position, transport: HubTransport, partition: str, found: PartitionExtent) -> int:
    if position.kind is PositionKind.EARLIEST:
        return found.begin
    if position.kind is PositionKind.LATEST:
        return found.next
    number = position.number
    if position.kind is PositionKind.OFFSET:
        number = transport.number_at_offset(partition, position.offset)
    return number if position.is_inclusive else number + 1
