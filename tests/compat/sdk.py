"""Short forms of what the tests do with the official SDK. It is used as published: nothing of it is replaced."""

from __future__ import annotations

import asyncio
import functools
import gc
import time
import uuid
import warnings
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Final, ParamSpec

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
    aio,
)

from tandem.auth.keys import AuthorizationRule, Right
from tandem.testing import Broker

# Seconds. How long to wait for what must come: it comes at once, unless the machine is busy.
PATIENCE_S: Final = 20.0
# Seconds. How long to listen for what must not come.
SILENCE_S: Final = 0.3

ROOT_RULE, ROOT_KEY = "RootManageSharedAccessKey", "primary-of-root"
# What the broker of these tests lets people do, and with which keys.
RULES: Final = (
    AuthorizationRule(ROOT_RULE, Right.MANAGE, ROOT_KEY, "secondary-of-root"),
    AuthorizationRule("Listener", Right.LISTEN, "key-of-listener"),
    AuthorizationRule("Sender", Right.SEND, "key-of-sender"),
    AuthorizationRule("OfOneQueue", Right.SEND | Right.LISTEN, "key-of-one-queue", scope="a-queue-with-a-rule"),
    AuthorizationRule("OfOneTopic", Right.SEND | Right.LISTEN, "key-of-one-topic", scope="a-topic-with-a-rule"),
)

# For a module with refusals: the SDK leaves its socket open when it is refused.
LEFT_OPEN: Final = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]
# For a module whose tests run several at a time: see conftest.py.
AT_ONCE: Final = [pytest.mark.usefixtures("at_once"), *LEFT_OPEN]

Parameters = ParamSpec("Parameters")


class Queue:
    """A queue that one test has for itself, and a client to use it with."""

    def __init__(self, broker: Broker, client: ServiceBusClient, name: str) -> None:
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
        # Silence may also be a machine that is busy: the first message is waited for, if there is one.
        patience_s = PATIENCE_S if self.counts().get("active") else SILENCE_S
        with self.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, **options) as receiver:
            while batch := receiver.receive_messages(100, SILENCE_S if drained else patience_s):
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

    def __init__(self, broker: Broker, client: ServiceBusClient, topic: str, own_name: str) -> None:
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


class Bus:
    """One broker, and one client of it, which is closed on the way out."""

    def __init__(self, broker: Broker, **options: Any) -> None:
        self.broker = broker
        self.client = self.connect(**options)

    def __enter__(self) -> Bus:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()

    def connect(self, **options: Any) -> ServiceBusClient:
        # No retries unless the test asks for them: what fails should be seen to fail.
        return ServiceBusClient.from_connection_string(self.broker.connection_string, **{"retry_total": 0, **options})

    def connect_aio(self, **options: Any) -> aio.ServiceBusClient:
        return aio.ServiceBusClient.from_connection_string(
            self.broker.connection_string, **{"retry_total": 0, **options}
        )

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


def connection_string(broker: Broker, key: str, rule: str = ROOT_RULE) -> str:
    """Over plain TCP, with another key than the broker's own."""
    endpoint = f"Endpoint=sb://127.0.0.1:{broker.port};UseDevelopmentEmulator=true"
    return f"{endpoint};SharedAccessKeyName={rule};SharedAccessKey={key}"


def in_a_loop(test: Callable[Parameters, Coroutine[Any, Any, None]]) -> Callable[Parameters, None]:
    """The test as a function that can run in any thread."""

    @functools.wraps(test)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        asyncio.run(test(*arguments, **options))

    return run


def collect_what_is_left_open() -> None:
    """The sockets that the SDK leaves open are nobody else's trouble."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


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
    deadline = time.monotonic() + 10
    while queue.counts() != expected:
        assert time.monotonic() < deadline, f"{queue.counts()} and not {expected}"
        time.sleep(0.05)
