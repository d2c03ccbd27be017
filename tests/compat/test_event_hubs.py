"""The official Event Hubs SDK, unmodified: what is sent is read, as it was sent, from wherever one wants to begin."""

from __future__ import annotations

import contextlib
import time
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.eventhub.exceptions import ConnectError, EventDataSendError

from tandem.engine.hubs.partition_key import partition_of
from tests.compat.hubs import LATEST, START, Hub, Reading, new_hub, texts
from tests.compat.sdk import AT_ONCE, Bus, address_of, in_seconds, now
from tests.markers import mission
from tests.patience import wait_until

pytestmark = AT_ONCE


@mission("M10", "M17")
def test_a_batch_arrives_whole_in_order_and_numbered_from_zero(bus: Bus) -> None:
    hub = new_hub(bus)
    with hub.producer() as producer:
        batch = producer.create_batch()
        for number in range(100):
            batch.add(EventData(f"{number}"))
        producer.send_batch(batch)
        producer.send_event(EventData("100"))
    events = hub.read(101)
    assert texts(events) == [f"{number}" for number in range(101)]
    assert [event.sequence_number for event in events] == list(range(101))
    assert [event.offset for event in events] == [f"{number}" for number in range(101)]
    times = [event.enqueued_time for event in events]
    assert all(at is not None and now() - timedelta(minutes=1) < at <= now() for at in times)


@mission("M10")
def test_many_events_are_read_in_order_by_a_consumer_that_takes_its_time(bus: Bus) -> None:
    hub = new_hub(bus)
    numbers = [str(number) for number in range(5_000)]
    with hub.producer() as producer:
        for start in range(0, len(numbers), 500):
            producer.send_batch([EventData(number) for number in numbers[start : start + 500]], partition_id="0")
    assert texts(hub.read(len(numbers), prefetch=60)) == numbers


@mission("M10")
def test_a_partition_that_is_named_gets_the_batch(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=3)
    with hub.producer() as producer:
        for partition_id in ("0", "1", "2"):
            batch = producer.create_batch(partition_id=partition_id)
            batch.add(EventData(f"for {partition_id}"))
            producer.send_batch(batch)
        producer.send_event(EventData("alone"), partition_id="2")
    with Reading(hub) as reading:
        reading.wait_for(4)
        found = sorted((partition_id, event.body_as_str()) for partition_id, event in reading.events)
    assert found == [("0", "for 0"), ("1", "for 1"), ("2", "alone"), ("2", "for 2")]


@mission("M10")
def test_events_without_key_and_partition_go_around_and_none_is_lost(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=4)
    with hub.producer() as producer:
        for number in range(8):
            producer.send_event(EventData(f"{number}"))
    assert [place["last_sequence_number"] for place in bus.broker.partitions(hub.name)] == [1, 1, 1, 1]


@mission("M10")
@pytest.mark.parametrize("key", ["customer-17", "Straße"])
def test_a_key_keeps_its_events_together_and_is_read_back(bus: Bus, key: str) -> None:
    hub = new_hub(bus, partition_count=5)
    with hub.producer() as producer:
        batch = producer.create_batch(partition_key=key)
        batch.add(EventData("a"))
        batch.add(EventData("b"))
        producer.send_batch(batch)
        producer.send_event(EventData("c"), partition_key=key)
    events = hub.read(3, partition_id=str(partition_of(key, 5)))
    assert texts(events) == ["a", "b", "c"]
    assert [event.partition_key for event in events] == [key.encode()] * 3


@mission("M10")
def test_properties_of_every_type_come_back_as_they_were_sent(bus: Bus) -> None:
    hub = new_hub(bus)
    number = uuid.uuid4()
    properties: dict[str | bytes, Any] = {
        "text": "Grüße",
        "octets": b"\x00\xff",
        "small": 7,
        "large": 2**31 - 1,
        "negative": -5,
        "real": 0.5,
        "yes": True,
        "no": False,
        "nothing": None,
        "uuid": number,
        # The SDK writes decimals as AMQP 1.0 says, and reads only the layout that the service delivers.
        "decimal": Decimal("1.50"),
    }
    event = EventData(b"body")
    event.properties = properties
    event.content_type = "application/json"
    event.correlation_id = "correlated"
    event.message_id = "an-id"
    with hub.producer() as producer:
        producer.send_event(event)
    (received,) = hub.read(1)
    found = {key.decode() if isinstance(key, bytes) else key: value for key, value in received.properties.items()}
    expected = {**properties, "text": "Grüße".encode()}
    assert found == expected
    assert (received.content_type, received.correlation_id, received.message_id) == (
        "application/json",
        "correlated",
        "an-id",
    )


