"""The hubs of a query: found by name or by pattern, asked how far they have come, read by range."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tandem import errors
from tandem.errors import RemoteError, TandemError
from tandem.spark.offsets import EventRange, HubExtent, SourceOffset
from tandem.spark.options import EventHubsOptions
from tandem.spark.places import chosen_extent, ending_offset, starting_offset
from tandem.spark.transport import HubTransport, list_hubs, open_transport

__all__ = ["ReadHubs"]


class ReadHubs:
    """All hubs that a query reads. It travels to the executors."""

    def __init__(self, options: EventHubsOptions) -> None:
        self._options = options
        # By name in lower case.
        self._transports: dict[str, HubTransport] = {}

    def transport(self, hub: str) -> HubTransport:
        found = self._transports.get(hub.lower())
        if found is None:
            found = self._transports[hub.lower()] = open_transport(self._options, hub)
        return found

    def extents(self) -> list[HubExtent]:
        """Return how far the partitions have come that are to be read, of every hub that there is now."""
        hubs = self._options.hubs
        if hubs.pattern is None:
            return [chosen_extent(self._options, self.transport(name)) for name in hubs.names]
        extents: list[HubExtent] = []
        for name in list_hubs(self._options):
            if hubs.includes(name):
                try:
                    extents.append(chosen_extent(self._options, self.transport(name)))
                except RemoteError as error:
                    # It was deleted since it was listed.
                    if error.condition != errors.NotFound.condition:
                        raise
        return extents

    def starting(self, extents: list[HubExtent]) -> SourceOffset:
        """Return where a query begins that has no checkpoint."""
        return SourceOffset.of([starting_offset(self._options, self.transport(one.hub), one) for one in extents])

    def ending(self, extents: list[HubExtent]) -> SourceOffset:
        """Return where a batch read stops."""
        return SourceOffset.of([ending_offset(self._options, self.transport(one.hub), one) for one in extents])

    def require_own(self, offset: SourceOffset) -> None:
        """Raise an error for a checkpoint of another query."""
        for one in offset.hubs.values():
            if not self._options.hubs.includes(one.hub):
                raise TandemError(
                    f"the checkpoint is about the event hub '{one.hub}', and the query reads {self._options.hubs}: "
                    "give the query a checkpoint of its own"
                )

    def read(self, wanted: EventRange, columns: Collection[str]) -> Iterator[Any]:
        return self.transport(wanted.hub).read(wanted, columns)
