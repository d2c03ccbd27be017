"""Event hubs over HTTP."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from aiohttp import web

from tandem.arrow import require_arrow
from tandem.engine.hubs.description import DEFAULT_CONSUMER_GROUP, OPERATIONS_HUB, EventHubDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.entity_settings import HUB
from tandem.errors import EntityAlreadyExists, NotAllowed
from tandem.management.answers import json_answer
from tandem.management.handlers import Fields, Handlers, Names
from tandem.management.hub_fields import new_hub
from tandem.management.requests import is_asked_for, read_page

__all__ = [
    "HubHandlers",
    "add_consumer_group",
    "delete_hub",
    "incarnation_of",
    "own_hubs",
    "remove_consumer_group",
    "update_hub",
]

# What users may choose about the hub that the broker itself fills.
_CHOSEN_OF_OPERATIONS: Final = ("retention_ms", "retention_bytes", "consumer_groups")


class HubHandlers(Handlers[EventHub]):
    """`/$api/v1/hubs`"""

    plural: ClassVar[str] = "hubs"
    kind: ClassVar[str] = HUB

    async def list_all(self, request: web.Request) -> web.Response:
        """Without the broker's own, unless `all` asks for it."""
        names = self._admit(request, None)
        page = read_page(request)
        has_operations = is_asked_for(request, "all")

        def read(namespace: Namespace) -> list[Fields]:
            hubs = namespace.hubs.all if has_operations else self.all(namespace, names)
            return [self.fields(hub) for hub in hubs[page]]

        return json_answer({self.plural: await self._gate.perform(read)})

    def all(self, namespace: Namespace, names: Names) -> list[EventHub]:
        return own_hubs(namespace)

    def find(self, namespace: Namespace, names: Names) -> EventHub:
        return namespace.hubs.get(names["name"])

    async def prepare(self) -> None:
        # Without pyarrow the events could not be sealed, nor read from then on. In a thread: the check takes a moment.
        await asyncio.to_thread(require_arrow)

    def make(self, namespace: Namespace, names: Names, fields: Fields) -> EventHub:
        return namespace.hubs.create(new_hub({**fields, **names}))

    def change(self, namespace: Namespace, entity: EventHub, fields: Fields) -> EventHub:
        update_hub(namespace, entity, fields)
        return entity

    def remove(self, namespace: Namespace, entity: EventHub) -> None:
        delete_hub(namespace, entity)

    def fields(self, entity: EventHub) -> Fields:
        """Without its partitions, of which there may be many: they have a path of their own."""
        return {
            **entity.description.to_fields(),
            "incarnation": incarnation_of(entity),
            "event_count": sum(one.next_sequence_number - one.begin_sequence_number for one in entity.partitions),
            "size_in_bytes": entity.size_bytes,
            "created_at_ms": entity.created_at_ms,
            "updated_at_ms": entity.updated_at_ms,
        }


def own_hubs(namespace: Namespace) -> list[EventHub]:
    """Those that users made, in the order of their names."""
    return [hub for hub in namespace.hubs.all if hub.name != OPERATIONS_HUB]


def incarnation_of(hub: EventHub) -> str:
    """What tells a hub from one that had its name before: positions are good for one incarnation only."""
    return str(hub.number)


def update_hub(namespace: Namespace, hub: EventHub, fields: Fields) -> None:
    """Change these properties; the others stay."""
    if hub.name == OPERATIONS_HUB:
        for field in fields:
            if field not in _CHOSEN_OF_OPERATIONS:
                raise NotAllowed(
                    f"{field} of '{hub.name}' cannot be changed; what can be is {', '.join(_CHOSEN_OF_OPERATIONS)}"
                )
    namespace.hubs.update(hub, EventHubDescription.from_fields({**hub.description.to_fields(), **fields}))


def delete_hub(namespace: Namespace, hub: EventHub) -> None:
    """Delete a hub with its events."""
    if hub.name == OPERATIONS_HUB:
        raise NotAllowed(f"'{hub.name}' cannot be deleted: the broker writes down in it what it does.")
    namespace.hubs.delete(hub)


def add_consumer_group(namespace: Namespace, hub: EventHub, name: str) -> None:
    """Add a consumer group to a hub; EntityAlreadyExists if the hub has it."""
    if hub.description.find_group(name) is not None:
        raise EntityAlreadyExists(f"The consumer group '{name}' of '{hub.name}' exists already.")
    update_hub(namespace, hub, {"consumer_groups": [*hub.description.consumer_groups, name]})


def remove_consumer_group(namespace: Namespace, hub: EventHub, name: str) -> str:
    """Delete a consumer group and disconnect its readers. Return its name as the hub spells it."""
    group = hub.consumer_group(name)
    if group == DEFAULT_CONSUMER_GROUP:
        raise NotAllowed(f"The consumer group '{group}' of '{hub.name}' cannot be deleted: every hub has it.")
    others = [one for one in hub.description.consumer_groups if one != group]
    update_hub(namespace, hub, {"consumer_groups": others})
    return group
