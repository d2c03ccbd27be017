"""The network that fails on purpose: each harm as a program behind it sees it, and its end."""

from __future__ import annotations

import asyncio
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tandem.errors import StateError
from tandem.testing.chaos import ChaosProxy
from tests.markers import mission
from tests.patience import PATIENCE_S


class Echo(socketserver.BaseRequestHandler):
    """Says again what it is told."""

    def handle(self) -> None:
        try:
            while said := self.request.recv(65_536):
                self.request.sendall(said)
        except OSError:
            return


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def proxy(echo: int) -> Iterator[ChaosProxy]:
    with ChaosProxy("127.0.0.1", echo, seed=7) as proxy:
        yield proxy


def connect(proxy: ChaosProxy) -> socket.socket:
    connection = socket.create_connection((proxy.host, proxy.port), timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def said(connection: socket.socket, size_bytes: int) -> bytes:
    heard = b""
    while len(heard) < size_bytes:
        part = connection.recv(size_bytes - len(heard))
        if not part:
            break
        heard += part
    return heard


def ask(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return said(connection, len(text))


def test_what_is_not_harmed_passes_and_is_counted(proxy: ChaosProxy) -> None:
    with connect(proxy) as connection:
        assert ask(connection, b"x" * 200_000) == b"x" * 200_000
        assert proxy.connection_count == 1
    assert (proxy.to_server.passed_bytes, proxy.to_client.passed_bytes) == (200_000, 200_000)
    assert (proxy.accepted_count, proxy.refused_count, proxy.cut_count) == (1, 0, 0)


def test_the_end_of_one_side_reaches_the_other(proxy: ChaosProxy) -> None:
    with connect(proxy) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        assert said(connection, 100) == b"last words"


def test_delay_and_jitter_hold_up_what_goes_one_way(proxy: ChaosProxy) -> None:
    proxy.to_client.delay_s = 0.1
    proxy.to_client.jitter_s = 0.05
    with connect(proxy) as connection:
        started_at = time.monotonic()
        assert ask(connection, b"a") == b"a"
        assert time.monotonic() - started_at >= 0.1


def test_a_narrow_line_takes_its_time(proxy: ChaosProxy) -> None:
    proxy.to_server.bytes_per_second = 10_000
    with connect(proxy) as connection:
        started_at = time.monotonic()
        assert ask(connection, b"a" * 1_000) == b"a" * 1_000
        assert time.monotonic() - started_at >= 0.1


def test_bytes_are_split_into_pieces(proxy: ChaosProxy) -> None:
    proxy.to_server.piece_bytes = 3
    with connect(proxy) as connection:
        assert ask(connection, b"0123456789") == b"0123456789"
    assert proxy.to_server.passed_pieces == 4


def test_a_stall_keeps_connections_open_and_ends(proxy: ChaosProxy) -> None:
    proxy.to_client.is_stalled = True
    with connect(proxy) as connection:
        connection.sendall(b"waiting")
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(PATIENCE_S)
        proxy.heal()
        assert said(connection, 7) == b"waiting"


@pytest.mark.parametrize("size_bytes", [0, 1, 5])
def test_a_connection_is_cut_after_so_many_bytes(proxy: ChaosProxy, size_bytes: int) -> None:
    proxy.to_server.cut_after_bytes = size_bytes
    with connect(proxy) as connection:
        connection.sendall(b"0123456789")
        with pytest.raises(ConnectionResetError):
            said(connection, 100)
    assert (proxy.to_server.passed_bytes, proxy.cut_count) == (size_bytes, 1)
    proxy.heal()
    with connect(proxy) as connection:
        assert ask(connection, b"whole") == b"whole"


def test_a_reset_reaches_everybody_who_is_connected(proxy: ChaosProxy) -> None:
    with connect(proxy) as first, connect(proxy) as second:
        for connection in (first, second):
            assert ask(connection, b"a") == b"a"
        assert proxy.reset() == 2
        for connection in (first, second):
            with pytest.raises(ConnectionResetError):
                connection.recv(1)


@mission("M12")
def test_new_connections_are_refused_until_it_is_healed(proxy: ChaosProxy) -> None:
    with connect(proxy) as there:
        assert ask(there, b"a") == b"a"
        proxy.refuses_connections = True
        with pytest.raises(ConnectionResetError), connect(proxy) as refused:
            refused.recv(1)
        assert ask(there, b"b") == b"b"
        proxy.heal()
        with connect(proxy) as again:
            assert ask(again, b"c") == b"c"
    assert proxy.refused_count == 1


def test_a_target_that_is_not_there_is_a_connection_that_ends() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with ChaosProxy("127.0.0.1", unused.getsockname()[1]) as proxy:
            with pytest.raises(ConnectionResetError), connect(proxy) as connection:
                connection.recv(1)
            assert proxy.refused_count == 1


async def test_it_is_an_asynchronous_context_manager_as_well(echo: int) -> None:
    async with ChaosProxy("127.0.0.1", echo) as proxy:
        reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert await asyncio.to_thread(proxy.reset) == 1
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        writer.close()


def test_a_proxy_that_does_not_run_says_so(echo: int) -> None:
    proxy = ChaosProxy("127.0.0.1", echo)
    with pytest.raises(StateError, match="does not run"):
        proxy.reset()
    with proxy, pytest.raises(StateError, match="started already"):
        proxy.start()
    proxy.close()
