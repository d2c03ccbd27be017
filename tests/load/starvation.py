"""`python -m tests.load.starvation [--seconds 10] [--only TEXT] [--before DIR]`: how long neighbours of attackers wait.

A broker as users run it, one kind of attacker at a time in a process of its own, and three neighbours whose requests
are timed: a message sent and received over AMQP, a queue read over HTTP, and a client that connects anew. `--before`
names a checkout of an earlier commit, made ready with `make setup`, whose broker is attacked as well, in turn. Prints
tables in Markdown and writes the same as JSON. Nothing is asserted: the figures depend on the machine.

Each wait is measured twice: by the clock, and by what the broker's event loop computed meanwhile. The second is what
the attacker is to blame for, also on a machine that is busy with other things.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp

import tandem
from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import encode_message
from tandem.auth.sas import make_token
from tandem.driver import Client, run
from tandem.pages.origin import machine_text
from tandem.testing import Broker
from tests.load.attackers import (
    ACTED_TOPIC,
    ATTACKED_QUEUE,
    ATTACKERS,
    HELD_MESSAGES,
    KEY,
    PEEKED_QUEUE,
    SESSIONS_QUEUE,
    TEXT_TOPIC,
    USER,
    WIDE_TOPIC,
)
from tests.load.checkouts import broker_of
from tests.load.clients import connect
from tests.load.memory import Sampler

__all__ = ["measure"]

# Seconds between two requests of a neighbour.
PAUSE_S: Final = 0.005

# Seconds. A neighbour that waits longer is cut off, and counts with so much.
LONGEST_S: Final = 30.0

RULES: Final = 2_000
SUBSCRIPTIONS: Final = 2_000
# As many as fit into one request.
RULES_AT_ONCE: Final = 500
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
        sampler = Sampler(broker.pid)
        sampler.start()
        ends_at = time.monotonic() + seconds
        try:
            await asyncio.gather(*(neighbour.work_until(ends_at) for neighbour in neighbours))
        finally:
            if attacker is not None:
                attacker.kill()
                attacker.wait()
                assert attacker.stdout is not None
                attacker.stdout.close()
            sampler.stop()
        grown = sampler.peak_bytes - sampler.before_bytes
        for client in opened:
            await asyncio.wait_for(client.close(), LONGEST_S)
    return {"grown_mb": round(grown / 1e6, 1), **{one.name: one.figures() for one in neighbours}}


def measure(name: str, seconds: float, kind: type[Broker] = Broker) -> dict[str, object]:
    """Figures of all neighbours beside one kind of attacker, on a broker of their own."""
    with tempfile.TemporaryDirectory() as folder, kind(Path(folder)) as broker:
        for queue in ("neighbour", ATTACKED_QUEUE, PEEKED_QUEUE):
            broker.create_queue(queue, max_size_in_megabytes=10_240, max_message_size_in_kilobytes=1_024)
        for words, make_ready in PREPARATIONS.items():
            if any(word in name for word in words):
                make_ready(broker)
        return run(_attacked(broker, name, seconds))


def _make_texts(broker: Broker) -> None:
    broker.create_topic(TEXT_TOPIC)
    rules = [
        {"name": f"r{number}", "filter": {"kind": "sql", "expression": f"text LIKE '%a_a%b{number}%'"}}
        for number in range(RULES)
    ]
    broker.request("PUT", f"/$api/v1/topics/{TEXT_TOPIC}/subscriptions/all", {"rules": rules})


def _make_wide(broker: Broker) -> None:
    broker.create_topic(WIDE_TOPIC, max_size_in_megabytes=10_240)
    for number in range(SUBSCRIPTIONS):
        broker.create_subscription(WIDE_TOPIC, f"s{number}")


def _make_acted(broker: Broker) -> None:
    broker.create_topic(ACTED_TOPIC, max_size_in_megabytes=10_240)
    rules = [
        {"name": f"r{number}", "filter": {"kind": "true"}, "action": {"expression": f"SET a = a + '{number}'"}}
        for number in range(RULES)
    ]
    for first in range(0, RULES, RULES_AT_ONCE):
        some = {"rules": rules[first : first + RULES_AT_ONCE]}
        broker.request("PUT", f"/$api/v1/topics/{ACTED_TOPIC}/subscriptions/s{first}", some)


def _make_sessions(broker: Broker) -> None:
    broker.create_queue(SESSIONS_QUEUE, requires_session=True)


# By words of an attacker's name: what it needs.
PREPARATIONS: Final[dict[tuple[str, ...], Callable[[Broker], None]]] = {
    ("LIKE",): _make_texts,
    ("subscriptions",): _make_wide,
    ("actions",): _make_acted,
    ("sessions",): _make_sessions,
    ("peek", "answers"): lambda broker: run(_fill(broker, PEEKED_QUEUE, PEEKED_MESSAGES, 1_000)),
    ("disposition", "settled"): lambda broker: run(_fill(broker, ATTACKED_QUEUE, HELD_MESSAGES, 1)),
}


async def _fill(broker: Broker, queue: str, count: int, body_bytes: int) -> None:
    async with await connect(broker, "filler") as client:
        sender = await client.sender(queue)
        message = encode_message(data=b"x" * body_bytes)
        for first in range(0, count, 500):
            batch = make_batch([message] * min(500, count - first))
            await sender.send(batch, message_format=BATCH_FORMAT)


# --- tables -----------------------------------------------------------------------------------------------------

NEIGHBOURS: Final = ("send and receive", "HTTP", "connect and attach")
LOOP: Final = "computed"
CLOCK: Final = "waited"

# By attacker, and by "before" or "after": the figures of all neighbours.
Results = dict[str, dict[str, dict[str, Any]]]


def _cell(figures: dict[str, Any], neighbour: str, clock: str) -> str:
    one = figures[neighbour]
    failed = f" ({len(one['failures'])} failed)" if one["failures"] else ""
    return " / ".join([f"{one[clock][figure]:.0f}" for figure in ("p50_ms", "p99_ms", "max_ms")]) + failed


def _print_table(results: Results, columns: list[tuple[str, str, str, str]]) -> None:
    """A column is its title, when it was measured, whose it is, and by which clock."""
    print("\n| attacker | " + " | ".join([title for title, *_ in columns]) + " |")
    print("|---|" + "---|" * len(columns))
    for name, by_time in results.items():
        cells = [_cell(by_time[when], neighbour, clock) for _, when, neighbour, clock in columns]
        print(f"| {name} | " + " | ".join(cells) + " |")


def _print_tables(results: Results) -> None:
    times = list(next(iter(results.values())))
    print(
        "\nMilliseconds, p50 / p99 / max. Loop: computed by the event loop of the broker meanwhile. Clock: all of it."
    )
    first = NEIGHBOURS[0]
    print(f"\n{first.capitalize()}:")
    _print_table(
        results,
        [
            (f"{when}, {title}", when, first, clock)
            for when in times
            for title, clock in (("loop", LOOP), ("clock", CLOCK))
        ],
    )
    print("\nThe other two neighbours:")
    _print_table(
        results,
        [
            (f"{title}, {when}, {words}", when, neighbour, clock)
            for neighbour, title in zip(NEIGHBOURS[1:], ("HTTP", "connect"), strict=True)
            for when in times
            for words, clock in (("loop", LOOP), ("clock", CLOCK))
        ],
    )
    for clock, title in ((LOOP, "loop"), (CLOCK, "clock")):
        worst_ms, name, neighbour = max(
            (by_time["after"][neighbour][clock]["p99_ms"], name, neighbour)
            for name, by_time in results.items()
            for neighbour in NEIGHBOURS
        )
        print(f"\nWorst p99 by the {title}: {worst_ms:.0f} ms ({neighbour}, beside {name}).")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="beside each attacker")
    parser.add_argument("--only", default="", help="only attackers whose name has this in it")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--output", type=Path, default=Path("build/starvation.json"))
    chosen = parser.parse_args()
    kinds = {"after": broker_of(None)}
    if chosen.before is not None:
        kinds = {"before": broker_of(chosen.before), **kinds}
    described = f"{machine_text()}, {tandem.form()}, load average {os.getloadavg()[0]:.1f} at the start"
    print(f"{described}, {chosen.seconds:g} s beside each attacker.", flush=True)
    results: Results = {}
    for name in ATTACKERS:
        if chosen.only in name:
            results[name] = {when: measure(name, chosen.seconds, kind) for when, kind in kinds.items()}
            print(f"{name}: " + "; ".join(f"{when} {_summary(one)}" for when, one in results[name].items()), flush=True)
    _print_tables(results)
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": described, "seconds": chosen.seconds, "results": results}
    chosen.output.write_text(json.dumps(report, indent=1), encoding="utf-8")


def _summary(figures: dict[str, Any]) -> str:
    return f"{_cell(figures, NEIGHBOURS[0], CLOCK)} ms, memory {figures['grown_mb']:+.0f} MB"


if __name__ == "__main__":
    main()
