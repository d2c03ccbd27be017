"""One port that speaks everything, and what strangers can do to it."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from tandem.amqp import Settings
from tandem.amqp.connection import AMQP_HEADER, Role
from tandem.amqp.sasl import SASL_HEADER
from tandem.driver import Endpoint, endpoint
from tandem.errors import ConfigurationError, RemoteError
from tandem.limits import MAX_HTTP_HEAD_BYTES
from tandem.server.listener import Listener, ListenerLimits
from tandem.server.sniffer import Speech, recognise
from tandem.server.tls import TlsFiles
from tandem.testing import Relay
from tests.descriptors import no_descriptors
from tests.markers import mission
from tests.patience import PATIENCE_S, until
from tests.server.ports import HOST, Port, WebSocketClient, send_and_receive

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def opened(
    port: Port, *, is_tls: bool = False
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await port.open(is_tls=is_tls)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def is_hung_up(reader: asyncio.StreamReader) -> bool:
    """Whether the server said nothing and hung up, in whichever way."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


# --- what is spoken ---------------------------------------------------------------------------------------------


@mission("M1")
async def test_one_port_speaks_every_protocol_at_once(port: Port) -> None:
    async with (
        await port.connect() as plain,
        await port.connect(is_tls=True) as encrypted,
        WebSocketClient(port) as web_socket,
        WebSocketClient(port, is_tls=True) as encrypted_web_socket,
    ):
        for number, client in enumerate([plain, encrypted, web_socket, encrypted_web_socket]):
            await send_and_receive(client, f"queue-{number}", b"x" * 300_000)
        assert await port.get() == {"status": "healthy"}
        assert await port.get(is_tls=True) == {"status": "healthy"}
        assert port.listener.connection_count == 4
        assert len(port.listener.endpoints) == 2
    await until(lambda: port.listener.connection_count == 0)


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize("said, answer", [(SASL_HEADER, SASL_HEADER), (REQUEST, b"HTTP/1.1 200 OK\r\n")])
async def test_first_bytes_may_come_one_at_a_time(port: Port, said: bytes, answer: bytes, is_tls: bool) -> None:
    async with opened(port, is_tls=is_tls) as (reader, writer):
        for byte in said:
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert await reader.readexactly(len(answer)) == answer


@pytest.mark.parametrize(
    "said, speech",
    [
        (b"A", None),
        (b"AMQ", None),
        (b"AMQP", Speech.AMQP),
        (AMQP_HEADER, Speech.AMQP),
        (b"AC", None),
        (b"G", None),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", None),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Speech.HTTP),
        (b"POST / HTTP/1.1\r\n\r\nbody", Speech.HTTP),
        (b"G" * (MAX_HTTP_HEAD_BYTES - 1), None),
        (b"G" * MAX_HTTP_HEAD_BYTES, Speech.UNKNOWN),
        (b"\x16\x03\x01", Speech.UNKNOWN),
        (b"\x00", Speech.UNKNOWN),
        (b"\xff" * 100, Speech.UNKNOWN),
        (b"get / HTTP/1.1\r\n\r\n", Speech.UNKNOWN),
    ],
)
def test_what_is_said_tells_what_is_spoken(said: bytes, speech: Speech | None) -> None:
    assert recognise(said) is speech


async def test_a_body_that_follows_its_head_at_once_or_later_is_read_whole(port: Port) -> None:
    async with aiohttp.ClientSession() as session:
        for size in (0, 10, 1_000_000):
            async with session.post(port.url("/length"), data=b"x" * size) as response:
                assert await response.json() == {"length": size}
        # One connection for all of them: what was handed over stays handed over.
        assert port.listener.connection_count == 1


async def test_an_endpoint_knows_its_peer(port: Port) -> None:
    async with await port.connect() as client:
        assert client.endpoint._transport is not None
        host, number = client.endpoint._transport.get_extra_info("sockname")
        (served,) = port.listener.endpoints
        assert served.peer_name == f"{host}:{number}"
        assert not served.is_tls
    assert served.peer_name == f"{host}:{number}", "the logs need it after the end, too"
    async with await port.connect(is_tls=True):
        await until(lambda: len(port.listener.endpoints) == 1)
        (served,) = port.listener.endpoints
        assert served.is_tls


async def test_small_writes_are_not_delayed(port: Port) -> None:
    async with await port.connect():
        (served,) = port.listener.endpoints
        assert served._transport is not None
        transport_socket = served._transport.get_extra_info("socket")
        assert transport_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


# --- strangers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"", b"A", b"AMQ", b"G", REQUEST[:-1], b"\x16", b"\x16\x03\x01\x02\x00\x01"])
async def test_whoever_does_not_say_what_it_speaks_is_hung_up_on(tls_files: TlsFiles, said: bytes) -> None:
    async with Port(tls_files, ListenerLimits(first_bytes_timeout_ms=100)) as port, opened(port) as (reader, writer):
        writer.write(said)
        assert await is_hung_up(reader)
        assert port.listener.connection_count == 0


