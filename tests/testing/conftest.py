"""A bus as the plugin gives it to tests, and a client of ours on it, which is faster than the official one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tandem.amqp import Settings
from tandem.connection_string import ConnectionString
from tandem.driver import Client
from tandem.testing import Bus


@pytest.fixture(scope="session")
def session_bus() -> Iterator[Bus]:
    with Bus() as bus:
        yield bus


@pytest.fixture
def bus(session_bus: Bus) -> Iterator[Bus]:
    kept = session_bus.take_stock()
    yield session_bus
    session_bus.clean(kept)


async def connect(bus: Bus) -> Client:
    address = ConnectionString.parse(bus.connection_string)
    assert address.port is not None
    settings = Settings("client", user=address.rule_name, password=address.key)
    return await Client.connect(address.host, address.port, settings)


@pytest.fixture
async def client(bus: Bus) -> AsyncIterator[Client]:
    async with await connect(bus) as client:
        yield client
