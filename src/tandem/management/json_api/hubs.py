"""Event hubs over HTTP."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from aiohttp import web

from tandem.arrow import require_arrow
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.entity_settings import HUB
from tandem.management.answers import json_answer
from tandem.management.hubs import delete_hub, incarnation_of, new_hub, own_hubs, update_hub
from tandem.management.json_api.described import Parameter
from tandem.management.json_api.entity_handlers import Fields, Handlers, Names, Noun
from tandem.management.json_api.entity_shapes import Hub, HubList, HubRequest
from tandem.management.requests import is_asked_for, read_page

__all__ = ["HubHandlers"]

_WITH_OPERATIONS: Final = Parameter("all", bool, "With `true`, the hub `$operations` too, which the broker fills.")


class HubHandlers(Handlers[EventHub]):
    """`/$api/v1/hubs`"""

    noun: ClassVar[Noun] = Noun(HUB, "/hubs", HUB, Hub, HubList, HubRequest, parameters=(_WITH_OPERATIONS,))

    async def list_all(self, request: web.Request) -> web.Response:
        """Without the broker's own, unless `all` asks for it."""
        names = self._admit(request, None)
        page = read_page(request)
        has_operations = is_asked_for(request, "all")

        def read(namespace: Namespace) -> list[Fields]:
            hubs = namespace.hubs.all if has_operations else self.all(namespace, names)
            return [self.fields(hub) for hub in hubs[page]]

        return json_answer({self.noun.plural: await self._gate.perform(read)})

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
