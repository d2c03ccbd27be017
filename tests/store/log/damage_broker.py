"""`python -m tests.store.log.damage_broker --faults 36 --seed 1`: the sweep of `log_damage` with a real broker.

A broker fills a hub, and is stopped or killed. Each fault is injected into a copy of its data directory, on which a
broker is started, read from over AMQP and in bulk, sent to, asked how it is, and stopped; then `tandem check` reads it.
The exit code is 1 if an event was wrong, was lost silently, or lost its number, or if the broker ended.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tandem.amqp import Message, Settings
from tandem.amqp.terminus import Source
from tandem.client.sync import EventData, EventHubClient
from tandem.connection_string import ConnectionString
from tandem.driver import Client, run
from tandem.management.http_client import HttpClient
from tandem.store.check import check
from tandem.testing import Broker
from tandem.wire_names import JSON_API
from tests.crash.driver_workers import HOST, KEY, RULE, sequence_number_of
from tests.crash.hub_run import SmallSegmentBroker
from tests.patience import wait_until
from tests.store.faults import Fault, draw_fault

__all__ = ["BrokerSweep"]

HUB: Final = "ingest"
SEALED: Final = 2_500
YOUNG: Final = 300
_KINDS: Final = ("journal", "arrow", "amqp", "sums", "marks", "folder")


def _body(number: int) -> str:
    return f"event {number} " + "x" * (number % 90)


def _send(broker: Broker, first: int, count: int) -> None:
    with EventHubClient.from_connection_string(broker.connection_string, HUB) as client, client.create_producer() as to:
        to.send_batch([EventData(_body(number)) for number in range(first, first + count)], partition_id="0")


class BrokerSweep:
    """Some faults, and what came of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(seed)
        self.outcomes: Counter[str] = Counter()
        self.broken: list[str] = []
        self._homes = [self._make("stopped"), self._make("killed")]

    def _make(self, name: str) -> Path:
        home = self._folder / name
        with SmallSegmentBroker(home) as broker:
            broker.create_hub(HUB, partition_count=1)
            _send(broker, 0, SEALED)
            wait_until(lambda: bool(list(home.rglob("*.arrow"))), "until events are sealed")
            for first in range(SEALED, SEALED + YOUNG, 50):
                _send(broker, first, 50)
            if name == "killed":
                broker.kill()
        return home

    def run(self, faults: int) -> None:
        for number in range(faults):
            home = self._homes[number % 2]
            kind = _KINDS[number % len(_KINDS)]
            fault = self._draw(home, kind)
            copy = self._folder / f"fault-{number}"
            shutil.copytree(home, copy)
            try:
                outcome = self._judged(copy, fault)
            except Exception as error:
                self.broken.append(f"{home.name}, {fault}: {error!r}")
                outcome = "broken"
            self.outcomes[f"{kind}: {outcome}"] += 1
            shutil.rmtree(copy)

    def _draw(self, home: Path, kind: str) -> Fault:
        if kind == "folder":
            path = self._chance.choice([home / "hubs", *(one for one in (home / "hubs").rglob("*") if one.is_dir())])
            return Fault(str(path.relative_to(home)), "missing", 0, 0)
        found = [home / "hubs.marks"] if kind == "marks" else sorted((home / "hubs").rglob(f"*.{kind}"))
        path = self._chance.choice(found)
        return draw_fault(self._chance, path, str(path.relative_to(home)))

    def _judged(self, home: Path, fault: Fault) -> str:
        if (home / fault.file).is_dir():
            shutil.rmtree(home / fault.file)
        else:
            fault.inject(home)
        total = SEALED + YOUNG
        with SmallSegmentBroker(home) as broker:
            assert broker.partitions(HUB)[0]["next_sequence_number"] == total, "numbers are lost"
            _send(broker, total, 10)
            found = run(_read(broker.port, total + 9))
            rows = _read_bulk(broker)
            told = broker.request("GET", "/$api/v1/diagnosis")
            assert broker.is_running
            assert broker.stop() == 0
        for number, body in [*found.items(), *rows.items()]:
            assert body == _body(number).encode(), f"event {number} is wrong"
        lost = set(range(total + 10)) - set(found) | set(range(total + 10)) - set(rows)
        findings = check(home).findings
        if lost:
            assert told["status"] == "damaged", "events are lost, and the broker is well"
            assert any("partition 0, event" in one["unit"] for one in told["damages"]), told["damages"]
            assert any(f"hub '{HUB}' partition 0, event" in one for one in findings), findings
            return "reported, events lost"
        return "reported, nothing lost" if findings or told["damages"] else "harmless"


async def _read(port: int, last: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    settings = Settings("damage", user=RULE, password=KEY)
    async with await Client.connect(HOST, port, settings) as client:
        source = Source(f"{HUB}/ConsumerGroups/$Default/Partitions/0")
        receiver = await client.receiver(source, credit=1_000, is_settled=True)
        while last not in found:
            delivery = await receiver.receive()
            found[sequence_number_of(delivery)] = Message(delivery.payload).data or b""
    return found


def _read_bulk(broker: Broker) -> dict[int, bytes]:
    client = HttpClient(ConnectionString.parse(broker.connection_string), timeout_s=60)
    for _ in range(50):
        try:
            with client.open("GET", f"{JSON_API}/hubs/{HUB}/partitions/0/events?from=0") as answer:
                table = pa.ipc.open_stream(io.BytesIO(answer.read())).read_all()
        except (http.client.HTTPException, OSError, pa.ArrowInvalid):
            # Broken off: the next one knows what is missing.
            continue
        bodies = table.column("body").to_pylist()
        return dict(zip(table.column("sequenceNumber").to_pylist(), bodies, strict=True))
    raise AssertionError("a bulk read is broken off again and again")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=36)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path, default=Path("build/log-damage-broker.json"))
    options = parser.parse_args()
    started_at = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tandem-log-damage-") as folder:
        sweep = BrokerSweep(Path(folder), options.seed)
        sweep.run(options.faults)
    report: dict[str, Any] = {
        "seed": options.seed,
        "faults": options.faults,
        "outcomes": dict(sorted(sweep.outcomes.items())),
        "broken": sweep.broken,
        "seconds": round(time.monotonic() - started_at, 1),
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report), file=sys.stderr)
    return 1 if sweep.broken else 0


if __name__ == "__main__":
    sys.exit(main())
