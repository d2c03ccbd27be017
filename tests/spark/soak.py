"""`python -m tests.spark.soak --seconds 3600 --rate 2000 --kills 20`: `tandem pipeline run` under load and kill -9.

Events go to a hub at a rate, messages to a queue, and paired clients tell of outages, while a driver, a worker or the
broker is killed at random. At the end, what is in the tables has to be what is in the broker, read without Spark:

    captured    every event of the hub, by partition and number, once; and every one that was acknowledged
    metered     operations and units by operation, as a client of the hub of records adds them up
    windows     each window and key once
    outages     as many as were told

The report is one JSON object, with batch times and memory of the first and the last third; the exit code is 1 if a part
is not good.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tandem.client.errors import MessagingError
from tandem.client.sync import BrokeredMessage, EventData, EventHubClient, MessagingFactory
from tandem.errors import TandemError
from tandem.lake import delta_table
from tandem.lake.place import Place
from tandem.lake.reading import TableFile, read_file
from tandem.spark.report.results import read_results
from tandem.spark.report.sums import sum_table
from tandem.testing import Broker
from tandem.testing.ports import PortReservation
from tests.spark.processes import below
from tests.spark.scripted import tell_outage
from tests.spark.small_spark import ROOT

__all__ = ["Soak", "main"]

HUB: Final = "telemetry"
QUEUE: Final = "orders"
PARTITIONS: Final = 2

# Seconds that the service has to catch up after the load has ended.
CATCH_UP_S: Final = 600.0

VICTIMS: Final = ("driver", "worker", "broker")

_PLACE: Final = pa.schema([("partition", pa.string()), ("sequenceNumber", pa.int64())])


class Soak:
    """One run."""

    def __init__(self, folder: Path, broker: Broker, port: int) -> None:
        self._folder = folder
        self._broker = broker
        self._port = port
        self._service: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()
        self._is_killing = threading.Lock()
        self.acknowledged = 0
        self.sent = 0
        self.outages = 0
        self.kills: Counter[str] = Counter()
        self.samples: list[tuple[float, float]] = []
        broker.create_hub(HUB, partition_count=PARTITIONS)
        broker.create_queue(QUEUE)
        (folder / "bus.txt").write_text(broker.connection_string)
        (folder / "pipeline.toml").write_text(
            f'out = "out"\ntrigger = "2s"\nlisten = "127.0.0.1:{port}"\n'
            '[namespaces.primary]\nconnection_string_file = "bus.txt"\n'
            f'[[capture]]\nhub = "{HUB}"\nformat = "delta"\n'
        )

    # --- the service ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        with (self._folder / "service.log").open("ab") as log:
            self._service = subprocess.Popen(
                [sys.executable, "-m", "tandem", "pipeline", "run", str(self._folder / "pipeline.toml")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def stop(self) -> int:
        assert self._service is not None
        self._service.terminate()
        return self._service.wait(120)

    def get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return ""

    # --- load -------------------------------------------------------------------------------------------------------

    def run(self, seconds: float, rate: int, kills: int, chance: random.Random) -> None:
        threads = [
            threading.Thread(target=self._send_events, args=(rate,)),
            threading.Thread(target=self._send_messages),
            threading.Thread(target=self._measure),
        ]
        self.start()
        for thread in threads:
            thread.start()
        start_s = time.monotonic()
        moments = sorted(chance.uniform(0.15, 0.9) * seconds for _ in range(kills))
        for number, moment in enumerate(moments):
            self._over.wait(max(0.0, start_s + moment - time.monotonic()))
            # Something to kill: one that has shown that it is up.
            _until(lambda: bool(self.get("/metrics")), CATCH_UP_S)
            self._kill(VICTIMS[number % len(VICTIMS)], chance)
            self._tell()
        if not kills:
            self._tell()
        self._over.wait(max(0.0, start_s + seconds - time.monotonic()))
        self._over.set()
        for thread in threads:
            thread.join()

    def _kill(self, victim: str, chance: random.Random) -> None:
        assert self._service is not None
        self.kills[victim] += 1
        if victim == "broker":
            self._broker.kill()
            self._broker.start()
            return
        children = below(self._service.pid)
        if victim == "worker":
            workers = [one.number for one in children if one.name != "java"]
            if workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(workers), signal.SIGKILL)
            return
        self._service.kill()
        self._service.wait()
        for one in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.number, signal.SIGKILL)
        self.start()

    def _tell(self) -> None:
        while True:
            with contextlib.suppress(TandemError, OSError):
                tell_outage(self._broker, f"entity-{self.outages}")
                self.outages += 1
                return

    def _send_events(self, rate: int) -> None:
        batch = max(1, rate // 10)
        due_s = time.monotonic()
        while not self._over.is_set():
            try:
                with EventHubClient.from_connection_string(self._broker.connection_string, HUB) as client:
                    producer = client.create_producer()
                    while not self._over.is_set():
                        numbers = range(self.sent, self.sent + batch)
                        self.sent += batch
                        partition = str(self.sent // batch % PARTITIONS)
                        producer.send_batch([EventData(str(one)) for one in numbers], partition_id=partition)
                        self.acknowledged += batch
                        due_s = max(due_s + 0.1, time.monotonic() - 1)
                        self._over.wait(max(0.0, due_s - time.monotonic()))
            except (MessagingError, OSError):
                # The broker was killed. What was under way may be in the hub, or not.
                self._over.wait(0.2)

    def _send_messages(self) -> None:
        while not self._over.is_set():
            try:
                with MessagingFactory.from_connection_string(self._broker.connection_string) as factory:
                    queue = factory.create_queue_client(QUEUE)
                    while not self._over.is_set():
                        queue.send(BrokeredMessage("a table"))
                        message = queue.receive(timeout=5)
                        if message is not None:
                            message.complete()
                        self._over.wait(0.05)
            except (MessagingError, OSError):
                self._over.wait(0.2)

    def _measure(self) -> None:
        while not self._over.wait(2.0):
            found = re.findall(r'tandem_spark_batch_seconds\{query="metering primary"\} (\S+)', self.get("/metrics"))
            service = self._service
            if found and service is not None:
                memory_mb = sum(one.memory_mb for one in below(service.pid))
                self.samples.append((float(found[0]), memory_mb))

    # --- the account ------------------------------------------------------------------------------------------------

    @property
    def out(self) -> Place:
        return Place.parse(self._folder / "out")

    def is_captured(self) -> bool:
        captured = self._captured()
        return captured == Counter(dict.fromkeys(captured, 1)) and self._extent() == self._ends(captured)

    def _extent(self) -> dict[str, int]:
        with EventHubClient.from_connection_string(self._broker.connection_string, HUB) as client:
            found = (client.get_partition_properties(str(one)) for one in range(PARTITIONS))
            return {one.partition_id: one.last_enqueued_sequence_number + 1 for one in found}

    @staticmethod
    def _ends(captured: Counter[tuple[str, int]]) -> dict[str, int]:
        counted = Counter(partition for partition, _ in captured)
        return {str(one): counted[str(one)] for one in range(PARTITIONS)}

    def _captured(self) -> Counter[tuple[str, int]]:
        place = self.out.child("capture", "primary", HUB)
        table = delta_table.open_table(place)
        found: Counter[tuple[str, int]] = Counter()
        for uri in [] if table is None else table.file_uris():
            for batch in read_file(place, TableFile(uri.removeprefix(f"{place}/"), 0, {}), _PLACE):
                found.update(zip(batch["partition"].to_pylist(), batch["sequenceNumber"].to_pylist(), strict=True))
        return found

    def recorded(self) -> Counter[tuple[str, str]]:
        """Operations and units of the queue, as the hub of records has them, read by a client."""
        counted: Counter[tuple[str, str]] = Counter()
        with (
            EventHubClient.from_connection_string(self._broker.connection_string, "$operations") as client,
            client.create_consumer("$Default", "0") as consumer,
        ):
            # Reading makes records too: the end is that of the beginning.
            last = client.get_partition_properties("0").last_enqueued_sequence_number
            number = -1
            while number < last:
                for event in consumer.receive_batch(5_000, 10.0):
                    number = event.sequence_number or 0
                    record = json.loads(bytes(event.body))
                    if record["entity"] == QUEUE:
                        counted[record["operation"], "count"] += record["count"]
                        counted[record["operation"], "units"] += record["billable_units"]
        return counted

    def metered(self) -> Counter[tuple[str, str]]:
        counted: Counter[tuple[str, str]] = Counter()
        with contextlib.suppress(TandemError):
            for row in read_results(str(self.out)).costs:
                if row["entity"] == QUEUE:
                    counted[row["operation"], "count"] += row["operations"]
                    counted[row["operation"], "units"] += row["units"]
        return counted

    def has_each_window_once(self) -> bool:
        for name in ("costs", "latencies"):
            table = sum_table(self.out, name)
            rows = table.rows().to_pylist()
            keys = Counter(tuple(row[key] for key in row if key not in table.sums) for row in rows)
            if max(keys.values(), default=1) > 1:
                return False
        return True

    def report(self) -> dict[str, Any]:
        _until(self.is_captured, CATCH_UP_S)
        _until(lambda: self.recorded() == self.metered(), CATCH_UP_S)
        _until(lambda: len(read_results(str(self.out)).outages) == self.outages, CATCH_UP_S)
        health = json.loads(self.get("/health") or "{}")
        code = self.stop()
        captured = self._captured()
        third = max(1, len(self.samples) // 3)
        parts = {"first": self.samples[:third], "last": self.samples[-third:]} if self.samples else {}
        return {
            "events": {"acknowledged": self.acknowledged, "captured": captured.total(), "is_good": self.is_captured()},
            "metered": {"sends": self.metered()["send", "count"], "is_good": self.recorded() == self.metered()},
            "has_each_window_once": self.has_each_window_once(),
            "outages": {"told": self.outages, "found": len(read_results(str(self.out)).outages)},
            "kills": dict(self.kills),
            "health": health.get("status"),
            "exit_code": code,
            "batch_s": {name: statistics.median(one[0] for one in part) for name, part in parts.items()},
            "memory_mb": {name: round(statistics.median(one[1] for one in part)) for name, part in parts.items()},
        }


def is_good(report: dict[str, Any]) -> bool:
    return bool(
        report["events"]["is_good"]
        and report["events"]["captured"] >= report["events"]["acknowledged"]
        and report["metered"]["is_good"]
        and report["has_each_window_once"]
        and report["outages"]["told"] == report["outages"]["found"]
        and report["exit_code"] == 0
    )


def _until(condition: Callable[[], bool], limit_s: float) -> None:
    """Wait, but not for ever: the report says what is not as it should be."""
    until_s = time.monotonic() + limit_s
    while not condition() and time.monotonic() < until_s:
        time.sleep(1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description="tandem pipeline run under load and kill -9")
    parser.add_argument("--seconds", type=float, default=3_600)
    parser.add_argument("--rate", type=int, default=2_000, help="events in a second")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--keep", type=Path, help="an empty folder for everything, instead of a temporary one")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-soak-")))
        reservation = PortReservation(1)
        stack.callback(reservation.close)
        broker = stack.enter_context(Broker(folder / "data"))
        soak = Soak(folder, broker, reservation.ports[0])
        soak.run(given.seconds, given.rate, given.kills, random.Random(given.seed))
        report = soak.report()
    print(json.dumps({"seed": given.seed, **report, "is_good": is_good(report)}, indent=2))
    return 0 if is_good(report) else 1


if __name__ == "__main__":
    sys.exit(main())
