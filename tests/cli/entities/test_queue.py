"""`tandem queue` and `tandem check`, as child processes against a running broker."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tests.cli.program import Commands, one_line, serving, tandem, tandem_here


@pytest.fixture
def queues(connection_string: ConnectionString) -> Commands:
    return Commands(connection_string, "queue")


def test_a_queue_is_created_listed_shown_updated_and_deleted(queues: Commands) -> None:
    name = "trip/orders"
    options = ["--lock-duration", "30s", "--default-message-time-to-live", "PT1H", "--requires-session"]
    created = queues.json("create", name, *options, "--user-metadata", "[bold] 📦")
    assert created["name"] == name
    assert created["lock_duration_ms"] == 30_000
    assert created["default_message_time_to_live_ms"] == 3_600_000
    assert created["requires_session"] is True
    assert queues.json("show", name) == created
    assert created in queues.json("list")["queues"]
    updated = queues.json("update", name, "--default-message-time-to-live", "never", "--status", "SendDisabled")
    assert updated["default_message_time_to_live_ms"] is None
    assert updated["status"] == "SendDisabled"
    assert updated["user_metadata"] == "[bold] 📦"
    assert queues.json("delete", name) == {"name": name, "is_deleted": True}
    assert name not in queues.run("list")


def test_the_console_program_does_the_same(queues: Commands) -> None:
    queues.tandem = tandem
    created = queues.json("create", "program")
    assert queues.json("show", "program") == created
    assert "tandem queue update" in queues.refusal("create", "program")


def test_without_json_people_read_sentences_and_tables(queues: Commands) -> None:
    name = "people"
    assert queues.run("create", name, "--user-metadata", "[bold]").strip() == f"created the queue {name}"
    assert queues.run("update", name, "--auto-delete-on-idle", "1h30m").strip() == f"updated the queue {name}"
    shown = dict(line.split("  ", 1) for line in queues.run("show", name).splitlines())
    assert shown["auto delete on idle"].strip() == "1h30m"
    assert shown["lock duration"].strip() == "1m"
    assert shown["user metadata"].strip() == "[bold]"
    assert name in [queue["name"] for queue in queues.json("list")["queues"]]
    heading, *rows = queues.run("list").splitlines()
    assert heading.split() == ["queue", "status", "active", "dead-letter", "scheduled", "deferred", "bytes"]
    assert ["people", "Active", "0", "0", "0", "0", "0"] in [row.split() for row in rows]
    assert queues.run("delete", name).strip() == f"deleted the queue {name}"


def test_a_list_longer_than_a_page_is_whole(
    connection_string: ConnectionString, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = ManagementClient(connection_string).queues
    names = [f"page{number}" for number in range(5)]
    for name in names:
        manager.create(name, {})
    for page_entities in (1, 2, 5, 6):
        monkeypatch.setattr("tandem.management.client.PAGE_ENTITIES", page_entities)
        found = [queue["name"] for queue in manager.list_all() if queue["name"].startswith("page")]
        assert found == names


@pytest.mark.parametrize(
    "arguments, reason, advice",
    [
        (["show", "missing"], "'missing' could not be found", "tandem queue list"),
        (["delete", "missing"], "'missing' could not be found", "tandem queue list"),
        (["create", "taken"], "'taken' exists already", "tandem queue update"),
        (["create", "$bad"], "'$bad' is reserved", ""),
        (["create", "a", "--lock-duration", "1h"], "--lock-duration is 1h", "it must be between 1s and 5m"),
        (["create", "a", "--lock-duration", "soon"], "--lock-duration is 'soon'", "30s"),
        (["update", "taken"], "nothing to change", "--lock-duration 30s"),
        (["create"], "Missing argument", "tandem queue create --help"),
        (["list", "--connection-string", "nonsense"], "cannot be used", "tandem connection-string"),
        (
            ["list", "--connection-string", "Endpoint=sb://127.0.0.1:1;{};UseDevelopmentEmulator=true"],
            "no broker answers at http://127.0.0.1:1",
            "tandem serve --dev",
        ),
        (["list", "--connection-string", "{broker}"], "InvalidSignature", "tandem connection-string"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_a_refusal_is_one_line_that_says_what_to_do(
    queues: Commands, connection_string: ConnectionString, arguments: list[str], reason: str, advice: str
) -> None:
    if "taken" in arguments:
        manager = ManagementClient(connection_string).queues
        if "taken" not in [queue["name"] for queue in manager.list_all()]:
            manager.create("taken", {})
    wrong = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=wrong"
    with_wrong_key = f"Endpoint=sb://127.0.0.1:{connection_string.port};{wrong};UseDevelopmentEmulator=true"
    line = queues.refusal(*[one.replace("{broker}", with_wrong_key).replace("{}", wrong) for one in arguments])
    assert reason in line
    assert advice in line.partition(reason)[2]


def test_help_has_an_example_and_no_name_is_cut_off() -> None:
    text = tandem_here("queue", "create", "--help").stdout
    assert "tandem queue create orders" in text
    assert "--duplicate-detection-history-time-window" in text
    assert "…" not in text


# --- tandem check ---------------------------------------------------------------------------------------------------


def test_a_store_is_checked_when_its_broker_is_stopped(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with serving(data_dir, "--dev", "--tls", "off") as broker:
        ManagementClient(ConnectionString("127.0.0.1", broker.port)).queues.create("orders", {})
        assert "in use" in one_line(tandem_here("check", data_dir))
        assert broker.stop()[0] == 0
    sound = tandem_here("check", data_dir)
    assert (sound.returncode, sound.stderr) == (0, "")
    verdict = sound.stdout.splitlines()[-1]
    # The hub is the one that the broker keeps for itself.
    assert verdict.startswith(f"{data_dir}: 0 messages in 1 queues, ")
    assert verdict.endswith(" events in 1 hubs; sound")
    with sqlite3.connect(data_dir / "messages.db") as database:
        database.execute("UPDATE queue SET fields = '{}'")
    database.close()
    broken = tandem_here("check", data_dir, "--json")
    assert broken.returncode == 1
    report = json.loads(broken.stdout)
    assert report["is_sound"] is False
    assert report["findings"]
    assert "not sound" in tandem_here("check", data_dir).stdout
    assert "no store" in one_line(tandem_here("check", tmp_path))
