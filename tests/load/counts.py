"""`python -m tests.load.counts --reads 100000`: read counts while messages move, and add them up.

Messages go round between the entities of a real broker in every way there is (`tests/load/circulation.py`). Readers ask
for the counts through each surface that reports several entities in one answer. The sum over all states is the number
of messages, in every answer: one that is smaller has missed a message on its way, one that is larger has seen it twice.

Prints one JSON object: the reads by surface, those that were wrong, and the moves by kind. The exit code is 1 if a read
was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any, Final

import aiohttp

from tandem.auth.sas import make_token
from tandem.client import MessagingFactory
from tandem.connection_string import ConnectionString
from tandem.testing import Broker
from tests.load.circulation import Circulation, ask

__all__ = ["CountTest"]

HOST: Final = "127.0.0.1"
_TOKEN_LIFETIME_S: Final = 86_400
_WORKERS: Final = 3

# The counts of an Atom feed that make up all messages of an entity.
_ATOM_COUNT: Final = re.compile(
    r"<(?:\w+:)?(?:Active|DeadLetter|Scheduled|Transfer|TransferDeadLetter)MessageCount[^>]*>(\d+)<"
)
_ATOM_ENTRY: Final = re.compile(r"<entry.*?</entry>", re.DOTALL)
_ATOM_TITLE: Final = re.compile(r"<title[^>]*>([^<]*)</title>")


class CountTest:
    """A broker, two circulations, and readers."""

    def __init__(
        self, broker: Broker, *, messages: int, reads: int, seed: int = 1, kinds: frozenset[str] = frozenset()
    ) -> None:
        """It is over after so many reads, and after a move of each of these kinds."""
        self._broker = broker
        self._messages = messages
        self._reads = reads
        self._kinds = kinds
        # The lists of queues can only add up what stays within queues.
        self._queues = Circulation(broker, "queues", has_topic=False, seed=seed)
        self._topics = Circulation(broker, "topics", has_topic=True, seed=seed + 1)
        self.read_counts: dict[str, int] = {}
        self.wrong: list[str] = []

    @property
    def moves(self) -> dict[str, int]:
        kinds = self._queues.moves.keys() | self._topics.moves.keys()
        return {kind: self._queues.moves.get(kind, 0) + self._topics.moves.get(kind, 0) for kind in sorted(kinds)}

    async def run(self) -> None:
        circulations = (self._queues, self._topics)
        for one in circulations:
            await asyncio.to_thread(one.create)
        async with (
            MessagingFactory.from_connection_string(self._broker.connection_string) as factory,
            self._http() as http,
        ):
            for one in circulations:
                await one.fill(factory, self._messages)
            async with asyncio.TaskGroup() as tasks:
                for one in circulations:
                    tasks.create_task(one.manage(http))
                    for _ in range(_WORKERS):
                        tasks.create_task(one.work(factory))
                try:
                    await asyncio.gather(
                        self._read_json(http), self._read_lists(http), self._read_atom(http), self._read_command_line()
                    )
                finally:
                    for one in circulations:
                        one.is_over = True

    def _http(self) -> aiohttp.ClientSession:
        base = f"http://{HOST}:{self._broker.http_port}/"
        parsed = ConnectionString.parse(self._broker.connection_string)
        token = make_token(base, parsed.rule_name, parsed.key, int(time.time()) + _TOKEN_LIFETIME_S)
        headers = {"Authorization": token, "Content-Type": "application/json"}
        return aiohttp.ClientSession(base, headers=headers)

    # --- readers --------------------------------------------------------------------------------------------

    @property
    def _is_read_enough(self) -> bool:
        is_moved = all(self.moves.get(kind) for kind in self._kinds)
        return is_moved and sum(self.read_counts.values()) >= self._reads

    def _judge(self, surface: str, circulation: Circulation, counts: dict[str, int]) -> None:
        """Compare the sum of these counts by entity with the number of messages."""
        mine = {path: count for path, count in counts.items() if path.startswith(f"{circulation.name}-")}
        self.read_counts[surface] = self.read_counts.get(surface, 0) + 1
        if sum(mine.values()) != self._messages:
            self.wrong.append(f"{surface}: {sum(mine.values())} of {self._messages} in {mine}")

    async def _read_json(self, http: aiohttp.ClientSession) -> None:
        while not self._is_read_enough:
            entities = (await ask(http, "GET", "/$api/v1/counts?top=1000"))["entities"]
            counts = {one["path"]: one["message_count"] for one in entities}
            self._judge("GET /counts, queues", self._queues, counts)
            self._judge("GET /counts, with topics", self._topics, counts)

    async def _read_lists(self, http: aiohttp.ClientSession) -> None:
        while not self._is_read_enough:
            queues = (await ask(http, "GET", "/$api/v1/queues?top=1000"))["queues"]
            self._judge("GET /queues", self._queues, {one["name"]: _by_state(one) for one in queues})

    async def _read_atom(self, http: aiohttp.ClientSession) -> None:
        while not self._is_read_enough:
            async with http.get("/$Resources/queues?$skip=0&$top=100&api-version=2021-05") as answer:
                entries = _ATOM_ENTRY.findall(await answer.text())
            counts: dict[str, int] = {}
            for entry in entries:
                (title,) = _ATOM_TITLE.findall(entry)[:1]
                counts[title] = sum(int(count) for count in _ATOM_COUNT.findall(entry))
            self._judge("Atom feed of queues", self._queues, counts)

    async def _read_command_line(self) -> None:
        """Read the counts as `tandem queue list` reports them. Each time takes a process, and so about a second."""
        environment = {**os.environ, "TANDEM_CONNECTION_STRING": self._broker.connection_string}
        while not self._is_read_enough:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tandem", "queue", "list", "--json"), stdout=PIPE, env=environment
            )
            listed, _ = await process.communicate()
            assert process.returncode == 0
            queues = json.loads(listed)["queues"]
            self._judge("tandem queue list", self._queues, {one["name"]: _by_state(one) for one in queues})


def _by_state(queue: dict[str, Any]) -> int:
    """Any: a queue as JSON."""
    states = ("active", "deferred", "scheduled", "dead_letter", "transfer", "transfer_dead_letter")
    return sum(int(queue[f"{state}_message_count"]) for state in states)


def main() -> int:
    parser = argparse.ArgumentParser(description="Read counts while messages move, and add them up.")
    parser.add_argument("--reads", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tandem-counts-") as folder, Broker(Path(folder)) as broker:
        test = CountTest(broker, messages=arguments.messages, reads=arguments.reads, seed=arguments.seed)
        asyncio.run(test.run())
    report = {
        "reads": sum(test.read_counts.values()),
        "wrong": len(test.wrong),
        "first_wrong": test.wrong[:5],
        "reads_by_surface": test.read_counts,
        "moves": test.moves,
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(report, indent=1))
    return 1 if test.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
