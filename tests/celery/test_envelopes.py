"""kombu's messages on the bus: what others see of them, and what comes back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kombu import Connection, Queue

from tandem.client import BrokeredMessage, MessageState, MessagingFactory
from tandem.testing import Broker
from tests.celery.traffic import Listener
from tests.markers import mission

HEADERS: dict[str, Any] = {
    "task": "shop.ship",
    "id": "c0ffee",
    "retries": 0,
    "ratio": 0.5,
    "is_eager": False,
    "huge": 1 << 70,
    "timelimit": [None, 5],
    "shadow": None,
    "stamps": {"a": ["b"]},
    "kombu_mine": "kept all the same",
    "naïve": "grüße",
}


def on_the_bus(broker: Broker, path: str) -> BrokeredMessage:
    """The first message of an entity, as any client sees it."""

    async def peek() -> BrokeredMessage:
        async with MessagingFactory.from_connection_string(broker.connection_string) as factory:
            return (await factory.create_message_receiver(path).peek())[0]

    return asyncio.run(peek())


def test_headers_and_body_are_what_they_were_and_others_can_read_them(
    connection: Connection, broker: Broker, prefix: str
) -> None:
    connection.Producer().publish(
        {"table": 1}, routing_key="tasks", declare=[Queue("tasks")], headers=HEADERS, correlation_id="c", reply_to="r"
    )
    seen = on_the_bus(broker, f"{prefix}tasks")
    assert (seen.body, seen.content_type, seen.correlation_id) == (b'{"table": 1}', "application/json", "c")
    assert (seen.properties["task"], seen.properties["retries"], seen.label) == ("shop.ship", 0, "tasks")
    with Listener(connection, Queue("tasks")) as listener:
        assert listener.wait_for(1) == [{"table": 1}]
        message = listener.messages[0]
    assert message.headers == HEADERS
    assert {name: type(value) for name, value in message.headers.items()} == {
        name: type(value) for name, value in HEADERS.items()
    }
    assert (message.properties["correlation_id"], message.properties["reply_to"]) == ("c", "r")
    assert message.content_encoding == "utf-8"


@pytest.mark.parametrize("body", ["text", b"\x00\xff", {"a": [1]}])
@pytest.mark.parametrize("compression", [None, "zlib"])
def test_bodies_of_every_kind_come_back(connection: Connection, body: Any, compression: str | None) -> None:
    connection.Producer().publish(body, routing_key="tasks", declare=[Queue("tasks")], compression=compression)
    with Listener(connection, Queue("tasks")) as listener:
        assert listener.wait_for(1) == [body]
        assert type(listener.messages[0].content_type) is str


def test_a_program_that_knows_nothing_of_kombu_can_send(connection: Connection, broker: Broker, prefix: str) -> None:
    Queue("tasks")(connection.channel()).declare()

    async def send() -> None:
        async with MessagingFactory.from_connection_string(broker.connection_string) as factory:
            message = BrokeredMessage('{"a": 1}', content_type="application/json")
            message.properties["task"] = "shop.ship"
            message.properties["kombu"] = "not what it should be"
            await factory.create_message_sender(f"{prefix}tasks").send(message)

    asyncio.run(send())
    with Listener(connection, Queue("tasks")) as listener:
        assert listener.wait_for(1) == [{"a": 1}]
        assert listener.messages[0].headers == {"task": "shop.ship"}


@mission("M5")
@pytest.mark.parametrize(
    "eta", ["2999-01-01T00:00:00+00:00", "2999-01-01T00:00:00", "2999-01-01T02:00:00+02:00"], ids=["UTC", "naive", "+2"]
)
def test_an_eta_in_the_future_is_a_scheduled_message(
    connection: Connection, broker: Broker, prefix: str, eta: str
) -> None:
    connection.Producer().publish("later", routing_key="tasks", declare=[Queue("tasks")], headers={"eta": eta})
    seen = on_the_bus(broker, f"{prefix}tasks")
    assert seen.state is MessageState.SCHEDULED
    assert seen.scheduled_enqueue_time_utc == datetime(2999, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("eta", ["2000-01-01T00:00:00+00:00", None, "soon", 7])
def test_any_other_eta_changes_nothing(connection: Connection, eta: Any) -> None:
    connection.Producer().publish("now", routing_key="tasks", declare=[Queue("tasks")], headers={"eta": eta})
    with Listener(connection, Queue("tasks")) as listener:
        listener.wait_for(1)
        assert listener.messages[0].headers == {"eta": eta}


def test_an_expiration_is_the_time_to_live(connection: Connection, broker: Broker, prefix: str) -> None:
    connection.Producer().publish("soon over", routing_key="tasks", declare=[Queue("tasks")], expiration=90)
    assert on_the_bus(broker, f"{prefix}tasks").time_to_live == timedelta(seconds=90)
