"""What the commands that manage entities have in common: how they reach the broker, and what they print."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer

from tandem.arguments import JSON_WORDS, Words
from tandem.cli.failure import CommandFailed
from tandem.cli.output import neutral, neutral_lines, print_json, print_table
from tandem.cli.setting_options import OPTION_WORDS
from tandem.connection_string import ROOT_RULE_NAME, ConnectionString
from tandem.durations import duration_text
from tandem.errors import RemoteError
from tandem.management.client import Collection, EntityFields, ManagementClient
from tandem.management.http_client import BrokerUnreachable
from tandem.server.keys import DEFAULT_DATA_DIR, KEYS_NAME, load_or_make_keys

__all__ = [
    "MANAGING_HELP",
    "Managed",
    "advised",
    "broker_of",
    "management",
    "moment_text",
    "print_done",
    "print_entities",
    "print_properties",
]

# The end of the help of each group of commands.
MANAGING_HELP: Final = """
The broker is the one that --connection-string or TANDEM_CONNECTION_STRING names, else the one on this machine whose
keys are in ./tandem-data, else `tandem serve --dev` on this
machine. Times are written as 30s, 5m, 1h30m, 7d, PT30S or never.
"""

# What to do about an error of the broker, by its condition. {noun} is what the command is about, {list} what shows it.
_ADVICE: Final = {
    "amqp:not-found": "{list} what exists.",
    "com.microsoft:entity-already-exists": "`tandem {noun} {change}` changes it, `tandem {noun} delete` removes it.",
    "com.microsoft:auth-failed": "Check the connection string: `tandem connection-string` prints the right one.",
    "amqp:unauthorized-access": "Use a connection string whose rule has the right.",
}
_LIST_ADVICE: Final = {
    "queue": "`tandem queue list` shows",
    "topic": "`tandem topic list` shows",
    "subscription": "`tandem topic list` and `tandem subscription list TOPIC` show",
    "rule": "`tandem subscription list TOPIC` and `tandem rule list TOPIC SUBSCRIPTION` show",
    "hub": "`tandem hub list` shows",
    # Where any will do: a queue, a topic, or a subscription by its path.
    "entity": "`tandem queue list`, `tandem topic list` and `tandem subscription list TOPIC` show",
    "key": "`tandem key list` shows",
    "namespace": "`tandem namespace show` shows",
}
_START_ADVICE: Final = "Start one with `tandem serve --dev`, or point to another with --connection-string."

# What the service adds to its errors for its own support begins with this.
_TRACKING: Final = " TrackingId:"

# What sentences call an entity.
_TITLES: Final = {
    "queue": "queue {}",
    "topic": "topic {}",
    "subscription": "subscription {}/Subscriptions/{}",
    "rule": "rule {2} of {0}/Subscriptions/{1}",
    "hub": "hub {}",
}


# --- the broker -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def management(connection_string: str | None, noun: str, words: Words = JSON_WORDS) -> Iterator[ManagementClient]:
    """The broker's entities. An error becomes a message in these words that also says what to do next."""
    with advised(noun, words):
        yield ManagementClient(broker_of(connection_string))


def broker_of(connection_string: str | None, data_dir: Path = DEFAULT_DATA_DIR) -> ConnectionString:
    """The one that was named; or that of a data directory on this machine; or the one for development."""
    if connection_string:
        return ConnectionString.parse(connection_string)
    if (data_dir / KEYS_NAME).is_file():
        rule = load_or_make_keys(data_dir, is_dev=False).get(ROOT_RULE_NAME)
        if rule is not None:
            return ConnectionString(rule_name=rule.name, key=rule.primary_key)
    return ConnectionString()


@contextlib.contextmanager
def advised(noun: str, words: Words = JSON_WORDS, *, leaves_unreachable: bool = False) -> Iterator[None]:
    """Add to an error what to do next. `leaves_unreachable` leaves a broker that does not answer to the caller."""
    try:
        yield
    except BrokerUnreachable as error:
        if leaves_unreachable:
            raise
        raise CommandFailed(f"{error}. {_START_ADVICE}") from error
    except RemoteError as error:
        change = "rotate" if noun == "key" else "update"
        advice = _ADVICE.get(error.condition, "").format(noun=noun, list=_LIST_ADVICE[noun], change=change)
        if error.argument is None:
            reason = error.description.partition(_TRACKING)[0].rstrip()
        else:
            reason = words.sentence(error.argument)
        # Some have several lines: a caret shows where an expression goes wrong.
        raise CommandFailed(neutral_lines(" ".join([reason, advice]).strip())) from error


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


# --- what is printed ------------------------------------------------------------------------------------------------


def print_done(sentence: str, value: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        typer.echo(sentence)


def print_entities(
    noun: str, entities: list[EntityFields], columns: dict[str, str], as_json: bool, to_create: str
) -> None:
    """A table with their names, their status and these counts, by their headings; or what to do if there are none."""
    if as_json:
        print_json({f"{noun}s": entities})
    elif not entities:
        typer.echo(f"There are no {noun}s. `{to_create}` makes one.")
    else:
        rows = [
            (entity["name"], entity["status"], *(f"{entity[field]:,}" for field in columns.values()))
            for entity in entities
        ]
        print_table((noun, "status", *columns), rows, columns)


def print_properties(properties: dict[str, Any], as_json: bool) -> None:
    """One to a line, its name and its value."""
    if as_json:
        print_json(properties)
    else:
        print_table(("", " "), [_row(field, value) for field, value in properties.items()], has_header=False)


def _row(field: str, value: object) -> tuple[str, str]:
    """A property in words: its unit moves from the name to the value."""
    if field.endswith("_at_ms") and isinstance(value, int):
        return _label(field.removesuffix("_ms")), moment_text(value)
    if field.endswith("_ms") and (value is None or isinstance(value, int)):
        return _label(field.removesuffix("_ms")), duration_text(value)
    if isinstance(value, bool):
        return _label(field), "yes" if value else "no"
    if isinstance(value, int):
        return _label(field), f"{value:,}"
    return _label(field), "-" if value is None else neutral(str(value))


def moment_text(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _label(field: str) -> str:
    return field.replace("_", " ")
