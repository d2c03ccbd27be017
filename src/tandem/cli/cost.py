"""`tandem cost`: what a pair of namespaces will cost, and what one did. Spark need not be installed for either."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from tandem.cli.failure import CommandFailed
from tandem.cli.options import AsJson
from tandem.cli.output import print_json, print_table
from tandem.durations import parse_duration_ms

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="What operations cost, before and afterwards.")

Prices = Annotated[Path | None, typer.Option("--tariff", metavar="FILE", help="As TOML.", show_default="an example")]


@app.callback()
def _cost() -> None:
    """What operations cost, before and afterwards."""


@app.command("estimate")
def estimate_cost(
    duration: Annotated[str, typer.Option(metavar="TIME", help="How long the pair is there.")] = "30d",
    backlog_queues: Annotated[int, typer.Option(min=0, help="Each has a long poll for ever.")] = 10,
    long_poll: Annotated[str, typer.Option(metavar="TIME", help="How long a poll of the syphon waits.")] = "15m",
    outage: Annotated[str, typer.Option(metavar="TIME", help="How long the primary is away.")] = "0s",
    entities: Annotated[int, typer.Option(min=0, help="How many are unavailable then.")] = 1,
    clients: Annotated[int, typer.Option(min=0, help="How many programs ping.")] = 1,
    ping_interval: Annotated[str, typer.Option(metavar="TIME", help="How often.")] = "1m",
    messages: Annotated[int, typer.Option(min=0, help="How many take the detour.")] = 0,
    message_bytes: Annotated[int, typer.Option(min=0, help="How large each one is.")] = 1_024,
    tariff: Prices = None,
    as_json: AsJson = False,
) -> None:
    """What a pair of namespaces costs: empty long polls, pings, and four operations for each message diverted.

    \b
    Examples:
      tandem cost estimate --duration 1h
      tandem cost estimate --outage 2h --entities 20 --messages 1000000 --tariff tariff.toml
    """
    from tandem.cost.estimate import Workload, estimate
    from tandem.cost.money import money_text
    from tandem.cost.tariff import read_tariff

    workload = Workload(
        _seconds(duration, "--duration"),
        backlog_queues,
        _seconds(long_poll, "--long-poll"),
        _seconds(outage, "--outage"),
        entities,
        clients,
        _seconds(ping_interval, "--ping-interval"),
        messages,
        message_bytes,
    )
    prices = read_tariff(tariff)
    lines = estimate(workload, prices)
    total = sum((line.cost for line in lines), Decimal(0))
    if as_json:
        fields = [
            {"operation": line.operation, "stage": line.stage, "operations": line.operations, "units": line.units}
            | {"cost": str(line.cost)}
            for line in lines
        ]
        print_json({"currency": prices.currency, "lines": fields, "cost": str(total)})
        return
    rows = [
        (line.operation, line.stage, line.why, f"{line.operations:,}", f"{line.units:,}", money_text(line.cost))
        for line in lines
    ]
    units = sum(line.units for line in lines)
    rows.append(("total", "", "", f"{sum(line.operations for line in lines):,}", f"{units:,}", money_text(total)))
    numbers = ("operations", "units", prices.currency)
    print_table(("operation", "stage", "what for", *numbers), rows, numbers)


@app.command("report")
def report_cost(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="As given to `tandem pipeline metering`.")] = Path(
        "tandem-pipeline"
    ),
    as_json: AsJson = False,
) -> None:
    """What operations did cost, as `tandem pipeline metering` found it last.

    \b
    Examples:
      tandem cost report
    """
    from tandem.cli.pipeline import show_results

    show_results(out, "Cost", as_json)


def _seconds(text: str, option: str) -> int:
    value_ms = parse_duration_ms(text, option)
    if value_ms is None:
        raise CommandFailed(f"{option} is {text!r:.40}; it must come to an end")
    return value_ms // 1_000
