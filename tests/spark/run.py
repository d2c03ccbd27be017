"""`python -m tests.spark.run --rounds 20 [--only driver,s3,executor,broker,jobs]`: kill, go on, compare.

    driver      killed in the commit of a batch, at each point of it in turn, of captures in each format, to a disk
    s3          the same to an S3 server
    executor    killed in the middle of a task, on a standalone master with two workers
    broker      killed while it is read
    jobs        once: the jobs on that cluster and on this machine alone, which have to find the same

A round is good if what was captured is what was sent, each event once. The report is one JSON object; the exit code is
1 if a round was not good.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from tandem.lake.place import Place
from tandem.spark.jobs.capture import CaptureFormat, CaptureOutput
from tandem.spark.report.results import read_results
from tandem.testing import Broker
from tests.lake import s3_server
from tests.spark.deaths import EVENTS, broker_dies, driver_dies, executors_die, gone_on
from tests.spark.doomed_capture import Point
from tests.spark.filling import fill
from tests.spark.scripted import do_workload, tell_outage
from tests.spark.small_spark import SETTINGS, run_program
from tests.spark.standalone import standalone_cluster

__all__ = ["main"]

KINDS: Final = ("driver", "s3", "executor", "broker", "jobs")
HUB: Final = "numbers"

# Seconds. A job that has not ended by then hangs.
JOB_LIMIT_S: Final = 240.0


class Programme:
    """What is done, and how it went."""

    def __init__(self, folder: Path, rounds: int, seed: int) -> None:
        self._folder = folder
        self._rounds = rounds
        self._chance = random.Random(seed)
        self.good: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()

    def run(self, kinds: list[str]) -> None:
        for kind in kinds:
            course: Callable[[Path], None] = getattr(self, f"_{kind}")
            folder = self._folder / kind
            folder.mkdir()
            course(folder)

    def _note(self, kind: str, is_good: bool, started_s: float) -> None:
        self.tried[kind] += 1
        self.good[kind] += is_good
        verdict = "good" if is_good else "NOT GOOD"
        spent_s = time.monotonic() - started_s
        print(f"{kind} {self.tried[kind]}: {verdict}, {spent_s:.1f} s", file=sys.stderr, flush=True)

    def _filled(self, stack: ExitStack, folder: Path) -> Broker:
        broker = stack.enter_context(Broker(folder / "data"))
        broker.create_hub(HUB, partition_count=2)
        fill(broker, HUB, range(EVENTS))
        return broker

    def _driver(self, folder: Path) -> None:
        self._kill_drivers("driver", folder, lambda number: Place.parse(folder / str(number)))

    def _s3(self, folder: Path) -> None:
        with s3_server.serving() as options:
            self._kill_drivers("s3", folder, lambda _: s3_server.new_bucket(options))

    def _kill_drivers(self, kind: str, folder: Path, place: Callable[[int], Place]) -> None:
        formats: tuple[CaptureFormat, ...] = ("parquet", "delta", "avro")
        with ExitStack() as stack:
            broker = self._filled(stack, folder)
            spark = stack.enter_context(_session(folder))
            for number in range(self._rounds):
                started_s = time.monotonic()
                file_format = formats[number % len(formats)]
                output = CaptureOutput(place(number), file_format, Place.parse(folder / f"checkpoint-{number}"))
                # Only files on a disk are renamed, and only if they are of no table.
                is_renamed = file_format != "delta" and output.place.is_local
                points: tuple[Point, ...] = ("written", "counted", "renamed") if is_renamed else ("written", "counted")
                point = points[number // len(formats) % len(points)]
                batch = self._chance.randrange(3)
                driver_dies(broker, HUB, output, batch, point)
                found = gone_on(spark, broker, HUB, output, batch, point)
                self._note(kind, found == Counter(range(EVENTS)), started_s)

    def _executor(self, folder: Path) -> None:
        with ExitStack() as stack:
            broker = self._filled(stack, folder)
            master = stack.enter_context(standalone_cluster(folder))
            started_s = time.monotonic()
            said = executors_die(master, broker, HUB, folder / "out", self._rounds)
        for is_good in (said["is_captured"], *said["survived"]):
            self._note("executor", is_good, started_s)

    def _broker(self, folder: Path) -> None:
        with _session(folder) as spark:
            for number in range(self._rounds):
                started_s = time.monotonic()
                (folder / str(number)).mkdir()
                found = broker_dies(spark, folder / str(number), self._chance)
                self._note("broker", found == Counter(range(EVENTS + 20)), started_s)

    def _jobs(self, folder: Path) -> None:
        """Of all results, rows that are equal. The cluster comes first: what is captured by then is the same."""
        started_s = time.monotonic()
        with ExitStack() as stack:
            broker = stack.enter_context(Broker(folder / "data"))
            do_workload(broker)
            tell_outage(broker, "orders")
            broker.close()
            # From here on nothing is counted, so that all jobs find the same.
            broker = stack.enter_context(Broker(folder / "data", arguments=("--dev", "--no-operations")))
            master = stack.enter_context(standalone_cluster(folder))
            results: list[Any] = []
            for out, where in ((folder / "cluster", ("--master", master)), (folder / "alone", ())):
                for job in ("metering", "availability", "latency"):
                    bus = ("--connection-string", broker.connection_string)
                    done = run_program("tandem", "pipeline", job, *bus, "--out", out, *where, timeout_s=JOB_LIMIT_S)
                    assert done.returncode == 0, done.stderr[-4_000:]
                results.append(read_results(out))
        self._note("jobs", results[0] == results[1] and bool(results[0].costs and results[0].outages), started_s)


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    from tandem.spark import session

    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    spark = session("deaths", master="local[2,3]", settings=settings, shows_progress=False)
    try:
        yield spark
    finally:
        spark.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description="kill parts of a pipeline, and compare what it captured")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, with commas between them")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    kinds = given.only.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--only has {given.only}; there are {','.join(KINDS)}")
    with tempfile.TemporaryDirectory(prefix="tandem-spark-") as folder:
        programme = Programme(Path(folder), given.rounds, given.seed)
        programme.run(kinds)
    is_good = programme.good == programme.tried
    print(json.dumps({"seed": given.seed, "rounds": programme.tried, "good": programme.good, "is_good": is_good}))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
