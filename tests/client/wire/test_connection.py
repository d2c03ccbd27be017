"""A network that fails: what goes on by itself, and what is told."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

import pytest

from tandem.client import (
    BrokeredMessage,
    MessageLockLostError,
    MessagingCommunicationError,
    MessagingFactorySettings,
    NoRetry,
    OperationTimeoutError,
    ReceiveMode,
)
from tandem.client.wire import inbox
from tandem.errors import StateError
from tandem.testing import Broker
from tests.client.network import QUICK, Proxy
from tests.markers import mission
from tests.patience import PATIENCE_S, until


@mission("M15")
async def test_sends_go_on_through_lost_connections(proxy: Proxy, queue: str) -> None:
    count = 200
    async with proxy.factory() as factory:
        client = factory.create_queue_client(queue)

        async def send(number: int) -> None:
            await asyncio.sleep(number * 0.002)
            await client.send(BrokeredMessage(str(number)))

        sends = [asyncio.create_task(send(number)) for number in range(count)]
        for _ in range(4):
            await asyncio.sleep(0.08)
            proxy.cut()
        await asyncio.gather(*sends)
        assert proxy.connections_made > 1
        bodies: list[bytes] = []
        # Where the outcome was not known a message is there twice; none is missing.
        while len(set(bodies)) < count:
            messages = await client.receive_batch(500, PATIENCE_S)
            assert messages
            bodies += [message.body for message in messages]
            await asyncio.gather(*(message.complete() for message in messages))
    assert {int(body) for body in bodies} == set(range(count))


@mission("M15")
async def test_a_receiver_that_waits_is_there_again_after_the_connection_was_lost(proxy: Proxy, queue: str) -> None:
    async with proxy.factory() as factory:
        client = factory.create_queue_client(queue)
        receiving = asyncio.create_task(client.receive(PATIENCE_S))
        await asyncio.sleep(0.1)
        proxy.cut()
        await asyncio.sleep(0.05)
        await client.send(BrokeredMessage("after"))
        message = await receiving
        assert message is not None
        assert message.body == b"after"
        await message.complete()


@pytest.mark.parametrize("settlement", ["complete", "abandon", "defer", "dead_letter"])
async def test_a_message_is_settled_by_its_token_when_its_link_is_gone(
    broker: Broker, proxy: Proxy, queue: str, settlement: str
) -> None:
    async with proxy.factory() as factory:
        client = factory.create_queue_client(queue)
        await client.send(BrokeredMessage("mine"))
        message = await client.receive(PATIENCE_S)
        assert message is not None
        proxy.cut()
        await asyncio.sleep(0.05)
        if settlement == "dead_letter":
            await message.dead_letter("why", "because", {"by": "token"})
            message = await factory.create_message_receiver(f"{queue}/$DeadLetterQueue").receive(PATIENCE_S)
            assert message is not None
            assert (message.dead_letter_reason, message.dead_letter_error_description) == ("why", "because")
            assert message.properties["by"] == "token"
        elif settlement == "abandon":
            await message.abandon({"by": "token"})
            message = await client.receive(PATIENCE_S)
            assert message is not None
            assert (message.delivery_count, message.properties) == (1, {"by": "token"})
        elif settlement == "defer":
            await message.defer()
            (message,) = await client.receive_deferred(message.sequence_number or 0)
        await message.complete()
    assert broker.queue(queue)["active_message_count"] == 0


async def test_a_request_under_way_when_the_connection_is_lost_is_made_again(proxy: Proxy, queue: str) -> None:
    async with proxy.factory() as factory:
        client = factory.create_queue_client(queue)
        await client.send(BrokeredMessage("seen"))
        assert len(await client.peek(5, 0)) == 1
        proxy.hold_answers()
        peeking = asyncio.create_task(client.peek(5, 0))
        await asyncio.sleep(0.05)
        proxy.cut()
        proxy.pass_answers()
        assert [message.body for message in await peeking] == [b"seen"]


async def test_a_drain_that_is_not_answered_ends_the_link_and_the_next_receive_has_another(
    proxy: Proxy, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "DRAIN_LIMIT_S", 0.1)
    async with proxy.factory() as factory:
        client = factory.create_queue_client(queue)
        assert await client.receive(0) is None
        proxy.hold_answers()
        assert await client.receive(0.05) is None
        proxy.pass_answers()
        await client.send(BrokeredMessage("late"))
        message = await client.receive(PATIENCE_S)
        assert message is not None
        await message.complete()


@pytest.mark.timeout(180)  # It starts a broker twice.
async def test_a_lock_that_ended_with_the_broker_is_said_to_be_lost(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Broker(tmp_path_factory.mktemp("restarted")) as broker:
        broker.create_queue("q")
        async with Proxy(broker.port) as proxy, proxy.factory() as factory:
            client = factory.create_queue_client("q")
            await client.send(BrokeredMessage("kept"))
            message = await client.receive(PATIENCE_S)
            assert message is not None
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            with pytest.raises(MessageLockLostError):
                await message.complete()
            again = await client.receive(PATIENCE_S)
            assert again is not None
            assert again.body == b"kept"


async def test_what_was_fetched_ahead_before_the_connection_was_lost_is_still_read(
    broker: Broker, proxy: Proxy, queue: str
) -> None:
    """Received and deleted: the only copies are here."""
    async with proxy.factory() as factory:
        client = factory.create_queue_client(queue, ReceiveMode.RECEIVE_AND_DELETE, prefetch_count=100)
        await client.send_batch([BrokeredMessage(str(number)) for number in range(50)])
        first = await client.receive(PATIENCE_S)
        assert first is not None
        # Everything is on its way once the broker has no more of it, and is here when a later answer is.
        await until(lambda: broker.queue(queue)["active_message_count"] == 0)
        assert await client.peek() == []
        proxy.cut()
        await asyncio.sleep(0.05)
        bodies = [first.body]
        while message := await client.receive(0):
            bodies.append(message.body)
    assert bodies == [str(number).encode() for number in range(50)]


@mission("M12", "M17")
async def test_a_service_that_cannot_be_reached_is_a_communication_error(proxy: Proxy, queue: str) -> None:
    await proxy.refuse()
    settings = MessagingFactorySettings(retry_policy=NoRetry())
    async with proxy.factory(settings) as factory:
        with pytest.raises(MessagingCommunicationError, match="cannot be reached") as caught:
            await factory.create_queue_client(queue).send(BrokeredMessage())
    assert caught.value.is_transient


async def test_a_service_that_comes_back_is_used_again(proxy: Proxy, queue: str) -> None:
    async with proxy.factory() as factory:
        client = factory.create_queue_client(queue)
        await client.send(BrokeredMessage("1"))
        await proxy.refuse()
        sending = asyncio.create_task(client.send(BrokeredMessage("2")))
        await asyncio.sleep(0.1)
        assert not sending.done()
        await proxy.accept()
        await sending
        assert [message.body for message in await client.peek(10)] == [b"1", b"2"]


@mission("M17")
async def test_a_service_that_does_not_answer_is_a_time_out(proxy: Proxy, queue: str) -> None:
    # Also the time that the first send may take.
    settings = dataclasses.replace(QUICK, operation_timeout=timedelta(seconds=3))
    async with proxy.factory(settings) as factory:
        client = factory.create_queue_client(queue)
        await client.send(BrokeredMessage("1"))
        proxy.hold_answers()
        with pytest.raises(OperationTimeoutError, match="longer than 3 s") as caught:
            await client.send(BrokeredMessage("2"))
        assert caught.value.is_transient
        proxy.cut()


async def test_closing_ends_although_the_service_does_not_answer(proxy: Proxy, queue: str) -> None:
    factory = proxy.factory()
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage("1"))
    proxy.hold_answers()
    async with asyncio.timeout(PATIENCE_S):
        await factory.close()


async def test_a_send_that_waits_for_a_connection_ends_when_the_factory_is_closed(proxy: Proxy, queue: str) -> None:
    proxy.hold_answers()
    factory = proxy.factory()
    sending = asyncio.create_task(factory.create_queue_client(queue).send(BrokeredMessage()))
    await asyncio.sleep(0.05)
    await factory.close()
    async with asyncio.timeout(PATIENCE_S):
        (outcome,) = await asyncio.gather(sending, return_exceptions=True)
    assert isinstance(outcome, StateError | MessagingCommunicationError)
    assert asyncio.all_tasks() - {asyncio.current_task()} == proxy.tasks


async def test_a_cancelled_connect_is_no_harm_to_the_others(proxy: Proxy, queue: str) -> None:
    async with proxy.factory() as factory:
        client = factory.create_queue_client(queue)
        first = asyncio.create_task(client.send(BrokeredMessage("cancelled")))
        second = asyncio.create_task(client.send(BrokeredMessage("sent")))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert proxy.connections_made == 1
