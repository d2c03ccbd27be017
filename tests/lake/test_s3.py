"""Captures on an S3-compatible store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tandem.lake import delta_table, manifests
from tandem.lake.layout import HIVE_COLUMNS
from tandem.lake.place import Place
from tandem.lake.reading import captured_schema
from tests.lake.capturing import Capture
from tests.lake.events import events
from tests.lake.s3_server import MakeBucket
from tests.markers import mission
from tests.spark.small_spark import ROOT

FORMATS = pytest.mark.parametrize("file_format", ["parquet", "delta", "avro"])

# Writes more than a store takes in one request, and is killed with the file half written.
KILLED = """
import os, signal, sys
from tandem.lake.place import Place, StorageOptions
from tests.lake.capturing import Capture
from tests.lake.events import events

def dying():
    for first in range(2, 50, 16):
        yield events(range(first, first + 16), body=os.urandom(1_000_000))
    os.kill(os.getpid(), signal.SIGKILL)

place = Place.parse(sys.argv[1], StorageOptions(sys.argv[2], "us-east-1", "key", "secret"))
Capture("parquet", place).writer.write(dying())
"""


@mission("M31")
@FORMATS
def test_a_batch_that_comes_again_after_a_crash_counts_once(file_format: str, make_bucket: MakeBucket) -> None:
    capture = Capture(file_format, make_bucket())
    written = capture.write(events(range(5)))
    assert (capture.numbers() if file_format == "delta" else capture.counted()) == []
    capture.commit(0, written)
    before = capture.listed()
    again = Capture(file_format, capture.place)
    again.commit(0, again.write(events(range(2))), again.write(events(range(2, 5))))
    assert again.listed() == before
    again.commit(1, again.write(events(range(5, 7))))
    assert again.numbers() == list(range(7))
    if file_format != "delta":
        assert again.counted() == list(range(7))


@mission("M31")
def test_a_file_that_is_half_written_when_its_process_is_killed_is_never_seen(make_bucket: MakeBucket) -> None:
    place = make_bucket()
    program = [sys.executable, "-c", KILLED, str(place), place.options.endpoint]
    assert subprocess.run(program, cwd=ROOT, capture_output=True, check=False).returncode == -9
    assert place.files() == []


@FORMATS
def test_what_was_written_by_a_task_that_failed_is_removed(file_format: str, make_bucket: MakeBucket) -> None:
    capture = Capture(file_format, make_bucket())

    def broken() -> Iterator[Any]:
        yield events(range(5))
        raise RuntimeError("the task failed")

    with pytest.raises(RuntimeError, match="the task failed"):
        capture.writer.write(broken())
    assert capture.place.files() == []


def test_two_commits_of_one_version_of_a_delta_table_do_not_overwrite_each_other(make_bucket: MakeBucket) -> None:
    capture = Capture("delta", make_bucket())
    capture.commit(0, capture.write(events(range(5))))
    # Both have seen the same version.
    tables = [delta_table.open_table(capture.place) for _ in range(2)]
    for number, table in enumerate(tables):
        files = capture.write(events(range(5 * number + 5, 5 * number + 10)))
        actions = [delta_table.add_captured(one.file, HIVE_COLUMNS) for one in files]
        query = (f"another-{number}", 0)
        delta_table.commit(capture.place, table, actions, captured_schema(), HIVE_COLUMNS, query)
    assert capture.numbers() == list(range(15))


def test_a_manifest_is_written_and_read_as_a_whole(make_bucket: MakeBucket) -> None:
    place: Place = make_bucket()
    assert not manifests.has_manifests(place)
    place.write_text("_tandem/batches/q/0.json", '{"version": 2}')
    with pytest.raises(Exception, match="use the release that wrote it"):
        manifests.captured_files(place)
    place.delete("_tandem/batches/q/0.json")
    assert place.read_text("_tandem/batches/q/0.json") is None
