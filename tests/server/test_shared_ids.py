"""Two transfers under one delivery-id, as the Python SDK writes them, on every kind of link that a client sends on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tandem.amqp import ACCEPTED, Coordinator, Declare, Declared
from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.message import encode_message
from tandem.driver import Client, Sender
from tandem.engine.hubs.description import EventHubDescription
from tandem.server.broker import Broker
from tests.markers import mission, spec
from tests.patience import until
from tests.server.test_broker import connect, data_of, make_queue, running

MESSAGE = encode_message(data=b"message")


async def send_under_one_id(client: Client, *senders: Sender, payload: bytes = MESSAGE) -> DeliveryState | None:
    """Send once on each link, all in one write and under one id. Return the answer to the id."""
    session = senders[0].link.session
    delivery_id = session.next_delivery_id
    answer: asyncio.Future[DeliveryState | None] = asyncio.get_running_loop().create_future()
    for sender in senders:
        await until(lambda: sender.link.credit > 0)  # noqa: B023 - called at once
    for sender in senders:
        # The client's own books know one delivery under an id: the last one.
        for one in senders:
            one.link.unsettled.discard(delivery_id)
        session.next_delivery_id = delivery_id
        sender.link.send(payload, context=answer)
    client.endpoint.flush_soon()
    await until(lambda: answer.done() or sender.error is not None, "the answer to a delivery-id")
    assert sender.error is None
    return answer.result()


async def make_entities(broker: Broker) -> None:
    await make_queue(broker, "queue")
    await broker.perform(lambda namespace: namespace.hubs.create(EventHubDescription("hub", partition_count=1)))


async def attach(client: Client, target: str) -> Sender:
    return await client.sender(Coordinator() if target == "coordinator" else target)


@spec("amqp:2.6.12")
@pytest.mark.parametrize(
    "target", ["queue", "hub/Partitions/0", "$cbs", "$management", "queue/$management", "coordinator"]
)
async def test_a_reused_delivery_id_does_not_end_the_session(tmp_path: Path, target: str) -> None:
    async with running(tmp_path) as broker:
        await make_entities(broker)
        async with await connect(broker) as client:
            sender = await attach(client, target)
            payload = Declare().encode() if target == "coordinator" else MESSAGE
            answers = [await send_under_one_id(client, sender, sender, payload=payload) for _ in range(3)]
            answers.append(await sender.send(payload))
    expected = Declared if target == "coordinator" else type(ACCEPTED)
    assert [type(answer) for answer in answers] == [expected] * 4


@mission("M3")
async def test_both_messages_under_one_id_are_stored(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_entities(broker)
        async with await connect(broker) as client:
            queue = await client.sender("queue")
            management = await client.sender("queue/$management")
            assert await send_under_one_id(client, queue, management, queue) is ACCEPTED
            receiver = await client.receiver("queue")
            assert [data_of(await receiver.receive()) for _ in range(2)] == [b"message", b"message"]
