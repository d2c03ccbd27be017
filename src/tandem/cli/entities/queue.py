"""`tandem queue`: create, list, show, update and delete queues of a running broker."""

from __future__ import annotations

from typing import Annotated

import typer

from tandem.cli.entities.entity_commands import MESSAGE_COUNTS, EntityCommands
from tandem.entity_settings import QUEUE

__all__ = ["app"]

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the queue; it may hold slashes.")]

_commands = EntityCommands(QUEUE, {"name": Name}, "Create, list, show, update and delete queues of a running broker.")
app = _commands.app

_commands.add_create(
    """Create a queue.

    The defaults are those of the cloud service.

    \b
    Examples:
      tandem queue create orders
      tandem queue create orders/eu --lock-duration 30s --max-delivery-count 5 --requires-session
    """
)
_commands.add_update(
    """Change settings of a queue; those that are not named stay as they are.

    \b
    Examples:
      tandem queue update orders --lock-duration 2m --default-message-time-to-live never
      tandem queue update orders --status SendDisabled
    """,
    example="--lock-duration 30s",
)
_commands.add_list("List all queues with the messages they hold.", MESSAGE_COUNTS)
_commands.add_show("Show the settings of a queue, its counts and its times.")
_commands.add_delete("Delete a queue and every message in it.")
