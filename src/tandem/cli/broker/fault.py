"""`tandem fault`: let a broker fail on purpose, list what fails, and clear it."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Final

import typer

from tandem.arguments import Words
from tandem.cli.shared.broker import MANAGING_HELP, management
from tandem.cli.shared.commands import command_group, made_by
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import neutral, print_json, print_table
from tandem.durations import duration_text, parse_duration_ms
from tandem.fault_kinds import DEFAULT_ERRORS, ERRORS, FaultKind, name_of_error

__all__ = ["app"]

app = command_group(
    "Let a broker fail on purpose, for one entity or the whole namespace.",
    "Refused unless the broker was started with --allow-faults, and needs the Manage right. A restart clears all "
    "faults.",
    MANAGING_HELP,
)


class Operation(enum.Enum):
    """What clients do."""

    SENDS = "sends"
    RECEIVES = "receives"
    MANAGEMENT = "management"


# The options of `inject` by the names that their values have in the JSON API, whose errors use those names.
_OPTIONS: Final = {
    "kind": "KIND",
    "entity": "ENTITY",
    "error": "--error",
    "duration_ms": "--for",
    "delay_ms": "--delay",
    "probability": "--probability",
    "seed": "--seed",
    "rate_per_second": "--rate",
    "operations": "--operation",
    "include_authentication": "--include-authentication",
    "perform": "--perform",
}
_OPTION_WORDS: Final = Words(lambda field: _OPTIONS.get(field, field), duration_text)


def _default_errors() -> str:
    """Each error that is a default, with the kinds that answer with it."""
    kinds: dict[str, list[str]] = {}
    for kind, error in DEFAULT_ERRORS.items():
        kinds.setdefault(name_of_error(error) or "", []).append(kind.value)
    return "; ".join(f"{name} for {', '.join(those)}" for name, those in kinds.items())


def _fault_fields(
    kind: Annotated[
        FaultKind, typer.Argument(metavar="KIND", help=f"One of {', '.join(one.value for one in FaultKind)}.")
    ],
    entity: Annotated[
        str | None, typer.Argument(metavar="[ENTITY]", help="Entity that fails.", show_default="the whole namespace")
    ] = None,
    error: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help=f"Refuse with this error: {', '.join(ERRORS)}.", show_default=_default_errors()
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TIME",
            help="Duration of the fault.",
            show_default="until it is cleared; restart-entity happens once",
        ),
    ] = None,
    delay: Annotated[str | None, typer.Option(metavar="TIME", help="Delay of stall and delay-visibility.")] = None,
    probability: Annotated[float, typer.Option(help="Share of the operations that meet the fault, from 0 to 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of --probability: the same seed, the same operations.", min=0)] = 0,
    rate: Annotated[int | None, typer.Option(help="Requests a second that throttle allows.")] = None,
    operations: Annotated[
        list[Operation] | None,
        typer.Option(
            "--operation", metavar="sends|receives|management", help="Only these operations meet the fault; repeatable."
        ),
    ] = None,
    include_authentication: Annotated[
        bool, typer.Option("--include-authentication", help="Requests for authentication meet the fault too.")
    ] = False,
    perform: Annotated[
        bool, typer.Option("--perform", help="With timeout: perform the request, and withhold only the answer.")
    ] = False,
) -> dict[str, Any]:
    """Return the fault that the options describe, in the form of the JSON API."""
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
    given |= {"probability": probability, "seed": seed, "perform": perform}
    return {**given, "include_authentication": include_authentication}


@app.command("inject")
@made_by(_fault_fields, "fields")
def inject_fault(fields: dict[str, Any], connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Let something fail from now on.

    \b
    Examples:
      tandem fault inject refuse-sends orders
      tandem fault inject refuse-sends orders --error quota-exceeded --for 30s
      tandem fault inject timeout orders --operation sends --probability 0.3
      tandem fault inject stall --delay 5s --for 1m
      tandem fault inject throttle --rate 10
      tandem fault inject delay-visibility orders --delay 5m
      tandem fault inject drop-connections --for 0s
      tandem fault inject restart-entity orders
    """
    with management(connection_string, "entity", _OPTION_WORDS) as client:
        fault = client.inject_fault(fields)
    if as_json:
        print_json(fault)
    else:
        error_text = "" if fault["error"] is None else f" with {fault['error']}"
        typer.echo(f"fault {fault['id']}: {_covered(fault)}: {fault['kind']}{error_text}, {_until(fault)}")


@app.command("list")
def list_faults(connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List the faults that are set, and how often clients met each."""
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
    """Clear one fault, or all. Messages whose visibility was delayed appear at once.

    \b
    Examples:
      tandem fault clear 3
      tandem fault clear --all
    """
    if (identifier is None) != clears_all:
        raise CommandFailed("name either the id of a fault or --all; `tandem fault list` shows the ids")
    with management(connection_string, "entity") as client:
        if identifier is None:
            cleared = client.clear_faults()
        elif identifier not in [one["id"] for one in client.faults()]:
            raise CommandFailed(f"there is no fault {identifier}: `tandem fault list` shows the faults that are set")
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
    if ends_at_ms == fault["started_at_ms"]:
        return "which happened once and is over"
    return f"for {duration_text(ends_at_ms - fault['started_at_ms'])}"
