"""MassTransit's topology under its own kind of traffic, with every message counted, while the broker is killed.

Publishers and endpoints use the official SDK. The endpoint with sessions speaks as the SDK for .NET does, which this
repository cannot run: addresses with a slash in front, tokens for `amqp://` resources, sessions accepted by a filter of
null, settlements that wait for their answer, and the state of a session through `$management`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import MessageNotFoundError, ServiceBusError

from tandem.amqp import IncomingDelivery, Message, Settings, Source
from tandem.amqp.types import Symbol, UInt
from tandem.auth import make_token
from tandem.connection_string import DEVELOPMENT_KEY, ROOT_RULE_NAME
from tandem.driver import Client
from tandem.errors import RemoteError, TandemError
from tandem.testing import Broker
from tests.compat.admin import SYNC, Admin
from tests.compat.masstransit import (
    BILLED,
    FAULT_OF_SUBMITTED,
    REPLY_QUEUE,
    SESSION_QUEUE,
    SUBMITTED,
    declare,
)
from tests.markers import mission
from tests.patience import until
from tests.security.desk import request

ORDERS: Final = 40
# What the consumer of orders cannot process, and what it does not know.
POISONED: Final = {number for number in range(ORDERS) if number % 7 == 0}
UNKNOWN: Final = {number for number in range(ORDERS) if number % 11 == 0}
BILLED_ORDERS: Final = set(range(ORDERS)) - POISONED
# A reminder of each other order is taken back.
REMINDED: Final = {number for number in BILLED_ORDERS if number % 2 == 0}
SESSIONS: Final = 5

# Those who may have one message in the air when the broker is killed: the two publishers, and each endpoint.
ACTORS: Final = 9

CONTENT_TYPE: Final = "application/vnd.masstransit+json"
# Seconds. Long enough that the cancellation of a reminder comes first.
REMINDER_S: Final = 2.0

# Seconds. What one attempt may take, as the SDK for .NET bounds it; the one for Python waits for ever.
TRY_S: Final = 10.0

Handler = Callable[[ServiceBusReceivedMessage], Awaitable[None]]


def envelope(number: int, kind: str, **properties: Any) -> ServiceBusMessage:
    body = json.dumps({"messageType": [f"urn:message:{kind}"], "message": {"number": number}})
    # The id is the same whenever this is sent again.
    properties = {"message_id": uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{number}").hex, **properties}
    headers: dict[str | bytes, Any] = {"MT-Activity-Id": "00-1", "Content-Type": CONTENT_TYPE}
    return ServiceBusMessage(body, content_type=CONTENT_TYPE, application_properties=headers, **properties)


def read(message: ServiceBusReceivedMessage) -> tuple[int, str]:
    body = json.loads(b"".join(message.body))
    return body["message"]["number"], body["messageType"][0].removeprefix("urn:message:")


class Shop:
    """All processes of an application on MassTransit, as tasks, and what each endpoint has processed."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.processed: dict[str, Counter[int]] = {}
        self._client = ServiceBusClient.from_connection_string(broker.connection_string, retry_total=0)
        self._senders: dict[str, ServiceBusSender] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def count(self, endpoint: str) -> Counter[int]:
        return self.processed.setdefault(endpoint, Counter())

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        endpoints: dict[str, Handler] = {
            "submit-order": self._on_order,
            "audit": self._note("audit"),
            "faults": self._note("faults"),
            "reminders": self._note("reminders"),
            "check-order": self._on_question,
            REPLY_QUEUE: self._note(REPLY_QUEUE),
        }
        self._tasks = [asyncio.create_task(self._consume(queue, handle)) for queue, handle in endpoints.items()]
        self._tasks.append(asyncio.create_task(SagaEndpoint(self).run()))
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._client.close()

    # --- sending --------------------------------------------------------------------------------------------

    async def send(self, entity: str, message: ServiceBusMessage) -> None:
        """Send until it is accepted. MassTransit's topics and queues are the same to a sender."""
        await self._persist(entity, lambda sender: sender.send_messages(message, timeout=TRY_S))

    async def schedule(self, entity: str, message: ServiceBusMessage, at: datetime) -> int:
        numbers: list[int] = await self._persist(
            entity, lambda sender: sender.schedule_messages(message, at, timeout=TRY_S)
        )
        return numbers[0]

    async def cancel(self, entity: str, sequence_number: int) -> None:
        """Take back a scheduled message. One that is not there was taken back before: the answer was lost."""
        with contextlib.suppress(MessageNotFoundError):
            await self._persist(entity, lambda sender: sender.cancel_scheduled_messages(sequence_number, timeout=TRY_S))

    async def _persist(self, entity: str, attempt: Callable[[ServiceBusSender], Awaitable[Any]]) -> Any:
        """Try again with a new sender until it succeeds, as the retries of a framework do."""
        while True:
            sender = self._senders.get(entity)
            if sender is None:
                sender = self._senders[entity] = self._client.get_queue_sender(entity)
            try:
                return await attempt(sender)
            except MessageNotFoundError:
                raise
            except ServiceBusError:
                # Closing takes the SDK a second: nobody waits for it.
                if self._senders.get(entity) is sender:
                    del self._senders[entity]
                    self._tasks.append(asyncio.create_task(sender.close()))
                await asyncio.sleep(0.1)

    async def publish_orders(self) -> None:
        for number in range(ORDERS):
            await self.send(SUBMITTED, envelope(number, "Orders:Submitted"))
            if number in UNKNOWN:
                await self.send("submit-order", envelope(number, "Orders:Forgotten"))

    async def ask_questions(self) -> None:
        for number in range(ORDERS):
            question = envelope(number, "Orders:Check", reply_to=f"sb://localhost/{REPLY_QUEUE}?autodelete=300")
            await self.send("check-order", question)

    # --- endpoints ------------------------------------------------------------------------------------------

    async def _consume(self, queue: str, handle: Handler) -> None:
        """Receive and complete for ever. What fails on the way is received again, by a new receiver."""
        while True:
            try:
                async with self._client.get_queue_receiver(queue) as receiver:
                    while True:
                        for message in await receiver.receive_messages(max_wait_time=60):
                            await handle(message)
                            await receiver.complete_message(message)
            except ServiceBusError:
                await asyncio.sleep(0.1)

    def _note(self, endpoint: str) -> Handler:
        async def note(message: ServiceBusReceivedMessage) -> None:
            self.count(endpoint)[read(message)[0]] += 1

        return note

    async def _on_order(self, message: ServiceBusReceivedMessage) -> None:
        number, kind = read(message)
        if kind == "Orders:Forgotten":
            await self._move(message, "submit-order_skipped", {"MT-Reason": "dead-letter"})
            return
        self.count("submit-order")[number] += 1
        if number in POISONED:
            await self.send(FAULT_OF_SUBMITTED, envelope(number, "MassTransit:Fault"))
            await self._move(message, "submit-order_error", {"MT-Fault-Message": "no such customer"})
            return
        due = datetime.now(UTC) + timedelta(seconds=REMINDER_S)
        reminder = await self.schedule("reminders", envelope(number, "Orders:Reminder"), due)
        if number not in REMINDED:
            await self.cancel("reminders", reminder)
        await self.send(BILLED, envelope(number, "Orders:Billed", session_id=f"customer-{number % SESSIONS}"))

    async def _move(self, message: ServiceBusReceivedMessage, queue: str, headers: dict[str | bytes, Any]) -> None:
        """What MassTransit does with a message that it cannot process: a copy, and then the original is completed."""
        copy = ServiceBusMessage(
            b"".join(message.body),
            content_type=message.content_type,
            message_id=message.message_id,
            application_properties={**(message.application_properties or {}), **headers},
            time_to_live=timedelta(days=14),
        )
        await self.send(queue, copy)

    async def _on_question(self, message: ServiceBusReceivedMessage) -> None:
        assert message.reply_to is not None
        queue = message.reply_to.rpartition("/")[2].partition("?")[0]
        await self.send(queue, envelope(read(message)[0], "Orders:Status"))


