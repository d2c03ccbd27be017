"""The foreign stacks as fixtures. A stack that this machine has not skips the test, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.rabbitmq import RabbitMq, running_rabbitmq
from tests.interop.peers.available import Node, require_node, require_proton, require_rabbitmq


@pytest.fixture(scope="session")
def proton_python() -> Path:
    """A Python that can import proton."""
    return require_proton()


@pytest.fixture(scope="session")
def node() -> Node:
    """Node.js with rhea."""
    return require_node()


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMq]:
    """One broker for the whole run: starting it takes seconds. Tests keep apart by the names of their queues."""
    with running_rabbitmq(require_rabbitmq(), {}) as broker:
        yield broker
