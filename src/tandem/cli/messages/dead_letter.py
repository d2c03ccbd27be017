"""`tandem dead-letter`: list, resubmit and purge dead letters."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tandem.cli.messages.broker_job import run_job
from tandem.cli.messages.peek import First, MessageState, Top, show_messages
from tandem.cli.messages.purge import Before, Yes, purge_messages
from tandem.cli.shared.broker import MANAGING_HELP
from tandem.cli.shared.commands import command_group
from tandem.cli.shared.options import AsJson, Connection, EntityPath

__all__ = ["app"]

app = command_group(
    "List, resubmit and purge dead letters.",
    "Messages that were delivered too often, expired or were refused by a receiver are kept beside their queue or "
    "subscription, with the reason. To receive them, see `tandem receive --sub-queue`.",
    MANAGING_HELP,
)

Transfer = Annotated[
    bool, typer.Option("--transfer", help="Those that could not be forwarded, instead of the entity's own.")
]


@app.command("list")
def list_dead_letters(
    entity: EntityPath,
    first: First = 0,
    top: Top = 10,
    transfer: Transfer = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Show dead letters of a queue or a subscription, with their reasons. Nothing is received.

    \b
    Examples:
      tandem dead-letter list orders
      tandem dead-letter list prices/Subscriptions/europe --top 0 --json
    """
    show_messages(entity, _state(transfer), first, top, connection_string, as_json)


@app.command("resubmit")
def resubmit_dead_letters(
    entity: EntityPath,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only those for which this is true, as in a rule.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="ENTITY", help="Where to.", show_default="where they came from")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="At most that many.", min=1)] = None,
    transfer: Transfer = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Send dead letters again, to where they came from or elsewhere.

    Each is moved as a whole: it is never in both places and never in none. It begins anew, with no delivery counted and
    without the reason of its death. The exit code is 1 if any could not be moved.

    \b
    Examples:
      tandem dead-letter resubmit orders --dry-run
      tandem dead-letter resubmit orders --where "DeadLetterReason = 'MaxDeliveryCountExceeded'"
      tandem dead-letter resubmit orders --to orders-by-hand --limit 10
    """
    request: dict[str, Any] = {"state": _state(transfer).value, "dry_run": dry_run}
    request |= {key: one for key, one in (("filter", where), ("target", to), ("limit", limit)) if one is not None}
    run_job(entity, "resubmit", request, "resubmitted", connection_string, as_json)


@app.command("purge")
def purge_dead_letters(
    entity: EntityPath,
    before: Before = None,
    transfer: Transfer = False,
    yes: Yes = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Delete the dead letters of a queue or a subscription. They are gone for good.

    \b
    Examples:
      tandem dead-letter purge orders
      tandem dead-letter purge orders --before 2026-01-01T00:00:00Z --yes
    """
    purge_messages(entity, _state(transfer), before, yes, connection_string, as_json)


def _state(is_transfer: bool) -> MessageState:
    return MessageState.TRANSFER_DEAD_LETTERED if is_transfer else MessageState.DEAD_LETTERED
