"""`python -m tests.load.starvation [--seconds 10] [--only TEXT] [--output FILE]`: how long neighbours have to wait.

A broker as users run it, one kind of attacker at a time in a process of its own, and three neighbours whose requests
are timed: a message sent and received over AMQP, a queue read over HTTP, and a client that connects anew. Prints a
table in Markdown and writes the same as JSON. Nothing is asserted: the figures depend on the machine.

Each wait is measured twice: by the clock, and by what the broker's event loop computed meanwhile. The second is what
the attacker is to blame for, also on a machine that is busy with other things.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import aiohttp

from tandem.amqp.message import encode_message
from tandem.auth.sas import make_token
from tandem.bench.measuring.machine import resident_bytes
from tandem.driver import Client, run
from tandem.testing import Broker
from tests.load.attackers import ATTACKERS, KEY, PEEKED_QUEUE, TEXT_TOPIC, USER
from tests.load.clients import connect

__all__ = ["measure"]

# Seconds between two requests of a neighbour.
PAUSE_S: Final = 0.005

# Seconds. A neighbour that waits longer is cut off, and counts with so much.
LONGEST_S: Final = 30.0

FILTERS: Final = 2_000
PEEKED_MESSAGES: Final = 1_000


def loop_seconds(pid: int) -> float:
    """What the thread of the event loop has had of the cores so far."""
    nanoseconds = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]
    return int(nanoseconds) / 1e9


class Neighbour:
    """Requests, one after the other, and how long each has taken."""

    def __init__(self, name: str, request: Callable[[], Awaitable[None]], pid: int) -> None:
        self.name = name
        self._pid = pid
        self.computed_s: list[float] = []
        self._request = request
        self.waits_s: list[float] = []
        self.failures: list[str] = []

    async def work_until(self, ends_at: float) -> None:
        while time.monotonic() < ends_at:
            began_at, computed_s = time.perf_counter(), loop_seconds(self._pid)
            try:
                await asyncio.wait_for(self._request(), LONGEST_S)
            except Exception as error:
                self.failures.append(repr(error))
            self.waits_s.append(time.perf_counter() - began_at)
            self.computed_s.append(loop_seconds(self._pid) - computed_s)
            await asyncio.sleep(PAUSE_S)

    def figures(self) -> dict[str, object]:
        return {
            "count": len(self.waits_s),
            "waited": _quantiles(self.waits_s),
            "computed": _quantiles(self.computed_s),
            "failures": self.failures[:3],
        }


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    places = {"p50_ms": len(ordered) // 2, "p99_ms": len(ordered) * 99 // 100, "max_ms": len(ordered) - 1}
    return {name: round(1_000 * ordered[min(place, len(ordered) - 1)], 1) for name, place in places.items()}


async def _neighbours(broker: Broker, opened: list[Client], session: aiohttp.ClientSession) -> list[Neighbour]:
    client = await connect(broker, "neighbour")
    opened.append(client)
    sender = await client.sender("neighbour")
    receiver = await client.receiver("neighbour")
    payload = encode_message(data=b"x" * 100)

    async def send_and_receive() -> None:
        await sender.send(payload)
        receiver.settle(await receiver.receive())

    base = f"http://127.0.0.1:{broker.http_port}"
    token = make_token(base, USER, KEY, 4_102_444_800)

    async def read_queue() -> None:
        async with session.get(f"{base}/$api/v1/queues/neighbour", headers={"Authorization": token}) as response:
            response.raise_for_status()
            await response.read()

    async def come_anew() -> None:
        async with await connect(broker, "newcomer") as newcomer:
            await newcomer.sender("neighbour")

    return [
        Neighbour("send and receive", send_and_receive, broker.pid),
        Neighbour("HTTP", read_queue, broker.pid),
        Neighbour("connect and attach", come_anew, broker.pid),
    ]


async def _attacked(broker: Broker, name: str, seconds: float) -> dict[str, object]:
    opened: list[Client] = []
    async with aiohttp.ClientSession() as session:
        neighbours = await _neighbours(broker, opened, session)
        attacker: subprocess.Popen[str] | None = None
        if ATTACKERS[name][0]:
            attacker = await asyncio.to_thread(
                subprocess.Popen,
                [sys.executable, "-m", "tests.load.attackers", name, str(broker.port), str(seconds + 2)],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert attacker.stdout is not None
            await asyncio.to_thread(attacker.stdout.readline)
            # The attack has to be under way: what is measured before would look better than it is.
            await asyncio.sleep(0.5)
        before = resident_bytes(broker.pid)
        ends_at = time.monotonic() + seconds
        try:
            await asyncio.gather(*(neighbour.work_until(ends_at) for neighbour in neighbours))
        finally:
            if attacker is not None:
                attacker.kill()
                attacker.wait()
                assert attacker.stdout is not None
                attacker.stdout.close()
        grown = resident_bytes(broker.pid) - before
        for client in opened:
            await asyncio.wait_for(client.close(), LONGEST_S)
    return {"grown_mb": round(grown / 1e6, 1), **{one.name: one.figures() for one in neighbours}}


def measure(name: str, seconds: float) -> dict[str, object]:
    """Figures of all neighbours beside one kind of attacker, on a broker of their own."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        for queue in ("neighbour", "attacked", PEEKED_QUEUE):
            broker.create_queue(queue)
        if "LIKE" in name:
            broker.create_topic(TEXT_TOPIC)
            rules = [
                {"name": f"r{number}", "filter": {"kind": "sql", "expression": f"text LIKE '%a_a%b{number}%'"}}
                for number in range(FILTERS)
            ]
            broker.request("PUT", f"/$api/v1/topics/{TEXT_TOPIC}/subscriptions/all", {"rules": rules})
        if "peek" in name or "disposition" in name:
            run(_fill(broker))
        return run(_attacked(broker, name, seconds))


async def _fill(broker: Broker) -> None:
    async with await connect(broker, "filler") as client:
        sender = await client.sender(PEEKED_QUEUE)
        payload = encode_message(data=b"x" * 1_000)
        await asyncio.gather(*(sender.send(payload) for _ in range(PEEKED_MESSAGES)))


def _row(name: str, figures: dict[str, object]) -> str:
    cells = [name]
    for neighbour in ("send and receive", "HTTP", "connect and attach"):
        one = figures[neighbour]
        assert isinstance(one, dict)
        failed = f" ({len(one['failures'])} failed)" if one["failures"] else ""
        for figures_ms in (one["waited"], one["computed"]):
            cells += [f"{figures_ms['p50_ms']} / {figures_ms['p99_ms']} / {figures_ms['max_ms']}{failed}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--output", type=Path, default=Path("starvation.json"))
    chosen = parser.parse_args()
    results: dict[str, object] = {}
    print("| attacker | send and receive | of that, computing | HTTP | computing | connect and attach | computing |")
    print("|---|---|---|---|---|---|---|")
    for name in ATTACKERS:
        if chosen.only in name:
            results[name] = figures = measure(name, chosen.seconds)
            print(_row(name, figures), flush=True)
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    chosen.output.write_text(json.dumps({"machine": machine, "seconds": chosen.seconds, "results": results}, indent=1))


if __name__ == "__main__":
    main()
