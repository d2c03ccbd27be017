"""Jobs on a cluster: `python -m tests.spark.cluster_program MASTER CONNECTION_STRING HUB EVENTS OUT ROUNDS [BATCH]`.

It captures a hub of so many events, unchanged from what a single machine does, and then in each round once more, with
an executor killed in the middle of a task. It prints one JSON object. With a BATCH it captures once more, and its
driver is killed when that batch was committed.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from tandem.spark import session
from tandem.spark.jobs.capture import CaptureOutput, capture, read_captured
from tandem.spark.spark_session import chosen_java
from tests.spark.doomed_capture import doom
from tests.spark.doomed_driver import capture_until_death
from tests.spark.killing import kill_java_above
from tests.spark.small_spark import SETTINGS

# Below the folder that is given: the capture during which the driver dies.
DOOMED: Final = "doomed"


def numbers(table: DataFrame) -> Counter[int]:
    return Counter(int(row[0]) for row in table.selectExpr("cast(body as string)").collect())


def dying_once(mark: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Passes its rows on, and has its executor killed after the first of them: the first task that makes the mark."""

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            kill_java_above()

    return pass_on


def survive(spark: SparkSession, source: dict[str, str], out: Path) -> Counter[int]:
    events = spark.readStream.format("eventhubs").options(**source, startingPosition="earliest").load()
    doomed = events.mapInArrow(dying_once(str(out / "killed")), events.schema)
    writer = doomed.writeStream.format("parquet").option("path", str(out / "files"))
    writer = writer.option("checkpointLocation", str(out / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    assert (out / "killed").exists()
    return numbers(spark.read.parquet(str(out / "files")))


def main(
    master: str, connection_string: str, hub: str, events: int, out: Path, rounds: int, doomed_batch: int | None = None
) -> None:
    settings = {
        **SETTINGS,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SETTINGS["spark.driver.extraJavaOptions"],
        # Executors that are killed on purpose, or take long to start, are no reason to give up.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.worker.timeout": "600",
        # An executor runs a few tasks, in workers of several kinds: importing ahead for each costs more than it saves.
        "spark.python.daemon.module": "pyspark.daemon",
        "spark.sql.warehouse.dir": str(out / "warehouse"),
    }
    spark = session("cluster", master=master, settings=settings, shows_progress=False)
    expected = Counter(range(events))
    bus = {"connectionString": connection_string}
    capture(spark, {**bus, "minPartitions": "4"}, hub, CaptureOutput.parse(out / "captured")).awaitTermination()
    is_captured = numbers(read_captured(spark, out / "captured")) == expected
    kept: list[bool] = []
    for number in range(rounds):
        (out / str(number)).mkdir(parents=True)
        kept.append(survive(spark, {**bus, "eventHub": hub, "minPartitions": "4"}, out / str(number)) == expected)
    print(json.dumps({"java": chosen_java().origin, "is_captured": is_captured, "survived": kept}), flush=True)
    if doomed_batch is not None:
        doom(out / DOOMED / "_checkpoint", doomed_batch, "counted", kills_java=True)
        capture_until_death(spark, connection_string, hub, CaptureOutput.parse(out / DOOMED, "delta"))
    spark.stop()


if __name__ == "__main__":
    numbers_given = [int(text) for text in sys.argv[6:]]
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]), *numbers_given)
