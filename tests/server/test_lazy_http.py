"""HTTP is loaded with the first connection that speaks it, and nobody is lost meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from tandem.amqp import Settings
from tandem.amqp.connection import Role
from tandem.driver.endpoint import Endpoint
from tandem.server.lazy_http import LazyHttp
from tandem.server.listener import Listener
from tandem.testing.relay import Relay

REQUEST = b"GET /greeting HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Loading:
    """An application that is loaded when the test says so."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = asyncio.Event()
        self.failure: Exception | None = None

    async def load(self) -> web.AppRunner:
        self.count += 1
        await self.may_end.wait()
        if self.failure is not None:
            raise self.failure
        app = web.Application()
        app.router.add_get("/greeting", self._greet)
        runner = web.AppRunner(app)
        await runner.setup()
        return runner

    async def _greet(self, _: web.Request) -> web.Response:
        return web.Response(text="good morning")


@asynccontextmanager
async def listening(loading: Loading) -> AsyncIterator[Listener]:
    http = LazyHttp(loading.load)
    listener = Listener(lambda: Endpoint(Role.SERVER, Settings("lazy"), Relay()), http)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.close()
        await http.cleanup()


async def request(listener: Listener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(REQUEST)
    return reader, writer


async def until_asked(listener: Listener, count: int) -> None:
    """Until so many connections have said that they speak HTTP."""
    # There is no event to wait for: the kernel is between us.
    while listener.arrival_count or listener.connection_count != count:  # noqa: ASYNC110 # as above
        await asyncio.sleep(0.001)


async def test_nothing_is_loaded_before_the_first_request() -> None:
    loading = Loading()
    async with listening(loading) as listener:
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"AMQP\x00\x01\x00\x00")
        await until_asked(listener, 1)
        assert loading.count == 0
        writer.close()


async def test_requests_that_come_while_it_is_loaded_wait_for_it() -> None:
    loading = Loading()
    async with listening(loading) as listener:
        waiting = [await request(listener) for _ in range(3)]
        await until_asked(listener, 3)
        loading.may_end.set()
        for reader, writer in waiting:
            assert (await reader.read()).endswith(b"good morning")
            writer.close()
        reader, writer = await request(listener)
        assert (await reader.read()).endswith(b"good morning")
        writer.close()
    assert loading.count == 1


async def test_a_client_that_goes_away_meanwhile_is_forgotten() -> None:
    loading = Loading()
    async with listening(loading) as listener:
        _, writer = await request(listener)
        await until_asked(listener, 1)
        writer.transport.abort()
        reader, writer = await request(listener)
        loading.may_end.set()
        assert (await reader.read()).endswith(b"good morning")
        writer.close()
        await until_asked(listener, 0)


async def test_if_it_cannot_be_loaded_the_client_is_hung_up_on_and_the_next_one_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loading = Loading()
    loading.failure = ImportError("aiohttp is broken")
    loading.may_end.set()
    async with listening(loading) as listener:
        reader, writer = await request(listener)
        # Hung up on without an answer: a reset, unless the client had read the end before.
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
        assert record.message == "HTTP cannot be served"
        loading.failure = None
        reader, writer = await request(listener)
        assert (await reader.read()).endswith(b"good morning")
        writer.close()


async def test_a_broker_that_stops_while_it_is_loaded_ends_in_order() -> None:
    loading = Loading()
    async with listening(loading) as listener:
        reader, writer = await request(listener)
        await until_asked(listener, 1)
        asyncio.get_running_loop().call_later(0.01, loading.may_end.set)
    await reader.read()
    writer.close()
