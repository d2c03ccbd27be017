"""The asyncio client of the official SDK: the same wire, other habits."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiveMode
from azure.servicebus.aio import AutoLockRenewer, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessagingEntityDisabledError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from tests.compat.sdk import AT_ONCE, PATIENCE_S, SILENCE_S, Bus, in_a_loop, now, number_of, text, texts
from tests.markers import mission

pytestmark = AT_ONCE


async def take(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    taken: list[ServiceBusReceivedMessage] = []
    while len(taken) < count:
        batch = await receiver.receive_messages(count - len(taken), PATIENCE_S)
        assert batch, f"{len(taken)} of {count} messages came in {PATIENCE_S} s"
        taken += batch
    return taken


@mission("M1", "M3")
@in_a_loop
async def test_many_senders_and_competing_consumers_at_once(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue()

        async def produce(producer: int) -> None:
            async with client.get_queue_sender(queue.name) as sender:
                for number in range(10):
                    await sender.send_messages(ServiceBusMessage(f"{producer}.{number}"))

        async def consume() -> list[str]:
            consumed: list[str] = []
            async with client.get_queue_receiver(queue.name) as receiver:
                while batch := await receiver.receive_messages(5, 2):
                    for message in batch:
                        await receiver.complete_message(message)
                    consumed += texts(batch)
            return consumed

        async with asyncio.TaskGroup() as group:
            consumers = [group.create_task(consume()) for _ in range(4)]
            for producer in range(5):
                group.create_task(produce(producer))
        consumed = [body for consumer in consumers for body in consumer.result()]
        assert sorted(consumed) == sorted(f"{producer}.{number}" for producer in range(5) for number in range(10))
        assert queue.counts() == {}


@in_a_loop
async def test_every_way_to_settle_a_message(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue()
        queue.send("complete", "abandon", "defer", "dead-letter")
        async with client.get_queue_receiver(queue.name) as receiver:
            complete, abandon, defer, dead_letter = await take(receiver, 4)
            await receiver.complete_message(complete)
            await receiver.abandon_message(abandon)
            await receiver.defer_message(defer)
            await receiver.dead_letter_message(dead_letter, reason="why", error_description="because")
            (again,) = await take(receiver, 1)
            assert (text(again), again.delivery_count) == ("abandon", 1)
            (deferred,) = await receiver.receive_deferred_messages(number_of(defer))
            await receiver.complete_message(deferred)
            with pytest.raises(MessageNotFoundError):
                await receiver.receive_deferred_messages(number_of(defer))
        async with client.get_queue_receiver(queue.name, sub_queue="deadletter") as receiver:
            (dead,) = await take(receiver, 1)
            assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("why", "because")


@mission("M3")
@in_a_loop
async def test_a_lock_expires_or_is_renewed(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue(lock_duration_ms=1_500)
        queue.send("work")
        async with client.get_queue_receiver(queue.name) as receiver:
            (message,) = await take(receiver, 1)
            assert message.locked_until_utc is not None
            before = message.locked_until_utc
            assert await receiver.renew_message_lock(message) > before
            (again,) = await take(receiver, 1)
            assert again.delivery_count == 1
            with pytest.raises(MessageLockLostError):
                await receiver.renew_message_lock(message)


@in_a_loop
async def test_the_automatic_renewal_keeps_a_lock(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue(lock_duration_ms=5_000)
        queue.send("slow work")
        async with (
            AutoLockRenewer() as renewer,
            client.get_queue_receiver(queue.name, auto_lock_renewer=renewer) as receiver,
        ):
            (message,) = await take(receiver, 1)
            await asyncio.sleep(5.5)
            assert message.auto_renew_error is None
            await receiver.complete_message(message)
        assert queue.counts() == {}


@mission("M6")
@in_a_loop
async def test_a_receive_that_waits_in_vain_returns_nothing(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue()
        async with client.get_queue_receiver(queue.name) as receiver:
            started = asyncio.get_running_loop().time()
            assert await receiver.receive_messages(1, 0.7) == []
            assert 0.6 < asyncio.get_running_loop().time() - started < 10


@in_a_loop
async def test_iterating_over_a_receiver_with_prefetch(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue()
        expected = [str(number) for number in range(30)]
        queue.send(*expected)
        seen: list[str] = []
        async with client.get_queue_receiver(queue.name, prefetch_count=10, max_wait_time=1) as receiver:
            async for message in receiver:
                seen.append(text(message))
                await receiver.complete_message(message)
        assert seen == expected
        assert queue.counts() == {}


@mission("M2")
@in_a_loop
async def test_receive_and_delete(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue()
        queue.send("one", "two")
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        async with client.get_queue_receiver(queue.name, receive_mode=mode) as receiver:
            assert texts(await take(receiver, 2)) == ["one", "two"]
        assert queue.counts() == {}


@in_a_loop
async def test_scheduling_and_cancelling(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue()
        async with (
            client.get_queue_sender(queue.name) as sender,
            client.get_queue_receiver(queue.name) as receiver,
        ):
            messages = [ServiceBusMessage("kept"), ServiceBusMessage("cancelled")]
            _, number = await sender.schedule_messages(messages, now() + timedelta(seconds=1))
            await sender.cancel_scheduled_messages(number)
            assert texts(await take(receiver, 1)) == ["kept"]
            assert await receiver.receive_messages(1, SILENCE_S) == []


@in_a_loop
async def test_a_session_and_its_state(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue(requires_session=True, lock_duration_ms=2_000)
        async with client.get_queue_sender(queue.name) as sender:
            await sender.send_messages([ServiceBusMessage(str(number), session_id="red") for number in range(3)])
        options = {"session_id": NEXT_AVAILABLE_SESSION, "max_wait_time": PATIENCE_S}
        async with client.get_queue_receiver(queue.name, **options) as receiver:  # type: ignore[arg-type]
            assert receiver.session.session_id == "red"
            assert await receiver.session.get_state() is None
            await receiver.session.set_state("half way")
            assert await receiver.session.get_state() == b"half way"
            before = receiver.session.locked_until_utc
            assert before is not None
            assert await receiver.session.renew_lock() > before
            messages = await take(receiver, 3)
            assert texts(messages) == ["0", "1", "2"]
            for message in messages[:2]:
                await receiver.complete_message(message)
            assert [session async for session in client.list_queue_sessions(queue.name)] == ["red"]
            await asyncio.sleep(2.3)
            with pytest.raises(SessionLockLostError):
                await receiver.complete_message(messages[2])


@mission("M17")
@in_a_loop
async def test_refusals_have_their_classes(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        sessions, disabled = bus.queue(requires_session=True), bus.queue(status="Disabled")
        with pytest.raises(OperationTimeoutError):
            await client.get_queue_receiver(
                sessions.name, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1
            ).__aenter__()
        async with client.get_queue_receiver(sessions.name, session_id="red"):
            with pytest.raises(SessionCannotBeLockedError):
                await client.get_queue_receiver(sessions.name, session_id="red").__aenter__()
        with pytest.raises(MessagingEntityDisabledError):
            await client.get_queue_sender(disabled.name).__aenter__()
        with pytest.raises(ServiceBusAuthenticationError):
            await client.get_queue_sender("no-such-queue").__aenter__()
