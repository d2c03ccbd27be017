"""A broker whose parts fail restarts the smallest part that helps. Real processes, the official SDK, nothing lost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tandem.server.health.diagnosis import newest_diagnosis
from tandem.store.check import check
from tests.cli.program import PROGRAM, tandem
from tests.markers import mission
from tests.patience import wait_until
from tests.server.health.conditions import wait_for
from tests.server.health.sabotage import ROOT, BrokenBroker
from tests.server.health.traffic import Account, consuming, send_each

EXIT_STALLED = 75
# So that nothing but what a test breaks is restarted, whatever the machine does.
PATIENT = "stall_ms = 3_600_000\nrestart_ms = 600_000"
# Stalls are noticed soon, though not so soon that a commit on a busy disk is one; a restart has all the time it needs.
ALERT = "stall_ms = 8_000\nrestart_ms = 600_000"
# A restart that does not come to its end is given up soon.
HASTY = "stall_ms = 8_000\nrestart_ms = 2_000"


def bodies(prefix: str, count: int = 30) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def restarts(level: str, count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda found: found["restart_counts"][level] == count


def written(broker: BrokenBroker, reason: str) -> dict[str, Any]:
    """The last diagnosis, once it has this reason: it is written in the background."""

    def last() -> dict[str, Any]:
        return newest_diagnosis(broker.data_dir) or {}

    wait_until(lambda: last().get("reason") == reason, f"for a diagnosis of {reason}", lambda: str(last())[:200])
    return last()


@mission("M15", "M38")
def test_an_entity_whose_memory_is_broken_is_read_again_from_the_store_and_nothing_is_lost(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health=PATIENT) as broker:
        broker.create_queue("orders")
        broker.create_queue("other")
        with (
            consuming(broker.connection_string, "orders", account),
            consuming(broker.connection_string, "other", account),
        ):
            send_each(broker.connection_string, "orders", bodies("before"), account)
            account.wait_until_complete()
            broker.order("break-queue", "orders")
            wait_until(lambda: not (broker.orders / "break-queue").exists())
            send_each(broker.connection_string, "orders", bodies("after"), account)
            send_each(broker.connection_string, "other", bodies("other"), account)
            found = wait_for(broker, restarts("entity", 1), "for the restart of an entity")
            account.wait_until_complete()
        assert found["restarts"][0]["subject"] == "orders"
        assert found["restart_counts"]["host"] == 0
        assert broker.queue("orders")["active_message_count"] == 0
        diagnosis = written(broker, "entity-failed")
        assert diagnosis["level"] == "entity"
        assert "'orders'" in diagnosis["summary"]
        assert broker.stop() == 0
    assert check(broker.data_dir).is_sound


@mission("M15", "M38")
def test_an_entity_that_fails_again_restarts_the_host_of_its_namespace_and_no_other(tmp_path: Path) -> None:
    account = Account()
    namespaces = '[[namespace]]\nname = "sales"\n[[namespace]]\nname = "support"'
    with BrokenBroker(tmp_path, health=PATIENT, namespaces=namespaces) as broker:
        broker.create_queue("orders")
        support = ManagementClient(ConnectionString("support.localhost", broker.http_port))
        for number in range(10):
            support.queues.create(f"queue-{number}", {})
        with consuming(broker.connection_string, "orders", account):
            for life, (level, count) in enumerate((("entity", 1), ("host", 1))):
                # The receiver is there before the queue is broken, or it would not be given what is broken.
                send_each(broker.connection_string, "orders", bodies(f"before-{life}"), account)
                account.wait_until_complete()
                broker.order("break-queue", "orders")
                wait_until(lambda: not (broker.orders / "break-queue").exists())
                send_each(broker.connection_string, "orders", bodies(f"after-{life}"), account)
                wait_for(broker, restarts(level, count), f"for the restart of the {level}")
            account.wait_until_complete()
        assert written(broker, "entity-failed")["level"] == "host"
        # A namespace that was opened again would have begun to count anew.
        assert support.diagnose()["commit_count"] >= 10
        assert support.diagnose()["restarts"] == []
        assert broker.stop() == 0
    assert check(broker.data_dir).is_sound


@mission("M15", "M38")
def test_a_store_that_cannot_be_read_restarts_the_host_and_then_the_process(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health=PATIENT) as broker:
        broker.create_queue("orders")
        send_each(broker.connection_string, "orders", bodies("kept"), account)
        broker.order("fail-reads")
        with consuming(broker.connection_string, "orders", account):
            wait_until(lambda: not broker.is_running, "for the end of the process", lambda: broker.stderr)
        assert broker.wait_for_end() == EXIT_STALLED
        assert "is restarted" in broker.stderr
        broker.take_back("fail-reads")
        broker.start()
        with consuming(broker.connection_string, "orders", account):
            account.wait_until_complete()


@mission("M15", "M38")
def test_a_commit_that_takes_too_long_restarts_the_host_as_soon_as_it_is_over(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health=ALERT) as broker:
        broker.create_queue("orders")
        send_each(broker.connection_string, "orders", bodies("before"), account)
        process_id = broker.pid
        broker.order("stall-commits")
        # The answer to this is kept back by the commit.
        with subprocess.Popen(_send(broker, "late")) as sending:
            written(broker, "commit-stalled")
            broker.take_back("stall-commits")
            found = wait_for(broker, restarts("host", 1), "for the restart of the host")
            sending.wait()
        assert "commit has been in progress" in found["restarts"][0]["reason"]
        with consuming(broker.connection_string, "orders", account):
            send_each(broker.connection_string, "orders", bodies("after"), account)
            account.wait_until_complete()
        assert broker.pid == process_id
        assert broker.stop() == 0
    assert check(broker.data_dir).is_sound


@mission("M15", "M38")
def test_a_commit_that_never_ends_ends_the_process_with_its_own_exit_code(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health=HASTY) as broker:
        broker.create_queue("orders")
        send_each(broker.connection_string, "orders", bodies("before"), account)
        broker.order("stall-commits")
        with subprocess.Popen(_send(broker, "late"), stderr=subprocess.DEVNULL) as sending:
            assert broker.wait_for_end() == EXIT_STALLED
            sending.kill()
        assert sending.returncode != 0, "nothing was acknowledged that was not on disk"
        assert "could not be restarted" in broker.stderr
        last = newest_diagnosis(broker.data_dir)
        assert last is not None
        assert last["level"] == "process"
        broker.take_back("stall-commits")
        broker.start()
        with consuming(broker.connection_string, "orders", account):
            account.wait_until_complete()


@mission("M15", "M38")
def test_a_blocked_event_loop_is_diagnosed_and_ends_the_process(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health="stall_ms = 8_000\nrestart_ms = 10_000") as broker:
        broker.create_queue("orders")
        send_each(broker.connection_string, "orders", bodies("before"), account)
        broker.order("block-loop")
        diagnosis = written(broker, "loop-blocked")
        [main] = [one for one in diagnosis["threads"] if one["thread"] == "MainThread"]
        assert any("_block" in place for place in main["stack"])
        shown = tandem("diagnose", "--data-dir", broker.data_dir, connection_string=broker.connection_string)
        assert shown.returncode == 1
        assert "The broker does not answer" in shown.stdout
        assert "event loop has run nothing for" in shown.stdout
        assert "_block" in shown.stdout
        assert broker.wait_for_end() == EXIT_STALLED
        broker.start()
        with consuming(broker.connection_string, "orders", account):
            account.wait_until_complete()


@mission("M36", "M38")
def test_a_commit_that_fails_ends_the_process_at_once_and_is_diagnosed(tmp_path: Path) -> None:
    with BrokenBroker(tmp_path, health=PATIENT) as broker:
        broker.create_queue("orders")
        broker.order("fail-commits")
        with subprocess.Popen(_send(broker, "lost"), stderr=subprocess.DEVNULL) as sending:
            assert broker.wait_for_end() == 1
            sending.kill()
        assert sending.returncode != 0, "nothing was acknowledged that was not on disk"
        last = newest_diagnosis(broker.data_dir)
        assert last is not None
        assert (last["reason"], last["level"]) == ("store-failed", "process")
        assert "could not be synced" in last["summary"]


def test_the_systemd_unit_starts_a_stalled_broker_again() -> None:
    unit = (ROOT / "packaging" / "tandem.service").read_text()
    assert f"RestartForceExitStatus={EXIT_STALLED}\n" in unit


def _send(broker: BrokenBroker, body: str) -> list[str]:
    return [*PROGRAM, "send", "orders", body, "--connection-string", broker.connection_string]
