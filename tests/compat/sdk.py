"""Short forms of what the tests do with the official SDK. It is used as published: nothing of it is replaced."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import uuid
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, Self

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSession,
    ServiceBusSubQueue,
    aio,
)

from examples.queue_tour import client_options
from tandem.auth.keys import AuthorizationRule, Right
from tandem.connection_string import ConnectionString
from tandem.testing import Broker
from tandem.testing import Bus as InProcessBus
from tandem.testing.json_api import JsonApi
from tests.patience import PATIENCE_S, wait_until

# Seconds. How long to listen for what must not come. A busy machine can hide it, but cannot make it come.
SILENCE_S: Final = 0.3
# Seconds. A test with several waits may take this long on a slow machine; those that run at once slow each other down.
TEST_LIMIT_S: Final = 5 * PATIENCE_S

ROOT_RULE, ROOT_KEY = "RootManageSharedAccessKey", "primary-of-root"
# What the broker of these tests lets people do, and with which keys.
RULES: Final = (
    AuthorizationRule(ROOT_RULE, Right.MANAGE, ROOT_KEY, "secondary-of-root"),
    AuthorizationRule("Listener", Right.LISTEN, "key-of-listener"),
    AuthorizationRule("Sender", Right.SEND, "key-of-sender"),
    AuthorizationRule("OfOneQueue", Right.SEND | Right.LISTEN, "key-of-one-queue", scope="a-queue-with-a-rule"),
    AuthorizationRule("OfOneTopic", Right.SEND | Right.LISTEN, "key-of-one-topic", scope="a-topic-with-a-rule"),
)

# Milliseconds. The SDK renews a lock when ten seconds of it are left: of this one after two seconds, and with those ten
# in hand for a slow machine.
RENEWED_LOCK_MS: Final = 12_000

# For a module whose tests run several at a time: see conftest.py.
AT_ONCE: Final = [pytest.mark.usefixtures("at_once"), pytest.mark.timeout(TEST_LIMIT_S)]

Parameters = ParamSpec("Parameters")


class Address(NamedTuple):
    """What a client of the official SDK needs to reach a broker over one transport."""

    connection_string: str
    options: dict[str, Any]


def address_of(
    broker: Broker | InProcessBroker, transport: str, *, port: int | None = None, key: str | None = None
) -> Address:
    given = connection_string(broker, key, transport=transport, port=port)
    options = client_options(given, transport, str(broker.ca_path))
    # No retries unless the test asks for them: what fails should be seen to fail.
    return Address(options.pop("conn_str"), {"retry_total": 0, **options})


class Queue:
    """A queue that one test has for itself, and a client to use it with."""

    def __init__(self, broker: JsonApi, client: ServiceBusClient, name: str) -> None:
        self.broker = broker
        self.client = client
        self.name = name

    def sender(self) -> ServiceBusSender:
        return self.client.get_queue_sender(self.name)

    def send(self, *messages: ServiceBusMessage | str) -> None:
        """Each on its own, in order."""
        with self.sender() as sender:
            for message in messages:
                sender.send_messages(ServiceBusMessage(message) if isinstance(message, str) else message)

    def receiver(self, **options: Any) -> ServiceBusReceiver:
        return self.client.get_queue_receiver(self.name, **options)

    def dead_letters(self, **options: Any) -> ServiceBusReceiver:
        return self.receiver(sub_queue=ServiceBusSubQueue.DEAD_LETTER, **options)

    def drain(self, **options: Any) -> list[str]:
        """The texts of everything that is there, in receive-and-delete mode."""
        drained: list[str] = []
        # Silence may also be a busy machine: as many messages as the broker counts now are waited for.
        expected = self.counts().get("active", 0)
        with self.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, **options) as receiver:
            while batch := receiver.receive_messages(100, PATIENCE_S if len(drained) < expected else SILENCE_S):
                drained += map(text, batch)
        return drained

    def counts(self) -> dict[str, int]:
        """How many messages the queue holds, by what they wait for; those that are none are left out."""
        fields = self.fields()
        kinds = ("active", "dead_letter", "scheduled", "deferred", "transfer", "transfer_dead_letter")
        counts = {kind: fields[f"{kind}_message_count"] for kind in kinds}
        return {kind: count for kind, count in counts.items() if count}

    def fields(self) -> dict[str, Any]:
        """What the broker says about it."""
        return self.broker.queue(self.name)


class Subscription(Queue):
    """A subscription that one test has for itself. For those who receive from it, it is a queue with a longer name."""

    def __init__(self, broker: JsonApi, client: ServiceBusClient, topic: str, own_name: str) -> None:
        super().__init__(broker, client, f"{topic}/Subscriptions/{own_name}")
        self.topic = topic
        self.own_name = own_name

    def receiver(self, **options: Any) -> ServiceBusReceiver:
        return self.client.get_subscription_receiver(self.topic, self.own_name, **options)

    def fields(self) -> dict[str, Any]:
        return self.broker.subscription(self.topic, self.own_name)

    def add_rule(self, name: str, condition: dict[str, Any], action: str | None = None) -> None:
        new = rule(name, condition, action)
        self.broker.add_rule(self.topic, self.own_name, name, filter=new["filter"], action=new["action"])


class Topic(Queue):
    """A topic that one test has for itself. For those who send to it, it is a queue."""

    def sender(self) -> ServiceBusSender:
        return self.client.get_topic_sender(self.name)

    def fields(self) -> dict[str, Any]:
        return self.broker.topic(self.name)

    def subscription(self, *rules: dict[str, Any], **fields: Any) -> Subscription:
        """A new subscription with these rules and settings; without rules it gets everything."""
        name = f"subscription-{uuid.uuid4().hex[:12]}"
        self.broker.create_subscription(self.name, name, rules=list(rules) or None, **fields)
        return Subscription(self.broker, self.client, self.name, name)


class Entities:
    """One broker, and one client of it over one transport, which is closed on the way out."""

    def __init__(self, broker: Broker | InProcessBroker, transport: str = "tcp", **options: Any) -> None:
        self.broker = broker
        self.address = address_of(broker, transport)
        self.client = self.connect(**options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()

    def connect(self, **options: Any) -> ServiceBusClient:
        own, defaults = self.address
        return ServiceBusClient.from_connection_string(own, **{**defaults, **options})

    def connect_aio(self, **options: Any) -> aio.ServiceBusClient:
        own, defaults = self.address
        return aio.ServiceBusClient.from_connection_string(own, **{**defaults, **options})

    def queue(self, **fields: Any) -> Queue:
        """A new queue with these settings. Its name is unique: one broker serves many tests."""
        name = f"queue-{uuid.uuid4().hex[:12]}"
        self.broker.create_queue(name, **fields)
        return Queue(self.broker, self.client, name)

    def topic(self, **fields: Any) -> Topic:
        """A new topic with these settings."""
        name = f"topic-{uuid.uuid4().hex[:12]}"
        self.broker.create_topic(name, **fields)
        return Topic(self.broker, self.client, name)


class Bus(Entities):
    """The broker that the tests share, as users run it."""

    broker: Broker

    def __init__(self, broker: Broker, transport: str = "tcp", **options: Any) -> None:
        super().__init__(broker, transport, **options)


class InProcessBroker(JsonApi):
    """The entities of a broker inside this process."""

    def __init__(self, bus: InProcessBus) -> None:
        self._connection_string = bus.connection_string
        http_port = ConnectionString.parse(bus.admin_connection_string).port
        assert http_port is not None
        self.http_port = http_port
        self.ca_path = Path(bus.ca_path)

    @property
    def connection_string(self) -> str:
        return self._connection_string


class ClockedBus(Entities):
    """A broker that one test has for itself, with a clock that the test moves: `bus.clock.advance(minutes=5)`.

    The SDK does not see that clock: whatever it decides by the time of the machine, it decides as if nothing had
    happened, and the broker has to answer.
    """

    def __init__(self, transport: str = "tcp", **options: Any) -> None:
        self._bus = InProcessBus()
        self._bus.start()
        self.clock = self._bus.clock
        super().__init__(InProcessBroker(self._bus), transport, **options)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._bus.close()

    def in_seconds(self, seconds: float) -> datetime:
        """A moment of the broker's clock."""
        return self.clock.now() + timedelta(seconds=seconds)


