"""`tandem drill`: an outage on purpose, and an account of every message."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from tandem.cli.shared.commands import made_by
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson
from tandem.cli.shared.output import neutral, print_json, print_table, progress
from tandem.drill.plan import ENTITIES, DrillPlan, DriverName, Fault
from tandem.durations import parse_duration_ms
from tandem.limits import MAX_DRILL_PAIRS

__all__ = ["drill"]


def _plan(
    messages: Annotated[int, typer.Option(help="Number of messages to send.", min=10)] = 1_000,
    rate: Annotated[float, typer.Option(help="Messages per second.", min=1)] = 40.0,
    outage: Annotated[str, typer.Option(metavar="TIME", help="Duration of the outage.")] = "20s",
    failover_interval: Annotated[
        str, typer.Option(metavar="TIME", help="How long an entity may fail before it fails over.")
    ] = "2s",
    ping_interval: Annotated[
        str, typer.Option(metavar="TIME", help="Time between two pings to the primary during the outage.")
    ] = "1s",
    operation_timeout: Annotated[
        str, typer.Option(metavar="TIME", help="Time limit of one send, including failover.")
    ] = "5m",
    backlog_queues: Annotated[int, typer.Option(help="Number of backlog queues in the secondary.", min=1)] = 10,
    fault: Annotated[
        Fault,
        typer.Option(metavar="|".join(one.value for one in Fault), help="How the primary fails; kill is SIGKILL."),
    ] = Fault.KILL,
    entity: Annotated[
        str | None,
        typer.Option(metavar="|".join(ENTITIES), help="Let only this entity fail; no other may fail over."),
    ] = None,
    begins_after: Annotated[
        float, typer.Option(help="Start the outage after this fraction of the messages.", min=0, max=0.9)
    ] = 0.25,
    driver: Annotated[
        DriverName,
        typer.Option(
            metavar="|".join(one.value for one in DriverName),
            help="Client to send and receive with: Tandem's, or the official SDK (azure-servicebus).",
        ),
    ] = DriverName.TANDEM,
    duplicate_detection: Annotated[
        bool, typer.Option("--duplicate-detection", help="Enable duplicate detection; no duplicate may be received.")
    ] = False,
    two_spellings: Annotated[
        bool,
        typer.Option("--two-spellings", help="Reach the primary as 127.0.0.1, and from the syphon as localhost."),
    ] = False,
    pairs: Annotated[
        int, typer.Option(help="Number of pairs; their secondary is the same.", min=1, max=MAX_DRILL_PAIRS)
    ] = 1,
) -> DrillPlan:
    return DrillPlan(
        messages,
        rate,
        _duration("--outage", outage),
        _duration("--failover-interval", failover_interval),
        _duration("--ping-interval", ping_interval),
        _duration("--operation-timeout", operation_timeout),
        backlog_queues,
        fault,
        entity,
        begins_after,
        driver,
        duplicate_detection,
        two_spellings,
        pairs,
    )


@made_by(_plan, "plan")
def drill(
    plan: DrillPlan,
    report: Annotated[Path, typer.Option(metavar="DIR", help="Folder for drill.json and drill.html.")] = Path(
        "build/drill"
    ),
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the data of both brokers in DIR/primary and DIR/secondary."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a primary namespace fail under load, and account for every message.

    Starts two brokers on this machine, in a folder that is deleted afterwards. A paired client sends to two queues, one
    of them with sessions, and to a topic. The primary is killed with SIGKILL, or fails in another way, and comes back;
    then the diverted messages are syphoned. The exit status is 1 if a promise was broken: a message was lost, a
    duplicate cannot be explained, an entity failed over that was not down, or the brokers metered more operations than
    the formula of docs/explain/paired-namespaces.md allows.

    \b
    Examples:
      tandem drill
      tandem drill --messages 200 --rate 100 --outage 3s --failover-interval 500ms --json
      tandem drill --fault drop-connections --begins-after 0.6 --driver azure
      tandem drill --fault stall --entity orders --operation-timeout 6s --duplicate-detection
      tandem drill --two-spellings --pairs 2
    """
    from tandem.drill.report import save_report

    with _data_folder(keep) as folder:
        figures = _run(plan, folder, as_json)
    page = save_report(figures, report)
    if as_json:
        print_json(figures)
    else:
        _print(figures)
        typer.echo(f"saved to {page}", err=True)
    if figures["violations"]:
        raise typer.Exit(1)


def _duration(option: str, text: str) -> timedelta:
    value_ms = parse_duration_ms(text, option)
    if value_ms is None:
        raise CommandFailed(f"{option} is {text!r}; a drill comes to an end: write a time such as 20s")
    return timedelta(milliseconds=value_ms)


@contextlib.contextmanager
def _data_folder(keep: Path | None) -> Iterator[Path]:
    from tandem.drill.course import SECONDARY, primary_folder

    if keep is None:
        with tempfile.TemporaryDirectory(prefix="tandem-drill-") as folder:
            yield Path(folder)
        return
    for name in (primary_folder(0), SECONDARY):
        if (keep / name).exists():
            raise CommandFailed(f"--keep is {str(keep)!r}, which has data of another drill: delete it, or take another")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


# Any: the figures as they are printed as JSON.
def _run(plan: DrillPlan, folder: Path, is_quiet: bool) -> dict[str, Any]:
    from tandem.drill.course import run_drill

    started_s = time.monotonic()

    def say(what: str) -> None:
        if not is_quiet:
            # Not typer.echo: it writes past the stream that keeps lines above a progress bar.
            sys.stderr.write(f"{time.monotonic() - started_s:7.2f} s  {neutral(what)}\n")

    messages = plan.messages * plan.pairs
    with progress("received", messages, is_quiet) as advance:
        return asyncio.run(run_drill(plan, folder, say, lambda done: advance(done, messages)))


def _print(figures: dict[str, Any]) -> None:
    from tandem.drill.figures import MEANINGS

    rows = [
        (name.replace("_", " "), "-" if figures[name] is None else f"{figures[name]:,}", meaning)
        for name, meaning in MEANINGS.items()
    ]
    print_table(("figure", "value", "meaning"), rows, ("value",))
    for violation in figures["violations"]:
        typer.echo(f"broken promise: {violation}", err=True)
