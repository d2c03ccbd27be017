"""Errors of Spark are shown by their cause, and locations of Spark's own file systems can be used by us."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.location import Location
from tandem.spark.causes import cause_of
from tests.spark.conftest import MakeUri

pytestmark = pytest.mark.timeout(900)


def start_stream(spark: SparkSession, checkpoint: str) -> None:
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    stream.writeStream.format("noop").option("checkpointLocation", checkpoint).start().awaitTermination()


@pytest.mark.parametrize(
    "act, cause",
    [
        (
            lambda spark: spark.range(1).write.parquet("s3://bucket/out"),
            'UnsupportedFileSystemException: No FileSystem for scheme "s3"',
        ),
        # A query that cannot even start.
        (lambda spark: start_stream(spark, "hdfs://nowhere.invalid/out"), "UnknownHostException: nowhere.invalid"),
        (lambda spark: spark.read.parquet("/nowhere"), "[PATH_NOT_FOUND] Path does not exist: file:/nowhere."),
    ],
    ids=["no file system", "start of a stream", "Spark's own"],
)
def test_an_error_is_shown_by_its_cause(spark: SparkSession, act: Callable[[SparkSession], object], cause: str) -> None:
    with pytest.raises(Exception) as error:  # noqa: PT011 - it is of whatever class; its text is what this is about
        act(spark)
    found = cause_of(error.value)
    assert found.startswith(cause)
    assert "An error occurred while calling" not in found
    assert "\n" not in found


def test_an_error_of_ours_is_found_below_all_others() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in read\n'
        "tandem.spark.offsets.DataLoss: events 1 to 2 are gone: raise the retention\n\n"
        "The above exception was the direct cause of the following exception:\n"
        "pyspark.errors.PySparkRuntimeError: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed\n"
    )
    assert cause_of(RuntimeError(text)) == "events 1 to 2 are gone: raise the retention"


def test_an_error_of_a_program_in_python_is_the_last_line_of_its_traceback() -> None:
    text = (
        "An error occurred while calling o9.collect.\n: org.apache.spark.SparkException: Job aborted: "
        "Traceback (most recent call last):\n"
        '  File "program.py", line 7, in halve\n'
        "ZeroDivisionError: division by zero\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner\n"
    )
    assert cause_of(RuntimeError(text)) == "ZeroDivisionError: division by zero"


def test_an_error_without_a_text_has_the_name_of_its_class() -> None:
    assert cause_of(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_file_systems_that_spark_knows_are_read_and_written(make_uri: MakeUri, tmp_path: Path) -> None:
    folder = Location(make_uri(tmp_path))
    assert str(folder).startswith("viewfs://")
    assert folder.exists()
    assert folder.names() == []
    (folder / "deep" / "note").write_text("grün")
    assert (folder / "deep").names() == ["note"]
    assert (folder / "deep" / "note").read_text() == "grün"
    assert (tmp_path / "deep" / "note").read_text(encoding="utf-8") == "grün"
    with pytest.raises(Exception, match=r"nothing cannot be read: File .*nothing does not exist"):
        (folder / "nothing").read_text()
