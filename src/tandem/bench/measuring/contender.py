"""The brokers that `tandem bench queue` measures, and how a load is put on one of them."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from tandem.bench.load.job import Job, Peer
from tandem.bench.measuring.peers import FROM_A_CLONE, BenchmarkFailed, has_peers, peer_module
from tandem.connection_string import DEVELOPMENT_KEY, ROOT_RULE_NAME
from tandem.testing import Broker

__all__ = [
    "PEER_TYPES",
    "TANDEM",
    "Contender",
    "TandemBroker",
    "run_job",
    "run_load_generator",
    "run_program",
    "started_contenders",
    "tandem_broker",
]

TANDEM: Final = "tandem"
# Types of queue that RabbitMQ has.
PEER_TYPES: Final = ("classic", "quorum")

# Seconds. More than the slowest program here needs for its messages; what takes longer hangs.
LOAD_LIMIT_S: Final = 900

# Seconds. Completions that nobody waits for are on disk soon after; what takes longer was lost.
EMPTY_LIMIT_S: Final = 10.0

# Beyond the default quota of a queue, which a million messages of 1 KB would reach.
_QUEUE: Final[Mapping[str, Any]] = {"max_size_in_megabytes": 81_920, "lock_duration_ms": 300_000}


class Contender(Protocol):
    """A broker under measurement."""

    @property
    def name(self) -> str: ...

    @property
    def peer(self) -> Peer: ...

    def address(self, queue: str) -> str:
        """Where a load finds the queue of that name."""

    def require_empty(self, queue: str) -> None:
        """Fail if completed messages are still there: their rate would be worth nothing."""


class TandemBroker:
    """`tandem serve` with everything durable, as a user starts it."""

    name = TANDEM

    def __init__(self, broker: Broker, queues: Sequence[str]) -> None:
        self.broker = broker
        for queue in queues:
            broker.create_queue(queue, **_QUEUE)

    @property
    def peer(self) -> Peer:
        return Peer("127.0.0.1", self.broker.port, ROOT_RULE_NAME, DEVELOPMENT_KEY)

    def address(self, queue: str) -> str:
        return queue

    def require_empty(self, queue: str) -> None:
        deadline = time.monotonic() + EMPTY_LIMIT_S
        while left := self.broker.queue(queue)["message_count"]:
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"{left} messages of queue {queue!r} are still there after they were completed")
            time.sleep(0.05)


@contextlib.contextmanager
def tandem_broker(queues: Sequence[str], *arguments: str) -> Iterator[TandemBroker]:
    """A Tandem over an empty temporary folder, with further arguments of `tandem serve`."""
    with (
        tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder,
        Broker(Path(folder), arguments=("--dev", *arguments)) as broker,
    ):
        yield TandemBroker(broker, queues)


@contextlib.contextmanager
def started_contenders(
    peer_types: Sequence[str], queues: Sequence[str], say: Callable[[str], None]
) -> Iterator[list[Contender]]:
    """Tandem, and the asked for types of queue of a RabbitMQ if one is installed. All run at once; the load never
    does."""
    with contextlib.ExitStack() as stack:
        contenders: list[Contender] = [stack.enter_context(tandem_broker(queues))]
        if peer_types and not has_peers():
            say(f"There are no ratios to RabbitMQ: {FROM_A_CLONE}.")
        elif peer_types:
            contenders += stack.enter_context(peer_module("rabbitmq").started_queues(peer_types, queues, say))
        yield contenders


def run_job(job: Job) -> dict[str, float]:
    """One job of our own load generator, in a process of its own, to its end."""
    return run_program("tandem.bench.load.traffic", job)


def run_program(module: str | Path, job: msgspec.Struct) -> dict[str, float]:
    """A module, or a file, that takes its job as JSON and prints figures, in a process of its own, to its end."""
    program = [str(module)] if isinstance(module, Path) else ["-m", module]
    command = [sys.executable, *program, msgspec.json.encode(job).decode()]
    finished = _finished(command, None)
    figures: dict[str, float] = msgspec.json.decode(finished, type=dict[str, float])
    return figures


def run_load_generator(program: str, job: Job) -> float:
    """One run of a load generator of others: MODE URL ADDRESS COUNT BODY_BYTES. The rate is the first number before
    `msg/s`, or in its line of JSON."""
    url = f"amqp://{job.peer.host}:{job.peer.port}"
    command = [program, job.mode, url, job.addresses[0], str(job.count), str(job.body_bytes)]
    user, password = job.peer.user or "", job.peer.password or ""
    # The names that generators of this kind take.
    credentials = {"AMQP_USER": user, "AMQP_PASSWORD": password, "USER_": user, "PASSWORD": password}
    output = _finished(command, credentials)
    found = re.search(r"([\d.]+) msg/s|\"messages_per_second\": ([\d.]+)", output)
    if found is None:
        raise BenchmarkFailed(f"the load generator printed no rate: {' '.join(command)}: {output.strip()}")
    return float(found.group(1) or found.group(2))


def _finished(command: list[str], environment: Mapping[str, str] | None) -> str:
    try:
        finished = subprocess.run(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LOAD_LIMIT_S,
        )
    except OSError as error:
        raise BenchmarkFailed(f"the load generator cannot be started: {command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise BenchmarkFailed(f"the load generator took more than {LOAD_LIMIT_S} s: {' '.join(command)}") from None
    if finished.returncode:
        said = (finished.stderr or finished.stdout).strip()
        raise BenchmarkFailed(f"the load generator failed: {' '.join(command)}: {said}")
    return finished.stdout
