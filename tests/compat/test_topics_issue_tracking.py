"""The issue tracking example of the service: one topic, one subscription by peek-lock, one by receive-and-delete."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode

from tandem.testing import Broker
from tests.compat.sdk import (
    TEST_LIMIT_S,
    ClockedBus,
    Subscription,
    Topic,
    rule,
    sql,
    take,
    take_all,
    take_one,
    text,
    texts,
)
from tests.markers import mission

pytestmark = pytest.mark.timeout(TEST_LIMIT_S)

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples" / "issue_tracking.py"

TOPIC: Final = "IssueTrackingTopic"
# The store that each issue is of.
STORES: Final = ("Store1", "Store2", "Store1", "Store3")


@mission("M9")
def test_inventory_gets_every_issue_by_peek_lock_and_dashboard_those_of_its_store(clocked_bus: ClockedBus) -> None:
    bus = clocked_bus
    bus.broker.create_topic(TOPIC)
    bus.broker.create_subscription(TOPIC, "Inventory", lock_duration_ms=300_000)
    only_store1 = rule("Store1", sql("StoreName = 'Store1'"))
    bus.broker.create_subscription(TOPIC, "Dashboard", rules=[only_store1])
    topic = Topic(bus.broker, bus.client, TOPIC)
    inventory = Subscription(bus.broker, bus.client, TOPIC, "Inventory")
    dashboard = Subscription(bus.broker, bus.client, TOPIC, "Dashboard")
    with topic.sender() as sender:
        sender.send_messages(
            [
                ServiceBusMessage(f"issue {number}", application_properties={"StoreName": store})
                for number, store in enumerate(STORES)
            ]
        )
    assert (inventory.counts(), dashboard.counts()) == ({"active": 4}, {"active": 2})

    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with dashboard.receiver(receive_mode=mode) as receiver:
        assert texts(take(receiver, 2)) == ["issue 0", "issue 2"]
        assert take_all(receiver) == []
    assert dashboard.counts() == {}

    with inventory.receiver() as crashed:
        assert text(take_one(crashed)) == "issue 0"
    with inventory.receiver() as receiver:
        # The first one is locked by a consumer that is gone, and comes back when the lock ends.
        others = take(receiver, 3)
        assert texts(others) == ["issue 1", "issue 2", "issue 3"]
        for message in others:
            receiver.complete_message(message)
        bus.clock.advance(minutes=5)
        again = take_one(receiver)
        assert (text(again), again.delivery_count) == ("issue 0", 1)
        receiver.complete_message(again)
    assert inventory.counts() == {}


def run_example(*arguments: str) -> str:
    command = [sys.executable, str(EXAMPLE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TEST_LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_example_with_a_given_broker(folder: Path) -> str:
    with Broker(folder) as broker:
        printed = run_example("--connection-string", broker.connection_string)
        # It cleans up behind itself, and can be run again.
        assert broker.topics() == []
        return printed


@pytest.fixture(scope="module", autouse=True)
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[str]]]:
    """Both runs of the example, started with the first of these tests: most of their time they wait."""
    with ThreadPoolExecutor(2) as pool:
        given = pool.submit(run_example_with_a_given_broker, tmp_path_factory.mktemp("given"))
        yield {"own": pool.submit(run_example), "given": given}


@mission("M9")
@pytest.mark.parametrize("whose", ["own", "given"])
def test_the_example_runs_with_a_broker_of_its_own_and_with_one_that_is_given(
    examples: dict[str, Future[str]], whose: str
) -> None:
    printed = examples[whose].result()
    assert printed.count("done") == 5, printed
    assert printed.count("shown") == 3, printed
