"""A broker for commands to manage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tandem.management.connection_string import ConnectionString
from tests.cli.program import serving


@pytest.fixture(scope="module")
def connection_string(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectionString]:
    """Of one broker for all tests of a file; they keep apart by the names of their entities."""
    with serving(tmp_path_factory.mktemp("broker") / "data", "--dev", "--tls", "off") as broker:
        yield ConnectionString("127.0.0.1", broker.http_port)
