"""One drill, from its beginning to its end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from tandem.drill.account import OWN_PREFIX, Account, Ending
from tandem.drill.chronicle import Chronicle
from tandem.drill.drivers import Driver, Pair, make_driver
from tandem.drill.figures import combine_figures, make_figures
from tandem.drill.formula import Made, Operations, overcharges
from tandem.drill.metered import read_metered
from tandem.drill.outages import outage_of
from tandem.drill.plan import NEWS, ORDERS, PAYMENTS, SUBSCRIPTION, DrillPlan
from tandem.drill.traffic import Traffic
from tandem.pairing import PairingEvent
from tandem.pairing.detour import Judgement
from tandem.testing import Broker

__all__ = ["PRIMARY", "SECONDARY", "primary_folder", "run_drill"]

# Folders of the data of the brokers.
PRIMARY: Final = "primary"
SECONDARY: Final = "secondary"

# Outcomes of pings that the primary may have accepted all the same.
_UNANSWERED: Final = {Judgement.LOST.value, Judgement.TIMED_OUT.value}

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


class PairCourse:
    """One pair of a drill: its primary, its traffic, and what became of it. Pairs may share the secondary."""

    def __init__(self, plan: DrillPlan, number: int, primary: Broker, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._number = number
        self.primary = primary
        self._say = say if plan.pairs == 1 else lambda what: say(f"pair {number + 1}: {what}")
        self.account = Account(OWN_PREFIX if number == 0 else f"pair-{number + 1}-")
        self.chronicle = Chronicle()
        self._driver: Driver | None = None
        self._left = 0
        self._sentences = {
            "failing": f"failing; waiting for the failover interval of {_seconds(plan.failover_interval)}",
            "failed-over": "failed over to the secondary",
            "restored": "restored to the primary",
        }

    async def run(self, secondary: Broker) -> None:
        """From the first message to the last, and until the client is closed."""
        pair = Pair(
            self.primary.connection_string,
            secondary.connection_string,
            self._on_event,
            _other_spelling(self.primary.connection_string) if self._plan.has_two_spellings else None,
        )
        async with make_driver(self._plan, pair) as driver:
            self._driver = driver
            self._left = await self._drive(driver, secondary)
            self.chronicle.ended_s = time.monotonic()

    @property
    def driver(self) -> Driver:
        assert self._driver is not None, "it was not run"
        return self._driver

    @property
    def ending(self) -> Ending:
        """To be asked when it is over: closing the client tells the last sums of what happened."""
        chronicle = self.chronicle
        return Ending(chronicle.failed_over, chronicle.away, self.driver.unanswered_count, self._left)

    def create_entities(self) -> None:
        primary = self.primary
        detecting = {"requires_duplicate_detection": self._plan.has_duplicate_detection}
        # Any: the settings of entities have many types.
        locking: dict[str, Any] = {"lock_duration_ms": _LOCK_MS, "max_delivery_count": _MAX_DELIVERY_COUNT}
        primary.create_queue(ORDERS, **detecting, **locking)
        primary.create_queue(PAYMENTS, requires_session=True, **detecting, **locking)
        primary.create_topic(NEWS, **detecting)
        primary.create_subscription(NEWS, SUBSCRIPTION, **locking)

    def _on_event(self, event: PairingEvent) -> None:
        self.chronicle.note_event(event, time.monotonic())
        sentence = self._sentences.get(str(event["event"]))
        if sentence is not None:
            self._say(f"{event['entity']}: {sentence}")

    # --- the course -----------------------------------------------------------------------------------------

    async def _drive(self, driver: Driver, secondary: Broker) -> int:
        """Returns how many messages were left in the backlog."""
        traffic = Traffic(self._plan, driver, self.account, self._say)
        watching = asyncio.create_task(self._watch(driver))
        outage = asyncio.create_task(self._have_outage(traffic.is_under_way))
        try:
            traffic.start_receivers()
            await traffic.open_senders()
            plan = self._plan
            self._say(f"sending {plan.messages:,} messages, {plan.rate_per_second:g} in a second")
            self.chronicle.started_s = time.monotonic()
            await traffic.send_all()
            await outage
            self._say("all messages are sent; waiting until they are syphoned and received")
            left = await self._wait_for_the_rest(secondary)
            self._say(f"{len(self.account.received):,} messages are received; stopping the clients and the brokers")
            await traffic.stop_receivers()
        finally:
            for task in (watching, outage):
                task.cancel()
        return left

    async def _watch(self, driver: Driver) -> None:
        while True:
            self.chronicle.note_states(driver.states, time.monotonic())
            await asyncio.sleep(_WATCH_INTERVAL_S)

    async def _have_outage(self, is_under_way: asyncio.Event) -> None:
        await is_under_way.wait()
        outage = outage_of(self._plan)
        self.chronicle.began_s = time.monotonic()
        await asyncio.to_thread(outage.begin, self.primary)
        where = "the primary" if self._plan.entity is None else f"'{self._plan.entity}'"
        self._say(f"{where} is down ({self._plan.fault.value}) and stays down for {_seconds(self._plan.outage)}")
        await asyncio.sleep(self._plan.outage.total_seconds())
        await asyncio.to_thread(outage.end, self.primary)
        self.chronicle.returned_s = self.account.last_received_s = time.monotonic()
        self._say(f"{where} is up again; waiting for a ping, at most {_seconds(self._plan.ping_interval)}")

    async def _wait_for_the_rest(self, secondary: Broker) -> int:
        """Until all entities are back, the backlog is empty and everything was received, duplicates among it."""
        while True:
            left = await asyncio.to_thread(_count_messages, secondary)
            waiting = await asyncio.to_thread(self._count_waiting)
            if not (left or waiting or self.account.missing or self.chronicle.away):
                return 0
            if time.monotonic() - self.account.last_received_s > _PATIENCE_S:
                return left
            await asyncio.sleep(_LEFT_INTERVAL_S)

    def _count_waiting(self) -> int:
        primary = self.primary
        entities = [primary.queue(ORDERS), primary.queue(PAYMENTS), primary.subscription(NEWS, SUBSCRIPTION)]
        return sum(int(entity["message_count"]) for entity in entities)


class Drill:
    """One run."""

    def __init__(self, plan: DrillPlan, folder: Path, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        arguments = ("--dev", "--allow-faults")
        self._secondary = Broker(folder / SECONDARY, arguments=arguments)
        self._pairs = [
            PairCourse(plan, number, Broker(folder / primary_folder(number), arguments=arguments), say)
            for number in range(plan.pairs)
        ]

    @property
    def received_count(self) -> int:
        return sum(len(pair.account.received) for pair in self._pairs)

    # Any: the figures are what is printed as JSON.
    async def run(self) -> dict[str, Any]:
        brokers = [self._secondary, *(pair.primary for pair in self._pairs)]
        with contextlib.ExitStack() as stack:
            for broker in brokers:
                stack.callback(broker.close)
            await asyncio.gather(*(asyncio.to_thread(one.start) for one in brokers))
            await asyncio.gather(*(asyncio.to_thread(pair.create_entities) for pair in self._pairs))
            self._say("both namespaces are served" if self._plan.pairs == 1 else "all namespaces are served")
            async with asyncio.TaskGroup() as running:
                for pair in self._pairs:
                    running.create_task(pair.run(self._secondary))
            metered = [await asyncio.to_thread(read_metered, broker) for broker in brokers]
            backlogs = await asyncio.to_thread(_backlog_names, self._secondary)
            await asyncio.gather(*(asyncio.to_thread(one.close) for one in brokers))
        return self._figures(Operations.of(metered[0], metered[1:]), backlogs)

    def _figures(self, metered: Operations, backlogs: set[str]) -> dict[str, Any]:
        broken = overcharges(self._plan, self._made(), metered)
        if len(backlogs) != self._plan.pairs:
            names = ", ".join(sorted(backlogs))
            broken.append(f"{self._plan.pairs} pairs have {len(backlogs)} sets of backlog queues: {names}")
        each = [make_figures(self._plan, pair.account, pair.chronicle, pair.ending) for pair in self._pairs]
        return combine_figures(each, metered, broken)

    def _made(self) -> Made:
        chronicles = [pair.chronicle for pair in self._pairs]
        syphons = [pair.driver.syphon for pair in self._pairs]
        outcomes = [event["outcome"] for chronicle in chronicles for _, event in chronicle.of("ping")]
        return Made(
            diverted=sum(chronicle.total("diverted") for chronicle in chronicles),
            moved=sum(syphon.moved_count for syphon in syphons),
            delivered=sum(pair.account.delivered for pair in self._pairs),
            closed_receivers=sum(pair.driver.closed_receivers for pair in self._pairs),
            unanswered=sum(pair.driver.unanswered_count for pair in self._pairs),
            pings_answered=outcomes.count("ok"),
            pings_unanswered=sum(outcome in _UNANSWERED for outcome in outcomes),
            empty_polls=sum(syphon.empty_poll_count for syphon in syphons),
            peeks=sum(syphon.peek_count for syphon in syphons),
            seconds_to_empty=max(chronicle.ended_s - chronicle.began_s for chronicle in chronicles),
        )


def primary_folder(number: int) -> str:
    """The folder of the data of a primary."""
    return PRIMARY if number == 0 else f"{PRIMARY}-{number + 1}"


def _other_spelling(connection_string: str) -> str:
    return connection_string.replace("127.0.0.1", "localhost")


def _count_messages(secondary: Broker) -> int:
    return sum(int(queue["message_count"]) for queue in secondary.queues())


def _backlog_names(secondary: Broker) -> set[str]:
    """The names of the primaries that have backlog queues there."""
    return {queue["name"].partition("/")[0] for queue in secondary.queues()}


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
            advance(drill.received_count)
    finally:
        running.cancel()
        await asyncio.wait([running])
    return running.result()
