"""Links to an entity that is deleted, and the entity that is created under its name afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tandem.amqp import ACCEPTED, Message, Rejected
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import Int
from tandem.driver import Client, Receiver, Sender
from tandem.engine.hubs.description import EventHubDescription
from tandem.errors import RemoteError
from tandem.server.broker import Broker
from tests.markers import mission
from tests.patience import until
from tests.server.test_broker import connect, data_of, make_queue, running

MESSAGE: Final = encode_message(data=b"message")
PEEK: Final = encode_message(
    properties=Properties(message_id="1"),
    application_properties={"operation": "com.microsoft:peek-message"},
    value={"from-sequence-number": 0, "message-count": Int(10)},
)


async def make(broker: Broker, name: str) -> None:
    if name == "hub":
        await broker.perform(lambda namespace: namespace.hubs.create(EventHubDescription("hub", partition_count=1)))
    else:
        await make_queue(broker, name)


async def delete(broker: Broker, name: str) -> None:
    if name == "hub":
        await broker.perform(lambda namespace: namespace.hubs.delete(namespace.hubs.get("hub")))
    else:
        await broker.perform(lambda namespace: namespace.delete(namespace.get(name)))


async def peek(requests: Sender, responses: Receiver) -> tuple[object, list[bytes | None]]:
    """Return the status, and what the messages hold."""
    assert await requests.send(PEEK) is ACCEPTED
    answer = Message((await responses.receive()).payload)
    body = answer.value
    assert isinstance(body, dict)
    found = [Message(one["message"]).data for one in body.get("messages", [])]
    return (answer.application_properties or {}).get("statusCode"), found


async def management(client: Client) -> tuple[Sender, Receiver]:
    responses = await client.receiver("queue/$management")
    return await client.sender("queue/$management"), responses


@mission("M4")
async def test_an_old_management_link_serves_the_entity_that_has_the_name_now(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make(broker, "queue")
        async with await connect(broker) as client:
            requests, responses = await management(client)
            assert await peek(requests, responses) == (204, [])
            await delete(broker, "queue")
            assert await peek(requests, responses) == (404, [])
            await make(broker, "queue")
            assert await peek(requests, responses) == (204, [])
            sender = await client.sender("queue")
            assert await sender.send(MESSAGE) is ACCEPTED
            assert await peek(requests, responses) == (200, [b"message"])


@mission("M4")
@pytest.mark.parametrize("name", ["queue", "hub"])
async def test_an_old_sending_link_ends_with_its_first_send_and_a_new_one_reaches_the_new_entity(
    tmp_path: Path, name: str
) -> None:
    async with running(tmp_path) as broker:
        await make(broker, name)
        async with await connect(broker) as client:
            sender = await client.sender(name)
            assert await sender.send(MESSAGE) is ACCEPTED
            await delete(broker, name)
            await make(broker, name)
            rejected = await sender.send(MESSAGE)
            assert isinstance(rejected, Rejected)
            assert rejected.error is not None
            assert rejected.error.condition == "amqp:not-found"
            await until(lambda: sender.error is not None, "the end of the link")
            assert isinstance(sender.error, RemoteError)
            assert sender.error.condition == "amqp:not-found"
            again = await client.sender(name)
            assert await again.send(MESSAGE) is ACCEPTED
            source = "hub/ConsumerGroups/$Default/Partitions/0" if name == "hub" else name
            receiver = await client.receiver(source)
            assert data_of(await receiver.receive()) == b"message"
            assert receiver.waiting_count == 0