@mission("M10")
def test_the_system_properties_are_those_of_the_service(bus: Bus) -> None:
    hub = new_hub(bus)
    hub.send("a", partition_key="k")
    (event,) = hub.read(1)
    found = event.system_properties
    at_ms = found[b"x-opt-enqueued-time"]
    assert found == {
        b"x-opt-sequence-number-epoch": -1,
        b"x-opt-sequence-number": 0,
        b"x-opt-offset": b"0",
        b"x-opt-enqueued-time": at_ms,
        b"x-opt-partition-key": b"k",
    }
    assert event.enqueued_time == datetime.fromtimestamp(at_ms / 1000, UTC)
    # The service delivers events without a header.
    assert event.raw_amqp_message.header is None or event.raw_amqp_message.header.durable is None


@mission("M10")
def test_bodies_of_every_kind_come_back_as_they_were_sent(bus: Bus) -> None:
    hub = new_hub(bus)
    with hub.producer() as producer:
        batch = producer.create_batch()
        batch.add(AmqpAnnotatedMessage(data_body=[b"one", b"two"]))
        batch.add(AmqpAnnotatedMessage(sequence_body=[1, b"two", True]))
        batch.add(AmqpAnnotatedMessage(value_body={b"key": [1, 2]}))
        batch.add(EventData(b""))
        producer.send_batch(batch)
    several, sequence, value, empty = cast("list[Any]", hub.read(4))
    assert (several.body_type, list(several.body)) == (AmqpMessageBodyType.DATA, [b"one", b"two"])
    assert (sequence.body_type, list(sequence.body)) == (AmqpMessageBodyType.SEQUENCE, [[1, b"two", True]])
    assert (value.body_type, value.body) == (AmqpMessageBodyType.VALUE, {b"key": [1, 2]})
    assert b"".join(empty.body) == b""


@mission("M10")
def test_annotations_of_the_sender_come_back_those_of_the_delivery_included(bus: Bus) -> None:
    hub = new_hub(bus)
    message = AmqpAnnotatedMessage(data_body=b"a", annotations={"own": "kept"}, delivery_annotations={"on the way": 7})
    with hub.producer() as producer:
        # Alone, and in a batch; this SDK writes delivery annotations behind the body.
        producer.send_event(message, partition_id="0")
        producer.send_batch([message], partition_id="0")
    for event in cast("list[Any]", hub.read(2)):
        assert event.raw_amqp_message.annotations[b"own"] == b"kept"
        assert event.raw_amqp_message.delivery_annotations == {b"on the way": 7}


# --- positions ----------------------------------------------------------------------------------------------------


@mission("M10")
@pytest.mark.parametrize(
    "position, is_inclusive, expected",
    [
        (START, False, "abcdef"),
        (LATEST, False, ""),
        ("2", False, "def"),
        ("2", True, "cdef"),
        (2, False, "def"),
        (2, True, "cdef"),
        (5, False, ""),
        ("between", False, "def"),
        ("of-d", True, "def"),
        ("of-d", False, "f"),
        ("later", False, ""),
    ],
)
def test_a_consumer_begins_at_every_kind_of_position(
    bus: Bus, position: str | int, is_inclusive: bool, expected: str
) -> None:
    hub = new_hub(bus)
    where: Any = position
    with hub.producer() as producer:
        producer.send_batch([EventData(text) for text in "abc"])
        _let_the_clock_move()
        between = in_seconds(0)
        _let_the_clock_move()
        producer.send_batch([EventData(text) for text in "de"])
        at_ms = hub.place()["last_enqueued_at_ms"]
        _let_the_clock_move()
        producer.send_batch([EventData(text) for text in "f"])
        if position == "between":
            where = between
        elif position == "of-d":
            where = datetime.fromtimestamp(at_ms / 1000, UTC)
        elif position == "later":
            where = in_seconds(3_600)
        with Reading(hub, where, partition_id="0", starting_position_inclusive=is_inclusive) as reading:
            hub.await_receivers(1)
            producer.send_batch([EventData("g")])
            reading.wait_for(len(expected) + 1)
    assert "".join(reading.texts) == expected + "g"


