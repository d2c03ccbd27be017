"""The tables of results that grow with every batch, and how a batch of records becomes rows of each.

Each table is a `SumTable`: rows of a batch are added to those of the same window and keys. What does not add up is
computed by whoever reads the sums, in `tandem.spark.report.sums`; outages, which take Spark, by `live_outages`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from tandem.lake.sum_table import SumTable
from tandem.spark.report.sums import sum_table
from tandem.spark.service.configuration import ServiceSettings
from tandem.spark.transforms import availability
from tandem.spark.transforms.latency import latency_counts
from tandem.spark.transforms.metering import cost_sums
from tandem.spark.transforms.operations import operations, pairing_events

__all__ = ["ResultTable", "result_tables"]

_OF_PAIRING: Final = frozenset({"backlog", "pairing_events"})

Rows = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class ResultTable:
    """A table, and the rows that a batch of records adds to it."""

    table: SumTable
    rows: Rows
    # True for one that is made of what paired clients told, which is nothing most of the time.
    is_of_pairing: bool = False


def result_tables(settings: ServiceSettings) -> dict[str, list[ResultTable]]:
    """Return the tables of each job that is to run."""
    cost = cost_sums(settings.tariff, window=settings.cost_window)
    counts = latency_counts(window=settings.latency_window)
    jobs: dict[str, dict[str, Rows]] = {
        "metering": {"costs": lambda records: cost(operations(records))},
        "latency": {"latencies": lambda records: counts(operations(records))},
        "availability": {
            "backlog_queues": lambda records: availability.backlog_queue_changes(operations(records)),
            "backlog": lambda records: availability.backlog_changes(pairing_events(records)),
            "pairing_events": pairing_events,
        },
    }
    return {
        job: [ResultTable(sum_table(settings.out, name), rows, name in _OF_PAIRING) for name, rows in jobs[job].items()]
        for job in settings.jobs
    }
