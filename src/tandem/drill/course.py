"""One drill, from its beginning to its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from tandem.drill.account import Account, Ending
from tandem.drill.chronicle import Chronicle
from tandem.drill.drivers import Driver, Pair, make_driver
from tandem.drill.figures import make_figures
from tandem.drill.outages import outage_of
from tandem.drill.plan import NEWS, ORDERS, PAYMENTS, SUBSCRIPTION, DrillPlan
from tandem.drill.traffic import Traffic
from tandem.pairing import PairingEvent
from tandem.testing import Broker

__all__ = ["PRIMARY", "SECONDARY", "run_drill"]

# Folders of the data of both brokers.
PRIMARY: Final = "primary"
SECONDARY: Final = "secondary"

# Milliseconds. What a receiver had when its connection was dropped stays locked, and comes again after so long; that is
# no reason to dead-letter it.
_LOCK_MS: Final = 5_000
_MAX_DELIVERY_COUNT: Final = 1_000

# Seconds without a message after which those that are missing count as lost: more than a lock, and more than a syphon
# waits between two attempts.
_PATIENCE_S: Final = 30.0

# Seconds between two looks: at the states of the entities, at what is left, at how much has come.
_WATCH_INTERVAL_S: Final = 0.02
_LEFT_INTERVAL_S: Final = 0.2
_ADVANCE_INTERVAL_S: Final = 0.2


class Drill:
    """One run."""

    def __init__(self, plan: DrillPlan, folder: Path, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        arguments = ("--dev", "--allow-faults")
        self._primary, self._secondary = (Broker(folder / name, arguments=arguments) for name in (PRIMARY, SECONDARY))
        self.account = Account()
        self._chronicle = Chronicle()
        self._sentences = {
            "failing": f"failing; waiting for the failover interval of {_seconds(plan.failover_interval)}",
            "failed-over": "failed over to the secondary",
            "restored": "restored to the primary",
        }

    # Any: the figures are what is printed as JSON.
    async def run(self) -> dict[str, Any]:
        with contextlib.ExitStack() as stack:
            for broker in (self._primary, self._secondary):
                stack.callback(broker.close)
            await asyncio.gather(*(asyncio.to_thread(one.start) for one in (self._primary, self._secondary)))
            await asyncio.to_thread(self._create_entities)
            self._say("both namespaces are served")
            pair = Pair(self._primary.connection_string, self._secondary.connection_string, self._on_event)
            async with make_driver(self._plan, pair) as driver:
                left = await self._drive(driver)
                self._chronicle.ended_s = time.monotonic()
            # Closing it told the last sums of what happened.
            chronicle = self._chronicle
            ending = Ending(chronicle.failed_over, chronicle.away, driver.unanswered_count, left)
            await asyncio.gather(*(asyncio.to_thread(one.close) for one in (self._primary, self._secondary)))
        return make_figures(self._plan, self.account, self._chronicle, ending)

    def _create_entities(self) -> None:
        primary = self._primary
        detecting = {"requires_duplicate_detection": self._plan.has_duplicate_detection}
        # Any: the settings of entities have many types.
        locking: dict[str, Any] = {"lock_duration_ms": _LOCK_MS, "max_delivery_count": _MAX_DELIVERY_COUNT}
        primary.create_queue(ORDERS, **detecting, **locking)
        primary.create_queue(PAYMENTS, requires_session=True, **detecting, **locking)
        primary.create_topic(NEWS, **detecting)
        primary.create_subscription(NEWS, SUBSCRIPTION, **locking)

    def _on_event(self, event: PairingEvent) -> None:
        self._chronicle.note_event(event, time.monotonic())
        sentence = self._sentences.get(str(event["event"]))
        if sentence is not None:
            self._say(f"{event['entity']}: {sentence}")

    # --- the course -----------------------------------------------------------------------------------------

    async def _drive(self, driver: Driver) -> int:
        """Returns how many messages were left in the backlog."""
        traffic = Traffic(self._plan, driver, self.account, self._say)
        watching = asyncio.create_task(self._watch(driver))
        outage = asyncio.create_task(self._have_outage(traffic.is_under_way))
        try:
            traffic.start_receivers()
            await traffic.open_senders()
            plan = self._plan
            self._say(f"sending {plan.messages:,} messages, {plan.rate_per_second:g} in a second")
            self._chronicle.started_s = time.monotonic()
            await traffic.send_all()
            await outage
            self._say("all messages are sent; waiting until they are syphoned and received")
            left = await self._wait_for_the_rest()
            self._say(f"{len(self.account.received):,} messages are received; stopping the clients and both brokers")
            await traffic.stop_receivers()
        finally:
            for task in (watching, outage):
                task.cancel()
        return left

    async def _watch(self, driver: Driver) -> None:
        while True:
            self._chronicle.note_states(driver.states, time.monotonic())
            await asyncio.sleep(_WATCH_INTERVAL_S)

    async def _have_outage(self, is_under_way: asyncio.Event) -> None:
        await is_under_way.wait()
        outage = outage_of(self._plan)
        self._chronicle.began_s = time.monotonic()
        await asyncio.to_thread(outage.begin, self._primary)
        where = "the primary" if self._plan.entity is None else f"'{self._plan.entity}'"
        self._say(f"{where} is down ({self._plan.fault.value}) and stays down for {_seconds(self._plan.outage)}")
        await asyncio.sleep(self._plan.outage.total_seconds())
        await asyncio.to_thread(outage.end, self._primary)
        self._chronicle.returned_s = self.account.last_received_s = time.monotonic()
        self._say(f"{where} is up again; waiting for a ping, at most {_seconds(self._plan.ping_interval)}")

    async def _wait_for_the_rest(self) -> int:
        """Until all entities are back, the backlog is empty and everything was received, duplicates among it."""
        while True:
            left = await asyncio.to_thread(self._count_backlog)
            waiting = await asyncio.to_thread(self._count_waiting)
            if not (left or waiting or self.account.missing or self._chronicle.away):
                return 0
            if time.monotonic() - self.account.last_received_s > _PATIENCE_S:
                return left
            await asyncio.sleep(_LEFT_INTERVAL_S)

    def _count_backlog(self) -> int:
        return sum(int(queue["message_count"]) for queue in self._secondary.queues())

    def _count_waiting(self) -> int:
        primary = self._primary
        entities = [primary.queue(ORDERS), primary.queue(PAYMENTS), primary.subscription(NEWS, SUBSCRIPTION)]
        return sum(int(entity["message_count"]) for entity in entities)


def _seconds(time: timedelta) -> str:
    return f"{time.total_seconds():g} s"


async def run_drill(
    plan: DrillPlan, folder: Path, say: Callable[[str], None], advance: Callable[[int], object]
) -> dict[str, Any]:
    """Run a drill with its data in this folder, and return the figures.

    Calls `say` with a sentence about each event, and `advance` with the number of messages received so far.
    """
    drill = Drill(plan, folder, say)
    running = asyncio.create_task(drill.run())
    try:
        while not running.done():
            await asyncio.wait([running], timeout=_ADVANCE_INTERVAL_S)
            advance(len(drill.account.received))
    finally:
        running.cancel()
        await asyncio.wait([running])
    return running.result()
