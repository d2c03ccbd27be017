"""Measures how much is sent to each entity of a namespace, so that an overloaded broker knows whom to refuse first.

A link adds what it took in a turn, once for the turn. The unit is one message; the size of a message counts as well,
since a commit of large messages takes longer than one of small ones.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BYTES_PER_UNIT", "EntityLoads"]

# Bytes. A page of the database: a message that fills one costs about twice as much as an empty one.
BYTES_PER_UNIT: Final = 8_192

# Seconds in which a load that has ended falls to half. Long enough that who sends in bursts stays at the top.
_HALF_LIFE_S: Final = 10.0

# Units in a second. What is less is forgotten: most entities of a namespace are idle.
_LEAST: Final = 0.01


class EntityLoads:
    """Units in a second, by entity: an average over the last seconds."""

    def __init__(self) -> None:
        self._units: dict[str, float] = {}
        self._rates: dict[str, float] = {}

    def add(self, entity: str, message_count: int, size_bytes: int) -> None:
        """So many messages, of so many bytes together, were sent to an entity."""
        units = self._units
        units[entity] = units.get(entity, 0.0) + message_count + size_bytes / BYTES_PER_UNIT

    def advance(self, elapsed_s: float) -> None:
        """Bring the averages up to date with what was added since the last call, so many seconds ago."""
        if elapsed_s <= 0:
            return
        kept = 0.5 ** (elapsed_s / _HALF_LIFE_S)
        units, self._units = self._units, {}
        rates = {entity: rate * kept for entity, rate in self._rates.items()}
        for entity, added in units.items():
            rates[entity] = rates.get(entity, 0.0) + (1.0 - kept) * added / elapsed_s
        self._rates = {entity: rate for entity, rate in rates.items() if rate >= _LEAST}

    @property
    def rates(self) -> dict[str, float]:
        """Never changed afterwards: another thread may read it."""
        return self._rates
