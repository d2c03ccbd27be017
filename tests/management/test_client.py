"""The other side of the JSON API."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from tandem.connection_string import ConnectionString
from tandem.errors import RemoteError
from tandem.hosts import dialled_host
from tandem.management.client import Collection, ManagementClient
from tandem.management.http_client import BrokerUnreachable

BODIES = {
    "text": (200, b"hello"),
    "list": (200, b"[]"),
    "gateway": (502, b"<html>bad gateway</html>"),
    "strange": (400, b'{"error": "no object"}'),
    "refusal": (409, b'{"error": {"condition": "some:condition", "message": "No.", "status": 409}}'),
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = BODIES[self.path.rpartition("/")[2]]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def manager() -> Iterator[Collection]:
    """Of something that answers, and is no broker."""
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield ManagementClient(ConnectionString("127.0.0.1", server.server_address[1])).queues
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["text", "list", "gateway", "strange"])
def test_who_is_no_broker_is_recognised(manager: Collection, name: str) -> None:
    with pytest.raises(BrokerUnreachable, match="not a Tandem broker"):
        manager.show(name)


def test_a_refusal_has_the_condition_and_the_words_of_the_broker(manager: Collection) -> None:
    with pytest.raises(RemoteError) as refusal:
        manager.show("refusal")
    assert (refusal.value.condition, refusal.value.description) == ("some:condition", "No.")


def test_who_does_not_answer_is_named_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with pytest.raises(BrokerUnreachable, match=rf"http://127\.0\.0\.1:{port}: Connection refused"):
        ManagementClient(ConnectionString("127.0.0.1", port)).queues.show("orders")


@pytest.mark.parametrize(
    "host, dialled",
    [
        ("localhost", "localhost"),
        ("support.localhost", "localhost"),
        ("Support.LOCALHOST.", "localhost"),
        ("localhost.example.org", "localhost.example.org"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_names_below_localhost_are_this_machine(host: str, dialled: str) -> None:
    assert dialled_host(host) == dialled
