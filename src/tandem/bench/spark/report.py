"""The figures of `tandem bench spark`: as tables for a terminal, as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

import msgspec
from rich.table import Table

from tandem.bench.measuring.plot import Bars, draw

__all__ = ["AMQP", "ARROW", "PARQUET", "RANGE", "SDK", "SparkFigures", "SparkLatency", "spark_picture", "spark_tables"]

# Two ceilings, our two wires, and what one would write without us.
RANGE: Final = "range"
PARQUET: Final = "parquet"
ARROW: Final = "arrow"
AMQP: Final = "amqp"
SDK: Final = "sdk"

_NAMES: Final = {
    RANGE: "rows made in the JVM",
    PARQUET: "the same rows from Parquet",
    ARROW: "eventhubs, transport arrow",
    AMQP: "eventhubs, transport amqp",
    SDK: "a loop on azure-eventhub",
}

# What has to be reached: (case, beside, at least).
BUDGETS: Final = ((ARROW, PARQUET, 0.25), (ARROW, SDK, 10.0), (AMQP, SDK, 3.0))


class SparkLatency(msgspec.Struct):
    """From the hub to a batch, at a fixed rate."""

    events_per_second: int
    p50_ms: float
    p99_ms: float


class SparkFigures(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything one run has measured."""

    machine: str
    form: str
    java: str
    events: int
    body_bytes: int
    cores: int
    rounds: int
    # Rows per second by case, a figure per round.
    rates: dict[str, list[float]] = {}
    latency: SparkLatency | None = None


def spark_tables(figures: SparkFigures) -> Iterator[Table]:
    medians = {case: median(rates) for case, rates in figures.rates.items()}
    table = Table(title=f"{figures.events:,} events of {figures.body_bytes} bytes into Spark, {figures.cores} cores")
    for heading in ("", "rows/s", "of Parquet", "of the SDK loop"):
        table.add_column(heading, justify="right" if heading else "left")
    for case, rate in medians.items():
        beside = [f"{rate / medians[other]:.2f}" for other in (PARQUET, SDK)]
        table.add_row(_NAMES[case], f"{rate:,.0f}", *beside)
    yield table
    budgets = Table(title="Budgets")
    for heading in ("", "ratio", "at least", ""):
        budgets.add_column(heading, justify="left" if not heading else "right")
    for case, other, least in BUDGETS:
        ratio = medians[case] / medians[other]
        verdict = "reached" if ratio >= least else "missed"
        budgets.add_row(f"{_NAMES[case]} / {_NAMES[other]}", f"{ratio:.2f}", f"{least:g}", verdict)
    yield budgets
    if figures.latency is not None:
        latency = figures.latency
        seen = Table(title=f"From the hub to a batch, {latency.events_per_second} events/s", show_header=False)
        seen.add_row("p50, ms", f"{latency.p50_ms:,.0f}")
        seen.add_row("p99, ms", f"{latency.p99_ms:,.0f}")
        yield seen


def spark_picture(figures: SparkFigures) -> str:
    cases = list(figures.rates)
    rates: list[float | None] = [median(figures.rates[case]) for case in cases]
    panel = Bars("Rows per second", cases, {"median": rates})
    return draw(f"Event hubs into Spark, {figures.body_bytes} byte events", [panel])
