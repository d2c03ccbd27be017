"""`tandem hub checkpoints`: how far the processors of a consumer group have come, and who they are."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tandem.cli.entities.hub import HubName
from tandem.cli.messages.hub_read import app
from tandem.cli.shared.broker import management
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import moment_text, neutral, print_json, print_table
from tandem.management.client import EntityFields

__all__ = ["app", "show_checkpoints"]

_HEADINGS: Final = ("partition", "owner", "claimed", "checkpoint", "behind", "kept")
_NUMBERS: Final = ("checkpoint", "behind")
_UNBROKEN: Final = ("partition", "claimed", "kept")
_NONE: Final = "-"


@app.command("checkpoints")
def show_checkpoints(
    hub: HubName,
    group: Annotated[str, typer.Option("--group", metavar="NAME", help="The consumer group.")] = "$Default",
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Show who processes the partitions of an event hub, how far, and how many events are behind each checkpoint.

    These are the ownerships and checkpoints that processors keep in the broker: with tandem.checkpoints and the
    official SDK, or with BrokerCheckpointStore of the client library.

    \b
    Examples:
      tandem hub checkpoints telemetry
      tandem hub checkpoints telemetry --group billing --json
    """
    with management(connection_string, "hub") as client:
        ownerships = {one["partition"]: one for one in client.hub(hub).ownerships(group)}
        checkpoints = {one["partition"]: one for one in client.hub(hub).checkpoints(group)}
    if as_json:
        kept = {"ownerships": list(ownerships.values()), "checkpoints": list(checkpoints.values())}
        print_json({"hub": hub, "consumer_group": group, **kept})
        return
    partitions = sorted({*ownerships, *checkpoints}, key=int)
    if not partitions:
        typer.echo(f"no processor of {neutral(group)!r} has claimed a partition of {neutral(hub)!r} yet")
        return
    rows = [_row(one, ownerships.get(one), checkpoints.get(one)) for one in partitions]
    print_table(_HEADINGS, rows, _NUMBERS, _UNBROKEN)


def _row(partition: str, ownership: EntityFields | None, checkpoint: EntityFields | None) -> tuple[str, ...]:
    return (
        neutral(partition),
        _NONE if ownership is None else neutral(ownership["owner_id"]) or _NONE,
        _NONE if ownership is None else moment_text(ownership["claimed_at_ms"]),
        _NONE if checkpoint is None else f"{checkpoint['sequence_number']:,}",
        _NONE if checkpoint is None else f"{checkpoint['events_behind']:,}",
        _NONE if checkpoint is None else moment_text(checkpoint["updated_at_ms"]),
    )
