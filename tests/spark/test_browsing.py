"""A queue looked at without taking anything from it, and purged of exactly what was named."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tandem.client import MessageReceiver, MessagingFactory
from tandem.client.sync import BrokeredMessage
from tandem.client.sync import MessagingFactory as BlockingFactory
from tandem.spark.browsing import SealedRange, browse, purge, seal, split
from tandem.testing import Broker
from tests.markers import mission


def send(broker: Broker, queue: str, count: int, first: int = 0) -> None:
    with BlockingFactory.from_connection_string(broker.connection_string) as factory:
        numbers = range(first, first + count)
        factory.create_message_sender(queue).send_batch([BrokeredMessage(str(number)) for number in numbers])


async def seen(receiver: MessageReceiver, wanted: SealedRange) -> list[int]:
    return [message.sequence_number or 0 async for page in browse(receiver, wanted) for message in page]


@pytest.mark.parametrize("length, count", list(itertools.product((1, 2, 7, 100), (1, 2, 3, 8))))
def test_ranges_cover_what_was_sealed(length: int, count: int) -> None:
    pieces = split(SealedRange("q", 5, 4 + length), count)
    assert [number for one in pieces for number in range(one.first, one.last + 1)] == list(range(5, 5 + length))
    assert len(pieces) == min(count, length)


@mission("M31")
@pytest.mark.parametrize("count", [0, 1, 2, 77])
async def test_sealing_finds_the_first_and_the_last_message(
    broker: Broker, make_queue: Callable[[], str], count: int
) -> None:
    queue = make_queue()
    send(broker, queue, count)
    async with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        receiver = factory.create_message_receiver(queue)
        sealed = await seal(receiver, queue)
        if not count:
            assert sealed is None
            return
        assert sealed is not None
        # What comes later is not of it.
        send(broker, queue, 3, first=1_000)
        assert len(await seen(receiver, sealed)) == count
        assert len(await seen(receiver, sealed)) == count


@mission("M31")
async def test_purging_takes_what_was_named_and_nothing_else(broker: Broker, make_queue: Callable[[], str]) -> None:
    queue = make_queue()
    send(broker, queue, 10)
    async with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        receiver = factory.create_message_receiver(queue)
        sealed = await seal(receiver, queue)
        assert sealed is not None
        numbers = await seen(receiver, sealed)
        named = set(numbers) - {numbers[2], numbers[9]}
        assert await purge(broker.connection_string, queue, named, max(named), 30.0) == 8
        assert await purge(broker.connection_string, queue, named, max(named), 30.0) == 0
        assert await seen(receiver, sealed) == [numbers[2], numbers[9]]
    assert broker.queue(queue)["message_count"] == 2
