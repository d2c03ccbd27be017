"""All entities of a namespace as one document: to keep, to compare, to make the same elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from tandem.auth import Right
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.subscription import Subscription
from tandem.engine.topic import Topic
from tandem.management.gate import Gate
from tandem.management.hubs import own_hubs
from tandem.management.json_api.described import Operation, Parameter, describes
from tandem.management.json_api.entity_shapes import ExportDocument
from tandem.management.json_api.rules import rules_of
from tandem.management.json_api.subscriptions import subscriptions_of
from tandem.management.requests import is_asked_for

__all__ = ["EXPORT_VERSION", "ExportHandlers"]

EXPORT_VERSION: Final = 1

# Entities. What is read in one step; others have their turn between two steps, and the answer is sent as it is made.
_STEP_ENTITIES: Final = 100

_KEYS: Final = (
    "With `true`, the authorization rules of entities too, with their keys. Those of the namespace are its own."
)


class ExportHandlers:
    """`/export`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "GET",
            "/export",
            "export",
            "All queues, topics, subscriptions, rules and event hubs as one document.",
            "Manage on the namespace",
            ExportDocument,
            parameters=(Parameter("keys", Annotated[bool, Meta(description=_KEYS)], _KEYS),),
            tag="namespace",
        )
    )
    async def export(self, request: web.Request) -> web.StreamResponse:
        self._gate.admit(request, "", Right.MANAGE)
        self._gate.throttle(request, "")
        has_keys = is_asked_for(request, "keys")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        name, queues, topics, hubs = await self._gate.perform(_names)
        await response.prepare(request)
        start = msgspec.json.encode(
            {"version": EXPORT_VERSION, "namespace": name, "exported_at_ms": self._gate.now_ms()}
        )
        await response.write(start[:-1] + b',"queues":[')
        await _write_list(response, self._queues(queues, has_keys))
        await response.write(b'],"topics":[')
        await _write_list(response, self._topics(topics, has_keys))
        await response.write(b'],"hubs":[')
        await _write_list(response, self._hubs(hubs, has_keys))
        await response.write(b"]}")
        await response.write_eof()
        return response

    async def _queues(self, names: list[str], has_keys: bool) -> AsyncIterator[bytes]:
        for start in range(0, len(names), _STEP_ENTITIES):
            page = names[start : start + _STEP_ENTITIES]

            def read(namespace: Namespace, page: list[str] = page) -> list[bytes]:
                # Some may be gone by now.
                found = [namespace.find(name) for name in page]
                queues = [one for one in found if one is not None and not isinstance(one, Topic)]
                return [msgspec.json.encode(_fields(one, has_keys)) for one in queues]

            for encoded in await self._gate.perform(read):
                yield encoded

    async def _topics(self, names: list[str], has_keys: bool) -> AsyncIterator[bytes]:
        for name in names:

            def read(namespace: Namespace, name: str = name) -> tuple[bytes, list[str]] | None:
                topic = namespace.find(name)
                if not isinstance(topic, Topic):
                    return None
                return msgspec.json.encode(_fields(topic, has_keys)), [one.name for one in subscriptions_of(topic)]

            found = await self._gate.perform(read)
            if found is not None:
                subscriptions = [one async for one in self._subscriptions(found[1])]
                yield found[0][:-1] + b',"subscriptions":[' + b",".join(subscriptions) + b"]}"

    async def _hubs(self, names: list[str], has_keys: bool) -> AsyncIterator[bytes]:
        for start in range(0, len(names), _STEP_ENTITIES):
            page = names[start : start + _STEP_ENTITIES]

            def read(namespace: Namespace, page: list[str] = page) -> list[bytes]:
                found = [namespace.hubs.find(name) for name in page]
                return [msgspec.json.encode(_fields(hub, has_keys)) for hub in found if hub is not None]

            for encoded in await self._gate.perform(read):
                yield encoded

    async def _subscriptions(self, paths: list[str]) -> AsyncIterator[bytes]:
        for start in range(0, len(paths), _STEP_ENTITIES):
            page = paths[start : start + _STEP_ENTITIES]

            def read(namespace: Namespace, page: list[str] = page) -> list[bytes]:
                found = [namespace.find_any(path) for path in page]
                return [msgspec.json.encode(_subscription(one)) for one in found if isinstance(one, Subscription)]

            for encoded in await self._gate.perform(read):
                yield encoded


async def _write_list(response: web.StreamResponse, items: AsyncIterator[bytes]) -> None:
    is_first = True
    async for item in items:
        await response.write(item if is_first else b"," + item)
        is_first = False


def _names(namespace: Namespace) -> tuple[str, list[str], list[str], list[str]]:
    return (
        namespace.name,
        [one.name for one in namespace.queues],
        [one.name for one in namespace.topics],
        [one.name for one in own_hubs(namespace)],
    )


def _fields(entity: Queue | EventHub, has_keys: bool) -> dict[str, object]:
    return entity.description.stored_fields() if has_keys else entity.description.to_fields()


def _subscription(subscription: Subscription) -> dict[str, object]:
    """The topic is named around it."""
    fields = subscription.description.to_fields()
    del fields["topic_name"]
    return {**fields, "rules": [{"name": rule.name, **rule.stored_fields()} for rule in rules_of(subscription)]}
