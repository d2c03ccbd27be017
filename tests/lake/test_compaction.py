"""Small files become large ones, and what does not count is removed: readers find each event once all the while."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tandem.errors import ConfigurationError
from tandem.lake import manifests
from tandem.lake.compaction import Compacted, compact, vacuum
from tandem.lake.parsing import Parsing
from tandem.lake.payloads import JsonDecoder
from tandem.lake.place import Place
from tests.cli.program import one_line, tandem_here
from tests.lake.capturing import Capture
from tests.lake.events import events
from tests.lake.s3_server import MakeBucket

TABLES = pytest.mark.parametrize("file_format", ["parquet", "delta"])
DAY_S = 86_400.0


@pytest.fixture(params=["disk", "s3"])
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    if request.param == "disk":
        return lambda: Place.parse(tmp_path)
    make: MakeBucket = request.getfixturevalue("make_bucket")
    return make


def counted(capture: Capture) -> list[int]:
    return capture.numbers() if capture.format == "delta" else capture.counted()


def captured_in_batches(file_format: str, place: Place | Path, **settings: Any) -> Capture:
    """Five batches of two events, in one hour."""
    capture = Capture(file_format, place, **settings)
    for batch in range(5):
        capture.commit(batch, capture.write(events(range(2 + 2 * batch, 4 + 2 * batch))))
    return capture


@TABLES
def test_small_files_of_an_hour_become_one_with_the_same_events(
    file_format: str, make_place: Callable[[], Place]
) -> None:
    capture = captured_in_batches(file_format, make_place())
    assert compact(capture.place) == Compacted(5, 1)
    assert counted(capture) == list(range(2, 12))
    # Nothing is left to be done.
    assert compact(capture.place) == Compacted(0, 0)
    assert counted(capture) == list(range(2, 12))


@TABLES
def test_a_capture_goes_on_after_a_compaction_and_knows_its_batches(file_format: str, tmp_path: Path) -> None:
    capture = captured_in_batches(file_format, tmp_path)
    compact(capture.place)
    vacuum(capture.place, 0)
    # The last batch comes again: Spark had not noted it.
    capture.commit(4, capture.write(events(range(10, 12))))
    capture.commit(5, capture.write(events(range(12, 14))))
    assert counted(capture) == list(range(2, 14))
    compact(capture.place)
    assert counted(capture) == list(range(2, 14))


@TABLES
def test_vacuum_deletes_what_was_replaced_and_what_was_never_committed(
    file_format: str, make_place: Callable[[], Place]
) -> None:
    capture = captured_in_batches(file_format, make_place())
    compact(capture.place)
    capture.write(events(range(20, 22)))
    proposed = vacuum(capture.place, 0, is_dry_run=True)
    assert counted(capture) == list(range(2, 12))
    deleted = vacuum(capture.place, 0)
    assert sorted(deleted) == sorted(proposed)
    assert len([path for path in deleted if path.endswith(".parquet")]) == 6
    assert len([one for one in capture.place.files() if one.path.endswith(".parquet")]) == 1
    assert counted(capture) == list(range(2, 12))


@TABLES
def test_vacuum_keeps_what_a_reader_or_a_task_may_still_need(file_format: str, tmp_path: Path) -> None:
    capture = captured_in_batches(file_format, tmp_path)
    # Files that are old themselves, and were replaced just now.
    for file in tmp_path.rglob("*.parquet"):
        os.utime(file, (time.time() - 30 * DAY_S,) * 2)
    compact(capture.place)
    written = capture.write(events(range(12, 14)))
    assert vacuum(capture.place, DAY_S) == []
    capture.commit(5, written)
    assert counted(capture) == list(range(2, 14))


def test_files_of_an_interrupted_commit_survive_vacuum_and_count_when_the_capture_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = captured_in_batches("parquet", tmp_path)
    written = capture.write(events(range(12, 14)))

    def crash(*_: object) -> None:
        raise OSError("crashed")

    with monkeypatch.context() as patched:
        patched.setattr(manifests, "write_manifest", crash)
        with pytest.raises(OSError, match="crashed"):
            capture.commit(5, written)
    assert vacuum(capture.place, 0) == []
    capture.commit(5)
    assert capture.counted() == list(range(2, 14))


@TABLES
def test_files_with_older_columns_get_the_newer_ones_and_the_quarantine_is_put_together_too(
    file_format: str, tmp_path: Path
) -> None:
    capture = Capture(file_format, tmp_path, parsing=Parsing(JsonDecoder()))
    bodies = [b'{"id": 1}', b'{"id": 2, "city": "Bonn"}', b'{"id": "three"}', b'{"id": "four"}']
    for batch, body in enumerate(bodies):
        capture.commit(batch, capture.write(events([2 + batch], body=body)))
    assert compact(capture.place) == Compacted(4, 2)
    assert counted(capture) == [2, 3]
    vacuum(capture.place, 0)
    assert counted(Capture(file_format, tmp_path / "_quarantine")) == [4, 5]
    if file_format == "delta":
        rows = DeltaTable(tmp_path).to_pyarrow_table(columns=["id", "city"]).to_pylist()
        assert sorted(rows, key=lambda row: row["id"]) == [{"id": 1, "city": None}, {"id": 2, "city": "Bonn"}]


def test_files_as_event_hubs_capture_names_them_stay_as_they_are(tmp_path: Path) -> None:
    capture = captured_in_batches("avro", tmp_path)
    with pytest.raises(ConfigurationError, match="layout of Event Hubs Capture"):
        compact(capture.place)
    assert capture.counted() == list(range(2, 12))


def test_a_folder_without_a_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no captured events"):
        vacuum(Place.parse(tmp_path))


# --- commands -------------------------------------------------------------------------------------------------------


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    capture = captured_in_batches("parquet", tmp_path / "orders")
    compacted = tandem_here("pipeline", "compact", tmp_path / "orders", "--json")
    assert json.loads(compacted.stdout) == {"table": str(tmp_path / "orders"), "replaced": 5, "by": 1}
    too_young = tandem_here("pipeline", "vacuum", tmp_path / "orders", "--older-than", "1m")
    assert "may be about to count" in one_line(too_young)
    listed = tandem_here("pipeline", "vacuum", tmp_path / "orders", "--dry-run")
    assert "would delete 0 files" in listed.stderr
    assert capture.counted() == list(range(2, 12))
