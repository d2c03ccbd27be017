"""`tandem topic`: create, list, show, update and delete topics of a running broker."""

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
from tandem.entity_settings import TOPIC
from tandem.management.client import EntityFields

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Create, list, show, update and delete topics of a running broker.\n\n"
        "A topic is sent to like a queue. Each of its subscriptions gets a copy of every message that its rules "
        f"select: see `tandem subscription` and `tandem rule`.\n{MANAGING_HELP}"
    ),
)

# Of `tandem topic list`: heading and field.
_COLUMNS: Final = {
    "subscriptions": "subscription_count",
    "scheduled": "scheduled_message_count",
    "bytes": "size_in_bytes",
}

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the topic; it may hold slashes.")]


@app.command("create")
@with_settings(TOPIC)
def create_topic(
    name: Name, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Create a topic.

    Until it has a subscription, messages sent to it go nowhere. All subscriptions share its size.

    \b
    Examples:
      tandem topic create orders
      tandem topic create orders/eu --requires-duplicate-detection --default-message-time-to-live 14d
    """
    topic = Managed("topic", name)
    print_done(f"created the {topic.title}", topic.create(fields, connection_string), as_json)


@app.command("update")
@with_settings(TOPIC, is_update=True)
def update_topic(
    name: Name, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Change settings of a topic; those that are not named stay as they are.

    \b
    Examples:
      tandem topic update orders --default-message-time-to-live never
      tandem topic update orders --status SendDisabled
    """
    topic = Managed("topic", name)
    updated = topic.update(fields, "--default-message-time-to-live 7d", connection_string)
    print_done(f"updated the {topic.title}", updated, as_json)


@app.command("list")
def list_topics(connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List all topics with their subscriptions, counted, and what they hold."""
    with management(connection_string, "topic") as client:
        topics = list(client.topics.list_all())
    print_entities("topic", topics, _COLUMNS, as_json, "tandem topic create NAME")


@app.command("show")
def show_topic(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Show the settings of a topic, its counts and its times."""
    print_properties(Managed("topic", name).show(connection_string), as_json)


@app.command("delete")
def delete_topic(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Delete a topic, its subscriptions and every message in them."""
    Managed("topic", name).delete(connection_string, as_json)
