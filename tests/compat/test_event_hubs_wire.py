"""Links to event hubs, where the official SDKs do not reach: what they would never send, and what they do not show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tandem.amqp import ACCEPTED, IncomingDelivery, Message, Rejected, TransactionalState
from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import encode_message
from tandem.amqp.terminus import Source
from tandem.amqp.types import Described, Int, Short, Symbol, ULong
from tandem.driver import Client, Receiver, Sender
from tandem.engine.hubs.description import EventHubDescription
from tandem.errors import RemoteError
from tandem.server.broker import Broker
from tests.markers import mission, spec
from tests.server.test_broker import condition, connect, data_of, make_queue, request, running

IDEMPOTENT = Symbol("com.microsoft:idempotent-producer")
RUNTIME_METRIC = Symbol("com.microsoft:enable-receiver-runtime-metric")
SELECTOR = Symbol("apache.org:selector-filter:string")
# The descriptor that some SDKs write as a number.
SELECTOR_CODE = ULong(0x0000_468C_0000_0004)


async def make_hub(broker: Broker, name: str = "hub", partition_count: int = 2, **fields: Any) -> None:
    description = EventHubDescription(name, partition_count=partition_count, **fields)
    await broker.perform(lambda namespace: namespace.hubs.create(description))


def event(text: str) -> bytes:
    return encode_message(data=text.encode())


def path(partition: int | str = 0, group: str = "$Default", hub: str = "hub") -> str:
    return f"{hub}/ConsumerGroups/{group}/Partitions/{partition}"


def behind(text: str, descriptor: object = SELECTOR, partition: int = 0) -> Source:
    return Source(path(partition), filter={SELECTOR: Described(descriptor, text)})


async def fill(client: Client, *texts: str, partition: int = 0) -> None:
    sender = await client.sender(f"hub/Partitions/{partition}")
    for text in texts:
        assert await sender.send(event(text)) is ACCEPTED
    await sender.close()


async def take(receiver: Receiver, count: int) -> list[IncomingDelivery]:
    return [await receiver.receive() for _ in range(count)]


async def texts(receiver: Receiver, count: int) -> str:
    return "".join([(data_of(one) or b"").decode() for one in await take(receiver, count)])


async def read_to_the_end(receiver: Receiver) -> tuple[str, str]:
    """What comes until the link is detached, and the condition with which."""
    seen = ""
    try:
        while True:
            seen += await texts(receiver, 1)
    except RemoteError as error:
        return seen, error.condition


async def refusal(attaching: Any) -> str:
    """The condition with which a link is refused, at once or right after it was attached."""
    try:
        receiver = await attaching
        await receiver.receive()
    except RemoteError as error:
        return error.condition
    raise AssertionError("the link was not refused")


@mission("M10")
async def test_an_event_comes_settled_without_a_header_and_with_the_annotations_of_the_service(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            await fill(client, "a")
            (delivery,) = await take(await client.receiver(path()), 1)
    assert delivery.is_settled
    message = Message(delivery.payload)
    assert message.header is None
    assert [str(key) for key in message.message_annotations or {}] == [
        "x-opt-sequence-number-epoch",
        "x-opt-sequence-number",
        "x-opt-offset",
        "x-opt-enqueued-time",
    ]


@mission("M10")
async def test_delivery_annotations_come_back_beside_the_metrics_that_a_reader_asked_for(tmp_path: Path) -> None:
    sent = encode_message(
        delivery_annotations={"mine": 7, "last_enqueued_offset": "forged"}, message_annotations={"own": 8}, data=b"a"
    )
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            sender = await client.sender("hub/Partitions/0")
            assert await sender.send(sent) is ACCEPTED
            assert await sender.send(make_batch([sent]), message_format=BATCH_FORMAT) is ACCEPTED
            plain = await take(await client.receiver(path()), 2)
            informed = await take(await client.receiver(path(), desired_capabilities=[RUNTIME_METRIC]), 2)
    for delivery in plain:
        assert Message(delivery.payload).delivery_annotations == {"mine": 7}
        assert (Message(delivery.payload).message_annotations or {})["own"] == 8
    for delivery in informed:
        found = Message(delivery.payload).delivery_annotations or {}
        # Every reader gets one map, in the place that the specification gives it.
        assert delivery.payload[:3] == b"\x00\x53\x71"
        assert (found["mine"], found["last_enqueued_offset"], len(found)) == (7, "1", 6)


async def test_delivery_annotations_that_are_no_map_are_refused(tmp_path: Path) -> None:
    torn = b"\x00\x53\x71\xc1\x04\x02\xa3\x09a" + event("a")
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            sender = await client.sender("hub/Partitions/0")
            assert condition(await sender.send(torn)) == "amqp:decode-error"
            outcome = await sender.send(make_batch([torn]), message_format=BATCH_FORMAT)
            assert condition(outcome) == "amqp:decode-error"
            assert await sender.send(event("b")) is ACCEPTED


@mission("M10")
@pytest.mark.parametrize("address, source", [("hub/Partitions/0", path()), ("queue", "queue")])
@pytest.mark.parametrize("body", [b"\x00\x53\x75\x40", b"\x00\x53\x76\x40"], ids=["data", "sequence"])
async def test_a_body_that_holds_null_comes_back_as_it_was_sent(
    tmp_path: Path, address: str, source: str, body: bytes
) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        await make_queue(broker, "queue")
        async with await connect(broker) as client:
            sender = await client.sender(address)
            assert await sender.send(body) is ACCEPTED
            assert await sender.send(make_batch([body]), message_format=BATCH_FORMAT) is ACCEPTED
            received = await take(await client.receiver(source), 2)
    assert [one.payload[-4:] for one in received] == [body, body]


@mission("M10")
@pytest.mark.parametrize("descriptor", [SELECTOR, SELECTOR_CODE])
@pytest.mark.parametrize(
    "text, expected",
    [
        ("amqp.annotation.x-opt-offset > '-1'", "abc"),
        ("amqp.annotation.x-opt-offset > 0", "bc"),
        ("amqp.annotation.x-opt-sequence-number >= '2'", "c"),
        ("amqp.annotation.x-opt-enqueuedtimeutc > '0'", "abc"),
    ],
)
async def test_a_filter_is_read_by_whatever_it_is_described(
    tmp_path: Path, descriptor: object, text: str, expected: str
) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            await fill(client, *"abc")
            assert await texts(await client.receiver(behind(text, descriptor)), len(expected)) == expected


async def test_a_filter_that_is_no_position_refuses_the_link(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            assert await refusal(client.receiver(behind("1 = 1"))) == "com.microsoft:argument-error"
            number = Source(path(), filter={SELECTOR: Described(SELECTOR, ULong(7))})
            assert await refusal(client.receiver(number)) == "com.microsoft:argument-error"
            await fill(client, "still here")


@mission("M10")
@pytest.mark.parametrize(
    "address, expected",
    [
        (path(2), "com.microsoft:argument-out-of-range"),
        (path("one"), "com.microsoft:argument-out-of-range"),
        (path(0, "nobody"), "amqp:not-found"),
        ("hub", "com.microsoft:argument-error"),
        ("hub/ConsumerGroups/$Default", "com.microsoft:argument-error"),
    ],
)
async def test_an_address_that_cannot_be_read_from_says_why(tmp_path: Path, address: str, expected: str) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            assert await refusal(client.receiver(address)) == expected


@pytest.mark.parametrize(
    "address, expected",
    [
        ("hub/Partitions/2", "com.microsoft:argument-out-of-range"),
        (path(), "amqp:not-allowed"),
        ("nohub/Partitions/0", "amqp:not-found"),
    ],
)
async def test_an_address_that_cannot_be_sent_to_says_why(tmp_path: Path, address: str, expected: str) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            with pytest.raises(RemoteError) as caught:
                await client.sender(address)
            assert caught.value.condition == expected


@mission("M10")
async def test_a_malformed_event_in_a_batch_refuses_the_batch_and_leaves_the_broker_alone(tmp_path: Path) -> None:
    torn = b"\x00\x53\x72\xc1\x04\x02\xa3\x09a\x00\x53\x75\xa0\x01x"
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            receiver = await client.receiver(path())
            sender = await client.sender("hub/Partitions/0")
            outcome = await sender.send(make_batch([event("a"), torn]), message_format=BATCH_FORMAT)
            assert condition(outcome) == "amqp:decode-error"
            assert await sender.send(event("b")) is ACCEPTED
            assert await texts(receiver, 1) == "b"


async def test_a_hub_takes_no_part_in_transactions(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            sender = await client.sender("hub")
            outcome = await sender.send(event("a"), state=TransactionalState(b"none"))
            assert isinstance(outcome, Rejected)
            assert condition(outcome) == "amqp:not-allowed"


@mission("M10")
@pytest.mark.parametrize("level, expected", [(-1, "argument-out-of-range"), ("1", "argument-error")])
async def test_an_owner_level_that_is_no_number_from_0_on_is_refused(
    tmp_path: Path, level: object, expected: str
) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            attaching = client.receiver(path(), properties={Symbol("com.microsoft:epoch"): level})
            assert await refusal(attaching) == f"com.microsoft:{expected}"


@mission("M10")
async def test_an_owner_that_is_displaced_gets_no_event_that_the_new_one_gets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            epoch = Symbol("com.microsoft:epoch")
            old = await client.receiver(path(), properties={epoch: 1})
            filling = asyncio.create_task(fill(client, *"abcdefghij"))
            new = await client.receiver(path(), properties={epoch: 2})
            await filling
            assert await texts(new, 10) == "abcdefghij"
            seen, end = await read_to_the_end(old)
            assert end == "amqp:link:stolen"
            assert "abcdefghij".startswith(seen)
            assert len(seen) < 10


@spec("amqp:2.6.7")
async def test_a_drain_brings_what_there_is_and_then_an_end(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            await fill(client, *"abc")
            receiver = await client.receiver(path(), credit=0)
            await receiver.drain(2)
            assert await texts(receiver, 2) == "ab"
            await receiver.drain(5)
            assert await texts(receiver, 1) == "c"
            await receiver.drain(5)
            assert receiver.waiting_count == 0


@mission("M10")
@pytest.mark.parametrize(
    "asked, status",
    [
        ({"operation": "READ", "type": "com.microsoft:eventhub", "name": "hub"}, 200),
        ({"operation": "READ", "type": "com.microsoft:partition", "name": "HUB", "partition": "1"}, 200),
        ({"operation": "READ", "type": "com.microsoft:partition", "name": "hub", "partition": "2"}, 400),
        ({"operation": "READ", "type": "com.microsoft:partition", "name": "hub"}, 400),
        ({"operation": "READ", "type": "com.microsoft:eventhub", "name": "nohub"}, 404),
        ({"operation": "READ", "type": "com.microsoft:queue", "name": "hub"}, 400),
        ({"operation": "READ", "type": "com.microsoft:eventhub"}, 400),
        ({"operation": "READ", "type": "com.microsoft:eventhub", "name": 17}, 400),
        ({"operation": "WRITE", "type": "com.microsoft:eventhub", "name": "hub"}, 501),
        ({}, 501),
    ],
)
async def test_questions_about_hubs_are_answered_or_refused_by_name(
    tmp_path: Path, asked: dict[str, object], status: int
) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            answer = await request(client, "$management", asked, None)
    properties = answer.application_properties or {}
    assert properties["status-code"] == status
    assert properties["operation"] == asked.get("operation")
    assert (properties.get("error-condition") is None) == (status == 200)


async def test_what_one_link_refuses_leaves_the_others_of_its_connection_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            receiver = await client.receiver(path())
            for address in (path(9), path(0, "nobody"), "nohub"):
                await refusal(client.receiver(address))
            await fill(client, "a")
            assert await texts(receiver, 1) == "a"


async def test_a_broker_that_is_stopped_and_started_has_every_event_where_it_was(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            await fill(client, *"abc")
            await fill(client, *"xy", partition=1)
    async with running(tmp_path) as broker, await connect(broker) as client:
        assert await texts(await client.receiver(path()), 3) == "abc"
        assert await texts(await client.receiver(path(1)), 2) == "xy"
        await fill(client, "d")
        assert await texts(await client.receiver(behind("amqp.annotation.x-opt-offset > '2'")), 1) == "d"


# --- idempotent producers, as the .NET SDK opens them ---------------------------------------------------------------


def numbered(number: int, *texts_: str) -> bytes:
    key = "com.microsoft:producer-sequence-number"
    return make_batch([event(text) for text in texts_], message_annotations={key: Int(number)})


async def produce(client: Client, state: Mapping[str, object] = {}, address: str = "hub/Partitions/0") -> Sender:
    """A link of an idempotent producer. What it does not know of its state it leaves null."""
    names = {"id": "producer-id", "epoch": "producer-epoch", "number": "producer-sequence-number"}
    properties: dict[object, object] = {
        Symbol(f"com.microsoft:{name}"): state.get(short) for short, name in names.items()
    }
    return await client.sender(address, properties=properties, desired_capabilities=[IDEMPOTENT])


def offered(sender: Sender) -> tuple[list[Symbol], dict[str, object]]:
    """The capabilities that the reply offers, and the state of the producer in its properties."""
    attach = sender.link.attach
    assert attach is not None
    prefix = "com.microsoft:producer-"
    found = {str(name): value for name, value in (attach.properties or {}).items()}
    state = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    return attach.offered_capabilities or [], state


@mission("M10")
async def test_a_new_idempotent_producer_gets_an_id_and_starts_at_0(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            sender = await produce(client)
            capabilities, state = offered(sender)
            assert capabilities == [IDEMPOTENT]
            assert isinstance(state.pop("id"), int)
            assert state == {"epoch": Short(0), "sequence-number": Int(0)}
            assert await sender.send(numbered(1, "a", "b"), message_format=BATCH_FORMAT) is ACCEPTED
            assert await texts(await client.receiver(path()), 2) == "ab"


@mission("M10")
async def test_an_old_number_is_an_error_and_only_a_repetition_is_acknowledged(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            sender = await produce(client, {"id": 7, "epoch": Short(0)})
            for number, text in ((1, "abcde"), (6, "f")):
                assert await sender.send(numbered(number, *text), message_format=BATCH_FORMAT) is ACCEPTED
            for number, text in ((2, "x"), (6, "x"), (1, "abcde"), (5, "ef")):
                outcome = await sender.send(numbered(number, *text), message_format=BATCH_FORMAT)
                assert condition(outcome) == "com.microsoft:out-of-order-sequence"
            # Its acknowledgement was lost with the link.
            again = await produce(client, {"id": 7, "epoch": Short(0), "number": Int(5)})
            assert await again.send(numbered(6, "f"), message_format=BATCH_FORMAT) is ACCEPTED
            assert await again.send(numbered(7, "g"), message_format=BATCH_FORMAT) is ACCEPTED
            assert await texts(await client.receiver(path()), 7) == "abcdefg"


@mission("M10")
@pytest.mark.parametrize("state", [{"epoch": Short(-1)}, {"id": -1}, {"number": Int(-1)}], ids=str)
async def test_a_producer_with_a_negative_number_is_refused_as_out_of_range(
    tmp_path: Path, state: dict[str, object]
) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            with pytest.raises(RemoteError, match="must be zero or positive") as caught:
                await produce(client, state)
            assert caught.value.condition == "com.microsoft:argument-out-of-range"


@mission("M10")
async def test_a_link_to_the_whole_hub_may_ask_for_idempotence_and_is_offered_none(tmp_path: Path) -> None:
    # The .NET SDK opens one to learn how large a batch may be.
    async with running(tmp_path) as broker:
        await make_hub(broker, partition_count=1)
        async with await connect(broker) as client:
            sender = await produce(client, address="hub")
            assert offered(sender) == ([], {})
            assert sender.link.attach is not None
            assert sender.link.attach.max_message_size == 1_048_576
            assert await sender.send(event("a")) is ACCEPTED
            assert await texts(await client.receiver(path()), 1) == "a"
