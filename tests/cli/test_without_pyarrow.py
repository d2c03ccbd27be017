"""pyarrow is loaded for event hubs only, and a broker serves everything else where it is missing or broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tandem.connection_string import ConnectionString
from tandem.errors import RemoteError
from tandem.management.client import ManagementClient
from tandem.management.http_client import HttpClient
from tandem.wire_names import JSON_API
from tests.cli.program import Serving, one_line, serving, tandem, tandem_here
from tests.patience import wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="tells by /proc what a process has loaded")

# Python runs a module of this name at its start. Child processes, such as the sealer, inherit the path it is found on.
_BLOCKER: Final = """
import sys

class Blocker:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise {error}

sys.meta_path.insert(0, Blocker())
"""
_MISSING: Final = "ModuleNotFoundError(\"No module named 'pyarrow'\")"
_BROKEN: Final = "RuntimeError('this pyarrow was built for another machine')"

_ADVICE: Final = "pip install pyarrow"

# Two events make a segment.
_SMALL_SEGMENTS: Final = """
from tandem.store import sqlite
from tandem.store.log.log_limits import LogLimits
vars(sqlite)["LogLimits"] = lambda: LogLimits(seal_events=2)
"""


@pytest.fixture(params=[_MISSING, _BROKEN], ids=["missing", "broken"])
def python_path(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A path on which pyarrow cannot be imported."""
    folder = tmp_path / "blocker"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_BLOCKER.format(error=request.param))
    return str(folder)


def address(broker: Serving) -> ConnectionString:
    return ConnectionString("127.0.0.1", broker.port)


def has_pyarrow(broker: Serving) -> bool:
    return "/site-packages/pyarrow/" in Path(f"/proc/{broker.process.pid}/maps").read_text()


def done(broker: Serving, *arguments: str | Path) -> str:
    """What a command that succeeds prints."""
    ended = tandem_here(*arguments, connection_string=str(address(broker)))
    assert (ended.returncode, ended.stderr) == (0, ""), arguments
    return ended.stdout


def wait_for_a_sealed_segment(data: Path) -> None:
    """Wait for the files of a segment. The one with the checksums is written last."""
    wait_until(lambda: any((data / "hubs").rglob("*.sums")))


def read_in_columns(client: HttpClient) -> bytes:
    with client.open("GET", f"{JSON_API}/hubs/telemetry/partitions/0/events") as answer:
        return answer.read()


def exchange_messages(broker: Serving) -> None:
    """Through a queue, and through a topic with a subscription."""
    done(broker, "queue", "create", "orders")
    done(broker, "topic", "create", "news")
    done(broker, "subscription", "create", "news", "all")
    for target, source in (("orders", "orders"), ("news", "news/Subscriptions/all")):
        done(broker, "send", target, "a table")
        assert "a table" in done(broker, "receive", source)
    assert "orders" in done(broker, "queue", "list")
    done(broker, "export")


# --- a broker without hubs ------------------------------------------------------------------------------------------


