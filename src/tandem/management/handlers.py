"""List, create, show, update and delete: the same for every noun, which says how it is found and made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar, Generic, NoReturn, TypeVar

from aiohttp import hdrs, web

from tandem.auth import Right
from tandem.engine.namespace import Namespace
from tandem.entity_settings import own_durations
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.requests import read_fields, read_page

__all__ = ["Fields", "Handler", "Handlers", "Names", "add_methods"]

Entity = TypeVar("Entity")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# What stands in the URL, by the names of the properties that it gives: `name`, and those of what it is a part of.
Names = Mapping[str, str]
# Properties by name, as JSON has them.
Fields = dict[str, object]


def add_methods(resource: web.Resource, handlers: Mapping[str, Handler]) -> None:
    """These methods and no others: another one would go on to whatever else takes the path. So
    `PUT /$api/v1/topics/orders/subscriptions` would make a topic of that name."""

    async def refuse(request: web.Request) -> NoReturn:
        raise web.HTTPMethodNotAllowed(request.method, list(handlers))

    for method, handler in handlers.items():
        resource.add_route(method, handler)
    resource.add_route(hdrs.METH_ANY, refuse)


class Handlers(Generic[Entity]):
    """The handlers of one noun."""

    # What a list is called in JSON.
    plural: ClassVar[str]
    # The kind of entity, if it has settings.
    kind: ClassVar[str] = ""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def list_all(self, request: web.Request) -> web.Response:
        names = self._admit(request, None)
        page = read_page(request)

        def read(namespace: Namespace) -> list[Fields]:
            return [self.fields(entity) for entity in self.all(namespace, names)[page]]

        return json_answer({self.plural: await self._gate.perform(read)})

    async def create(self, request: web.Request) -> web.Response:
        names = self._admit(request, Right.MANAGE)
        fields = await self._read(request, names)
        await self.prepare()
        created = await self._gate.perform(lambda namespace: self.fields(self.make(namespace, names, fields)))
        return json_answer(created, status=201)

    async def show(self, request: web.Request) -> web.Response:
        names = self._admit(request, None)
        return json_answer(await self._gate.perform(lambda namespace: self.fields(self.find(namespace, names))))

    async def update(self, request: web.Request) -> web.Response:
        """What the body leaves out stays."""
        names = self._admit(request, Right.MANAGE)
        fields = await self._read(request, names)

        def update(namespace: Namespace) -> Fields:
            return self.fields(self.change(namespace, self.find(namespace, names), fields))

        return json_answer(await self._gate.perform(update))

    async def delete(self, request: web.Request) -> web.Response:
        names = self._admit(request, Right.MANAGE)

        def delete(namespace: Namespace) -> Fields:
            entity = self.find(namespace, names)
            name = self.fields(entity)["name"]
            self.remove(namespace, entity)
            return {"name": name}

        return json_answer(await self._gate.perform(delete))

    async def _read(self, request: web.Request, names: Names) -> Fields:
        fields = await read_fields(request, names)
        self._gate.admit_forwarding(request, fields)
        return own_durations(self.kind, fields)

    def _admit(self, request: web.Request, right: Right | None) -> Names:
        names = dict(request.match_info)
        path = self.path(names)
        self._gate.admit(request, path, right)
        self._gate.throttle(request, path)
        return names

    # --- what a noun says about itself ----------------------------------------------------------------------

    def path(self, names: Names) -> str:
        """The path of the entity that a right is needed to; empty for the whole namespace."""
        return names.get("name", "")

    def all(self, namespace: Namespace, names: Names) -> list[Entity]:
        """In the order of their names."""
        raise NotImplementedError

    def find(self, namespace: Namespace, names: Names) -> Entity:
        """Raises NotFound if there is none."""
        raise NotImplementedError

    async def prepare(self) -> None:
        """Do what takes too long for a step of the engine, before an entity is made."""

    def make(self, namespace: Namespace, names: Names, fields: Fields) -> Entity:
        raise NotImplementedError

    def change(self, namespace: Namespace, entity: Entity, fields: Fields) -> Entity:
        """The entity with these properties changed: the same one, or another in its place."""
        raise NotImplementedError

    def remove(self, namespace: Namespace, entity: Entity) -> None:
        raise NotImplementedError

    def fields(self, entity: Entity) -> Fields:
        """What is shown of it."""
        raise NotImplementedError
