"""`tandem fault` against a running broker that may fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.management.connection_string import ConnectionString
from tests.cli.program import Commands, serving, tandem_here
from tests.markers import mission


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectionString]:
    folder: Path = tmp_path_factory.mktemp("faulty")
    with serving(folder / "data", "--dev", "--tls", "off", "--allow-faults") as serving_broker:
        connection_string = ConnectionString("127.0.0.1", serving_broker.http_port)
        assert Commands(connection_string, "queue").json("create", "orders")["name"] == "orders"
        yield connection_string


@pytest.fixture
def faults(broker: ConnectionString) -> Iterator[Commands]:
    commands = Commands(broker, "fault")
    yield commands
    commands.run("clear", "--all")


@mission("M12")
def test_a_fault_is_injected_listed_met_and_cleared(faults: Commands) -> None:
    fault = faults.json("inject", "refuse-sends", "orders", "--error", "quota-exceeded", "--for", "30s")
    assert (fault["kind"], fault["error"], fault["ends_at_ms"] - fault["started_at_ms"]) == (
        "refuse-sends",
        "quota-exceeded",
        30_000,
    )
    refused = tandem_here("send", "orders", "x", connection_string=faults.connection_string)
    assert "broken on purpose" in refused.stderr
    (listed,) = faults.json("list")["faults"]
    assert (listed["id"], listed["hit_count"]) == (fault["id"], 1)
    table = faults.run("list")
    assert "refuse-sends" in table
    assert "for 30s" in table
    assert faults.run("clear", str(fault["id"])) == "cleared 1 fault\n"
    assert faults.run("list") == "Nothing fails on purpose.\n"
    sent = tandem_here("send", "orders", "x", connection_string=faults.connection_string)
    assert sent.returncode == 0


def test_a_sentence_says_what_fails_and_for_how_long(faults: Commands) -> None:
    assert "the namespace: throttle, until it is cleared" in faults.run("inject", "throttle", "--rate", "10")
    assert "orders: stall, for 1m" in faults.run("inject", "stall", "orders", "--delay", "5s", "--for", "1m")


def test_what_cannot_be_is_one_line_that_says_what_could(faults: Commands) -> None:
    assert "delay_ms is missing" in faults.refusal("inject", "stall", "orders")
    assert "it must be one of server-busy" in faults.refusal("inject", "refuse-sends", "--error", "oops")
    assert "one of them" in faults.refusal("clear")
    assert "there is no fault 999" in faults.refusal("clear", "999")


def test_a_broker_that_was_not_started_for_it_says_how(connection_string: ConnectionString) -> None:
    assert "--allow-faults" in Commands(connection_string, "fault").refusal("inject", "refuse-sends")
