"""A Delta table of sums by window of time and keys, to which batches are added exactly once.

    batch of sums ─▶ rows of the periods that it touches ─▶ old + new ─▶ one transaction: query, batch, replaced periods

A period is a folder of the table: an hour or a day. The work of a batch follows its own rows and those of the periods
that it touches, not the table. A record may come however late: it is added to its window. Readers see whole batches.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tandem.lake import delta_table
from tandem.lake.place import Place

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["PERIOD", "Period", "SumTable"]

Period = Literal["hour", "day"]

PERIOD: Final = "period"
_PATTERNS: Final[dict[Period, str]] = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d"}

# Versions after which files of old ones are deleted.
_UPKEEP_VERSIONS: Final = 500
_DAY_S: Final = 86_400.0

# The log of a table that changes every few seconds: old versions are kept for a day.
_CONFIGURATION: Final = {
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 1 day",
}


@dataclass
class SumTable:
    """One such table. Threads may add to it at the same time; another process may not."""

    place: Place
    # All columns but the period, which follows from `time`.
    schema: Any
    time: str
    sums: Sequence[str]
    period: Period
    # Seconds that files are kept for readers of an earlier version.
    kept_s: float = _DAY_S
    upkeep_versions: int = _UPKEEP_VERSIONS
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _opened: DeltaTable | None = field(default=None, repr=False)

    def add(self, rows: Any, query: str, batch: int) -> bool:
        """Add the rows of a batch. Return False if the batch had been added before, and do nothing."""
        with self._lock:
            table = self._newest()
            if delta_table.is_committed(table, query, batch):
                return False
            new = self._with_period(rows)
            if new.num_rows:
                self._replace(table, new, query, batch)
                if table is not None and table.version() % self.upkeep_versions == 0:
                    delta_table.vacuum(self.place, self.kept_s, is_full=True, is_dry_run=False)
            return True

    def rows(self) -> Any:
        """Return the whole table in its present version, without the period; None if there is none."""
        table = delta_table.open_table(self.place) if delta_table.is_table(self.place) else None
        return None if table is None else table.to_pyarrow_table(columns=self.schema.names)

    def _newest(self) -> DeltaTable | None:
        if self._opened is None:
            self._opened = delta_table.open_table(self.place)
        else:
            self._opened.update_incremental()
        return self._opened

    def _with_period(self, rows: Any) -> Any:
        rows = rows.select(self.schema.names).cast(self.schema)
        period = pc.strftime(rows.column(self.time), format=_PATTERNS[self.period])
        return rows.append_column(pa.field(PERIOD, pa.string()), period)

    def _replace(self, table: DeltaTable | None, new: Any, query: str, batch: int) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake

        properties = CommitProperties(app_transactions=[Transaction(query, batch)])
        if table is None:
            write_deltalake(
                str(self.place),
                self._summed(new),
                partition_by=[PERIOD],
                configuration=_CONFIGURATION,
                storage_options=self.place.delta_options(),
                commit_properties=properties,
            )
            return
        periods = sorted(pc.unique(new.column(PERIOD)).to_pylist())
        old = table.to_pyarrow_table(columns=new.column_names, filters=[(PERIOD, "in", periods)]).cast(new.schema)
        listed = ", ".join(f"'{one}'" for one in periods)
        write_deltalake(
            table,
            self._summed(pa.concat_tables([old, new])),
            mode="overwrite",
            predicate=f"{PERIOD} IN ({listed})",
            commit_properties=properties,
        )

    def _summed(self, rows: Any) -> Any:
        keys = [name for name in rows.column_names if name not in self.sums]
        summed = rows.group_by(keys).aggregate([(name, "sum") for name in self.sums])
        ordered = summed.rename_columns([*keys, *self.sums]).select(rows.column_names).cast(rows.schema)
        return ordered.sort_by([(name, "ascending") for name in keys])
