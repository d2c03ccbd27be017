"""Outages and failovers: `outages`, `pings`, `backlog`, `backlog_queues`, and `arrivals` where messages were logged."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tandem.location import LocationLike
from tandem.spark.jobs.records import Namespaces, Result, refresh, write
from tandem.spark.schemas import MESSAGE_LOG
from tandem.spark.transforms import availability as transforms
from tandem.spark.transforms.operations import operations, pairing_events

__all__ = ["availability", "outage_results"]


def availability(
    spark: SparkSession,
    namespaces: Namespaces,
    out: LocationLike,
    *,
    sent: LocationLike | None = None,
    received: LocationLike | None = None,
    late_after_s: float = 60.0,
) -> None:
    """Capture new records, and write the results.

    `sent` and `received` are logs of messages, as lines of JSON with entity, messageId, number and time.
    """
    results = outage_results(refresh(spark, namespaces, out))
    if sent is not None and received is not None:
        logs = [spark.read.schema(MESSAGE_LOG).json(str(path)) for path in (sent, received)]
        results.append(Result("arrivals", transforms.arrivals(*logs, late_after_s=late_after_s)))
    write(results, out)


def outage_results(records: DataFrame) -> list[Result]:
    events = records.transform(pairing_events)
    return [
        Result("outages", events.transform(transforms.outages), ("failing_at",)),
        Result("pings", events.transform(transforms.pings)),
        Result("backlog", events.transform(transforms.backlog_depth)),
        Result("backlog_queues", records.transform(operations).transform(transforms.backlog_queues)),
    ]
