"""The `tandem` command.

    broker/      run a broker and look after it: serve, connection-string, diagnose, fault, check
    entities/    what a namespace holds: queues, topics, subscriptions, rules, event hubs, keys, exports
    messages/    messages and events: send, receive, peek, purge, dead letters, sessions
    pairing/     paired namespaces: pair, syphon, drill
    pipeline/    jobs on Spark, and what operations cost
    shared/      how commands reach a broker, which options they share, what they print

A command is imported when it is asked for: starting Python is most of the time that a short one takes, and scripts call
many. So the modules of commands, too, import what only some of their work needs where it is needed.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final, NamedTuple, cast

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

import tandem
from tandem.errors import TandemError

__all__ = ["main"]


class _Place(NamedTuple):
    """Where a command is defined, and the first sentence of its help, which the overview shows without importing it."""

    # A module of this package, and in it the group of commands `app` or the function of one command.
    target: str
    summary: str


# In the order of the overview.
_COMMANDS: Final = {
    "serve": _Place("broker.serve:serve", "Run the broker until SIGTERM or Ctrl-C."),
    "connection-string": _Place(
        "broker.connection_string:connection_string",
        "Print the connection string of a broker, one line that the official Azure SDKs take as it is.",
    ),
    "queue": _Place("entities.queue:app", "Create, list, show, update and delete queues of a running broker."),
    "topic": _Place("entities.topic:app", "Create, list, show, update and delete topics of a running broker."),
    "subscription": _Place(
        "entities.subscription:app", "Create, list, show, update and delete subscriptions of a topic."
    ),
    # Defined in `entities.rule`; one of its commands has a file of its own.
    "rule": _Place("entities.rule_trial:app", "Create, list, show, update, delete and test rules of a subscription."),
    # Defined in `entities.hub`; what handles events has files of its own.
    "hub": _Place(
        "messages.hub_checkpoints:app",
        "Create, list, show, update and delete event hubs of a running broker; send events and read them.",
    ),
    "send": _Place("messages.send:send", "Send a message to a queue or a topic."),
    "receive": _Place(
        "messages.receive:receive", "Receive messages from a queue or a subscription, and complete them."
    ),
    "peek": _Place("messages.peek:peek", "Show messages of a queue or a subscription without receiving them."),
    "dead-letter": _Place("messages.dead_letter:app", "List, resubmit and purge dead letters."),
    "purge": _Place("messages.purge:purge", "Delete the messages of a queue or a subscription that are in one state."),
    "session": _Place(
        "messages.session:app", "List sessions of a queue or a subscription; show, set and clear their state."
    ),
    "namespace": _Place("entities.namespace:app", "Show a namespace and its limits, and change its tier."),
    "key": _Place("entities.key:app", "List, create, rotate and delete shared access rules."),
    "diagnose": _Place(
        "broker.diagnose:diagnose",
        "Show how a broker is: its facets and their limits, what it refuses, and what it has restarted.",
    ),
    "fault": _Place("broker.fault:app", "Let a broker fail on purpose, for one entity or the whole namespace."),
    "pair": _Place("pairing.pair:app", "Paired namespaces: sends go on while the primary cannot be sent to."),
    "syphon": _Place(
        "pairing.syphon:app",
        "The syphon of a pair of namespaces: brings what took the detour to the entities it was sent to.",
    ),
    "drill": _Place("pairing.drill:drill", "Make a primary namespace fail under load, and account for every message."),
    "export": _Place(
        "entities.export:export_entities",
        "Write all queues, topics, subscriptions and rules as one JSON document, without messages.",
    ),
    "import": _Place(
        "entities.export:import_entities", "Make the queues, topics, subscriptions and rules of an exported document."
    ),
    "pipeline": _Place(
        "pipeline.jobs:app",
        "Jobs on Spark: events into files, cost, availability, latency, bulk syphon; pip install 'tandem-bus[spark]'.",
    ),
    "cost": _Place("pipeline.cost:app", "The cost of operations, estimated ahead and as metered."),
    "check": _Place("broker.check:check", "Read a data directory from end to end and say what contradicts what."),
    "bench": _Place("bench:app", "Side-by-side benchmarks: ratios from one run on one machine."),
    "completion": _Place(
        "completion:completion", "Print a script that lets a shell complete commands and options of tandem."
    ),
}

# Set by the scripts of `tandem completion` when a shell asks what could come next.
_COMPLETION_VARIABLE: Final = "_TANDEM_COMPLETE"

# What a mistake on the command line is raised as. typer does not export it, but what a bad parameter is raised as is
# one kind of it.
_UsageError: Final = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


class _Commands(TyperGroup):
    """Finds each command in its module, and lists all of them without importing any."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # Names are all that is needed to propose one for another.
        self.commands.update({name: TyperCommand(name=name, help=place.summary) for name, place in _COMMANDS.items()})
        self._overview = TyperGroup(**{**settings, "commands": self.commands})
        self._loaded: dict[str, TyperCommand | TyperGroup] = {}

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | TyperGroup | None:
        if cmd_name in _COMMANDS and cmd_name not in self._loaded:
            self._loaded[cmd_name] = _load(cmd_name)
        return self._loaded.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        self._overview.format_commands(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        return self._overview.shell_complete(typer.Context(self._overview), incomplete)


def _load(name: str) -> TyperCommand | TyperGroup:
    module, _, attribute = _COMMANDS[name].target.partition(":")
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
