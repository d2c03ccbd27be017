"""One broker for all tests of the client, as users run it, and one in this process whose clock and faults a test sets.

Tests keep apart by the names of their entities.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tandem.client import MessagingFactory, NamespaceManager
from tandem.testing import Broker, Bus
from tests.client.network import Proxy

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="session")
def session_bus() -> Iterator[Bus]:
    with Bus() as bus:
        yield bus


@pytest.fixture
def bus(session_bus: Bus) -> Iterator[Bus]:
    yield session_bus
    session_bus.restore()


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"entity-{next(_numbers)}"


@pytest.fixture
def queue(broker: Broker, name: str) -> str:
    broker.create_queue(name)
    return name


@pytest_asyncio.fixture
async def factory(broker: Broker) -> AsyncIterator[MessagingFactory]:
    """It must leave nothing behind: no task outlives it but the one that runs this."""
    async with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        yield factory
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
def manager(broker: Broker) -> NamespaceManager:
    return NamespaceManager.from_connection_string(broker.connection_string)


@pytest_asyncio.fixture
async def proxy(broker: Broker) -> AsyncIterator[Proxy]:
    async with Proxy(broker.port) as proxy:
        yield proxy
