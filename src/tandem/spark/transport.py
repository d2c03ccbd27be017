"""What a source needs of its hubs: their names, how far each has come, and its events by their numbers.

Two wires can do it: bulk reads of Tandem, and AMQP.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol

from tandem.spark.offsets import EventRange, HubExtent
from tandem.spark.options import ARROW, EventHubsOptions

__all__ = ["HubTransport", "list_hubs", "open_transport"]


class HubTransport(Protocol):
    """A hub, behind one of the wires. It can be pickled, and holds no connection while it is."""

    def extent(self) -> HubExtent:
        """Return how far all partitions have come."""

    def numbers_at_time(self, time_ms: int) -> dict[str, int]:
        """Return the first event of this time or later, by partition; the next to come where there is none."""

    def number_at_offset(self, partition: str, offset: str) -> int:
        """Return the number of the event with this offset."""

    def read(self, wanted: EventRange, columns: Collection[str]) -> Iterator[Any]:
        """Yield the events of a range, in order and all of them, as record batches that have these columns or more.

        There is a column for `tandem.event_columns.HEAD` besides those of the table.
        Raises DataLoss if some of them are gone, or leaves them out if that is tolerated.
        """


def open_transport(options: EventHubsOptions, hub: str) -> HubTransport:
    # Each brings libraries along that the other does not need.
    if options.transport == ARROW:
        from tandem.spark.bulk import BulkTransport

        return BulkTransport(options, hub)
    from tandem.spark.amqp_transport import AmqpTransport

    return AmqpTransport(options, hub)


def list_hubs(options: EventHubsOptions) -> list[str]:
    """Return the names of all hubs of the namespace. Needs the right Manage."""
    if options.transport == ARROW:
        from tandem.spark.bulk import list_hubs_of_tandem

        return list_hubs_of_tandem(options)
    from tandem.spark.amqp_transport import list_hubs_of_service

    return list_hubs_of_service(options)
