"""Everything closes, whoever closes it, and what is chosen wrongly is refused before anything is opened."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tandem.client import BrokeredMessage, MessagingFactory, MessagingFactorySettings, ReceiveMode
from tandem.errors import UsageError
from tandem.testing import Broker
from tests.patience import PATIENCE_S


async def test_clients_close_by_themselves_and_the_factory_goes_on(
    broker: Broker, factory: MessagingFactory, queue: str
) -> None:
    broker.create_topic(f"{queue}-topic")
    broker.create_subscription(f"{queue}-topic", "s")
    async with factory.create_queue_client(queue) as client:
        assert client.path == queue
        assert client.receive_mode is ReceiveMode.PEEK_LOCK
        await client.send(BrokeredMessage("kept"))
    async with factory.create_topic_client(f"{queue}-topic") as topic:
        await topic.send(BrokeredMessage("copied"))
    async with factory.create_subscription_client(f"{queue}-topic", "s") as subscription:
        assert await subscription.receive(PATIENCE_S) is not None
    async with factory.create_message_sender(queue) as sender:
        assert sender.path == queue
        await sender.send(BrokeredMessage("also kept"))
    async with factory.create_message_receiver(queue) as receiver:
        assert receiver.path == queue
        assert [message.body for message in await receiver.receive_batch(10, PATIENCE_S)] == [b"kept", b"also kept"]
    await client.send(BrokeredMessage("a closed client opens again when it is used"))


async def test_a_factory_closes_what_it_made(broker: Broker, queue: str) -> None:
    first = MessagingFactory.from_connection_string(broker.connection_string)
    client = first.create_queue_client(queue, prefetch_count=10)
    await client.send_batch([BrokeredMessage(str(number)) for number in range(5)])
    message = await client.receive(PATIENCE_S)
    assert message is not None
    await message.complete()
    await first.close()
    await first.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    async with MessagingFactory.from_connection_string(broker.connection_string) as second:
        messages = await second.create_queue_client(queue).receive_batch(10, PATIENCE_S)
        assert [(message.body, message.delivery_count) for message in messages] == [
            (str(number).encode(), 0) for number in range(1, 5)
        ]


async def test_a_factory_that_was_never_used_closes(broker: Broker) -> None:
    factory = MessagingFactory.from_connection_string(broker.connection_string)
    assert factory.address == f"amqp://127.0.0.1:{broker.port}"
    assert factory.settings == MessagingFactorySettings(
        retry_policy=factory.settings.retry_policy, waiting=factory.settings.waiting
    )
    await factory.close()


def test_settings_that_cannot_be_are_refused(broker: Broker) -> None:
    with pytest.raises(UsageError, match="operation_timeout"):
        MessagingFactorySettings(operation_timeout=timedelta(0))
    with pytest.raises(UsageError, match="prefetch_count"):
        MessagingFactorySettings(prefetch_count=-1)
    factory = MessagingFactory.from_connection_string(broker.connection_string)
    with pytest.raises(UsageError, match="prefetch_count"):
        factory.create_queue_client("q", prefetch_count=1_000_000)
