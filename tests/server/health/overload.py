"""An overloaded broker refuses sends and management with ServerBusy, and goes on with receives and settlements.

Real load past each limit, with limits set low: the official SDK waits and tries again, and nothing is lost. Slow
commits, which need no load, are in test_overload.py.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage

from tandem.client import BrokeredMessage, MessagingFactory
from tandem.errors import RemoteError
from tandem.server.health import memory
from tests.markers import mission
from tests.patience import wait_until
from tests.server.health.conditions import (
    facet,
    in_background,
    limits,
    wait_for,
    wait_for_refusals,
    wait_until_well,
)
from tests.server.health.sabotage import BrokenBroker
from tests.server.health.traffic import Account, connect, consuming, send_each

# Messages of a megabyte on each of four connections: more than passes the limit, and as much as a connection may
# have waiting for a commit.
FLOOD_MESSAGES = 60


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
        assert broker.queue("large")["active_message_count"] == 4 * FLOOD_MESSAGES


def _idle_megabytes(folder: Path) -> int:
    with BrokenBroker(folder, health=limits()) as broker:
        return int(facet(broker.diagnosis(), "memory")["value"]) or memory.used_bytes() // 1_048_576


async def _flood(connection_string: str) -> None:
    """Send messages of a megabyte on four connections, all at once."""
    body = b"x" * 1_000_000

    async def send(count: int) -> None:
        async with (
            MessagingFactory.from_connection_string(connection_string) as factory,
            factory.create_message_sender("large") as sender,
        ):
            await asyncio.gather(*[sender.send(BrokeredMessage(body)) for _ in range(count)])

    await asyncio.gather(*[send(FLOOD_MESSAGES) for _ in range(4)])


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
