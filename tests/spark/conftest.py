"""A broker for all tests of this folder, hubs and queues with names of their own, and one Spark session."""

from __future__ import annotations

import contextlib
import itertools
import os
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tandem.testing import Broker
from tests.lake.s3_server import make_bucket, s3_server
from tests.spark.filling import fill
from tests.spark.small_spark import ROOT, SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MakeHub", "broker", "commands_share", "make_bucket", "make_hub", "make_queue", "s3_server", "spark"]

MakeHub = Callable[..., str]
MakeUri = Callable[[Path], str]

_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker") / "data") as broker:
        yield broker


@pytest.fixture
def make_hub(broker: Broker) -> MakeHub:
    """A hub of a new name, with events `0`, `1`, `2` and so on, in turn for each partition."""

    def make(events: int = 0, partition_count: int = 2) -> str:
        name = f"hub-{next(_numbers)}"
        broker.create_hub(name, partition_count=partition_count)
        fill(broker, name, range(events), partition_count)
        return name

    return make


@pytest.fixture
def make_queue(broker: Broker) -> Callable[[], str]:
    def make() -> str:
        name = f"queue-{next(_numbers)}"
        broker.create_queue(name)
        return name

    return make


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from tandem.spark import session

    # Spark leaves a warehouse where it is started.
    folder: Path = tmp_path_factory.mktemp("spark")
    before = Path.cwd()
    os.chdir(folder)
    # Workers find the tests too: a test may register a data source of its own.
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        with unittest.mock.patch.dict(os.environ, {"PYTHONPATH": path}):
            made = session(
                "tests",
                # A task that fails is tried again, as on a cluster.
                master="local[2,3]",
                settings={
                    **SETTINGS,
                    "spark.sql.warehouse.dir": str(folder / "warehouse"),
                    "spark.local.dir": str(folder / "local"),
                },
                shows_progress=False,
            )
    finally:
        os.chdir(before)
    yield made
    made.stop()


@pytest.fixture
def make_uri(spark: SparkSession) -> MakeUri:
    """A URI that is none of `file:` for a folder of this machine, by a file system of Hadoop that only has mounts."""

    def make(folder: Path) -> str:
        # Hadoop keeps what it knows of a host.
        host = f"mount-{next(_numbers)}"
        settings = spark._jsc.hadoopConfiguration()
        settings.set(f"fs.viewfs.mounttable.{host}.link./here", folder.as_uri())
        return f"viewfs://{host}/here"

    return make


@pytest.fixture
def commands_share(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session of the tests with commands that run in this process: each would start one of its own."""
    from tandem.cli.pipeline import jobs as pipeline

    @contextlib.contextmanager
    def shared(*_: object, **__: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(pipeline, "open_spark", shared)