async def test_silence_inside_tls_is_no_better(tls_files: TlsFiles) -> None:
    # Time for a handshake on a busy machine.
    limits = ListenerLimits(first_bytes_timeout_ms=2_000)
    async with Port(tls_files, limits) as port, opened(port, is_tls=True) as (reader, _):
        assert port.listener.arrival_count == 1
        assert await is_hung_up(reader)
        assert port.listener.connection_count == 0


async def test_saying_it_slowly_gains_no_time(tls_files: TlsFiles) -> None:
    async with Port(tls_files, ListenerLimits(first_bytes_timeout_ms=200)) as port, opened(port) as (reader, writer):
        hung_up = asyncio.create_task(is_hung_up(reader))
        writer.write(b"GET /health HTTP/1.1\r\nX: ")
        while not hung_up.done():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        assert await hung_up


async def test_whoever_speaks_in_time_may_be_silent_afterwards(tls_files: TlsFiles) -> None:
    async with (
        Port(tls_files, ListenerLimits(first_bytes_timeout_ms=2_000)) as port,
        await port.connect() as plain,
        await port.connect(is_tls=True) as encrypted,
    ):
        await asyncio.sleep(2.2)
        await send_and_receive(plain)
        await send_and_receive(encrypted)


@pytest.mark.parametrize(
    "said",
    [
        b"\x00" * 100,
        b"\xff\xfe\xfd",
        b"\x16garbage that is no client hello at all",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"get / http/1.1\r\n\r\n",
        b"G" * MAX_HTTP_HEAD_BYTES,
    ],
)
async def test_garbage_is_hung_up_on_at_once_and_harms_nobody(port: Port, said: bytes) -> None:
    async with await port.connect() as client:
        async with opened(port) as (reader, writer):
            writer.write(said)
            # TLS may answer with an alert before it hangs up.
            with suppress(ConnectionError):
                assert len(await reader.read()) < 10
        await send_and_receive(client)


async def test_tls_inside_tls_is_not_spoken(port: Port) -> None:
    async with opened(port, is_tls=True) as (reader, writer):
        writer.write(b"\x16\x03\x01\x02\x00\x01")
        assert await is_hung_up(reader)


async def test_a_client_that_does_not_trust_the_certificate_harms_nobody(port: Port) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(HOST, port.number, ssl=ssl.create_default_context(), server_hostname="localhost")
    async with await port.connect(is_tls=True) as client:
        await send_and_receive(client)
    await until(lambda: port.listener.connection_count == 0)


@pytest.mark.parametrize("said", [b"", b"AM", b"\x16\x03\x01\x02\x00\x01", REQUEST[:10]])
@pytest.mark.parametrize("is_reset", [False, True])
async def test_hanging_up_early_harms_nobody(port: Port, said: bytes, is_reset: bool) -> None:
    async with await port.connect() as client:
        for _ in range(20):
            connection = socket.create_connection((HOST, port.number))
            if is_reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            connection.sendall(said)
            await asyncio.sleep(0)
            connection.close()
        await until(lambda: port.listener.connection_count == 1)
        await send_and_receive(client)


async def test_without_a_certificate_or_an_application_only_amqp_is_spoken() -> None:
    relay = Relay()
    listener = Listener(lambda: Endpoint(Role.SERVER, Settings("bare"), relay))
    await listener.start(HOST, 0)
    for said in (REQUEST, b"\x16\x03\x01\x02\x00\x01"):
        reader, writer = await asyncio.open_connection(HOST, listener.port)
        writer.write(said)
        assert await is_hung_up(reader)
        writer.close()
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    writer.write(SASL_HEADER)
    assert await reader.readexactly(8) == SASL_HEADER
    writer.close()
    await listener.close()


# --- many of them -----------------------------------------------------------------------------------------------


async def test_connections_beyond_the_limit_are_refused_until_one_leaves(tls_files: TlsFiles) -> None:
    async with Port(tls_files, ListenerLimits(max_connections=2)) as port, await port.connect() as first:
        async with await port.connect():
            async with opened(port) as (reader, writer):
                writer.write(SASL_HEADER)
                assert await is_hung_up(reader)
            assert port.listener.refused_count == 1
            await send_and_receive(first)
        await until(lambda: port.listener.connection_count == 1)
        async with await port.connect() as third:
            await send_and_receive(third)


async def test_the_longest_silent_makes_room_for_whoever_comes(tls_files: TlsFiles) -> None:
    async with Port(tls_files, ListenerLimits(max_arrivals=3, min_arrival_patience_ms=0)) as port:
        strangers = [await port.open() for _ in range(3)]
        await until(lambda: port.listener.arrival_count == 3)
        async with await port.connect() as client:
            await send_and_receive(client)
        assert await is_hung_up(strangers[0][0])
        assert port.listener.arrival_count == 2
        for _, writer in strangers:
            writer.close()


