"""What listens is tested on both event loops: they differ just where a listener touches them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from tandem.driver.loop import new_event_loop
from tandem.server.tls import TlsFiles, ensure_certificates
from tests.server.ports import Port

ON_BOTH_LOOPS = {"test_listener.py", "test_websocket.py"}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.name in ON_BOTH_LOOPS:
        return {"asyncio": asyncio.new_event_loop, "uvloop": new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    directory: Path = tmp_path_factory.mktemp("tls")
    return ensure_certificates(directory)


@pytest_asyncio.fixture
async def port(tls_files: TlsFiles) -> AsyncIterator[Port]:
    async with Port(tls_files) as port:
        yield port
