"""Failing on purpose, as a client of ours meets it: each kind, its end by the clock, and how often it was met."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from tandem.amqp import (
    ACCEPTED,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Message,
    Rejected,
    Settings,
    TransactionalState,
)
from tandem.amqp.message import encode_message
from tandem.amqp.terminus import Source
from tandem.auth import Right
from tandem.connection_string import ConnectionString
from tandem.driver import Client
from tandem.errors import ArgumentError, ProtocolError, QuotaExceeded, RemoteError, UsageError
from tandem.limits import MAX_FAULT_DELAY_MS
from tandem.server.faults import Fault, FaultKind, FaultSettings
from tandem.testing import Bus
from tests.markers import mission
from tests.patience import PATIENCE_S, until
from tests.server.test_early_credit import ANY_SESSION, EagerReceiver

MESSAGE = encode_message(data=b"x")

# Seconds. How long to listen for what must not come.
SILENCE_S = 0.15


@pytest.fixture(scope="module")
def module_bus() -> Iterator[Bus]:
    with Bus() as bus:
        yield bus


@pytest.fixture
def bus(module_bus: Bus) -> Iterator[Bus]:
    kept = module_bus.take_stock()
    module_bus.create_queue("q", lock_duration_ms=30_000)
    yield module_bus
    module_bus.clean(kept)


async def connect(bus: Bus) -> Client:
    address = ConnectionString.parse(bus.connection_string)
    assert address.port is not None
    settings = Settings("client", user=address.rule_name, password=address.key)
    return await Client.connect(address.host, address.port, settings)


@pytest.fixture
async def client(bus: Bus) -> AsyncIterator[Client]:
    async with await connect(bus) as client:
        yield client


def condition(state: DeliveryState | None) -> str:
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error.condition


def met_once(fault: Fault) -> bool:
    return fault.hit_count == 1


def body(payload: bytes) -> bytes | None:
    return Message(payload).data


def ask(bus: Bus, method: str, path: str, timeout_s: float = PATIENCE_S) -> int:
    """The status of one request that needs no token."""
    address = ConnectionString.parse(bus.connection_string)
    connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    finally:
        connection.close()


# --- refusing -------------------------------------------------------------------------------------------------------


@mission("M12")
async def test_a_fault_ends_by_the_clock_of_the_broker(bus: Bus, client: Client) -> None:
    sender = await client.sender("q")
    outage = bus.inject(FaultSettings(FaultKind.REFUSE_SENDS, "q", duration_ms=30_000))
    assert condition(await sender.send(MESSAGE)) == "amqp:internal-error"
    bus.clock.advance(seconds=29)
    assert condition(await sender.send(MESSAGE)) == "amqp:internal-error"
    bus.clock.advance(seconds=1)
    assert await sender.send(MESSAGE) is ACCEPTED
    assert outage.fault.hit_count == 2


async def test_some_of_the_operations_fail_and_the_same_ones_for_the_same_seed(bus: Bus, client: Client) -> None:
    sender = await client.sender("q")
    courses = []
    for _ in range(2):
        with bus.inject(FaultSettings(FaultKind.REFUSE_SENDS, "q", probability=0.5, seed=3)):
            courses.append([await sender.send(MESSAGE) is ACCEPTED for _ in range(20)])
    assert courses[0] == courses[1]
    assert set(courses[0]) == {True, False}


@mission("M13")
async def test_requests_above_a_rate_are_refused_with_server_busy(bus: Bus, client: Client) -> None:
    sender = await client.sender("q")
    bus.inject(FaultSettings(FaultKind.THROTTLE, "q", rate_per_second=3))
    outcomes = [await sender.send(MESSAGE) for _ in range(20)]
    refused = [outcome for outcome in outcomes if outcome is not ACCEPTED]
    assert outcomes[0] is ACCEPTED
    assert {condition(outcome) for outcome in refused} == {"com.microsoft:server-busy"}
    bus.clock.advance(seconds=1)
    assert await sender.send(MESSAGE) is ACCEPTED


# --- no answer, or a late one ---------------------------------------------------------------------------------------


@mission("M12")
async def test_a_send_that_times_out_is_neither_answered_nor_kept(bus: Bus, client: Client) -> None:
    sender = await client.sender("q")
    with bus.inject(FaultSettings(FaultKind.TIMEOUT, "q")) as outage:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sender.send(MESSAGE), SILENCE_S)
        await until(lambda: outage.fault.hit_count == 1, "the broker has it")
        assert bus.messages("q") == []
    assert await sender.send(MESSAGE) is ACCEPTED
    assert len(bus.messages("q")) == 1


async def test_a_send_may_be_kept_although_its_answer_is_lost(bus: Bus, client: Client) -> None:
    sender = await client.sender("q")
    with bus.inject(FaultSettings(FaultKind.TIMEOUT, "q", is_performed=True)), pytest.raises(TimeoutError):
        await asyncio.wait_for(sender.send(MESSAGE), SILENCE_S)
    await until(lambda: len(bus.messages("q")) == 1, "the broker has it")


async def test_a_send_of_a_transaction_whose_answer_is_lost_stays_in_its_transaction(bus: Bus, client: Client) -> None:
    controller = await client.sender(Coordinator())
    sender = await client.sender("q")
    declared = [await controller.send(Declare().encode()) for _ in range(2)]
    for state, is_rolled_back in zip(declared, (True, False), strict=True):
        assert isinstance(state, Declared)
        with bus.inject(FaultSettings(FaultKind.TIMEOUT, "q", is_performed=True)) as outage:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(sender.send(MESSAGE, state=TransactionalState(state.txn_id)), SILENCE_S)
            await until(partial(met_once, outage.fault), "the broker has it")
            assert bus.messages("q") == []
        assert await controller.send(Discharge(state.txn_id, fail=is_rolled_back).encode()) == ACCEPTED
        assert len(bus.messages("q")) == (0 if is_rolled_back else 1)


@mission("M12")
async def test_a_receiver_gets_nothing_while_receives_time_out_and_everything_afterwards(
    bus: Bus, client: Client
) -> None:
    receiver = await client.receiver("q")
    with bus.inject(FaultSettings(FaultKind.TIMEOUT, "q")):
        bus.send("q", "late")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receiver.receive(), SILENCE_S)
        assert [one.delivery_count for one in bus.messages("q")] == [0]
    assert body((await asyncio.wait_for(receiver.receive(), PATIENCE_S)).payload) == b"late"


async def test_credit_that_came_before_its_session_brings_nothing_while_receives_time_out(
    bus: Bus, client: Client
) -> None:
    bus.create_queue("s", requires_session=True)
    receiver = EagerReceiver(client, Source("s", filter=ANY_SESSION), deletes=False)
    receiver.grant_early(5)
    # Answered after the attach and the credit were read.
    await client.sender("q")
    with bus.inject(FaultSettings(FaultKind.TIMEOUT, "s")) as outage:
        bus.send("s", "late", session_id="a session")
        await until(lambda: receiver.link.is_attached, "the session is accepted")
        await until(partial(met_once, outage.fault), "the credit of the receiver is withheld")
        assert receiver.received == []
    await until(lambda: len(receiver.received) == 1, "the message comes")


async def test_a_stalled_send_is_answered_when_its_time_has_come(bus: Bus, client: Client) -> None:
    sender = await client.sender("q")
    bus.inject(FaultSettings(FaultKind.STALL, "q", delay_ms=60_000))
    sending = asyncio.ensure_future(sender.send(MESSAGE))
    await asyncio.wait([sending], timeout=SILENCE_S)
    assert not sending.done()
    await asyncio.to_thread(bus.clock.advance, 60)
    assert await asyncio.wait_for(sending, PATIENCE_S) is ACCEPTED


async def test_messages_to_a_receiver_stall_and_keep_their_order(bus: Bus, client: Client) -> None:
    receiver = await client.receiver("q")
    outage = bus.inject(FaultSettings(FaultKind.STALL, "q", delay_ms=10_000))
    for number in range(3):
        bus.send("q", str(number))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(receiver.receive(), SILENCE_S)
    outage.restore()
    received = [body((await asyncio.wait_for(receiver.receive(), PATIENCE_S)).payload) for _ in range(3)]
    assert received == [b"0", b"1", b"2"]


@mission("M12")
async def test_a_request_over_http_stays_without_an_answer(bus: Bus) -> None:
    with bus.inject(FaultSettings(FaultKind.DROP_CONNECTIONS)):
        for path in ("/health", "/q"):
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                await asyncio.to_thread(ask, bus, "GET", path)
    assert await asyncio.to_thread(ask, bus, "GET", "/health") == 200


# --- connections ----------------------------------------------------------------------------------------------------


@mission("M12")
async def test_connections_drop_and_none_can_be_made_until_it_is_over(bus: Bus) -> None:
    there = await connect(bus)
    with bus.inject(FaultSettings(FaultKind.DROP_CONNECTIONS)):
        await asyncio.wait_for(there.endpoint.lost, PATIENCE_S)
        with pytest.raises((OSError, RemoteError, ProtocolError, asyncio.IncompleteReadError, UsageError)):
            await asyncio.wait_for(connect(bus), PATIENCE_S)
    async with await connect(bus) as again:
        assert await (await again.sender("q")).send(MESSAGE) is ACCEPTED


async def test_refusing_connections_leaves_those_that_are_there(bus: Bus, client: Client) -> None:
    sender = await client.sender("q")
    with bus.inject(FaultSettings(FaultKind.REFUSE_CONNECTIONS)):
        assert await sender.send(MESSAGE) is ACCEPTED
        with pytest.raises((OSError, RemoteError, ProtocolError, UsageError)):
            await asyncio.wait_for(connect(bus), PATIENCE_S)
    async with await connect(bus):
        pass


# --- visibility -----------------------------------------------------------------------------------------------------


@mission("M14")
async def test_delayed_messages_are_acknowledged_and_appear_later_in_their_order(bus: Bus, client: Client) -> None:
    sender = await client.sender("q")
    bus.inject(FaultSettings(FaultKind.DELAY_VISIBILITY, "q", delay_ms=MAX_FAULT_DELAY_MS))
    for number in range(5):
        assert await sender.send(encode_message(data=b"%d" % number)) is ACCEPTED
    assert bus.receive_all("q") == []
    bus.clock.advance(minutes=14)
    assert bus.receive_all("q") == []
    bus.clock.advance(minutes=1)
    assert [one.body for one in bus.receive_all("q")] == [b"0", b"1", b"2", b"3", b"4"]


@mission("M14")
async def test_clearing_shows_delayed_messages_at_once_and_before_later_ones(bus: Bus, client: Client) -> None:
    sender = await client.sender("q")
    outage = bus.inject(FaultSettings(FaultKind.DELAY_VISIBILITY, "q", delay_ms=MAX_FAULT_DELAY_MS))
    for number in range(300):
        await sender.send(encode_message(data=b"%d" % number))
    outage.restore()
    await sender.send(encode_message(data=b"300"))
    assert [int(one.body) for one in bus.receive_all("q")] == list(range(301))


@mission("M14")
async def test_what_a_sender_scheduled_keeps_its_time_when_the_delay_is_over(bus: Bus, client: Client) -> None:
    later = bus.clock.now().timestamp() + 3_600
    with bus.inject(FaultSettings(FaultKind.DELAY_VISIBILITY, delay_ms=60_000)):
        sender = await client.sender("q")
        await sender.send(MESSAGE)
        bus.send(
            "q", "scheduled", scheduled_enqueue_time_utc=bus.clock.now().fromtimestamp(later, bus.clock.now().tzinfo)
        )
    assert [one.body for one in bus.receive_all("q")] == [b"x"]
    bus.clock.advance(hours=1)
    assert [one.body for one in bus.receive_all("q")] == [b"scheduled"]


@mission("M14")
async def test_what_is_sent_to_a_topic_is_delayed_for_its_subscriptions(bus: Bus, client: Client) -> None:
    bus.create_topic("t")
    bus.create_subscription("t", "a")
    sender = await client.sender("t")
    with bus.inject(FaultSettings(FaultKind.DELAY_VISIBILITY, "t", delay_ms=60_000, duration_ms=30_000)):
        assert await sender.send(MESSAGE) is ACCEPTED
        assert bus.receive_all("t/Subscriptions/a") == []
        bus.clock.advance(seconds=30)
        assert [one.body for one in bus.receive_all("t/Subscriptions/a")] == [b"x"]


@mission("M14")
async def test_one_subscription_is_delayed_and_so_is_one_that_is_created_meanwhile(bus: Bus, client: Client) -> None:
    bus.create_topic("t")
    bus.create_subscription("t", "a")
    bus.create_subscription("t", "b")
    sender = await client.sender("t")
    with bus.inject(FaultSettings(FaultKind.DELAY_VISIBILITY, "t/Subscriptions/a", delay_ms=60_000)) as outage:
        assert await sender.send(MESSAGE) is ACCEPTED
        assert len(bus.receive_all("t/Subscriptions/b")) == 1
        assert bus.receive_all("t/Subscriptions/a") == []
        assert outage.fault.hit_count == 1
    assert len(bus.receive_all("t/Subscriptions/a")) == 1
    with bus.inject(FaultSettings(FaultKind.DELAY_VISIBILITY, "t", delay_ms=60_000)):
        bus.create_subscription("t", "new")
        assert await sender.send(MESSAGE) is ACCEPTED
        assert bus.receive_all("t/Subscriptions/new") == []
        bus.clock.advance(seconds=60)
        assert len(bus.receive_all("t/Subscriptions/new")) == 1


# --- restarting -----------------------------------------------------------------------------------------------------


@mission("M15")
async def test_a_restarted_entity_sends_everybody_away_and_forgets_locks(bus: Bus, client: Client) -> None:
    bus.send("q", "x")
    receiver = await client.receiver("q")
    await receiver.receive()
    sender = await client.sender("q")
    bus.inject(FaultSettings(FaultKind.RESTART_ENTITY, "q"))
    with pytest.raises(RemoteError, match="detach-forced"):
        await receiver.receive()
    with pytest.raises(RemoteError, match="detach-forced"):
        await sender.send(MESSAGE)
    again = await client.receiver("q")
    received = Message((await asyncio.wait_for(again.receive(), PATIENCE_S)).payload)
    # As if it had never been handed out.
    assert (received.data, (received.header and received.header.delivery_count) or 0) == (b"x", 0)


# --- what cannot be -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, text",
    [
        (FaultSettings(FaultKind.STALL), "delay_ms is missing"),
        (
            FaultSettings(FaultKind.STALL, delay_ms=MAX_FAULT_DELAY_MS + 1),
            "delay_ms is 900001; it must be between 1 and 900000",
        ),
        (FaultSettings(FaultKind.REFUSE_SENDS, delay_ms=5), "has no use for it"),
        (
            FaultSettings(FaultKind.THROTTLE, error=QuotaExceeded, rate_per_second=5),
            "error is quota-exceeded; throttle",
        ),
        (FaultSettings(FaultKind.REFUSE_SENDS, rights=Right.LISTEN), "operations must be left out of refuse-sends"),
        (FaultSettings(FaultKind.THROTTLE), "rate_per_second is missing"),
        (FaultSettings(FaultKind.REFUSE_SENDS, probability=1.5), "probability is 1.5"),
        (FaultSettings(FaultKind.DROP_CONNECTIONS, "q"), "for the whole namespace"),
        (FaultSettings(FaultKind.RESTART_ENTITY), "entity is missing"),
        (FaultSettings(FaultKind.STALL, delay_ms=5, is_performed=True), "is for the kind timeout"),
        (FaultSettings(FaultKind.DELAY_VISIBILITY, "q", delay_ms=5, probability=0.5), "change the order"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_the_name_of_what_is_wrong(settings: FaultSettings, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        settings.check()


def test_an_entity_that_is_not_there_cannot_be_broken(bus: Bus) -> None:
    with pytest.raises(UsageError, match="no entity 'missing'"):
        bus.inject(FaultSettings(FaultKind.REFUSE_SENDS, "missing"))
