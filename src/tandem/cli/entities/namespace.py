"""`tandem namespace`: the namespace itself, and its tier."""

from __future__ import annotations

from typing import Annotated

import typer

from tandem.cli.shared.broker import MANAGING_HELP, management
from tandem.cli.shared.commands import command_group
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import print_done, print_json, print_table
from tandem.management.client import EntityFields

__all__ = ["app"]

app = command_group(
    "Show a namespace and its limits, and change its tier.",
    "The tier decides which limits count: `standard` and `premium` are those of the cloud service, `tandem` has none "
    "of these.",
    MANAGING_HELP,
)


@app.command("show")
def show_namespace(connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Show the namespace, its tier, and the limits of that tier."""
    with management(connection_string, "namespace") as client:
        found = client.namespace()
    if as_json:
        print_json(found)
    else:
        _print(found)


@app.command("update")
def update_namespace(
    tier: Annotated[str, typer.Option("--tier", metavar="tandem|standard|premium", help="The tier from now on.")],
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Change the tier of the namespace.

    Entities keep their settings; what is created, changed or sent from now on is judged by the new limits. A broker
    whose command line or configuration names a tier returns to that one at its next start.

    \b
    Examples:
      tandem namespace update --tier standard
    """
    from tandem.engine.tiers import tier_of

    tier_of(tier, "--tier")
    with management(connection_string, "namespace") as client:
        updated = client.update_namespace({"tier": tier})
    print_done(f"the namespace {updated['name']} has the tier {tier}", updated, as_json)


def _print(found: EntityFields) -> None:
    typer.echo(f"namespace {found['name']}, tier {found['tier']} (on the service's own API: {found['messaging_sku']})")
    rows = [(name.replace("_", " "), _text(value)) for name, value in found["limits"].items()]
    print_table(("limit", "value"), rows, numbers=("value",))


def _text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(f"{one:,}" for one in value) or "any"
    return f"{value:,}"
