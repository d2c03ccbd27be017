"""What a capture writes when Spark's own file sink will not do: a Delta table, or the Avro files of Event Hubs Capture.

Executors write files and say which; the driver makes them count, all of a batch or none, and a batch that comes again
after a crash only once. Paths are those of a file system that driver and executors share.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tandem.spark.given_options import OptionError

__all__ = ["AVRO_SCHEMA", "PARTITIONED_BY", "AvroCaptureSink", "CapturedFile", "DeltaCaptureSink"]

# The folders of a capture, outermost first: hub=orders/partition=0/date=2026-11-16/hour=07.
PARTITIONED_BY: Final = ("hub", "partition", "date", "hour")

_OWN_FOLDER: Final = "_tandem"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# What readers of tables disagree about in the names of folders.
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_.$-]")

_VALUES: Final = {"type": "map", "values": ["long", "double", "string", "bytes"]}
# As the service's own capture writes it.
AVRO_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "EventData",
    "namespace": "Microsoft.ServiceBus.Messaging",
    "fields": [
        {"name": "SequenceNumber", "type": "long"},
        {"name": "Offset", "type": "string"},
        {"name": "EnqueuedTimeUtc", "type": "string"},
        {"name": "SystemProperties", "type": _VALUES},
        {"name": "Properties", "type": _VALUES},
        {"name": "Body", "type": ["null", "bytes"]},
    ],
}


@dataclass
class CapturedFile:
    """A file that an executor has written: what the service says of one in its event `CaptureFileCreated`."""

    path: str
    hub: str
    partition: str
    date: str
    hour: str
    sizeInBytes: int  # noqa: N815 - the service's own names
    eventCount: int  # noqa: N815
    firstSequenceNumber: int  # noqa: N815
    lastSequenceNumber: int  # noqa: N815
    firstEnqueueTime: str  # noqa: N815
    lastEnqueueTime: str  # noqa: N815


@dataclass
class _Files(WriterCommitMessage):
    files: list[CapturedFile] = field(default_factory=list)


class _CaptureSink(DataSource):
    """What both have in common: the options `path`, and `transaction`, by which a query is known again."""

    def _place(self) -> tuple[Path, str]:
        path, transaction = self.options.get("path"), self.options.get("transaction")
        if not path or not transaction:
            raise OptionError(f"{self.name()}: path or transaction is missing")
        return Path(path), transaction


class DeltaCaptureSink(_CaptureSink):
    """`capture-delta`: a Delta table, by delta-rs, without any jar."""

    @classmethod
    def name(cls) -> str:
        return "capture-delta"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return _DeltaWriter(*self._place())


class AvroCaptureSink(_CaptureSink):
    """`capture-avro`: the files of Event Hubs Capture."""

    @classmethod
    def name(cls) -> str:
        return "capture-avro"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return _AvroWriter(*self._place(), self.options.get("namespace", "tandem"))


def _grouped(batch: Any) -> Iterator[tuple[dict[str, str], Any]]:
    """The rows of a batch by their folder. Most batches are of one.

    Values are compared as Arrow has them: to make one of Python's would load pandas, which takes seconds.
    """
    rest = pa.Table.from_batches([batch])
    while rest.num_rows:
        values = {name: rest[name][0] for name in PARTITIONED_BY}
        chosen = reduce(pc.and_, (pc.equal(rest[name], value) for name, value in values.items()))
        yield {name: value.as_py() for name, value in values.items()}, rest.filter(chosen)
        rest = rest.filter(pc.invert(chosen))


def _described(path: str, size_bytes: int, values: dict[str, str], numbers: Any, times: Any) -> CapturedFile:
    return CapturedFile(
        path,
        **{name: values[name] for name in PARTITIONED_BY},
        sizeInBytes=size_bytes,
        eventCount=len(numbers),
        firstSequenceNumber=pc.min(numbers).as_py(),
        lastSequenceNumber=pc.max(numbers).as_py(),
        firstEnqueueTime=_moment(pc.min(times).value).isoformat(),
        lastEnqueueTime=_moment(pc.max(times).value).isoformat(),
    )


def _moment(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)


def _tables(iterator: Iterator[Any]) -> dict[tuple[str, ...], tuple[dict[str, str], list[Any]]]:
    """All rows of a task by folder. A task has a range of events, whose size `maxEventsPerTrigger` bounds."""
    found: dict[tuple[str, ...], tuple[dict[str, str], list[Any]]] = {}
    for batch in iterator:
        for values, table in _grouped(batch):
            key = tuple(values[name] for name in PARTITIONED_BY)
            found.setdefault(key, (values, []))[1].append(table)
    return found


def _files_of(messages: list[WriterCommitMessage | None]) -> list[CapturedFile]:
    return [one for message in messages if isinstance(message, _Files) for one in message.files]


# --- Delta ----------------------------------------------------------------------------------------------------------


class _DeltaWriter(DataSourceStreamArrowWriter):
    """Files first, then one transaction that names them and the batch."""

    def __init__(self, path: Path, transaction: str) -> None:
        self._path = path
        self._transaction = transaction

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        done = _Files()
        for values, tables in _tables(iterator).values():
            table = pa.concat_tables(tables)
            # A hub may have slashes in its name. The values that count are in the log of the table.
            folder = "/".join(f"{name}={_UNUSUAL.sub('-', values[name])}" for name in PARTITIONED_BY)
            relative = f"{folder}/{uuid.uuid4()}.parquet"
            target = self._path / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.drop_columns(list(PARTITIONED_BY)), target)
            size_bytes = target.stat().st_size
            done.files.append(_described(relative, size_bytes, values, table["sequenceNumber"], table["enqueuedTime"]))
        return done

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's own name
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.transaction import create_table_with_add_actions

        files = _files_of(messages)
        location = str(self._path)
        table = DeltaTable(location) if DeltaTable.is_deltatable(location) else None
        if table is not None:
            last = table.transaction_version(self._transaction)
            if last is not None and last >= batchId:
                # It was committed before a crash: what was written again is not wanted.
                self.abort(messages, batchId)
                return
        if not files:
            return
        properties = CommitProperties(app_transactions=[Transaction(self._transaction, batchId)])
        schema = _delta_schema(self._path / files[0].path)
        actions = [_add_action(one) for one in files]
        partition_by = list(PARTITIONED_BY)
        if table is not None:
            table.create_write_transaction(
                actions, "append", schema, partition_by=partition_by, commit_properties=properties
            )
        else:
            create_table_with_add_actions(
                location, schema, actions, "append", partition_by=partition_by, commit_properties=properties
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - as above
        for one in _files_of(messages):
            (self._path / one.path).unlink(missing_ok=True)


def _delta_schema(file: Path) -> Any:
    from deltalake import Schema

    fields = [*pq.read_schema(file), *(pa.field(name, pa.string()) for name in PARTITIONED_BY)]
    return Schema.from_arrow(pa.schema(fields))


def _add_action(file: CapturedFile) -> Any:
    from deltalake.transaction import AddAction

    stats = {
        "numRecords": file.eventCount,
        "minValues": {"sequenceNumber": file.firstSequenceNumber},
        "maxValues": {"sequenceNumber": file.lastSequenceNumber},
        "nullCount": {"sequenceNumber": 0},
    }
    values = {name: getattr(file, name) for name in PARTITIONED_BY}
    written_ms = int(datetime.fromisoformat(file.lastEnqueueTime).timestamp() * 1_000)
    return AddAction(file.path, file.sizeInBytes, values, written_ms, True, json.dumps(stats))


# --- Avro -----------------------------------------------------------------------------------------------------------


class _AvroWriter(DataSourceStreamArrowWriter):
    """Files under temporary names; the driver notes what it is about to do, gives them their names, and notes that it
    did: whatever a crash leaves is undone or finished by the next run."""

    def __init__(self, path: Path, transaction: str, namespace: str) -> None:
        self._path = path
        self._transaction = transaction
        self._namespace = namespace

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        import fastavro

        done = _Files()
        staging = self._path / _OWN_FOLDER / "staging"
        staging.mkdir(parents=True, exist_ok=True)
        for values, tables in _tables(iterator).values():
            table = pa.concat_tables(tables).sort_by("sequenceNumber")
            target = staging / f"{uuid.uuid4()}.avro"
            with target.open("wb") as file:
                fastavro.writer(file, fastavro.parse_schema(AVRO_SCHEMA), _avro_records(table), codec="deflate")
            relative = str(target.relative_to(self._path))
            size_bytes = target.stat().st_size
            done.files.append(_described(relative, size_bytes, values, table["sequenceNumber"], table["enqueuedTime"]))
        return done

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's own name
        notes = self._path / _OWN_FOLDER / "batches"
        notes.mkdir(parents=True, exist_ok=True)
        intent, manifest = (notes / f"{self._transaction}-{batchId}.{kind}.json" for kind in ("intent", "done"))
        if manifest.exists():
            self.abort(messages, batchId)
            return
        if intent.exists():
            for earlier in json.loads(intent.read_text(encoding="utf-8")):
                (self._path / earlier["path"]).unlink(missing_ok=True)
        staged = _files_of(messages)
        named = [CapturedFile(**{**asdict(one), "path": self._name(one)}) for one in staged]
        _write_atomically(intent, json.dumps([asdict(one) for one in named]))
        for source, target in zip(staged, named, strict=True):
            final = self._path / target.path
            final.parent.mkdir(parents=True, exist_ok=True)
            (self._path / source.path).replace(final)
        intent.replace(manifest)

    def _name(self, file: CapturedFile) -> str:
        """The service's folders, down to the second. The number tells files of one second apart."""
        moment = datetime.fromisoformat(file.firstEnqueueTime)
        folders = f"{self._namespace}/{file.hub}/{file.partition}/{moment:%Y/%m/%d/%H/%M}"
        return f"{folders}/{moment:%S}-{file.firstSequenceNumber}.avro"

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - as above
        for one in _files_of(messages):
            (self._path / one.path).unlink(missing_ok=True)


def _avro_records(table: Any) -> Iterator[dict[str, Any]]:
    times_us = table["enqueuedTime"].cast(pa.int64()).to_pylist()
    rows = table.drop_columns(["enqueuedTime"]).to_pylist(maps_as_pydicts="strict")
    for row, time_us in zip(rows, times_us, strict=True):
        moment = _moment(time_us)
        yield {
            "SequenceNumber": row["sequenceNumber"],
            "Offset": row["offset"],
            # As .NET writes a time in the invariant culture, which is what the service's files have.
            "EnqueuedTimeUtc": f"{moment.month}/{moment.day}/{moment.year} {moment.hour % 12 or 12}:{moment:%M:%S %p}",
            "SystemProperties": row["systemProperties"] or {},
            "Properties": row["properties"] or {},
            "Body": row["body"],
        }


def _write_atomically(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
