"""A syphon that is killed with SIGKILL at every step of moving a message. Networks and faults hold it at the step."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest

from tandem.client import BrokeredMessage, MessagingFactory
from tandem.pairing import Syphon
from tandem.pairing.backlog import backlog_queue_path
from tandem.pairing.rewriting import rewrite
from tandem.testing import Broker, ChaosProxy
from tests.cli.program import PROGRAM, TIME_LIMIT_S, environment
from tests.markers import mission
from tests.pairing.hurry import heal, inject
from tests.patience import until


@dataclass
class Stage:
    """One message in a backlog queue, and both namespaces behind networks that can be held up."""

    primary: Broker
    secondary: Broker
    queue: str
    to_primary: ChaosProxy
    to_secondary: ChaosProxy

    @property
    def namespace(self) -> str:
        return f"killed-{self.queue}"

    @property
    def path(self) -> str:
        return backlog_queue_path(self.namespace, 0)

    @property
    def left_count(self) -> int:
        return int(self.secondary.queue(self.path)["message_count"])

    @property
    def arrived_count(self) -> int:
        return int(self.primary.queue(self.queue)["message_count"])

    @property
    def hit_count(self) -> int:
        """How often the fault in the primary was met."""
        return sum(fault["hit_count"] for fault in self.primary.request("GET", "/$api/v1/faults")["faults"])

    def make_backlog_queue(self) -> None:
        # A lock that does not end while a step is being reached, however long that takes.
        self.secondary.create_queue(self.path, lock_duration_ms=300_000, max_delivery_count=2**31 - 1)

    async def put(self) -> None:
        async with MessagingFactory.from_connection_string(self.secondary.connection_string) as factory:
            await factory.create_queue_client(self.path).send(
                rewrite(BrokeredMessage("survivor", message_id="one"), self.queue)
            )

    @contextlib.contextmanager
    def syphon(self) -> Iterator[subprocess.Popen[str]]:
        """As users run it."""
        command = ["syphon", "run", "--backlog-queues", "1", "--primary-namespace", self.namespace]
        command += ["--connection-string", _proxied(self.primary, self.to_primary)]
        command += ["--secondary", _proxied(self.secondary, self.to_secondary)]
        with subprocess.Popen(
            [*PROGRAM, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment()
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def _proxied(broker: Broker, proxy: ChaosProxy) -> str:
    return broker.connection_string.replace(f":{broker.port}", f":{proxy.port}")


@pytest.fixture
async def stage(primary: Broker, secondary: Broker, name: str) -> AsyncIterator[Stage]:
    async with (
        ChaosProxy("127.0.0.1", primary.port) as to_primary,
        ChaosProxy("127.0.0.1", secondary.port) as to_secondary,
    ):
        yield Stage(primary, secondary, name, to_primary, to_secondary)


# Each arranges that the syphon comes to a step and no further, and returns when it is there.
Reach = Callable[[Stage], Awaitable[None]]


async def received(stage: Stage) -> None:
    """It has the message, and the primary holds up the send. (While the primary is away it receives nothing.)"""
    inject(stage.primary, "stall", stage.queue, operations=["sends"], delay_ms=900_000)
    await stage.put()
    await until(lambda: stage.hit_count > 0, "the message is on its way to the primary")
    assert (stage.left_count, stage.arrived_count) == (1, 0)


async def taken(stage: Stage) -> None:
    """The primary has the message, and has not said so."""
    inject(stage.primary, "timeout", stage.queue, operations=["sends"], perform=True)
    await stage.put()
    await until(lambda: stage.arrived_count == 1, "the primary has it")
    assert stage.left_count == 1


async def answered(stage: Stage) -> None:
    """The syphon knows that the primary has it, and its completion does not reach the secondary."""
    await received(stage)
    stage.to_secondary.to_server.is_stalled = True
    heal(stage.primary)
    await until(lambda: stage.to_secondary.to_server.waiting_pieces > 0, "the completion is on its way")
    assert (stage.left_count, stage.arrived_count) == (1, 1)


async def completed(stage: Stage) -> None:
    """The secondary has taken the completion, and the syphon does not hear of it."""
    await received(stage)
    stage.to_secondary.to_client.is_stalled = True
    heal(stage.primary)
    await until(lambda: stage.left_count == 0, "the message is completed")
    assert stage.arrived_count == 1


async def moved(stage: Stage) -> None:
    """All is done."""
    await stage.put()
    await until(lambda: stage.left_count == 0, "the message is completed")
    assert stage.arrived_count == 1


@mission("M26")
@pytest.mark.parametrize(
    "reach, detects_duplicates, arrivals",
    [
        (received, False, 1),
        (taken, False, 2),
        (taken, True, 1),
        (answered, False, 2),
        (answered, True, 1),
        (completed, False, 1),
        (moved, False, 1),
    ],
    ids=["received", "taken", "taken-detecting", "answered", "answered-detecting", "completed", "moved"],
)
async def test_a_syphon_that_is_killed_at_any_step_loses_nothing(
    stage: Stage, reach: Reach, detects_duplicates: bool, arrivals: int
) -> None:
    stage.primary.create_queue(stage.queue, requires_duplicate_detection=detects_duplicates)
    stage.make_backlog_queue()
    with stage.syphon() as process:
        assert process.stdout is not None
        assert (await asyncio.to_thread(process.stdout.readline)).startswith("ready")
        await reach(stage)
        process.kill()
        assert process.wait(TIME_LIMIT_S) < 0
    # What is still in the network is gone with it.
    stage.to_primary.close()
    stage.to_secondary.close()
    heal(stage.primary)
    # Locks are kept in memory only: what the killed one held comes to its successor without waiting for their end.
    await asyncio.to_thread(stage.secondary.restart)
    async with (
        MessagingFactory.from_connection_string(stage.primary.connection_string) as primary,
        MessagingFactory.from_connection_string(stage.secondary.connection_string) as secondary,
    ):
        successor = Syphon(primary, secondary, [stage.path], lambda told: None)
        successor.start()
        await until(lambda: stage.left_count == 0, "the backlog is empty")
        await successor.close()
    assert stage.arrived_count == arrivals, "twice at worst, and never not at all"
