"""The asyncio client of the official SDK: the same wire, other habits."""

from __future__ import annotations

import asyncio

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

from tests.compat.sdk import (
    AT_ONCE,
    RENEWED_LOCK_MS,
    SILENCE_S,
    Bus,
    ClockedBus,
    await_renewals,
    in_a_loop,
    number_of,
    text,
    texts,
)
from tests.markers import mission
from tests.patience import PATIENCE_S

pytestmark = AT_ONCE


async def take(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    taken: list[ServiceBusReceivedMessage] = []
    while len(taken) < count:
        batch = await receiver.receive_messages(count - len(taken), PATIENCE_S)
        assert batch, f"{len(taken)} of {count} messages came in {PATIENCE_S} s"
        taken += batch
    return taken


async def advance(bus: ClockedBus, minutes: float) -> None:
    """Move the broker's clock, without holding up the client meanwhile."""
    await asyncio.to_thread(bus.clock.advance, minutes=minutes)


@mission("M1", "M3")
@in_a_loop
async def test_many_senders_and_competing_consumers_at_once(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue()
        expected = [f"{producer}.{number}" for producer in range(5) for number in range(10)]
        consumed: list[str] = []

        async def produce(producer: int) -> None:
            async with client.get_queue_sender(queue.name) as sender:
                for number in range(10):
                    await sender.send_messages(ServiceBusMessage(f"{producer}.{number}"))

        async def consume() -> None:
            async with client.get_queue_receiver(queue.name) as receiver:
                while len(consumed) < len(expected):
                    batch = await receiver.receive_messages(5, SILENCE_S)
                    for message in batch:
                        await receiver.complete_message(message)
                    consumed.extend(texts(batch))

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(consume())
            for producer in range(5):
                group.create_task(produce(producer))
        assert sorted(consumed) == sorted(expected)
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
async def test_a_lock_expires_or_is_renewed(clocked_bus: ClockedBus) -> None:
    async with clocked_bus.connect_aio() as client:
        queue = clocked_bus.queue(lock_duration_ms=300_000)
        queue.send("work")
        async with client.get_queue_receiver(queue.name) as receiver:
            (message,) = await take(receiver, 1)
            assert message.locked_until_utc is not None
            before = message.locked_until_utc
            await advance(clocked_bus, minutes=3)
            assert await receiver.renew_message_lock(message) > before
            await advance(clocked_bus, minutes=3)
            assert await receiver.receive_messages(1, SILENCE_S) == []
            await advance(clocked_bus, minutes=3)
            (again,) = await take(receiver, 1)
            assert again.delivery_count == 1
            with pytest.raises(MessageLockLostError):
                await receiver.renew_message_lock(message)


@in_a_loop
async def test_the_automatic_renewal_keeps_a_lock(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue(lock_duration_ms=RENEWED_LOCK_MS)
        queue.send("slow work")
        async with (
            AutoLockRenewer() as renewer,
            client.get_queue_receiver(queue.name, auto_lock_renewer=renewer) as receiver,
        ):
            (message,) = await take(receiver, 1)
            await asyncio.to_thread(await_renewals, message)
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
            assert 0.6 < asyncio.get_running_loop().time() - started < PATIENCE_S


@in_a_loop
async def test_iterating_over_a_receiver_with_prefetch(bus: Bus) -> None:
    async with bus.connect_aio() as client:
        queue = bus.queue()
        expected = [str(number) for number in range(30)]
        queue.send(*expected)
        seen: list[str] = []
        async with client.get_queue_receiver(queue.name, prefetch_count=10, max_wait_time=PATIENCE_S) as receiver:
            async for message in receiver:
                seen.append(text(message))
                await receiver.complete_message(message)
                if len(seen) == len(expected):
                    break
        assert seen == expected
        async with client.get_queue_receiver(queue.name, max_wait_time=SILENCE_S) as receiver:
            assert [message async for message in receiver] == []
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
async def test_scheduling_and_cancelling(clocked_bus: ClockedBus) -> None:
    async with clocked_bus.connect_aio() as client:
        queue = clocked_bus.queue()
        async with (
            client.get_queue_sender(queue.name) as sender,
            client.get_queue_receiver(queue.name) as receiver,
        ):
            messages = [ServiceBusMessage("kept"), ServiceBusMessage("cancelled")]
            _, number = await sender.schedule_messages(messages, clocked_bus.in_seconds(3_600))
            await sender.cancel_scheduled_messages(number)
            await advance(clocked_bus, minutes=60)
            assert texts(await take(receiver, 1)) == ["kept"]
            assert await receiver.receive_messages(1, SILENCE_S) == []


@in_a_loop
async def test_a_session_and_its_state(clocked_bus: ClockedBus) -> None:
    async with clocked_bus.connect_aio() as client:
        queue = clocked_bus.queue(requires_session=True)
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
            await advance(clocked_bus, minutes=1)
            with pytest.raises(SessionLockLostError):
                await receiver.session.renew_lock()
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
