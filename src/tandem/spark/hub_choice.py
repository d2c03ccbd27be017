"""Which hubs a query reads, and which of their partitions. Nothing here asks the service."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tandem.spark.positions import NamedPartition

__all__ = ["HubChoice"]


@dataclass(frozen=True)
class HubChoice:
    """Hubs by their names, or all whose names match a pattern. Names are the same in any case."""

    names: tuple[str, ...] = ()
    # A regular expression for the whole name.
    pattern: str | None = None
    # Several hubs may be meant: rows say which hub they come from.
    is_plural: bool = False
    # None for all partitions.
    partitions: tuple[NamedPartition, ...] | None = None

    def includes(self, hub: str) -> bool:
        if self.pattern is not None:
            return re.fullmatch(self.pattern, hub, re.IGNORECASE) is not None
        return hub.lower() in {name.lower() for name in self.names}

    def partitions_of(self, hub: str) -> tuple[str, ...] | None:
        """The partitions to read of a hub, in order; None for all."""
        if self.partitions is None:
            return None
        chosen = {one.partition for one in self.partitions if one.hub in {None, hub.lower()}}
        return tuple(sorted(chosen, key=int))

    def __str__(self) -> str:
        return f"/{self.pattern}/" if self.pattern is not None else ", ".join(f"'{name}'" for name in self.names)
