"""Two brokers as users run them, for all tests; those that kill one have brokers of their own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tandem.testing import Broker
from tests.pairing.hurry import PairUnderTest, heal
from tests.patience import until

ARGUMENTS = ("--dev", "--allow-faults")

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("primary"), arguments=ARGUMENTS) as broker:
        yield broker


@pytest.fixture(scope="session")
def shared_secondary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("secondary"), arguments=ARGUMENTS) as broker:
        yield broker


@pytest.fixture
def primary(shared_primary: Broker) -> Iterator[Broker]:
    yield shared_primary
    heal(shared_primary)


@pytest.fixture
def secondary(shared_secondary: Broker) -> Iterator[Broker]:
    yield shared_secondary
    heal(shared_secondary)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Broker]:
    """A primary that a test may kill."""
    with Broker(tmp_path / "mortal", arguments=ARGUMENTS) as broker:
        yield broker


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"entity-{next(_numbers)}"


@pytest.fixture
def queue(primary: Broker, name: str) -> str:
    primary.create_queue(name)
    return name


async def _paired(primary: Broker, secondary: Broker) -> AsyncIterator[PairUnderTest]:
    pair = PairUnderTest(primary, secondary)
    yield pair
    await pair.close()
    # What watches over both factories notices that both are closed.
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "no task outlives the factories")


@pytest_asyncio.fixture
async def pair(primary: Broker, secondary: Broker) -> AsyncIterator[PairUnderTest]:
    async for pair in _paired(primary, secondary):
        yield pair


@pytest_asyncio.fixture
async def mortal_pair(mortal: Broker, secondary: Broker) -> AsyncIterator[PairUnderTest]:
    async for pair in _paired(mortal, secondary):
        yield pair
