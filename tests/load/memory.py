"""`python -m tests.load.memory [--only NAME]`: the memory that one authenticated connection makes a broker hold.

Each attack of `tests.load.attacks` meets a broker of its own, in a child process over the same data. Its resident
memory is read every few milliseconds, and the growth from before the attack to the peak is the figure. The report is a
table and one JSON object; the exit code is 1 if an attack takes more than the bound of docs/limits.md.

How much memory the broker counts itself, which does not depend on the machine, is in `tests/load/test_memory.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tandem.amqp import Settings
from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.delivery_states import Modified
from tandem.amqp.message import encode_message
from tandem.bench.measuring.machine import resident_bytes
from tandem.driver import Client
from tandem.limits import MAX_CONNECTION_BYTES
from tandem.pages.origin import machine_text
from tandem.testing import Broker
from tests.load import attacks
from tests.load.attacks import ATTACKS, Ports
from tests.load.clients import connect

__all__ = ["fill", "measure"]

# Seconds between two looks at the memory of the broker.
SAMPLE_INTERVAL_S: Final = 0.005

BIG_MESSAGES: Final = 800
SMALL_MESSAGES: Final = 200_000
MANY_QUEUES: Final = 40
MESSAGES_EACH: Final = 20
DEFERRED_MESSAGES: Final = 200
RULES: Final = 500
EVENTS: Final = 96


class Sampler(threading.Thread):
    """Reads the resident memory of a process until it is stopped."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._is_over = threading.Event()
        self.before_bytes = self.peak_bytes = self.last_bytes = resident_bytes(pid)

    def run(self) -> None:
        while not self._is_over.wait(SAMPLE_INTERVAL_S):
            self.last_bytes = resident_bytes(self._pid)
            self.peak_bytes = max(self.peak_bytes, self.last_bytes)

    def stop(self) -> None:
        self._is_over.set()
        self.join()


def fill(data_dir: Path) -> None:
    """Make the entities that the attacks need, with what they hold."""
    with Broker(data_dir) as broker:
        for name in (attacks.BIG, attacks.SMALL, attacks.DEFERRED, attacks.TARGET):
            broker.create_queue(
                name, max_size_in_megabytes=10_240, lock_duration_ms=300_000, max_message_size_in_kilobytes=1_024
            )
        for number in range(MANY_QUEUES):
            broker.create_queue(f"{attacks.MANY}-{number}", lock_duration_ms=300_000)
        broker.create_queue(attacks.SESSIONS, requires_session=True)
        broker.create_topic(attacks.TOPIC)
        broker.create_subscription(attacks.TOPIC, "rules")
        for number in range(RULES):
            condition = {"kind": "sql", "expression": f"a = '{'x' * 900}{number}'"}
            broker.add_rule(attacks.TOPIC, "rules", f"rule-{number}", condition)
        broker.create_hub(attacks.HUB, partition_count=32)
        asyncio.run(_fill(broker))


async def _fill(broker: Broker) -> None:
    async with await connect(broker) as client:
        await _send(client, attacks.BIG, BIG_MESSAGES)
        for number in range(MANY_QUEUES):
            await _send(client, f"{attacks.MANY}-{number}", MESSAGES_EACH)
        sender = await client.sender(attacks.SMALL)
        for _ in range(SMALL_MESSAGES // 2_000):
            await sender.send(make_batch([attacks.TINY] * 2_000), message_format=BATCH_FORMAT)
        await _send(client, attacks.DEFERRED, DEFERRED_MESSAGES)
        receiver = await client.receiver(attacks.DEFERRED, credit=10)
        for _ in range(DEFERRED_MESSAGES):
            delivery = await receiver.receive()
            await receiver.confirm(delivery, Modified(False, True))
        event = encode_message(data=bytes(100_000))
        for partition in range(32):
            hub = await client.sender(f"{attacks.HUB}/Partitions/{partition}")
            await asyncio.gather(*(hub.send(event) for _ in range(EVENTS // 3)))


async def _send(client: Client, queue: str, count: int) -> None:
    sender = await client.sender(queue)
    for first in range(0, count, 20):
        await asyncio.gather(*(sender.send(attacks.LARGE) for _ in range(min(20, count - first))))
    await sender.close()


async def _is_served(broker: Broker) -> bool:
    """Another client still sends and receives."""
    settings = Settings("neighbour", user="RootManageSharedAccessKey", password="SAS_KEY_VALUE")
    async with await Client.connect("127.0.0.1", broker.port, settings) as client:
        sender = await client.sender(f"{attacks.MANY}-0")
        await sender.send(attacks.TINY)
    return True


def measure(data_dir: Path, name: str) -> dict[str, Any]:
    """Attack a broker over this data, and return the growth of its memory."""
    with Broker(data_dir) as broker:
        broker.queue(attacks.TARGET)
        asyncio.run(_is_served(broker))
        sampler = Sampler(broker.pid)
        sampler.start()
        written_bytes = ATTACKS[name](Ports(broker.port, broker.http_port))
        sampler.stop()
        is_served = asyncio.run(_is_served(broker))
        return {
            "attack": name,
            "written_bytes": written_bytes,
            "before_bytes": sampler.before_bytes,
            "growth_bytes": sampler.peak_bytes - sampler.before_bytes,
            "is_served": is_served and broker.is_running,
        }


def _table(results: list[dict[str, Any]]) -> Table:
    table = Table("attack", "what it does", "written MB", "growth MB", title=machine_text())
    for result in results:
        text = (ATTACKS[result["attack"]].__doc__ or "").splitlines()[0]
        written, growth = result["written_bytes"] / 1e6, result["growth_bytes"] / 1e6
        table.add_row(result["attack"], text, f"{written:,.0f}", f"{growth:,.0f}")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(ATTACKS), action="append", help="an attack; may be given several times")
    parser.add_argument("--data-dir", type=Path, help="where the entities are kept for the next run")
    parser.add_argument("--json", type=Path, default=Path("build/memory.json"), help="the report; - prints it")
    options = parser.parse_args()
    console = Console(stderr=True, width=140)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tandem-memory-") as folder:
        filled = options.data_dir or Path(folder) / "filled"
        if not filled.exists():
            fill(filled)
        for name in options.only or ATTACKS:
            data_dir = Path(folder) / "data"
            shutil.copytree(filled, data_dir)
            result = measure(data_dir, name)
            shutil.rmtree(data_dir)
            results.append(result)
            console.print(f"{name:26} {result['growth_bytes'] / 1e6:8,.1f} MB of {result['written_bytes'] / 1e6:,.0f}")
    console.print(_table(results))
    worst = max(results, key=lambda result: int(result["growth_bytes"]))
    is_kept = worst["growth_bytes"] <= MAX_CONNECTION_BYTES and all(result["is_served"] for result in results)
    report = {
        "machine": machine_text(),
        "bound_bytes": MAX_CONNECTION_BYTES,
        "worst": worst["attack"],
        "is_kept": is_kept,
        "attacks": results,
    }
    text = json.dumps(report, indent=2) + "\n"
    if options.json == Path("-"):
        print(text, end="")
    else:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text, encoding="utf-8")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
