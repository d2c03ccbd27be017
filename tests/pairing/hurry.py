"""A pair of real brokers, and a client whose seconds pass fifty times as fast as those on the wall."""

from __future__ import annotations

import asyncio
import itertools
import time
from datetime import timedelta
from typing import Any, Final

from tandem.client import MessagingFactory, MessagingFactorySettings, NamespaceManager, Waiting
from tandem.pairing import PairingEvent, SendAvailabilityPairedNamespaceOptions
from tandem.testing import Broker

# With it the ten seconds of a failover interval are a fifth of one, and the minute between pings is a little over one.
SPEED: Final = 50.0

_numbers = itertools.count(1)


class Hurry(Waiting):
    """Time that passes quickly. What is scheduled far off, such as the renewal of a token, stays there."""

    def now_s(self) -> float:
        return time.monotonic() * SPEED

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s / SPEED)


class SetTime(Waiting):
    """Time that passes only when a test advances it."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now_s(self) -> float:
        return self._now_s

    async def sleep(self, delay_s: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now_s + delay_s, woken))
        await woken

    def is_awaited(self, delay_s: float) -> bool:
        """Whether somebody sleeps until exactly that much later."""
        return any(due_s == self._now_s + delay_s and not woken.done() for due_s, woken in self._sleepers)

    def advance(self, delay_s: float) -> None:
        """Wake everybody who sleeps until then."""
        self._now_s += delay_s
        for due_s, woken in self._sleepers:
            if due_s <= self._now_s and not woken.done():
                woken.set_result(None)


# An hour: a little over one minute on the wall.
SETTINGS: Final = MessagingFactorySettings(operation_timeout=timedelta(hours=1), waiting=Hurry())


def impatient_factory(
    primary: Broker, operation_timeout: timedelta, waiting: Waiting | None = None
) -> MessagingFactory:
    """One that gives up soon; in time as it is unless another is given."""
    settings = MessagingFactorySettings(operation_timeout=operation_timeout, waiting=waiting or Waiting())
    return MessagingFactory.from_connection_string(primary.connection_string, settings)


class PairUnderTest:
    """Two factories, paired as a test wants it, with the events that they tell."""

    def __init__(self, primary: Broker, secondary: Broker, settings: MessagingFactorySettings = SETTINGS) -> None:
        self.primary_broker = primary
        self.secondary_broker = secondary
        # One of its own for each test: the backlog queues are named after it.
        self.namespace = f"namespace-{next(_numbers)}"
        self.primary = MessagingFactory.from_connection_string(primary.connection_string, settings)
        self.secondary = MessagingFactory.from_connection_string(secondary.connection_string, settings)
        self.manager = NamespaceManager.from_connection_string(secondary.connection_string, settings)
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
