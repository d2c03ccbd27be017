"""Sending to queues: one message, many at once, batches, and messages for later."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tandem.client import (
    BrokeredMessage,
    InvalidOperationError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessageState,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    MessagingFactory,
    QuotaExceededError,
    ReceiveMode,
    TokenProvider,
    UnauthorizedAccessError,
)
from tandem.client.messaging.sender import split_by_size
from tandem.errors import StateError
from tandem.pairing.ping import make_ping
from tandem.testing import Broker
from tests.client.network import HOST
from tests.markers import mission
from tests.patience import PATIENCE_S


@mission("M5")
async def test_a_message_arrives_with_everything_its_sender_said(factory: MessagingFactory, queue: str) -> None:
    sent = BrokeredMessage(
        b"a table",
        message_id="id-1",
        label="order",
        content_type="text/plain",
        correlation_id="c-1",
        reply_to="answers",
        reply_to_session_id="s-9",
        to="somebody",
        partition_key="north",
        time_to_live=timedelta(minutes=5),
        properties={"n": 3, "price": 9.5, "is_paid": True, "store": "Store1", "raw": b"\x00"},
    )
    client = factory.create_queue_client(queue)
    await client.send(sent)
    received = await client.receive(PATIENCE_S)
    assert received is not None
    assert received.body == b"a table"
    assert received.message_id == "id-1"
    assert received.label == "order"
    assert received.content_type == "text/plain"
    assert received.correlation_id == "c-1"
    assert received.reply_to == "answers"
    assert received.reply_to_session_id == "s-9"
    assert received.to == "somebody"
    assert received.partition_key == "north"
    assert received.time_to_live == timedelta(minutes=5)
    assert received.properties == {"n": 3, "price": 9.5, "is_paid": True, "store": "Store1", "raw": b"\x00"}
    assert received.sequence_number == 1
    assert received.delivery_count == 0
    assert received.state is MessageState.ACTIVE
    assert received.enqueued_time_utc is not None
    assert received.expires_at_utc == received.enqueued_time_utc + timedelta(minutes=5)
    await received.complete()


async def test_sends_under_way_together_arrive_in_the_order_of_their_calls(
    factory: MessagingFactory, queue: str
) -> None:
    # More than the broker gives credit for at once.
    count = 3_000
    client = factory.create_queue_client(queue, ReceiveMode.RECEIVE_AND_DELETE, prefetch_count=500)
    await asyncio.gather(*(client.send(BrokeredMessage(str(number))) for number in range(count)))
    bodies: list[bytes] = []
    while len(bodies) < count:
        bodies += [message.body for message in await client.receive_batch(500, PATIENCE_S)]
    assert bodies == [str(number).encode() for number in range(count)]


async def test_a_batch_larger_than_the_link_allows_goes_in_several(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue, ReceiveMode.RECEIVE_AND_DELETE)
    await client.send_batch(BrokeredMessage(b"x" * 100_000, label=str(number)) for number in range(7))
    labels = [message.label for _ in range(7) if (message := await client.receive(PATIENCE_S)) is not None]
    assert labels == [str(number) for number in range(7)]


def test_messages_are_split_so_that_each_batch_fits() -> None:
    payloads = [b"x" * size for size in (400, 400, 100, 900, 2_000, 1)]
    portions = split_by_size(payloads, 1_200)
    assert [[len(payload) for payload in portion] for portion in portions] == [[400, 400, 100], [900], [2_000], [1]]


async def test_an_empty_batch_is_nothing(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    await client.send_batch([])
    assert await client.peek() == []


@mission("M17")
async def test_a_message_over_the_limit_is_refused_before_it_is_sent(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    with pytest.raises(MessageSizeExceededError, match="262,144") as caught:
        await client.send(BrokeredMessage(b"x" * 262_144))
    assert not caught.value.is_transient
    await client.send(BrokeredMessage(b"x" * 261_000))


@mission("M24")
async def test_a_batch_with_a_message_that_is_too_large_is_not_sent_in_part(
    factory: MessagingFactory, broker: Broker, queue: str
) -> None:
    client = factory.create_queue_client(queue)
    # The first four need two transfers: the fifth is found to be too large before the first of them.
    batch = [BrokeredMessage(bytes(size)) for size in (100_000, 100_000, 100_000, 100_000, 262_144)]
    with pytest.raises(MessageSizeExceededError, match=f"'{queue}' takes at most 262,144"):
        await client.send_batch(batch)
    assert broker.queue(queue)["message_count"] == 0
    await client.send_batch(batch[:4])
    assert broker.queue(queue)["message_count"] == 4


@mission("M25")
async def test_a_ping_that_is_scheduled_has_no_sequence_number_and_others_keep_theirs(
    factory: MessagingFactory, broker: Broker, queue: str
) -> None:
    sender = factory.create_message_sender(queue)
    later = datetime.now(UTC) + timedelta(days=1)
    assert await sender.schedule(make_ping(), later) == 0
    messages = [BrokeredMessage("a"), make_ping(), BrokeredMessage("b")]
    first, of_the_ping, second = await sender.schedule_batch(messages, later)
    assert of_the_ping == 0
    assert 0 < first < second
    async with factory.transaction() as transaction:
        assert await sender.schedule(make_ping(), later, transaction=transaction) == 0
    assert broker.queue(queue)["scheduled_message_count"] == 2


async def test_a_scheduled_message_can_be_seen_and_taken_back(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    number = await client.schedule(BrokeredMessage("later"), tomorrow)
    (seen,) = await client.peek()
    assert seen.sequence_number == number
    assert seen.state is MessageState.SCHEDULED
    assert seen.scheduled_enqueue_time_utc == tomorrow.replace(microsecond=tomorrow.microsecond // 1000 * 1000)
    await client.cancel_scheduled(number)
    assert await client.peek(from_sequence_number=0) == []
    with pytest.raises(MessageNotFoundError):
        await client.cancel_scheduled(number)


async def test_several_messages_are_scheduled_in_one_request(factory: MessagingFactory, queue: str) -> None:
    sender = factory.create_message_sender(queue)
    messages = [BrokeredMessage(str(number)) for number in range(3)]
    numbers = await sender.schedule_batch(messages, datetime.now(UTC) + timedelta(days=1))
    assert numbers == [1, 2, 3]
    await sender.cancel_scheduled(*numbers)


@mission("M17")
async def test_a_queue_that_does_not_exist_is_said_so(factory: MessagingFactory, name: str) -> None:
    with pytest.raises(MessagingEntityNotFoundError, match=name) as caught:
        await factory.create_queue_client(name).send(BrokeredMessage())
    assert not caught.value.is_transient


@mission("M17")
async def test_a_disabled_queue_is_said_so(broker: Broker, factory: MessagingFactory, queue: str) -> None:
    broker.update_queue(queue, status="Disabled")
    with pytest.raises(MessagingEntityDisabledError):
        await factory.create_queue_client(queue).send(BrokeredMessage())


@mission("M17")
async def test_a_full_queue_is_said_so(broker: Broker, factory: MessagingFactory, name: str) -> None:
    broker.create_queue(name, max_size_in_megabytes=1)
    client = factory.create_queue_client(name)
    sends = (client.send(BrokeredMessage(b"x" * 200_000)) for _ in range(20))
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    refusals = [outcome for outcome in outcomes if outcome is not None]
    assert refusals
    for refusal in refusals:
        assert isinstance(refusal, QuotaExceededError)
        assert not refusal.is_transient


@mission("M17")
async def test_a_wrong_key_is_unauthorized(broker: Broker, queue: str) -> None:
    token_provider = TokenProvider.create_shared_access_signature("RootManageSharedAccessKey", "wrong")
    async with MessagingFactory.create(f"amqp://{HOST}:{broker.port}", token_provider) as factory:
        with pytest.raises(UnauthorizedAccessError) as caught:
            await factory.create_queue_client(queue).send(BrokeredMessage())
    assert not caught.value.is_transient


async def test_a_message_without_a_session_is_refused_by_a_queue_with_sessions(
    broker: Broker, factory: MessagingFactory, name: str
) -> None:
    broker.create_queue(name, requires_session=True)
    with pytest.raises(InvalidOperationError, match="SessionId"):
        await factory.create_queue_client(name).send(BrokeredMessage())


async def test_a_closed_factory_says_so(broker: Broker, queue: str) -> None:
    factory = MessagingFactory.from_connection_string(broker.connection_string)
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage())
    await factory.close()
    assert factory.is_closed
    with pytest.raises(StateError, match="closed"):
        await client.send(BrokeredMessage())


async def test_a_cancelled_send_leaves_the_client_usable(factory: MessagingFactory, queue: str) -> None:
    client = factory.create_queue_client(queue)
    sends = [asyncio.create_task(client.send(BrokeredMessage(str(number)))) for number in range(50)]
    await asyncio.sleep(0)
    for send in sends[::2]:
        send.cancel()
    await asyncio.gather(*sends, return_exceptions=True)
    assert all(send.cancelled() for send in sends[::2])
    assert not any(send.cancelled() or send.exception() for send in sends[1::2])
    await client.send(BrokeredMessage("after"))
    bodies = [message.body for message in await client.receive_batch(100, PATIENCE_S)]
    assert bodies[-1] == b"after"
    assert {str(number).encode() for number in range(1, 50, 2)} <= set(bodies)


async def test_sends_that_are_cancelled_while_they_wait_for_credit_leave_it_to_the_others(
    factory: MessagingFactory, queue: str
) -> None:
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage("first"))
    # The broker gives credit for 2,000.
    sends = [asyncio.create_task(client.send(BrokeredMessage(str(number)))) for number in range(2_300)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    cancelled = sends[2_050:2_250:2]
    for send in cancelled:
        send.cancel()
    await asyncio.gather(*sends, return_exceptions=True)
    assert all(send.cancelled() for send in cancelled)
    assert not any(send.cancelled() or send.exception() for send in sends if send not in set(cancelled))
    await client.send(BrokeredMessage("last"))


async def test_more_links_than_a_session_has_handles_get_another_session(
    broker: Broker, factory: MessagingFactory, queue: str
) -> None:
    receivers = [factory.create_message_receiver(queue) for _ in range(260)]
    assert await asyncio.gather(*(receiver.receive(0) for receiver in receivers)) == [None] * 260
