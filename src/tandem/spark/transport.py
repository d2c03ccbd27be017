"""What a source needs of a hub: how far it has come, and its events by their numbers. Two wires can do it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from tandem.spark.offsets import EventRange, HubExtent
from tandem.spark.options import ARROW, EventHubsOptions

__all__ = ["HubTransport", "open_transport"]


class HubTransport(Protocol):
    """A hub, behind one of the wires. It can be pickled, and holds no connection while it is."""

    def extent(self) -> HubExtent:
        """How far all partitions have come."""

    def numbers_at_time(self, time_ms: int) -> dict[str, int]:
        """The first event of this time or later, by partition; the next to come where there is none."""

    def number_at_offset(self, partition: str, offset: str) -> int:
        """The number of the event with this offset."""

    def read(self, wanted: EventRange, incarnation: str) -> Iterator[Any]:
        """The events of a range as record batches of the public columns, in order, all of them: DataLoss if not."""


def open_transport(options: EventHubsOptions) -> HubTransport:
    # Each brings libraries along that the other does not need.
    if options.transport == ARROW:
        from tandem.spark.bulk import BulkTransport

        return BulkTransport(options)
    from tandem.spark.amqp_transport import AmqpTransport

    return AmqpTransport(options)
