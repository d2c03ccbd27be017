"""The `tandem` command."""

from __future__ import annotations

import sys
from typing import Final, cast

import typer

import tandem
from tandem.cli import bench, check, connection_string, queue, rule, rule_trial, serve, subscription, topic
from tandem.errors import TandemError

__all__ = ["main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # In the panels of rich, the long names of the service's own settings are cut off on a terminal of 80 columns.
    rich_markup_mode=None,
    help="Tandem: a service bus that anybody can run.",
)
app.command("serve")(serve.serve)
app.command("connection-string")(connection_string.connection_string)
app.add_typer(queue.app, name="queue")
app.add_typer(topic.app, name="topic")
app.add_typer(subscription.app, name="subscription")
app.add_typer(rule.app, name="rule")
rule.app.command("test")(rule_trial.try_rule)
app.command("check")(check.check)
app.add_typer(bench.app, name="bench")

# What a mistake on the command line is raised as. typer does not export it, but what a bad parameter is raised as is
# one kind of it.
_UsageError: Final = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


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
        code = app(standalone_mode=False)
    except _UsageError as error:
        sys.exit(_refuse(error))
    except TandemError as error:
        typer.echo(f"tandem: {error}", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(error: typer.BadParameter) -> int:
    """One line, and where to read on."""
    message = error.format_message()
    # A group of commands that was given none of them is refused with its help as the message.
    if "\n" in message:
        typer.echo(message, err=True)
    else:
        command = "tandem" if error.ctx is None else error.ctx.command_path
        typer.echo(f"tandem: {message.rstrip('.')}. See `{command} --help`.", err=True)
    return error.exit_code
