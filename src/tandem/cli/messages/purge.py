"""`tandem purge`: delete messages of an entity."""

from __future__ import annotations

from typing import Annotated

import typer

from tandem.cli.messages.broker_job import run_job
from tandem.cli.messages.peek import MessageState, State
from tandem.cli.shared.options import AsJson, Connection, EntityPath
from tandem.cli.shared.output import confirm

__all__ = ["Before", "Yes", "purge", "purge_messages"]

Before = Annotated[
    str | None,
    typer.Option(metavar="MOMENT", help="Only messages that came before this, such as 2026-01-31T12:00:00Z."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def purge(
    entity: EntityPath,
    state: State = MessageState.ACTIVE,
    before: Before = None,
    yes: Yes = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Delete the messages of a queue or a subscription that are in one state. They are gone for good.

    Messages that a receiver has locked stay. On a terminal you are asked first; a script says --yes.

    \b
    Examples:
      tandem purge orders
      tandem purge orders --state scheduled --yes
      tandem purge orders --before 2026-01-01T00:00:00Z
    """
    purge_messages(entity, state, before, yes, connection_string, as_json)


def purge_messages(
    entity: str, state: MessageState, before: str | None, yes: bool, connection_string: str | None, as_json: bool
) -> None:
    which = f"{state.value} messages of {entity}" + (f" from before {before}" if before else "")
    confirm(f"This deletes all {which} for good.", yes)
    request = {"state": state.value} | ({} if before is None else {"before": before})
    run_job(entity, "purge", request, "deleted", connection_string, as_json)
