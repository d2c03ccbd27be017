"""Numbers that the tables know to be given: what is left if the log and its marks are lost together.

The tables are written rarely, so they are told more than is true: a whole block of numbers ahead of the last event. A
partition that has lost everything else goes on behind its block, and no number is given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tandem.store.log.journal.frames import Position
from tandem.store.log.partitions.partition_table import PartitionTable

__all__ = ["Reservations"]

# Events of a partition between two writes to the tables.
_BLOCK: Final = 1 << 20


class Reservations:
    """By the number of a hub: below which number all events of each of its partitions are."""

    def __init__(self, table: PartitionTable) -> None:
        self._table = table
        self._reserved: dict[int, list[int]] = {}
        self._due: set[int] = set()

    def restore(self, reserved: Mapping[int, Sequence[int]]) -> None:
        self._reserved = {hub_number: list(numbers) for hub_number, numbers in reserved.items()}

    def note(self, positions: Iterable[Position]) -> None:
        """Partitions have come this far."""
        for position in positions:
            numbers = self._reserved.get(position.hub_number, ())
            partition_id = position.partition_id
            if partition_id >= len(numbers) or position.next_sequence_number > numbers[partition_id]:
                self._due.add(position.hub_number)

    def due(self) -> dict[int, list[int]]:
        """What the tables have to know before more is acknowledged; empty nearly always. `reserved` follows."""
        return {hub_number: self._block(hub_number) for hub_number in self._due}

    def _block(self, hub_number: int) -> list[int]:
        numbers = {one.partition_id: one.next_appended for one in self._table if one.hub_number == hub_number}
        return [numbers.get(partition_id, 0) + _BLOCK for partition_id in range(max(numbers, default=-1) + 1)]

    def reserved(self, blocks: Mapping[int, list[int]]) -> None:
        """The tables know."""
        self._reserved.update(blocks)
        self._due.clear()

    def forget(self, hub_number: int) -> None:
        self._reserved.pop(hub_number, None)
        self._due.discard(hub_number)
