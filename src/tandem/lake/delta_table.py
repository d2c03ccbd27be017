"""Files of a batch as one transaction of a Delta table, by delta-rs: nothing of it needs Spark or a jar.

A transaction carries the query and the number of its batch. A batch that comes again after a crash finds its number in
the log of the table, and is not written twice.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from tandem.errors import ConfigurationError
from tandem.lake.captured_file import CapturedFile
from tandem.lake.place import Place
from tandem.lake.reading import TableFile

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

__all__ = ["add_captured", "commit", "compact", "is_committed", "is_table", "open_table", "table_files", "vacuum"]

_INSTALL: Final = "Delta tables need deltalake: pip install 'tandem-bus[lake]'"


def is_table(place: Place) -> bool:
    """True if there is a Delta table. This does not need deltalake."""
    return place.exists("_delta_log")


def open_table(place: Place) -> DeltaTable | None:
    """Return the table as it is now; None if there is none."""
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise ConfigurationError(f"{_INSTALL} ({error})") from error
    options = place.delta_options()
    return DeltaTable(str(place), storage_options=options) if DeltaTable.is_deltatable(str(place), options) else None


def table_files(table: DeltaTable, partition: tuple[str, Sequence[str]] | None = None) -> list[TableFile]:
    """Return the files of a table, and the values of its partitions, which the files do not hold.

    `partition` is a column and the values that are wanted. Filters of delta-rs and pyarrow do the same, and take time
    for each file of the table.
    """
    actions = pa.table(table.get_add_actions(flatten=True))
    if partition is not None:
        column, values = partition
        actions = actions.filter(pc.is_in(actions[f"partition.{column}"], pa.array(values, pa.string())))
    partitions = [name for name in actions.column_names if name.startswith("partition.")]
    found = [
        TableFile(
            unquote(row["path"]), row["size_bytes"], {name.removeprefix("partition."): row[name] for name in partitions}
        )
        for row in actions.select(["path", "size_bytes", *partitions]).to_pylist()
    ]
    return sorted(found, key=lambda one: one.path)


def is_committed(table: DeltaTable | None, query: str, batch: int) -> bool:
    last = None if table is None else table.transaction_version(query)
    return last is not None and last >= batch


def commit(
    place: Place,
    table: DeltaTable | None,
    actions: Sequence[AddAction | RemoveAction],
    schema: Any,
    partition_by: Sequence[str],
    transaction: tuple[str, int],
    configuration: Mapping[str, str] | None = None,
) -> None:
    """Apply adds and removes in one step, together with the query and its batch. Make the table if there is none."""
    from deltalake import CommitProperties, Schema, Transaction
    from deltalake.transaction import create_table_with_add_actions

    properties = CommitProperties(app_transactions=[Transaction(*transaction)])
    columns = Schema.from_arrow(schema)
    if table is None:
        create_table_with_add_actions(
            str(place),
            columns,
            list(actions),  # type: ignore[arg-type] # a table that is not there has no files to remove
            "error",
            partition_by=list(partition_by),
            configuration=dict(configuration or {}),
            storage_options=place.delta_options(),
            commit_properties=properties,
        )
        return
    if list(table.metadata().partition_columns) != list(partition_by):
        raise ConfigurationError(
            f"{place} is a table partitioned by {', '.join(table.metadata().partition_columns) or 'nothing'}, not by "
            f"{', '.join(partition_by)}: an earlier release made it, or another program. Give another place"
        )
    _add_columns(table, schema)
    table.create_write_transaction(
        list(actions), "append", columns, partition_by=list(partition_by), commit_properties=properties
    )


def _add_columns(table: DeltaTable, schema: Any) -> None:
    """Add the columns, and the fields of structs, that the table does not have yet."""
    from deltalake import Schema

    known = {one.name: one.type for one in table.schema().fields}
    new = [one for one in Schema.from_arrow(schema).fields if known.get(one.name) != one.type]
    if new:
        table.alter.add_columns(new)


def add_captured(file: CapturedFile, partition_by: Sequence[str]) -> AddAction:
    """Return the entry of the log for a file of captured events, with what lets readers skip it."""
    from deltalake.transaction import AddAction

    stats = {
        "numRecords": file.eventCount,
        "minValues": {"sequenceNumber": file.firstSequenceNumber, "enqueuedTime": _stat(file.firstEnqueueTime)},
        "maxValues": {"sequenceNumber": file.lastSequenceNumber, "enqueuedTime": _stat(file.lastEnqueueTime)},
        "nullCount": {"sequenceNumber": 0, "enqueuedTime": 0},
    }
    values: dict[str, str | None] = {name: getattr(file, name) for name in partition_by}
    return AddAction(file.path, file.sizeInBytes, values, int(time.time() * 1_000), True, json.dumps(stats))


def _stat(moment: str) -> str:
    """Return a time as the log has it: with milliseconds, in UTC."""
    return datetime.fromisoformat(moment).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def compact(place: Place, target_bytes: int) -> tuple[int, int]:
    """Put small files together in one transaction. Return how many were replaced, and by how many."""
    table = open_table(place)
    if table is None:
        return 0, 0
    done = table.optimize.compact(target_size=target_bytes, max_concurrent_tasks=1)
    return int(done["numFilesRemoved"]), int(done["numFilesAdded"])


def vacuum(place: Place, older_than_s: float, *, is_full: bool, is_dry_run: bool) -> list[str]:
    """Delete files that no version of this age needs and, if `is_full`, those that were never part of the table."""
    table = open_table(place)
    if table is None:
        return []
    hours = math.ceil(older_than_s / 3_600)
    return list(table.vacuum(hours, dry_run=is_dry_run, enforce_retention_duration=False, full=is_full))
