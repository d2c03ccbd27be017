"""`tandem cost`: estimate what a pair of namespaces will cost, and report what one did. Neither needs Spark."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tandem.cli.pairing.capacity import (
    MessageBytes,
    MessageRate,
    capacity_fields,
    capacity_sentences,
    parse_rate,
    parse_seconds,
)
from tandem.cli.shared.commands import command_group
from tandem.cli.shared.options import AsJson
from tandem.cli.shared.output import print_json, print_table
from tandem.location import Location

if TYPE_CHECKING:
    from tandem.cost.estimate import CostLine, Workload

__all__ = ["app"]

app = command_group("The cost of operations, estimated ahead and as metered.")

_DEFAULT_OUT: Final = Location("tandem-pipeline")

Prices = Annotated[
    Location | None,
    typer.Option("--tariff", metavar="FILE", parser=Location, help="Prices, as TOML.", show_default="an example"),
]


@app.command("estimate")
def estimate_cost(
    duration: Annotated[str, typer.Option(metavar="TIME", help="The time to estimate.")] = "30d",
    backlog_queues: Annotated[
        int, typer.Option(min=0, help="Number of backlog queues; each is long-polled continuously by every syphon.")
    ] = 10,
    syphons: Annotated[int, typer.Option(min=1, help="Number of processes that run a syphon.")] = 1,
    long_poll: Annotated[str, typer.Option(metavar="TIME", help="How long each poll of a syphon waits.")] = "15m",
    outage: Annotated[str, typer.Option(metavar="TIME", help="How long the primary is away.")] = "0s",
    entities: Annotated[int, typer.Option(min=0, help="Number of entities that are unavailable then.")] = 1,
    clients: Annotated[int, typer.Option(min=0, help="Number of programs that ping.")] = 1,
    ping_interval: Annotated[str, typer.Option(metavar="TIME", help="Time between two pings.")] = "1m",
    rate: MessageRate = None,
    messages: Annotated[
        int | None,
        typer.Option(min=0, help="Number of messages that take the detour.", show_default="--rate times --outage"),
    ] = None,
    message_bytes: MessageBytes = 1_024,
    tariff: Prices = None,
    as_json: AsJson = False,
) -> None:
    """Estimate what a pair of namespaces costs: long polls, pings, and four operations for each diverted message.

    The cost of each line includes its bandwidth, if the tariff has a price for it.

    \b
    Examples:
      tandem cost estimate --duration 1h --syphons 2
      tandem cost estimate --outage 2h --entities 20 --messages 1000000 --tariff tariff.toml
      tandem cost estimate --outage 8h --rate 500 --message-bytes 4096
    """
    from tandem.cost.estimate import Workload, estimate
    from tandem.cost.tariff import read_tariff

    outage_s = parse_seconds(outage, "--outage", allow_zero=True)
    messages_per_second = parse_rate(rate)
    diverted = messages
    if diverted is None:
        diverted = int(((messages_per_second or 0) * Decimal(outage_s)).to_integral_value(ROUND_CEILING))
    workload = Workload(
        parse_seconds(duration, "--duration"),
        backlog_queues,
        parse_seconds(long_poll, "--long-poll"),
        outage_s,
        entities,
        clients,
        parse_seconds(ping_interval, "--ping-interval"),
        diverted,
        message_bytes,
        syphons,
    )
    prices = read_tariff(tariff)
    lines = estimate(workload, prices)
    fields, sentences = _capacity(workload, messages_per_second)
    if as_json:
        print_json(_as_json(lines, prices.currency) | fields)
        return
    _print_lines(lines, prices.currency)
    for sentence in sentences:
        typer.echo(f"\n{sentence}")


def _capacity(workload: Workload, messages_per_second: Decimal | None) -> tuple[dict[str, Any], list[str]]:
    """Say how long an outage the backlog absorbs, which depends on the rate of messages."""
    from tandem.cost.backlog_capacity import BacklogCapacity

    if messages_per_second is None:
        return {}, []
    capacity = BacklogCapacity.of_new_queues(workload.backlog_queues, workload.message_bytes, messages_per_second)
    return (
        {"backlog": capacity_fields(capacity, workload.outage_s)},
        capacity_sentences(capacity, workload.outage_s),
    )


def _as_json(lines: list[CostLine], currency: str) -> dict[str, Any]:
    fields = [
        {
            "operation": line.operation,
            "stage": line.stage,
            "operations": line.operations,
            "units": line.units,
            "bytes": line.size_bytes,
            "bandwidth_cost": str(line.bandwidth_cost),
            "cost": str(line.cost),
        }
        for line in lines
    ]
    total = sum((line.cost for line in lines), Decimal(0))
    return {"currency": currency, "lines": fields, "cost": str(total)}


def _print_lines(lines: list[CostLine], currency: str) -> None:
    numbers = ("operations", "units", "GB", currency)
    rows = [(line.operation, line.stage, line.why, *_figures([line])) for line in lines]
    rows.append(("total", "", "", *_figures(lines)))
    print_table(("operation", "stage", "what for", *numbers), rows, numbers, ("operation", "stage"))


def _figures(lines: list[CostLine]) -> tuple[str, str, str, str]:
    from tandem.cost.money import money_text

    size_gb = Decimal(sum(line.size_bytes for line in lines)) / 1_000_000_000
    return (
        f"{sum(line.operations for line in lines):,}",
        f"{sum(line.units for line in lines):,}",
        f"{size_gb:,.3f}",
        money_text(sum((line.cost for line in lines), Decimal(0))),
    )


@app.command("report")
def report_cost(
    out: Annotated[
        Location, typer.Option("--out", metavar="DIR", parser=Location, help="The --out of `tandem pipeline metering`.")
    ] = _DEFAULT_OUT,
    as_json: AsJson = False,
) -> None:
    """Report what operations have cost, as `tandem pipeline metering` priced them last.

    \b
    Examples:
      tandem cost report
    """
    from tandem.cli.pipeline.jobs import show_results

    show_results(out, "Cost", as_json)
