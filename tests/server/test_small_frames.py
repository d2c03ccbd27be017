"""Clients that choose the smallest frames, and names so long that no error about them fits: each is refused in a frame
that it can read, and nobody else is disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

import pytest

from tandem.amqp import ACCEPTED, Rejected, Settings
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.terminus import Source
from tandem.amqp.types import Symbol
from tandem.driver import Client, Receiver
from tandem.engine.description import EntityStatus, QueueDescription
from tandem.errors import RemoteError
from tests.markers import mission
from tests.patience import until
from tests.server.test_broker import KEY, RULE, connect, make_queue, running
from tests.server.test_waiting_receivers import Onlooker

LONG: Final = "long-" * 51


def small(port: int) -> Awaitable[Client]:
    return Client.connect("127.0.0.1", port, Settings("c", user=RULE, password=KEY, max_frame_size=512))


@mission("M17")
async def test_a_detach_reaches_a_client_with_the_smallest_frames(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, await connect(broker) as other:
        await make_queue(broker, LONG)
        await make_queue(broker, "queue")
        neighbour = await other.sender("queue")
        async with await small(broker.port) as client:
            receiver = await client.receiver(LONG)
            await broker.perform(lambda namespace: namespace.delete(namespace.get(LONG)))
            await until(lambda: receiver.error is not None)
            assert isinstance(receiver.error, RemoteError)
            assert receiver.error.condition == "amqp:not-found"
        assert await neighbour.send(encode_message(data=b"m")) == ACCEPTED


@mission("M17")
async def test_a_refused_message_does_not_end_the_connection_of_a_client_with_the_smallest_frames(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, LONG)
        async with await small(broker.port) as client:
            sender = await client.sender(LONG)

            def disable(namespace: object) -> None:
                queue = broker.namespace.get(LONG)
                broker.namespace.update_queue(queue, QueueDescription(LONG, status=EntityStatus.SEND_DISABLED))

            await broker.perform(disable)
            outcome = await sender.send(encode_message(data=b"m"))
            assert isinstance(outcome, Rejected)
            assert outcome.error is not None
            assert outcome.error.condition == "com.microsoft:entity-disabled"


@mission("M7", "M17")
async def test_a_session_that_cannot_be_accepted_in_a_small_frame_disturbs_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer to its attach names the session, whose id is longer than the client left room for."""
    async with running(tmp_path) as broker, await connect(broker) as other:
        await make_queue(broker, "queue", requires_session=True)
        onlooker = Onlooker(broker)
        sender = await other.sender("queue")
        async with await small(broker.port) as client:
            source = Source("queue", filter={Symbol("com.microsoft:session-filter"): None})
            session = await client._session
            link = session.attach_receiver("n" * 330, source)
            receiver = Receiver(client.endpoint, link, 0)
            attach = asyncio.create_task(client._attach(link, receiver))
            subqueue = broker.namespace.get("queue").main
            await until(lambda: subqueue.consumers)
            message = encode_message(properties=Properties(group_id="s" * 128), data=b"m")
            assert await sender.send(message) == ACCEPTED
            with pytest.raises(RemoteError):
                await attach
        assert await sender.send(message) == ACCEPTED
        # The session is free for somebody who can read its name.
        other_receiver = await other.receiver(source)
        assert (await other_receiver.receive()).payload
        assert onlooker.errors == []
        assert "this attach takes" in caplog.text
