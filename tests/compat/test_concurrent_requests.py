"""Several management requests of one client at once. The SDK then uses one delivery-id for more than one of them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from azure.servicebus import AutoLockRenewer, ServiceBusReceivedMessage, aio

from tests.compat.sdk import AT_ONCE, RENEWED_LOCK_MS, Bus, in_a_loop, take, texts
from tests.markers import mission
from tests.patience import PATIENCE_S, wait_until

pytestmark = AT_ONCE

# As many as the report of the fault had.
COUNT: Final = 10
NAMES: Final = [f"message {number}" for number in range(COUNT)]


def await_all_renewals(messages: list[ServiceBusReceivedMessage]) -> None:
    """Wait until the SDK has renewed every lock twice by itself."""
    for _ in range(2):
        before = [message.locked_until_utc for message in messages]
        wait_until(
            lambda: all(
                message.locked_until_utc != earlier
                for message, earlier in zip(messages, before, strict=True)  # noqa: B023 - called at once
            ),
            "the renewal of every lock",
            lambda: str([message.auto_renew_error for message in messages]),
        )


async def take_aio(receiver: aio.ServiceBusReceiver) -> list[ServiceBusReceivedMessage]:
    taken: list[ServiceBusReceivedMessage] = []
    while len(taken) < COUNT:
        taken += await receiver.receive_messages(COUNT - len(taken), PATIENCE_S)
    return taken


@mission("M3")
def test_ten_locks_are_renewed_side_by_side(bus: Bus) -> None:
    queue = bus.queue(lock_duration_ms=RENEWED_LOCK_MS)
    queue.send(*NAMES)
    with queue.receiver() as receiver, AutoLockRenewer(max_workers=COUNT) as renewer:
        messages = take(receiver, COUNT)
        for message in messages:
            renewer.register(receiver, message, max_lock_renewal_duration=3 * PATIENCE_S)
        await_all_renewals(messages)
        for message in messages:
            receiver.complete_message(message)
    assert queue.counts() == {}


@mission("M3")
@in_a_loop
async def test_ten_locks_are_renewed_side_by_side_in_one_loop(bus: Bus) -> None:
    queue = bus.queue(lock_duration_ms=RENEWED_LOCK_MS)
    await asyncio.to_thread(queue.send, *NAMES)
    async with (
        bus.connect_aio() as client,
        client.get_queue_receiver(queue.name) as receiver,
        aio.AutoLockRenewer() as renewer,
    ):
        messages = await take_aio(receiver)
        for message in messages:
            renewer.register(receiver, message, max_lock_renewal_duration=3 * PATIENCE_S)
        await asyncio.to_thread(await_all_renewals, messages)
        for message in messages:
            await receiver.complete_message(message)
    assert queue.counts() == {}


def test_ten_threads_peek_with_one_receiver(bus: Bus) -> None:
    queue = bus.queue()
    queue.send(*NAMES)
    with queue.receiver() as receiver, ThreadPoolExecutor(COUNT) as pool:
        for _ in range(3):
            pages = list(pool.map(lambda _: texts(receiver.peek_messages(COUNT, sequence_number=1)), range(COUNT)))
            assert pages == [NAMES] * COUNT


@in_a_loop
async def test_ten_peeks_are_gathered_with_one_receiver(bus: Bus) -> None:
    queue = bus.queue()
    await asyncio.to_thread(queue.send, *NAMES)
    async with bus.connect_aio() as client, client.get_queue_receiver(queue.name) as receiver:
        for _ in range(3):
            pages = await asyncio.gather(*(receiver.peek_messages(COUNT, sequence_number=1) for _ in range(COUNT)))
            assert [texts(page) for page in pages] == [NAMES] * COUNT
