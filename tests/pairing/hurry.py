"""A pair of real brokers, and a client whose seconds pass fifty times as fast as those on the wall."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from tandem.client import MessagingFactory, MessagingFactorySettings, NamespaceManager, Waiting
from tandem.pairing import PairingEvent, SendAvailabilityPairedNamespaceOptions
from tandem.testing import Broker

# With it the ten seconds of a failover interval are a fifth of one, and the minute between pings is a little over one.
SPEED: Final = 50.0

# Seconds on the wall. Nothing in these tests takes as long unless it is broken.
PATIENCE_S: Final = 20.0

_numbers = itertools.count(1)


class Hurry(Waiting):
    """Time that passes quickly. What is scheduled far off, such as the renewal of a token, stays there."""

    def now_s(self) -> float:
        return time.monotonic() * SPEED

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s / SPEED)


# Longer than usual, by as much as time runs faster.
SETTINGS: Final = MessagingFactorySettings(operation_timeout=timedelta(minutes=10), waiting=Hurry())


def impatient_factory(primary: Broker, seconds: float = 3.0) -> MessagingFactory:
    """In time as it is, and with little of it."""
    settings = MessagingFactorySettings(operation_timeout=timedelta(seconds=seconds))
    return MessagingFactory.from_connection_string(primary.connection_string, settings)


async def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for something that another task or process does."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"in vain: {what}"
        await asyncio.sleep(0.02)


class PairUnderTest:
    """Two factories, paired as a test wants it, with the events that they tell."""

    def __init__(self, primary: Broker, secondary: Broker) -> None:
        self.primary_broker = primary
        self.secondary_broker = secondary
        # One of its own for each test: the backlog queues are named after it.
        self.namespace = f"namespace-{next(_numbers)}"
        self.primary = MessagingFactory.from_connection_string(primary.connection_string, SETTINGS)
        self.secondary = MessagingFactory.from_connection_string(secondary.connection_string, SETTINGS)
        self.manager = NamespaceManager.from_connection_string(secondary.connection_string, SETTINGS)
        self.events: list[PairingEvent] = []

    def options(self, **chosen: Any) -> SendAvailabilityPairedNamespaceOptions:
        given = {
            "backlog_queue_count": 3,
            "primary_namespace": self.namespace,
            "listener": self.events.append,
            **chosen,
        }
        return SendAvailabilityPairedNamespaceOptions(self.manager, self.secondary, **given)

    async def pair(self, **chosen: Any) -> None:
        await self.primary.pair_namespace(self.options(**chosen))

    async def close(self) -> None:
        await asyncio.gather(self.primary.close(), self.secondary.close())

    def backlog(self) -> dict[int, int]:
        """How many messages each backlog queue has."""
        prefix = f"{self.namespace}/x-servicebus-transfer/"
        queues = [queue for queue in self.secondary_broker.queues() if queue["name"].startswith(prefix)]
        return {int(queue["name"].removeprefix(prefix)): queue["active_message_count"] for queue in queues}

    def told(self, event: str, entity: str | None = None) -> list[PairingEvent]:
        return [one for one in self.events if one["event"] == event and entity in {None, one["entity"]}]


def inject(broker: Broker, kind: str, entity: str | None = None, **fields: Any) -> None:
    """Let a broker fail on purpose, until its faults are cleared."""
    broker.request("POST", "/$api/v1/faults", {"kind": kind, "entity": entity, **fields})


def heal(broker: Broker) -> None:
    broker.request("DELETE", "/$api/v1/faults")