class SagaEndpoint:
    """An endpoint with sessions, frame by frame as the session processor of the SDK for .NET."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TandemError, OSError):
                settings = Settings("saga", hostname="localhost", idle_timeout_ms=60_000)
                async with await Client.connect("127.0.0.1", self._shop.broker.port, settings) as client:
                    await self._serve(client)
            await asyncio.sleep(0.1)

    async def _serve(self, client: Client) -> None:
        resource = f"amqp://localhost/{SESSION_QUEUE}"
        token = make_token(resource, ROOT_RULE_NAME, DEVELOPMENT_KEY, int(time.time()) + 600)
        put: dict[str, object] = {
            "operation": "put-token",
            "type": "servicebus.windows.net:sastoken",
            "name": resource,
        }
        await request(client, "$cbs", put, token)
        while True:
            session_filter: dict[object, object] = {Symbol("com.microsoft:session-filter"): None}
            try:
                receiver = await client.receiver(
                    Source(f"/{SESSION_QUEUE}", filter=session_filter),
                    credit=0,
                    is_second=True,
                    properties={Symbol("com.microsoft:timeout"): UInt(2_000), Symbol("entity-type"): UInt(5)},
                )
            except RemoteError as error:
                if error.condition != "com.microsoft:timeout":
                    raise
                # No session has a message: the processor asks again.
                continue
            attach = receiver.link.attach
            assert attach is not None
            assert attach.source is not None
            session_id = str((attach.source.filter or {})["com.microsoft:session-filter"])
            receiver.grant(1)
            with contextlib.suppress(TimeoutError):
                while True:
                    async with asyncio.timeout(0.5):
                        delivery = await receiver.receive()
                    await self._process(client, session_id, delivery)
                    await receiver.confirm(delivery)
                    receiver.grant(1)
            await receiver.close()

    async def _process(self, client: Client, session_id: str, delivery: IncomingDelivery) -> None:
        message = Message(delivery.payload)
        assert message.properties is not None
        assert message.properties.group_id == session_id
        number = json.loads(message.data or b"")["message"]["number"]
        self._shop.count(SESSION_QUEUE)[number] += 1
        state = await self._state_of(client, session_id)
        body: dict[str, object] = {"session-id": session_id, "session-state": json.dumps([*state, number]).encode()}
        await self._ask(client, "set-session-state", body)

    async def _state_of(self, client: Client, session_id: str) -> list[int]:
        answer = await self._ask(client, "get-session-state", {"session-id": session_id})
        state = answer.value["session-state"] if isinstance(answer.value, dict) else None
        return json.loads(state) if isinstance(state, bytes) else []

    async def _ask(self, client: Client, operation: str, body: dict[str, object]) -> Message:
        properties: dict[str, object] = {
            "operation": f"com.microsoft:{operation}",
            "com.microsoft:server-timeout": UInt(60_000),
        }
        answer = await request(client, f"{SESSION_QUEUE}/$management", properties, body)
        assert (answer.application_properties or {})["statusCode"] == 200, answer.application_properties
        return answer


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "data") as broker:
        yield broker


def declare_all(broker: Broker) -> list[str]:
    with Admin(broker, SYNC, DEVELOPMENT_KEY, ROOT_RULE_NAME) as admin:
        return declare(admin)


def left_in(broker: Broker, queue: str) -> Counter[int]:
    """The numbers of the messages that lie in a queue."""
    listed = broker.management.operations(queue).messages("active", 0, None)
    return Counter(json.loads(one["body"])["message"]["number"] for one in listed)


@mission("M35", "M7", "M15", "M36")
async def test_every_message_of_an_application_on_masstransit_arrives_though_the_broker_is_killed(
    broker: Broker,
) -> None:
    made = await asyncio.to_thread(declare_all, broker)
    assert len(made) == 5 + 9 + 6
    # A second process of the application finds everything as it should be, and changes nothing.
    assert await asyncio.to_thread(declare_all, broker) == []
    shop = Shop(broker)
    async with shop.open(), asyncio.TaskGroup() as publishing:
        publishing.create_task(shop.publish_orders())
        publishing.create_task(shop.ask_questions())
        await until(lambda: len(shop.count("submit-order")) >= ORDERS // 3, "a third of the orders")
        broker.kill()
        await asyncio.to_thread(broker.start)
        expected = {
            "submit-order": set(range(ORDERS)),
            "audit": set(range(ORDERS)),
            "faults": POISONED,
            "reminders": REMINDED,
            REPLY_QUEUE: set(range(ORDERS)),
            SESSION_QUEUE: BILLED_ORDERS,
        }
        await until(
            lambda: all(shop.count(name).keys() >= numbers for name, numbers in expected.items()),
            "all messages",
            lambda: str({name: sorted(numbers - shop.count(name).keys()) for name, numbers in expected.items()}),
        )
        busy = [*expected, "check-order"]
        await until(lambda: not any(broker.queue(name)["message_count"] for name in busy), "empty queues")
    for name, numbers in expected.items():
        # A reminder that was taken back while the broker was killed may have been scheduled twice.
        surplus = shop.count(name).keys() - numbers
        assert len(surplus) <= (1 if name == "reminders" else 0), (name, surplus)
    aside = {name: await asyncio.to_thread(left_in, broker, f"submit-order_{name}") for name in ("error", "skipped")}
    assert set(aside["error"]) == POISONED
    assert set(aside["skipped"]) == UNKNOWN
    everywhere = [*shop.processed.values(), *aside.values()]
    assert sum(sum(counted.values()) - len(counted) for counted in everywhere) <= ACTORS, everywhere
    dead = [one["name"] for one in broker.queues() if one["dead_letter_message_count"]]
    assert dead == []
    reply_queue = broker.queue(REPLY_QUEUE)
    assert reply_queue["auto_delete_on_idle_ms"] == 300_000
