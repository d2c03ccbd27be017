"""`tandem bench topic`: the rate of publishing against the number of subscriptions, and what a filter costs.

    correlation   each subscription wants another store, by a correlation filter: one of them matches
    sql           the same by SQL filters, each of which is evaluated for every message
    all           every subscription wants everything: as many copies as subscriptions

Each figure is from a broker of its own, over an empty folder: what an earlier one holds must not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

import msgspec
from rich.table import Table

import tandem
from tandem.amqp.message import encode_message
from tandem.bench.load.job import Job
from tandem.bench.measuring.contender import TandemBroker, run_job, tandem_broker
from tandem.bench.measuring.plot import Lines, draw
from tandem.pages.origin import machine_text
from tandem.rules import SqlFilter, Subject

__all__ = ["SERIES", "SUBSCRIPTION_COUNTS", "TopicFigures", "measure_topics", "topic_picture", "topic_tables"]

SUBSCRIPTION_COUNTS: Final = (1, 10, 100, 1_000)
SERIES: Final = ("correlation", "sql", "all")

_TITLES: Final = {
    "correlation": "correlation filters, one matches",
    "sql": "SQL filters, one matches",
    "all": "all match",
}

TOPIC: Final = "stores"
PROPERTY: Final = "StoreName"

# Evaluations that are timed together, and how often.
_EVALUATIONS: Final = 20_000
_TURNS: Final = 5

# Messages. Where all subscriptions match, each message is as many copies: fewer of them, but not too few to time.
_LEAST_MESSAGES: Final = 200


class TopicFigures(msgspec.Struct, kw_only=True):
    """Everything one run has measured."""

    machine: str
    form: str
    messages: int
    body_bytes: int
    rounds: int
    # Messages per second by series and number of subscriptions: the medians.
    rates: dict[str, dict[int, float]]
    # How the rate with the most subscriptions compares to that with one.
    ratios: dict[str, float]
    # Microseconds to decide `StoreName = 'Store1'` for one message, as one of many filters.
    evaluation_us: float


def measure_topics(
    messages: int, body_bytes: int, rounds: int, counts: Sequence[int], advance: Callable[[str], None]
) -> TopicFigures:
    seen: dict[str, dict[int, list[float]]] = {series: {count: [] for count in counts} for series in SERIES}
    for round_number in range(rounds):
        for series in SERIES:
            for count in counts:
                advance(f"round {round_number + 1}: {count:,} subscriptions, {_TITLES[series]}")
                seen[series][count].append(_rate(series, count, messages, body_bytes))
    rates = {
        series: {count: median(figures) for count, figures in by_count.items()} for series, by_count in seen.items()
    }
    return TopicFigures(
        machine=machine_text(),
        form=tandem.form(),
        messages=messages,
        body_bytes=body_bytes,
        rounds=rounds,
        rates=rates,
        ratios={series: by_count[max(counts)] / by_count[min(counts)] for series, by_count in rates.items()},
        evaluation_us=evaluation_us(),
    )


def _rate(series: str, count: int, messages: int, body_bytes: int) -> float:
    with tandem_broker(()) as broker:
        _make(broker, series, count)
        copies = count if series == "all" else 1
        job = Job(
            kind="rate",
            peer=broker.peer,
            addresses=[TOPIC],
            mode="send",
            count=max(_LEAST_MESSAGES, messages // copies),
            body_bytes=body_bytes,
            properties={PROPERTY: "Store0"},
        )
        return run_job(job)["messages_per_second"]


def _make(broker: TandemBroker, series: str, count: int) -> None:
    broker.broker.create_topic(TOPIC, max_size_in_megabytes=81_920)
    for number in range(count):
        rule = {"name": "store", "filter": _filter(series, number)}
        broker.broker.create_subscription(TOPIC, f"store-{number}", rules=[rule])


def _filter(series: str, number: int) -> dict[str, Any]:
    if series == "correlation":
        return {"kind": "correlation", "properties": {PROPERTY: f"Store{number}"}}
    if series == "sql":
        return {"kind": "sql", "expression": f"{PROPERTY} = 'Store{number}'"}
    return {"kind": "true"}


def evaluation_us() -> float:
    """The least of several turns: what the code needs, without what else the machine did meanwhile."""
    condition = SqlFilter(f"{PROPERTY} = 'Store1'")
    subject = Subject.of_message(encode_message(application_properties={PROPERTY: "Store0", "Quantity": 3}, data=b""))
    spent: list[float] = []
    for _ in range(_TURNS):
        started_at = time.perf_counter()
        for _ in range(_EVALUATIONS):
            condition.matches(subject)
        spent.append(time.perf_counter() - started_at)
    return min(spent) / _EVALUATIONS * 1e6


def topic_tables(figures: TopicFigures) -> list[Table]:
    table = Table(title=f"Published messages/s by subscriptions, {figures.body_bytes} bytes each")
    table.add_column("")
    for count in next(iter(figures.rates.values())):
        table.add_column(f"{count:,}", justify="right")
    table.add_column("last / first", justify="right")
    for series, by_count in figures.rates.items():
        cells = [f"{rate:,.0f}" for rate in by_count.values()]
        table.add_row(_TITLES[series], *cells, f"{figures.ratios[series]:.2f} ×")
    cost = Table(title="One evaluation of StoreName = 'Store1'", show_header=False)
    cost.add_row("microseconds", f"{figures.evaluation_us:.2f}")
    return [table, cost]


def topic_picture(figures: TopicFigures) -> str:
    counts = list(next(iter(figures.rates.values())))
    lines = {_TITLES[series]: list(by_count.values()) for series, by_count in figures.rates.items()}
    panel = Lines("Published per second, by subscriptions", counts, lines)
    return draw(f"Topics, {figures.body_bytes} byte messages", [panel])