def rule(name: str, condition: dict[str, Any], action: str | None = None) -> dict[str, Any]:
    """A rule of a subscription, as the broker wants it."""
    return {"name": name, "filter": condition, "action": None if action is None else {"expression": action}}


def sql(expression: str, **parameters: Any) -> dict[str, Any]:
    return {"kind": "sql", "expression": expression, "parameters": {f"@{key}": parameters[key] for key in parameters}}


def correlation(**fields: Any) -> dict[str, Any]:
    return {"kind": "correlation", **fields}


def drain_all(*queues: Queue) -> list[list[str]]:
    """What each of them holds, all at once: the SDK takes two seconds for one."""
    with ThreadPoolExecutor(len(queues)) as pool:
        return list(pool.map(Queue.drain, queues))


def connection_string(
    broker: Broker | InProcessBroker,
    key: str | None = None,
    rule: str = ROOT_RULE,
    *,
    transport: str = "tcp",
    port: int | None = None,
) -> str:
    """Return the connection string of a broker for one transport. Its own key and AMQP port are the defaults."""
    own = ConnectionString.parse(broker.connection_string)
    # TLS wants a name: an address is nothing that a client may ask for in its first message.
    host = own.host if transport == "tcp" else "localhost"
    chosen = dataclasses.replace(own, host=host, port=port or own.port, rule_name=rule)
    return str(chosen if key is None else dataclasses.replace(chosen, key=key))


