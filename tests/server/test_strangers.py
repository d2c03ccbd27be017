"""What somebody who has not proved anything can take: descriptors, time, the log, and guesses at keys."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandem.amqp import ACCEPTED, Settings
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.sasl import SASL_HEADER
from tandem.auth import make_token
from tandem.driver import Client
from tandem.errors import TandemError
from tandem.limits import (
    FREE_FAILED_AUTHENTICATIONS,
    MAX_CONNECTIONS,
    MAX_FAILED_AUTHENTICATION_DELAY_MS,
    MAX_STRANGER_MESSAGE_BYTES,
    MAX_WATCHED_ADDRESSES,
    STRANGER_BURST_REQUESTS,
)
from tandem.management.api import add_routes
from tandem.server.broker import Broker
from tandem.server.door import Door, connections_for
from tandem.server.failed_authentications import FailedAuthentications
from tandem.server.http_connection import HttpConnection
from tandem.server.websocket import PATH, SUBPROTOCOL
from tandem.store.descriptors import RESERVE, DescriptorReserve, with_descriptors
from tandem.store.log.files import DiskFiles
from tests.descriptors import no_descriptors
from tests.patience import PATIENCE_S, until
from tests.server.test_broker import KEY, RULE, connect, make_queue, running

HOST = "127.0.0.1"


@contextlib.asynccontextmanager
async def serving(directory: Path, **settings: Any) -> AsyncIterator[Broker]:
    """A broker with its HTTP API."""
    from tandem.server.broker import BrokerSettings

    broker = Broker(BrokerSettings(directory, port=0, http_port=0, is_dev=True, tls="off", **settings))
    add_routes(broker)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def say(port: int, said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(said)
    return reader, writer


async def is_hung_up(reader: asyncio.StreamReader) -> bool:
    try:
        while await asyncio.wait_for(reader.read(65_536), PATIENCE_S):
            pass
    except ConnectionError:
        pass
    return True


# --- connections and descriptors --------------------------------------------------------------------------------


class Guest:
    """A connection as the door sees it."""

    def __init__(self, *, is_stranger: bool = True) -> None:
        self.is_stranger = is_stranger
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


async def test_the_oldest_stranger_makes_room_and_nobody_who_has_proved_something() -> None:
    door = Door(3)
    proven, old, young = Guest(), Guest(), Guest()
    for guest in (proven, old, young):
        door.enter(guest)
    proven.is_stranger = False
    assert door.is_full
    assert door.evict(0)
    assert (proven.is_aborted, old.is_aborted, young.is_aborted) == (False, True, False)
    assert door.count == 2
    assert not door.evict(3_600), "whoever has just come gets time to say who it is"
    assert door.evict(0)
    assert not door.evict(0)
    assert not proven.is_aborted


@pytest.mark.parametrize(
    "descriptors, connections",
    [(None, MAX_CONNECTIONS), (1_000_000, MAX_CONNECTIONS), (1_024, 768), (200, 136), (10, 1)],
)
def test_connections_are_limited_by_the_descriptors_of_the_process(descriptors: int | None, connections: int) -> None:
    assert connections_for(descriptors) == connections


async def test_a_client_is_let_in_where_strangers_hold_all_connections(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "orders")
        broker._door.max_connections = 4
        async with await connect(broker) as client:
            strangers = [await say(broker.port, SASL_HEADER) for _ in range(3)]
            for reader, _ in strangers:
                await reader.readexactly(8)
            assert broker._door.is_full
            # Older than the patience that a newcomer has.
            for guest in broker._door._strangers:
                broker._door._strangers[guest] -= 60
            async with await connect(broker) as another:
                sender = await another.sender("orders")
                assert await sender.send(encode_message(data=b"x")) == ACCEPTED
                assert await is_hung_up(strangers[0][0])
            assert not client.endpoint.lost.done()
        for _, writer in strangers:
            writer.close()


def test_a_file_of_the_journal_is_opened_with_a_descriptor_in_reserve(tmp_path: Path) -> None:
    asked: list[str] = []

    def make_room() -> None:
        asked.append("room")

    RESERVE.join(make_room)
    try:
        with no_descriptors():
            with pytest.raises(OSError, match="Too many open files"):
                os.open(os.devnull, os.O_RDONLY)
            descriptor = DiskFiles().open(tmp_path / "1.journal")
            DiskFiles().sync_folder(tmp_path)
            os.close(descriptor)
    finally:
        RESERVE.leave(make_room)
    assert asked == ["room"]


def test_a_thread_waits_until_somebody_makes_room() -> None:
    attempts: list[int] = []

    def step() -> str:
        attempts.append(1)
        if len(attempts) < 4:
            raise OSError(24, "Too many open files")
        return "opened"

    assert with_descriptors(step, DescriptorReserve()) == "opened"
    with pytest.raises(PermissionError):
        with_descriptors(lambda: (_ for _ in ()).throw(PermissionError(13, "no")), DescriptorReserve())


async def test_events_are_taken_while_there_is_no_descriptor_left(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        from tandem.engine.hubs.description import EventHubDescription

        await broker.perform(
            lambda namespace: namespace.hubs.create(
                EventHubDescription.from_fields({"name": "hub", "partition_count": 1})
            )
        )
        stranger, writer = await say(broker.port, SASL_HEADER)
        await stranger.readexactly(8)
        async with await connect(broker) as client:
            sender = await client.sender("hub")
            with no_descriptors():
                # The first event makes the first file of the journal.
                assert await sender.send(encode_message(data=b"event")) == ACCEPTED
                assert await is_hung_up(stranger), "strangers are sent away first"
        assert not broker.failed.done()
        writer.close()


# --- HTTP -------------------------------------------------------------------------------------------------------


def request(path: str, token: str | None = None) -> bytes:
    authorization = "" if token is None else f"Authorization: {token}\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{authorization}\r\n".encode()


async def answered(reader: asyncio.StreamReader, count: int) -> None:
    """So many more answers come, all of them 200."""
    while count:
        line = await asyncio.wait_for(reader.readline(), PATIENCE_S)
        assert line, "hung up"
        count -= b"HTTP/1.1 200" in line


async def test_an_http_connection_without_a_token_has_the_time_of_a_stranger(tmp_path: Path) -> None:
    async with serving(tmp_path, authentication_timeout_s=0.3) as broker:
        token = make_token(f"http://{HOST}", RULE, KEY, 4_102_444_800)
        strangers = [await say(broker.http_port, said) for said in (request("/health"), request("/$api/v1/queues"))]
        reader, writer = await say(broker.http_port, request("/$api/v1/queues", token))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for stranger, stranger_writer in strangers:
            assert (await stranger.readline()).startswith(b"HTTP/1.1 ")
            assert await is_hung_up(stranger)
            stranger_writer.close()
        # Whoever has shown a token is kept for its next request.
        writer.write(request("/health"))
        await answered(reader, 1)
        writer.close()


async def test_malformed_requests_are_answered_and_told_in_one_short_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as broker:
        with caplog.at_level(logging.INFO):
            for _ in range(20):
                reader, writer = await say(broker.http_port, b"GET / HTTP/1.1\r\nbad header\r\n\r\n")
                assert (await reader.readline()).startswith(b"HTTP/1.0 400")
                assert await is_hung_up(reader)
                writer.close()
        (record,) = [one for one in caplog.records if one.name == "tandem.server.http"]
        assert record.exc_info is None
        assert len(record.getMessage()) < 200
        assert "\n" not in record.getMessage()


async def test_requests_that_follow_each_other_without_pause_are_all_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        token = make_token(f"http://{HOST}", RULE, KEY, 4_102_444_800)
        reader, writer = await say(broker.http_port, request("/$api/v1/queues", token) + request("/health") * 500)
        await answered(reader, 501)
        writer.close()


class Handler(asyncio.Protocol):
    """Notes what it is given."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)


