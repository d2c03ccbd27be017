"""`tandem diagnose`: how a broker is, and which part of it is in trouble."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tandem.cli.shared.broker import advised, broker_of
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import neutral, print_json, print_table
from tandem.management.client import ManagementClient
from tandem.management.http_client import BrokerUnreachable
from tandem.server.health.diagnosis import newest_diagnosis
from tandem.server.keys import DEFAULT_DATA_DIR

__all__ = ["diagnose"]

# Seconds. A broker that takes longer to answer this is in trouble, and its last diagnosis says more.
_TIMEOUT_S: Final = 10.0

_TROUBLE: Final = 1


def diagnose(
    connection_string: Connection = None,
    data_dir: Annotated[
        Path,
        typer.Option(
            help="That of the broker, with its keys, and its diagnoses if it does not answer.", file_okay=False
        ),
    ] = DEFAULT_DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Show how a broker is: its facets and their limits, what it refuses, and what it has restarted.

    A broker that does not answer is shown by the last diagnosis that it wrote to its data directory. Needs the Manage
    right on the namespace. The exit code is 0 if all is well, and 1 if something is in trouble.

    \b
    Examples:
      tandem diagnose
      tandem diagnose --data-dir /var/lib/tandem
      tandem diagnose --json
    """
    broker = broker_of(connection_string, data_dir)
    try:
        with advised("entity", leaves_unreachable=True):
            found = ManagementClient(broker, _TIMEOUT_S).diagnose()
    except BrokerUnreachable as error:
        _show_last(error, data_dir, as_json)
        raise typer.Exit(_TROUBLE) from None
    if as_json:
        print_json({"is_answering": True, **found})
    else:
        _print(found)
    if found["status"] != "well":
        raise typer.Exit(_TROUBLE)


def _show_last(error: BrokerUnreachable, data_dir: Path, as_json: bool) -> None:
    last = newest_diagnosis(data_dir)
    if last is None:
        raise CommandFailed(
            f"the broker does not answer: {error}. {data_dir} has no diagnosis of it: give its data directory with "
            "--data-dir, or start the broker with `tandem serve`"
        )
    if as_json:
        print_json({"is_answering": False, "error": str(error), "last_diagnosis": last})
        return
    typer.echo(f"The broker does not answer: {neutral(str(error))}.")
    typer.echo(f"Its last diagnosis is of {neutral(str(last['time']))}: {neutral(str(last['summary']))}")
    for facet in last["facets"]:
        typer.echo(f"  {neutral(str(facet['sentence']))}")
    for thread in last["threads"]:
        if thread["thread"] == "MainThread" and thread["stack"]:
            typer.echo(f"The main thread was at {neutral(str(thread['stack'][-1]))}.")
    typer.echo(f"All of it is in {neutral(str(last['text_path']))}.")


def _print(found: dict[str, Any]) -> None:
    rows = [
        (
            facet["name"],
            f"{facet['value']:,.0f} {facet['unit']}",
            "off" if facet["limit"] is None else f"{facet['limit']:,.0f} {facet['unit']}",
            facet["condition"],
            f"{facet['since_s']:,} s",
        )
        for facet in found["facets"]
    ]
    typer.echo(f"Listens on {', '.join(neutral(one) for one in found['addresses'])}.")
    print_table(("facet", "value", "limit", "condition", "for"), rows, numbers=("value", "limit", "for"))
    for trouble in found["troubles"]:
        typer.echo(f"In trouble: {neutral(trouble)}.")
    for facet in found["facets"]:
        if facet["advice"] is not None:
            typer.echo(f"To do: {neutral(facet['advice'])}.")
    refused = ", ".join(neutral(one) for one in found["refused"]) or "nothing"
    typer.echo(f"Refused with ServerBusy at present: {refused}; in all {found['refused_count']:,} requests.")
    loads = ", ".join(f"{neutral(one['entity'])} {one['rate']:,.1f}" for one in found["loads"][:5]) or "none"
    typer.echo(f"Messages a second, by entity: {loads}.")
    counts = found["restart_counts"]
    typer.echo(f"Restarted since the process began: {counts['entity']} entities, {counts['host']} hosts of namespaces.")
    for one in found["restarts"]:
        typer.echo(f"  {one['time']} {one['level']} {neutral(one['subject'])}: {neutral(one['reason'])}")
    if found["damages"]:
        typer.echo(
            "To do: look at the folders damaged-* in the data directory, which hold the damaged files and a report; "
            "move them away when you have dealt with them, and restart the broker."
        )
    if not found["has_page_checksums"]:
        typer.echo("The pages of the database have no checksums: this build of apsw cannot make them.")
    for error in found["errors"]:
        typer.echo(f"Failed: {neutral(error)}")
    last = found["last_diagnosis"]
    if last is not None:
        typer.echo(f"Last diagnosis, of {last['time']}: {neutral(last['summary'])}")
        typer.echo(f"All of it is in {neutral(last['path'])}.")
    if not found["is_supervised"]:
        typer.echo("Failed parts are not restarted: the broker runs with --no-health, or with a stall_ms of 0.")
    if found["status"] == "well":
        typer.echo("All is well.")