async def test_the_young_are_not_sent_away_for_others_who_wait_instead(tls_files: TlsFiles) -> None:
    async with Port(tls_files, ListenerLimits(max_arrivals=1, min_arrival_patience_ms=60_000)) as port:
        reader, writer = await port.open()
        await until(lambda: port.listener.arrival_count == 1)
        async with opened(port) as (waiting, hasty):
            hasty.write(SASL_HEADER)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waiting.read(1), 0.3)
            writer.write(SASL_HEADER)
            assert await reader.readexactly(8) == SASL_HEADER
            assert await waiting.readexactly(8) == SASL_HEADER
        writer.close()


async def test_being_out_of_file_descriptors_is_survived_and_told_once(
    port: Port, caplog: pytest.LogCaptureFixture
) -> None:
    async with await port.connect() as client:
        late = socket.socket()
        late.setblocking(False)
        with no_descriptors(), caplog.at_level(logging.WARNING, "tandem.server.listener"):
            await asyncio.get_running_loop().sock_connect(late, (HOST, port.number))
            late.send(SASL_HEADER)
            await until(lambda: len(caplog.records) > 0)
            # Time for several attempts.
            await asyncio.sleep(0.35)
            await send_and_receive(client)
        assert [record.name for record in caplog.records] == ["tandem.server.listener"]
        reader, writer = await asyncio.open_connection(sock=late)
        assert await reader.readexactly(8) == SASL_HEADER
        writer.close()


async def test_a_crowd_that_comes_at_once_is_served(port: Port) -> None:
    async def visit(is_tls: bool) -> None:
        async with opened(port, is_tls=is_tls) as (reader, writer):
            writer.write(SASL_HEADER)
            assert await reader.readexactly(8) == SASL_HEADER

    await asyncio.gather(*(visit(is_tls=number % 10 == 0) for number in range(300)))
    await until(lambda: port.listener.connection_count == 0)


# --- beginning and end ------------------------------------------------------------------------------------------


async def test_a_port_that_is_taken_is_one_clear_line(port: Port) -> None:
    listener = Listener(lambda: Endpoint(Role.SERVER, Settings("second"), Relay()))
    with pytest.raises(ConfigurationError, match=re.escape(f"cannot listen on {HOST}:{port.number}: Address already")):
        await listener.start(HOST, port.number)
    with pytest.raises(ConfigurationError, match=r"cannot listen on no\.such\.host\.invalid:0: "):
        await listener.start("no.such.host.invalid", 0)


async def test_every_address_of_a_host_has_the_same_port() -> None:
    listener = Listener(lambda: Endpoint(Role.SERVER, Settings("local"), Relay()))
    await listener.start("localhost", 0)
    for listening in listener._sockets:
        assert listening.getsockname()[1] == listener.port
        reader, writer = await asyncio.open_connection(*listening.getsockname()[:2])
        writer.write(SASL_HEADER)
        assert await reader.readexactly(8) == SASL_HEADER
        writer.close()
    await listener.close()


@pytest.mark.parametrize("is_tls", [False, True])
async def test_the_end_is_told_to_amqp_peers_and_ends_the_silent(tls_files: TlsFiles, is_tls: bool) -> None:
    port = Port(tls_files)
    async with port:
        client = await port.connect(is_tls=is_tls)
        receiver = await client.receiver("queue")
        silent = [await port.open(), await port.open(is_tls=True)]
        half_said = await port.open()
        half_said[1].write(b"\x16\x03\x01")
        await until(lambda: port.listener.arrival_count == 3)
        number = port.number
        await port.listener.close()
        with pytest.raises(RemoteError, match="amqp:connection:forced: the server is shutting down"):
            await receiver.receive()
        for reader, writer in (*silent, half_said):
            assert await is_hung_up(reader)
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOST, number)
        assert port.listener.connection_count == 0


@pytest.mark.parametrize("is_tls", [False, True])
async def test_a_peer_that_goes_on_sending_after_the_end_is_dropped(
    port: Port, is_tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "LINGER_S", 0.2)
    async with opened(port, is_tls=is_tls) as (reader, writer):
        writer.write(AMQP_HEADER + b"\xff\xff\xff\xff\x02\x00\x00\x00")
        hung_up = asyncio.create_task(_read_to_the_end(reader))
        async with asyncio.timeout(PATIENCE_S):
            while port.listener.connection_count or not hung_up.done():
                writer.write(b"more")
                await asyncio.sleep(0.02)
        assert b"amqp:connection:framing-error" in await hung_up


async def _read_to_the_end(reader: asyncio.StreamReader) -> bytes:
    said = b""
    try:
        while chunk := await reader.read(65_536):
            said += chunk
    except ConnectionError:
        pass
    return said
