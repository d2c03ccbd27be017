"""`tandem peek`: messages of an entity, as they lie there."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from tandem.cli.messages.message_fields import print_messages
from tandem.cli.shared.broker import management
from tandem.cli.shared.options import AsJson, Connection, EntityPath
from tandem.cli.shared.output import print_json

__all__ = ["First", "MessageState", "State", "Top", "peek", "show_messages"]


class MessageState(enum.Enum):
    """What a message waits for."""

    ACTIVE = "active"
    DEFERRED = "deferred"
    SCHEDULED = "scheduled"
    DEAD_LETTERED = "dead-lettered"
    TRANSFER_DEAD_LETTERED = "transfer-dead-lettered"


State = Annotated[
    MessageState, typer.Option(metavar="|".join(one.value for one in MessageState), help="Which messages.")
]
First = Annotated[int, typer.Option("--from", metavar="SEQUENCE", help="Begin with this sequence number.", min=0)]
Top = Annotated[int, typer.Option(metavar="N", help="Show that many; 0 for all.", min=0)]


def peek(
    entity: EntityPath,
    state: State = MessageState.ACTIVE,
    first: First = 0,
    top: Top = 10,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Show messages of a queue or a subscription without receiving them.

    Nothing is locked and no delivery is counted. With --json there is one object to a line.

    \b
    Examples:
      tandem peek orders
      tandem peek orders --state scheduled --top 0 --json
      tandem peek prices/Subscriptions/europe --state dead-lettered
      tandem peek orders --from 1200
    """
    show_messages(entity, state, first, top, connection_string, as_json)


def show_messages(
    entity: str, state: MessageState, first: int, top: int, connection_string: str | None, as_json: bool
) -> None:
    with management(connection_string, "entity") as client:
        messages = client.operations(entity).messages(state.value, first, top or None)
        if as_json:
            for message in messages:
                print_json(message)
            return
        shown = list(messages)
    if shown:
        print_messages(shown)
    else:
        typer.echo(f"There are no {state.value} messages in {entity}.")
