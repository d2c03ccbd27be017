"""The commands that every kind of entity has: create, update, list, show and delete."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

import typer

from tandem.cli.entities.setting_options import OPTION_WORDS, with_settings
from tandem.cli.shared.broker import MANAGING_HELP, management
from tandem.cli.shared.commands import command_group, made_by
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import print_done, print_json, print_properties, print_table
from tandem.management.client import Collection, EntityFields, ManagementClient

__all__ = ["MESSAGE_COUNTS", "EntityCommands", "Managed", "Place", "print_entities"]

# The name of an entity, behind those of its parents.
Place = tuple[str, ...]

# What sentences call an entity.
_TITLES: Final = {
    "queue": "queue {}",
    "topic": "topic {}",
    "subscription": "subscription {}/Subscriptions/{}",
    "rule": "rule {2} of {0}/Subscriptions/{1}",
    "hub": "hub {}",
}

# Of entities that hold messages, in a list: heading and field.
MESSAGE_COUNTS: Final = {
    "active": "active_message_count",
    "dead-letter": "dead_letter_message_count",
    "scheduled": "scheduled_message_count",
    "deferred": "deferred_message_count",
    "bytes": "size_in_bytes",
}


class EntityCommands:
    """A group of commands for one kind of entity. A command is added with the text of its help.

    `places` are the arguments that name an entity, with their annotations: those of its parents, then its own.
    """

    def __init__(self, kind: str, places: Mapping[str, Any], *paragraphs: str) -> None:
        self.app: Final = command_group(*paragraphs, MANAGING_HELP)
        self._kind: Final = kind
        parameters = [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
            for name, annotation in places.items()
        ]
        # For a command about one entity, and for one about all entities of a parent.
        self.with_place: Final = made_by(_place, "place", parameters)
        self.with_parents: Final = made_by(_place, "parents", parameters[:-1])

    def add_create(self, text: str) -> None:
        @self.app.command("create", help=text)
        @with_settings(self._kind)
        @self.with_place
        def create(
            place: Place, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
        ) -> None:
            entity = Managed(self._kind, *place)
            print_done(f"created the {entity.title}", entity.create(fields, connection_string), as_json)

    def add_update(self, text: str, example: str) -> None:
        """Add `update`; `example` is shown to somebody who names nothing to change."""

        @self.app.command("update", help=text)
        @with_settings(self._kind, is_update=True)
        @self.with_place
        def update(
            place: Place, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
        ) -> None:
            entity = Managed(self._kind, *place)
            print_done(f"updated the {entity.title}", entity.update(fields, example, connection_string), as_json)

    def add_list(self, text: str, columns: dict[str, str]) -> None:
        @self.app.command("list", help=text)
        @self.with_parents
        def list_all(parents: Place, connection_string: Connection = None, as_json: AsJson = False) -> None:
            with management(connection_string, self._kind) as client:
                entities = list(client.collection(self._kind, *parents).list_all())
            print_entities(self._kind, entities, columns, as_json, " ".join([*parents, "NAME"]))

    def add_show(self, text: str) -> None:
        @self.app.command("show", help=text)
        @self.with_place
        def show(place: Place, connection_string: Connection = None, as_json: AsJson = False) -> None:
            print_properties(Managed(self._kind, *place).show(connection_string), as_json)

    def add_delete(self, text: str) -> None:
        @self.app.command("delete", help=text)
        @self.with_place
        def delete(place: Place, connection_string: Connection = None, as_json: AsJson = False) -> None:
            Managed(self._kind, *place).delete(connection_string, as_json)


def _place(**names: str) -> Place:
    return tuple(names.values())


class Managed:
    """One entity, or one that is to be, as a command manages it. `place` is its name, behind those of its parents."""

    def __init__(self, noun: str, *place: str) -> None:
        self.noun = noun
        *self._parents, self.name = place
        self.title = _TITLES[noun].format(*place)

    def create(self, fields: EntityFields, connection_string: str | None) -> EntityFields:
        with management(connection_string, self.noun, OPTION_WORDS) as client:
            return self._collection(client).create(self.name, fields)

    def update(self, fields: EntityFields, example: str, connection_string: str | None) -> EntityFields:
        if not fields:
            raise CommandFailed(f"nothing to change about {self.name!r}: name a setting, such as {example}")
        with management(connection_string, self.noun, OPTION_WORDS) as client:
            return self._collection(client).update(self.name, fields)

    def show(self, connection_string: str | None) -> EntityFields:
        with management(connection_string, self.noun) as client:
            return self._collection(client).show(self.name)

    def delete(self, connection_string: str | None, as_json: bool) -> None:
        with management(connection_string, self.noun) as client:
            self._collection(client).delete(self.name)
        names = {**dict(zip(("topic_name", "subscription_name"), self._parents, strict=False)), "name": self.name}
        print_done(f"deleted the {self.title}", {**names, "is_deleted": True}, as_json)

    def _collection(self, client: ManagementClient) -> Collection:
        return client.collection(self.noun, *self._parents)


def print_entities(noun: str, entities: list[EntityFields], columns: dict[str, str], as_json: bool, place: str) -> None:
    """Print a table of names, status and these columns; or say how an entity at this place is created."""
    if as_json:
        print_json({f"{noun}s": entities})
    elif not entities:
        typer.echo(f"There are no {noun}s. `tandem {noun} create {place}` makes one.")
    else:
        rows = [
            (entity["name"], entity["status"], *(f"{entity[field]:,}" for field in columns.values()))
            for entity in entities
        ]
        print_table((noun, "status", *columns), rows, columns)
