"""An overloaded broker refuses sends and management with ServerBusy, and goes on with receives and settlements.

Real load past each limit, with limits set low: the official SDK waits and tries again, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from tandem.client import BrokeredMessage, MessagingFactory
from tandem.errors import RemoteError
from tandem.server.health import memory
from tests.cli.program import tandem
from tests.health.sabotage import BrokenBroker
from tests.health.traffic import Account, connect, consuming, send_each
from tests.markers import mission
from tests.patience import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

# Everything off, so that each test sets one limit; and one second is long already.
NO_LIMIT = (
    "max_event_loop_lag_ms = {lag}\nmax_commit_time_ms = {commit}\nmax_memory_megabytes = {memory}\n"
    "min_disk_megabytes = {disk}\nsustained_ms = 1_000\nstall_ms = 0"
)


def limits(*, lag: int = 0, commit: int = 0, memory: int = 0, disk: int = 0) -> str:
    return NO_LIMIT.format(lag=lag, commit=commit, memory=memory, disk=disk)


def facet(found: dict[str, Any], name: str) -> dict[str, Any]:
    facets: list[dict[str, Any]] = found["facets"]
    [one] = [one for one in facets if one["name"] == name]
    return one


def wait_for(broker: BrokenBroker, is_so: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def look() -> object:
        found.update(broker.diagnosis())
        return is_so(found)

    wait_until(look, what, lambda: str(found))
    return found


def wait_for_refusals(broker: BrokenBroker, name: str) -> dict[str, Any]:
    found = wait_for(broker, lambda found: found["refused_count"] > 0, f"for refusals because of {name}")
    assert found["status"] == "overloaded"
    assert facet(found, name)["condition"] in {"overloaded", "easing"}
    return found


def wait_until_well(broker: BrokenBroker) -> None:
    wait_for(broker, lambda found: found["status"] == "well" and not found["refused"], "for the end of the overload")


@contextlib.contextmanager
def in_background(*work: Callable[[], None]) -> Iterator[None]:
    """Run these in threads until all of them have come to their end. A failed test waits for none."""
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


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


@mission("M13", "M38")
def test_more_work_than_the_event_loop_can_do_refuses_sends_until_it_is_done(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health=limits(lag=300)) as broker:
        broker.create_queue("orders")
        broker.create_topic("news")
        for number in range(300):
            # It never matches, and takes long to find that out.
            expression = " OR ".join(f"text LIKE '%{number}-{part}%'" for part in range(16))
            rule = {"name": "never", "filter": {"kind": "sql", "expression": expression}}
            broker.request("PUT", f"/$api/v1/topics/news/subscriptions/s{number}", {"rules": [rule]})
        is_over = threading.Event()

        def publish() -> None:
            with connect(broker.connection_string) as client, client.get_topic_sender("news") as sender:
                # Made once: the client must be faster than the broker, which judges each message by 300 rules.
                batch = sender.create_message_batch()
                for _ in range(150):
                    batch.add_message(ServiceBusMessage("x", application_properties={"text": "-" * 400}))
                while not is_over.is_set():
                    sender.send_messages(batch)

        bodies = [f"message-{number}" for number in range(30)]
        with in_background(*[publish] * 4, lambda: send_each(broker.connection_string, "orders", bodies, account)):
            wait_for_refusals(broker, "event-loop-lag")
            is_over.set()
        wait_until_well(broker)
        with consuming(broker.connection_string, "orders", account):
            account.wait_until_complete()
        assert len(account.acknowledged) == 30


@mission("M13", "M38")
def test_too_much_memory_refuses_sends_until_it_is_free_again(tmp_path: Path) -> None:
    account = Account()
    idle_megabytes = _idle_megabytes(tmp_path / "idle")
    with BrokenBroker(tmp_path / "limited", health=limits(memory=idle_megabytes + 150)) as broker:
        broker.create_queue("large", max_message_size_in_kilobytes=1_024)
        broker.create_queue("orders")
        # What is sent meanwhile stays in memory.
        broker.order("stall-commits")
        with in_background(lambda: asyncio.run(_flood(broker.connection_string))):
            wait_for(broker, lambda found: found["refused"] == ["everything"], "for the last stage")
            bodies = [f"message-{number}" for number in range(10)]
            with in_background(lambda: send_each(broker.connection_string, "orders", bodies, account)):
                wait_for_refusals(broker, "memory")
                broker.take_back("stall-commits")
                wait_until_well(broker)
        with consuming(broker.connection_string, "orders", account):
            account.wait_until_complete()
        assert len(account.acknowledged) == 10
        assert broker.queue("large")["active_message_count"] == 280


def _idle_megabytes(folder: Path) -> int:
    with BrokenBroker(folder, health=limits()) as broker:
        return int(facet(broker.diagnosis(), "memory")["value"]) or memory.used_bytes() // 1_048_576


async def _flood(connection_string: str) -> None:
    """Send 280 messages of a megabyte on four connections, all at once."""
    body = b"x" * 1_000_000

    async def send(count: int) -> None:
        async with (
            MessagingFactory.from_connection_string(connection_string) as factory,
            factory.create_message_sender("large") as sender,
        ):
            await asyncio.gather(*[sender.send(BrokeredMessage(body)) for _ in range(count)])

    await asyncio.gather(*[send(70) for _ in range(4)])


@mission("M13", "M38")
def test_a_disk_that_is_nearly_full_refuses_sends_until_there_is_room_again(tmp_path: Path) -> None:
    account = Account()
    with BrokenBroker(tmp_path, health=limits(disk=100)) as broker:
        broker.create_queue("large", max_message_size_in_kilobytes=1_024)
        used = sum(path.stat().st_size for path in broker.data_dir.rglob("*") if path.is_file())
        broker.order("capacity", str(used + 230 * 1_048_576))
        padding = "x" * 900_000
        bodies = [f"{number}-{padding}" for number in range(200)]
        # The first 160 take the disk past the limit, however fast they are sent. The others come when that was noticed.
        with in_background(lambda: send_each(broker.connection_string, "large", bodies[:160], account)):
            wait_for(broker, lambda found: found["refused"] == ["everything"], "for the last stage")
            with in_background(lambda: send_each(broker.connection_string, "large", bodies[160:], account)):
                wait_for_refusals(broker, "disk-headroom")
                with pytest.raises(RemoteError, match="server-busy"):
                    broker.queues()
                # Receiving makes room.
                with consuming(broker.connection_string, "large", account):
                    wait_until(
                        lambda: len(account.acknowledged) == len(bodies), "for room", lambda: str(account.errors)
                    )
                    account.wait_until_complete()
        wait_until_well(broker)
