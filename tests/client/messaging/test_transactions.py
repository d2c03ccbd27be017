"""Transactions: everything or nothing."""

from __future__ import annotations

import contextlib
import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from tandem.client import BrokeredMessage, MessageLockLostError, MessagingError, MessagingFactory, TransactionError
from tandem.errors import StateError
from tandem.testing import Broker
from tests.client.network import QUICK, Proxy
from tests.patience import PATIENCE_S


class Changed(Exception):
    """What a program may raise inside a transaction."""


async def test_sends_and_settlements_of_a_transaction_happen_together(
    broker: Broker, factory: MessagingFactory, queue: str
) -> None:
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage("question"))
    question = await client.receive(PATIENCE_S)
    assert question is not None
    async with factory.transaction() as transaction:
        await client.send(BrokeredMessage("answer 1"), transaction=transaction)
        await client.send_batch([BrokeredMessage("answer 2"), BrokeredMessage("answer 3")], transaction=transaction)
        await question.complete(transaction=transaction)
        assert await client.receive(0) is None
    messages = await client.receive_batch(10, PATIENCE_S)
    assert [message.body for message in messages] == [b"answer 1", b"answer 2", b"answer 3"]
    with pytest.raises(MessageLockLostError):
        await question.complete()


async def test_a_transaction_that_raises_does_nothing(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage("question"))
    question = await client.receive(PATIENCE_S)
    assert question is not None

    async def work() -> None:
        async with factory.transaction() as transaction:
            await client.send(BrokeredMessage("answer"), transaction=transaction)
            await question.complete(transaction=transaction)
            raise Changed

    with pytest.raises(Changed):
        await work()
    assert await client.receive(0) is None
    # It is locked as before, and is settled by its token.
    await question.complete()


async def test_a_message_goes_through_another_queue_to_its_own(
    broker: Broker, factory: MessagingFactory, queue: str
) -> None:
    broker.create_queue(f"{queue}-via")
    sender = factory.create_message_sender(queue, via=f"{queue}-via")
    async with factory.transaction() as transaction:
        await sender.send(BrokeredMessage("passing through"), transaction=transaction)
    message = await factory.create_queue_client(queue).receive(PATIENCE_S)
    assert message is not None
    assert message.body == b"passing through"


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_scheduled_message_is_cancelled_with_the_commit_or_not_at_all(
    factory: MessagingFactory, queue: str, is_committed: bool
) -> None:
    client = factory.create_queue_client(queue)
    number = await client.schedule(BrokeredMessage("later"), datetime.now(UTC) + timedelta(hours=1))

    async def work() -> None:
        async with factory.transaction() as transaction:
            await client.cancel_scheduled(number, transaction=transaction)
            assert len(await client.peek(10, number)) == 1
            if not is_committed:
                raise Changed

    with contextlib.nullcontext() if is_committed else pytest.raises(Changed):
        await work()
    assert len(await client.peek(10, number)) == (0 if is_committed else 1)


@pytest.mark.parametrize("is_committed", [True, False])
async def test_the_state_of_a_session_is_set_with_the_commit_or_not_at_all(
    broker: Broker, factory: MessagingFactory, name: str, is_committed: bool
) -> None:
    broker.create_queue(name, requires_session=True)
    client = factory.create_queue_client(name)
    async with await client.accept_session("mine") as session:
        await session.set_state(b"old")

        async def work() -> None:
            async with factory.transaction() as transaction:
                await session.set_state(b"new", transaction=transaction)
                assert await session.get_state() == b"old"
                assert await session.get_state(transaction=transaction) == b"new"
                if not is_committed:
                    raise Changed

        with contextlib.nullcontext() if is_committed else pytest.raises(Changed):
            await work()
        assert await session.get_state() == (b"new" if is_committed else b"old")


async def test_a_program_that_uses_transactions_receives_from_as_many_entities_as_it_likes(
    broker: Broker, factory: MessagingFactory, queue: str
) -> None:
    broker.create_queue(f"{queue}-other")
    clients = [factory.create_queue_client(name) for name in (queue, f"{queue}-other")]
    async with factory.transaction() as transaction:
        await clients[0].send(BrokeredMessage("first"), transaction=transaction)
    await clients[1].send(BrokeredMessage("second"))
    bodies = [message.body for client in clients if (message := await client.receive(PATIENCE_S)) is not None]
    assert bodies == [b"first", b"second"]


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_transaction_may_span_entities(
    broker: Broker, factory: MessagingFactory, queue: str, is_committed: bool
) -> None:
    other = f"{queue}-other"
    broker.create_queue(other)
    clients = [factory.create_queue_client(name) for name in (queue, other)]
    await clients[0].send(BrokeredMessage("question"))
    question = await clients[0].receive(PATIENCE_S)
    assert question is not None

    async def work() -> None:
        async with factory.transaction() as transaction:
            await question.complete(transaction=transaction)
            await clients[1].send(BrokeredMessage("answer"), transaction=transaction)
            if not is_committed:
                raise Changed

    with contextlib.nullcontext() if is_committed else pytest.raises(Changed):
        await work()
    counts = [broker.queue(name)["active_message_count"] for name in (queue, other)]
    assert counts == ([0, 1] if is_committed else [1, 0])


async def test_a_transaction_is_lost_with_its_connection(broker: Broker, proxy: Proxy, queue: str) -> None:
    async def work(factory: MessagingFactory) -> None:
        client = factory.create_queue_client(queue)
        async with factory.transaction() as transaction:
            await client.send(BrokeredMessage("1"), transaction=transaction)
            proxy.cut()
            await client.send(BrokeredMessage("2"), transaction=transaction)

    async with proxy.factory() as factory:
        with pytest.raises(TransactionError) as caught:
            await work(factory)
        assert not caught.value.is_transient
        assert await factory.create_queue_client(queue).receive(0) is None


async def test_a_transaction_that_ended_takes_nothing_more(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    async with factory.transaction() as transaction:
        await client.send(BrokeredMessage(), transaction=transaction)
    with pytest.raises(StateError, match="ended already"):
        await client.send(BrokeredMessage(), transaction=transaction)


async def test_more_than_a_transaction_holds_is_refused_and_nothing_is_done(
    factory: MessagingFactory, queue: str
) -> None:
    client = factory.create_queue_client(queue)

    async def work() -> None:
        async with factory.transaction() as transaction:
            for number in range(101):
                await client.send(BrokeredMessage(str(number)), transaction=transaction)

    with pytest.raises(MessagingError, match="100"):
        await work()
    assert await client.receive(0) is None


async def test_a_transaction_in_which_nothing_is_done_is_nothing(factory: MessagingFactory) -> None:
    async with factory.transaction():
        pass


async def test_whether_a_commit_was_made_is_said_to_be_unknown_when_its_answer_is_lost(
    proxy: Proxy, queue: str
) -> None:
    async def work(factory: MessagingFactory) -> None:
        client = factory.create_queue_client(queue)
        async with factory.transaction() as transaction:
            await client.send(BrokeredMessage("perhaps"), transaction=transaction)
            proxy.hold_answers()

    # Also the time that what comes before the commit may take.
    settings = dataclasses.replace(QUICK, operation_timeout=timedelta(seconds=3))
    async with proxy.factory(settings) as factory:
        with pytest.raises(TransactionError, match="not known"):
            await work(factory)
        proxy.cut()
