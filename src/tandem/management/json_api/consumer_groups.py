"""Consumer groups of an event hub, one by one."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from tandem.auth import Right
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.hubs import add_consumer_group, remove_consumer_group
from tandem.management.json_api.described import Operation, describes
from tandem.management.json_api.entity_shapes import Deleted
from tandem.management.json_api.hub_shapes import ConsumerGroup, ConsumerGroupList

__all__ = ["ConsumerGroupHandlers"]

_ALL: Final = "/hubs/{hub_name}/consumer-groups"
_ONE: Final = f"{_ALL}/{{name}}"
_TAG: Final = "hubs"


class ConsumerGroupHandlers:
    """`/hubs/{hub_name}/consumer-groups`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "PUT",
            _ONE,
            "create_consumer_group",
            "Create a consumer group.",
            "Manage on the hub",
            ConsumerGroup,
            201,
            tag=_TAG,
        )
    )
    async def create(self, request: web.Request) -> web.Response:
        hub_name, name = self._admit(request, Right.MANAGE), request.match_info["name"]

        def create(namespace: Namespace) -> ConsumerGroup:
            hub = namespace.hubs.get(hub_name)
            add_consumer_group(namespace, hub, name)
            return _shown(hub, name)

        return json_answer(await self._gate.perform(create), status=201)

    @describes(
        Operation(
            "GET", _ONE, "show_consumer_group", "Show a consumer group.", "any on the hub", ConsumerGroup, tag=_TAG
        )
    )
    async def show(self, request: web.Request) -> web.Response:
        hub_name, name = self._admit(request, None), request.match_info["name"]
        return json_answer(await self._gate.perform(lambda namespace: _shown(namespace.hubs.get(hub_name), name)))

    @describes(
        Operation(
            "DELETE",
            _ONE,
            "delete_consumer_group",
            "Delete a consumer group and disconnect its readers. `$Default` stays.",
            "Manage on the hub",
            Deleted,
            tag=_TAG,
        )
    )
    async def delete(self, request: web.Request) -> web.Response:
        hub_name, name = self._admit(request, Right.MANAGE), request.match_info["name"]

        def delete(namespace: Namespace) -> Deleted:
            return Deleted(remove_consumer_group(namespace, namespace.hubs.get(hub_name), name))

        return json_answer(await self._gate.perform(delete))

    @describes(
        Operation(
            "GET",
            _ALL,
            "list_consumer_groups",
            "List the consumer groups of an event hub.",
            "any on the hub",
            ConsumerGroupList,
            tag=_TAG,
        )
    )
    async def list_all(self, request: web.Request) -> web.Response:
        hub_name = self._admit(request, None)

        def read(namespace: Namespace) -> ConsumerGroupList:
            hub = namespace.hubs.get(hub_name)
            return ConsumerGroupList([_shown(hub, name) for name in hub.description.consumer_groups])

        return json_answer(await self._gate.perform(read))

    def _admit(self, request: web.Request, right: Right | None) -> str:
        hub_name = request.match_info["hub_name"]
        self._gate.admit(request, hub_name, right, hub_name)
        self._gate.throttle(request, hub_name)
        return hub_name


def _shown(hub: EventHub, name: str) -> ConsumerGroup:
    return ConsumerGroup(hub.name, hub.consumer_group(name))
