"""Files of one batch whose tasks disagree about a new column: the first one decides, the others are written again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tandem.event_columns import PUBLIC_SCHEMA
from tandem.lake.capture_writer import CaptureWriter, StagedFile, Writing
from tandem.lake.column_types import describe
from tandem.lake.parsing import QUARANTINE_SCHEMA, Columns, fits_in, merged_columns

__all__ = ["reconciled"]


def reconciled(writer: CaptureWriter, known: Columns, files: Sequence[StagedFile]) -> tuple[list[StagedFile], Columns]:
    """Return files that agree about all columns, and the columns."""
    good = sorted(
        (one for one in files if not one.is_quarantined),
        key=lambda one: (one.file.partition, one.file.firstSequenceNumber),
    )
    columns = merged_columns(known, (one.columns for one in good))
    result = [one for one in files if one.is_quarantined]
    for one in good:
        wrong = [name for name, kind in one.columns.items() if not fits_in(kind, columns[name])]
        result += _rewritten(writer, one, wrong, columns) if wrong else [one]
    return result, columns


def _rewritten(writer: CaptureWriter, file: StagedFile, wrong: list[str], columns: Columns) -> list[StagedFile]:
    """Write a file again without columns of the wrong type; rows that have values there go to the quarantine."""
    good, aside = Writing(writer), Writing(writer.quarantine())
    kept = {name: kind for name, kind in file.columns.items() if name not in wrong}
    reasons = {
        name: f"{name} is {describe(file.columns[name])}, and its column is {describe(columns[name])}" for name in wrong
    }
    with writer.place.open_input(file.staged or file.file.path) as stream, pq.ParquetFile(stream) as opened:
        for batch in opened.iter_batches():
            is_wrong = reduce(pc.or_, (pc.is_valid(batch.column(name)) for name in wrong))
            good.write_all(batch.filter(pc.invert(is_wrong)).drop_columns(wrong), kept)
            aside.write_all(_with_reasons(batch.filter(is_wrong), reasons), {})
    writer.discard([file])
    return [*good.finish(), *aside.finish()]


def _with_reasons(batch: Any, reasons: dict[str, str]) -> Any:
    texts: Any = pa.nulls(batch.num_rows, pa.string())
    for name, reason in reasons.items():
        texts = pc.coalesce(texts, pc.if_else(pc.is_valid(batch.column(name)), reason, pa.scalar(None, pa.string())))
    return pa.RecordBatch.from_arrays(
        [*(batch.column(name) for name in PUBLIC_SCHEMA.names), texts], schema=QUARANTINE_SCHEMA
    )
