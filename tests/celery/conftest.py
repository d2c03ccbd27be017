"""One broker for all tests of the transport, as users run it. Tests keep apart by the prefix of their queues."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

import tandem.celery  # noqa: F401 - makes `tandem://` known
from tandem.testing import Broker

_numbers = itertools.count(1)

Connect = Callable[..., Connection]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that a test kills."""
    with Broker(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def prefix() -> str:
    """A prefix of queues that no other test uses."""
    return f"test-{next(_numbers)}/"


@pytest.fixture
def connect(broker: Broker, prefix: str) -> Iterator[Connect]:
    """Make connections, each as that of another process; all of them are closed in the end."""
    opened: list[Connection] = []

    def connect(to: Broker = broker, **options: Any) -> Connection:
        connection = Connection(
            to.connection_string,
            transport="tandem.celery:Transport",
            transport_options={"queue_name_prefix": prefix, **options},
        )
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect: Connect) -> Connection:
    return connect()
