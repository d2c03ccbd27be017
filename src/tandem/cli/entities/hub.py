"""`tandem hub`: create, list, show, update and delete event hubs of a running broker."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from tandem.cli.entities.entity_commands import EntityCommands, Managed, print_entities
from tandem.cli.entities.setting_options import OPTION_WORDS, with_settings
from tandem.cli.shared.broker import management
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import moment_text, neutral, print_done, print_json, print_properties, print_table
from tandem.entity_settings import HUB
from tandem.management.client import EntityFields

__all__ = ["HubName", "app"]

HubName = Annotated[str, typer.Argument(metavar="HUB", help="The name of the event hub; it may hold slashes.")]
# Of a list: heading and field.
_COUNTS: Final = {"partitions": "partition_count", "events": "event_count", "bytes": "size_in_bytes"}

_HEADINGS: Final = ("partition", "first", "next", "events", "bytes", "fill", "readers", "last event")
_NUMBERS: Final = ("first", "next", "events", "bytes", "readers")

# Characters. A bar that shows how full a partition is.
_BAR_CHARACTERS: Final = 10


_commands = EntityCommands(
    HUB,
    {"name": HubName},
    "Create, list, show, update and delete event hubs of a running broker; send events and read them.",
    "An event hub is a stream in partitions. Nothing is ever taken from it: events stay until their retention ends, "
    "and everybody reads at a pace of their own.",
)
app = _commands.app

_commands.add_create(
    """Create an event hub.

    The defaults are those of the cloud service.

    \b
    Examples:
      tandem hub create telemetry
      tandem hub create telemetry --partitions 4 --retention 7d --retention-bytes 10G
      tandem hub create clicks --consumer-group dashboards --consumer-group billing
    """
)


@app.command("update")
@with_settings(HUB, is_update=True)
def update_hub(
    name: HubName,
    fields: EntityFields,
    added: Annotated[
        list[str] | None,
        typer.Option("--add-consumer-group", metavar="NAME", help="Create this consumer group; repeatable."),
    ] = None,
    removed: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-consumer-group",
            metavar="NAME",
            help="Delete this consumer group and disconnect its readers; repeatable.",
        ),
    ] = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of an event hub; those that are not named stay as they are.

    \b
    Examples:
      tandem hub update telemetry --retention 30d --retention-bytes none
      tandem hub update telemetry --add-consumer-group billing
      tandem hub update telemetry --status SendDisabled
      tandem hub update '$operations' --retention 1d
    """
    hub = Managed("hub", name)
    if not fields and not added and not removed:
        raise CommandFailed(f"nothing to change about {name!r}: name a setting, such as --retention 30d")
    with management(connection_string, "hub", OPTION_WORDS) as client:
        for group in added or []:
            client.hub(name).create_consumer_group(group)
        for group in removed or []:
            client.hub(name).delete_consumer_group(group)
        updated = client.hubs.update(name, fields)
    print_done(f"updated the {hub.title}", updated, as_json)


@app.command("list")
def list_hubs(
    has_operations: Annotated[
        bool, typer.Option("--all", help="With $operations, in which the broker writes down what it does.")
    ] = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """List all event hubs with the events they hold."""
    with management(connection_string, "hub") as client:
        hubs = list(client.hubs.list_all("all=true" if has_operations else ""))
    print_entities("hub", hubs, _COUNTS, as_json, "HUB")


@app.command("show")
def show_hub(name: HubName, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Show the settings of an event hub, its counts and times, and how far its partitions have come.

    The bar shows how much of its retention in bytes a partition has filled or, without one, how large it is beside the
    largest.
    """
    with management(connection_string, "hub") as client:
        hub = client.hubs.show(name)
        partitions: list[EntityFields] = client.hub(name).positions()["partitions"]
    if as_json:
        print_json({**hub, "partitions": partitions})
        return
    print_properties({**hub, "consumer_groups": ", ".join(hub["consumer_groups"])}, as_json=False)
    typer.echo()
    _print_partitions(partitions, hub["retention_bytes"])


_commands.add_delete("Delete an event hub and every event in it.")


def _print_partitions(partitions: list[EntityFields], retention_bytes: int | None) -> None:
    full_bytes = retention_bytes or max(one["size_in_bytes"] for one in partitions)
    print_table(_HEADINGS, [_row(one, full_bytes) for one in partitions], _NUMBERS, ("partition", "fill", "last event"))


def _row(partition: dict[str, Any], full_bytes: int) -> tuple[str, ...]:
    first, behind = partition["begin_sequence_number"], partition["next_sequence_number"]
    at_ms = partition["last_enqueued_at_ms"]
    return (
        neutral(partition["partition"]),
        f"{first:,}",
        f"{behind:,}",
        f"{behind - first:,}",
        f"{partition['size_in_bytes']:,}",
        _bar(partition["size_in_bytes"], full_bytes),
        f"{partition['receiver_count']:,}",
        "-" if at_ms is None else moment_text(at_ms),
    )


def _bar(size_bytes: int, full_bytes: int) -> str:
    filled = min(_BAR_CHARACTERS, -(-size_bytes * _BAR_CHARACTERS // full_bytes)) if full_bytes else 0
    return "█" * filled + "░" * (_BAR_CHARACTERS - filled)
