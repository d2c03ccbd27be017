"""Three deaths in the middle of a query, each with what was captured in the end: every event, and each once.

The driver dies at a point of the commit of a batch, an executor in the middle of a task, the broker while it is read.
`test_crashes.py` and `test_cluster.py` have some of each, `run.py` as many as one likes.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import StreamingQueryException

from tandem.spark.jobs.capture import CaptureOutput, capture
from tandem.testing import Broker
from tests.spark.captured import captured_bodies, listed_bodies, numbers_of
from tests.spark.doomed_capture import Point, doom, has_died
from tests.spark.doomed_driver import EVENTS_IN_A_BATCH, capture_until_death, doomed_source
from tests.spark.filling import fill
from tests.spark.small_spark import run_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EVENTS", "PROGRAM_LIMIT_S", "broker_dies", "driver_dies", "executors_die", "gone_on", "python_dies"]

# Events in a hub: three batches of the doomed driver.
EVENTS: Final = 3 * EVENTS_IN_A_BATCH

# Seconds. A program that has not ended by then hangs: it takes one or two minutes, on a machine that does nothing else.
PROGRAM_LIMIT_S: Final = 700.0


def driver_dies(broker: Broker, hub: str, output: CaptureOutput, batch: int, point: Point) -> None:
    """A capture in a process of its own, whose driver is killed in a batch."""
    checkpoint = _checkpoint(output)
    doom(checkpoint, batch, point, kills_java=True)
    program = ("tests.spark.doomed_driver", broker.connection_string, hub, str(output.place), checkpoint)
    # The options of the store are not on the command line: they hold a key.
    environment = {**os.environ, **(output.place.delta_options() or {})}
    killed = run_program(*program, output.file_format, timeout_s=PROGRAM_LIMIT_S, environment=environment)
    assert has_died(checkpoint), killed.stderr[-4_000:]


def python_dies(spark: SparkSession, broker: Broker, hub: str, output: CaptureOutput, batch: int, point: Point) -> None:
    """The same in this session: only the Python process is killed that writes or commits, which is enough."""
    checkpoint = _checkpoint(output)
    doom(checkpoint, batch, point, kills_java=False)
    # A task that dies is tried again; a commit that dies ends the query.
    with contextlib.suppress(StreamingQueryException):
        capture_until_death(spark, broker.connection_string, hub, output)
    assert has_died(checkpoint)


def gone_on(
    spark: SparkSession, broker: Broker, hub: str, output: CaptureOutput, batch: int, point: Point
) -> Counter[int]:
    """What was captured when another driver has gone on with what the dead one has left."""
    if point != "writing":
        # That batch counts or it does not, and nothing behind it does: it died where it was to die.
        counted = batch + 1 if point == "counted" else batch
        assert numbers_of(captured_bodies(output.place)).total() == EVENTS_IN_A_BATCH * counted
    # Who lists the folder can read all that there is.
    numbers_of(listed_bodies(output.place))
    capture(spark, doomed_source(broker.connection_string), hub, output).awaitTermination()
    return numbers_of(captured_bodies(output.place))


def _checkpoint(output: CaptureOutput) -> Path:
    return (output.checkpoint or output.place.child("_checkpoint")).local_path


def executors_die(master: str, broker: Broker, hub: str, folder: Path, rounds: int) -> dict[str, Any]:
    """What the program on a cluster says: whether each round has kept every event."""
    program = ("tests.spark.cluster_program", master, broker.connection_string, hub, str(EVENTS), folder, str(rounds))
    done = run_program(*program, timeout_s=PROGRAM_LIMIT_S + 60 * rounds)
    assert done.returncode == 0, done.stderr[-4_000:]
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def broker_dies(spark: SparkSession, folder: Path, chance: random.Random) -> Counter[int]:
    """A stream that is being read when the broker is killed, and is there when it comes back with more."""
    with Broker(folder / "data") as broker:
        broker.create_hub("logs", partition_count=2)
        fill(broker, "logs", range(EVENTS))
        source = {"connectionString": broker.connection_string, "eventHub": "logs", "startingPosition": "earliest"}
        events = spark.readStream.format("eventhubs").options(**source, maxEventsPerTrigger="10").load()
        writer = events.writeStream.format("parquet").option("path", str(folder / "files"))
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
        try:
            while not any(progress.numInputRows for progress in query.recentProgress):
                assert query.isActive, query.exception()
                time.sleep(0.02)
            time.sleep(chance.uniform(0, 0.5))
            broker.kill()
            back = threading.Timer(chance.uniform(0, 1), broker.start)
            back.start()
            back.join()
            fill(broker, "logs", range(EVENTS, EVENTS + 20))
            query.processAllAvailable()
        finally:
            query.stop()
    found = spark.read.parquet(str(folder / "files")).selectExpr("cast(body as string)").collect()
    return Counter(int(row[0]) for row in found)
