"""`tandem syphon`: bring messages from the backlog to the primary."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tandem.cli.pairing.pair import BacklogQueues, PrimaryNamespace, Secondary, client_settings, primary_string
from tandem.cli.shared.commands import command_group
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import print_json

if TYPE_CHECKING:
    from tandem.client import NamespaceManager
    from tandem.pairing import Syphon
    from tandem.pairing.discovery import FoundBacklog

__all__ = ["app"]

app = command_group("The syphon of a pair of namespaces: brings what took the detour to the entities it was sent to.")

# Seconds between two looks at the backlog, with --until-empty.
_LOOK_INTERVAL_S: Final = 0.5


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
    figures = asyncio.run(_run(primary, secondary, primary_namespace, backlog_queues, until_empty, as_json))
    if as_json:
        print_json(figures)
    else:
        typer.echo(f"moved {figures['moved']:,} messages, dead-lettered {figures['dead_lettered']:,}")


async def _run(
    primary_string: str, secondary_string: str, name: str | None, count: int, is_until_empty: bool, as_json: bool
) -> dict[str, Any]:
    from tandem.client import MessagingFactory, NamespaceManager
    from tandem.pairing import Syphon
    from tandem.pairing.discovery import BacklogFinder, keep_watching
    from tandem.pairing.events import EventReporter

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        primary = await stack.enter_async_context(MessagingFactory.from_connection_string(primary_string))
        secondary = await stack.enter_async_context(MessagingFactory.from_connection_string(secondary_string))
        manager = NamespaceManager.from_connection_string(secondary_string, client_settings())
        finder = BacklogFinder(primary, secondary, manager, name, count)
        found = await finder.find()
        utc_now_s = secondary.settings.waiting.utc_now_s
        reporter = EventReporter(primary.address, found.owner.name, secondary, None, utc_now_s)
        stack.push_async_callback(reporter.close)
        syphon = Syphon(primary, secondary, found.paths, reporter.tell)
        stack.push_async_callback(syphon.close)
        syphon.start()
        watching = asyncio.create_task(keep_watching(finder.find_paths, syphon.watch, secondary.settings.waiting))
        stack.callback(watching.cancel)
        for other, count_left in found.unwatched.items():
            typer.echo(
                f"note: this primary also has backlog queues under the name {other}, with {count_left:,} messages; "
                f"without --primary-namespace this syphon empties them too",
                err=True,
            )
        if not as_json:
            typer.echo(f"ready: {_described(found)}, {secondary.address} to {primary.address}")
        if is_until_empty:
            await _wait_until_empty(manager, syphon, stop)
        else:
            await stop.wait()
    return {"moved": syphon.moved_count, "dead_lettered": syphon.dead_lettered_count}


def _described(found: FoundBacklog) -> str:
    """How many backlog queues there are, and every name that they have."""
    names = dict.fromkeys([found.owner.name, *(path.rpartition("/")[0].rpartition("/")[0] for path in found.paths)])
    return f"{len(found.paths)} backlog queues of {', '.join(names)}"


async def _wait_until_empty(manager: NamespaceManager, syphon: Syphon, stop: asyncio.Event) -> None:
    while not stop.is_set():
        wanted = {path.lower() for path in syphon.backlog_paths}
        queues = [queue for queue in await manager.get_queues() if queue.path.lower() in wanted]
        if not any(queue.active_message_count for queue in queues):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_INTERVAL_S):
                await stop.wait()
