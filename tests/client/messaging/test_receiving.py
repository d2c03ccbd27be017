"""Receiving from queues, in both modes, and what becomes of the messages."""

from __future__ import annotations

import asyncio
import time

import pytest

from tandem.client import (
    BrokeredMessage,
    MessageLockLostError,
    MessageNotFoundError,
    MessageState,
    MessagingFactory,
    ReceiveMode,
)
from tandem.errors import UsageError
from tandem.testing import Broker, Bus
from tests.markers import mission
from tests.patience import PATIENCE_S


@mission("M6")
async def test_a_receive_waits_for_its_time_and_returns_nothing(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    started_s = time.monotonic()
    assert await client.receive(timeout=0.2) is None
    assert 0.2 <= time.monotonic() - started_s < PATIENCE_S


@mission("M6")
async def test_a_receive_returns_as_soon_as_a_message_comes(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    waiting = asyncio.create_task(client.receive(timeout=PATIENCE_S))
    await asyncio.sleep(0.05)
    await client.send(BrokeredMessage("now"))
    message = await waiting
    assert message is not None
    assert message.body == b"now"


@mission("M6")
async def test_a_receive_can_be_ended_before_its_time(factory: MessagingFactory, queue: str) -> None:
    receiver = factory.create_message_receiver(queue)
    assert not receiver.stop_waiting(), "it has no link yet"
    await receiver.attach()
    waiting = asyncio.create_task(receiver.receive(timeout=10 * PATIENCE_S))
    await asyncio.sleep(0)
    assert receiver.stop_waiting()
    assert await asyncio.wait_for(waiting, PATIENCE_S) is None
    await factory.create_queue_client(queue).send(BrokeredMessage("later"))
    message = await receiver.receive(PATIENCE_S)
    assert message is not None, "the receiver goes on"
    await message.complete()


@mission("M3")
async def test_a_released_message_comes_again_with_the_same_delivery_count(
    factory: MessagingFactory, queue: str
) -> None:
    client, receiver = factory.create_queue_client(queue), factory.create_message_receiver(queue)
    await client.send(BrokeredMessage("again"))
    for _ in range(3):
        message = await receiver.receive(PATIENCE_S)
        assert message is not None
        assert message.delivery_count == 0
        receiver.release(message)


@mission("M2")
async def test_what_is_received_and_deleted_is_gone(broker: Broker, factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue, ReceiveMode.RECEIVE_AND_DELETE)
    await client.send(BrokeredMessage("once"))
    message = await client.receive(PATIENCE_S)
    assert message is not None
    assert message.lock_token is None
    assert broker.queue(queue)["active_message_count"] == 0
    with pytest.raises(UsageError, match="not locked"):
        await message.complete()


@mission("M3")
async def test_a_completed_message_is_consumed(broker: Broker, factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage("once"))
    message = await client.receive(PATIENCE_S)
    assert message is not None
    assert broker.queue(queue)["active_message_count"] == 1
    await message.complete()
    assert broker.queue(queue)["active_message_count"] == 0


@mission("M3")
async def test_an_abandoned_message_comes_again_at_once(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage("twice", message_id="same"))
    first = await client.receive(PATIENCE_S)
    assert first is not None
    await first.abandon({"tried": 1})
    second = await client.receive(PATIENCE_S)
    assert second is not None
    assert second.message_id == "same"
    assert second.delivery_count == 1
    assert second.properties == {"tried": 1}
    await second.complete()


@mission("M5")
async def test_a_dead_lettered_message_says_why(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage("bad"))
    message = await client.receive(PATIENCE_S)
    assert message is not None
    await message.dead_letter("NotAnOrder", "it has no customer")
    dead = await factory.create_message_receiver(f"{queue}/$DeadLetterQueue").receive(PATIENCE_S)
    assert dead is not None
    assert dead.dead_letter_reason == "NotAnOrder"
    assert dead.dead_letter_error_description == "it has no customer"
    await dead.complete()


@mission("M5")
async def test_a_deferred_message_is_received_by_its_sequence_number(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage("not now"))
    message = await client.receive(PATIENCE_S)
    assert message is not None
    assert message.sequence_number is not None
    await message.defer({"deferred_by": "test"})
    assert await client.receive(0) is None
    (again,) = await client.receive_deferred(message.sequence_number)
    assert again.body == b"not now"
    assert again.state is MessageState.DEFERRED
    assert again.properties == {"deferred_by": "test"}
    await again.complete()
    with pytest.raises(MessageNotFoundError):
        await client.receive_deferred(message.sequence_number)


@mission("M5")
async def test_a_renewed_lock_holds_longer_than_the_lock_duration(bus: Bus, name: str) -> None:
    bus.create_queue(name, lock_duration_ms=30_000)
    async with MessagingFactory.from_connection_string(bus.connection_string) as factory:
        client = factory.create_queue_client(name)
        await client.send(BrokeredMessage())
        message = await client.receive(PATIENCE_S)
        assert message is not None
        for _ in range(3):
            bus.clock.advance(seconds=20)
            until = await message.renew_lock()
            assert message.locked_until_utc == until
        await message.complete()


@mission("M3", "M17")
async def test_a_lock_that_has_ended_is_said_to_be_lost(bus: Bus, name: str) -> None:
    bus.create_queue(name, lock_duration_ms=30_000)
    async with MessagingFactory.from_connection_string(bus.connection_string) as factory:
        client = factory.create_queue_client(name)
        await client.send(BrokeredMessage("slow"))
        message = await client.receive(PATIENCE_S)
        assert message is not None
        bus.clock.advance(minutes=1)
        with pytest.raises(MessageLockLostError) as caught:
            await message.complete()
        assert not caught.value.is_transient
        with pytest.raises(MessageLockLostError):
            await message.renew_lock()
        again = await client.receive(PATIENCE_S)
        assert again is not None
        assert again.delivery_count == 1
        await again.complete()


async def test_a_message_is_settled_once(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage())
    message = await client.receive(PATIENCE_S)
    assert message is not None
    await message.complete()
    with pytest.raises(MessageLockLostError):
        await message.complete()


async def test_a_batch_is_what_is_there_and_no_wait_for_more(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.send_batch([BrokeredMessage(str(number)) for number in range(5)])
    started_s = time.monotonic()
    messages = await client.receive_batch(100, timeout=2 * PATIENCE_S)
    assert [message.body for message in messages] == [b"0", b"1", b"2", b"3", b"4"]
    assert time.monotonic() - started_s < PATIENCE_S
    await asyncio.gather(*(message.complete() for message in messages))


async def test_several_readers_of_one_receiver_get_different_messages(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    readers = [asyncio.create_task(client.receive(PATIENCE_S)) for _ in range(20)]
    await asyncio.sleep(0.05)
    await client.send_batch([BrokeredMessage(str(number)) for number in range(20)])
    messages = [message for message in await asyncio.gather(*readers) if message is not None]
    assert sorted(int(message.body) for message in messages) == list(range(20))
    await asyncio.gather(*(message.complete() for message in messages))


@mission("M6")
async def test_no_message_is_lost_between_a_time_out_and_the_next_receive(
    factory: MessagingFactory, queue: str
) -> None:
    """Received and deleted: whatever the broker hands out and the client does not return is lost."""
    client = factory.create_queue_client(queue, ReceiveMode.RECEIVE_AND_DELETE)
    sender = factory.create_message_sender(queue)
    count = 300

    async def send() -> None:
        for number in range(count):
            await sender.send(BrokeredMessage(str(number)))

    sending = asyncio.create_task(send())
    received: list[int] = []
    while len(received) < count:
        message = await client.receive(timeout=0.001)
        if message is not None:
            received.append(int(message.body))
    assert received == list(range(count))
    await sending


async def test_what_comes_for_a_cancelled_receive_goes_to_the_next(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    for number in range(30):
        receiving = asyncio.create_task(client.receive(PATIENCE_S))
        sending = asyncio.create_task(client.send(BrokeredMessage(str(number))))
        for _ in range(number % 8):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001 * (number % 3))
        receiving.cancel()
        (outcome,) = await asyncio.gather(receiving, return_exceptions=True)
        await sending
        message = outcome if isinstance(outcome, BrokeredMessage) else await client.receive(PATIENCE_S)
        assert message is not None
        assert message.body == str(number).encode()
        assert message.delivery_count == 0
        await message.complete()


async def test_what_was_fetched_ahead_goes_back_when_the_receiver_closes(factory: MessagingFactory, queue: str) -> None:
    first = factory.create_queue_client(queue, prefetch_count=10)
    await first.send_batch([BrokeredMessage(str(number)) for number in range(10)])
    message = await first.receive(PATIENCE_S)
    assert message is not None
    await message.complete()
    await first.close()
    second = factory.create_queue_client(queue)
    messages = await second.receive_batch(100, PATIENCE_S)
    assert [message.body for message in messages] == [str(number).encode() for number in range(1, 10)]
    assert {message.delivery_count for message in messages} == {0}


async def test_peeking_goes_on_where_it_ended_and_locks_nothing(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.send_batch([BrokeredMessage(str(number)) for number in range(5)])
    assert [message.body for message in await client.peek(3)] == [b"0", b"1", b"2"]
    assert [message.body for message in await client.peek(3)] == [b"3", b"4"]
    assert await client.peek(3) == []
    assert [message.body for message in await client.peek(1, from_sequence_number=2)] == [b"1"]
    assert len(await client.receive_batch(10, PATIENCE_S)) == 5


async def test_a_receive_of_nothing_or_of_too_much_is_refused(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    with pytest.raises(UsageError, match="max_count is 0"):
        await client.receive_batch(0)
    with pytest.raises(UsageError, match="negative"):
        await client.receive(-1)
    assert await client.receive_deferred() == []


async def test_readers_that_come_and_go_each_wait_for_their_time_or_a_message(
    factory: MessagingFactory, queue: str
) -> None:
    """A reader that comes while another is being woken must not take what that one was called for."""
    client = factory.create_queue_client(queue, ReceiveMode.RECEIVE_AND_DELETE)
    count = 200
    await client.send_batch([BrokeredMessage(str(number)) for number in range(count)])

    async def read() -> list[int]:
        mine: list[int] = []
        for _ in range(count // 8):
            message = await client.receive(PATIENCE_S)
            assert message is not None
            mine.append(int(message.body))
        return mine

    received = await asyncio.gather(*(read() for _ in range(8)))
    assert sorted(number for mine in received for number in mine) == list(range(count))
    assert all(mine == sorted(mine) for mine in received)


async def test_locked_messages_of_readers_that_come_and_go_stay_theirs(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    count = 80
    await client.send_batch([BrokeredMessage(str(number)) for number in range(count)])

    async def read() -> list[int]:
        mine: list[int] = []
        for _ in range(count // 8):
            message = await client.receive(PATIENCE_S)
            assert message is not None
            assert message.delivery_count == 0
            mine.append(int(message.body))
            await message.complete()
        return mine

    received = await asyncio.gather(*(read() for _ in range(8)))
    assert sorted(number for mine in received for number in mine) == list(range(count))
