"""Clients of the load tests, on Tandem's own driver."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tandem.amqp import ACCEPTED, Message, Settings
from tandem.amqp.message import encode_message
from tandem.driver import Client
from tandem.testing import Broker

__all__ = ["anonymous", "connect", "others_go_on", "send_and_receive"]

HOST = "127.0.0.1"

# Often enough to notice trouble, and seldom enough to leave the machine to it.
EXCHANGE_INTERVAL_S = 0.1


async def connect(broker: Broker, name: str = "load") -> Client:
    """A client that may do everything."""
    settings = Settings(name, user="RootManageSharedAccessKey", password="SAS_KEY_VALUE")
    return await Client.connect(HOST, broker.port, settings)


async def anonymous(broker: Broker) -> Client:
    """A client that has proven nothing, as the SDKs are until they put a token."""
    return await Client.connect(HOST, broker.port, Settings("stranger"))


async def send_and_receive(client: Client, queue: str, count: int = 20) -> None:
    """Messages go in and come out, in order."""
    sender = await client.sender(queue)
    receiver = await client.receiver(queue, credit=count)
    bodies = [b"%d" % number for number in range(count)]
    outcomes = await asyncio.gather(*(sender.send(encode_message(data=body)) for body in bodies))
    assert set(outcomes) == {ACCEPTED}
    received: list[bytes | None] = []
    for _ in bodies:
        delivery = await receiver.receive()
        received.append(Message(delivery.payload).data)
        receiver.settle(delivery)
    assert received == bodies
    await sender.close()
    await receiver.close()


@contextlib.asynccontextmanager
async def others_go_on(broker: Broker, queue: str) -> AsyncIterator[None]:
    """Another client, connected before the trouble begins, works before, during and after it."""
    async with await connect(broker, "bystander") as client:
        await send_and_receive(client, queue)
        is_over = asyncio.Event()

        async def exchange() -> None:
            while not is_over.is_set():
                await send_and_receive(client, queue)
                await asyncio.sleep(EXCHANGE_INTERVAL_S)

        exchanging = asyncio.create_task(exchange())
        try:
            yield
        finally:
            is_over.set()
            await exchanging
        await send_and_receive(client, queue)
