"""The facets by which a broker judges itself: what is measured, in which unit, and what counts as too much."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from tandem.server.health.settings import HealthSettings

__all__ = ["Facet", "Limit", "limits_of"]


class Facet(enum.Enum):
    """What is measured."""

    EVENT_LOOP_LAG = "event-loop-lag"
    COMMIT_TIME = "commit-time"
    MEMORY = "memory"
    DISK_HEADROOM = "disk-headroom"

    @property
    def unit(self) -> str:
        return "ms" if self in {Facet.EVENT_LOOP_LAG, Facet.COMMIT_TIME} else "MB"

    @property
    def is_a_minimum(self) -> bool:
        """Whether less is worse."""
        return self is Facet.DISK_HEADROOM

    @property
    def advice(self) -> str:
        """What an operator does about it."""
        return _ADVICE[self]


_ADVICE: Final = {
    Facet.EVENT_LOOP_LAG: "the machine has too little CPU for the broker, or one step takes too long: the stacks say",
    Facet.COMMIT_TIME: "the disk of the data directory is slow: look at what else writes to it",
    Facet.MEMORY: "give the broker more memory, or let fewer clients send large messages at a time",
    Facet.DISK_HEADROOM: "make room on the disk of the data directory: receive, purge or delete, or enlarge the disk",
}


@dataclass(frozen=True)
class Limit:
    """When a facet is in trouble, and when it is well again. Between the two it stays as it is."""

    facet: Facet
    # In the unit of the facet.
    bound: float
    # How far back it has to go: four fifths of the bound, or five fourths of a minimum.
    release: float

    @classmethod
    def of(cls, facet: Facet, bound: float) -> Limit:
        return cls(facet, bound, bound * 1.25 if facet.is_a_minimum else bound * 0.8)

    def is_passed_by(self, value: float) -> bool:
        return value < self.bound if self.facet.is_a_minimum else value > self.bound

    def is_kept_by(self, value: float) -> bool:
        return value >= self.release if self.facet.is_a_minimum else value <= self.release


def limits_of(settings: HealthSettings) -> dict[Facet, Limit | None]:
    bounds = {
        Facet.EVENT_LOOP_LAG: settings.max_event_loop_lag_ms,
        Facet.COMMIT_TIME: settings.max_commit_time_ms,
        Facet.MEMORY: settings.max_memory_megabytes,
        Facet.DISK_HEADROOM: settings.min_disk_megabytes,
    }
    return {facet: None if bound is None else Limit.of(facet, bound) for facet, bound in bounds.items()}