def _let_the_clock_move() -> None:
    """By more than the milliseconds in which times are kept."""
    time.sleep(0.005)


@mission("M10")
@pytest.mark.parametrize(
    "position, expected",
    [
        ("17", "The supplied offset '17' is invalid. The last offset in the system is '-1'"),
        (17, "The supplied sequence number '17' is invalid. The last sequence number in the system is '-1'"),
    ],
)
def test_a_position_that_was_never_reached_is_an_argument_error(bus: Bus, position: str | int, expected: str) -> None:
    hub = new_hub(bus)
    with Reading(hub, position, partition_id="0") as reading:
        error = reading.wait_for_error()
    assert isinstance(error, ConnectError)
    assert error.error == "argument-error"
    assert expected in str(error)


@mission("M10")
def test_events_are_read_again_as_often_as_one_likes(bus: Bus) -> None:
    hub = new_hub(bus, consumer_groups=["audit"])
    hub.send("a", "b", "c")
    for group in ("$Default", "audit", "$default"):
        assert texts(hub.read(3, group=group)) == ["a", "b", "c"]


# --- what a hub says of itself ------------------------------------------------------------------------------------


@mission("M10")
def test_the_properties_of_a_hub_and_of_its_partitions_are_read(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=3)
    with hub.producer() as producer:
        properties = producer.get_eventhub_properties()
        assert properties["eventhub_name"] == hub.name
        assert properties["partition_ids"] == producer.get_partition_ids() == ["0", "1", "2"]
        assert now() - properties["created_at"] < timedelta(minutes=1)
        empty = producer.get_partition_properties("1")
        assert empty == {
            "eventhub_name": hub.name,
            "id": "1",
            "beginning_sequence_number": -1,
            "last_enqueued_sequence_number": -1,
            "last_enqueued_offset": "-1",
            "is_empty": True,
            "last_enqueued_time_utc": datetime.min.replace(tzinfo=UTC),
        }
        producer.send_batch([EventData("a"), EventData("b")], partition_id="1")
        filled = producer.get_partition_properties("1")
    assert now() - filled.pop("last_enqueued_time_utc") < timedelta(minutes=1)
    assert filled == {
        "eventhub_name": hub.name,
        "id": "1",
        "beginning_sequence_number": 0,
        "last_enqueued_sequence_number": 1,
        "last_enqueued_offset": "1",
        "is_empty": False,
    }


@mission("M10")
def test_a_consumer_that_asks_for_it_is_told_with_each_event_how_far_the_partition_is(bus: Bus) -> None:
    hub = new_hub(bus)
    hub.send("a", "b", "c")
    seen: list[dict[str, Any]] = []
    with Reading(hub, partition_id="0", track_last_enqueued_event_properties=True) as reading:
        reading.on_events = lambda context, _: seen.append(dict(context.last_enqueued_event_properties or {}))
        reading.wait_for(3)
        wait_until(lambda: bool(seen), "the properties")
    last = seen[-1]
    assert (last["sequence_number"], last["offset"]) == (2, "2")
    assert last["enqueued_time"] <= last["retrieval_time"] <= now()


# --- sizes --------------------------------------------------------------------------------------------------------


@mission("M10")
def test_a_batch_may_be_filled_to_its_limit(bus: Bus) -> None:
    hub = new_hub(bus)
    count = 0
    with hub.producer() as producer:
        batch = producer.create_batch()
        assert batch.max_size_in_bytes == 1_048_576
        with contextlib.suppress(ValueError):
            while True:
                batch.add(EventData(f"{count:05}" + "x" * 1_000))
                count += 1
        producer.send_batch(batch)
    assert count > 1_000
    events = hub.read(count)
    assert [event.body_as_str()[:5] for event in events] == [f"{number:05}" for number in range(count)]


