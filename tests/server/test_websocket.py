"""AMQP inside a WebSocket: a stream of bytes, with back-pressure in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import WSCloseCode, WSMsgType

from tandem.amqp import (
    ACCEPTED,
    AuthenticationRequested,
    Connection,
    ConnectionClosed,
    ConnectionOpened,
    CreditReceived,
    Event,
    IncomingDelivery,
    LinkAttached,
    ReceiverLink,
    Role,
    SessionBegun,
    Settings,
    Target,
)
from tandem.amqp.connection import AMQP_HEADER
from tandem.amqp.message import encode_message
from tandem.amqp.sasl import SASL_HEADER
from tandem.driver import Endpoint
from tandem.errors import RemoteError
from tandem.limits import MAX_OUTGOING_WEBSOCKET_BYTES, MAX_WEBSOCKET_MESSAGE_BYTES
from tandem.server import websocket
from tandem.server.tls import TlsFiles
from tandem.server.websocket import PATH, SUBPROTOCOL, WebSocketTransport
from tests.patience import until
from tests.server.ports import HOST, Port, WebSocketClient, send_and_receive
from tests.sockets import hold_little

OPEN_REQUEST = (
    f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n"
).encode()


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


# --- the handshake ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subprotocol", ["AMQPWSB10", "amqp"])
@pytest.mark.parametrize(
    "path", [PATH, f"{PATH}/", f"{PATH}?iothub-no-client-cert=true&x=%24", f"{PATH}/?x=1", "/%24servicebus/websocket"]
)
async def test_the_subprotocol_is_echoed_and_the_query_ignored(
    port: Port, session: aiohttp.ClientSession, path: str, subprotocol: str
) -> None:
    async with session.ws_connect(port.url(path), protocols=["other", subprotocol]) as connection:
        assert connection.protocol == subprotocol
        await connection.send_bytes(SASL_HEADER)
        assert (await connection.receive_bytes())[:8] == SASL_HEADER


@pytest.mark.parametrize("protocols", [[], ["mqtt"], ["amqpwsb10"], ["AMQP"]])
async def test_a_websocket_for_another_protocol_is_refused(
    port: Port, session: aiohttp.ClientSession, protocols: list[str]
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await session.ws_connect(port.url(PATH), protocols=protocols)
    assert refused.value.status == 400
    assert port.websocket_endpoints == []


async def test_what_is_no_websocket_is_refused(port: Port, session: aiohttp.ClientSession) -> None:
    for headers in ({}, {"Sec-WebSocket-Protocol": SUBPROTOCOL}):
        async with session.get(port.url(PATH), headers=headers) as response:
            assert response.status == 400
    assert port.websocket_endpoints == []


# --- a stream of bytes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_tls", [False, True])
async def test_messages_of_any_size_pass_whole(port: Port, is_tls: bool) -> None:
    async with WebSocketClient(port, is_tls=is_tls) as client:
        for size in (0, 1, MAX_OUTGOING_WEBSOCKET_BYTES, 900_000, 3_000_000):
            await send_and_receive(client, body=b"x" * size)
        (served,) = port.websocket_endpoints
        assert served.is_tls is is_tls
        assert served.peer_name.startswith(f"{HOST}:")


async def test_where_messages_begin_and_end_means_nothing(port: Port, session: aiohttp.ClientSession) -> None:
    async with session.ws_connect(port.url(PATH), protocols=[SUBPROTOCOL]) as connection:
        core = Connection(Role.CLIENT, Settings("splitter"))

        async def until_event(kind: type[Event], *, chunk_size: int) -> None:
            """Say what there is to say, in messages of this size, until the other side brings it about."""
            events: list[Event] = []
            while not any(isinstance(event, kind) for event in events):
                said = core.data_to_send()
                for start in range(0, len(said), chunk_size):
                    await connection.send_bytes(said[start : start + chunk_size])
                events = core.receive(await connection.receive_bytes())

        core.open()
        await until_event(ConnectionOpened, chunk_size=1)
        begun = core.begin()
        await until_event(SessionBegun, chunk_size=3)
        for number in range(10):
            begun.attach_sender(f"link-{number}", Target("queue"))
        await until_event(CreditReceived, chunk_size=1_000_000)
        core.close()
        await until_event(ConnectionClosed, chunk_size=5)


async def test_what_is_written_in_one_turn_of_the_loop_is_one_message(
    port: Port, session: aiohttp.ClientSession
) -> None:
    async with session.ws_connect(port.url(PATH), protocols=[SUBPROTOCOL]) as connection:
        await connection.send_bytes(SASL_HEADER)
        await connection.receive_bytes()
        transport = port.websocket_endpoints[0]._transport
        assert isinstance(transport, WebSocketTransport)
        transport.write(b"one")
        transport.writelines([b"two", bytearray(b"three")])
        transport.write(b"x" * MAX_OUTGOING_WEBSOCKET_BYTES)
        assert transport.get_write_buffer_size() == 11 + MAX_OUTGOING_WEBSOCKET_BYTES
        first = await connection.receive_bytes()
        assert first.startswith(b"onetwothree")
        assert len(first) == MAX_OUTGOING_WEBSOCKET_BYTES
        assert await connection.receive_bytes() == b"x" * 11


async def test_a_ping_is_answered(port: Port, session: aiohttp.ClientSession) -> None:
    async with session.ws_connect(port.url(PATH), protocols=[SUBPROTOCOL], autoping=False) as connection:
        await connection.ping(b"are you there")
        answer = await connection.receive()
        assert (answer.type, answer.data) == (WSMsgType.PONG, b"are you there")


async def test_text_is_refused(port: Port, session: aiohttp.ClientSession) -> None:
    async with session.ws_connect(port.url(PATH), protocols=[SUBPROTOCOL]) as connection:
        await connection.send_str("AMQP")
        assert (await connection.receive()).type is WSMsgType.CLOSE
        assert connection.close_code == WSCloseCode.UNSUPPORTED_DATA
    await port.websocket_endpoints[0].lost


async def test_a_message_that_is_too_large_ends_the_connection(port: Port, session: aiohttp.ClientSession) -> None:
    async with session.ws_connect(port.url(PATH), protocols=[SUBPROTOCOL]) as connection:
        await connection.send_bytes(b"x" * MAX_WEBSOCKET_MESSAGE_BYTES)
        assert (await connection.receive()).type in {WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR}
    await port.websocket_endpoints[0].lost


# --- back-pressure ----------------------------------------------------------------------------------------------


async def test_a_consumer_that_stops_reading_is_not_fed_without_end(port: Port) -> None:
    payload = encode_message(data=b"x" * 1_000_000)
    async with await port.connect() as producer, WebSocketClient(port) as slow:
        sender = await producer.sender("queue")
        receiver = await slow.receiver("queue", credit=60)
        (served,) = port.websocket_endpoints
        assert slow.endpoint._transport is not None
        slow.endpoint._transport.pause_reading()
        await asyncio.gather(*(sender.send(payload) for _ in range(60)))
        assert served.is_congested
        transport = served._transport
        assert transport is not None
        assert transport.get_write_buffer_size() > transport.get_write_buffer_limits()[0]
        assert not transport.is_reading()
        assert port.relay.queue("queue").messages, "what the slow consumer does not read must stay in the queue"
        slow.endpoint._transport.resume_reading()
        for _ in range(60):
            delivery = await receiver.receive()
            assert delivery.payload == payload
            receiver.settle(delivery)
        assert not served.is_congested


class Undecided:
    """An application that takes messages and decides nothing, until it is told to."""

    def __init__(self) -> None:
        self.held: list[IncomingDelivery] = []

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, LinkAttached):
                assert isinstance(event.link, ReceiverLink)
                event.link.accept()
                event.link.grant(1_000)
            elif isinstance(event, IncomingDelivery):
                self.held.append(event)
            elif isinstance(event, AuthenticationRequested):
                endpoint.connection.accept_authentication()

    def on_writable(self, endpoint: Endpoint) -> None:
        pass

    def on_lost(self, endpoint: Endpoint) -> None:
        pass


async def test_messages_that_come_all_at_once_leave_turns_for_others(tls_files: TlsFiles) -> None:
    port = Port(tls_files)
    turn = 0
    taken_in_turn: list[int] = []

    class Noting(Endpoint):
        def data_received(self, data: bytes) -> None:
            taken_in_turn.append(turn)

    port._make_endpoint = lambda: Noting(Role.SERVER, port._settings, port.relay)  # type: ignore[method-assign]
    async with port:
        reader, writer = await port.open()
        writer.write(OPEN_REQUEST)
        await reader.readuntil(b"\r\n\r\n")
        small = b"\x82\x81" + bytes(4) + b"x"
        writer.write(small * 2_000)
        while len(taken_in_turn) < 2_000:
            turn += 1
            await asyncio.sleep(0)
        writer.close()
    most = max(taken_in_turn.count(one) for one in set(taken_in_turn))
    assert most <= websocket.MESSAGES_PER_TURN


async def test_a_producer_that_is_faster_than_the_application_has_to_wait(tls_files: TlsFiles) -> None:
    port = Port(tls_files, settings=Settings("slow", max_undecided_bytes=1_000_000))
    undecided = Undecided()
    port._make_endpoint = lambda: Endpoint(Role.SERVER, port._settings, undecided)  # type: ignore[method-assign]
    payload = encode_message(data=b"x" * 100_000)
    async with port, WebSocketClient(port) as client:
        sender = await client.sender("queue")
        sends = [asyncio.create_task(sender.send(payload)) for _ in range(300)]
        transport = port.websocket_endpoints[0]._transport
        assert transport is not None
        # Reading also pauses for a moment after each turn: only the bound stops it for good.
        await until(lambda: len(undecided.held) >= 10 and not transport.is_reading())
        await asyncio.sleep(0.2)
        assert len(undecided.held) < 30, "30 MB are under way, and 1 MB of it is held"
        assert not transport.is_reading()
        assert client.endpoint.is_congested, "and the producer knows"
        while not all(send.done() for send in sends):
            held, undecided.held = undecided.held, []
            for delivery in held:
                delivery.link.settle(delivery)
            port.websocket_endpoints[0].flush()
            await asyncio.sleep(0.001)
        assert {send.result() for send in sends} == {ACCEPTED}


# --- the end ----------------------------------------------------------------------------------------------------


async def test_a_close_is_answered_and_ends_the_websocket_in_order(port: Port, session: aiohttp.ClientSession) -> None:
    async with session.ws_connect(port.url(PATH), protocols=[SUBPROTOCOL]) as connection:
        await connection.send_bytes(AMQP_HEADER + b"\xff\xff\xff\xff\x02\x00\x00\x00")
        said = b""
        while (message := await connection.receive()).type is WSMsgType.BINARY:
            said += message.data
        assert b"amqp:connection:framing-error" in said
        assert (message.type, message.data) == (WSMsgType.CLOSE, WSCloseCode.OK)
    await port.websocket_endpoints[0].lost
    await until(lambda: port.listener.connection_count == 0)


@pytest.mark.parametrize("is_tls", [False, True])
async def test_the_end_of_the_server_is_told_to_peers_inside_websockets(tls_files: TlsFiles, is_tls: bool) -> None:
    async with Port(tls_files) as port:
        client = WebSocketClient(port, is_tls=is_tls)
        async with client as amqp:
            receiver = await amqp.receiver("queue")
            await port.close()
            with pytest.raises(RemoteError, match="amqp:connection:forced: the server is shutting down"):
                await receiver.receive()
        assert port.listener.connection_count == 0


async def test_a_peer_that_vanishes_is_noticed(port: Port) -> None:
    for ending in ("abort", "close"):
        reader, writer = await port.open()
        writer.write(OPEN_REQUEST)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        await until(lambda: port.listener.connection_count == 1)
        if ending == "abort":
            writer.transport.abort()
        else:
            writer.close()
        await port.websocket_endpoints.pop().lost
        await until(lambda: port.listener.connection_count == 0)


async def test_an_aborted_endpoint_drops_its_websocket(port: Port, session: aiohttp.ClientSession) -> None:
    async with session.ws_connect(port.url(PATH), protocols=[SUBPROTOCOL]) as connection:
        await connection.send_bytes(SASL_HEADER)
        await connection.receive()
        (served,) = port.websocket_endpoints
        served.abort()
        await served.lost
        assert (await connection.receive()).type in {WSMsgType.CLOSED, WSMsgType.ERROR}
    await until(lambda: port.listener.connection_count == 0)


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_peer_that_does_not_read_cannot_hold_up_the_end(
    port: Port, monkeypatch: pytest.MonkeyPatch, is_paused: bool
) -> None:
    monkeypatch.setattr(websocket, "CLOSING_TIMEOUT_S", 0.2)
    reader, writer = await port.open()
    hold_little(writer.transport)
    writer.write(OPEN_REQUEST)
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    (served,) = port.websocket_endpoints
    transport = served._transport
    assert transport is not None
    transport.write(b"x" * 20_000_000)
    assert served.is_congested
    if not is_paused:
        transport.resume_reading()
    transport.close()
    transport.close()
    transport.write(b"too late")
    assert transport.is_closing()
    assert not transport.is_reading()
    await served.lost
    await until(lambda: port.listener.connection_count == 0)
    writer.close()


async def test_a_transport_says_what_it_is(port: Port, session: aiohttp.ClientSession) -> None:
    async with session.ws_connect(port.url(PATH), protocols=[SUBPROTOCOL]) as connection:
        await connection.send_bytes(SASL_HEADER)
        await connection.receive()
        (served,) = port.websocket_endpoints
        transport = served._transport
        assert transport is not None
        assert transport.get_protocol() is served
        assert transport.can_write_eof()
        assert transport.get_extra_info("sockname")[1] == port.number
        assert transport.get_extra_info("nothing", "else") == "else"
        transport.set_write_buffer_limits(low=100)
        assert transport.get_write_buffer_limits() == (100, 400)
        transport.set_write_buffer_limits()
        assert transport.get_write_buffer_limits() == (16_384, 65_536)
