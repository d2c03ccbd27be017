"""Sessions: one receiver at a time, in order, with a state."""

from __future__ import annotations

import asyncio

import pytest

from tandem.client import (
    BrokeredMessage,
    InvalidOperationError,
    MessagingFactory,
    OperationTimeoutError,
    QueueClient,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from tandem.testing import Broker, Bus
from tests.client.network import Proxy
from tests.markers import mission
from tests.patience import PATIENCE_S


@pytest.fixture
def sessions(broker: Broker, factory: MessagingFactory, name: str) -> QueueClient:
    broker.create_queue(name, requires_session=True)
    return factory.create_queue_client(name)


@mission("M5")
async def test_a_session_gives_its_own_messages_in_order(sessions: QueueClient) -> None:
    for number in range(6):
        await sessions.send(BrokeredMessage(str(number), session_id="even" if number % 2 == 0 else "odd"))
    async with await sessions.accept_session("even", PATIENCE_S) as session:
        assert session.session_id == "even"
        messages = await session.receive_batch(10, PATIENCE_S)
        assert [message.body for message in messages] == [b"0", b"2", b"4"]
        assert {message.session_id for message in messages} == {"even"}
        for message in messages:
            await message.complete()
        assert await session.receive(0) is None


async def test_the_next_session_is_one_that_has_messages(sessions: QueueClient) -> None:
    await sessions.send(BrokeredMessage(session_id="first"))
    session = await sessions.accept_session(timeout=PATIENCE_S)
    assert session.session_id == "first"
    assert await sessions.session_ids() == ["first"]
    await session.close()


async def test_no_session_in_time_is_a_time_out(sessions: QueueClient) -> None:
    with pytest.raises(OperationTimeoutError) as caught:
        await sessions.accept_session(timeout=0.1)
    assert caught.value.is_transient


async def test_a_session_that_somebody_holds_cannot_be_accepted(sessions: QueueClient) -> None:
    session = await sessions.accept_session("mine", PATIENCE_S)
    with pytest.raises(SessionCannotBeLockedError):
        await sessions.accept_session("mine", PATIENCE_S)
    await session.close()
    again = await sessions.accept_session("mine", PATIENCE_S)
    await again.close()


async def test_a_cancelled_accept_leaves_the_session_free(sessions: QueueClient) -> None:
    waiting = asyncio.create_task(sessions.accept_session(None, PATIENCE_S))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
    await sessions.send(BrokeredMessage("for the next", session_id="a"))
    session = await sessions.accept_session(None, PATIENCE_S)
    message = await session.receive(PATIENCE_S)
    assert message is not None
    assert message.delivery_count == 0
    await session.close()


async def test_state_stays_with_the_session(sessions: QueueClient) -> None:
    async with await sessions.accept_session("s", PATIENCE_S) as session:
        assert await session.get_state() is None
        await session.set_state(b"step 3")
    async with await sessions.accept_session("s", PATIENCE_S) as session:
        assert await session.get_state() == b"step 3"
        await session.set_state(None)
        assert await session.get_state() is None


async def test_a_renewed_session_holds_and_one_that_is_not_is_lost(bus: Bus, name: str) -> None:
    bus.create_queue(name, requires_session=True, lock_duration_ms=30_000)
    async with MessagingFactory.from_connection_string(bus.connection_string) as factory:
        client = factory.create_queue_client(name)
        await client.send(BrokeredMessage(session_id="s"))
        session = await client.accept_session("s", PATIENCE_S)
        message = await session.receive(PATIENCE_S)
        assert message is not None
        for _ in range(3):
            bus.clock.advance(seconds=20)
            assert await session.renew() == session.locked_until_utc
        assert await message.renew_lock() == session.locked_until_utc
        bus.clock.advance(minutes=1)
        with pytest.raises(SessionLockLostError) as caught:
            await session.receive(PATIENCE_S)
        assert not caught.value.is_transient
        with pytest.raises(SessionLockLostError):
            await message.complete()
        with pytest.raises(SessionLockLostError):
            await session.get_state()


async def test_a_session_is_lost_with_its_connection(broker: Broker, proxy: Proxy, name: str) -> None:
    broker.create_queue(name, requires_session=True)
    async with proxy.factory() as factory:
        client = factory.create_queue_client(name)
        await client.send(BrokeredMessage("a", session_id="s"))
        session = await client.accept_session("s", PATIENCE_S)
        message = await session.receive(PATIENCE_S)
        assert message is not None
        proxy.cut()
        with pytest.raises(SessionLockLostError):
            await session.receive(PATIENCE_S)
        with pytest.raises(SessionLockLostError):
            await message.complete()
        async with await client.accept_session("s", PATIENCE_S) as session:
            again = await session.receive(PATIENCE_S)
            assert again is not None
            await again.complete()


async def test_a_deferred_message_of_a_session_is_received_through_it(sessions: QueueClient) -> None:
    await sessions.send(BrokeredMessage("later", session_id="s"))
    async with await sessions.accept_session("s", PATIENCE_S) as session:
        message = await session.receive(PATIENCE_S)
        assert message is not None
        assert message.sequence_number is not None
        await message.defer()
        (again,) = await session.receive_deferred(message.sequence_number)
        await again.complete()


async def test_a_plain_receive_from_a_queue_with_sessions_is_refused(sessions: QueueClient) -> None:
    with pytest.raises(InvalidOperationError, match="sessions"):
        await sessions.receive(1)
