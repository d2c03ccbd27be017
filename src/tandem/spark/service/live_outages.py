"""Outages, made again from the first one that new events of paired clients may have changed.

An outage of an entity begins after all earlier ones have ended. So events from its beginning on are all that it takes
to compute it and those after it: the work follows the present outage, not the history of the entity.
"""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from tandem.lake import delta_table
from tandem.lake.place import Place
from tandem.spark.report.sums import OUTAGES, sum_table
from tandem.spark.transforms.availability import outages
from tandem.spark.transforms.operations import pairing_events

__all__ = ["refresh_outages"]

_lock: Final = threading.Lock()


def refresh_outages(records: DataFrame, out: Place, query: str, batch: int) -> None:
    """Replace the outages of the entities that these records say something about."""
    touched = pairing_events(records).groupBy("primary", "entity").agg(sql.min("time").alias("time")).toArrow()
    if not touched.num_rows:
        return
    with _lock:
        table = delta_table.open_table(out.child(OUTAGES))
        if delta_table.is_committed(table, query, batch):
            return
        known: list[dict[str, Any]] = [] if table is None else table.to_pyarrow_table().to_pylist()
        kept, made = list(known), list[dict[str, Any]]()
        for row in touched.to_pylist():
            of_entity = [one for one in kept if (one["primary"], one["entity"]) == (row["primary"], row["entity"])]
            before = [one for one in of_entity if one["failing_at"] <= row["time"]]
            first = max(before, key=lambda one: one["failing_at"]) if before else None
            since = None if first is None else first["failing_at"]
            kept = [one for one in kept if one not in of_entity or (since is not None and one["failing_at"] < since)]
            number = 0 if first is None else first["outage"] - 1
            again = _computed(records.sparkSession, out, row["primary"], row["entity"], since)
            made += [{**one, "outage": one["outage"] + number} for one in again]
        if kept != known or made:
            _write(out.child(OUTAGES), table, [*kept, *made], query, batch)


def _computed(
    spark: SparkSession, out: Place, primary: str, entity: str, since: datetime | None
) -> list[dict[str, Any]]:
    events = sum_table(out, "pairing_events").rows(since)
    if events is None:
        return []
    is_own = pc.and_(pc.equal(events["primary"], primary), pc.equal(events["entity"], entity))
    events = events.filter(is_own)
    if since is not None:
        events = events.filter(pc.greater_equal(events["time"], pa.scalar(since, events["time"].type)))
    found: list[dict[str, Any]] = spark.createDataFrame(events).transform(outages).toArrow().to_pylist()
    return found


def _write(place: Place, table: Any, rows: list[dict[str, Any]], query: str, batch: int) -> None:
    from deltalake import CommitProperties, Transaction, write_deltalake

    write_deltalake(
        table or str(place),
        pa.Table.from_pylist(sorted(rows, key=lambda row: row["failing_at"]), schema=_SCHEMA),
        mode="overwrite" if table else "error",
        storage_options=place.delta_options(),
        commit_properties=CommitProperties(app_transactions=[Transaction(query, batch)]),
    )


_TIME: Final = pa.timestamp("us", "UTC")
_SCHEMA: Final = pa.schema(
    [
        ("primary", pa.string()),
        ("entity", pa.string()),
        ("outage", pa.int64()),
        ("clients", pa.int64()),
        ("failing_at", _TIME),
        ("failed_over_at", _TIME),
        ("restored_at", _TIME),
        ("drained_at", _TIME),
        ("seconds_to_detect", pa.float64()),
        ("seconds_to_restore", pa.float64()),
        ("seconds_to_drain", pa.float64()),
        ("pings", pa.int64()),
        ("diverted", pa.int64()),
        ("syphoned", pa.int64()),
    ]
)
