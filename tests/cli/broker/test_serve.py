"""`tandem serve` and `tandem connection-string`, as child processes."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tandem.management.http_client import BrokerUnreachable
from tandem.testing.ports import PortReservation
from tests.cli.program import one_line, serving, tandem, tandem_here
from tests.patience import PATIENCE_S

TOML = """
namespace = "orders-eu"

[[queues]]
name = "orders"
max_delivery_count = 3
forward_dead_lettered_messages_to = "dead"

[[queues]]
name = "dead"
"""

# A broker whose end never comes.
ENDLESS_STOP = """
import asyncio
from tandem.server.broker import Broker

async def stop(broker):
    print("stopping", flush=True)
    await asyncio.Event().wait()

Broker.stop = stop
"""

# A disk whose fsync fails.
FAILING_COMMIT = """
from tandem.errors import StoreFailed
from tandem.store.sqlite import SqliteStore

def commit(store):
    raise StoreFailed("the disk is gone")

SqliteStore.commit = commit
"""


def health(port: int) -> Any:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", "/health")
        return json.loads(connection.getresponse().read())


def local(port: int) -> ConnectionString:
    return ConnectionString("127.0.0.1", port)


# --- start and stop -------------------------------------------------------------------------------------------------


def test_one_line_tells_the_ports_and_every_port_speaks_everything(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--dev") as broker:
        assert broker.host == "127.0.0.1"
        assert len({broker.port, broker.http_port, 0}) == 3
        for port in (broker.port, broker.http_port):
            assert health(port) == {"status": "healthy", "message": "Service is healthy."}
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
                connection.sendall(b"AMQP\x03\x01\x00\x00")
                assert connection.recv(8) == b"AMQP\x03\x01\x00\x00"
        assert broker.stop() == (0, "", "")


def test_ctrl_c_ends_it_as_sigterm_does(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--dev", "--tls", "off") as broker:
        assert broker.stop(signal.SIGINT) == (0, "", "")


def test_a_client_that_does_not_leave_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "data", "--dev", "--tls", "off") as broker,
        socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S) as amqp,
        socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S),
        contextlib.closing(http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=PATIENCE_S)) as kept_alive,
    ):
        amqp.sendall(b"AMQP\x00\x01\x00\x00")
        assert amqp.recv(8)
        kept_alive.request("GET", "/health")
        kept_alive.getresponse().read()
        assert broker.stop()[0] == 0


def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--dev", "--tls", "off", prelude=ENDLESS_STOP) as broker:
        broker.process.send_signal(signal.SIGINT)
        assert broker.process.stdout is not None
        assert broker.process.stdout.readline() == "stopping\n"
        code, _, errors = broker.stop(signal.SIGINT)
    assert code == 130
    assert len(errors.splitlines()) == 1


def test_a_store_that_fails_ends_it_at_once_and_acknowledges_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--dev", "--tls", "off", prelude=FAILING_COMMIT) as broker:
        with pytest.raises(BrokerUnreachable):
            ManagementClient(local(broker.port)).queues.create("orders", {})
        output, errors = broker.process.communicate(timeout=PATIENCE_S)
        assert (broker.process.returncode, output, errors) == (1, "", "tandem: the disk is gone\n")
    with serving(tmp_path / "data", "--dev", "--tls", "off") as broker:
        assert list(ManagementClient(local(broker.port)).queues.list_all()) == []


def test_two_brokers_on_one_data_directory_are_one_too_many(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--dev", "--tls", "off") as broker:
        ports = ("--port", "0", "--http-port", "0")
        refused = one_line(tandem_here("serve", "--data-dir", tmp_path / "data", "--dev", *ports))
        assert str(tmp_path / "data") in refused
        assert "in use by another broker" in refused
        assert health(broker.http_port)


def test_a_connection_string_without_the_emulator_flag_means_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "data", "--dev") as broker:
        manager = ManagementClient(ConnectionString("localhost", broker.port, is_emulator=False)).queues
        with pytest.raises(BrokerUnreachable, match="certificate"):
            manager.create("orders", {})
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "data" / "tls" / "ca.pem"))
        assert manager.create("orders", {})["name"] == "orders"


# --- keys -----------------------------------------------------------------------------------------------------------


def test_keys_are_made_at_the_first_start_and_kept_over_a_restart(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir, "--tls", "off") as broker:
        # Where the broker runs, its folder is the default.
        (data_dir.parent / "tandem-data").symlink_to(data_dir)
        printed = tandem("connection-string", "--port", str(broker.port), "--host", "127.0.0.1", folder=tmp_path)
        assert printed.returncode == 0
        key = ConnectionString.parse(printed.stdout.strip()).key
        assert key != "SAS_KEY_VALUE"
        ManagementClient(ConnectionString.parse(printed.stdout.strip())).queues.create("orders", {})
        assert broker.stop()[0] == 0
    assert stat.S_IMODE((data_dir / "keys.json").stat().st_mode) == 0o600
    with serving(data_dir, "--tls", "off") as broker:
        again = ConnectionString("127.0.0.1", broker.http_port, key=key)
        assert [queue["name"] for queue in ManagementClient(again).queues.list_all()] == ["orders"]


def test_the_connection_string_can_be_asked_for_before_the_first_start(tmp_path: Path) -> None:
    printed = tandem_here("connection-string", "--data-dir", tmp_path / "data", "--json")
    line = json.loads(printed.stdout)["connection_string"]
    assert line.startswith("Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;")
    key = ConnectionString.parse(line).key
    with serving(tmp_path / "data", "--tls", "off") as broker:
        ManagementClient(ConnectionString("127.0.0.1", broker.port, key=key)).queues.create("orders", {})


def test_the_connection_string_for_development_is_the_one_of_the_official_emulator(tmp_path: Path) -> None:
    printed = tandem_here("connection-string", "--dev", folder=tmp_path)
    assert printed.stdout == (
        "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
        "UseDevelopmentEmulator=true;\n"
    )
    assert list(tmp_path.iterdir()) == []


# --- configuration --------------------------------------------------------------------------------------------------


def test_queues_of_the_configuration_are_created_and_those_that_exist_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tandem.toml").write_text(TOML)
    options = ("--dev", "--tls", "off", "--config", tmp_path / "tandem.toml")
    with serving(tmp_path / "data", *options) as broker:
        manager = ManagementClient(local(broker.port)).queues
        assert manager.show("orders")["max_delivery_count"] == 3
        assert manager.show("orders")["forward_dead_lettered_messages_to"] == "dead"
        manager.update("orders", {"max_delivery_count": 7})
        assert broker.stop()[0] == 0
    with serving(tmp_path / "data", *options) as broker:
        assert ManagementClient(local(broker.port)).queues.show("orders")["max_delivery_count"] == 7


def test_the_config_of_the_official_emulator_is_taken_with_its_queues_topics_and_rules(tmp_path: Path) -> None:
    queues = [{"Name": "queue.1", "Properties": {"LockDuration": "PT30S"}}]
    rule = {"Name": "r", "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a = 1"}}}
    topics = [{"Name": "topic.1", "Subscriptions": [{"Name": "s", "Rules": [rule]}]}]
    document = {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": queues, "Topics": topics}]}}
    (tmp_path / "Config.json").write_text(json.dumps(document))
    with serving(tmp_path / "data", "--dev", "--tls", "off", "--config", tmp_path / "Config.json") as broker:
        client = ManagementClient(local(broker.http_port))
        assert client.queues.show("queue.1")["lock_duration_ms"] == 30_000
        assert client.rules("topic.1", "s").show("r")["filter"]["expression"] == "a = 1"
        code, _, errors = broker.stop()
    assert (code, errors) == (0, "")


def test_the_environment_variables_of_the_official_emulator_count(tmp_path: Path) -> None:
    (tmp_path / "Config.json").write_text('{"UserConfig": {"Namespaces": [{"Queues": [{"Name": "queue.1"}]}]}}')
    with (
        PortReservation(1) as reservation,
        serving(
            tmp_path / "data",
            "--dev",
            "--tls",
            "off",
            picks_http_port=False,
            EMULATOR_HTTP_PORT=str(reservation.ports[0]),
            CONFIG_PATH=str(tmp_path / "Config.json"),
            ACCEPT_EULA="Y",
        ) as broker,
    ):
        (port,) = reservation.ports
        assert broker.http_port == port
        assert [queue["name"] for queue in ManagementClient(local(port)).queues.list_all()] == ["queue.1"]


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["--config", "missing.toml"], "missing.toml: it cannot be read: No such file"),
        (["--config", "bad.toml"], "bad.toml, line 3: queues[0]: max_delivery_count is 0"),
        (["--namespace", "no spaces"], "--namespace is 'no spaces'"),
        (["--port", "65536"], "'--port'"),
        (["--log-level", "loud"], "'--log-level'"),
        (["--no-such-option"], "--no-such-option"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused_before_anything_is_opened(tmp_path: Path, arguments: list[str], reason: str) -> None:
    (tmp_path / "bad.toml").write_text("[[queues]]\nname = 'a'\nmax_delivery_count = 0")
    assert reason in one_line(tandem_here("serve", *arguments, folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["--config", "nowhere.toml"], "the queue 'a': forward_to is 'nowhere'"),
        (["--data-dir", "nowhere.toml"], "nowhere.toml"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_bad_configuration_is_one_line_and_an_exit_code(tmp_path: Path, arguments: list[str], reason: str) -> None:
    (tmp_path / "nowhere.toml").write_text("[[queues]]\nname = 'a'\nforward_to = 'nowhere'")
    refused = tandem_here(
        "serve", "--dev", "--tls", "off", "--port", "0", "--http-port", "0", *arguments, folder=tmp_path
    )
    assert reason in one_line(refused)


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = tandem_here(
            "serve", "--dev", "--tls", "off", "--port", "0", "--http-port", str(port), folder=tmp_path
        )
        line = one_line(refused)
    assert line.startswith(f"tandem: --http-port: cannot listen on 127.0.0.1:{port}: ")
    assert "stop the process that listens there, or choose another port" in line
    assert "in use" in line