class Pausable(asyncio.Transport):
    """A transport that is read from, or is not."""

    is_paused = False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return False


async def test_a_large_read_is_given_to_http_a_little_at_a_time_and_nothing_is_read_meanwhile() -> None:
    handler, transport = Handler(), Pausable()
    connection = HttpConnection(handler, lambda _: None, 20)
    connection.connection_made(transport)
    said = bytes(range(256)) * 1_000
    connection.data_received(said)
    assert len(handler.pieces) == 1, "others have their turn before the next piece"
    assert len(handler.pieces[0]) <= 16_384
    assert transport.is_paused
    await until(lambda: b"".join(handler.pieces) == said)
    assert max(len(piece) for piece in handler.pieces) <= 16_384
    await until(lambda: not transport.is_paused)
    connection.connection_lost(None)


OPEN_WEBSOCKET = (
    f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n"
).encode()


async def test_a_message_of_a_websocket_is_kept_from_a_stranger_only_up_to_a_size(tmp_path: Path) -> None:
    async with serving(tmp_path, authentication_timeout_s=3_600) as broker:
        reader, writer = await say(broker.http_port, OPEN_WEBSOCKET)
        await reader.readuntil(b"\r\n\r\n")
        # A message of 2,000,000 bytes, of which the end does not come.
        writer.write(b"\x02\xff" + (2_000_000).to_bytes(8, "big") + bytes(4) + bytes(MAX_STRANGER_MESSAGE_BYTES * 2))
        assert await is_hung_up(reader)
        writer.close()
        # Many small ones are no message that is too large.
        reader, writer = await say(broker.http_port, OPEN_WEBSOCKET)
        await reader.readuntil(b"\r\n\r\n")
        ping = b"\x89\xfd" + bytes(4) + bytes(125)
        writer.write(ping * (3 * MAX_STRANGER_MESSAGE_BYTES // len(ping)))
        for _ in range(3 * MAX_STRANGER_MESSAGE_BYTES // len(ping)):
            await asyncio.wait_for(reader.readexactly(127), PATIENCE_S)
        writer.close()


async def test_a_stranger_that_sends_many_requests_waits_until_it_shows_a_token() -> None:
    connection = HttpConnection(asyncio.Protocol(), lambda _: None, 20)
    waits_s = [connection.wait_of_request_s() for _ in range(STRANGER_BURST_REQUESTS + 10)]
    assert waits_s[:STRANGER_BURST_REQUESTS] == [0] * STRANGER_BURST_REQUESTS
    assert waits_s[-1] > 0
    connection.trust()
    assert connection.wait_of_request_s() == 0


# --- guesses ----------------------------------------------------------------------------------------------------


def test_the_more_an_address_fails_the_later_it_is_answered() -> None:
    failures = FailedAuthentications(lambda: 100.0)
    for _ in range(FREE_FAILED_AUTHENTICATIONS):
        assert failures.note("203.0.113.7") == 0
    delays = [failures.note("203.0.113.7") for _ in range(1_000)]
    assert delays == sorted(delays)
    assert 0 < delays[0] < delays[-1] == MAX_FAILED_AUTHENTICATION_DELAY_MS / 1_000
    assert failures.note("203.0.113.8") == 0, "others are not made to wait"


def test_time_makes_up_for_failures() -> None:
    now_s = 100.0
    failures = FailedAuthentications(lambda: now_s)
    for _ in range(FREE_FAILED_AUTHENTICATIONS + 5):
        failures.note("203.0.113.7")
    now_s += 3_600
    assert failures.note("203.0.113.7") == 0


def test_the_addresses_of_one_network_of_ipv6_are_one() -> None:
    failures = FailedAuthentications(lambda: 100.0)
    delays = [failures.note(f"2001:db8::{number:x}") for number in range(FREE_FAILED_AUTHENTICATIONS + 1)]
    assert delays[-1] > 0
    assert len(failures) == 1


def test_only_so_many_addresses_are_remembered() -> None:
    failures = FailedAuthentications(lambda: 100.0)
    for number in range(MAX_WATCHED_ADDRESSES + 10):
        failures.note(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(failures) == MAX_WATCHED_ADDRESSES


class Delays:
    """In place of the table: every failure is answered after so many seconds."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.addresses: list[str] = []

    def note(self, address: str) -> float:
        self.addresses.append(address)
        return self.delay_s


async def test_a_wrong_key_is_answered_late_and_a_right_one_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        delays = Delays(3_600)
        broker.directory.failed_authentications = delays  # type: ignore[assignment] # a double
        guessing = asyncio.create_task(Client.connect(HOST, broker.port, Settings("thief", user=RULE, password="no")))
        await until(lambda: delays.addresses == [HOST])
        async with await connect(broker):
            assert not guessing.done()
        guessing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await guessing
        delays.delay_s = 0.01
        with pytest.raises(TandemError):
            await Client.connect(HOST, broker.port, Settings("thief", user=RULE, password="no"))


async def test_a_wrong_token_is_answered_late_and_the_connection_is_not_read_from_meanwhile(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        delays = Delays(3_600)
        broker.directory.failed_authentications = delays  # type: ignore[assignment] # a double
        async with await connect(broker, is_stranger=True) as stranger:
            answers = await stranger.receiver("$cbs")
            sender = await stranger.sender("$cbs")
            await sender.send(_put_token("wrong"))
            await until(lambda: delays.addresses == [HOST])
            (served,) = broker.endpoints
            assert served._suspension is not None
            await until(lambda: served._is_held_back)
            # As if the time were over.
            served._resume()
            delays.delay_s = 0
            await sender.send(_put_token("wrong"))
            await asyncio.wait_for(answers.receive(), PATIENCE_S)
            assert len(delays.addresses) == 2
            await sender.send(_put_token(KEY))
            await asyncio.wait_for(answers.receive(), PATIENCE_S)
            assert len(delays.addresses) == 2
            assert not served.is_stranger


def _put_token(key: str) -> bytes:
    return encode_message(
        properties=Properties(message_id="1", reply_to="here"),
        application_properties={
            "operation": "put-token",
            "type": "servicebus.windows.net:sastoken",
            "name": "sb://localhost/",
        },
        value=make_token("sb://localhost/", RULE, key, 4_102_444_800),
    )


@pytest.mark.parametrize("path", ["/health", "/$api/v1/queues", "/$api/v1/diagnosis", "/$api/v1/faults"])
async def test_requests_of_a_stranger_count_wherever_they_lead(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path) as broker:
        reader, writer = await say(broker.http_port, request(path))
        assert (await asyncio.wait_for(reader.readline(), PATIENCE_S)).startswith(b"HTTP/1.1 ")
        (connection,) = broker._listeners[1]._http_connections
        assert connection._allowance._balance < STRANGER_BURST_REQUESTS
        writer.close()


async def test_a_request_with_a_wrong_token_is_answered_late(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        delays = Delays(3_600)
        broker.directory.failed_authentications = delays  # type: ignore[assignment] # a double
        wrong = make_token(f"http://{HOST}", RULE, "guess", 4_102_444_800)
        # Those that repair the broker are open while it restarts, and no way to guess keys.
        for path in ("/$api/v1/queues", "/orders", "/$api/v1/diagnosis", "/$api/v1/faults"):
            reader, writer = await say(broker.http_port, request(path, wrong))
            await until(lambda: len(delays.addresses) > 0)
            other, other_writer = await say(broker.http_port, request("/health"))
            assert (await other.readline()).startswith(b"HTTP/1.1 200")
            assert not reader._buffer  # type: ignore[attr-defined] # nothing has come
            writer.close()
            other_writer.close()
            delays.addresses.clear()
        # Without a token there is nothing to guess.
        reader, writer = await say(broker.http_port, request("/$api/v1/queues"))
        assert (await reader.readline()).startswith(b"HTTP/1.1 401")
        assert delays.addresses == []
        writer.close()
