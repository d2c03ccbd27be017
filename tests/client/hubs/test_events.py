"""Event hubs: sending to partitions, and reading them from any position."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from tandem.client import (
    BrokeredMessage,
    EventData,
    EventHubClient,
    EventPosition,
    InvalidOperationError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ReceiverDisconnectedError,
    TokenProvider,
)
from tandem.errors import ConfigurationError, UsageError
from tandem.testing import Broker
from tests.client.network import HOST, KEY, QUICK, RULE_NAME, Proxy
from tests.markers import mission
from tests.patience import PATIENCE_S

GROUP = "$Default"


@pytest_asyncio.fixture
async def hub(broker: Broker, name: str) -> AsyncIterator[EventHubClient]:
    broker.create_hub(name, partition_count=4)
    async with EventHubClient.from_connection_string(broker.connection_string, name) as hub:
        yield hub


async def bodies(hub: EventHubClient, partition_id: str, position: EventPosition | None = None) -> list[bytes]:
    """All that a partition holds from a position on."""
    partition = await hub.get_partition_properties(partition_id)
    found: list[EventData] = []
    async with hub.create_consumer(GROUP, partition_id, position) as consumer:
        while not partition.is_empty and (
            not found or found[-1].sequence_number != partition.last_enqueued_sequence_number
        ):
            found += await consumer.receive_batch(100, PATIENCE_S)
    return [event.body for event in found]


@mission("M10")
async def test_an_event_arrives_with_everything_its_sender_said(hub: EventHubClient) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    producer = hub.create_producer()
    event = EventData("21.5", properties={"room": 7}, content_type="text/plain", correlation_id="c", message_id="m")
    await producer.send(event, partition_id="2")
    read = await hub.create_consumer(GROUP, "2").receive(PATIENCE_S)
    assert read is not None
    assert read.body == b"21.5"
    assert read.properties == {"room": 7}
    assert (read.content_type, read.correlation_id, read.message_id) == ("text/plain", "c", "m")
    assert (read.sequence_number, read.offset, read.partition_key) == (0, "0", None)
    assert read.enqueued_time_utc is not None
    assert before < read.enqueued_time_utc < before + timedelta(minutes=1)
    assert (event.sequence_number, event.offset, event.enqueued_time_utc) == (None, None, None)


@mission("M10")
async def test_events_with_one_key_keep_their_order_in_one_partition(hub: EventHubClient) -> None:
    producer = hub.create_producer()
    await producer.send_batch([EventData(str(number)) for number in range(20)], partition_key="room 7")
    for number in range(20, 30):
        await producer.send(EventData(str(number)), partition_key="room 7")
    found = [await bodies(hub, partition_id) for partition_id in ("0", "1", "2", "3")]
    assert max(found, key=len) == [str(number).encode() for number in range(30)]
    assert sum(len(one) for one in found) == 30
    partition_id = str(max(range(4), key=lambda index: len(found[index])))
    event = await hub.create_consumer(GROUP, partition_id).receive(PATIENCE_S)
    assert event is not None
    assert event.partition_key == "room 7"


@mission("M10")
async def test_events_with_keys_of_their_own_keep_their_order_in_each_partition(hub: EventHubClient) -> None:
    producer = hub.create_producer()
    events = [EventData(str(number), partition_key=f"room {number % 17}") for number in range(200)]
    await producer.send_batch([*events, EventData("anywhere")])
    found = [await bodies(hub, partition_id) for partition_id in ("0", "1", "2", "3")]
    assert sorted(body for read in found for body in read) == sorted(
        [b"anywhere", *[str(number).encode() for number in range(200)]]
    )
    for partition_id, read in enumerate(found):
        numbers = [int(body) for body in read if body != b"anywhere"]
        assert numbers == sorted(numbers)
        for number in numbers[:17]:
            assert await producer.partition_of(f"room {number % 17}") == str(partition_id)
    event = await hub.create_consumer(GROUP, await producer.partition_of("room 0")).receive(PATIENCE_S)
    assert event is not None
    assert event.partition_key == f"room {int(event.body) % 17}"


async def test_events_with_keys_of_which_one_is_too_large_are_not_sent_in_part(hub: EventHubClient) -> None:
    small = [EventData(str(number), partition_key=str(number)) for number in range(20)]
    with pytest.raises(MessageSizeExceededError):
        await hub.create_producer().send_batch([*small, EventData(bytes(2_000_000), partition_key="large")])
    assert [await bodies(hub, partition_id) for partition_id in ("0", "1", "2", "3")] == [[], [], [], []]


@mission("M10")
async def test_a_partition_is_read_from_any_position_as_often_as_one_likes(hub: EventHubClient) -> None:
    producer = hub.create_producer()
    await producer.send_batch([EventData(str(number)) for number in range(5)], partition_id="0")
    await asyncio.sleep(0.01)
    moment = datetime.now(UTC)
    await asyncio.sleep(0.01)
    await producer.send_batch([EventData(str(number)) for number in range(5, 10)], partition_id="0")
    everything = [str(number).encode() for number in range(10)]
    assert await bodies(hub, "0") == everything
    assert await bodies(hub, "0", EventPosition.earliest()) == everything
    assert await bodies(hub, "0", EventPosition.from_sequence_number(6)) == everything[7:]
    assert await bodies(hub, "0", EventPosition.from_sequence_number(6, is_inclusive=True)) == everything[6:]
    assert await bodies(hub, "0", EventPosition.from_enqueued_time(moment)) == everything[5:]
    third = (await hub.create_consumer(GROUP, "0").receive_batch(3, PATIENCE_S))[-1]
    assert third.offset is not None
    assert await bodies(hub, "0", EventPosition.from_offset(third.offset)) == everything[3:]
    assert await bodies(hub, "0", EventPosition.from_offset(third.offset, is_inclusive=True)) == everything[2:]


@mission("M10")
async def test_who_begins_at_the_end_gets_what_comes_from_then_on(hub: EventHubClient) -> None:
    producer = hub.create_producer()
    await producer.send(EventData("before"), partition_id="0")
    consumer = hub.create_consumer(GROUP, "0", EventPosition.latest())
    assert await consumer.receive(0.1) is None
    await producer.send(EventData("after"), partition_id="0")
    event = await consumer.receive(PATIENCE_S)
    assert event is not None
    assert event.body == b"after"


async def test_a_hub_and_its_partitions_say_what_they_hold(hub: EventHubClient) -> None:
    properties = await hub.get_properties()
    assert properties.name == hub.event_hub_name
    assert properties.partition_ids == ("0", "1", "2", "3")
    empty = await hub.get_partition_properties("1")
    assert empty.is_empty
    assert empty.last_enqueued_sequence_number == -1
    assert empty.last_enqueued_time_utc is None
    await hub.create_producer().send_batch([EventData("a"), EventData("b")], partition_id="1")
    filled = await hub.get_partition_properties("1")
    assert not filled.is_empty
    assert (filled.beginning_sequence_number, filled.last_enqueued_sequence_number) == (0, 1)
    assert filled.last_enqueued_time_utc is not None


async def test_a_batch_larger_than_the_link_allows_goes_in_several(hub: EventHubClient) -> None:
    sent = [EventData(bytes([number]) * 400_000) for number in range(5)]
    await hub.create_producer().send_batch(sent, partition_id="3")
    assert await bodies(hub, "3") == [event.body for event in sent]


async def test_an_event_that_is_too_large_is_refused(hub: EventHubClient) -> None:
    with pytest.raises(MessageSizeExceededError):
        await hub.create_producer().send(EventData(b"x" * 2_000_000))


@mission("M10")
async def test_a_higher_owner_level_ends_a_lower_one_for_good(hub: EventHubClient) -> None:
    await hub.create_producer().send(EventData("a"), partition_id="0")
    first = hub.create_consumer(GROUP, "0", EventPosition.latest(), owner_level=0)
    waiting = asyncio.create_task(first.receive(PATIENCE_S))
    await asyncio.sleep(0.1)
    second = hub.create_consumer(GROUP, "0", owner_level=1)
    assert await second.receive(PATIENCE_S) is not None
    with pytest.raises(ReceiverDisconnectedError) as caught:
        await waiting
    assert not caught.value.is_transient
    with pytest.raises(ReceiverDisconnectedError):
        await first.receive(0)
    assert await second.receive(0) is None


async def test_an_owner_of_the_same_level_that_was_ended_does_not_come_back(hub: EventHubClient) -> None:
    """Otherwise the two would take the partition from each other for ever."""
    producer = hub.create_producer()
    first = hub.create_consumer(GROUP, "0", owner_level=0)
    assert await first.receive(0) is None
    second = hub.create_consumer(GROUP, "0", owner_level=0)
    assert await second.receive(0.1) is None
    with pytest.raises(ReceiverDisconnectedError):
        await first.receive(PATIENCE_S)
    await producer.send(EventData("for the second"), partition_id="0")
    assert await second.receive(PATIENCE_S) is not None


async def test_reading_goes_on_where_it_was_when_the_connection_was_lost(
    broker: Broker, proxy: Proxy, name: str
) -> None:
    broker.create_hub(name, partition_count=1)
    provider = TokenProvider.create_shared_access_signature(RULE_NAME, KEY)
    count = 200
    async with (
        EventHubClient.from_connection_string(broker.connection_string, name) as direct,
        EventHubClient.create(f"amqp://{HOST}:{proxy.port}", provider, name, QUICK) as hub,
    ):
        producer = direct.create_producer()
        consumer = hub.create_consumer(GROUP, "0", prefetch_count=10)
        numbers: list[int] = []
        for start in range(0, count, 50):
            await producer.send_batch([EventData(str(number)) for number in range(start, start + 50)])
            while len(numbers) < start + 40:
                numbers += [int(event.body) for event in await consumer.receive_batch(7, PATIENCE_S)]
            proxy.cut()
            await asyncio.sleep(0.02)
        while len(numbers) < count:
            numbers += [int(event.body) for event in await consumer.receive_batch(7, PATIENCE_S)]
    assert numbers == list(range(count))
    assert proxy.connections_made > 1


async def test_what_a_hub_does_not_have_is_said_so(hub: EventHubClient, broker: Broker) -> None:
    with pytest.raises(MessagingEntityNotFoundError):
        await hub.create_consumer("nobody", "0").receive(1)
    with pytest.raises(InvalidOperationError, match="partition"):
        await hub.create_consumer(GROUP, "99").receive(1)
    with pytest.raises(InvalidOperationError, match="partition"):
        await hub.get_partition_properties("99")
    async with EventHubClient.from_connection_string(broker.connection_string, "no-such-hub") as other:
        with pytest.raises(MessagingEntityNotFoundError):
            await other.create_producer().send(EventData())
        with pytest.raises(MessagingEntityNotFoundError):
            await other.get_properties()


async def test_events_of_which_one_is_too_large_are_not_sent_in_part(hub: EventHubClient) -> None:
    events = [EventData(bytes(600_000)), EventData(bytes(600_000)), EventData(bytes(2_000_000))]
    with pytest.raises(MessageSizeExceededError, match=f"'{hub.event_hub_name}/Partitions/0' takes at most"):
        await hub.create_producer().send_batch(events, partition_id="0")
    assert (await hub.get_partition_properties("0")).is_empty


async def test_mistakes_of_the_caller_are_refused(hub: EventHubClient) -> None:
    producer = hub.create_producer()
    assert producer.event_hub_name == hub.event_hub_name
    with pytest.raises(UsageError, match="partition_key"):
        await producer.send(EventData(), partition_id="0", partition_key="k")
    with pytest.raises(UsageError, match="prefetch_count"):
        hub.create_consumer(GROUP, "0", prefetch_count=0)
    with pytest.raises(UsageError, match="max_count"):
        await hub.create_consumer(GROUP, "0").receive_batch(0)
    await producer.send_batch([])


def test_a_connection_string_may_name_the_hub() -> None:
    text = f"Endpoint=sb://{HOST}:1;SharedAccessKeyName={RULE_NAME};SharedAccessKey={KEY};"
    assert EventHubClient.from_connection_string(f"{text}EntityPath=telemetry").event_hub_name == "telemetry"
    with pytest.raises(ConfigurationError, match="event_hub_name"):
        EventHubClient.from_connection_string(text)


def test_an_event_that_is_no_bytes_is_said_so() -> None:
    from tandem.amqp.message import encode_message

    assert EventData.from_payload(encode_message(value="text")).body == b"text"
    assert EventData.from_payload(BrokeredMessage("data").to_payload()).body == b"data"
    with pytest.raises(UsageError, match="amqp-sequence"):
        _ = EventData.from_payload(encode_message(sequence=[1])).body
    assert repr(EventData()) == "EventData(sequence_number=None, offset=None)"
