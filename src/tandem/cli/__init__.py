"""The `tandem` command.

A command is imported when it is asked for: starting Python is most of the time that a short one takes, and scripts call
many. So the modules of commands, too, import what only some of their work needs where it is needed.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final, cast

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

import tandem
from tandem.errors import TandemError

__all__ = ["main"]

# Where each command is, in the order of the help: `app` is a group of commands, anything else the function of one.
_COMMANDS: Final = {
    "serve": "serve:serve",
    "connection-string": "connection_string:connection_string",
    "queue": "queue:app",
    "topic": "topic:app",
    "subscription": "subscription:app",
    # Defined in `rule`; one of its commands has a file of its own.
    "rule": "rule_trial:app",
    # Defined in `hub`; what handles events has files of its own.
    "hub": "hub_read:app",
    "send": "send:send",
    "receive": "receive:receive",
    "peek": "peek:peek",
    "dead-letter": "dead_letter:app",
    "purge": "purge:purge",
    "session": "session:app",
    "key": "key:app",
    "fault": "fault:app",
    "pair": "pair:app",
    "syphon": "syphon:app",
    "drill": "drill:drill",
    "export": "export:export_entities",
    "import": "export:import_entities",
    "pipeline": "pipeline:app",
    "cost": "cost:app",
    "check": "check:check",
    "bench": "bench:app",
    "completion": "completion:completion",
}

# Set by the scripts of `tandem completion` when a shell asks what could come next.
_COMPLETION_VARIABLE: Final = "_TANDEM_COMPLETE"

# What a mistake on the command line is raised as. typer does not export it, but what a bad parameter is raised as is
# one kind of it.
_UsageError: Final = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


class _Commands(TyperGroup):
    """Finds each command in its module."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Their names are all that is needed to propose one for another.
        self.commands.update({name: TyperCommand(name=name) for name in _COMMANDS})
        self._loaded: dict[str, TyperCommand | TyperGroup] = {}

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | TyperGroup | None:
        if cmd_name in _COMMANDS and cmd_name not in self._loaded:
            self._loaded[cmd_name] = _load(cmd_name)
        return self._loaded.get(cmd_name)


def _load(name: str) -> TyperCommand | TyperGroup:
    module, _, attribute = _COMMANDS[name].partition(":")
    found = getattr(importlib.import_module(f"tandem.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(found)
    command = typer.main.get_command(alone)
    assert isinstance(command, TyperCommand)
    return command


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # In the panels of rich, the long names of the service's own settings are cut off on a terminal of 80 columns.
    rich_markup_mode=None,
    help="Tandem: a service bus that anybody can run.",
)


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
    if _COMPLETION_VARIABLE in os.environ:
        # typer does this if it is asked to add its own options for completion, which would be in every help.
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        code = app(prog_name="tandem", standalone_mode=False)
    except _UsageError as error:
        sys.exit(_refuse(error))
    except TandemError as error:
        typer.echo(f"tandem: {error}", err=True)
        sys.exit(1)
    except typer.Abort:
        typer.echo("tandem: nothing was done", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(error: typer.BadParameter) -> int:
    """One line, and where to read on."""
    message = error.format_message()
    # A group of commands that was given none of them is refused with its help as the message.
    if message.startswith("Usage:"):
        typer.echo(message, err=True)
    else:
        message = " ".join(message.split())
        command = "tandem" if error.ctx is None else error.ctx.command_path
        sentence = message if message.endswith("?") else f"{message.rstrip('.')}."
        typer.echo(f"tandem: {sentence} See `{command} --help`.", err=True)
    return error.exit_code
