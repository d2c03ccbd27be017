"""Event hubs read by Spark, next to what Spark itself can do, and to a loop on the official SDK.

All read the same events, that lie in a hub before the first is read. Rates are of rows that reach Spark's `noop` sink,
or that the loop has decoded; each case has as many processes to read with.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tandem.bench.measuring.peers import BenchmarkFailed, peer_program
from tandem.bench.spark.report import AMQP, ARROW, PARQUET, RANGE, SDK, SparkFigures, SparkLatency
from tandem.client.sync import EventData, EventHubClient
from tandem.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkChoice", "measure_spark"]

PARTITIONS: Final = 8
HUB: Final = "measured"

# Events over AMQP and over the SDK: a fraction is enough for a rate, and all of them would take minutes.
SLOW_FRACTION: Final = 10

# Events in one send while the hub is filled.
FILL_BATCH: Final = 2_000

# Seconds, and events per second, of the measurement of latency.
LATENCY_S: Final = 20
LATENCY_RATE: Final = 50

# Seconds. What takes longer hangs.
LOOP_LIMIT_S: Final = 900

CASES: Final = (RANGE, PARQUET, ARROW, AMQP, SDK)


@dataclass(frozen=True)
class SparkChoice:
    """What the user asked for."""

    events: int
    body_bytes: int
    rounds: int
    cores: int
    measures_latency: bool

    @property
    def step_count(self) -> int:
        return 2 + len(CASES) * self.rounds + self.measures_latency


def measure_spark(choice: SparkChoice, figures: SparkFigures, advance: Callable[[str], None]) -> None:
    """Fill in the figures."""
    # Raises before anything is measured, if there is none.
    peer_program("azure_eventhub_loop")
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder, _broker(Path(folder), choice) as broker:
        advance("filling the hub")
        with _session(choice.cores, Path(folder)) as spark:
            _hub(spark, broker, choice).write.parquet(f"{folder}/parquet")
            advance("warming up")
            # What Spark compiles, and what its workers import, is not counted.
            for case in CASES[:-1]:
                _rate(case, spark, broker, choice, Path(folder))
            for number in range(choice.rounds):
                for case in CASES:
                    advance(f"round {number + 1}: {case}")
                    rate = _rate(case, spark, broker, choice, Path(folder))
                    figures.rates.setdefault(case, []).append(rate)
            if choice.measures_latency:
                advance("latency")
                figures.latency = _latency(spark, broker, Path(folder))


@contextmanager
def _broker(folder: Path, choice: SparkChoice) -> Iterator[Broker]:
    with Broker(folder / "data") as broker:
        broker.create_hub(HUB, partition_count=PARTITIONS)
        body = b"x" * choice.body_bytes
        with EventHubClient.from_connection_string(broker.connection_string, HUB) as client:
            producer = client.create_producer()
            for partition in range(PARTITIONS):
                left = choice.events // PARTITIONS
                while left > 0:
                    count = min(FILL_BATCH, left)
                    producer.send_batch([EventData(body) for _ in range(count)], partition_id=str(partition))
                    left -= count
        yield broker


@contextmanager
def _session(cores: int, folder: Path) -> Iterator[SparkSession]:
    from tandem.spark import session

    spark = session(
        "bench",
        master=f"local[{cores}]",
        settings={"spark.sql.warehouse.dir": str(folder / "warehouse")},
        shows_progress=False,
    )
    try:
        yield spark
    finally:
        spark.stop()


def _hub(spark: SparkSession, broker: Broker, choice: SparkChoice, transport: str = ARROW) -> DataFrame:
    options = {"connectionString": broker.connection_string, "eventHub": HUB, "transport": transport}
    if transport == AMQP:
        each = choice.events // PARTITIONS // SLOW_FRACTION
        options["endingOffsets"] = json.dumps({HUB: {str(number): each for number in range(PARTITIONS)}})
    return spark.read.format("eventhubs").options(**options).load()


def _rate(case: str, spark: SparkSession, broker: Broker, choice: SparkChoice, folder: Path) -> float:
    """Rows per second."""
    if case == SDK:
        return _loop_rate(broker, choice)
    table, count = _table(case, spark, broker, choice, folder)
    started_at = time.perf_counter()
    table.write.format("noop").mode("overwrite").save()
    return count / (time.perf_counter() - started_at)


def _table(case: str, spark: SparkSession, broker: Broker, choice: SparkChoice, folder: Path) -> tuple[DataFrame, int]:
    total = choice.events // PARTITIONS * PARTITIONS
    if case == RANGE:
        literals = "repeat('x', 100) as body", "'0' as partition", "cast(id as string) as offset", "id", "now() as time"
        return spark.range(0, total, 1, PARTITIONS).selectExpr(*literals), total
    if case == PARQUET:
        return spark.read.parquet(f"{folder}/parquet"), total
    if case == AMQP:
        return _hub(spark, broker, choice, AMQP), choice.events // PARTITIONS // SLOW_FRACTION * PARTITIONS
    return _hub(spark, broker, choice), total


def _loop_rate(broker: Broker, choice: SparkChoice) -> float:
    """As many processes as Spark has cores, each with its share of the partitions."""
    each = choice.events // PARTITIONS // SLOW_FRACTION
    shares = [[str(one) for one in range(number, PARTITIONS, choice.cores)] for number in range(choice.cores)]
    program = [sys.executable, str(peer_program("azure_eventhub_loop")), broker.connection_string, HUB, str(each)]
    loops = [
        subprocess.Popen([*program, *share], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for share in shares
    ]
    try:
        # What each needs to start is not its rate: all begin when all are ready.
        for loop in loops:
            assert loop.stdout is not None
            loop.stdout.readline()
        started_at = time.perf_counter()
        for loop in loops:
            assert loop.stdin is not None
            loop.stdin.close()
        codes = [loop.wait(LOOP_LIMIT_S) for loop in loops]
        spent_s = time.perf_counter() - started_at
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
            assert loop.stdout is not None
            loop.stdout.close()
    if any(codes):
        raise BenchmarkFailed(f"the loop on azure-eventhub ended with {codes}; is it installed?")
    return each * PARTITIONS / spent_s


def _latency(spark: SparkSession, broker: Broker, folder: Path) -> SparkLatency:
    """From the hub's own time of an event to the moment at which a batch has its row."""
    spent_ms: list[float] = []

    def take(batch: DataFrame, _: int) -> None:
        rows = batch.selectExpr("unix_millis(enqueuedTime) as ms").collect()
        now_ms = time.time() * 1_000
        spent_ms.extend(now_ms - row.ms for row in rows)

    broker.create_hub("paced", partition_count=1)
    options: dict[str, Any] = {"connectionString": broker.connection_string, "eventHub": "paced"}
    events = spark.readStream.format("eventhubs").options(**options).option("startingPosition", "earliest").load()
    query = events.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "paced")).start()
    try:
        with EventHubClient.from_connection_string(broker.connection_string, "paced") as client:
            producer = client.create_producer()
            for number in range(LATENCY_S * LATENCY_RATE):
                producer.send(EventData(str(number)))
                time.sleep(1 / LATENCY_RATE)
        query.processAllAvailable()
    finally:
        query.stop()
    # The first batches are those in which Spark compiles its plan.
    warm = sorted(spent_ms[len(spent_ms) // 4 :])
    return SparkLatency(LATENCY_RATE, warm[len(warm) // 2], warm[len(warm) * 99 // 100])
