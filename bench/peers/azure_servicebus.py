"""The official SDK, as `tandem.bench.client.load` wants it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

__all__ = ["opened_azure"]


class AzureSubject:
    """`azure-servicebus`, by its asyncio clients, whose documentation asks for one operation at a time.

    Concurrent operations on one link happen to work on Python 3.11 and hang on 3.12 and newer, where each of them waits
    for a frame that another one has read.
    """

    def __init__(self, sender: ServiceBusSender, receiver: ServiceBusReceiver, timeout_s: float) -> None:
        self._sender = sender
        self._receiver = receiver
        self._timeout_s = timeout_s
        self._sending = asyncio.Lock()

    async def send(self, body: bytes) -> None:
        async with self._sending:
            await self._sender.send_messages(ServiceBusMessage(body))

    async def send_batch(self, bodies: Sequence[bytes]) -> None:
        await self._sender.send_messages([ServiceBusMessage(body) for body in bodies])

    async def receive(self, at_most: int) -> int:
        messages = await self._receiver.receive_messages(max_message_count=at_most, max_wait_time=self._timeout_s)
        for message in messages:
            await self._receiver.complete_message(message)
        return len(messages)


@asynccontextmanager
async def opened_azure(
    connection_string: str, queue: str, prefetch: int, timeout_s: float
) -> AsyncIterator[AzureSubject]:
    async with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_sender(queue) as sender,
        client.get_queue_receiver(queue, prefetch_count=prefetch) as receiver,
    ):
        yield AzureSubject(sender, receiver, timeout_s)
