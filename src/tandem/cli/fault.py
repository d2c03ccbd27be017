"""`tandem fault`: let a broker fail on purpose, see what fails, and mend it."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import typer

from tandem.cli.entities import MANAGING_HELP, management
from tandem.cli.failure import CommandFailed
from tandem.cli.options import AsJson, Connection
from tandem.cli.output import neutral, print_json, print_table
from tandem.durations import duration_text, parse_duration_ms

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Let a broker fail on purpose, for one entity or the whole namespace.\n\n"
        "Refused unless the broker was started with --allow-faults, and needs the Manage right. A restart clears all "
        f"faults.\n{MANAGING_HELP}"
    ),
)


class Kind(enum.Enum):
    """What `tandem.server.faults.FaultKind` has."""

    REFUSE_SENDS = "refuse-sends"
    REFUSE_RECEIVES = "refuse-receives"
    REFUSE_MANAGEMENT = "refuse-management"
    REFUSE_EVERYTHING = "refuse-everything"
    TIMEOUT = "timeout"
    STALL = "stall"
    THROTTLE = "throttle"
    DROP_CONNECTIONS = "drop-connections"
    REFUSE_CONNECTIONS = "refuse-connections"
    DELAY_VISIBILITY = "delay-visibility"
    RESTART_ENTITY = "restart-entity"


class Operation(enum.Enum):
    """What clients do."""

    SENDS = "sends"
    RECEIVES = "receives"
    MANAGEMENT = "management"


@app.command("inject")
def inject_fault(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=f"One of {', '.join(one.value for one in Kind)}.")],
    entity: Annotated[
        str | None, typer.Argument(metavar="[ENTITY]", help="What fails.", show_default="the whole namespace")
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Refuse with this, as not-found or quota-exceeded.", show_default="server-busy"
        ),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long.", show_default="until it is cleared")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="TIME", help="By how much stall and delay-visibility put things off.")
    ] = None,
    probability: Annotated[float, typer.Option(help="How many of the operations meet it, from 0 to 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the dice: the same seed, the same course.", min=0)] = 0,
    rate: Annotated[int | None, typer.Option(help="To how many requests a second throttle limits.")] = None,
    operations: Annotated[
        list[Operation] | None,
        typer.Option("--operation", metavar="sends|receives|management", help="Only these meet it; many times."),
    ] = None,
    include_authentication: Annotated[
        bool, typer.Option("--include-authentication", help="Tokens that clients put meet it too.")
    ] = False,
    perform: Annotated[
        bool, typer.Option("--perform", help="With timeout: do what is asked, and keep back only the answer.")
    ] = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Let something fail from now on.

    \b
    Examples:
      tandem fault inject refuse-sends orders --error quota-exceeded --for 30s
      tandem fault inject timeout orders --operation sends --probability 0.3
      tandem fault inject stall --delay 5s --for 1m
      tandem fault inject throttle --rate 10
      tandem fault inject delay-visibility orders --delay 5m
      tandem fault inject drop-connections --for 0s
      tandem fault inject restart-entity orders
    """
    fields: dict[str, Any] = {
        "kind": kind.value,
        "entity": entity,
        "error": error,
        "duration_ms": _duration_ms("--for", duration),
        "delay_ms": _duration_ms("--delay", delay),
        "rate_per_second": rate,
        "operations": [one.value for one in operations] if operations else None,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    given |= {"probability": probability, "seed": seed}
    given |= {"include_authentication": include_authentication, "perform": perform}
    with management(connection_string, "entity") as client:
        fault = client.inject_fault(given)
    if as_json:
        print_json(fault)
    else:
        typer.echo(f"fault {fault['id']}: {_covered(fault)}: {fault['kind']}, {_until(fault)}")


@app.command("list")
def list_faults(connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List the faults that are set, and how often each was met."""
    with management(connection_string, "entity") as client:
        faults = client.faults()
    if as_json:
        print_json({"faults": faults})
    elif not faults:
        typer.echo("Nothing fails on purpose.")
    else:
        rows = [
            (str(one["id"]), one["kind"], _covered(one), one["error"] or "-", _until(one), str(one["hit_count"]))
            for one in faults
        ]
        print_table(("id", "kind", "entity", "error", "until", "hits"), rows, numbers=("id", "hits"))


@app.command("clear")
def clear_faults(
    identifier: Annotated[int | None, typer.Argument(metavar="[ID]", help="As `tandem fault list` shows it.")] = None,
    clears_all: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Mend one fault, or all. Messages whose visibility was delayed appear at once.

    \b
    Examples:
      tandem fault clear 3
      tandem fault clear --all
    """
    if (identifier is None) != clears_all:
        raise CommandFailed("give the id of a fault or --all, one of them; `tandem fault list` shows the ids")
    with management(connection_string, "entity") as client:
        if identifier is None:
            cleared = client.clear_faults()
        elif identifier not in [one["id"] for one in client.faults()]:
            raise CommandFailed(f"there is no fault {identifier}: `tandem fault list` shows those that there are")
        else:
            cleared = [client.clear_fault(identifier)]
    if as_json:
        print_json({"faults": cleared})
    else:
        typer.echo(f"cleared {len(cleared)} fault{'' if len(cleared) == 1 else 's'}")


def _duration_ms(option: str, text: str | None) -> int | None:
    return None if text is None else parse_duration_ms(text, option)


def _covered(fault: dict[str, Any]) -> str:
    return "the namespace" if fault["entity"] is None else neutral(fault["entity"])


def _until(fault: dict[str, Any]) -> str:
    ends_at_ms = fault["ends_at_ms"]
    if ends_at_ms is None:
        return "until it is cleared"
    return f"for {duration_text(ends_at_ms - fault['started_at_ms'])}"
