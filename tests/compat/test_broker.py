"""The test harness `tandem.testing.Broker`, and the JSON API that it manages queues with."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tandem.auth.sas import make_token
from tandem.errors import RemoteError, StateError
from tandem.testing import Broker, BrokerFailed
from tests.compat.sdk import TEST_LIMIT_S, Bus
from tests.markers import mission
from tests.patience import PATIENCE_S

# Tests of this module start the broker up to three times.
pytestmark = pytest.mark.timeout(TEST_LIMIT_S)


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that the tests of this module may end, if they start it again. It makes its own keys."""
    with Broker(tmp_path_factory.mktemp("own"), arguments=()) as broker:
        yield broker


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def answer_to(broker: Broker, method: str, path: str, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body=b"{}" if method == "PUT" else None, headers=headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


# --- the process ----------------------------------------------------------------------------------------------------


def test_a_stopped_broker_ends_with_exit_code_zero_and_starts_again_on_its_ports(own_broker: Broker) -> None:
    ports, pid = (own_broker.port, own_broker.http_port), own_broker.pid
    assert own_broker.stop() == 0
    assert not own_broker.is_running
    own_broker.start()
    assert own_broker.pid != pid
    assert (own_broker.port, own_broker.http_port) == ports
    own_broker.queues()


def test_a_killed_broker_is_gone_at_once(own_broker: Broker) -> None:
    pid = own_broker.pid
    own_broker.kill()
    assert not is_alive(pid)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", own_broker.port), timeout=PATIENCE_S)
    own_broker.restart()
    assert own_broker.is_running


def test_no_process_is_left_behind_by_a_failing_test(tmp_path: Path) -> None:
    class TestFailed(Exception):
        pass

    def fail() -> None:
        with Broker(tmp_path / "data") as broker:
            pids.append(broker.pid)
            raise TestFailed

    pids: list[int] = []
    with pytest.raises(TestFailed):
        fail()
    assert not is_alive(pids[0])


def test_the_ready_line_names_both_ports(own_broker: Broker) -> None:
    (line,) = own_broker.stdout.splitlines()
    assert line == f"ready amqp://127.0.0.1:{own_broker.port} http://127.0.0.1:{own_broker.http_port}"


def test_bad_configuration_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", arguments=["--dev", "--config", str(tmp_path / "missing.toml")])
    with contextlib.closing(broker):
        with pytest.raises(BrokerFailed, match=r"ended with exit code [1-9](.|\n)*missing\.toml"):
            broker.start()
        (line,) = broker.stderr.splitlines()
        assert "missing.toml" in line


def test_a_broker_cannot_be_started_twice(own_broker: Broker) -> None:
    with pytest.raises(StateError):
        own_broker.start()


def test_without_dev_the_keys_are_made_at_the_first_start_and_kept(own_broker: Broker) -> None:
    before = own_broker.connection_string
    assert "SAS_KEY_VALUE" not in before
    own_broker.restart()
    own_broker.create_queue("orders")
    client = ServiceBusClient.from_connection_string(before, retry_total=0)
    with client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("hello"))
    assert own_broker.queue("orders")["active_message_count"] == 1


# --- the JSON API ---------------------------------------------------------------------------------------------------


def test_a_new_queue_has_the_defaults_of_the_service(bus: Bus) -> None:
    queue = bus.queue()
    fields = bus.broker.queue(queue.name)
    expected = {
        "name": queue.name,
        "lock_duration_ms": 60_000,
        "max_size_in_megabytes": 1_024,
        "requires_duplicate_detection": False,
        "requires_session": False,
        "default_message_time_to_live_ms": None,
        "dead_lettering_on_message_expiration": False,
        "duplicate_detection_history_time_window_ms": 600_000,
        "max_delivery_count": 10,
        "enable_batched_operations": True,
        "status": "Active",
        "auto_delete_on_idle_ms": None,
        "enable_partitioning": False,
        "forward_to": None,
        "forward_dead_lettered_messages_to": None,
        "user_metadata": None,
        "max_message_size_in_kilobytes": 256,
        "message_count": 0,
        "size_in_bytes": 0,
    }
    assert {name: fields[name] for name in expected} == expected
    assert fields["created_at_ms"] <= fields["updated_at_ms"]


def test_a_queue_is_created_once_listed_updated_and_deleted(broker: Broker) -> None:
    name = f"orders/eu-{uuid.uuid4().hex}"
    broker.create_queue(name, max_delivery_count=3)
    with pytest.raises(RemoteError) as refusal:
        broker.create_queue(name.upper())
    assert refusal.value.condition == "com.microsoft:entity-already-exists"
    assert name in [queue["name"] for queue in broker.queues()]
    broker.update_queue(name, lock_duration_ms=5_000)
    fields = broker.queue(name)
    assert (fields["lock_duration_ms"], fields["max_delivery_count"]) == (5_000, 3)
    broker.delete_queue(name)
    with pytest.raises(RemoteError) as refusal:
        broker.queue(name)
    assert refusal.value.condition == "amqp:not-found"


@mission("M17")
@pytest.mark.parametrize(
    "fields",
    [
        {"lock_duration_ms": 0},
        {"lock_duration_ms": 300_001},
        {"max_delivery_count": 0},
        {"max_delivery_count": "many"},
        {"status": "Sleepy"},
        {"no_such_field": 1},
        {"user_metadata": "x" * 1_025},
        {"forward_to": "no-such-queue"},
    ],
    ids=",".join,
)
def test_a_setting_that_cannot_be_is_refused_by_its_name(bus: Bus, fields: dict[str, Any]) -> None:
    with pytest.raises(RemoteError) as refusal:
        bus.queue(**fields)
    assert next(iter(fields)) in refusal.value.description


def test_health_needs_no_token_and_queues_do(broker: Broker) -> None:
    assert answer_to(broker, "GET", "/health") == (200, {"status": "healthy", "message": "Service is healthy."})
    status, answer = answer_to(broker, "GET", "/$api/v1/queues")
    assert status == 401
    assert answer["error"]["status"] == 401
    status, _ = answer_to(
        broker, "GET", "/$api/v1/queues", Authorization="SharedAccessSignature sr=x&sig=y&se=4102444800&skn=z"
    )
    assert status == 401


@mission("M17")
def test_queues_are_managed_with_the_right_to_manage_only(broker: Broker) -> None:
    resource = f"http://127.0.0.1:{broker.http_port}/"
    token = make_token(resource, "Listener", "key-of-listener", int(time.time()) + 3_600)
    status, answer = answer_to(broker, "PUT", f"/$api/v1/queues/{uuid.uuid4().hex}", Authorization=token)
    assert status in {401, 403}
    assert "'Manage' claim" in answer["error"]["message"]


def test_a_deleted_queue_takes_its_messages_with_it(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("hello")
    bus.broker.delete_queue(queue.name)
    bus.broker.create_queue(queue.name)
    assert queue.drain() == []
