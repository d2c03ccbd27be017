"""`tandem key` and several namespaces in one broker."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tests.cli.program import Commands, Serving, one_line, serving, tandem_here

TOML = """
[[namespace]]
name = "sales"

[[namespace.queues]]
name = "orders"

[[namespace.authorization_rules]]
name = "readers"
rights = ["Listen"]

[[namespace]]
name = "Support"

[[namespace.queues]]
name = "tickets"
"""


class House:
    """A broker with two namespaces, `sales` and `Support`, each with keys of its own."""

    def __init__(self, data_dir: Path, broker: Serving) -> None:
        self.data_dir = data_dir
        self.broker = broker

    def connection_string(self, *options: str) -> str:
        port = str(self.broker.port)
        printed = tandem_here("connection-string", "--data-dir", self.data_dir, "--port", port, *options)
        assert printed.returncode == 0, printed.stderr
        return printed.stdout.strip()

    def keys(self, *options: str) -> Commands:
        return Commands(ConnectionString.parse(self.connection_string(*options)), "key")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    (folder / "tandem.toml").write_text(TOML)
    with serving(folder / "data", "--tls", "off", "--config", folder / "tandem.toml") as broker:
        yield House(folder / "data", broker)


def queues(connection_string: str) -> list[str]:
    client = ManagementClient(ConnectionString.parse(connection_string))
    return [queue["name"] for queue in client.queues.list_all()]


# --- namespaces -----------------------------------------------------------------------------------------------------


def test_each_namespace_has_its_own_entities_keys_and_connection_string(house: House) -> None:
    sales, support = house.connection_string(), house.connection_string("--namespace", "support")
    assert "sb://localhost:" in sales
    assert sales.replace("localhost", "sales.localhost") == house.connection_string("--namespace", "sales")
    assert "sb://support.localhost:" in support
    assert (queues(sales), queues(support)) == (["orders"], ["tickets"])
    assert ConnectionString.parse(sales).key != ConnectionString.parse(support).key
    refused = tandem_here("queue", "list", connection_string=support.replace("support.", ""))
    assert "InvalidSignature" in one_line(refused)


def test_messages_find_their_namespace_too(house: House) -> None:
    support = house.connection_string("--namespace", "support")
    assert tandem_here("send", "tickets", "help", connection_string=support).returncode == 0
    received = tandem_here("receive", "tickets", "--body-only", connection_string=support)
    assert received.stdout == "help"
    refused = tandem_here("send", "tickets", "help", connection_string=house.connection_string())
    assert "'tickets' could not be found" in one_line(refused)


def test_a_host_by_which_another_namespace_is_found_is_refused(house: House) -> None:
    arguments = ("connection-string", "--data-dir", house.data_dir, "--namespace", "support", "--host", "10.0.0.1")
    assert "support.localhost" in one_line(tandem_here(*arguments))
    assert "sb://Support.localhost:" in house.connection_string("--namespace", "support", "--host", "Support.localhost")


# --- keys -----------------------------------------------------------------------------------------------------------


def test_rules_of_the_configuration_are_there_and_keys_are_shown_only_if_asked_for(house: House) -> None:
    keys = house.keys()
    listed = {rule["name"]: rule for rule in keys.json("list")["authorization_rules"]}
    assert listed["readers"] == {"name": "readers", "rights": ["Listen"], "entity": ""}
    assert listed["RootManageSharedAccessKey"]["rights"] == ["Send", "Listen", "Manage"]
    (readers,) = [rule for rule in keys.json("list", "--show-keys")["authorization_rules"] if rule["name"] == "readers"]
    assert readers["primary_key"] not in keys.run("list")
    assert len({readers["primary_key"], readers["secondary_key"]}) == 2
    others = house.keys("--namespace", "support").json("list")["authorization_rules"]
    assert [rule["name"] for rule in others] == ["RootManageSharedAccessKey"]


def test_a_rule_is_created_rotated_and_deleted(house: House) -> None:
    keys = house.keys()
    created = keys.json("create", "auditor", "--right", "Listen", "--right", "Manage")
    assert created["rights"] == ["Send", "Listen", "Manage"]
    first = created["connection_string"]
    assert queues(first) == ["orders"]
    rotated = keys.json("rotate", "auditor")
    assert rotated["primary_key"] != created["primary_key"]
    assert rotated["secondary_key"] == created["secondary_key"]
    assert "InvalidSignature" in one_line(tandem_here("queue", "list", connection_string=first))
    assert queues(rotated["connection_string"]) == ["orders"]
    second = keys.run("rotate", "auditor", "--key", "secondary").splitlines()[-1]
    assert queues(second) == ["orders"]
    stored = json.loads((house.data_dir / "keys.json").read_text())["rules"]
    assert ConnectionString.parse(second).key in [rule["secondary_key"] for rule in stored]
    assert keys.run("delete", "auditor").strip() == "deleted the rule auditor"
    assert "InvalidSignature" in one_line(tandem_here("queue", "list", connection_string=second))


def test_a_rule_of_an_entity_is_for_that_entity_only(house: House) -> None:
    keys = house.keys()
    shop = keys.run("create", "shop", "--right", "Send", "--entity", "orders").splitlines()[-1]
    assert shop.endswith(";EntityPath=orders;")
    assert tandem_here("send", "orders", "x", connection_string=shop).returncode == 0
    refused = tandem_here("receive", "orders", connection_string=shop)
    assert refused.returncode == 2
    assert "'Listen' claim(s) are required" in refused.stderr
    listed = keys.json("list", "--entity", "orders")["authorization_rules"]
    assert [rule["name"] for rule in listed] == ["shop"]
    keys.run("delete", "shop", "--entity", "orders")
    assert "There are no rules of orders" in keys.run("list", "--entity", "orders")
    assert tandem_here("send", "orders", "x", connection_string=shop).returncode == 1


def test_the_namespace_can_be_named_beside_the_connection_string(connection_string: ConnectionString) -> None:
    # With --dev every namespace has the same key; one that is not there means the default one.
    keys = Commands(connection_string, "key")
    assert keys.json("list", "--namespace", "other") == keys.json("list")
    remote = str(ConnectionString("broker.example.org", 5672))
    assert "broker.example.org" in keys.refusal("list", "--namespace", "other", "--connection-string", remote)


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ("create readers --right Listen", "'readers' exists already. `tandem key rotate`"),
        ("create x --right Dance", "'Dance' is not one of"),
        ("create x", "--right"),
        ("rotate missing", "'missing' could not be found. `tandem key list` shows"),
        ("delete missing", "'missing' could not be found"),
        ("delete RootManageSharedAccessKey", "is the last one with the Manage right"),
        ("list --entity missing", "'missing' could not be found"),
        ("list --namespace -", "--namespace is '-'"),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(house: House, arguments: str, reason: str) -> None:
    assert reason in house.keys().refusal(*arguments.split())


# --- reload ---------------------------------------------------------------------------------------------------------


def reloaded(broker: Serving, count: int) -> list[str]:
    """What the broker says about it, in so many lines."""
    broker.process.send_signal(signal.SIGHUP)
    assert broker.process.stderr is not None
    lines = [broker.process.stderr.readline() for _ in range(count)]
    assert all(line.startswith("tandem: reload: ") for line in lines), lines
    return [line.removeprefix("tandem: reload: ").strip() for line in lines]


def test_a_reload_creates_updates_and_deletes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "tandem.toml"
    subscription = "[[topics]]\nname = 'prices'\n[[topics.subscriptions]]\nname = 'all'\n"
    rule = "[[topics.subscriptions.rules]]\nname = 'r'\nfilter = {{ kind = 'sql', expression = '{}' }}\n"
    readers = "[[authorization_rules]]\nname = 'readers'\nrights = ['{}']\n"
    file.write_text(f"[[queues]]\nname = 'a'\nmax_delivery_count = 3\n{subscription}{rule.format('x = 1')}")
    with serving(tmp_path / "data", "--dev", "--tls", "off", "--config", file) as broker:
        client = ManagementClient(ConnectionString("127.0.0.1", broker.port))
        assert reloaded(broker, 1) == ["everything is as the file says"]
        client.queues.update("a", {"lock_duration_ms": 5_000})
        queues = "[[queues]]\nname = 'A'\nmax_delivery_count = 7\nforward_to = 'b'\n[[queues]]\nname = 'b'\n"
        file.write_text(f"port = 1\n{queues}{subscription}{rule.format('x = 2')}{readers.format('Listen')}")
        assert reloaded(broker, 5) == [
            "created the queue b",
            "updated the queue a: forward_to, max_delivery_count",
            "updated the rule r of the subscription prices/Subscriptions/all",
            "created the authorization rule readers",
            "port is 1 from the next start on",
        ]
        shown = client.queues.show("a")
        assert (shown["max_delivery_count"], shown["forward_to"], shown["lock_duration_ms"]) == (7, "b", 5_000)
        assert client.rules("prices", "all").show("r")["filter"]["expression"] == "x = 2"
        file.write_text(readers.format("Send"))
        assert reloaded(broker, 1) == ["updated the authorization rule readers"]
        assert [queue["name"] for queue in client.queues.list_all()] == ["a", "b"]
        assert broker.stop()[0] == 0


def test_a_wrong_file_changes_nothing_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "tandem.toml"
    file.write_text("[[queues]]\nname = 'a'\n")
    with serving(tmp_path / "data", "--dev", "--tls", "off", "--config", file) as broker:
        client = ManagementClient(ConnectionString("127.0.0.1", broker.port))
        before = client.queues.show("a")
        new = "[[queues]]\nname = 'new'\n"
        for text, reason in (
            (f"{new}[[queues]]\nname = 'a'\nmax_delivery_count = 0\n", f"--config {file}, line 5: queues[1]: max_"),
            (
                f"{new}[[queues]]\nname = 'a'\nrequires_session = true\n",
                "the queue 'a': requires_session is false and",
            ),
            (f"{new}[[queues]]\nname = 'a'\nforward_to = 'x'\n", "the queue 'a': forward_to is 'x', which neither"),
            (f"{new}[[topics]]\nname = 'a'\n", "the topic 'a': a queue of this name exists already"),
        ):
            file.write_text(text)
            (line,) = reloaded(broker, 1)
            assert line.startswith("nothing was changed: ")
            assert reason in line
        file.unlink()
        assert "No such file" in reloaded(broker, 1)[0]
        assert [queue["name"] for queue in client.queues.list_all()] == ["a"]
        assert client.queues.show("a") == before


def test_without_a_configuration_there_is_nothing_to_reload(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--dev", "--tls", "off") as broker:
        assert "--config" in reloaded(broker, 1)[0]
        assert broker.stop()[0] == 0
