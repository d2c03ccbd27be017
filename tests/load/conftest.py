"""One broker for all load tests, as users run it. Tests keep apart by the names of their queues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tandem.testing import Broker

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("load")) as broker:
        yield broker


@pytest.fixture
def queue(broker: Broker) -> str:
    """The name of a queue that no other test has."""
    name = f"load-{next(_numbers)}"
    broker.create_queue(name)
    return name
