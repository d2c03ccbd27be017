"""Names of namespaces on the command line: printed by `connection-string`, and understood by `pair` and `syphon`."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.client import sync
from tandem.pairing import SendAvailabilityPairedNamespaceOptions
from tandem.testing import Broker
from tests.cli.program import tandem_here
from tests.markers import mission

DEVELOPMENT_STRING = (
    "Endpoint=sb://localhost:5672;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
    "UseDevelopmentEmulator=true;\n"
)

# --- connection-string ----------------------------------------------------------------------------------------------


# Any: the parameters of the system's function.
def resolving(monkeypatch: pytest.MonkeyPatch, *, names_below_localhost: bool) -> None:
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if not str(host).endswith(".localhost"):
            return resolve(host, *arguments, **options)
        if not names_below_localhost:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_the_name_of_the_default_namespace_is_in_the_host_if_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving(monkeypatch, names_below_localhost=True)
    printed = tandem_here("connection-string", "--dev", "--namespace", "sales", folder=tmp_path)
    assert printed.stdout == DEVELOPMENT_STRING.replace("localhost", "sales.localhost")
    assert printed.stderr == ""


def test_without_a_name_the_host_is_one_that_every_system_resolves(tmp_path: Path) -> None:
    printed = tandem_here("connection-string", "--dev", folder=tmp_path)
    assert (printed.stdout, printed.stderr) == (DEVELOPMENT_STRING, "")


def test_a_host_that_is_given_is_respected(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "localhost", "broker.example"):
        printed = tandem_here("connection-string", "--dev", "--namespace", "sales", "--host", host, folder=tmp_path)
        assert (printed.stdout, printed.stderr) == (DEVELOPMENT_STRING.replace("localhost", host), "")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_where_the_name_does_not_resolve_a_note_says_what_the_official_sdks_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    resolving(monkeypatch, names_below_localhost=False)
    printed = tandem_here("connection-string", "--dev", "--namespace", "sales", *options, folder=tmp_path)
    assert printed.returncode == 0
    assert len(printed.stdout.splitlines()) == 1
    assert "'127.0.0.1 sales.localhost' in /etc/hosts" in printed.stderr


# --- pair and syphon ------------------------------------------------------------------------------------------------


@pytest.fixture
def sales(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "sales", arguments=("--dev", "--allow-faults", "--namespace", "sales")) as broker:
        yield broker


@pytest.fixture
def backup(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "backup", arguments=("--dev", "--namespace", "backup")) as broker:
        yield broker


def spelled(broker: Broker, host: str) -> str:
    return broker.connection_string.replace("127.0.0.1", host)


def pair(primary: str, secondary: str, queue: str, count: int, **chosen: Any) -> None:
    """Send messages to a queue by a paired client."""
    with (
        sync.MessagingFactory.from_connection_string(primary) as factory,
        sync.MessagingFactory.from_connection_string(secondary) as other,
    ):
        manager = sync.NamespaceManager.from_connection_string(secondary)
        factory.pair_namespace(SendAvailabilityPairedNamespaceOptions(manager, other, 2, timedelta(0), **chosen))
        client = factory.create_queue_client(queue)
        client.send_batch([sync.BrokeredMessage(str(number)) for number in range(count)])


@contextlib.contextmanager
def refusing(broker: Broker, queue: str) -> Iterator[None]:
    broker.create_queue(queue)
    broker.request("POST", "/$api/v1/faults", {"kind": "refuse-sends", "entity": queue, "error": "internal-error"})
    yield
    broker.request("DELETE", "/$api/v1/faults")


def run(primary: str, secondary: Broker, *arguments: str) -> Any:
    return tandem_here(*arguments, "--secondary", secondary.connection_string, connection_string=primary)


@mission("M21", "M26")
@pytest.mark.parametrize("host", ["localhost", "sales.localhost"])
def test_a_syphon_moves_what_was_diverted_by_another_spelling(sales: Broker, backup: Broker, host: str) -> None:
    with refusing(sales, "orders"):
        pair(spelled(sales, "127.0.0.1"), backup.connection_string, "orders", 10)
    status = json.loads(run(spelled(sales, host), backup, "pair", "status", "--json").stdout)
    assert status["primary_namespace"] == "sales"
    assert sum(queue["active"] for queue in status["backlog_queues"]) == 10
    done = run(spelled(sales, host), backup, "syphon", "run", "--until-empty", "--json")
    assert (done.returncode, json.loads(done.stdout)["moved"]) == (0, 10)
    assert sales.queue("orders")["active_message_count"] == 10


def test_a_syphon_moves_what_was_diverted_under_a_name_of_its_own_and_says_so(sales: Broker, backup: Broker) -> None:
    with refusing(sales, "orders"):
        pair(sales.connection_string, backup.connection_string, "orders", 3, primary_namespace="shop")
    done = run(sales.connection_string, backup, "syphon", "run", "--until-empty")
    assert "2 backlog queues of sales, shop" in done.stdout
    assert "moved 3 messages" in done.stdout


def test_a_syphon_with_a_chosen_name_says_what_it_leaves_out(sales: Broker, backup: Broker) -> None:
    with refusing(sales, "orders"):
        pair(sales.connection_string, backup.connection_string, "orders", 3)
    backup.create_queue("shop/x-servicebus-transfer/0")
    done = run(sales.connection_string, backup, "syphon", "run", "--until-empty", "--primary-namespace", "shop")
    assert "backlog queues under the name sales, with 3 messages" in done.stderr


def test_a_syphon_that_finds_no_backlog_says_so_and_fails(sales: Broker, backup: Broker) -> None:
    nothing = run(sales.connection_string, backup, "syphon", "run", "--until-empty")
    assert nothing.returncode == 1
    assert "has no backlog queues of 'sales': nothing was paired yet" in nothing.stderr
    backup.create_queue("localhost-5672/x-servicebus-transfer/0")
    with sync.MessagingFactory.from_connection_string(backup.connection_string) as factory:
        factory.create_queue_client("localhost-5672/x-servicebus-transfer/0").send(sync.BrokeredMessage("old"))
    others = run(sales.connection_string, backup, "syphon", "run", "--until-empty")
    assert others.returncode == 1
    assert "'localhost-5672' (1 messages)" in others.stderr
    assert "--primary-namespace" in others.stderr


def test_a_syphon_with_a_wrong_key_or_a_host_that_does_not_exist_fails(sales: Broker, backup: Broker) -> None:
    wrong = sales.connection_string.replace("SAS_KEY_VALUE", "not the key")
    assert run(wrong, backup, "syphon", "run", "--until-empty").returncode == 1
    done = run(spelled(sales, "no-such-host.invalid"), backup, "syphon", "run", "--until-empty")
    assert done.returncode == 1
    assert "no host of that name" in done.stderr


def test_check_notices_that_both_namespaces_are_one(backup: Broker) -> None:
    done = run(spelled(backup, "backup.localhost"), backup, "pair", "check", "--json")
    assert done.returncode == 1
    (finding,) = [one for one in json.loads(done.stdout)["findings"] if one["what"] == "pair: two different namespaces"]
    assert not finding["is_ok"]
    assert "both namespaces of the pair are one" in finding["detail"]


def test_check_notices_backlog_queues_of_another_namespace(tmp_path: Path, sales: Broker, backup: Broker) -> None:
    sales.create_queue("orders")
    pair(sales.connection_string, backup.connection_string, "orders", 1)
    with Broker(tmp_path / "other", arguments=("--dev", "--namespace", "sales")) as other:
        done = run(other.connection_string, backup, "pair", "check", "--backlog-queues", "1", "--json")
        assert done.returncode == 1
        (finding,) = [one for one in json.loads(done.stdout)["findings"] if one["what"] == "backlog queue 0"]
        assert "belongs to another namespace" in finding["detail"]
        refused = run(other.connection_string, backup, "syphon", "run", "--until-empty")
        assert refused.returncode == 1
        assert "belongs to another namespace" in refused.stderr


def test_a_primary_that_takes_the_place_of_another_gets_its_backlog_when_the_marks_are_removed(
    tmp_path: Path, sales: Broker, backup: Broker
) -> None:
    with refusing(sales, "orders"):
        pair(sales.connection_string, backup.connection_string, "orders", 4)
    with Broker(tmp_path / "other", arguments=("--dev", "--namespace", "sales")) as other:
        other.create_queue("orders")
        refused = run(other.connection_string, backup, "syphon", "run", "--until-empty")
        assert "tandem queue update QUEUE --user-metadata ''" in refused.stderr
        for number in range(2):
            path = f"sales/x-servicebus-transfer/{number}"
            arguments = ("queue", "update", path, "--user-metadata", "")
            assert tandem_here(*arguments, connection_string=backup.connection_string).returncode == 0
        done = run(other.connection_string, backup, "syphon", "run", "--until-empty", "--json")
        assert json.loads(done.stdout)["moved"] == 4, done.stderr
        assert other.queue("orders")["active_message_count"] == 4
