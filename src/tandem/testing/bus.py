"""A broker inside the test's own process, with a clock that the test moves and faults that it sets.

    with Bus() as bus:
        bus.create_queue("orders", lock_duration_ms=30_000)
        client = ServiceBusClient.from_connection_string(bus.connection_string)
        ...
        bus.clock.advance(seconds=31)

It is the real one: its listeners on free loopback ports, its store in a folder in memory, on an event loop in a thread
of its own, so that tests without asyncio can use it and blocking clients do not block it. What the methods here do is
done from inside: no connection is made for it, and no fault meets it.

The pytest plugin gives one to each test as the fixture `tandem_bus`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tandem.addresses import parse_address
from tandem.clock import SystemClock
from tandem.connection_string import ConnectionString
from tandem.driver.endpoint import Endpoint
from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.engine.subqueue import SubQueue
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.entity_settings import QUEUE, SUBSCRIPTION, TOPIC, durations_as_ms
from tandem.errors import ProtocolError, UsageError
from tandem.limits import MAX_CLOCK_STOPS
from tandem.management.api import add_routes
from tandem.management.rule_lists import read_rules
from tandem.server.broker import Broker, BrokerSettings
from tandem.server.faults import Fault, FaultKind, FaultSettings
from tandem.testing.broker import BrokerFailed
from tandem.testing.bus_message import BusMessage, encode_bus_message
from tandem.testing.cleaning import Kept, clean, take_stock, turn_back
from tandem.testing.collecting import browse, collect
from tandem.testing.loop_thread import CALL_LIMIT_S, LoopThread
from tandem.testing.virtual_clock import VirtualClock

__all__ = ["Bus", "BusClock", "Outage"]

Result = TypeVar("Result")

HOST: Final = "127.0.0.1"


# Where the system keeps files in memory, and the free bytes that make it a place for a store: its reserve for a full
# disk is 64 MiB, and a container may have no more than that.
MEMORY_FOLDER: Final = Path("/dev/shm")  # noqa: S108 - the folder made there has a random name and is ours alone
MIN_MEMORY_BYTES: Final = 268_435_456

# These end connections that are open.
_DROPPING: Final = frozenset({FaultKind.DROP_CONNECTIONS, FaultKind.REFUSE_EVERYTHING})


class Bus:
    """One broker for tests. Safe to use from any thread but its own."""

    def __init__(self) -> None:
        self.clock = BusClock(self)
        self._virtual_clock = VirtualClock()
        self._folder = _make_folder()
        self._broker: Broker | None = None
        self._thread = LoopThread("bus", self._serving)
        # Whoever moves the clock or cleans up waits until the broker is quiet, one at a time.
        self._turn = asyncio.Lock()
        self._outages: list[Outage] = []

    # --- life -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Return when it serves."""
        self._thread.start()

    def close(self) -> None:
        """Stop the broker and remove what it kept. Safe to call twice."""
        self._thread.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        settings = BrokerSettings(
            self._folder, host=HOST, port=0, http_port=0, is_dev=True, allows_faults=True, clock=self._virtual_clock
        )
        broker = self._broker = Broker(settings)
        # Clients date their tokens by the clock of the machine, which nobody moves.
        system_clock = SystemClock()
        broker.directory.default.services.clock = system_clock
        add_routes(broker, system_clock)
        try:
            await broker.start()
            yield
        finally:
            await broker.stop()

    def _call(self, work: Callable[[Broker], Coroutine[Any, Any, Result]]) -> Result:
        """Run on the broker's loop, and wait for what comes of it."""
        broker = self._running
        try:
            return self._thread.call(lambda: work(broker))
        except TimeoutError:
            failure = broker.failed.result() if broker.failed.done() else f"it did not answer in {CALL_LIMIT_S:.0f} s"
            raise BrokerFailed(f"the broker inside this process failed: {failure}") from None

    @property
    def _running(self) -> Broker:
        self._thread.check_running()
        assert self._broker is not None
        return self._broker

    # --- what clients need ----------------------------------------------------------------------------------

    @property
    def connection_string(self) -> str:
        """For the clients of the official SDKs: AMQP over plain TCP, with the rule that may do everything."""
        return str(ConnectionString(HOST, self._running.port))

    @property
    def admin_connection_string(self) -> str:
        """For the administration clients of the official SDKs. Python's speaks TLS: `connection_verify=ca_path`."""
        # TLS wants a name: an address is nothing that a client may ask for.
        return str(ConnectionString("localhost", self._running.http_port))

    @property
    def ca_path(self) -> str:
        """The file of the certificate authority that signed the broker's certificate."""
        return str(self._folder / "tls" / "ca.pem")

    # --- entities -------------------------------------------------------------------------------------------

    def create_queue(self, name: str, **fields: Any) -> None:
        """With these settings, such as `lock_duration="30s"`, `lock_duration_ms=30_000` or `requires_session=True`;
        docs/reference/queues.md has all."""
        description = QueueDescription.from_fields({**durations_as_ms(QUEUE, fields), "name": name})
        self._perform(lambda namespace: namespace.create_queue(description))

    def create_topic(self, name: str, **fields: Any) -> None:
        description = TopicDescription.from_fields({**durations_as_ms(TOPIC, fields), "name": name})
        self._perform(lambda namespace: namespace.create_topic(description))

    def create_subscription(
        self, topic: str, name: str, rules: Sequence[str | dict[str, Any]] | None = None, **fields: Any
    ) -> None:
        """A rule is the text of an SQL filter, or has `name`, `filter` and perhaps `action` as docs/howto/serve.md
        shows them. Without rules the subscription gets every message."""
        settings = durations_as_ms(SUBSCRIPTION, fields)
        description = SubscriptionDescription.from_fields({**settings, "topic_name": topic, "name": name})
        given = None if rules is None else [_rule(number, rule) for number, rule in enumerate(rules, 1)]

        def create(namespace: Namespace) -> None:
            made = None if given is None else read_rules("rules", given, namespace.now_ms)
            namespace.create_subscription(description, made)

        self._perform(create)

    def _perform(self, step: Callable[[Namespace], object]) -> None:
        async def work(broker: Broker) -> None:
            await broker.perform(step)

        self._call(work)

    # --- messages -------------------------------------------------------------------------------------------
    # An entity is a name such as `orders` or `orders/$DeadLetterQueue`, or for receiving `topic/Subscriptions/name`.

    def send(self, entity: str, body: bytes | str, **properties: Any) -> None:
        """Send one message to a queue or topic. Its properties are those of `ServiceBusMessage`, by the same names."""
        payload = encode_bus_message(body, **properties)

        def send(namespace: Namespace) -> None:
            queue = namespace.find(entity)
            if queue is None:
                raise UsageError(f"there is no queue and no topic {entity!r} to send to: create it first")
            queue.send(payload, 0)

        self._perform(send)

    def messages(self, entity: str) -> list[BusMessage]:
        """Every message there is, in any state, locked or not. They stay."""
        return self._read(entity, browse)

    def dead_letters(self, entity: str) -> list[BusMessage]:
        """The messages of an entity's dead-letter queue. They stay."""
        return self.messages(f"{entity}/$DeadLetterQueue")

    def receive_all(self, entity: str) -> list[BusMessage]:
        """Take out every active message that nobody has locked."""
        return self._read(entity, collect)

    def _read(self, entity: str, read: Callable[[Any, SubQueue], Awaitable[list[BusMessage]]]) -> list[BusMessage]:
        async def work(broker: Broker) -> list[BusMessage]:
            subqueue = broker.namespace.resolve(parse_address(entity))
            async with self._turn:
                await _settle(broker)
                return await read(broker.runner, subqueue)

        return self._call(work)

    # --- time -----------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._virtual_clock.now_ms()

    def _advance(self, by_ms: int) -> None:
        self._call(lambda broker: self._advance_in_order(broker, by_ms))

    async def _advance_in_order(self, broker: Broker, by_ms: int) -> None:
        """From one moment at which something is due to the next, so that a message whose lock ends in a minute is
        available after that, and not also expired because an hour is over."""
        clock = self._virtual_clock
        async with self._turn:
            await _settle(broker)
            goal_ms = clock.ahead_ms + by_ms
            least_ms = max(1, by_ms // MAX_CLOCK_STOPS)
            while clock.ahead_ms < goal_ms:
                due_in_ms = broker.runner.next_deadline_ms() - clock.now_ms()
                clock.ahead_ms = min(goal_ms, clock.ahead_ms + max(due_in_ms, least_ms))
                await _settle(broker)

    # --- faults ---------------------------------------------------------------------------------------------

    def break_sends(self, entity: str | None = None, error: type[ProtocolError] | None = None) -> Outage:
        """Refuse what clients send or schedule, to one entity or to all. The kind decides an error that is left out."""
        return self._break(FaultSettings(FaultKind.REFUSE_SENDS, entity, error))

    def break_receives(self, entity: str | None = None, error: type[ProtocolError] | None = None) -> Outage:
        """Send receivers away and let none come, at one entity or at all; a topic with its subscriptions."""
        return self._break(FaultSettings(FaultKind.REFUSE_RECEIVES, entity, error))

    def break_management(self, entity: str | None = None, error: type[ProtocolError] | None = None) -> Outage:
        """Refuse whatever manages entities: administration clients, the JSON API, rules over AMQP. Messages flow."""
        return self._break(FaultSettings(FaultKind.REFUSE_MANAGEMENT, entity, error))

    def break_everything(self, error: type[ProtocolError] | None = None) -> Outage:
        """Drop every connection, and refuse whatever clients ask for when they come back, over AMQP or HTTP."""
        return self._break(FaultSettings(FaultKind.REFUSE_EVERYTHING, None, error))

    def restore(self) -> None:
        """Mend all that was broken."""
        for outage in list(self._outages):
            outage.restore()

    def drop_connections(self) -> None:
        """End every AMQP connection without a word, as a network does. Clients can connect again at once."""
        self._call(_drop_connections)

    def inject(self, settings: FaultSettings) -> Outage:
        """Any fault that `tandem fault` knows, such as a stall, a timeout or delayed visibility."""
        return self._break(settings)

    def _break(self, settings: FaultSettings) -> Outage:
        async def work(broker: Broker) -> Fault:
            entity = settings.entity
            if entity is not None and not _exists(broker.namespace, entity):
                raise UsageError(f"there is no entity {entity!r} to break: create it first")
            endpoints = broker.endpoints if settings.kind in _DROPPING else frozenset()
            fault = broker.directory.default.services.fault_desk.inject(settings)
            # What is told to clients is on its way, and connections that were dropped are gone.
            await broker.perform(lambda _: None)
            await _lost(endpoints)
            return fault

        outage = Outage(self, self._call(work))
        self._outages.append(outage)
        return outage

    def _mend(self, outage: Outage) -> None:
        async def work(broker: Broker) -> None:
            desk = broker.directory.default.services.fault_desk
            if outage.fault in list(desk):
                desk.clear(outage.fault)
                await broker.perform(lambda _: None)

        self._call(work)
        if outage in self._outages:
            self._outages.remove(outage)

    # --- from one test to the next --------------------------------------------------------------------------

    def take_stock(self) -> list[Kept]:
        """The entities that are there now, for `clean`."""

        async def work(broker: Broker) -> list[Kept]:
            return take_stock(broker.namespace)

        return self._call(work)

    def clean(self, kept: list[Kept]) -> None:
        """Mend what is broken, delete the entities that were made since, empty those that were there, and let the
        clock be that of the machine again."""
        self.restore()

        async def work(broker: Broker) -> None:
            async with self._turn:
                await clean(broker.runner, kept)
                if self._virtual_clock.ahead_ms:
                    self._virtual_clock.ahead_ms = 0
                    turn_back(broker.namespace, self._virtual_clock.now_ms())
                await _settle(broker)

        self._call(work)


class BusClock:
    """The time of a bus: that of the machine, and what the test adds to it.

    Nothing but the broker knows of it: a program under test still asks its machine what time it is.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def now(self) -> datetime:
        """In UTC, to the millisecond."""
        return datetime.fromtimestamp(self._bus._now_ms() / 1_000, UTC)

    def advance(self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> None:
        """Let this much time pass at once. Whatever comes due meanwhile has happened when this returns: locks have
        ended, messages have expired, scheduled ones are there."""
        span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if span < timedelta(0):
            raise UsageError(f"the clock cannot be moved by {span.total_seconds():,} s: time goes forward only")
        self._bus._advance(span // timedelta(milliseconds=1))


class Outage:
    """Something that is broken, from the call that broke it until `restore`, or until the `with` block is left."""

    def __init__(self, bus: Bus, fault: Fault) -> None:
        self._bus = bus
        self.fault: Final = fault

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    def restore(self) -> None:
        """Mend it. Safe to call twice."""
        self._bus._mend(self)


async def _settle(broker: Broker) -> None:
    """Until all that is due has happened, with what follows from it."""
    await broker.runner.quiet()
    for _ in range(MAX_CLOCK_STOPS):
        broker.runner.wake()
        await broker.runner.quiet()
        if broker.runner.next_deadline_ms() > broker.namespace.now_ms:
            return


def _exists(namespace: Namespace, entity: str) -> bool:
    return namespace.find_any(entity) is not None or namespace.hubs.find(entity) is not None


async def _drop_connections(broker: Broker) -> None:
    endpoints = broker.endpoints
    for endpoint in endpoints:
        endpoint.abort()
    await _lost(endpoints)


async def _lost(endpoints: Collection[Endpoint]) -> None:
    await asyncio.gather(*[asyncio.shield(endpoint.lost) for endpoint in endpoints])


def _rule(number: int, rule: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(rule, str):
        return {"name": f"rule-{number}", "filter": {"kind": "sql", "expression": rule}}
    return rule


def _make_folder() -> Path:
    """In memory where there is room: what a test keeps need not survive it."""
    parent = None
    if MEMORY_FOLDER.is_dir() and os.access(MEMORY_FOLDER, os.W_OK):
        parent = MEMORY_FOLDER if shutil.disk_usage(MEMORY_FOLDER).free >= MIN_MEMORY_BYTES else None
    return Path(tempfile.mkdtemp(prefix="tandem-bus-", dir=parent))
