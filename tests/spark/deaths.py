"""Three deaths in the middle of a query, each with what was captured in the end: every event, and each once.

The driver dies between the commit of a batch and Spark's note of it, an executor in the middle of a task, the broker
while it is read. `test_crashes.py` and `test_cluster.py` have one of each, `run.py` as many as one likes.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tandem.spark.jobs.capture import CaptureFormat, capture
from tandem.testing import Broker
from tests.spark.captured import avro_bodies, delta_bodies, numbers_of
from tests.spark.doomed_driver import DIED, EVENTS_IN_A_BATCH, doomed_source
from tests.spark.filling import fill
from tests.spark.small_spark import run_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EVENTS", "PROGRAM_LIMIT_S", "broker_dies", "driver_dies", "executors_die", "gone_on"]

# Events in a hub: three batches of the doomed driver.
EVENTS: Final = 3 * EVENTS_IN_A_BATCH

# Seconds. A program that has not ended by then hangs: it takes one or two minutes, on a machine that does nothing else.
PROGRAM_LIMIT_S: Final = 700.0


def driver_dies(broker: Broker, hub: str, folder: Path, file_format: CaptureFormat, batch: int) -> None:
    """A capture in a process of its own, whose driver is killed when a batch was committed."""
    program = ("tests.spark.doomed_driver", broker.connection_string, hub, folder, file_format, str(batch))
    killed = run_program(*program, timeout_s=PROGRAM_LIMIT_S)
    assert (folder / DIED).exists(), killed.stderr[-4_000:]


def gone_on(
    spark: SparkSession, broker: Broker, hub: str, folder: Path, file_format: CaptureFormat, batch: int
) -> Counter[int]:
    """What was captured when another driver has gone on with what the dead one has left."""
    read = delta_bodies if file_format == "delta" else avro_bodies
    # All of that batch, and nothing behind it: it died where it was to die.
    assert sum(numbers_of(read(folder)).values()) == EVENTS_IN_A_BATCH * (batch + 1)
    capture(spark, doomed_source(broker.connection_string), hub, folder, file_format=file_format).awaitTermination()
    return numbers_of(read(folder))


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
