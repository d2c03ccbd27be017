"""Failing on purpose, as those who send to and read from an event hub meet it."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Iterator

import pytest

from tandem.amqp import ACCEPTED, Message
from tandem.amqp.message import encode_message
from tandem.auth import make_token
from tandem.connection_string import ConnectionString
from tandem.driver import Client
from tandem.driver.client import Receiver
from tandem.errors import ArgumentError, RemoteError
from tandem.server.faults import FaultKind, FaultSettings
from tandem.testing import Bus
from tests.markers import mission
from tests.patience import PATIENCE_S, until
from tests.testing.conftest import connect

READER = "hub/ConsumerGroups/$Default/Partitions/0"
SENDER = "hub/Partitions/0"

# Seconds. How long to listen for what must not come.
SILENCE_S = 0.15


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with Bus() as bus:
        given = ConnectionString.parse(bus.connection_string)
        connection = http.client.HTTPConnection(given.host, given.port, timeout=PATIENCE_S)
        token = make_token(f"http://{given.host}:{given.port}/", given.rule_name, given.key, 4_000_000_000)
        connection.request("PUT", "/$api/v1/hubs/hub", headers={"Authorization": token})
        assert connection.getresponse().status == 201
        connection.close()
        yield bus


@pytest.fixture
async def client(bus: Bus) -> AsyncIterator[Client]:
    async with await connect(bus) as client:
        yield client
    bus.restore()


async def send(client: Client, *bodies: bytes) -> None:
    sender = await client.sender(SENDER)
    for body in bodies:
        assert await sender.send(encode_message(data=body)) is ACCEPTED
    await sender.close()


async def read_up_to(client: Client, last: bytes) -> list[bytes | None]:
    """What a new reader gets, from the first event to the one with this body."""
    receiver = await client.receiver(READER)
    bodies: list[bytes | None] = []
    while not bodies or bodies[-1] != last:
        bodies.append(Message((await asyncio.wait_for(receiver.receive(), PATIENCE_S)).payload).data)
    await receiver.close()
    return bodies


@mission("M12")
async def test_readers_of_a_hub_are_sent_away_while_receives_are_refused(bus: Bus, client: Client) -> None:
    await send(client, b"a")
    receiver = await client.receiver(READER)
    await receiver.receive()
    with (
        bus.inject(FaultSettings(FaultKind.REFUSE_RECEIVES, "hub")),
        pytest.raises(RemoteError, match="internal-error"),
    ):
        await asyncio.wait_for(drain(receiver), PATIENCE_S)
    assert b"a" in await read_up_to(client, b"a")


@mission("M12")
async def test_a_reader_gets_no_events_during_a_timeout_and_all_of_them_afterwards(bus: Bus, client: Client) -> None:
    await send(client, b"first")
    await read_up_to(client, b"first")
    receiver = await client.receiver(READER)
    with bus.inject(FaultSettings(FaultKind.TIMEOUT, "hub")) as outage:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(drain(receiver), SILENCE_S)
        sender = await client.sender(SENDER)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sender.send(encode_message(data=b"lost")), SILENCE_S)
        await until(lambda: outage.fault.hit_count >= 2, "reader and sender have met it")
    await send(client, b"last")
    assert b"lost" not in await read_up_to(client, b"last")


@mission("M12")
async def test_events_may_be_kept_although_the_answer_is_lost(bus: Bus, client: Client) -> None:
    sender = await client.sender(SENDER)
    with bus.inject(FaultSettings(FaultKind.TIMEOUT, "hub", is_performed=True)) as outage:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sender.send(encode_message(data=b"kept")), SILENCE_S)
        await until(lambda: outage.fault.hit_count >= 1, "the broker has it")
    await send(client, b"behind it")
    assert (await read_up_to(client, b"behind it"))[-2:] == [b"kept", b"behind it"]


@mission("M12")
async def test_events_stall_on_their_way_in_and_out_and_keep_their_order(bus: Bus, client: Client) -> None:
    sender = await client.sender(SENDER)
    outage = bus.inject(FaultSettings(FaultKind.STALL, "hub", delay_ms=60_000))
    sending = [asyncio.ensure_future(sender.send(encode_message(data=b"s%d" % number))) for number in range(3)]
    await until(lambda: outage.fault.hit_count == 3, "the broker has them")
    assert not any(one.done() for one in sending)
    await asyncio.to_thread(bus.clock.advance, 60)
    assert await asyncio.wait_for(asyncio.gather(*sending), PATIENCE_S) == [ACCEPTED] * 3
    reading = asyncio.ensure_future(read_up_to(client, b"s2"))
    await until(lambda: outage.fault.hit_count > 3, "events are held up")
    assert not reading.done()
    outage.restore()
    assert (await asyncio.wait_for(reading, PATIENCE_S))[-3:] == [b"s0", b"s1", b"s2"]


@pytest.mark.parametrize("kind", [FaultKind.RESTART_ENTITY, FaultKind.DELAY_VISIBILITY])
def test_what_a_hub_does_not_have_cannot_be_broken(bus: Bus, kind: FaultKind) -> None:
    delay_ms = 5 if kind is FaultKind.DELAY_VISIBILITY else None
    with pytest.raises(ArgumentError, match=f"an event hub; {kind.value} is for queues"):
        bus.inject(FaultSettings(kind, "hub", delay_ms=delay_ms))


async def drain(receiver: Receiver) -> None:
    """Until nothing comes any more, which is never said."""
    while True:
        await receiver.receive()


def ways(bus: Bus) -> set[str]:
    """What the links of all clients lead to."""
    peers = list(bus._running.directory.default.services.peers)
    return {type(link.context).__name__ for peer in peers for link in list(peer._nodes)}


async def test_faults_stand_between_links_and_their_nodes_from_the_first_fault_to_the_last(
    bus: Bus, client: Client
) -> None:
    bus.create_queue("q")
    for address in ("q", SENDER):
        await client.sender(address)
    for address in ("q", READER):
        await client.receiver(address)
    direct = {"Ingress", "Egress", "EventIngress", "EventEgress"}
    faulty = {"FaultyIngress", "FaultyEgress", "FaultyEventEgress"}
    assert ways(bus) == direct
    with bus.inject(FaultSettings(FaultKind.REFUSE_SENDS, "q")) as first:
        assert ways(bus) == faulty
        with bus.inject(FaultSettings(FaultKind.TIMEOUT, "hub")):
            first.restore()
            await client.receiver("q")
            assert ways(bus) == faulty
    assert ways(bus) == direct
