"""A broker whose stored data is damaged goes on with what is intact, says what is not, and keeps the damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.connection_string import ConnectionString
from tandem.errors import TandemError
from tandem.management.client import ManagementClient
from tandem.store.check import check
from tandem.store.opening import DATABASE_NAME
from tandem.testing.broker import BrokerFailed
from tests.cli.program import tandem
from tests.markers import mission
from tests.patience import wait_until
from tests.server.health.conditions import wait_for
from tests.server.health.sabotage import BrokenBroker
from tests.server.health.test_restarts import PATIENT
from tests.server.health.traffic import Account, consuming, send_each
from tests.store.faults import Fault
from tests.store.layout import LOG_NAME, find_layout


def bodies(count: int = 60) -> list[str]:
    return [f"{number} " + "x" * 1_500 for number in range(count)]


def middle_page(data_dir: Path) -> Fault:
    """A flipped bit in the page of a message in the middle."""
    copies = find_layout(data_dir).copies
    rows = sorted([key for kind, key in copies if kind == "message" and isinstance(key, int)])
    name, start, end = copies["message", rows[len(rows) // 2]][0][0]
    assert name == DATABASE_NAME
    return Fault(name, "flip", (start + end) // 2, (start + end) // 2 + 1, 3)


@mission("M15", "M38")
def test_a_page_that_is_damaged_while_the_broker_runs_costs_its_messages_and_nothing_else(tmp_path: Path) -> None:
    account = Account()
    namespaces = '[[namespace]]\nname = "sales"\n[[namespace]]\nname = "support"'
    with BrokenBroker(tmp_path, health=PATIENT, namespaces=namespaces) as broker:
        broker.create_queue("orders")
        send_each(broker.connection_string, "orders", bodies(), account)
        assert broker.stop() == 0
        fault = middle_page(broker.data_dir)
        broker.start()
        process_id = broker.pid
        support = ManagementClient(ConnectionString("support.localhost", broker.http_port))
        for number in range(5):
            support.queues.create(f"queue-{number}", {})
        fault.inject(broker.data_dir)
        with consuming(broker.connection_string, "orders", account):
            found = wait_for(broker, lambda found: found["damages"], "for the report of the damage")
            lost = sum(int(one["lost"].split()[0]) for one in found["damages"] if one["unit"] == "'orders'")
            assert 0 < lost < 10, found["damages"]
            wait_until(lambda: len(account.missing) == lost, "for all messages but the lost", lambda: str(found))
        assert account.completed <= account.acknowledged, "no wrong bytes are served"
        assert (found["status"], found["restart_counts"]["host"]) == ("damaged", 1)
        assert broker.queue("orders")["active_message_count"] == 0
        assert "'orders'" in broker.stderr
        assert broker.pid == process_id
        assert support.diagnose()["damages"] == []
        assert support.diagnose()["commit_count"] >= 5, "the other namespace was not opened again"
        send_each(broker.connection_string, "orders", ["after"], account)
        assert broker.stop() == 0
    report = check(broker.data_dir)
    assert report.is_sound, report.findings
    assert [one for one in report.earlier_damages if "'orders'" in one]
    (folder,) = broker.data_dir.glob("damaged-*/")
    assert (folder / DATABASE_NAME).exists(), "the damaged file is kept"


@mission("M15", "M38")
def test_a_write_ahead_log_that_was_deleted_is_noticed_and_reported(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health=PATIENT) as broker:
        broker.create_queue("orders")
        assert broker.stop() == 0
        broker.start()
        send_each(broker.connection_string, "orders", bodies(10), account)
        broker.kill()
        (broker.data_dir / LOG_NAME).unlink()
        assert not check(broker.data_dir).is_sound
        broker.start()
        found = broker.diagnosis()
        assert found["status"] == "damaged"
        assert [one for one in found["damages"] if one["unit"] == "the last commits" and "commits" in one["lost"]]
        assert "the last commits" in broker.stderr
        send_each(broker.connection_string, "orders", ["after"], account)
        assert broker.queue("orders")["active_message_count"] == 1


@mission("M38")
def test_a_broker_whose_database_is_missing_refuses_to_begin_an_empty_one(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health=PATIENT) as broker:
        broker.create_queue("orders")
        send_each(broker.connection_string, "orders", bodies(5), account)
        assert broker.stop() == 0
        saved = (broker.data_dir / DATABASE_NAME).read_bytes()
        (broker.data_dir / DATABASE_NAME).unlink()
        shown = tandem("check", broker.data_dir)
        assert shown.returncode == 1
        assert "missing" in shown.stdout
        with pytest.raises((BrokerFailed, TandemError), match="restore the database from a backup"):
            broker.start()
        assert not (broker.data_dir / DATABASE_NAME).exists()
        (broker.data_dir / DATABASE_NAME).write_bytes(saved)
        broker.start()
        with consuming(broker.connection_string, "orders", account):
            account.wait_until_complete()
