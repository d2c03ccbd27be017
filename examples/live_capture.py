"""Capture an event hub with Spark Structured Streaming while events arrive and the broker is killed.

    python examples/live_capture.py [--events 5000]        also runs beside the drill of `make demo`

A thread sends numbered readings to a hub, a thousand a second. A streaming query writes them to a table, one batch a
second. When the table has its first rows, the broker is killed with SIGKILL and restarted on its data directory, and
readings go on. At the end every reading that the hub acknowledged must be a row of the table.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem.client.sync import EventData, EventHubClient
from tandem.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

HUB = "readings"
READING = "number int, sensor string, celsius double"
SENSORS = 8
BATCH = 100
BATCHES_PER_SECOND = 10

# Seconds without a new row after which the program gives up.
PATIENCE_S = 120
# Seconds between two lines about how far the capture is.
REPORT_INTERVAL_S = 3


class Progress:
    """How far the program is, with the time since it began."""

    def __init__(self) -> None:
        self.sent = 0
        # Rows by batch: a query itself remembers the last hundred batches only.
        self.batches: dict[int, int] = {}
        self.is_over = threading.Event()
        self._started_s = time.monotonic()

    @property
    def rows(self) -> int:
        return sum(self.batches.values())

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self._started_s:7.2f} s  {what}", flush=True)


# --- sending --------------------------------------------------------------------------------------------------------


def send_readings(broker: Broker, progress: Progress) -> None:
    """Send readings, and count those that the hub acknowledged. The client sends again what was not answered."""
    with EventHubClient.from_connection_string(broker.connection_string, HUB) as client:
        producer = client.create_producer()
        while not progress.is_over.wait(1 / BATCHES_PER_SECOND):
            numbers = range(progress.sent, progress.sent + BATCH)
            producer.send_batch([EventData(json.dumps(reading(number))) for number in numbers])
            progress.sent += BATCH


def reading(number: int) -> dict[str, Any]:
    return {"number": number, "sensor": f"sensor-{number % SENSORS}", "celsius": 20 + number % 70 / 10}


def kill(broker: Broker, progress: Progress) -> None:
    killed_s = time.monotonic()
    broker.kill()
    broker.start()
    progress.say(f"the broker was killed (SIGKILL) and serves again after {time.monotonic() - killed_s:.1f} s")


# --- capturing ------------------------------------------------------------------------------------------------------


def readings(events: DataFrame) -> DataFrame:
    """Return events as typed rows."""
    from pyspark.sql import functions as sql

    parsed = sql.from_json(sql.col("body").cast("string"), READING).alias("reading")
    return events.select(parsed, "enqueuedTime").select("reading.*", "enqueuedTime")


def start_capture(spark: SparkSession, broker: Broker, folder: Path) -> StreamingQuery:
    stream = spark.readStream.format("eventhubs").option("connectionString", broker.connection_string)
    events = stream.option("eventHub", HUB).option("startingPosition", "earliest").load()
    writer = readings(events).writeStream.format("parquet").option("path", str(folder / "table"))
    checkpointed = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return checkpointed.trigger(processingTime="1 second").start()


def wait_until(is_so: Callable[[], bool], query: StreamingQuery, progress: Progress) -> None:
    """Wait for a condition, and keep count of the rows that the query has committed."""
    changed_s = reported_s = time.monotonic()
    while not is_so():
        failure = query.exception()
        if failure is not None:
            raise failure
        before = (progress.sent, progress.rows)
        progress.batches |= {batch.batchId: batch.numInputRows for batch in query.recentProgress}
        now_s = time.monotonic()
        if (progress.sent, progress.rows) != before:
            changed_s = now_s
        elif now_s - changed_s > PATIENCE_S:
            raise TimeoutError(f"nothing was sent or captured for {PATIENCE_S} s")
        if now_s - reported_s > REPORT_INTERVAL_S:
            reported_s = now_s
            progress.say(f"{progress.sent:,} readings sent, {progress.rows:,} rows in the table")
        time.sleep(0.1)


def count_rows(spark: SparkSession, folder: Path) -> dict[str, int]:
    """Return how many rows the table has, and how many different readings."""
    table = spark.read.parquet(str(folder / "table"))
    [(rows, different)] = table.selectExpr("count(*)", "count(DISTINCT number)").collect()
    return {"rows": rows, "readings": different}


def run(start: Callable[[], SparkSession], folder: Path, events: int) -> dict[str, Any]:
    """Send, capture, kill, send so many events more, and return the figures. Events are sent while Spark starts."""
    progress = Progress()
    with Broker(folder / "broker") as broker:
        broker.create_hub(HUB, partition_count=2)
        sending = threading.Thread(target=send_readings, args=(broker, progress), daemon=True)
        sending.start()
        progress.say(f"a broker serves the hub {HUB}, and {BATCH * BATCHES_PER_SECOND:,} readings a second come to it")
        spark = start()
        query = start_capture(spark, broker, folder)
        progress.say(f"Spark {spark.version} captures the hub, with the {progress.sent:,} readings sent before")
        wait_until(lambda: progress.rows > 0, query, progress)
        kill(broker, progress)
        enough = progress.sent + events
        wait_until(lambda: progress.sent >= enough, query, progress)
        progress.is_over.set()
        sending.join()
        wait_until(lambda: progress.rows >= progress.sent, query, progress)
        query.stop()
    figures = {"sent": progress.sent, "spark": spark.version, **count_rows(spark, folder)}
    progress.say(f"{figures['sent']:,} readings sent, {figures['rows']:,} rows in the table")
    return figures


def start_spark() -> SparkSession:
    from tandem.spark import session
    from tandem.spark.spark_session import SMALL_DATA_SETTINGS

    return session("live capture", settings=SMALL_DATA_SETTINGS, shows_progress=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--events", type=int, default=5_000, help="readings to send after the kill")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the table in DIR/table")
    parser.add_argument("--save", type=Path, metavar="FILE", help="save the figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tandem-capture-") as temporary:
        figures = run(start_spark, options.keep or Path(temporary), options.events)
    if options.save is not None:
        options.save.write_text(json.dumps(figures), encoding="utf-8")
    return 0 if figures["readings"] == figures["sent"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
