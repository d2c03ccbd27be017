"""Who is blamed for a socket that is left open."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest

from tests.sdk_leaks import ignore_leaks_of_the_sdk

LEAK = """
import socket

def leak():
    socket.socket()

def leak_in_asyncio():
    import asyncio

    async def connect():
        with socket.create_server(("127.0.0.1", 0)) as server:
            await asyncio.open_connection(*server.getsockname())

    asyncio.run(connect())
"""


@pytest.mark.parametrize("leak", ["leak", "leak_in_asyncio"])
@pytest.mark.parametrize("module, is_reported", [("azure.servicebus", False), ("tandem.client", True)])
def test_only_sockets_of_the_sdk_may_be_left_open(
    monkeypatch: pytest.MonkeyPatch, leak: str, module: str, is_reported: bool
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    ignore_leaks_of_the_sdk()
    namespace: dict[str, Any] = {"__name__": module}
    exec(LEAK, namespace)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        namespace[leak]()
    assert bool(reported) is is_reported
