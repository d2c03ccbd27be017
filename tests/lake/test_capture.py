"""Captures on a local disk, without Spark: a batch counts once, however often a crash makes it come again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tandem.errors import ConfigurationError
from tandem.event_columns import PUBLIC_SCHEMA
from tandem.lake import manifests
from tandem.lake.layout import CAPTURE_PATTERN, Layout
from tandem.lake.place import Place
from tandem.lake.reading import captured_schema, file_of, read_file
from tests.lake.capturing import QUERY, Capture
from tests.lake.events import event, events
from tests.markers import mission

FORMATS = pytest.mark.parametrize("file_format", ["parquet", "delta", "avro"])


@mission("M31")
@FORMATS
def test_what_was_written_counts_from_its_commit_on(file_format: str, tmp_path: Path) -> None:
    capture = Capture(file_format, tmp_path)
    written = capture.write(events(range(5)))
    assert capture.numbers() == []
    capture.commit(0, written)
    assert capture.numbers() == list(range(5))


@mission("M31")
@FORMATS
def test_a_batch_that_comes_again_after_a_crash_counts_once(file_format: str, tmp_path: Path) -> None:
    capture = Capture(file_format, tmp_path)
    capture.commit(0, capture.write(events(range(5))))
    before = capture.listed()
    # Spark did not note that it was committed: all of it comes again, split in another way.
    again = Capture(file_format, tmp_path)
    again.commit(0, again.write(events(range(2))), again.write(events(range(2, 5))))
    assert again.listed() == before
    again.commit(1, again.write(events(range(5, 7))))
    assert again.numbers() == list(range(7))


@mission("M31")
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_crash_in_the_middle_of_renaming_files_is_made_up_for(
    file_format: str, renamed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = Capture(file_format, tmp_path)
    # Two files: of two hours.
    written = capture.write(events(range(5)))
    assert len(written) == 2
    with monkeypatch.context() as patched:
        rename, done = Place.rename, list[str]()

        def crash(place: Place, source: str, target: str) -> None:
            if len(done) == renamed:
                raise OSError("crashed")
            done.append(target)
            rename(place, source, target)

        def crash_at_manifest(place: Place, relative: str, text: str, write: Any = Place.write_text) -> None:
            if "batches" in relative:
                raise OSError("crashed")
            write(place, relative, text)

        patched.setattr(Place, "rename", crash)
        patched.setattr(Place, "write_text", crash_at_manifest)
        with pytest.raises(OSError, match="crashed"):
            capture.commit(0, written)
    again = Capture(file_format, tmp_path)
    again.commit(0, again.write(events(range(1))), again.write(events(range(1, 5))))
    assert again.numbers() == list(range(5))
    assert not list((tmp_path / "_tandem" / "staging").iterdir())
    assert not list((tmp_path / "_tandem" / "intents").rglob("*.json"))


@FORMATS
def test_what_was_written_by_a_task_that_failed_is_removed(file_format: str, tmp_path: Path) -> None:
    capture = Capture(file_format, tmp_path, max_file_bytes=1)

    def broken() -> Iterator[Any]:
        yield events(range(5))
        raise RuntimeError("the task failed")

    with pytest.raises(RuntimeError, match="the task failed"):
        capture.writer.write(broken())
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


# --- bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_a_file_is_full_at_its_limit_of_bytes(file_format: str, tmp_path: Path) -> None:
    capture = Capture(file_format, tmp_path, max_file_bytes=10_000)
    batches = [events(range(first, first + 20), body=b"x" * 1_000) for first in range(2, 102, 20)]
    capture.commit(0, capture.write(*batches))
    found = manifests.captured_files(capture.place)
    assert [one.eventCount for one in found] == [9] * 11 + [1]
    assert capture.numbers() == list(range(2, 102))


def test_an_event_that_is_larger_than_a_file_may_be_has_one_of_its_own(tmp_path: Path) -> None:
    capture = Capture("parquet", tmp_path, max_file_bytes=100)
    capture.commit(0, capture.write(events(range(2, 5), body=b"x" * 1_000)))
    assert [one.eventCount for one in manifests.captured_files(capture.place)] == [1, 1, 1]


def test_a_file_ends_with_its_interval_of_enqueued_time(tmp_path: Path) -> None:
    capture = Capture("avro", tmp_path, interval_s=60)
    capture.commit(0, capture.write(events(range(200))))
    found = manifests.captured_files(capture.place)
    assert [one.firstSequenceNumber for one in found] == [0, 2, 62, 122, 182]


def test_rows_that_do_not_come_in_order_go_to_the_files_of_their_hours_and_partitions(tmp_path: Path) -> None:
    capture = Capture("delta", tmp_path)
    rows = [event(number, partition=partition) for number in (7, 0, 5, 1) for partition in ("0", "1")]
    capture.commit(0, capture.write(pa.RecordBatch.from_pylist(rows, schema=PUBLIC_SCHEMA)))
    assert capture.numbers() == [0, 0, 1, 1, 5, 5, 7, 7]
    assert len(capture.listed()) == 4


@pytest.mark.parametrize("interval_s", [0, 7, 7_200])
def test_an_interval_that_does_not_divide_an_hour_is_refused(interval_s: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="it must divide an hour"):
        Capture("avro", tmp_path, interval_s=interval_s)


# --- layout and content ---------------------------------------------------------------------------------------------


def test_avro_files_lie_and_look_as_those_of_the_service(tmp_path: Path) -> None:
    capture = Capture("avro", tmp_path)
    first = event(
        0,
        publisher="till-7",
        partitionKey="customer-1",
        properties=[("amount", "5")],
        systemProperties=[("message-id", "17"), ("group-sequence", "3")],
    )
    capture.commit(0, capture.write(pa.RecordBatch.from_pylist([first], schema=PUBLIC_SCHEMA), events(range(1, 5))))
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
        "SystemProperties": {
            "message-id": "17",
            "group-sequence": 3,
            "x-opt-partition-key": "customer-1",
            "x-opt-publisher": "till-7",
        },
        "Properties": {"amount": "5"},
        "Body": b"0",
    }
    [manifest] = tmp_path.glob("_tandem/batches/*/*.json")
    described = json.loads(manifest.read_text())["files"]
    assert [one["eventCount"] for one in described] == [2, 3]
    assert (described[0]["firstSequenceNumber"], described[0]["lastSequenceNumber"]) == (0, 1)


def test_the_pattern_of_paths_may_have_its_parts_in_any_order(tmp_path: Path) -> None:
    pattern = "{EventHub}/{Year}-{Month}-{Day}/{Hour}{Minute}{Second}/{Namespace}/{PartitionId}"
    assert Layout("capture", "orders", "contoso", pattern).path("3", 0, 7, ".avro") == (
        "orders/1970-01-01/000000-7/contoso/3.avro"
    )
    with pytest.raises(ConfigurationError, match="must have each of"):
        Layout("capture", "orders", "contoso", CAPTURE_PATTERN.replace("{Second}", ""))


def test_no_file_is_renamed_onto_another_one(tmp_path: Path) -> None:
    # A hub that was made again counts from 0 again, perhaps within the same second.
    capture = Capture("avro", tmp_path)
    for batch in range(2):
        capture.commit(batch, capture.write(events(range(2))))
    assert capture.numbers() == [0, 0, 1, 1]
    assert len(manifests.captured_files(capture.place)) == len(capture.listed()) == 2


def test_a_delta_table_has_its_partitions_and_counts_in_its_log(tmp_path: Path) -> None:
    capture = Capture("delta", tmp_path)
    capture.commit(0, capture.write(events(range(5))))
    table = DeltaTable(str(tmp_path))
    assert table.metadata().partition_columns == ["hub", "date", "hour"]
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert sum(action["num_records"] for action in actions) == 5
    assert {action["partition.hour"] for action in actions} == {"07", "08"}
    assert table.transaction_version(QUERY) == 0


def test_a_delta_table_with_other_partitions_is_left_alone(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), pa.table({"x": [1]}))
    capture = Capture("delta", tmp_path)
    with pytest.raises(ConfigurationError, match="partitioned by nothing, not by hub, date, hour"):
        capture.commit(0, capture.write(events(range(5))))


@FORMATS
def test_a_hub_with_slashes_in_its_name_has_its_place(file_format: str, tmp_path: Path) -> None:
    capture = Capture(file_format, tmp_path, hub="shop/orders")
    capture.commit(0, capture.write(events(range(2))))
    assert capture.numbers() == [0, 1]


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_what_was_captured_is_read_back_with_the_columns_of_its_folders(file_format: str, tmp_path: Path) -> None:
    capture = Capture(file_format, tmp_path)
    written = event(0, partition="3", partitionKey="k", publisher="p", properties=[("n", "5")])
    capture.commit(0, capture.write(pa.RecordBatch.from_pylist([written], schema=PUBLIC_SCHEMA)))
    [file] = manifests.captured_files(capture.place)
    [batch] = read_file(capture.place, file_of(file), captured_schema())
    [row] = batch.to_pylist()
    assert row == {**written, "hub": "orders", "date": "2026-11-16", "hour": "07"}
