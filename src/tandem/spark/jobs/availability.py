"""Outages and failovers: `outages`, `pings`, `backlog`, `backlog_queues`, and `arrivals` where messages were logged."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tandem.spark.jobs.records import Namespaces, refresh, write
from tandem.spark.schemas import MESSAGE_LOG
from tandem.spark.transforms import availability as transforms
from tandem.spark.transforms.operations import operations, pairing_events

__all__ = ["availability", "write_arrivals", "write_outages"]


def availability(
    spark: SparkSession,
    namespaces: Namespaces,
    out: Path,
    *,
    sent: Path | None = None,
    received: Path | None = None,
    late_after_s: float = 60.0,
) -> None:
    """`sent` and `received` are logs of messages, as lines of JSON with entity, messageId, number and time."""
    write_outages(refresh(spark, namespaces, out), out)
    if sent is not None and received is not None:
        write_arrivals(spark, sent, received, out, late_after_s=late_after_s)


def write_outages(records: DataFrame, out: Path) -> None:
    events = records.transform(pairing_events)
    write(events.transform(transforms.outages), out / "outages", "failing_at")
    write(events.transform(transforms.pings), out / "pings")
    write(events.transform(transforms.backlog_depth), out / "backlog")
    write(records.transform(operations).transform(transforms.backlog_queues), out / "backlog_queues")


def write_arrivals(spark: SparkSession, sent: Path, received: Path, out: Path, *, late_after_s: float = 60.0) -> None:
    logs = [spark.read.schema(MESSAGE_LOG).json(str(path)) for path in (sent, received)]
    write(transforms.arrivals(*logs, late_after_s=late_after_s), out / "arrivals")
