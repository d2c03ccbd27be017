"""A broker that is killed while a transaction is open, and one that is killed when it has just answered its commit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tandem.client import BrokeredMessage, MessagingFactory, ReceiveMode, Transaction, TransactionError
from tandem.testing import Broker
from tests.markers import mission
from tests.patience import PATIENCE_S

QUEUE, SESSIONS = "orders", "conversations"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path) as broker:
        broker.create_queue(QUEUE)
        broker.create_queue(SESSIONS, requires_session=True)
        yield broker


async def operate(factory: MessagingFactory, transaction: Transaction, cancelled: int) -> None:
    """One operation of every kind that a transaction can undo."""
    queue, conversations = factory.create_queue_client(QUEUE), factory.create_queue_client(SESSIONS)
    received = await queue.receive(PATIENCE_S)
    assert received is not None
    await received.complete(transaction=transaction)
    await queue.cancel_scheduled(cancelled, transaction=transaction)
    await queue.schedule(BrokeredMessage("scheduled in it"), soon(), transaction=transaction)
    await queue.send(BrokeredMessage("sent in it"), transaction=transaction)
    session = await conversations.accept_session("mine")
    await session.set_state(b"new", transaction=transaction)


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


async def furnish(factory: MessagingFactory) -> int:
    """What is there before; returns the number of the scheduled message."""
    queue = factory.create_queue_client(QUEUE)
    await queue.send(BrokeredMessage("received"))
    number = await queue.schedule(BrokeredMessage("scheduled before"), soon())
    async with await factory.create_queue_client(SESSIONS).accept_session("mine") as session:
        await session.set_state(b"old")
    return number


async def found(broker: Broker) -> tuple[list[bytes], bytes | None]:
    """The messages of the queue in any state, and the state of the session."""
    async with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        queue = factory.create_queue_client(QUEUE, ReceiveMode.RECEIVE_AND_DELETE)
        bodies = sorted(message.body for message in await queue.peek(10))
        async with await factory.create_queue_client(SESSIONS).accept_session("mine") as session:
            return bodies, await session.get_state()


@mission("M1", "M3")
async def test_a_broker_that_is_killed_before_the_commit_has_done_nothing_of_a_transaction(broker: Broker) -> None:
    async with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        number = await furnish(factory)

        async def work() -> None:
            async with factory.transaction() as transaction:
                await operate(factory, transaction, number)
                broker.kill()

        with pytest.raises(TransactionError):
            await work()
        broker.start()
    assert await found(broker) == ([b"received", b"scheduled before"], b"old")


@mission("M1", "M3")
async def test_a_broker_that_is_killed_after_the_commit_has_done_all_of_a_transaction(broker: Broker) -> None:
    async with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        number = await furnish(factory)
        async with factory.transaction() as transaction:
            await operate(factory, transaction, number)
        broker.kill()
        broker.start()
    assert await found(broker) == ([b"scheduled in it", b"sent in it"], b"new")
