"""`tandem namespace`, and the tier of a namespace on the command line and in the configuration."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tandem.connection_string import ConnectionString
from tandem.errors import RemoteError
from tandem.management.client import ManagementClient
from tests.cli.program import Commands, Serving, one_line, serving, tandem_here

OPTIONS = ("--dev", "--tls", "off")


def client_of(broker: Serving, host: str = "127.0.0.1") -> ManagementClient:
    return ManagementClient(ConnectionString(host, broker.port))


def tier_of(broker: Serving, host: str = "127.0.0.1") -> str:
    return str(client_of(broker, host).namespace()["tier"])


def reloaded(broker: Serving) -> str:
    """What the broker says about a reload, in one line."""
    broker.process.send_signal(signal.SIGHUP)
    assert broker.process.stderr is not None
    return broker.process.stderr.readline().removeprefix("tandem: reload: ").strip()


# --- tandem namespace -----------------------------------------------------------------------------------------------


def test_the_namespace_is_shown_with_its_tier_and_limits_and_its_tier_is_changed(tmp_path: Path) -> None:
    with serving(tmp_path / "data", *OPTIONS) as broker:
        namespace = Commands(ConnectionString("127.0.0.1", broker.port), "namespace")
        shown = namespace.run("show")
        assert "namespace sbemulatorns, tier tandem (on the service's own API: Standard)" in shown
        assert "max message size in kilobytes" in shown
        assert "102,400" in shown
        assert namespace.run("update", "--tier", "premium") == "the namespace sbemulatorns has the tier premium\n"
        assert "premium" in namespace.run("show")
        found = namespace.json("show")
        assert (found["tier"], found["messaging_sku"]) == ("premium", "Premium")
        assert found["limits"]["max_partitioned_entities"] == 0
        assert namespace.json("update", "--tier", "standard")["limits"]["max_message_size_in_kilobytes"] == 256
        assert "--tier is 'basic'; it must be one of tandem, standard, premium" in namespace.refusal(
            "update", "--tier", "basic"
        )


# --- tandem serve ---------------------------------------------------------------------------------------------------


def test_the_tier_of_the_command_line_is_kept_over_a_start_without_it(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir, *OPTIONS) as broker:
        assert tier_of(broker) == "tandem"
        assert broker.stop()[0] == 0
    with serving(data_dir, *OPTIONS, "--tier", "standard") as broker:
        assert tier_of(broker) == "standard"
        with pytest.raises(RemoteError, match="max_delivery_count is 2001; in the tier standard"):
            client_of(broker).queues.create("orders", {"max_delivery_count": 2_001})
        assert broker.stop()[0] == 0
    with serving(data_dir, *OPTIONS) as broker:
        assert tier_of(broker) == "standard"
        assert broker.stop()[0] == 0
    with serving(data_dir, *OPTIONS, "--tier", "tandem") as broker:
        assert tier_of(broker) == "tandem"


def test_the_configuration_sets_the_tier_of_each_namespace_and_the_option_that_of_the_default_one(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tandem.toml"
    file.write_text(
        "[[namespace]]\nname = 'sales'\ntier = 'standard'\n[[namespace.queues]]\nname = 'orders'\n"
        "[[namespace]]\nname = 'support'\ntier = 'premium'\n[[namespace.queues]]\nname = 'tickets'\n"
    )
    with serving(tmp_path / "data", *OPTIONS, "--config", file) as broker:
        assert tier_of(broker) == "standard"
        assert tier_of(broker, "support.localhost") == "premium"
        tickets = client_of(broker, "support.localhost").queues.show("tickets")
        assert tickets["max_message_size_in_kilobytes"] == 1_024
        assert broker.stop()[0] == 0
    with serving(tmp_path / "data", *OPTIONS, "--config", file, "--tier", "tandem") as broker:
        assert tier_of(broker) == "tandem"
        assert tier_of(broker, "support.localhost") == "premium"
        # Also after a reload.
        assert reloaded(broker) == "everything is as the file says"
        assert tier_of(broker) == "tandem"


def test_a_reload_changes_the_tier_and_refuses_what_it_does_not_offer_before_anything_is_done(tmp_path: Path) -> None:
    file = tmp_path / "tandem.toml"
    file.write_text("[[queues]]\nname = 'orders'\nmax_delivery_count = 5000\n")
    with serving(tmp_path / "data", *OPTIONS, "--config", file) as broker:
        file.write_text(f"tier = 'standard'\n{file.read_text()}")
        assert reloaded(broker) == "updated the tier: standard"
        # What exists keeps its settings.
        assert client_of(broker).queues.show("orders")["max_delivery_count"] == 5_000
        for table, name in (("queues", "new"), ("queues", "orders")):
            file.write_text(f"tier = 'premium'\n[[{table}]]\nname = '{name}'\nmax_delivery_count = 6000\n")
            assert reloaded(broker) == (
                f"nothing was changed: the queue '{name}': max_delivery_count is 6000; in the tier premium of this "
                "namespace it must be at most 2000"
            )
        assert tier_of(broker) == "standard"
        assert [queue["name"] for queue in client_of(broker).queues.list_all()] == ["orders"]


@pytest.mark.parametrize(
    "content, reason",
    [
        ("tier = 'basic'", "line 1: tier is 'basic'; it must be one of tandem, standard, premium"),
        ("tier = 2", "line 1: tier must be a text"),
        ("tier = 'standard'\n[[namespace]]\nname = 'a1'", "tier must be in one of the namespaces, as tier = ... below"),
        ("[[namespace]]\nname = 'a1'\ntier = ''", "line 3: namespace[0].tier is ''; it must be one of"),
        (
            "tier = 'premium'\n[[queues]]\nname = 'a'\n[[queues]]\nname = 'b'\nenable_partitioning = true",
            "the queue 'b': enable_partitioning is true: the tier premium of this namespace",
        ),
        (
            "tier = 'standard'\n[[hubs]]\nname = 'h'\npartition_count = 64",
            "the hub 'h': partition_count is 64; in the tier standard of this namespace it must be at most 32",
        ),
    ],
)
def test_a_configuration_that_the_tier_does_not_offer_is_one_line(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "tandem.toml").write_text(content)
    ports = ("--port", "0", "--http-port", "0", "--config", "tandem.toml")
    assert reason in one_line(tandem_here("serve", *OPTIONS, *ports, folder=tmp_path))


def test_another_name_for_a_tier_is_refused_with_the_option(tmp_path: Path) -> None:
    line = one_line(tandem_here("serve", *OPTIONS, "--tier", "basic", folder=tmp_path))
    assert "--tier is 'basic'; it must be one of tandem, standard, premium" in line
    assert list(tmp_path.iterdir()) == []
