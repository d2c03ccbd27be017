"""`tandem drill`: an outage on purpose, and an account of every message."""

from __future__ import annotations

import asyncio
import enum
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tandem.cli.failure import CommandFailed
from tandem.cli.options import AsJson
from tandem.cli.output import neutral, print_json, print_table, progress
from tandem.durations import parse_duration_ms

__all__ = ["drill"]

# Of the figures, what each means.
_MEANINGS: Final = {
    "sent": "messages that one namespace or the other has taken",
    "received": "of these, received from the primary",
    "lost": "of these, never received",
    "duplicates": "received once more than sent: the outcome of a send was not known",
    "out_of_order": "received behind a later one of the same sender",
    "diverted": "took the detour by the secondary",
    "syphoned": "brought from there to the primary",
    "redelivered": "handed out again because the primary died before it heard that they were done",
    "refused": "sends that failed",
    "pings": "sent to the primary while it was away",
    "seconds_to_detect": "from the kill to the first failover",
    "seconds_to_restore": "from the return of the primary until the last entity was back",
    "seconds_to_drain": "from the return of the primary until the backlog was empty",
    "outage_seconds": "from the kill until the primary served again",
}


class Fault(enum.Enum):
    """What `tandem.cli.drill_run` has."""

    KILL = "kill"
    DROP_CONNECTIONS = "drop-connections"
    REFUSE_SENDS = "refuse-sends"
    TIMEOUT = "timeout"


def drill(
    messages: Annotated[int, typer.Option(help="How many are sent.", min=10)] = 1_000,
    rate: Annotated[float, typer.Option(help="How many are sent in a second.", min=1)] = 40.0,
    outage: Annotated[str, typer.Option(metavar="TIME", help="How long the primary is away.")] = "20s",
    failover_interval: Annotated[
        str, typer.Option(metavar="TIME", help="How long an entity may fail before its messages take the detour.")
    ] = "2s",
    ping_interval: Annotated[str, typer.Option(metavar="TIME", help="How often the primary is asked.")] = "1s",
    backlog_queues: Annotated[int, typer.Option(help="How many queues the secondary has for the detour.", min=1)] = 10,
    fault: Annotated[
        Fault,
        typer.Option(metavar="|".join(one.value for one in Fault), help="How the primary fails; kill is SIGKILL."),
    ] = Fault.KILL,
    begins_after: Annotated[
        float, typer.Option(help="When it fails: after this part of the messages, from 0 to 1.", min=0, max=0.9)
    ] = 0.25,
    as_json: AsJson = False,
) -> None:
    """Kill a primary namespace under load, and account for every message.

    Two brokers are started on this machine, in a folder that is deleted afterwards. Messages go to two queues, one of
    them with sessions, and a topic, through a paired client. The primary is killed with SIGKILL, comes back, and what
    took the detour is syphoned. The exit code is 1 if a message was lost.

    \b
    Examples:
      tandem drill
      tandem drill --messages 200 --rate 100 --outage 3s --failover-interval 500ms --json
      tandem drill --fault drop-connections --begins-after 0.6
    """
    from tandem.cli.drill_run import DrillPlan, run_drill

    plan = DrillPlan(
        messages,
        rate,
        _duration("--outage", outage).total_seconds(),
        _duration("--failover-interval", failover_interval),
        _duration("--ping-interval", ping_interval),
        backlog_queues,
        fault.value,
        begins_after,
    )
    started_s = time.monotonic()

    def say(what: str) -> None:
        if not as_json:
            typer.echo(f"{time.monotonic() - started_s:7.2f} s  {neutral(what)}", err=True)

    with (
        tempfile.TemporaryDirectory(prefix="tandem-drill-") as folder,
        progress("received", messages, as_json) as advance,
    ):
        figures = asyncio.run(run_drill(plan, Path(folder), say, lambda done: advance(done, messages)))
    if as_json:
        print_json(figures)
    else:
        _print(figures)
    if figures["lost"]:
        raise typer.Exit(1)


def _duration(option: str, text: str) -> timedelta:
    value_ms = parse_duration_ms(text, option)
    if value_ms is None:
        raise CommandFailed(f"{option} is {text!r}; a drill comes to an end: write a time such as 20s")
    return timedelta(milliseconds=value_ms)


# Any: the figures as they are printed as JSON.
def _print(figures: dict[str, Any]) -> None:
    rows = [
        (name.replace("_", " "), "-" if figures[name] is None else f"{figures[name]:,}", meaning)
        for name, meaning in _MEANINGS.items()
    ]
    print_table(("figure", "value", "meaning"), rows, ("value",))
