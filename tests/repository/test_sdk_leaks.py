"""Who is blamed for a socket that is left open."""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
import warnings
from asyncio.sslproto import SSLProtocol
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


@pytest.mark.parametrize("kind, is_reported", [("stream", False), ("ended by its peer", False), ("protocol", True)])
def test_only_streams_over_tls_may_be_left_open(monkeypatch: pytest.MonkeyPatch, kind: str, is_reported: bool) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    ignore_leaks_of_the_sdk()
    loop = asyncio.new_event_loop()
    stream = asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), loop=loop)
    make_protocol: Any = SSLProtocol
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        context = ssl.create_default_context()
        tls = make_protocol(loop, stream if kind == "stream" else asyncio.Protocol(), context, None)
        transport = tls._get_app_transport()
        if kind == "ended by its peer":
            tls.connection_lost(None)
        del tls, transport
        gc.collect()
    loop.close()
    assert bool(reported) is is_reported
