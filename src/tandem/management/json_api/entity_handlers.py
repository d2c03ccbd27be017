"""Create, show, update, delete and list: the same operations for every noun, which says how it is found and made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar

from aiohttp import web
from msgspec import Meta

from tandem.auth import Right
from tandem.engine.namespace import Namespace
from tandem.entity_settings import durations_as_ms
from tandem.limits import MAX_PAGE_ENTITIES, MAX_SKIP
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import Operation, Parameter
from tandem.management.json_api.entity_shapes import Deleted
from tandem.management.requests import DEFAULT_PAGE_ENTITIES, read_fields, read_page

__all__ = ["PAGE", "Fields", "Handlers", "Names", "Noun"]

Entity = TypeVar("Entity")

# What stands in the URL, by the names of the properties that it gives: `name`, and those of what it is a part of.
Names = Mapping[str, str]
# Properties by name, as JSON has them.
Fields = dict[str, object]

# The parameters of a list.
PAGE: Final = (
    Parameter("skip", Annotated[int, Meta(ge=0, le=MAX_SKIP)], "How many to pass over."),
    Parameter(
        "top",
        Annotated[int, Meta(ge=0, le=MAX_PAGE_ENTITIES)],
        f"How many at most; {DEFAULT_PAGE_ENTITIES} if left out.",
    ),
)


@dataclass(frozen=True)
class Noun:
    """What entities of one kind are called, where they are found, and their JSON, as types."""

    singular: str
    path: str
    # What a right is needed to.
    holder: str
    entity: Any
    listed: Any
    # The body of a request that creates one, and of one that changes it, if that is another.
    created: Any
    updated: Any = None
    # What a right is needed to for a list.
    list_holder: str = "namespace"
    # Of a list, in addition to the page.
    parameters: tuple[Parameter, ...] = ()

    @property
    def plural(self) -> str:
        return f"{self.singular}s"


class Handlers(Generic[Entity]):
    """The handlers of one noun."""

    noun: ClassVar[Noun]

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @classmethod
    def operations(cls) -> dict[str, Operation]:
        """Return what each method does. A list comes last: a subscription may be called `subscriptions`."""
        noun = cls.noun
        name, tag, one = noun.singular, noun.plural, f"{noun.path}/{{name}}"
        reads, writes = f"any on the {noun.holder}", f"Manage on the {noun.holder}"
        return {
            "create": Operation(
                "PUT", one, f"create_{name}", f"Create a {name}.", writes, noun.entity, 201, noun.created, tag=tag
            ),
            "show": Operation("GET", one, f"show_{name}", f"Show a {name}.", reads, noun.entity, tag=tag),
            "update": Operation(
                "PATCH",
                one,
                f"update_{name}",
                f"Change a {name}: what the body leaves out stays.",
                writes,
                noun.entity,
                body=noun.updated or noun.created,
                tag=tag,
            ),
            "delete": Operation(
                "DELETE", one, f"delete_{name}", f"Delete a {name}, with all it holds.", writes, Deleted, tag=tag
            ),
            "list_all": Operation(
                "GET",
                noun.path,
                f"list_{tag}",
                f"List {tag} in the order of their names.",
                f"any on the {noun.list_holder}",
                noun.listed,
                parameters=(*PAGE, *noun.parameters),
                tag=tag,
            ),
        }

    async def list_all(self, request: web.Request) -> web.Response:
        names = self._admit(request, None)
        page = read_page(request)

        def read(namespace: Namespace) -> list[Fields]:
            return [self.fields(entity) for entity in self.all(namespace, names)[page]]

        return json_answer({self.noun.plural: await self._gate.perform(read)})

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
        return durations_as_ms(self.noun.singular, fields)

    def _admit(self, request: web.Request, right: Right | None) -> Names:
        names = dict(request.match_info)
        path = self.path(names)
        self._gate.admit(request, path, right, self.owner(names))
        self._gate.throttle(request, path)
        return names

    # --- what a noun says about itself ----------------------------------------------------------------------

    def path(self, names: Names) -> str:
        """The path of the entity that a right is needed to; empty for the whole namespace."""
        return names.get("name", "")

    def owner(self, names: Names) -> str:
        """Return the queue, topic or event hub whose authorization rules count; empty for the whole namespace.

        A queue whose name looks like that of a subscription is still a queue of its own here.
        """
        return names.get("topic_name") or names.get("name", "")

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
