"""Messages of this library and of the official SDK are the same messages."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from tandem.client import BrokeredMessage, MessagingFactory
from tandem.testing import Broker
from tests.markers import mission
from tests.patience import PATIENCE_S, until


@mission("M5")
async def test_each_reads_what_the_other_sends(broker: Broker, factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.peek()
    ours = asyncio.all_tasks()
    async with ServiceBusClient.from_connection_string(broker.connection_string) as theirs:
        await client.send(
            BrokeredMessage(
                "from us",
                message_id="m-1",
                label="order",
                correlation_id="c",
                session_id="s",
                time_to_live=timedelta(minutes=1),
                properties={"n": 3, "store": "Store1"},
            )
        )
        async with theirs.get_queue_receiver(queue) as receiver:
            (message,) = await receiver.receive_messages(max_wait_time=PATIENCE_S)
            assert b"".join(message.body) == b"from us"
            assert (message.message_id, message.subject, message.correlation_id) == ("m-1", "order", "c")
            assert (message.session_id, message.time_to_live) == ("s", timedelta(minutes=1))
            assert message.application_properties == {b"n": 3, b"store": b"Store1"}
            await receiver.complete_message(message)
        async with theirs.get_queue_sender(queue) as sender:
            await sender.send_messages(
                ServiceBusMessage(
                    "from them", message_id="m-2", subject="answer", application_properties={"n": 4, "store": "Store2"}
                )
            )
    # The SDK's own background work ends a moment later.
    await until(lambda: asyncio.all_tasks() <= ours)
    read = await client.receive(PATIENCE_S)
    assert read is not None
    assert (read.body, read.message_id, read.label) == (b"from them", "m-2", "answer")
    assert read.properties == {"n": 4, "store": "Store2"}
    await read.complete()
