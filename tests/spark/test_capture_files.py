"""Delta tables and Avro files, without Spark: a batch counts once, however often a crash makes it come again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from tandem.spark.capture_files import AvroCaptureSink, DeltaCaptureSink
from tandem.spark.given_options import OptionError
from tandem.spark.schemas import CAPTURED, arrow_schema
from tests.markers import mission

START = datetime(2026, 11, 16, 7, 59, 58, tzinfo=UTC)
SINKS = pytest.mark.parametrize("sink", [DeltaCaptureSink, AvroCaptureSink])
Sink = type[DeltaCaptureSink] | type[AvroCaptureSink]


def writer(sink: Sink, path: Path) -> DataSourceStreamArrowWriter:
    made = sink({"path": str(path), "transaction": "query-1", "namespace": "contoso"}).streamWriter(CAPTURED, False)
    assert isinstance(made, DataSourceStreamArrowWriter)
    return made


def events(first: int, count: int, hub: str = "orders") -> Iterator[Any]:
    """One a second: the third is of another hour."""
    rows = []
    for number in range(first, first + count):
        moment = START + timedelta(seconds=number)
        rows.append(
            {
                "body": str(number).encode(),
                "partition": "0",
                "offset": str(number),
                "sequenceNumber": number,
                "enqueuedTime": moment,
                "properties": [("n", str(number))],
                "systemProperties": [],
                "hub": hub,
                "date": f"{moment:%Y-%m-%d}",
                "hour": f"{moment:%H}",
            }
        )
    yield pa.RecordBatch.from_pylist(rows, schema=arrow_schema(CAPTURED))


def numbers(sink: Sink, path: Path) -> list[int]:
    """What somebody else reads."""
    found: list[int] = []
    if sink is DeltaCaptureSink:
        if DeltaTable.is_deltatable(str(path)):
            found += pa.table(DeltaTable(str(path)).to_pyarrow_table())["sequenceNumber"].to_pylist()
    else:
        for file in path.glob("contoso/**/*.avro"):
            with file.open("rb") as opened:
                found += [int(record["SequenceNumber"]) for record in fastavro.reader(opened)]  # type: ignore[index,call-overload]
    return sorted(found)


@mission("M31")
@SINKS
def test_what_was_written_counts_from_its_commit_on(sink: Sink, tmp_path: Path) -> None:
    made = writer(sink, tmp_path)
    written = made.write(events(0, 5))
    assert numbers(sink, tmp_path) == []
    made.commit([written, None], 0)
    assert numbers(sink, tmp_path) == list(range(5))


@mission("M31")
@SINKS
def test_a_batch_that_comes_again_after_a_crash_counts_once(sink: Sink, tmp_path: Path) -> None:
    made = writer(sink, tmp_path)
    made.commit([made.write(events(0, 5))], 0)
    # Spark did not note that it was committed: all of it comes again, split in another way.
    again = writer(sink, tmp_path)
    again.commit([again.write(events(0, 2)), again.write(events(2, 3))], 0)
    again.commit([again.write(events(5, 2))], 1)
    assert numbers(sink, tmp_path) == list(range(7))


@SINKS
def test_what_was_written_by_a_batch_that_failed_is_removed(sink: Sink, tmp_path: Path) -> None:
    made = writer(sink, tmp_path)
    made.abort([made.write(events(0, 5)), None], 0)
    assert not [file for file in tmp_path.rglob("*") if file.suffix in {".avro", ".parquet"}]


@mission("M31")
def test_a_crash_in_the_middle_of_naming_avro_files_is_made_up_for(tmp_path: Path) -> None:
    made = writer(AvroCaptureSink, tmp_path)
    made.commit([made.write(events(0, 5))], 0)
    # As if the last step had not been reached.
    done = next(tmp_path.glob("_tandem/batches/*.done.json"))
    done.replace(done.with_name(done.name.replace(".done.", ".intent.")))
    again = writer(AvroCaptureSink, tmp_path)
    again.commit([again.write(events(0, 1)), again.write(events(1, 4))], 0)
    assert numbers(AvroCaptureSink, tmp_path) == list(range(5))


def test_avro_files_lie_and_look_as_those_of_the_service(tmp_path: Path) -> None:
    made = writer(AvroCaptureSink, tmp_path)
    made.commit([made.write(events(0, 5))], 0)
    files = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.glob("contoso/**/*.avro"))
    assert files == [
        "contoso/orders/0/2026/11/16/07/59/58-0.avro",
        "contoso/orders/0/2026/11/16/08/00/00-2.avro",
    ]
    with (tmp_path / files[0]).open("rb") as opened:
        record: Any = next(iter(fastavro.reader(opened)))
    assert record == {
        "SequenceNumber": 0,
        "Offset": "0",
        "EnqueuedTimeUtc": "11/16/2026 7:59:58 AM",
        "SystemProperties": {},
        "Properties": {"n": "0"},
        "Body": b"0",
    }
    manifest = json.loads(next(tmp_path.glob("_tandem/batches/*.done.json")).read_text())
    assert [one["eventCount"] for one in manifest] == [2, 3]
    assert (manifest[0]["firstSequenceNumber"], manifest[0]["lastSequenceNumber"]) == (0, 1)


def test_a_delta_table_has_its_partitions_and_counts_in_its_log(tmp_path: Path) -> None:
    made = writer(DeltaCaptureSink, tmp_path)
    made.commit([made.write(events(0, 5))], 0)
    table = DeltaTable(str(tmp_path))
    assert table.metadata().partition_columns == ["hub", "partition", "date", "hour"]
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert sum(action["num_records"] for action in actions) == 5
    assert {action["partition.hour"] for action in actions} == {"07", "08"}
    assert table.transaction_version("query-1") == 0


@SINKS
def test_a_hub_with_slashes_in_its_name_has_its_place(sink: Sink, tmp_path: Path) -> None:
    made = writer(sink, tmp_path)
    made.commit([made.write(events(0, 2, "shop/orders"))], 0)
    assert numbers(sink, tmp_path) == [0, 1]


def test_a_sink_without_a_place_is_refused() -> None:
    with pytest.raises(OptionError, match="path or transaction is missing"):
        DeltaCaptureSink({"path": "x"}).streamWriter(CAPTURED, False)
