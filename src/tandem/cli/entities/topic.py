"""`tandem topic`: create, list, show, update and delete topics of a running broker."""

from __future__ import annotations

from typing import Annotated

import typer

from tandem.cli.entities.entity_commands import EntityCommands
from tandem.entity_settings import TOPIC

__all__ = ["app"]

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the topic; it may hold slashes.")]

_commands = EntityCommands(
    TOPIC,
    {"name": Name},
    "Create, list, show, update and delete topics of a running broker.",
    "A topic is sent to like a queue. Each of its subscriptions gets a copy of every message that its rules select: "
    "see `tandem subscription` and `tandem rule`.",
)
app = _commands.app

_commands.add_create(
    """Create a topic.

    Until it has a subscription, messages sent to it go nowhere. All subscriptions share its size.

    \b
    Examples:
      tandem topic create orders
      tandem topic create orders/eu --requires-duplicate-detection --default-message-time-to-live 14d
    """
)
_commands.add_update(
    """Change settings of a topic; those that are not named stay as they are.

    \b
    Examples:
      tandem topic update orders --default-message-time-to-live never
      tandem topic update orders --status SendDisabled
    """,
    example="--default-message-time-to-live 7d",
)
_commands.add_list(
    "List all topics with their subscriptions, counted, and what they hold.",
    {"subscriptions": "subscription_count", "scheduled": "scheduled_message_count", "bytes": "size_in_bytes"},
)
_commands.add_show("Show the settings of a topic, its counts and its times.")
_commands.add_delete("Delete a topic, its subscriptions and every message in them.")