def in_a_loop(test: Callable[Parameters, Coroutine[Any, Any, None]]) -> Callable[Parameters, None]:
    """The test as a function that can run in any thread."""

    @functools.wraps(test)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        asyncio.run(test(*arguments, **options))

    return run


def text(message: ServiceBusReceivedMessage) -> str:
    return b"".join(message.body).decode()


def texts(messages: Sequence[ServiceBusReceivedMessage]) -> list[str]:
    return [text(message) for message in messages]


def take(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """This many messages, however many calls it takes."""
    taken: list[ServiceBusReceivedMessage] = []
    while len(taken) < count:
        batch = receiver.receive_messages(count - len(taken), PATIENCE_S)
        assert batch, f"{len(taken)} of {count} messages came in {PATIENCE_S} s"
        taken += batch
    return taken


def take_one(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    (message,) = take(receiver, 1)
    return message


def take_all(receiver: ServiceBusReceiver) -> list[ServiceBusReceivedMessage]:
    """What comes until nothing does, without settling it."""
    taken: list[ServiceBusReceivedMessage] = []
    while batch := receiver.receive_messages(100, SILENCE_S):
        taken += batch
    return taken


def await_renewals(locked: ServiceBusReceivedMessage | ServiceBusSession | aio.ServiceBusSession) -> None:
    """Until the SDK has renewed the lock twice by itself."""
    for _ in range(2):
        before = locked.locked_until_utc
        wait_until(lambda: locked.locked_until_utc != before, "the renewal of a lock")  # noqa: B023 - called at once
        assert locked.auto_renew_error is None


def number_of(message: ServiceBusReceivedMessage) -> int:
    assert message.sequence_number is not None
    return message.sequence_number


def now() -> datetime:
    return datetime.now(UTC)


def in_seconds(seconds: float) -> datetime:
    """A moment to the millisecond, as AMQP carries it."""
    moment = now() + timedelta(seconds=seconds)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def await_counts(queue: Queue, expected: dict[str, int]) -> None:
    """For what happens without a client."""
    wait_until(lambda: queue.counts() == expected, f"counts {expected}", lambda: f"but saw {queue.counts()}")


def await_empty(topic: Topic) -> None:
    """Until the bytes that copies have shared are swept, which happens in the background."""
    wait_until(lambda: topic.fields()["size_in_bytes"] == 0, "an empty topic")