@mission("M10")
def test_an_event_that_is_too_large_is_refused_by_the_sdk_and_by_the_broker(bus: Bus) -> None:
    hub = new_hub(bus, max_event_size_in_kilobytes=16)
    with hub.producer() as producer:
        batch = producer.create_batch()
        assert batch.max_size_in_bytes == 16_384
        with pytest.raises(ValueError, match="size limit"):
            batch.add(EventData(b"x" * 20_000))
        with pytest.raises(EventDataSendError, match="exceeds the limit"):
            producer.send_event(EventData(b"x" * 20_000))
        producer.send_event(EventData(b"x" * 16_000))
    (event,) = hub.read(1)
    assert len(event.body_as_str()) == 16_000


# --- ways to reach it ---------------------------------------------------------------------------------------------


@mission("M10", "M17")
def test_the_hub_may_be_named_in_the_connection_string(bus: Bus) -> None:
    hub = new_hub(bus)
    address = f"{bus.broker.connection_string.rstrip(';')};EntityPath={hub.name}"
    with EventHubProducerClient.from_connection_string(address, retry_total=0) as producer:
        assert producer.eventhub_name == hub.name
        producer.send_event(EventData("a"))
    consumer = EventHubConsumerClient.from_connection_string(address, "$Default", retry_total=0)
    with consumer:
        assert consumer.get_partition_properties("0")["last_enqueued_sequence_number"] == 0


@mission("M10", "M17")
@pytest.mark.parametrize("transport", ["tls", "websocket"])
@pytest.mark.parametrize("port", ["port", "http_port"])
def test_hubs_are_reached_over_tls_and_websocket_on_either_port(bus: Bus, transport: str, port: str) -> None:
    address = address_of(bus.broker, transport, port=getattr(bus.broker, port))
    hub = Hub(bus, new_hub(bus).name, address)
    with hub.producer() as producer:
        producer.send_batch([EventData(b"x" * 100_000), EventData("hello")])
    with Reading(hub) as reading:
        events = reading.wait_for(2)
    assert [len(event.body_as_str()) for event in events] == [100_000, 5]


# --- buffered -----------------------------------------------------------------------------------------------------


@mission("M10")
def test_a_buffered_producer_keeps_the_order_of_each_key_and_loses_nothing(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=2)
    sent: list[EventData] = []
    failed: list[Exception] = []
    producer = hub.producer(
        buffered_mode=True,
        on_success=lambda events, _: sent.extend(events),
        on_error=lambda _, __, error: failed.append(error),
        max_wait_time=0.2,
    )
    with producer:
        for number in range(200):
            producer.send_event(EventData(f"{number}"), partition_key=f"key-{number % 3}")
        producer.flush()
        assert producer.total_buffered_event_count == 0
    assert (len(sent), failed) == (200, [])
    with Reading(hub) as reading:
        events = reading.wait_for(200)
    by_key: dict[Any, list[int]] = {}
    for event in events:
        by_key.setdefault(event.partition_key, []).append(int(event.body_as_str()))
    assert sorted(by_key) == [b"key-0", b"key-1", b"key-2"]
    for rest, key in enumerate(sorted(by_key)):
        assert by_key[key] == list(range(rest, 200, 3))


@mission("M10")
def test_a_hub_that_is_deleted_ends_its_consumers_and_one_made_anew_begins_empty(bus: Bus) -> None:
    hub = new_hub(bus)
    hub.send("old")
    with Reading(hub, partition_id="0") as reading:
        reading.wait_for(1)
        bus.broker.delete_hub(hub.name)
        error = reading.wait_for_error()
        assert "not-found" in str(error)
    bus.broker.create_hub(hub.name, partition_count=1)
    again = Hub(bus, hub.name)
    again.send("new")
    (event,) = again.read(1)
    assert (event.body_as_str(), event.sequence_number) == ("new", 0)
