"""A broker whose commits are slow refuses sends, and nothing is lost. `make overload` has the other limits."""

from __future__ import annotations

from pathlib import Path

from tests.cli.program import tandem
from tests.markers import mission
from tests.patience import wait_until
from tests.server.health.conditions import in_background, limits, wait_for_refusals, wait_until_well
from tests.server.health.sabotage import BrokenBroker
from tests.server.health.traffic import Account, consuming, send_each


@mission("M13", "M38")
def test_slow_commits_refuse_sends_until_they_are_fast_again(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health=limits(commit=1_000)) as broker:
        broker.create_queue("orders")
        broker.create_queue("waiting")
        send_each(broker.connection_string, "waiting", [f"waiting-{number}" for number in range(5)], account)
        broker.order("slow-commits", "1.5")
        bodies = [f"message-{number}" for number in range(20)]
        with in_background(lambda: send_each(broker.connection_string, "orders", bodies, account)):
            wait_for_refusals(broker, "commit-time")
            # Receives and settlements go on.
            with consuming(broker.connection_string, "waiting", account):
                wait_until(lambda: len(account.completed) == 5, "for messages that waited", lambda: str(account.errors))
            shown = tandem("diagnose", connection_string=broker.connection_string)
            assert shown.returncode == 1
            assert "commit time is" in shown.stdout
            assert "the disk of the data directory is slow" in shown.stdout
            broker.take_back("slow-commits")
            wait_until_well(broker)
        with consuming(broker.connection_string, "orders", account):
            account.wait_until_complete()
        assert len(account.acknowledged) == 25
