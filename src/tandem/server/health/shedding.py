"""Which entities are refused while the broker is overloaded: the heaviest first, and more of them while it lasts.

Each stage covers a larger share of all load. The last one covers everything, entities without load and the management
of the namespace too. An entity that was refused stays so until the overload is over: refused clients wait, and its load
would fall below that of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tandem.limits import PARTITION_COUNT

__all__ = ["SHARES", "EntityLoad", "Shedding"]

# Of the load of all entities, by stage.
SHARES: Final = (0.5, 0.75, 0.9, 1.0)


class EntityLoad(NamedTuple):
    """How much is sent to an entity."""

    namespace: str
    entity: str
    rate: float
    is_partitioned: bool

    @property
    def weight(self) -> float:
        """A partitioned entity spreads its load over its partitions, and is refused later by their number."""
        return self.rate / PARTITION_COUNT if self.is_partitioned else self.rate


class Shedding:
    """The entities that are refused at present."""

    def __init__(self, stage_s: float) -> None:
        # Seconds until the next stage, while a facet is past its limit.
        self._stage_s = stage_s
        self._stage = -1
        self._since_s = 0.0
        self._refused: set[tuple[str, str]] = set()

    @property
    def is_active(self) -> bool:
        return self._stage >= 0

    @property
    def is_everything_refused(self) -> bool:
        return self._stage == len(SHARES) - 1

    def refused_of(self, namespace: str) -> frozenset[str]:
        """Return the entities of a namespace that are refused, in lower case."""
        return frozenset(entity.lower() for name, entity in self._refused if name == namespace)

    def end(self) -> None:
        """The overload is over."""
        self._stage = -1
        self._refused.clear()

    def step(self, loads: Iterable[EntityLoad], now_s: float, *, is_easing: bool) -> None:
        """The broker is overloaded: begin to refuse, or refuse more if it has not begun to ease in a stage's time."""
        if self._stage < 0:
            self._advance(loads, now_s)
        elif is_easing:
            self._since_s = now_s
        elif now_s - self._since_s >= self._stage_s and not self.is_everything_refused:
            self._advance(loads, now_s)

    def _advance(self, loads: Iterable[EntityLoad], now_s: float) -> None:
        self._stage += 1
        self._since_s = now_s
        ordered = sorted(loads, key=lambda load: load.weight, reverse=True)
        wanted = SHARES[self._stage] * sum(load.weight for load in ordered)
        covered = 0.0
        for load in ordered:
            if covered >= wanted:
                break
            covered += load.weight
            self._refused.add((load.namespace, load.entity))
