"""The output of the jobs, read back with Arrow: no Java is needed to look at a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from tandem.errors import ConfigurationError

__all__ = ["Results", "read_results"]

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


def read_results(out: Path) -> Results:
    found = {name: _rows(out / name) for name in _NAMES if (out / name / "_SUCCESS").exists()}
    if not found:
        raise ConfigurationError(
            f"{out} has no results: run `tandem pipeline metering`, `availability` or `latency` with --out {out} first"
        )
    return Results(**found)


def _rows(folder: Path) -> list[Row]:
    rows: list[Row] = []
    for file in sorted(folder.glob("*.parquet")):
        rows += pq.read_table(file).to_pylist()
    return rows
