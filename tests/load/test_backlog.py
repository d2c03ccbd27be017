"""A queue may hold more than fits into memory."""

from __future__ import annotations

import asyncio

from tandem.amqp import ACCEPTED, Message
from tandem.amqp.message import encode_message
from tandem.bench.measuring.machine import resident_bytes
from tandem.driver import Client
from tandem.testing import Broker
from tests.load.clients import connect
from tests.markers import mission

COUNT = 20_000
BODY_BYTES = 8_192
AT_ONCE = 500

# Bytes. Less than the bodies alone, 160 MB, and more than SQLite's cache (64 MiB), buffers and the allocator take.
GENEROUS_GROWTH_BYTES = 110_000_000


async def _fill(client: Client, queue: str) -> None:
    sender = await client.sender(queue)
    padding = b"x" * (BODY_BYTES - 8)
    for first in range(0, COUNT, AT_ONCE):
        numbers = range(first, first + AT_ONCE)
        outcomes = await asyncio.gather(*(sender.send(encode_message(data=b"%08d" % n + padding)) for n in numbers))
        assert set(outcomes) == {ACCEPTED}


async def _empty(client: Client, queue: str) -> list[int]:
    receiver = await client.receiver(queue, credit=AT_ONCE)
    numbers: list[int] = []
    for _ in range(COUNT):
        delivery = await receiver.receive()
        numbers.append(int((Message(delivery.payload).data or b"")[:8]))
        receiver.settle(delivery)
    return numbers


@mission("M1")
async def test_a_long_backlog_is_received_in_order_with_bounded_memory(broker: Broker, queue: str) -> None:
    async with await connect(broker) as client:
        before = resident_bytes(broker.pid)
        await _fill(client, queue)
        assert resident_bytes(broker.pid) - before < GENEROUS_GROWTH_BYTES
        assert await _empty(client, queue) == list(range(COUNT))
        assert resident_bytes(broker.pid) - before < GENEROUS_GROWTH_BYTES


@mission("M1")
async def test_a_backlog_outlives_its_broker(broker: Broker, queue: str) -> None:
    async with await connect(broker) as client:
        sender = await client.sender(queue)
        bodies = [b"%d" % number for number in range(1_000)]
        await asyncio.gather(*(sender.send(encode_message(data=body)) for body in bodies))
    broker.restart()
    assert broker.queue(queue)["active_message_count"] == len(bodies)
    async with await connect(broker) as client:
        receiver = await client.receiver(queue)
        for body in bodies:
            delivery = await receiver.receive()
            assert Message(delivery.payload).data == body
            receiver.settle(delivery)