def test_a_broker_in_which_no_hub_is_created_or_read_does_not_load_pyarrow(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--dev") as broker:
        exchange_messages(broker)
        # The broker counts what it does in a hub of its own, and has written to it by now.
        hub: dict[str, Any] = {}

        def has_counted() -> bool:
            hub.update(json.loads(done(broker, "hub", "show", "$operations", "--json")))
            return bool(hub["event_count"])

        wait_until(has_counted)
        assert not has_pyarrow(broker)


def test_the_broker_seals_its_own_hub_in_another_process(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, "--dev", prelude=_SMALL_SEGMENTS) as broker:
        exchange_messages(broker)
        wait_until(lambda: list((data / "hubs").glob("*/*/*.arrow")))
        assert not has_pyarrow(broker)


def test_a_hub_loads_pyarrow_with_the_first_bulk_read_of_a_sealed_segment(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, "--dev", "--no-operations", prelude=_SMALL_SEGMENTS) as broker:
        done(broker, "hub", "create", "telemetry", "--partitions", "1")
        for number in range(4):
            done(broker, "hub", "send", "telemetry", str(number))
        wait_for_a_sealed_segment(data)
        assert len(done(broker, "hub", "read", "telemetry", "--json").splitlines()) == 4
        assert not has_pyarrow(broker)
        client = HttpClient(address(broker))
        client.request("GET", f"{JSON_API}/hubs/telemetry/partitions/0/events?format=json")
        # The broker hears of a segment after its files are written; until then the journal answers a read.
        wait_until(lambda: read_in_columns(client) and has_pyarrow(broker))


# --- where it cannot be imported ------------------------------------------------------------------------------------


def test_queues_and_topics_are_served_without_pyarrow_and_a_hub_is_refused(tmp_path: Path, python_path: str) -> None:
    with serving(tmp_path / "data", "--dev", PYTHONPATH=python_path) as broker:
        exchange_messages(broker)
        refused = one_line(tandem_here("hub", "create", "telemetry", connection_string=str(address(broker))))
        assert _ADVICE in refused
        with pytest.raises(RemoteError, match=_ADVICE) as refusal:
            ManagementClient(address(broker)).hubs.create("telemetry", {})
        assert refusal.value.condition == "amqp:not-implemented"
        assert json.loads(done(broker, "hub", "list", "--json")) == {"hubs": []}
        document = {**json.loads(done(broker, "export")), "hubs": [{"name": "telemetry"}]}
        (tmp_path / "document.json").write_text(json.dumps(document))
        for dry_run in ((), ("--dry-run",)):
            imported = tandem_here(
                "import", tmp_path / "document.json", *dry_run, connection_string=str(address(broker))
            )
            assert imported.returncode != 0
            assert _ADVICE in " ".join((imported.stdout + imported.stderr).split())
        exit_code, _, errors = broker.stop()
        assert (exit_code, errors) == (0, "")


def test_a_configuration_with_a_hub_to_create_is_refused(
    tmp_path: Path, python_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "bus.toml"
    config.write_text('[[queues]]\nname = "orders"\n\n[[hubs]]\nname = "telemetry"\n')
    arguments: list[str | Path] = ["serve", "--dev", "--port", "0", "--http-port", "0", "--data-dir", tmp_path / "data"]
    monkeypatch.setenv("PYTHONPATH", python_path)
    refused = one_line(tandem(*arguments, "--config", config))
    assert "the hub 'telemetry': Event hubs need pyarrow" in refused
    assert _ADVICE in refused


def test_hubs_that_exist_are_kept_and_read_without_pyarrow_but_not_in_bulk(tmp_path: Path, python_path: str) -> None:
    data = tmp_path / "data"
    config = tmp_path / "bus.toml"
    config.write_text('[[hubs]]\nname = "telemetry"\npartition_count = 1\n')
    options: list[str | Path] = ["--dev", "--no-operations", "--config", config]
    partitions = f"{JSON_API}/hubs/telemetry/partitions"
    with serving(data, *options, prelude=_SMALL_SEGMENTS) as broker:
        done(broker, "hub", "send", "telemetry", "first")
        done(broker, "hub", "send", "telemetry", "second")
        wait_for_a_sealed_segment(data)
        at_ms = ManagementClient(address(broker)).request("GET", partitions)["partitions"][0]["last_enqueued_at_ms"]
        assert broker.stop()[0] == 0
    with serving(data, *options, prelude=_SMALL_SEGMENTS, PYTHONPATH=python_path) as broker:
        done(broker, "hub", "send", "telemetry", "third")
        events = [json.loads(line) for line in done(broker, "hub", "read", "telemetry", "--json").splitlines()]
        assert [one["body"] for one in events] == ["first", "second", "third"]
        client = ManagementClient(address(broker))
        with pytest.raises(RemoteError, match=_ADVICE):
            client.request("GET", f"{partitions}/0/events")
        assert len(client.request("GET", f"{partitions}/0/events?format=json")["events"]) == 3
        assert client.request("GET", f"{partitions}?at_ms={at_ms}")["partitions"][0]["sequence_number_at_time"] == 1
        exchange_messages(broker)
        assert broker.stop()[0] == 0
    with serving(data, *options, prelude=_SMALL_SEGMENTS) as broker:
        events = [json.loads(line) for line in done(broker, "hub", "read", "telemetry", "--json").splitlines()]
        assert [one["body"] for one in events] == ["first", "second", "third"]
