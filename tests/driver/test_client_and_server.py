"""The asyncio driver on real loopback sockets: our client against the in-memory relay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tandem.amqp import (
    ACCEPTED,
    RELEASED,
    AmqpError,
    AuthenticationRequested,
    Connection,
    ConnectionClosed,
    ConnectionOpened,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Event,
    IncomingDelivery,
    LinkAttached,
    LinkDetached,
    Modified,
    ReceiverLink,
    Rejected,
    Role,
    SessionBegun,
    Settings,
    Source,
    Target,
    TransactionalState,
)
from tandem.amqp.connection import AMQP_HEADER
from tandem.amqp.message import encode_message
from tandem.amqp.sasl import SASL_HEADER
from tandem.driver import Client, Endpoint, Receiver, Server
from tandem.driver.loop import new_event_loop, run
from tandem.errors import ProtocolError, RemoteError, UnauthorizedAccess
from tandem.testing import Relay
from tests.markers import spec
from tests.sockets import hold_little


@pytest_asyncio.fixture
async def relay() -> AsyncIterator[Relay]:
    relay = Relay()
    await relay.start()
    yield relay
    await relay.close()


@pytest_asyncio.fixture
async def client(relay: Relay) -> AsyncIterator[Client]:
    async with await connect(relay) as client:
        yield client


async def connect(relay: Relay, **settings: Any) -> Client:
    return await Client.connect("127.0.0.1", relay.server.port, Settings("client", **settings))


async def take(receiver: Receiver, count: int) -> list[bytes]:
    taken: list[bytes] = []
    for _ in range(count):
        delivery = await receiver.receive()
        taken.append(delivery.payload)
        receiver.settle(delivery)
    return taken


async def test_messages_arrive_whole_and_in_order(client: Client) -> None:
    sender = await client.sender("queue")
    sent = [encode_message(data=b"%d" % number * 100) for number in range(500)]
    outcomes = await asyncio.gather(*(sender.send(payload) for payload in sent))
    assert set(outcomes) == {ACCEPTED}
    receiver = await client.receiver("queue", credit=10)
    assert await take(receiver, len(sent)) == sent


async def test_a_message_larger_than_a_frame_arrives_whole(relay: Relay) -> None:
    async with await connect(relay, max_frame_size=512) as client:
        sender = await client.sender("queue")
        receiver = await client.receiver("queue")
        payload = encode_message(data=bytes(range(256)) * 4_000)
        assert await sender.send(payload) == ACCEPTED
        assert await take(receiver, 1) == [payload]


async def test_a_sender_without_credit_waits_for_it(relay: Relay, client: Client) -> None:
    sender = await client.sender("queue")
    sent = [encode_message(data=b"%d" % number) for number in range(5_000)]
    await asyncio.gather(*(sender.send(payload) for payload in sent))
    assert [payload for payload, _ in relay.queue("queue").messages] == sent


@pytest.mark.parametrize(
    "state, is_back",
    [(ACCEPTED, False), (Rejected(AmqpError("x:bad")), False), (RELEASED, True), (Modified(True), True)],
)
@pytest.mark.parametrize("is_second", [False, True])
@spec("amqp:2.6.12")
async def test_an_outcome_decides_what_becomes_of_a_message(
    relay: Relay, client: Client, state: Any, is_back: bool, is_second: bool
) -> None:
    sender = await client.sender("queue")
    receiver = await client.receiver("queue", credit=1, is_second=is_second)
    payload = encode_message(data=b"body")
    await sender.send(payload)
    delivery = await receiver.receive()
    receiver.settle(delivery, state, is_settled=not is_second)
    await receiver.close()
    queue = relay.queue("queue")
    assert [message for message, _ in queue.messages] == ([payload] if is_back else [])
    assert len(queue.rejected) == (1 if isinstance(state, Rejected) else 0)


@spec("amqp:2.6.7")
async def test_a_drain_ends_when_the_queue_is_empty(client: Client) -> None:
    sender = await client.sender("queue")
    for number in range(3):
        await sender.send(encode_message(data=b"%d" % number))
    receiver = await client.receiver("queue", credit=0)
    await receiver.drain(10)
    assert receiver.waiting_count == 3
    assert receiver.link.credit == 0


async def test_presettled_deliveries_need_no_outcome(relay: Relay, client: Client) -> None:
    sender = await client.sender("queue")
    for _ in range(3):
        await sender.send(encode_message(data=b"x"))
    session = sender.link.session
    link = session.attach_receiver("settled", Source("queue"), snd_settle_mode=1)
    receiver = Receiver(client.endpoint, link, 10)
    await client._attach(link, receiver)
    receiver.grant(10)
    assert [(await receiver.receive()).is_settled for _ in range(3)] == [True, True, True]
    assert not relay.queue("queue").messages


@spec("amqp:4.2", "amqp:4.3")
@pytest.mark.parametrize("fail, seen", [(False, 2), (True, 0)])
async def test_a_transaction_takes_effect_at_its_discharge(client: Client, fail: bool, seen: int) -> None:
    coordinator = await client.sender(Coordinator())
    sender = await client.sender("queue")
    declared = await coordinator.send(Declare().encode())
    assert isinstance(declared, Declared)
    inside = TransactionalState(declared.txn_id)
    for _ in range(2):
        assert await sender.send(encode_message(data=b"x"), state=inside) == TransactionalState(
            declared.txn_id, ACCEPTED
        )
    receiver = await client.receiver("queue", credit=0)
    await receiver.drain(10)
    assert receiver.waiting_count == 0
    assert await coordinator.send(Discharge(declared.txn_id, fail).encode()) == ACCEPTED
    await receiver.drain(10)
    assert receiver.waiting_count == seen


async def test_a_message_settled_in_a_transaction_that_rolls_back_is_there_again(client: Client) -> None:
    coordinator = await client.sender(Coordinator())
    sender = await client.sender("queue")
    payload = encode_message(data=b"x")
    await sender.send(payload)
    declared = await coordinator.send(Declare().encode())
    assert isinstance(declared, Declared)
    receiver = await client.receiver("queue", credit=1)
    receiver.settle(await receiver.receive(), TransactionalState(declared.txn_id, ACCEPTED))
    await coordinator.send(Discharge(declared.txn_id, True).encode())
    assert await take(receiver, 1) == [payload]


async def test_an_unknown_transaction_is_rejected(client: Client) -> None:
    coordinator = await client.sender(Coordinator())
    outcome = await coordinator.send(Discharge(b"never", False).encode())
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "amqp:transaction:unknown-id"
    sender = await client.sender("queue")
    outcome = await sender.send(encode_message(data=b"x"), state=TransactionalState(b"never"))
    assert isinstance(outcome, Rejected)


async def test_what_is_no_transaction_request_is_rejected(client: Client) -> None:
    coordinator = await client.sender(Coordinator())
    for payload in (encode_message(value="hello"), Declare("global").encode()):
        outcome = await coordinator.send(payload)
        assert isinstance(outcome, Rejected)
        assert outcome.error is not None
        assert outcome.error.condition == "amqp:decode-error"


@spec("amqp:2.6.3")
async def test_a_refused_link_says_why(client: Client) -> None:
    with pytest.raises(RemoteError, match="no target address") as refused:
        await client.sender(Target(None))
    assert refused.value.condition == "amqp:not-found"
    with pytest.raises(RemoteError, match="no source address"):
        await client.receiver(Source(None))
    assert await (await client.sender("queue")).send(encode_message(data=b"x")) == ACCEPTED


async def test_wrong_credentials_are_refused_and_right_ones_are_not() -> None:
    relay = Relay(password="right")
    await relay.start()
    with pytest.raises(UnauthorizedAccess, match="refused our credentials"):
        await connect(relay, user="rule", password="wrong")
    async with await connect(relay, user="rule", password="right") as client:
        assert await (await client.sender("queue")).send(encode_message(data=b"x")) == ACCEPTED
    await relay.close()


async def test_a_server_that_shuts_down_tells_its_clients(relay: Relay, client: Client) -> None:
    sender = await client.sender("queue")
    receiver = await client.receiver("queue")
    await relay.server.close()
    with pytest.raises(RemoteError, match="amqp:connection:forced: the server is shutting down"):
        await receiver.receive()
    with pytest.raises(RemoteError, match="shutting down"):
        await receiver.receive()
    with pytest.raises(RemoteError, match="shutting down"):
        await sender.send(encode_message(data=b"x"))
    await relay.start()


async def test_a_lost_connection_fails_what_waits_on_it(relay: Relay, client: Client) -> None:
    receiver = await client.receiver("queue", credit=0)
    sender = await client.sender("queue")
    draining = asyncio.create_task(receiver.drain(1))
    waiting = asyncio.create_task(sender.send(encode_message(data=b"x")))
    await asyncio.sleep(0)
    client.endpoint.abort()
    with pytest.raises(RemoteError, match="the connection was lost"):
        await waiting
    with pytest.raises(RemoteError, match="the connection was lost"):
        await draining


async def test_garbage_is_answered_and_harms_nobody_else(relay: Relay, client: Client) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.server.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    assert await reader.read() == SASL_HEADER
    writer.close()
    assert await (await client.sender("queue")).send(encode_message(data=b"x")) == ACCEPTED


@spec("amqp:2.4.5")
async def test_a_silent_peer_is_dropped_and_a_heartbeating_one_is_not() -> None:
    relay = Relay(Settings("relay", idle_timeout_ms=2_500))
    await relay.start()
    async with await connect(relay, idle_timeout_ms=0) as client:
        _, writer = silent = await asyncio.open_connection("127.0.0.1", relay.server.port)
        writer.write(AMQP_HEADER)
        # Five seconds is twice what the relay advertises: the silent one is gone, the client wrote empty frames.
        said = await silent[0].read()
        assert said == AMQP_HEADER or b"amqp:resource-limit-exceeded" in said
        assert await (await client.sender("queue")).send(encode_message(data=b"x")) == ACCEPTED
        writer.close()
    await relay.close()


async def test_a_consumer_that_stops_reading_is_not_fed_without_end(relay: Relay, client: Client) -> None:
    sender = await client.sender("queue")
    payload = encode_message(data=b"x" * 1_000_000)
    async with await connect(relay) as slow:
        receiver = await slow.receiver("queue", credit=60)
        assert slow.endpoint._transport is not None
        hold_little(slow.endpoint._transport)
        slow.endpoint._transport.pause_reading()
        await asyncio.gather(*(sender.send(payload) for _ in range(60)))
        congested = [endpoint for endpoint in relay.server.endpoints if endpoint.is_congested]
        assert len(congested) == 1
        assert relay.queue("queue").messages, "the relay must keep what the slow consumer does not read"
        slow.endpoint._transport.resume_reading()
        assert await take(receiver, 60) == [payload] * 60


def test_run_uses_the_fastest_loop_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    async def loop_name() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(loop_name()).startswith("uvloop")
    monkeypatch.setitem(__import__("sys").modules, "uvloop", None)
    loop = new_event_loop()
    assert type(loop).__module__.startswith("asyncio")
    loop.close()


async def test_the_core_refuses_a_wrong_frame_and_the_client_learns_of_it(relay: Relay, client: Client) -> None:
    (endpoint,) = relay.server.endpoints
    endpoint.connection.output.append(b"\xff\xff\xff\xff\x02\x00\x00\x00")
    endpoint.flush()
    with pytest.raises(ProtocolError, match="a frame of 4294967295 bytes came"):
        await client.sender("queue")


async def test_links_attached_and_detached_in_one_write_harm_nobody(relay: Relay) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.server.port)
    core = Connection(Role.CLIENT, Settings("hasty"))

    async def until(kind: type[Event]) -> None:
        events: list[Event] = []
        while not any(isinstance(event, kind) for event in events):
            writer.write(core.data_to_send())
            events = core.receive(await reader.read(65_536))

    core.open(sasl=False)
    await until(ConnectionOpened)
    session = core.begin()
    await until(SessionBegun)
    for link in (
        session.attach_sender("one", Target("queue")),
        session.attach_receiver("two", Source("queue")),
        session.attach_sender("three", Target(None)),
        session.attach_sender("four", Coordinator()),
    ):
        link.detach()
    await until(LinkDetached)
    core.close()
    await until(ConnectionClosed)
    writer.close()
    await writer.wait_closed()
    assert not relay.queue("queue").consumers


class Undecided:
    """An application that accepts links and decides nothing until it is told to."""

    def __init__(self) -> None:
        self.deliveries: list[IncomingDelivery] = []
        self.endpoint: Endpoint | None = None

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        self.endpoint = endpoint
        for event in events:
            if isinstance(event, AuthenticationRequested):
                endpoint.connection.accept_authentication()
            elif isinstance(event, LinkAttached):
                assert isinstance(event.link, ReceiverLink)
                event.link.accept()
                event.link.grant(1_000)
            elif isinstance(event, IncomingDelivery):
                self.deliveries.append(event)

    def on_writable(self, endpoint: Endpoint) -> None: ...

    def on_lost(self, endpoint: Endpoint) -> None: ...

    def decide(self) -> None:
        assert self.endpoint is not None
        for delivery in self.deliveries:
            delivery.link.settle(delivery)
        self.deliveries.clear()
        self.endpoint.flush()


async def test_a_peer_is_not_read_from_while_the_application_cannot_keep_up() -> None:
    limit, size, count = 1_000_000, 100_000, 200
    application = Undecided()
    server = Server(Settings("server", max_undecided_bytes=limit), lambda: application)
    await server.start()
    async with await Client.connect("127.0.0.1", server.port, Settings("client")) as client:
        sender = await client.sender("queue")
        sending = asyncio.gather(*(sender.send(encode_message(data=b"x" * size)) for _ in range(count)))
        held = decided = 0
        while not sending.done():
            await asyncio.sleep(0.005)
            waiting = len(application.deliveries)
            held = max(held, waiting * size)
            (endpoint,) = server.endpoints
            if endpoint.connection.is_saturated or decided + waiting == count:
                decided += waiting
                application.decide()
        assert await sending == [ACCEPTED] * count
    await server.close()
    # One read may bring more than is left of the limit, and no more than that comes.
    assert limit < held < limit + 600_000
