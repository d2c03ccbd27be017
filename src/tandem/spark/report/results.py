"""The output of the jobs, read back with Arrow: a report needs no Java."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tandem.errors import ConfigurationError
from tandem.lake.place import Place, StorageOptions
from tandem.location import Location, LocationLike
from tandem.spark.report.sums import read_rows

__all__ = ["Results", "Row", "read_results"]

Row = dict[str, Any]

_NAMES: Final = ("costs", "outages", "pings", "backlog", "backlog_queues", "arrivals", "latencies")


@dataclass(frozen=True)
class Results:
    """Rows by table; a job that was not run has none."""

    costs: list[Row] = field(default_factory=list)
    outages: list[Row] = field(default_factory=list)
    pings: list[Row] = field(default_factory=list)
    backlog: list[Row] = field(default_factory=list)
    backlog_queues: list[Row] = field(default_factory=list)
    arrivals: list[Row] = field(default_factory=list)
    latencies: list[Row] = field(default_factory=list)


def read_results(out: LocationLike, storage: StorageOptions | None = None, *, until: datetime | None = None) -> Results:
    """Read the tables that jobs have written there, or that `tandem pipeline run` keeps there.

    With `until`, of the latter only the last day or month before it.
    """
    folder = Location(out)
    place = Place.parse(str(out), storage)
    found = {} if not place.is_ours else read_rows(place, until)
    if not found:
        found = {name: _rows(folder / name) for name in _NAMES if (folder / name / "_SUCCESS").exists()}
    if not found:
        raise ConfigurationError(
            f"{out} has no results: run `tandem pipeline metering`, `availability` or `latency` with --out {out} first"
        )
    return Results(**found)


def _rows(folder: Location) -> list[Row]:
    rows: list[Row] = []
    for name in folder.names():
        if not name.endswith(".parquet"):
            continue
        # `read_table`, nanoseconds and time zones of Arrow load pandas, which takes longer than the rest of a report.
        with pq.ParquetFile(pa.BufferReader((folder / name).read_bytes()), coerce_int96_timestamp_unit="us") as opened:
            rows += [{column: _in_utc(value) for column, value in row.items()} for row in opened.read().to_pylist()]
    return rows


def _in_utc(value: object) -> object:
    """Spark writes moments in UTC, without a time zone."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
