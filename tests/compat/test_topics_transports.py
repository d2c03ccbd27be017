"""Topics over every transport, with both clients of the official Python SDK."""

from __future__ import annotations

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiveMode

from tests.compat.sdk import (
    AT_ONCE,
    Bus,
    Subscription,
    Topic,
    in_a_loop,
    in_seconds,
    rule,
    sql,
    take,
    text,
    texts,
)
from tests.markers import mission
from tests.patience import PATIENCE_S
from tools.sdk_features import TRANSPORTS

pytestmark = AT_ONCE


def stores(bus: Bus) -> tuple[Topic, Subscription, Subscription]:
    """A topic, a subscription to everything and one to the first store."""
    topic = bus.topic()
    return topic, topic.subscription(), topic.subscription(rule("store", sql("StoreName = 'Store1'")))


def issues() -> list[ServiceBusMessage]:
    return [
        ServiceBusMessage(b"x" * 70_000, application_properties={"StoreName": f"Store{number}"}) for number in (1, 2, 1)
    ]


@mission("M7")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_client_publishes_and_receives_in_every_way(bus: Bus, transport: str) -> None:
    topic, everything, first_store = stores(bus)
    with bus.connect() as client:
        with client.get_topic_sender(topic.name) as sender:
            for message in issues():
                sender.send_messages(message)
            sender.schedule_messages(ServiceBusMessage("scheduled"), in_seconds(0.2))
        with client.get_subscription_receiver(topic.name, everything.own_name) as receiver:
            *issues_received, scheduled = take(receiver, 4)
            for message in (*issues_received, scheduled):
                receiver.renew_message_lock(message)
                receiver.complete_message(message)
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_subscription_receiver(topic.name, first_store.own_name, receive_mode=mode) as receiver:
            assert [len(body) for body in texts(take(receiver, 2))] == [70_000, 70_000]
    assert text(scheduled) == "scheduled"
    assert everything.counts() == first_store.counts() == {}


@mission("M7")
@pytest.mark.parametrize("transport", TRANSPORTS)
@in_a_loop
async def test_the_asyncio_client_publishes_and_receives_in_every_way(bus: Bus, transport: str) -> None:
    topic, everything, first_store = stores(bus)
    with_sessions = topic.subscription(rule("session", sql("sys.SessionId = 'red'")), requires_session=True)
    async with bus.connect_aio() as client:
        async with client.get_topic_sender(topic.name) as sender:
            batch = await sender.create_message_batch()
            for message in issues():
                batch.add_message(message)
            await sender.send_messages(batch)
            (number,) = await sender.schedule_messages(ServiceBusMessage("never"), in_seconds(60))
            await sender.cancel_scheduled_messages(number)
            await sender.send_messages(ServiceBusMessage("in a session", session_id="red"))
        async with client.get_subscription_receiver(topic.name, everything.own_name) as receiver:
            taken: list[ServiceBusReceivedMessage] = []
            while len(taken) < 4:
                taken += await receiver.receive_messages(4 - len(taken), PATIENCE_S)
            complete, abandon, defer, dead = taken
            await receiver.complete_message(complete)
            await receiver.defer_message(defer)
            await receiver.dead_letter_message(dead, reason="why")
            await receiver.abandon_message(abandon)
            assert defer.sequence_number is not None
            (deferred,) = await receiver.receive_deferred_messages(defer.sequence_number)
            await receiver.complete_message(deferred)
            assert len(await receiver.peek_messages(10, sequence_number=1)) == 1
        async with client.get_subscription_receiver(
            topic.name, with_sessions.own_name, session_id="red"
        ) as session_receiver:
            (message,) = await session_receiver.receive_messages(1, PATIENCE_S)
            assert text(message) == "in a session"
            await session_receiver.complete_message(message)
    assert everything.counts() == {"active": 1, "dead_letter": 1}
    assert first_store.counts() == {"active": 2}
    assert with_sessions.counts() == {}
