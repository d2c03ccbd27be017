"""`tandem fault` against a running broker that may fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.connection_string import ConnectionString
from tandem.fault_kinds import DEFAULT_ERRORS, FaultKind, name_of_error
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


def test_a_sentence_says_what_fails_with_which_error_and_for_how_long(faults: Commands) -> None:
    assert "the namespace: throttle, until it is cleared" in faults.run("inject", "throttle", "--rate", "10")
    assert "orders: stall, for 1m" in faults.run("inject", "stall", "orders", "--delay", "5s", "--for", "1m")
    assert "orders: refuse-sends with internal-error, until" in faults.run("inject", "refuse-sends", "orders")


@mission("M15")
def test_a_restart_of_an_entity_is_said_to_be_over_and_leaves_nothing_to_clear(faults: Commands) -> None:
    sentence = faults.run("inject", "restart-entity", "orders")
    assert sentence.endswith("orders: restart-entity with timeout, which happened once and is over\n")
    assert faults.run("list") == "Nothing fails on purpose.\n"
    lasting = faults.run("inject", "restart-entity", "orders", "--for", "30s")
    assert lasting.endswith("orders: restart-entity with timeout, for 30s\n")
    assert len(faults.json("list")["faults"]) == 1


def test_the_help_names_every_kind_and_the_error_that_each_answers_with_by_default(faults: Commands) -> None:
    # Lines break after hyphens too.
    shown = " ".join(faults.run("inject", "--help").split()).replace("- ", "-")
    for kind in FaultKind:
        assert kind.value in shown
    for kind, error in DEFAULT_ERRORS.items():
        listed = shown.split(f"{name_of_error(error)} for ")[1].split(";")[0]
        assert kind.value in listed


def test_a_mistake_is_one_line_in_the_words_of_the_command_line(faults: Commands) -> None:
    assert "--delay is missing: stall needs it" in faults.refusal("inject", "stall", "orders")
    assert "--delay is 1h; it must be between 1ms and 15m" in faults.refusal(
        "inject", "stall", "orders", "--delay", "1h"
    )
    assert "--error is 'oops'; it must be one of server-busy" in faults.refusal(
        "inject", "refuse-sends", "--error", "oops"
    )
    assert "--error is not-found; timeout answers with no error of your choice" in faults.refusal(
        "inject", "timeout", "--error", "not-found"
    )
    assert "--perform is for the kind timeout" in faults.refusal("inject", "refuse-sends", "--perform")
    assert "ENTITY is missing: restart-entity needs one" in faults.refusal("inject", "restart-entity")
    assert "either the id of a fault or --all" in faults.refusal("clear")
    assert "there is no fault 999" in faults.refusal("clear", "999")


def test_a_broker_that_was_not_started_for_it_says_how(connection_string: ConnectionString) -> None:
    assert "--allow-faults" in Commands(connection_string, "fault").refusal("inject", "refuse-sends")
