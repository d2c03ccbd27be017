"""The `tandem` command."""

from __future__ import annotations

import sys

import typer

import tandem
from tandem.cli import bench
from tandem.errors import TandemError

__all__ = ["main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Tandem: a service bus that anybody can run.",
)
app.add_typer(bench.app, name="bench")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"tandem {tandem.__version__} ({tandem.form()})")
        raise typer.Exit


@app.callback()
def _tandem(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Tandem: a service bus that anybody can run."""


def main() -> None:
    """The entry point of the console script. An error that was foreseen is one line, not a traceback."""
    try:
        app()
    except TandemError as error:
        typer.echo(f"tandem: {error}", err=True)
        sys.exit(1)
