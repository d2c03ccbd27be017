"""The outage drill itself: two brokers, steady traffic, a primary that is killed and comes back, and the account."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tandem.client import (
    BrokeredMessage,
    MessagingError,
    MessagingFactory,
    MessagingFactorySettings,
    NamespaceManager,
    QueueClient,
    RetryPolicy,
    SubscriptionClient,
)
from tandem.errors import TandemError
from tandem.pairing import PairingEvent, SendAvailabilityPairedNamespaceOptions
from tandem.testing import Broker

__all__ = ["FAULTS", "DrillPlan", "run_drill"]

_ORDERS: Final = "orders"
_PAYMENTS: Final = "payments"
_NEWS: Final = "news"
_SUBSCRIPTION: Final = "all"

# One entity after the other gets a message; within it one of the senders after the other.
_ENTITIES: Final = (_ORDERS, _PAYMENTS, _NEWS)
_SENDERS_PER_ENTITY: Final = 2
_SESSIONS: Final = 4

# Of the messages to the first queue, each tenth appears a moment later, and each tenth has an hour to live.
_SCHEDULE_EVERY: Final = 10
_SCHEDULE_AFTER: Final = timedelta(milliseconds=500)
_TIME_TO_LIVE: Final = timedelta(hours=1)

# Longer than any outage that is worth a drill.
_OPERATION_TIMEOUT: Final = timedelta(minutes=5)

# Seconds without a message after which those that are missing count as lost.
_PATIENCE_S: Final = 30.0
_RECEIVE_TIMEOUT_S: Final = 0.5
_BATCH: Final = 100


@dataclass(frozen=True)
class DrillPlan:
    """What is to be done."""

    messages: int
    rate_per_second: float
    outage_s: float
    failover_interval: timedelta
    ping_interval: timedelta
    backlog_queue_count: int
    # How the primary fails: by SIGKILL, or by one of its faults on purpose.
    fault: str = "kill"
    # When it does: after this part of the messages was handed to the senders.
    begins_after: float = 0.25


@dataclass
class Account:
    """What was sent, and what came."""

    sent: set[str] = field(default_factory=set)
    refused: int = 0
    # By message id: the sequence numbers under which it came. The same one again is a redelivery, and no duplicate.
    received: dict[str, set[int]] = field(default_factory=dict)
    out_of_order: int = 0
    redelivered: int = 0
    last_received_s: float = 0.0
    _last_number: dict[str, int] = field(default_factory=dict)

    def note_received(self, message: BrokeredMessage) -> None:
        identifier = str(message.message_id)
        numbers = self.received.setdefault(identifier, set())
        sequence_number = message.sequence_number or 0
        if sequence_number in numbers:
            self.redelivered += 1
        is_first = not numbers
        numbers.add(sequence_number)
        self.last_received_s = time.monotonic()
        lane, number = str(message.properties.get("lane")), message.properties.get("number")
        if is_first and isinstance(number, int):
            last = self._last_number.get(lane, -1)
            self.out_of_order += int(number < last)
            self._last_number[lane] = max(last, int(number))

    @property
    def missing(self) -> set[str]:
        return self.sent - self.received.keys()

    @property
    def duplicates(self) -> int:
        return sum(len(numbers) - 1 for numbers in self.received.values())


# Any: the settings of a fault.
def _faulty(kind: str, **settings: Any) -> Callable[[Broker], object]:
    return lambda broker: broker.request("POST", "/$api/v1/faults", {"kind": kind, **settings})


def _healed(broker: Broker) -> object:
    return broker.request("DELETE", "/$api/v1/faults")


# How an outage begins, and how it ends.
_OUTAGES: Final[dict[str, tuple[Callable[[Broker], object], Callable[[Broker], object]]]] = {
    "kill": (Broker.kill, Broker.start),
    "drop-connections": (_faulty("drop-connections"), _healed),
    "refuse-sends": (_faulty("refuse-sends", error="internal-error"), _healed),
    "timeout": (_faulty("timeout", operations=["sends"]), _healed),
}
FAULTS: Final = tuple(_OUTAGES)


class Drill:
    """One run."""

    def __init__(self, plan: DrillPlan, folder: Path, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._say = say
        arguments = ("--dev", "--allow-faults")
        self._brokers = [Broker(folder / name, arguments=arguments) for name in ("primary", "secondary")]
        self.account = Account()
        self._is_under_way = asyncio.Event()
        self._events: list[tuple[float, PairingEvent]] = []
        self._killed_s = 0.0
        self._returned_s = 0.0
        self._is_over = False

    async def run(self) -> dict[str, Any]:
        primary, secondary = self._brokers
        with contextlib.ExitStack() as stack:
            for broker in self._brokers:
                await asyncio.to_thread(stack.enter_context, broker)
            await asyncio.to_thread(self._create_entities, primary)
            self._say("both brokers serve")
            settings = MessagingFactorySettings(operation_timeout=_OPERATION_TIMEOUT)
            async with (
                MessagingFactory.from_connection_string(primary.connection_string, settings) as factory,
                MessagingFactory.from_connection_string(secondary.connection_string) as other,
            ):
                await factory.pair_namespace(self._options(other, secondary))
                await self._drive(factory, primary)
                await asyncio.gather(factory.close(), other.close())
        return self._figures()

    def _options(self, other: MessagingFactory, secondary: Broker) -> SendAvailabilityPairedNamespaceOptions:
        plan = self._plan
        return SendAvailabilityPairedNamespaceOptions(
            NamespaceManager.from_connection_string(secondary.connection_string),
            other,
            plan.backlog_queue_count,
            plan.failover_interval,
            enable_syphon=True,
            ping_primary_interval=plan.ping_interval,
            listener=self._on_event,
        )

    def _create_entities(self, primary: Broker) -> None:
        primary.create_queue(_ORDERS)
        primary.create_queue(_PAYMENTS, requires_session=True)
        primary.create_topic(_NEWS)
        primary.create_subscription(_NEWS, _SUBSCRIPTION)

    def _on_event(self, event: PairingEvent) -> None:
        self._events.append((time.monotonic(), event))
        if event["event"] in {"failing", "failed-over", "restored"}:
            self._say(f"{event['entity']}: {event['event']}")

    # --- the course -----------------------------------------------------------------------------------------

    async def _drive(self, factory: MessagingFactory, primary: Broker) -> None:
        # Those who receive have a factory of their own, as another program would.
        patient = MessagingFactorySettings(retry_policy=RetryPolicy(max_attempts=1_000, max_backoff_s=0.5))
        async with MessagingFactory.from_connection_string(primary.connection_string, patient) as receiving:
            receivers = [asyncio.create_task(one) for one in self._receivers(receiving)]
            outage = asyncio.create_task(self._have_outage(primary))
            await self._send_all(factory)
            await outage
            await self._wait_for_the_rest()
            self._is_over = True
            _, late = await asyncio.wait(receivers, timeout=10)
            for one in late:
                one.cancel()

    async def _have_outage(self, primary: Broker) -> None:
        await self._is_under_way.wait()
        begin, end = _OUTAGES[self._plan.fault]
        await asyncio.to_thread(begin, primary)
        self._killed_s = time.monotonic()
        self._say(f"the primary is away: {self._plan.fault}")
        await asyncio.sleep(self._plan.outage_s)
        await asyncio.to_thread(end, primary)
        self._returned_s = self.account.last_received_s = time.monotonic()
        self._say("the primary serves again")

    async def _wait_for_the_rest(self) -> None:
        # Not an event: each message that comes puts the end off.
        while self.account.missing and time.monotonic() - self.account.last_received_s < _PATIENCE_S:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        # A duplicate would come right behind; and sums of events are told within a second.
        await asyncio.sleep(1.5)

    # --- sending --------------------------------------------------------------------------------------------

    async def _send_all(self, factory: MessagingFactory) -> None:
        """At a steady rate, whatever becomes of the messages before."""
        senders = [[factory.create_message_sender(entity) for _ in range(_SENDERS_PER_ENTITY)] for entity in _ENTITIES]
        lanes: Counter[str] = Counter()
        sends: set[asyncio.Task[None]] = set()
        started_s = time.monotonic()
        for index in range(self._plan.messages):
            entity_index, sender_index = index % len(_ENTITIES), index // len(_ENTITIES) % _SENDERS_PER_ENTITY
            lane = f"{_ENTITIES[entity_index]}/{sender_index}"
            message = _make_message(index, lane, lanes[lane])
            lanes[lane] += 1
            send = asyncio.create_task(self._send(senders[entity_index][sender_index].send, message))
            sends.add(send)
            if index >= self._plan.messages * self._plan.begins_after:
                self._is_under_way.set()
            await asyncio.sleep(max(0.0, started_s + index / self._plan.rate_per_second - time.monotonic()))
        await asyncio.gather(*sends)

    async def _send(self, send: Callable[[BrokeredMessage], Awaitable[None]], message: BrokeredMessage) -> None:
        try:
            await send(message)
        except TandemError as error:
            self.account.refused += 1
            self._say(f"a send failed: {error}")
        else:
            self.account.sent.add(str(message.message_id))

    # --- receiving ------------------------------------------------------------------------------------------

    def _receivers(self, factory: MessagingFactory) -> list[Any]:
        return [
            self._receive(factory.create_queue_client(_ORDERS)),
            self._receive(factory.create_subscription_client(_NEWS, _SUBSCRIPTION)),
            self._receive_sessions(factory.create_queue_client(_PAYMENTS)),
        ]

    async def _receive(self, client: QueueClient | SubscriptionClient) -> None:
        while not self._is_over:
            with contextlib.suppress(MessagingError):
                await self._take(await client.receive_batch(_BATCH, _RECEIVE_TIMEOUT_S))

    async def _receive_sessions(self, client: QueueClient) -> None:
        while not self._is_over:
            with contextlib.suppress(MessagingError):
                session = await client.accept_session(None, 2)
                try:
                    while messages := await session.receive_batch(_BATCH, _RECEIVE_TIMEOUT_S / 5):
                        await self._take(messages)
                finally:
                    await session.close()

    async def _take(self, messages: list[BrokeredMessage]) -> None:
        for message in messages:
            self.account.note_received(message)
        await asyncio.gather(*(message.complete() for message in messages))

    # --- the account ----------------------------------------------------------------------------------------

    def _figures(self) -> dict[str, Any]:
        account = self.account
        last_syphoned_s = self._last("syphoned")
        return {
            "sent": len(account.sent),
            "received": len(account.sent & account.received.keys()),
            "lost": len(account.missing),
            "duplicates": account.duplicates,
            "out_of_order": account.out_of_order,
            "diverted": self._sum("diverted"),
            "syphoned": self._sum("syphoned"),
            "redelivered": account.redelivered,
            "refused": account.refused,
            "pings": len(self._of("ping")),
            "seconds_to_detect": _between(self._killed_s, self._first("failed-over")),
            "seconds_to_restore": _between(self._returned_s, self._last("restored")),
            "seconds_to_drain": _between(self._returned_s, last_syphoned_s),
            "outage_seconds": _between(self._killed_s, self._returned_s),
            "timeline": [
                {"seconds": round(at_s - self._killed_s, 3), "event": event["event"], "entity": event["entity"]}
                for at_s, event in self._events
                if event["event"] in {"failing", "failed-over", "restored"}
            ],
        }

    def _of(self, name: str) -> list[tuple[float, PairingEvent]]:
        return [one for one in self._events if one[1]["event"] == name]

    def _sum(self, name: str) -> int:
        counts = [event["count"] for _, event in self._of(name)]
        return sum(count for count in counts if isinstance(count, int))

    def _first(self, name: str) -> float | None:
        return min((at_s for at_s, _ in self._of(name)), default=None)

    def _last(self, name: str) -> float | None:
        return max((at_s for at_s, _ in self._of(name)), default=None)


def _between(start_s: float, end_s: float | None) -> float | None:
    """Seconds, or None for what did not happen."""
    return None if end_s is None else round(max(0.0, end_s - start_s), 3)


def _make_message(index: int, lane: str, number: int) -> BrokeredMessage:
    """Order is promised within a lane, and of an entity with sessions within each of these."""
    message = BrokeredMessage(f"message {index}", message_id=f"drill-{index}", properties={"number": number})
    if lane.startswith(_PAYMENTS):
        message.session_id = f"session-{number % _SESSIONS}"
        lane = f"{lane}/{message.session_id}"
    elif lane.startswith(_ORDERS) and number % _SCHEDULE_EVERY == 1:
        message.scheduled_enqueue_time_utc = datetime.now(UTC) + _SCHEDULE_AFTER
        lane = f"{lane}/scheduled"
    elif lane.startswith(_ORDERS) and number % _SCHEDULE_EVERY == 2:
        message.time_to_live = _TIME_TO_LIVE
    message.properties["lane"] = lane
    return message


async def run_drill(
    plan: DrillPlan, folder: Path, say: Callable[[str], None], advance: Callable[[int], object]
) -> dict[str, Any]:
    """Carry it out, and return the figures. `say` is told what happens, `advance` how many messages have come."""
    drill = Drill(plan, folder, say)
    running = asyncio.create_task(drill.run())
    try:
        while not running.done():
            await asyncio.wait([running], timeout=0.2)
            advance(len(drill.account.received))
    finally:
        running.cancel()
        await asyncio.wait([running])
    return running.result()
