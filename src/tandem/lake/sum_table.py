"""A Delta table of sums by window of time and keys, to which batches are added exactly once.

    batch of sums ─▶ rows of the periods that it touches ─▶ old + new ─▶ one transaction: query, batch, replaced periods

A period is a folder of the table: an hour or a day. The work of a batch follows its own rows and those of the periods
that it touches, not the table. A record may come however late: it is added to its window. Readers see whole batches.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tandem.lake import delta_table
from tandem.lake.file_writers import EXTENSIONS, ParquetFileWriter
from tandem.lake.place import Place
from tandem.lake.reading import TableFile, read_file

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

    def rows(self, since: datetime | None = None) -> Any:
        """Return the rows of the present version from a period on, or all; None if there is no table."""
        table = delta_table.open_table(self.place) if delta_table.is_table(self.place) else None
        if table is None:
            return None
        first = "" if since is None else since.strftime(_PATTERNS[self.period])
        files = [one for one in delta_table.table_files(table) if one.constants[PERIOD] >= first]
        return self._read(files, self.schema)

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
        """Write the periods that have new rows again, in one transaction."""
        from deltalake.transaction import RemoveAction

        periods = sorted(pc.unique(new.column(PERIOD)).to_pylist())
        replaced = [] if table is None else delta_table.table_files(table, (PERIOD, periods))
        summed = self._summed(pa.concat_tables([self._read(replaced, new.schema), new]))
        now_ms = int(time.time() * 1_000)
        actions = [self._written(period, summed, now_ms) for period in periods]
        removed = [RemoveAction(one.path, True, now_ms, one.size_bytes, dict(one.constants)) for one in replaced]
        delta_table.commit(
            self.place, table, [*actions, *removed], summed.schema, [PERIOD], (query, batch), _CONFIGURATION
        )

    def _read(self, files: Sequence[TableFile], schema: Any) -> Any:
        batches = [batch for one in files for batch in read_file(self.place, one, schema)]
        return pa.Table.from_batches(batches, schema)

    def _written(self, period: str, rows: Any, now_ms: int) -> Any:
        """Write the rows of a period to a file, and return the entry of the log for it."""
        from deltalake.transaction import AddAction

        own = rows.filter(pc.equal(rows.column(PERIOD), period)).drop_columns([PERIOD])
        path = f"{PERIOD}={period}/{uuid.uuid4().hex}{EXTENSIONS['parquet']}"
        writer = ParquetFileWriter(self.place.open_output(path), own.schema)
        for one in own.to_batches():
            writer.write(one)
        stats = json.dumps({"numRecords": own.num_rows})
        return AddAction(path, writer.close(), {PERIOD: period}, now_ms, True, stats)

    def _summed(self, rows: Any) -> Any:
        keys = [name for name in rows.column_names if name not in self.sums]
        summed = rows.group_by(keys).aggregate([(name, "sum") for name in self.sums])
        ordered = summed.rename_columns([*keys, *self.sums]).select(rows.column_names).cast(rows.schema)
        return ordered.sort_by([(name, "ascending") for name in keys])
