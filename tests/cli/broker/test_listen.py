"""`tandem serve --listen`: one broker on several addresses, each of which serves every client."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType

from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tests.cli.program import Commands, one_line, serving, tandem_here
from tests.patience import PATIENCE_S

FREE_PORTS = ("--port", "0", "--http-port", "0")


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def with_tls(data_dir: Path, port: int) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=str(data_dir / "tls" / "ca.pem"))
    return http.client.HTTPSConnection("localhost", port, timeout=PATIENCE_S, context=context)


def test_every_address_is_printed_and_serves_the_official_sdk_over_amqp_tls_and_websocket(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir, "--dev", "--listen", "127.0.0.1:0", "--listen", "0") as broker:
        assert len(broker.further) == 2
        ports = [broker.port, broker.http_port, *map(port_of, broker.further)]
        assert len(set(ports)) == 4
        assert broker.further == [f"127.0.0.1:{port}" for port in ports[2:]]
        ManagementClient(ConnectionString("127.0.0.1", ports[3])).queues.create("orders", {})
        for number, port in enumerate(ports):
            line = str(ConnectionString("localhost", port))
            transport = TransportType.AmqpOverWebsocket if number % 2 else TransportType.Amqp
            secure: dict[str, Any] = {
                "transport_type": transport,
                "custom_endpoint_address": f"sb://localhost:{port}",
                "connection_verify": str(data_dir / "tls" / "ca.pem"),
            }
            for settings in ({}, secure):
                text = line if not settings else line.replace("UseDevelopmentEmulator=true;", "")
                with ServiceBusClient.from_connection_string(text, **settings) as client:
                    with client.get_queue_sender("orders") as sender:
                        sender.send_messages(ServiceBusMessage(f"{port}"))
                    with client.get_queue_receiver("orders", max_wait_time=PATIENCE_S) as receiver:
                        (message,) = receiver.receive_messages(1)
                        assert str(message) == f"{port}"
                        receiver.complete_message(message)
        assert broker.stop()[0] == 0


def test_an_address_for_tls_only_disconnects_whoever_speaks_anything_else(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir, "--dev", "--listen", "tls://127.0.0.1:0") as broker:
        (address,) = broker.further
        assert address.startswith("tls://127.0.0.1:")
        port = port_of(address)
        for hello in (b"AMQP\x00\x01\x00\x00", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
                connection.sendall(hello)
                with contextlib.suppress(ConnectionResetError):
                    assert connection.recv(1) == b""
        secure = with_tls(data_dir, port)
        secure.request("GET", "/health")
        assert json.loads(secure.getresponse().read())["status"] == "healthy"
        secure.close()


def test_the_addresses_are_shown_by_diagnose_and_to_a_client_with_a_token_by_health(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--dev", "--tls", "off", "--listen", "127.0.0.1:0") as broker:
        expected = [f"amqp://127.0.0.1:{broker.port}", f"http://127.0.0.1:{broker.http_port}", *broker.further]
        connection_string = ConnectionString("127.0.0.1", port_of(broker.further[0]))
        diagnose = Commands(connection_string, "diagnose")
        assert f"Listens on {', '.join(expected)}." in diagnose.run()
        assert diagnose.json()["addresses"] == expected
        client = ManagementClient(connection_string)
        assert client.request("GET", "/health")["addresses"] == expected
        stranger = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=PATIENCE_S)
        stranger.request("GET", "/health")
        assert "addresses" not in json.loads(stranger.getresponse().read())
        stranger.close()


def test_the_configuration_lists_addresses_and_the_option_wins_over_it(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").write_text('listen = ["127.0.0.1:0", "127.0.0.1:0"]')
    options = ("--dev", "--config", tmp_path / "tandem.toml")
    with serving(tmp_path / "data", *options) as broker:
        assert len(broker.further) == 2
    with serving(tmp_path / "data", *options, "--listen", "tls://0") as broker:
        (address,) = broker.further
        assert address.startswith("tls://127.0.0.1:")


def test_a_port_that_is_taken_is_named_with_its_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("serve", "--dev", "--tls", "off", *FREE_PORTS, "--listen", "0", "--listen", str(port))
        line = one_line(tandem_here(*arguments, folder=tmp_path))
    assert line.startswith(f"tandem: --listen {port}: cannot listen on 127.0.0.1:{port}: ")
    assert line.endswith("; stop the process that listens there, or choose another port")


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["--listen", "localhost"], "--listen is 'localhost'; write [tls://][HOST:]PORT"),
        (["--listen", "1", "--listen", "tls://1"], "--listen tls://1: --listen 1 listens there already"),
        (["--listen", "tls://1", "--tls", "off"], "--listen tls://1 wants TLS, and --tls is off"),
        (["--config", "bad.toml"], "bad.toml, line 2: listen[0] is 'nowhere'; write [tls://][HOST:]PORT"),
        (["--config", "worse.toml"], "worse.toml, line 1: listen must be a list"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_addresses_that_contradict_themselves_are_refused_before_anything_is_opened(
    tmp_path: Path, arguments: list[str], reason: str
) -> None:
    (tmp_path / "bad.toml").write_text("port = 0\nlisten = ['nowhere']")
    (tmp_path / "worse.toml").write_text("listen = 'nowhere'")
    assert reason in one_line(tandem_here("serve", *FREE_PORTS, *arguments, folder=tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.toml", "worse.toml"]
