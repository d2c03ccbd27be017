"""Our client driver against a broker that nobody here wrote: RabbitMQ with its AMQP 1.0 plugin."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from bench.peers.rabbitmq import RabbitMq
from tandem.amqp import ACCEPTED, RELEASED, AmqpError, Message, Rejected, Settings, Target
from tandem.amqp.message import Header, Properties, encode_message
from tandem.amqp.types import Symbol, UInt
from tandem.driver import Client, Receiver
from tandem.errors import RemoteError, TandemError

pytestmark = [pytest.mark.spec("amqp:2", "amqp:3", "amqp:5")]


async def connect(rabbitmq: RabbitMq, **settings: Any) -> Client:
    given = {"user": rabbitmq.user, "password": rabbitmq.password, **settings}
    return await Client.connect(rabbitmq.host, rabbitmq.port, Settings("tandem-interop", **given))


def fresh() -> str:
    """The address of a queue that is declared by its first use."""
    return f"/queue/interop-{uuid.uuid4().hex}"


async def receive_bodies(receiver: Receiver, count: int) -> list[bytes | None]:
    bodies: list[bytes | None] = []
    for _ in range(count):
        delivery = await receiver.receive()
        bodies.append(Message(delivery.payload).data)
        receiver.settle(delivery)
    return bodies


async def test_messages_sent_are_accepted_and_come_back_in_order(rabbitmq: RabbitMq) -> None:
    address = fresh()
    async with await connect(rabbitmq) as client:
        sender = await client.sender(address)
        bodies = [b"message %d" % number for number in range(1_000)]
        outcomes = await asyncio.gather(*(sender.send(encode_message(data=body)) for body in bodies))
        assert set(outcomes) == {ACCEPTED}
        receiver = await client.receiver(address, credit=50)
        assert await receive_bodies(receiver, len(bodies)) == bodies


async def test_sasl_anonymous_gets_in(rabbitmq: RabbitMq) -> None:
    async with await connect(rabbitmq, user=None, password=None) as client:
        sender = await client.sender(fresh())
        assert await sender.send(encode_message(data=b"x")) == ACCEPTED


async def test_a_wrong_password_is_an_error_that_says_so(rabbitmq: RabbitMq) -> None:
    with pytest.raises(TandemError, match=r"credentials|connection was lost"):
        await connect(rabbitmq, password="wrong")


async def test_a_message_of_many_small_frames_comes_back_whole(rabbitmq: RabbitMq) -> None:
    address = fresh()
    body = bytes(range(256)) * 2_000
    async with await connect(rabbitmq, max_frame_size=4_096) as client:
        sender = await client.sender(address)
        assert await sender.send(encode_message(data=body)) == ACCEPTED
        receiver = await client.receiver(address)
        assert await receive_bodies(receiver, 1) == [body]


async def test_header_properties_and_application_properties_come_back(rabbitmq: RabbitMq) -> None:
    address = fresh()
    async with await connect(rabbitmq) as client:
        sender = await client.sender(address)
        await sender.send(
            encode_message(
                header=Header(durable=True, priority=5),
                properties=Properties(message_id="m-1", subject="label", content_type="text/plain", group_id="g"),
                application_properties={"text": "value", "flag": True},
                data=b"body",
            )
        )
        receiver = await client.receiver(address)
        message = Message((await receiver.receive()).payload)
        assert message.header is not None
        assert (message.header.durable, message.header.priority) == (True, 5)
        assert message.properties is not None
        assert (message.properties.message_id, message.properties.content_type) == ("m-1", "text/plain")
        assert message.application_properties == {"text": "value", "flag": True}


async def test_a_released_message_comes_again_and_a_rejected_one_does_not(rabbitmq: RabbitMq) -> None:
    address = fresh()
    async with await connect(rabbitmq) as client:
        sender = await client.sender(address)
        await sender.send(encode_message(data=b"again"))
        receiver = await client.receiver(address, credit=1)
        receiver.settle(await receiver.receive(), RELEASED)
        again = await receiver.receive()
        assert Message(again.payload).data == b"again"
        receiver.settle(again, Rejected(AmqpError("tandem:unwanted")))
        await sender.send(encode_message(data=b"next"))
        assert await receive_bodies(receiver, 1) == [b"next"]


async def test_an_address_it_does_not_know_is_refused_with_its_reason(rabbitmq: RabbitMq) -> None:
    client = await connect(rabbitmq)
    with pytest.raises(RemoteError) as refused:
        await client.sender(Target("/nonsense/of/an/address"))
    assert refused.value.condition.startswith("amqp:")
    await client.close()


async def test_properties_of_our_open_and_unusual_types_do_not_disturb_it(rabbitmq: RabbitMq) -> None:
    address = fresh()
    async with await connect(rabbitmq, properties={Symbol("product"): "tandem"}) as client:
        sender = await client.sender(address)
        await sender.send(encode_message(application_properties={"number": UInt(7)}, data=b"x"))
        receiver = await client.receiver(address)
        assert await receive_bodies(receiver, 1) == [b"x"]
