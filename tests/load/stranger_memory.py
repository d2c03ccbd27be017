"""`python -m tests.load.stranger_memory [--count 1000]`: what strangers make a broker hold, by what they do.

Each kind of stranger has a broker of its own. It does whatever makes the broker keep most, and is then silent; the
memory of the broker is looked at while all of them are connected. Prints a table in Markdown, with the bound of
`docs/limits.md` behind it, and ends with 1 if a kind exceeds the bound.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tandem.amqp import Settings, Source, Target
from tandem.amqp.connection import EMPTY_FRAME
from tandem.amqp.hot_paths import frame
from tandem.amqp.performatives import Attach, Begin, Transfer
from tandem.bench.measuring.machine import allow_open_files, resident_bytes
from tandem.limits import (
    MAX_BYTES_OF_1000_STRANGERS,
    MAX_STRANGER_FRAME_BYTES,
    MAX_STRANGER_MESSAGE_BYTES,
    MAX_STRANGER_PERFORMATIVE_BYTES,
)
from tandem.testing import Broker
from tests.load.attackers import HOST, Stream

__all__ = ["KINDS", "measure"]

LINKS: Final = 8
REQUEST_BYTES: Final = 30_000
UNREAD_BYTES: Final = 400_000
HTTP_HEAD_BYTES: Final = 32_000

CONNECTING_THREADS: Final = 16

# Seconds for the broker to take in what has been sent.
SETTLING_S: Final = 1.0


def silent(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=30)


def opened(port: int) -> socket.socket:
    return Stream(port, Settings("stranger")).socket


def attached(port: int) -> socket.socket:
    """As many links as a stranger may have, each with as much as an attach may hold, and half a request on each."""
    stream = Stream(port, Settings("stranger"))
    stream.say(Begin(None, 0, 5_000, 5_000).encode())
    for handle in range(LINKS):
        properties: dict[object, object] = {f"{number}": number for number in range(300, 570)}
        attach = Attach(
            f"link-{handle}", handle, False, source=Source("h"), target=Target("$cbs"), initial_delivery_count=0
        )
        attach.properties = properties
        assert len(attach.encode()) < MAX_STRANGER_PERFORMATIVE_BYTES
        stream.say(attach.encode())
        half = Transfer(handle, handle, b"0", 0, more=True).encode() + bytes(REQUEST_BYTES)
        stream.socket.sendall(frame(0, half))
    return stream.socket


def unread(port: int) -> socket.socket:
    """More than is handled for a stranger, and half of the largest frame behind it."""
    stream = Stream(port, Settings("stranger"))
    stream.socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        half = MAX_STRANGER_FRAME_BYTES.to_bytes(4, "big") + b"\x02\x00\x00\x00" + bytes(MAX_STRANGER_FRAME_BYTES // 2)
        stream.socket.send(EMPTY_FRAME * (UNREAD_BYTES // len(EMPTY_FRAME)) + half)
    return stream.socket


def half_request(port: int) -> socket.socket:
    connection = silent(port)
    connection.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * HTTP_HEAD_BYTES)
    return connection


def half_body(port: int) -> socket.socket:
    connection = silent(port)
    connection.sendall(b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        connection.send(bytes(UNREAD_BYTES))
    return connection


def half_message(port: int) -> socket.socket:
    """A WebSocket, and as much of a message as is kept of it."""
    connection = silent(port)
    connection.sendall(
        b"GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        b"Sec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
    )
    connection.recv(4_096)
    head = b"\x02\xff" + (2_000_000).to_bytes(8, "big") + bytes(4)
    connection.sendall(head + bytes(MAX_STRANGER_MESSAGE_BYTES - 20_000))
    return connection


def in_tls(port: int) -> socket.socket:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(silent(port))


KINDS: Final[dict[str, Callable[[int], socket.socket]]] = {
    "connected, silent": silent,
    "TLS, then silent": in_tls,
    "AMQP open, then silent": opened,
    "8 large attaches, half a request on each": attached,
    "more frames than are handled": unread,
    "half the head of a request": half_request,
    "half the body of a request": half_body,
    "half a message of a WebSocket": half_message,
}


def _is_connected(connection: socket.socket) -> bool:
    """The broker has not hung up. What it has said is not looked at."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as plain:
            return plain.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def measure(kind: Callable[[int], socket.socket], count: int) -> tuple[int, int]:
    """Bytes by which a broker grows with so many strangers, and how many of them are connected then."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder)) as broker,
        contextlib.ExitStack() as open_sockets,
    ):
        # What is loaded with the first connection of its kind is not for each of them.
        kind(broker.port).close()
        time.sleep(SETTLING_S)
        before = resident_bytes(broker.pid)
        # At once, since a stranger has 20 seconds, and 10 before it says anything.
        with ThreadPoolExecutor(CONNECTING_THREADS) as threads:
            strangers = list(threads.map(kind, [broker.port] * count))
        for stranger in strangers:
            open_sockets.enter_context(contextlib.closing(stranger))
        time.sleep(SETTLING_S)
        return resident_bytes(broker.pid) - before, sum(_is_connected(stranger) for stranger in strangers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    allow_open_files(2 * chosen.count + 100)
    bound = MAX_BYTES_OF_1000_STRANGERS * chosen.count // 1_000
    print(f"| {chosen.count} strangers | memory | each | still connected |")
    print("|---|---|---|---|")
    is_exceeded = False
    for name, kind in KINDS.items():
        if chosen.only in name:
            grown, connected = measure(kind, chosen.count)
            is_exceeded = is_exceeded or grown > bound
            print(f"| {name} | {grown / 1e6:.0f} MB | {grown / chosen.count / 1e3:.0f} KB | {connected} |", flush=True)
    print(f"\nThe bound is {bound / 1e6:.0f} MB.")
    sys.exit(1 if is_exceeded else 0)


if __name__ == "__main__":
    main()
