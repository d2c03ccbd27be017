"""A task or a broker that dies in the middle of a query: what was written is what was sent.

A driver and an executor die in `test_cluster.py`; every format dies at every point in `make spark-crash`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.lake.place import Place
from tandem.spark.jobs.capture import CaptureFormat, CaptureOutput, read_captured
from tandem.testing import Broker
from tests.lake.s3_server import MakeBucket
from tests.markers import mission
from tests.spark.conftest import MakeHub
from tests.spark.deaths import EVENTS, broker_dies, gone_on, python_dies
from tests.spark.doomed_capture import Point

pytestmark = pytest.mark.timeout(900)


@mission("M31")
def test_a_task_whose_process_dies_reads_its_range_again(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path
) -> None:
    hub = make_hub(60)
    crashed = str(tmp_path / "crashed")

    def die_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if not os.path.exists(crashed):  # noqa: PTH110 - pickled by value, with as little around it as possible
                os.close(os.open(crashed, os.O_CREAT))
                os._exit(1)

    source = {"connectionString": broker.connection_string, "eventHub": hub}
    events = spark.read.format("eventhubs").options(**source).load()
    events.mapInArrow(die_once, events.schema).write.parquet(str(tmp_path / "out"))
    assert (tmp_path / "crashed").exists()
    found = spark.read.parquet(str(tmp_path / "out")).selectExpr("cast(body as string)").collect()
    assert Counter(int(row[0]) for row in found) == Counter(range(60))


@mission("M30", "M31")
def test_a_query_lives_on_while_the_broker_is_killed_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    assert broker_dies(spark, tmp_path, random.Random(7)) == Counter(range(EVENTS + 20))


@mission("M31")
@pytest.mark.parametrize("file_format, point", [("parquet", "writing"), ("avro", "renamed")])
def test_a_capture_to_a_disk_whose_process_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path, file_format: CaptureFormat, point: Point
) -> None:
    hub = make_hub(EVENTS)
    output = CaptureOutput.parse(tmp_path, file_format)
    python_dies(spark, broker, hub, output, 1, point)
    assert gone_on(spark, broker, hub, output, 1, point) == Counter(range(EVENTS))


@mission("M31")
def test_a_capture_to_an_object_store_whose_process_is_killed_loses_and_doubles_nothing(
    spark: SparkSession,
    broker: Broker,
    make_hub: MakeHub,
    make_bucket: MakeBucket,
    tmp_path: Path,
) -> None:
    hub = make_hub(EVENTS)
    output = CaptureOutput(make_bucket(), "delta", Place.parse(tmp_path / "checkpoint"))
    python_dies(spark, broker, hub, output, 1, "counted")
    assert gone_on(spark, broker, hub, output, 1, "counted") == Counter(range(EVENTS))
    assert Counter(int(row.body) for row in read_captured(spark, output.place).collect()) == Counter(range(EVENTS))
