"""`tandem syphon`: bring messages from the backlog to the primary."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tandem.cli.options import AsJson, Connection
from tandem.cli.output import print_json
from tandem.cli.pair import BacklogQueues, PrimaryNamespace, Secondary, client_settings, name_of, primary_string

if TYPE_CHECKING:
    from tandem.client import NamespaceManager

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The syphon of a pair of namespaces: brings what took the detour to the entities it was sent to.",
)

# Seconds between two looks at the backlog, with --until-empty.
_LOOK_INTERVAL_S: Final = 0.5


@app.callback()
def _syphon() -> None:
    """The syphon of a pair of namespaces: brings what took the detour to the entities it was sent to."""


@app.command("run")
def run_syphon(
    secondary: Secondary,
    backlog_queues: BacklogQueues = 10,
    primary_namespace: PrimaryNamespace = None,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="End when the backlog is empty; needs the right Manage.")
    ] = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Run a syphon until SIGTERM or SIGINT. Any number of them may run at once.

    It prints `ready` when it runs, and at its end what it did. A message that the primary will never take is in the
    dead-letter queue of its backlog queue then, with the reason.

    \b
    Examples:
      tandem syphon run --connection-string "$PRIMARY" --secondary "$SECONDARY"
      tandem syphon run --secondary "$SECONDARY" --until-empty --json
    """
    primary = primary_string(connection_string)
    name = name_of(primary, primary_namespace)
    figures = asyncio.run(_run(primary, secondary, name, backlog_queues, until_empty, as_json))
    if as_json:
        print_json(figures)
    else:
        typer.echo(f"moved {figures['moved']:,} messages, dead-lettered {figures['dead_lettered']:,}")


async def _run(
    primary_string: str, secondary_string: str, name: str, count: int, is_until_empty: bool, as_json: bool
) -> dict[str, Any]:
    from tandem.client import MessagingFactory, NamespaceManager
    from tandem.pairing import Syphon
    from tandem.pairing.backlog import backlog_queue_path
    from tandem.pairing.events import EventReporter

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    paths = [backlog_queue_path(name, index) for index in range(count)]
    async with contextlib.AsyncExitStack() as stack:
        primary = await stack.enter_async_context(MessagingFactory.from_connection_string(primary_string))
        secondary = await stack.enter_async_context(MessagingFactory.from_connection_string(secondary_string))
        reporter = EventReporter(primary.address, secondary, None, secondary.settings.waiting.utc_now_s)
        stack.push_async_callback(reporter.close)
        syphon = Syphon(primary, secondary, paths, reporter.tell)
        stack.push_async_callback(syphon.close)
        syphon.start()
        if not as_json:
            typer.echo(f"ready: {count} backlog queues of {name}, {secondary.address} to {primary.address}")
        if is_until_empty:
            manager = NamespaceManager.from_connection_string(secondary_string, client_settings())
            await _wait_until_empty(manager, paths, stop)
        else:
            await stop.wait()
    return {"moved": syphon.moved_count, "dead_lettered": syphon.dead_lettered_count}


async def _wait_until_empty(manager: NamespaceManager, paths: list[str], stop: asyncio.Event) -> None:
    wanted = {path.lower() for path in paths}
    while not stop.is_set():
        queues = [queue for queue in await manager.get_queues() if queue.path.lower() in wanted]
        if not any(queue.active_message_count for queue in queues):
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _LOOK_INTERVAL_S)
