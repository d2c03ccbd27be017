"""All event hubs of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.engine.hubs.description import OPERATIONS_HUB, EventHubDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.partition import Partition
from tandem.engine.hubs.record import EventRecord
from tandem.engine.tier_checks import check_hub
from tandem.errors import EntityAlreadyExists, NotFound, QuotaExceeded

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace

__all__ = ["EventHubs"]


class EventHubs:
    """Hubs by name and by number."""

    __slots__ = ("_by_name", "_by_number", "_last_number", "_namespace", "_to_pump")

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._by_name: dict[str, EventHub] = {}
        self._by_number: dict[int, EventHub] = {}
        self._last_number = 0
        self._to_pump: dict[Partition, None] = {}

    # --- rhythm ---------------------------------------------------------------------------------------------

    def pump_soon(self, partition: Partition) -> None:
        self._to_pump[partition] = None

    def settle_turn(self) -> bool:
        """Whether there was anything to do."""
        if not self._to_pump:
            return False
        partitions = list(self._to_pump)
        self._to_pump.clear()
        for partition in partitions:
            partition.pump()
        return True

    def committed(self, records: list[EventRecord]) -> None:
        for record in records:
            hub = self._by_number.get(record.hub_number)
            if hub is not None:
                hub.partitions[record.partition_id].committed(record)

    def trimmed(self, hub_number: int, partition_id: int, begin_sequence_number: int, size_bytes: int) -> None:
        hub = self._by_number.get(hub_number)
        if hub is not None:
            hub.partitions[partition_id].trimmed(begin_sequence_number, size_bytes)

    def retention(self) -> dict[int, tuple[int | None, int | None]]:
        """What is kept: milliseconds, and bytes of each partition, by the number of the hub."""
        return {
            number: (hub.description.retention_ms, hub.description.retention_bytes)
            for number, hub in self._by_number.items()
        }

    # --- hubs -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def all(self) -> list[EventHub]:
        """In the order of their names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def find(self, name: str) -> EventHub | None:
        return self._by_name.get(name.lower())

    def find_number(self, number: int) -> EventHub | None:
        return self._by_number.get(number)

    def get(self, name: str) -> EventHub:
        hub = self.find(name)
        if hub is None:
            raise NotFound(f"The messaging entity '{name}' could not be found.")
        return hub

    def restore(
        self, number: int, description: EventHubDescription, created_at_ms: int, updated_at_ms: int
    ) -> EventHub:
        """A hub that was on disk when the broker started."""
        hub = EventHub(self._namespace, number, description, created_at_ms)
        hub.updated_at_ms = updated_at_ms
        self._add(hub)
        return hub

    def restore_number(self, last: int) -> None:
        """Numbers that were ever given are not given again."""
        self._last_number = max(self._last_number, last)

    def _add(self, hub: EventHub) -> None:
        self._by_name[hub.name.lower()] = hub
        self._by_number[hub.number] = hub
        self._last_number = max(self._last_number, hub.number)
        if hub.description.authorization_rules:
            self._namespace.key_ring.replace_entity(hub.name, hub.description.authorization_rules)

    def create(self, description: EventHubDescription) -> EventHub:
        namespace = self._namespace
        if self.find(description.name) is not None or namespace.find_any(description.name) is not None:
            raise EntityAlreadyExists(
                f"SubCode=40900. Conflict. The messaging entity '{description.name}' exists already."
            )
        namespace.check_is_no_part(description.name)
        limits = namespace.limits
        check_hub(limits, description)
        # The hub of the broker itself counts for nobody.
        count = len(self._by_number) - (OPERATIONS_HUB in self._by_name)
        if count >= limits.max_hubs and description.name != OPERATIONS_HUB:
            raise QuotaExceeded(
                f"The namespace has {count} event hubs; its tier {limits.name} allows {limits.max_hubs}."
            )
        # The time makes numbers that are new even if everything that was known of the old ones is gone.
        number = max(self._last_number + 1, namespace.now_ms)
        hub = EventHub(namespace, number, description, namespace.now_ms)
        self._add(hub)
        hub.record()
        return hub

    def update(self, hub: EventHub, description: EventHubDescription) -> None:
        check_hub(self._namespace.limits, description, hub.description)
        rules = description.authorization_rules
        hub.update(description)
        if rules is not None:
            self._namespace.key_ring.replace_entity(hub.name, rules)

    def delete(self, hub: EventHub) -> None:
        """With all its events."""
        del self._by_name[hub.name.lower()]
        del self._by_number[hub.number]
        # One made later under the same name must not inherit them.
        self._namespace.key_ring.remove_entity(hub.name)
        hub.drop()
