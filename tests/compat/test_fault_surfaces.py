"""Every kind of fault on every surface, by the official SDK where it speaks it, against the table of the docs."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from functools import partial

import pytest
from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.exceptions import ConnectError, ConnectionLostError
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusConnectionError
from azure.servicebus.management import ServiceBusAdministrationClient

from tandem.amqp import Message, Settings
from tandem.amqp.message import Properties, encode_message
from tandem.auth import make_token
from tandem.connection_string import ConnectionString
from tandem.driver import Client
from tandem.errors import ProtocolError, RemoteError, UsageError
from tandem.fault_kinds import DEFAULT_ERRORS, FaultKind
from tandem.server.faults import FaultSettings
from tandem.testing import Bus
from tests.compat.sdk import SILENCE_S
from tests.markers import mission
from tests.patience import PATIENCE_S, wait_until
from tools.fault_surfaces import EXPECTED, Seen, Surface

DELAY_MS = 600_000
# A token is good until then.
END_S = 4_000_000_000

# What a client raises whose connection ends, by whoever makes it.
GONE = (
    ServiceBusConnectionError,
    ConnectError,
    ConnectionLostError,
    ServiceRequestError,
    ServiceResponseError,
    http.client.HTTPException,
    OSError,
)
GONE_FOR_US = (*GONE, RemoteError, ProtocolError, UsageError, asyncio.IncompleteReadError)


class Refused(Exception):
    """A request was answered with an error."""


# --- one request on each surface ------------------------------------------------------------------------------------


def sdk(bus: Bus) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0)


def send(bus: Bus, queue: str) -> None:
    with sdk(bus) as client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("x"), timeout=PATIENCE_S)


def receive(bus: Bus, queue: str) -> None:
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with sdk(bus) as client, client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        assert receiver.receive_messages(1, max_wait_time=PATIENCE_S)


def schedule(bus: Bus, queue: str) -> None:
    with sdk(bus) as client, client.get_queue_sender(queue) as sender:
        sender.schedule_messages(ServiceBusMessage("x"), bus.clock.now() + timedelta(minutes=1), timeout=PATIENCE_S)


def peek(bus: Bus, queue: str) -> None:
    with sdk(bus) as client, client.get_queue_receiver(queue) as receiver:
        receiver.peek_messages(timeout=PATIENCE_S)


def atom(bus: Bus, queue: str) -> None:
    with ServiceBusAdministrationClient.from_connection_string(
        bus.admin_connection_string, connection_verify=bus.ca_path, retry_total=0, read_timeout=PATIENCE_S
    ) as admin:
        admin.get_queue(queue)


def over_http(method: str, path: str, bus: Bus, queue: str) -> None:
    given = ConnectionString.parse(bus.connection_string)
    connection = http.client.HTTPConnection(given.host, given.port, timeout=PATIENCE_S)
    token = make_token(f"http://{given.host}:{given.port}/", given.rule_name, given.key, END_S)
    try:
        connection.request(method, path.format(queue), headers={"Authorization": token})
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    if response.status >= http.HTTPStatus.BAD_REQUEST:
        raise Refused(f"{response.status} {text}")


async def connect(bus: Bus) -> Client:
    given = ConnectionString.parse(bus.connection_string)
    assert given.port is not None
    return await Client.connect(given.host, given.port, Settings("ours", user=given.rule_name, password=given.key))


async def ask(bus: Bus, node: str, properties: dict[str, object], value: object) -> None:
    """One request to a node that answers, by a client of ours: the SDK cannot ask this, or does not show the answer."""
    async with asyncio.timeout(PATIENCE_S), await connect(bus) as client:
        receiver = await client.receiver(node)
        sender = await client.sender(node)
        request = encode_message(properties=Properties(message_id="1"), application_properties=properties, value=value)
        await sender.send(request)
        answer = Message((await receiver.receive()).payload).application_properties or {}
    status = answer.get("statusCode") or answer.get("status-code")
    assert isinstance(status, int)
    if status >= http.HTTPStatus.BAD_REQUEST:
        raise Refused(f"{answer.get('statusDescription')} {answer.get('status-description')}")


def rules(bus: Bus, topic: str) -> None:
    properties: dict[str, object] = {"operation": "com.microsoft:enumerate-rules"}
    asyncio.run(ask(bus, f"{topic}/Subscriptions/s/$management", properties, {"skip": 0, "top": 1}))


def authenticate(bus: Bus, queue: str) -> None:
    given = ConnectionString.parse(bus.connection_string)
    audience = f"sb://{given.host}/{queue}"
    properties: dict[str, object] = {
        "operation": "put-token",
        "type": "servicebus.windows.net:sastoken",
        "name": audience,
    }
    asyncio.run(ask(bus, "$cbs", properties, make_token(audience, given.rule_name, given.key, END_S)))


def send_event(bus: Bus, hub: str) -> None:
    with EventHubProducerClient.from_connection_string(
        bus.connection_string, eventhub_name=hub, retry_total=0
    ) as producer:
        producer.send_batch([EventData("x")], timeout=PATIENCE_S)


def hub_properties(bus: Bus, hub: str) -> None:
    """By a client of ours: the SDK says of an error only that it could not connect."""
    properties: dict[str, object] = {"operation": "READ", "type": "com.microsoft:eventhub", "name": hub}
    asyncio.run(ask(bus, "$management", properties, {}))


def read_event(bus: Bus, hub: str) -> None:
    """By a client of ours: the SDK reads for ever, and tells of errors only in its log."""

    async def read() -> None:
        async with asyncio.timeout(PATIENCE_S), await connect(bus) as client:
            await (await client.receiver(f"{hub}/ConsumerGroups/$Default/Partitions/0")).receive()

    asyncio.run(read())


REQUESTS: dict[Surface, Callable[[Bus, str], None]] = {
    Surface.SEND: send,
    Surface.RECEIVE: receive,
    Surface.SCHEDULE: schedule,
    Surface.PEEK: peek,
    Surface.RULES: rules,
    Surface.AUTHENTICATION: authenticate,
    Surface.ATOM: atom,
    Surface.REST_SEND: partial(over_http, "POST", "/{}/messages"),
    Surface.REST_RECEIVE: partial(over_http, "DELETE", "/{}/messages/head"),
    Surface.JSON: partial(over_http, "GET", "/$api/v1/queues/{}"),
    Surface.EVENT_SEND: send_event,
    Surface.EVENT_READ: read_event,
    Surface.EVENT_PROPERTIES: hub_properties,
}


# --- all of them at once --------------------------------------------------------------------------------------------

OURS = {Surface.RULES, Surface.AUTHENTICATION, Surface.EVENT_READ, Surface.EVENT_PROPERTIES}
HUBS = {Surface.EVENT_SEND, Surface.EVENT_READ, Surface.EVENT_PROPERTIES}
SENDING = {Surface.SEND, Surface.SCHEDULE, Surface.REST_SEND}


def settings_of(kind: FaultKind, entities: Collection[str], *, includes_authentication: bool) -> list[FaultSettings]:
    """For the whole namespace, with what the kind needs; the serving of each entity restarts on its own."""
    if kind is FaultKind.RESTART_ENTITY:
        return [FaultSettings(kind, entity, duration_ms=DELAY_MS) for entity in entities]
    delays = kind in {FaultKind.STALL, FaultKind.DELAY_VISIBILITY}
    return [
        FaultSettings(
            kind,
            delay_ms=DELAY_MS if delays else None,
            rate_per_second=1 if kind is FaultKind.THROTTLE else None,
            includes_authentication=includes_authentication,
        )
    ]


class Course:
    """Requests on some surfaces at once, each to an entity of its own, while a fault is set."""

    def __init__(self, bus: Bus, kind: FaultKind, surfaces: Collection[Surface]) -> None:
        self._bus = bus
        self._kind = kind
        self._entities = {surface: f"{kind.value}-{surface.name.lower()}" for surface in surfaces}
        for surface, entity in self._entities.items():
            if surface is Surface.RULES:
                bus.create_topic(entity)
                bus.create_subscription(entity, "s")
            elif surface in HUBS:
                over_http("PUT", "/$api/v1/hubs/{}", bus, entity)
                over_http("POST", "/{}/partitions/0/messages", bus, entity)
            else:
                bus.create_queue(entity)
            if surface in {Surface.RECEIVE, Surface.REST_RECEIVE}:
                # One to receive while the fault is set, and one afterwards.
                bus.send(entity, "x")
                bus.send(entity, "x")

    def see(self, *, includes_authentication: bool = False) -> dict[Surface, Seen]:
        bus, kind = self._bus, self._kind
        expected = [EXPECTED[kind][surface] for surface in self._entities]
        withheld_count = sum(1 for seen in expected if seen in {Seen.SILENCE, Seen.LATE})
        # Event hubs do not restart.
        entities = [entity for surface, entity in self._entities.items() if surface not in HUBS]
        every = settings_of(kind, entities, includes_authentication=includes_authentication)
        with ThreadPoolExecutor(len(Surface)) as clients, ExitStack() as outages:
            faults = [outages.enter_context(bus.inject(settings)).fault for settings in every]
            if kind is FaultKind.THROTTLE:
                # As of an hour from now: until then the allowance is used up, however slow this machine is.
                faults[0].throttle(int(bus.clock.now().timestamp() * 1_000) + 3_600_000)
            asking = self._ask(clients)
            wait_until(lambda: sum(fault.hit_count for fault in faults) >= withheld_count, "all have met the fault")
            wait_until(
                lambda: sum(one.done() for one in asking.values()) >= len(asking) - withheld_count, "the answers"
            )
            if withheld_count:
                time.sleep(SILENCE_S)
            pending = {surface for surface, one in asking.items() if not one.done()}
            seen = {}
            if kind is FaultKind.STALL:
                bus.clock.advance(DELAY_MS / 1_000)
            elif kind is FaultKind.DELAY_VISIBILITY:
                seen = self._late_appearances()
            outages.close()
            if kind is FaultKind.TIMEOUT:
                bus.drop_connections()
            return {surface: self._seen(surface, one, surface in pending) for surface, one in asking.items()} | seen

    def works(self) -> bool:
        """The same requests again, without the fault."""
        with ThreadPoolExecutor(len(Surface)) as clients:
            return all(one.exception(PATIENCE_S) is None for one in self._ask(clients).values())

    def _ask(self, clients: ThreadPoolExecutor) -> dict[Surface, Future[None]]:
        return {
            surface: clients.submit(REQUESTS[surface], self._bus, entity) for surface, entity in self._entities.items()
        }

    def _seen(self, surface: Surface, asking: Future[None], was_pending: bool) -> Seen:
        error = asking.exception(PATIENCE_S)
        if was_pending and self._kind is FaultKind.STALL:
            assert error is None, repr(error)
            return Seen.LATE
        if was_pending:
            return Seen.SILENCE
        if error is None:
            return Seen.WORKS
        if "broken on purpose" in str(error):
            return Seen.ERROR
        if "throttled" in str(error):
            return Seen.BUSY
        assert isinstance(error, GONE_FOR_US if surface in OURS else GONE), repr(error)
        return Seen.DROPPED

    def _late_appearances(self) -> dict[Surface, Seen]:
        """Where messages appear, and not before the delay is over."""
        sending = {surface: entity for surface, entity in self._entities.items() if surface in SENDING}
        # The time of the scheduled one comes.
        self._bus.clock.advance(minutes=1)
        hidden = {surface for surface, entity in sending.items() if not self._bus.receive_all(entity)}
        self._bus.clock.advance(DELAY_MS / 1_000)
        return {surface: Seen.APPEARS_LATER for surface in hidden if self._bus.receive_all(sending[surface])}


@pytest.fixture(scope="module")
def module_bus() -> Iterator[Bus]:
    with Bus() as bus:
        yield bus


@pytest.fixture
def bus(module_bus: Bus) -> Iterator[Bus]:
    kept = module_bus.take_stock()
    yield module_bus
    module_bus.clean(kept)


@mission("M12", "M13", "M14", "M15")
@pytest.mark.parametrize("kind", FaultKind, ids=lambda kind: kind.value)
def test_a_client_sees_of_a_fault_what_the_table_says_and_nothing_of_it_afterwards(bus: Bus, kind: FaultKind) -> None:
    course = Course(bus, kind, set(Surface) - {Surface.AUTHENTICATION})
    # By a course of its own: the SDK authenticates before everything else.
    authentication = Course(bus, kind, {Surface.AUTHENTICATION})
    seen = course.see() | authentication.see(includes_authentication=True)
    assert seen == EXPECTED[kind]
    assert course.works()
    assert authentication.works()


@mission("M12")
def test_without_include_authentication_a_fault_does_not_touch_authentication(bus: Bus) -> None:
    assert Course(bus, FaultKind.REFUSE_SENDS, {Surface.AUTHENTICATION}).see() == {Surface.AUTHENTICATION: Seen.WORKS}


@mission("M12", "M15", "M17")
@pytest.mark.parametrize("kind", DEFAULT_ERRORS, ids=lambda kind: kind.value)
def test_the_default_error_of_a_kind_has_its_condition_on_the_wire(bus: Bus, kind: FaultKind) -> None:
    bus.create_queue("q")
    path = "/q" if kind is FaultKind.REFUSE_MANAGEMENT else "/q/messages/head"
    method = "GET" if kind is FaultKind.REFUSE_MANAGEMENT else "DELETE"
    if kind is FaultKind.REFUSE_SENDS:
        method, path = "POST", "/q/messages"
    (settings,) = settings_of(kind, ["q"], includes_authentication=False)
    with bus.inject(settings), pytest.raises(Refused, match=f"^{DEFAULT_ERRORS[kind].http_status} "):
        over_http(method, path, bus, "q")
