"""Sends that go on: real brokers, real outages, with the usual ten seconds and one minute on a client in a hurry."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from tandem.client import (
    BrokeredMessage,
    EventHubClient,
    EventPosition,
    MessageSizeExceededError,
    MessagingCommunicationError,
    MessagingFactory,
    QueueClient,
    ServerBusyError,
    UnauthorizedAccessError,
)
from tandem.pairing import DIVERTED, FailoverState
from tandem.testing import Broker
from tests.markers import mission
from tests.pairing.hurry import Hurry, PairUnderTest, heal, impatient_factory, inject
from tests.patience import PATIENCE_S, until

DIRECTLY = timedelta(0)

# For sends that are not answered. An attempt is given up after a third of it, and the first has to connect by then.
SOON = timedelta(seconds=9)


async def received(client: QueueClient, count: int) -> list[BrokeredMessage]:
    messages: list[BrokeredMessage] = []
    while len(messages) < count:
        portion = await client.receive_batch(count - len(messages), PATIENCE_S)
        assert portion, f"only {len(messages)} of {count} came"
        for message in portion:
            await message.complete()
        messages += portion
    return messages


@mission("M18", "M22")
async def test_while_all_is_well_only_the_primary_is_used(pair: PairUnderTest, queue: str) -> None:
    await pair.pair()
    client = pair.primary.create_queue_client(queue)
    await client.send(BrokeredMessage("one"))
    await client.send_batch([BrokeredMessage("two"), BrokeredMessage("three")])
    assert [message.body for message in await received(client, 3)] == [b"one", b"two", b"three"]
    assert set(pair.backlog().values()) == {0}
    assert pair.events == []


@mission("M16", "M22", "M23", "M25", "M26")
async def test_a_primary_that_is_killed_loses_no_message(mortal_pair: PairUnderTest) -> None:
    pair, broker = mortal_pair, mortal_pair.primary_broker
    broker.create_queue("orders")
    await pair.pair(enable_syphon=True)
    client = pair.primary.create_queue_client("orders")
    for number in range(5):
        await client.send(BrokeredMessage(b"", message_id=f"before-{number}"))
    await asyncio.to_thread(broker.kill)
    await asyncio.gather(*(client.send(BrokeredMessage(b"", message_id=f"during-{number}")) for number in range(20)))
    await client.send_batch([BrokeredMessage(b"", message_id=f"batch-{number}") for number in range(5)])
    assert sum(pair.backlog().values()) == 25
    assert pair.told("failed-over", "orders")
    await asyncio.to_thread(broker.start)
    await until(lambda: bool(pair.told("restored", "orders")), "the ping brings the entity back")
    await client.send(BrokeredMessage(b"", message_id="after"))
    identifiers = {str(message.message_id) for message in await received(client, 31)}
    kinds = {"before": 5, "during": 20, "batch": 5}
    assert identifiers == {"after", *(f"{kind}-{number}" for kind, count in kinds.items() for number in range(count))}
    await until(lambda: set(pair.backlog().values()) == {0}, "the backlog is empty")


@mission("M22", "M26")
async def test_sends_that_are_not_answered_are_counted_and_pings_are_not(
    pair: PairUnderTest, queue: str, primary: Broker
) -> None:
    options = pair.options(failover_interval=DIRECTLY, ping_primary_interval=timedelta(milliseconds=100))
    async with impatient_factory(primary, SOON) as quick:
        await quick.pair_namespace(options)
        client = quick.create_queue_client(queue)
        await client.send(BrokeredMessage("answered"))
        inject(primary, "timeout", queue, operations=["sends"], perform=True)
        await client.send(BrokeredMessage("unanswered"))
        await until(lambda: bool(pair.told("ping", queue)), "a ping is not answered either")
    assert options.paired_namespace is not None
    assert options.paired_namespace.unanswered_count == 1
    assert sum(pair.backlog().values()) == 1
    assert primary.queue(queue)["active_message_count"] == 2, "it was taken all the same"


@mission("M22")
async def test_one_entity_fails_over_and_its_neighbour_does_not(
    pair: PairUnderTest, queue: str, primary: Broker
) -> None:
    primary.create_queue(f"{queue}-neighbour")
    await pair.pair(failover_interval=DIRECTLY)
    inject(primary, "refuse-sends", queue, error="internal-error")
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("takes the detour"))
    await pair.primary.create_queue_client(f"{queue}-neighbour").send(BrokeredMessage("goes straight"))
    assert sum(pair.backlog().values()) == 1
    assert primary.queue(f"{queue}-neighbour")["active_message_count"] == 1
    assert [event["entity"] for event in pair.told("failed-over")] == [queue]


@mission("M22")
async def test_a_primary_that_does_not_answer_is_failed_over(pair: PairUnderTest, queue: str, primary: Broker) -> None:
    inject(primary, "timeout", queue, operations=["sends"])
    async with impatient_factory(primary, SOON) as quick:
        await quick.pair_namespace(pair.options(failover_interval=DIRECTLY))
        await quick.create_queue_client(queue).send(BrokeredMessage("no answer"))
    assert sum(pair.backlog().values()) == 1


@mission("M22")
@pytest.mark.parametrize(
    "error, expected", [("unauthorized", UnauthorizedAccessError), ("server-busy", ServerBusyError)]
)
async def test_neither_unauthorized_nor_server_busy_ever_fails_over(
    pair: PairUnderTest, queue: str, primary: Broker, error: str, expected: type[Exception]
) -> None:
    settings = type(pair.primary.settings)(
        operation_timeout=timedelta(seconds=25), waiting=pair.primary.settings.waiting
    )
    async with MessagingFactory.from_connection_string(primary.connection_string, settings) as factory:
        await factory.pair_namespace(pair.options(failover_interval=DIRECTLY))
        inject(primary, "refuse-sends", queue, error=error)
        client = factory.create_queue_client(queue)
        for _ in range(3):
            with pytest.raises(expected):
                await client.send(BrokeredMessage("x"))
        heal(primary)
        await client.send(BrokeredMessage("y"))
    assert set(pair.backlog().values()) == {0}
    assert pair.events == []


@mission("M23")
async def test_a_backlog_queue_that_fails_is_taken_out_for_the_whole_factory(
    pair: PairUnderTest, queue: str, primary: Broker, secondary: Broker
) -> None:
    await pair.pair(failover_interval=DIRECTLY, choose=lambda count: 0)
    inject(primary, "refuse-sends", queue, error="internal-error")
    inject(secondary, "refuse-sends", f"{pair.namespace}/x-servicebus-transfer/0", error="quota-exceeded")
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("first"))
    heal(secondary)
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("second"))
    assert pair.backlog() == {0: 0, 1: 2, 2: 0}
    (removed,) = pair.told("backlog-queue-removed")
    assert removed["queue"] == 0


@mission("M23")
async def test_when_the_secondary_is_away_too_the_sender_is_told(
    pair: PairUnderTest, queue: str, primary: Broker, secondary: Broker
) -> None:
    # One attempt has its ten seconds, as always: only the time for all of them is over soon.
    async with impatient_factory(primary, timedelta(minutes=1), Hurry()) as quick:
        await quick.pair_namespace(pair.options(failover_interval=DIRECTLY))
        inject(primary, "refuse-sends", queue, error="internal-error")
        inject(secondary, "refuse-sends", error="internal-error")
        client = quick.create_queue_client(queue)
        with pytest.raises(MessagingCommunicationError, match="neither the primary nor any backlog queue"):
            await client.send(BrokeredMessage("nowhere"))
        heal(secondary)
        await client.send(BrokeredMessage("somewhere"))
    assert sum(pair.backlog().values()) == 1


@mission("M24", "M26")
async def test_sessions_times_and_properties_survive_the_detour(
    pair: PairUnderTest, name: str, primary: Broker
) -> None:
    primary.create_queue(name, requires_session=True)
    await pair.pair(failover_interval=DIRECTLY, enable_syphon=True)
    inject(primary, "refuse-sends", name, error="internal-error")
    client = pair.primary.create_queue_client(name)
    await client.send(
        BrokeredMessage(
            b"\x00body",
            session_id="basket",
            time_to_live=timedelta(hours=1),
            label="order",
            correlation_id="c-1",
            properties={"n": 5, "text": "ü"},
        )
    )
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    assert await client.schedule(BrokeredMessage("later", session_id="basket"), later) == DIVERTED
    heal(primary)
    session = await client.accept_session("basket", PATIENCE_S)
    message = await session.receive(PATIENCE_S)
    assert message is not None
    assert (message.body, message.session_id, message.label) == (b"\x00body", "basket", "order")
    assert (message.correlation_id, message.time_to_live) == ("c-1", timedelta(hours=1))
    assert message.properties == {"n": 5, "text": "ü"}
    await message.complete()
    scheduled = await session.receive(PATIENCE_S)
    assert scheduled is not None
    assert scheduled.body == b"later"
    assert scheduled.enqueued_time_utc is not None
    assert scheduled.enqueued_time_utc >= later
    await scheduled.complete()
    await session.close()


def small_backlog(pair: PairUnderTest) -> str:
    """Make a backlog queue that takes messages of 256 KB, as those of an older pair do; return its path."""
    path = f"{pair.namespace}/x-servicebus-transfer/0"
    pair.secondary_broker.create_queue(path, max_message_size_in_kilobytes=256)
    return path


def message_of(size_bytes: int) -> BrokeredMessage:
    message = BrokeredMessage(b"", message_id=f"of {size_bytes}")
    message.body = bytes(size_bytes - message.size - 3)
    assert message.size == size_bytes
    return message


@mission("M24")
async def test_a_message_of_the_largest_size_takes_the_detour_and_arrives(
    pair: PairUnderTest, name: str, primary: Broker
) -> None:
    primary.create_queue(name, max_message_size_in_kilobytes=2_048)
    await pair.pair(failover_interval=DIRECTLY, enable_syphon=True)
    inject(primary, "refuse-sends", name, error="internal-error")
    client = pair.primary.create_queue_client(name)
    sizes = [262_144, 1_000_000, 2_097_152]
    await client.send(message_of(sizes[0]))
    await client.send_batch([message_of(size) for size in sizes[1:]])
    assert sum(pair.backlog().values()) == len(sizes)
    heal(primary)
    arrived = {str(message.message_id) for message in await received(client, 3)}
    assert arrived == {f"of {size}" for size in sizes}


@mission("M24")
async def test_a_message_of_the_largest_size_may_be_one_of_a_batch(
    pair: PairUnderTest, queue: str, primary: Broker
) -> None:
    await pair.pair()
    batch = [BrokeredMessage("small"), message_of(262_144), BrokeredMessage("small")]
    await pair.primary.create_queue_client(queue).send_batch(batch)
    assert primary.queue(queue)["message_count"] == 3


@mission("M24")
async def test_a_message_too_large_for_an_existing_backlog_queue_is_an_error_that_names_it(
    pair: PairUnderTest, queue: str, primary: Broker
) -> None:
    backlog = small_backlog(pair)
    await pair.pair(failover_interval=DIRECTLY, backlog_queue_count=1)
    client = pair.primary.create_queue_client(queue)
    message = message_of(262_144)
    await client.send(message)
    inject(primary, "refuse-sends", queue, error="internal-error")
    with pytest.raises(MessageSizeExceededError, match="too large for the detour") as raised:
        await client.send(message)
    assert f"'{queue}' cannot be sent to" in str(raised.value)
    assert f"'{backlog}' takes at most 262,144" in str(raised.value)
    assert set(pair.backlog().values()) == {0}
    await client.send(message_of(262_144 - 200))
    assert sum(pair.backlog().values()) == 1


@mission("M24")
async def test_a_batch_with_one_message_too_large_for_the_detour_is_not_sent_in_part(
    pair: PairUnderTest, queue: str, primary: Broker
) -> None:
    small_backlog(pair)
    await pair.pair(failover_interval=DIRECTLY, backlog_queue_count=1)
    inject(primary, "refuse-sends", queue, error="internal-error")
    client = pair.primary.create_queue_client(queue)
    # The first four fill a transfer and begin another; the last one fits the primary, and not the detour.
    batch = [message_of(100_000 + number) for number in range(4)] + [message_of(262_144)]
    with pytest.raises(MessageSizeExceededError, match="too large for the detour"):
        await client.send_batch(batch)
    assert set(pair.backlog().values()) == {0}
    await client.send_batch(batch[:4])
    assert sum(pair.backlog().values()) == 4


@mission("M25")
async def test_pings_are_never_received(pair: PairUnderTest, queue: str, primary: Broker) -> None:
    await pair.pair(failover_interval=DIRECTLY, ping_primary_interval=timedelta(seconds=5))
    inject(primary, "refuse-sends", queue, error="internal-error")
    client = pair.primary.create_queue_client(queue)
    await client.send(BrokeredMessage("detour"))
    heal(primary)
    await until(lambda: bool(pair.told("restored", queue)), "the ping is taken")
    assert primary.queue(queue)["message_count"] == 0
    await client.send(BrokeredMessage("direct"))
    (message,) = await received(client, 1)
    assert message.body == b"direct"
    pings = len(pair.told("ping"))
    await asyncio.sleep(0.3)
    assert len(pair.told("ping")) == pings, "they stop when the entity is back"


@mission("M27")
async def test_the_primary_takes_new_messages_before_the_backlog_is_drained(
    pair: PairUnderTest, name: str, primary: Broker
) -> None:
    primary.create_queue(name, requires_session=True)
    await pair.pair(failover_interval=DIRECTLY, ping_primary_interval=timedelta(seconds=1))
    inject(primary, "refuse-sends", name, error="internal-error")
    client = pair.primary.create_queue_client(name)
    await client.send(BrokeredMessage("sent first", session_id="s"))
    heal(primary)
    await until(lambda: bool(pair.told("restored", name)), "the ping is taken")
    await client.send(BrokeredMessage("sent second", session_id="s"))
    other = PairUnderTest(primary, pair.secondary_broker)
    other.namespace = pair.namespace
    await other.pair(enable_syphon=True)
    session = await client.accept_session("s", PATIENCE_S)
    bodies: list[bytes] = []
    while len(bodies) < 2:
        message = await session.receive(PATIENCE_S)
        assert message is not None
        bodies.append(message.body)
        await message.complete()
    await session.close()
    await other.close()
    assert bodies == [b"sent second", b"sent first"], "also inside a session: it only groups"


@mission("M23", "M25")
async def test_what_happens_is_written_to_the_operations_of_the_secondary(
    pair: PairUnderTest, queue: str, primary: Broker
) -> None:
    await pair.pair(
        failover_interval=DIRECTLY, ping_primary_interval=timedelta(seconds=5), enable_syphon=True, choose=lambda _: 0
    )
    inject(primary, "refuse-sends", queue, error="internal-error")
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("detour"))
    await until(lambda: bool(pair.told("ping")), "a ping is refused")
    heal(primary)
    await until(lambda: bool(pair.told("syphoned")), "it is syphoned")
    await pair.primary.close()
    hub = EventHubClient.from_connection_string(pair.secondary_broker.connection_string, "$operations")
    consumer = hub.create_consumer("$Default", "1", EventPosition.earliest())
    written: list[dict[str, object]] = []
    while {event["event"] for event in written} < {
        "failing",
        "failed-over",
        "ping",
        "restored",
        "diverted",
        "syphoned",
    }:
        events = await consumer.receive_batch(100, PATIENCE_S)
        assert events, f"only {written}"
        written += [event for event in (json.loads(one.body) for one in events) if event.get("entity") == queue]
    await hub.close()
    for event in written:
        assert event["kind"] == "pairing"
        assert datetime.fromisoformat(str(event["time"])).tzinfo is not None
        assert (event["primary"], event["secondary"]) == (pair.primary.address, pair.secondary.address)
        assert event["client"]
    # The client and the syphon name the backlog alike, whatever the addresses that they were given.
    assert {event["primary_namespace"] for event in written} == {pair.namespace}
    assert [one["count"] for one in written if one["event"] == "diverted"] == [1]


async def test_a_listener_that_fails_harms_no_message(pair: PairUnderTest, queue: str, primary: Broker) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))

    def listener(event: object) -> None:
        raise ValueError("a mistake")

    await pair.pair(failover_interval=DIRECTLY, listener=listener)
    inject(primary, "refuse-sends", queue, error="internal-error")
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("detour"))
    assert sum(pair.backlog().values()) == 1
    assert "listener" in str(complaints[0])


async def test_a_transaction_stays_in_its_namespace(pair: PairUnderTest, queue: str, primary: Broker) -> None:
    await pair.pair(failover_interval=DIRECTLY)
    inject(primary, "refuse-sends", queue, error="internal-error")
    client = pair.primary.create_queue_client(queue)
    await client.send(BrokeredMessage("detour"))
    heal(primary)
    async with pair.primary.transaction() as transaction:
        await client.send(BrokeredMessage("straight"), transaction=transaction)
    assert primary.queue(queue)["active_message_count"] == 1


@mission("M25")
async def test_a_topic_fails_over_and_returns_as_a_queue_does(pair: PairUnderTest, name: str, primary: Broker) -> None:
    primary.create_topic(name)
    primary.create_subscription(name, "all")
    await pair.pair(failover_interval=DIRECTLY, enable_syphon=True)
    inject(primary, "refuse-sends", name, error="internal-error")
    await pair.primary.create_topic_client(name).send(BrokeredMessage("news", message_id="n"))
    heal(primary)
    message = await pair.primary.create_subscription_client(name, "all").receive(PATIENCE_S)
    assert message is not None
    assert (message.body, message.message_id) == (b"news", "n")
    await message.complete()


@mission("M22")
async def test_the_state_of_each_entity_can_be_asked_for(pair: PairUnderTest, queue: str, primary: Broker) -> None:
    options = pair.options(failover_interval=DIRECTLY)
    await pair.primary.pair_namespace(options)
    inject(primary, "refuse-sends", queue, error="internal-error")
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("detour"))
    paired = options.paired_namespace
    assert paired is not None
    assert paired.states == {queue: FailoverState.FAILED_OVER}
    assert paired.usable_backlog_queues == (0, 1, 2)
