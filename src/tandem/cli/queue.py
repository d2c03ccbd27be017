"""`tandem queue`: create, list, show, update and delete queues of a running broker."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tandem.cli.entities import (
    MANAGING_HELP,
    Managed,
    management,
    print_done,
    print_entities,
    print_properties,
)
from tandem.cli.options import AsJson, Connection
from tandem.cli.setting_options import with_settings
from tandem.entity_settings import QUEUE
from tandem.management.client import EntityFields

__all__ = ["MESSAGE_COUNTS", "app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=f"Create, list, show, update and delete queues of a running broker.\n{MANAGING_HELP}",
)

# Of what holds messages: heading and field.
MESSAGE_COUNTS: Final = {
    "active": "active_message_count",
    "dead-letter": "dead_letter_message_count",
    "scheduled": "scheduled_message_count",
    "deferred": "deferred_message_count",
    "bytes": "size_in_bytes",
}

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the queue; it may hold slashes.")]


@app.command("create")
@with_settings(QUEUE)
def create_queue(
    name: Name, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Create a queue.

    The defaults are those of the cloud service.

    \b
    Examples:
      tandem queue create orders
      tandem queue create orders/eu --lock-duration 30s --max-delivery-count 5 --requires-session
    """
    queue = Managed("queue", name)
    print_done(f"created the {queue.title}", queue.create(fields, connection_string), as_json)


@app.command("update")
@with_settings(QUEUE, is_update=True)
def update_queue(
    name: Name, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Change settings of a queue; those that are not named stay as they are.

    \b
    Examples:
      tandem queue update orders --lock-duration 2m --default-message-time-to-live never
      tandem queue update orders --status SendDisabled
    """
    queue = Managed("queue", name)
    updated = queue.update(fields, "--lock-duration 30s", connection_string)
    print_done(f"updated the {queue.title}", updated, as_json)


@app.command("list")
def list_queues(connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List all queues with the messages they hold."""
    with management(connection_string, "queue") as client:
        queues = list(client.queues.list_all())
    print_entities("queue", queues, MESSAGE_COUNTS, as_json, "tandem queue create NAME")


@app.command("show")
def show_queue(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Show the settings of a queue, its counts and its times."""
    print_properties(Managed("queue", name).show(connection_string), as_json)


@app.command("delete")
def delete_queue(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Delete a queue and every message in it."""
    Managed("queue", name).delete(connection_string, as_json)
