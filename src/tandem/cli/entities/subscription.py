"""`tandem subscription`: create, list, show, update and delete subscriptions of a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from tandem.cli.entities.entity_commands import MESSAGE_COUNTS, EntityCommands
from tandem.cli.shared.options import TopicName
from tandem.entity_settings import SUBSCRIPTION

__all__ = ["app"]

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the subscription, at most 50 characters.")]

_commands = EntityCommands(
    SUBSCRIPTION,
    {"topic": TopicName, "name": Name},
    "Create, list, show, update and delete subscriptions of a topic.",
    "A subscription is received from like a queue; clients find it at TOPIC/Subscriptions/NAME. Its rules select the "
    "messages that it gets: see `tandem rule`.",
)
app = _commands.app

_commands.add_create(
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
)
_commands.add_update(
    """Change settings of a subscription; those that are not named stay as they are.

    \b
    Examples:
      tandem subscription update orders billing --lock-duration 2m --max-delivery-count 5
      tandem subscription update orders billing --status ReceiveDisabled
    """,
    example="--lock-duration 30s",
)
_commands.add_list("List the subscriptions of a topic with the messages they hold.", MESSAGE_COUNTS)
_commands.add_show("Show the settings of a subscription, its counts and its times.")
_commands.add_delete("Delete a subscription, its rules and every message in it.")
