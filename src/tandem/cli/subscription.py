"""`tandem subscription`: create, list, show, update and delete subscriptions of a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from tandem.cli.entities import (
    MANAGING_HELP,
    Managed,
    management,
    print_done,
    print_entities,
    print_properties,
)
from tandem.cli.options import AsJson, Connection, TopicName
from tandem.cli.queue import MESSAGE_COUNTS
from tandem.cli.setting_options import with_settings
from tandem.entity_settings import SUBSCRIPTION
from tandem.management.client import EntityFields

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Create, list, show, update and delete subscriptions of a topic.\n\n"
        "A subscription is received from like a queue; clients find it at TOPIC/Subscriptions/NAME. Its rules select "
        f"the messages that it gets: see `tandem rule`.\n{MANAGING_HELP}"
    ),
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the subscription, at most 50 characters.")]


@app.command("create")
@with_settings(SUBSCRIPTION)
def create_subscription(
    topic: TopicName, name: Name, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Create a subscription of a topic.

    It begins with one rule, $Default, that selects every message. To get only some, add rules of your own and delete
    that one.

    \b
    Examples:
      tandem subscription create orders billing
      tandem subscription create orders audit --forward-to archive
      tandem rule create orders billing large --sql "amount > 1000"
      tandem rule delete orders billing '$Default'
    """
    subscription = Managed("subscription", topic, name)
    print_done(f"created the {subscription.title}", subscription.create(fields, connection_string), as_json)


@app.command("update")
@with_settings(SUBSCRIPTION, is_update=True)
def update_subscription(
    topic: TopicName, name: Name, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Change settings of a subscription; those that are not named stay as they are.

    \b
    Examples:
      tandem subscription update orders billing --lock-duration 2m --max-delivery-count 5
      tandem subscription update orders billing --status ReceiveDisabled
    """
    subscription = Managed("subscription", topic, name)
    updated = subscription.update(fields, "--lock-duration 30s", connection_string)
    print_done(f"updated the {subscription.title}", updated, as_json)


@app.command("list")
def list_subscriptions(topic: TopicName, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List the subscriptions of a topic with the messages they hold."""
    with management(connection_string, "subscription") as client:
        subscriptions = list(client.subscriptions(topic).list_all())
    print_entities("subscription", subscriptions, MESSAGE_COUNTS, as_json, f"tandem subscription create {topic} NAME")


@app.command("show")
def show_subscription(
    topic: TopicName, name: Name, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Show the settings of a subscription, its counts and its times."""
    print_properties(Managed("subscription", topic, name).show(connection_string), as_json)


@app.command("delete")
def delete_subscription(
    topic: TopicName, name: Name, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Delete a subscription, its rules and every message in it."""
    Managed("subscription", topic, name).delete(connection_string, as_json)
