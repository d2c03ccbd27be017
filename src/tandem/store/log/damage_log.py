"""The damage that was found in a log: each finding is logged once, and kept for the health report."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from tandem.errors import StoreCorrupt
from tandem.limits import MAX_FINDINGS
from tandem.store.damage import Damage

__all__ = ["DamageLog", "EventsDamaged", "RecordsDamaged"]

logger = logging.getLogger(__name__)


class EventsDamaged(StoreCorrupt):
    """Events of a partition cannot be read. Readers go on behind them; the process and the other events are sound."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class RecordsDamaged(EventsDamaged):
    """Records of the journal cannot be read any more. `first_numbers` are those of their first events."""

    def __init__(self, first_numbers: list[int]) -> None:
        super().__init__(f"{len(first_numbers)} records of the journal are damaged")
        self.first_numbers = first_numbers


class DamageLog:
    """Findings in the order in which they came. Any thread may add one."""

    def __init__(self, is_quiet: bool = False) -> None:
        self._mutex = threading.Lock()
        self._found: dict[Damage, None] = {}
        self._is_quiet = is_quiet
        # Of hubs, by their numbers.
        self.names: dict[int, str] = {}

    @property
    def found(self) -> list[Damage]:
        with self._mutex:
            return list(self._found)

    def add(self, unit: str, what: str, lost: str = "") -> None:
        damage = Damage(unit, what, lost)
        with self._mutex:
            if damage in self._found or len(self._found) >= MAX_FINDINGS:
                return
            self._found[damage] = None
        if not self._is_quiet:
            logger.error("damage in the event log: %s", damage.sentence)

    def add_file(self, path: Path, what: str) -> None:
        """Report a file that holds nothing which is lost with it, or whose events are reported by their numbers."""
        self.add(f"file {path.parent.name}/{path.name}", what)

    def add_events(self, hub_number: int, partition_id: int, first: int, end: int, what: str) -> None:
        """Report events [first, end) as lost."""
        events = f"event {first}" if end == first + 1 else f"events {first} to {end - 1}"
        self.add(f"{self.partition(hub_number, partition_id)}, {events}", what, f"{end - first} events")

    def partition(self, hub_number: int, partition_id: int) -> str:
        name = self.names.get(hub_number)
        hub = f"hub {hub_number}" if name is None else f"hub '{name}'"
        return f"{hub} partition {partition_id}"
