"""How far streams are behind their hubs, from the progress that Spark reports.

    lags = lag_of(query.lastProgress)                                    by hub and partition
    metrics = LagMetrics(); spark.streams.addListener(metrics)           of all queries of a session
    print(metrics.text())                                                for Prometheus

Spark describes a Python source by the name of a class in Java, and lets it report no metrics of its own. It does report
how far the source was read and how far the source says that it has come: these name the hubs, and their difference is
the lag.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from tandem.errors import TandemError
from tandem.spark.offsets import SourceOffset

__all__ = ["LagMetrics", "PartitionLag", "describe", "lag_of", "metric_lines"]


class PartitionLag(NamedTuple):
    """How far one partition was read."""

    hub: str
    partition: str
    # The number of the next event to read, and of the next that will come.
    next_number: int
    head_number: int

    @property
    def events(self) -> int:
        return max(0, self.head_number - self.next_number)


def lag_of(progress: StreamingQueryProgress | None) -> list[PartitionLag]:
    """Return how far a query is behind, by hub and partition. Sources of other formats are left out."""
    lags: list[PartitionLag] = []
    for source in progress.sources if progress is not None else ():
        reached, head = _offset(source.endOffset), _offset(source.latestOffset)
        if reached is None or head is None:
            continue
        for name, until in head.hubs.items():
            known = reached.hubs.get(name)
            is_same = known is not None and known.incarnation == until.incarnation
            numbers = known.next_numbers if is_same and known is not None else {}
            lags += [
                PartitionLag(until.hub, partition, numbers.get(partition, 0), number)
                for partition, number in until.next_numbers.items()
            ]
    return lags


def describe(progress: StreamingQueryProgress | None) -> str:
    """Return one line about a query: its hubs, and how many events each is behind."""
    behind: dict[str, int] = {}
    for one in lag_of(progress):
        behind[one.hub] = behind.get(one.hub, 0) + one.events
    return ", ".join(f"{hub}: {events:,} events behind" for hub, events in behind.items()) or "nothing was read yet"


def _offset(text: Any) -> SourceOffset | None:
    """Return an offset of ours; None for any other."""
    try:
        fields = json.loads(text)
        return SourceOffset.from_json(fields)
    except (AttributeError, KeyError, TypeError, ValueError, TandemError):
        return None


class LagMetrics(StreamingQueryListener):
    """The progress of all queries of a session, as Prometheus reads it."""

    def __init__(self) -> None:
        # Spark reports on a thread of its own.
        self._lock = threading.Lock()
        self._last: dict[str, StreamingQueryProgress] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's own name
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - as above
        with self._lock:
            self._last[str(event.progress.runId)] = event.progress

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - as above
        with self._lock:
            self._last.pop(str(event.runId), None)

    def text(self) -> str:
        """Return the metrics in the format of Prometheus."""
        with self._lock:
            queries = [(progress.name or str(progress.id), progress) for progress in self._last.values()]
        lags = [
            ({"query": name, "hub": one.hub, "partition": one.partition}, one)
            for name, progress in queries
            for one in lag_of(progress)
        ]
        return "".join(
            [
                *metric_lines(
                    "tandem_spark_lag_events",
                    "Events of a partition that were not read yet.",
                    ((labels, one.events) for labels, one in lags),
                ),
                *metric_lines(
                    "tandem_spark_next_sequence_number",
                    "Number of the next event to read.",
                    ((labels, one.next_number) for labels, one in lags),
                ),
                *metric_lines(
                    "tandem_spark_batch_seconds",
                    "Duration of the last batch.",
                    (({"query": name}, progress.batchDuration / 1_000) for name, progress in queries),
                ),
                *metric_lines(
                    "tandem_spark_batch_rows",
                    "Rows of the last batch.",
                    (({"query": name}, progress.numInputRows) for name, progress in queries),
                ),
            ]
        )


def metric_lines(
    name: str, meaning: str, samples: Iterable[tuple[dict[str, str], float]], kind: str = "gauge"
) -> list[str]:
    """Return one metric in the format of Prometheus."""
    lines = [f"# HELP {name} {meaning}\n", f"# TYPE {name} {kind}\n"]
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{shown}}} {value}\n")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
