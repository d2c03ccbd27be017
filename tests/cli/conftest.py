"""A broker for commands to talk to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.connection_string import ConnectionString
from tests.cli.program import serving


@pytest.fixture(scope="session")
def broker_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of the broker of `connection_string`."""
    return tmp_path_factory.mktemp("broker") / "data"


@pytest.fixture(scope="session")
def connection_string(broker_dir: Path) -> Iterator[ConnectionString]:
    """Of one broker for all tests; they keep apart by the names of their entities."""
    with serving(broker_dir, "--dev") as broker:
        yield ConnectionString("127.0.0.1", broker.http_port)
