"""The stream of operations: what the official SDK did is counted exactly, by operation, outcome, unit and stage."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any, NamedTuple

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError

from tests.compat.sdk import TEST_LIMIT_S, Bus, Queue, take, take_one
from tests.markers import mission
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.timeout(TEST_LIMIT_S)

BROKER_PARTITION = 0


class Counted(NamedTuple):
    """What was counted of one operation."""

    times: int
    units: int


class Operations:
    """The records about one entity, from here on."""

    def __init__(self, bus: Bus, entity: str) -> None:
        self._broker = bus.broker
        self._entity = entity
        self._from = int(self._broker.partitions("$operations")[BROKER_PARTITION]["next_sequence_number"])

    def records(self) -> list[dict[str, Any]]:
        path = f"/$api/v1/hubs/$operations/partitions/{BROKER_PARTITION}/events"
        events = self._broker.request("GET", f"{path}?format=json&from={self._from}&max=1000")["events"]
        records = [json.loads(event["body"]) for event in events]
        return [record for record in records if record["entity"] == self._entity]

    def wait_for(self, expected: dict[tuple[str, str, str], Counted], *ignored: str) -> list[dict[str, Any]]:
        """Until exactly this was counted, by operation, stage and outcome."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            records = self.records()
            counts: Counter[tuple[str, str, str]] = Counter()
            units: Counter[tuple[str, str, str]] = Counter()
            for record in records:
                # The entity was made just before.
                if record["operation"] in {"manage", *ignored}:
                    continue
                key = (record["operation"], record["stage"], record["outcome"])
                counts[key] += record["count"]
                units[key] += record["billable_units"]
            found = {key: Counted(counts[key], units[key]) for key in counts}
            if found == expected or time.monotonic() > deadline:
                assert found == expected
                return records
            time.sleep(0.05)


def bytes_of(records: list[dict[str, Any]], operation: str) -> int:
    return sum(record["bytes"] for record in records if record["operation"] == operation)


def latencies_of(records: list[dict[str, Any]], operation: str) -> int:
    return sum(sum(record["latency_ms_buckets"].values()) for record in records if record["operation"] == operation)


def named(bus: Bus, name: str) -> Queue:
    bus.broker.create_queue(name)
    return Queue(bus.broker, bus.client, name)


@mission("M29")
def test_a_workload_of_known_size_yields_exactly_its_counts_and_units(bus: Bus) -> None:
    queue = bus.queue()
    operations = Operations(bus, queue.name)
    queue.send(*[f"small {number}" for number in range(5)])
    # A little more than 128 KB: three steps of 64 KB have begun.
    queue.send(ServiceBusMessage(b"x" * 132_000))
    with queue.sender() as sender:
        sender.send_messages(ServiceBusMessage("alone"))
        numbers = sender.schedule_messages(ServiceBusMessage("later"), later())
        sender.cancel_scheduled_messages(numbers)
    with queue.receiver() as receiver:
        receiver.peek_messages(2)
        messages = take(receiver, 7)
        receiver.renew_message_lock(messages[0])
        receiver.abandon_message(messages[6])
        for message in messages[:4]:
            receiver.complete_message(message)
        receiver.defer_message(messages[4])
        receiver.dead_letter_message(messages[5])
        receiver.complete_message(take_one(receiver))
        receiver.complete_message(receiver.receive_deferred_messages([sequence_number_of(messages[4])])[0])
    expected = {
        ("send", "direct", "ok"): Counted(7, 9),
        ("schedule", "direct", "ok"): Counted(1, 1),
        ("cancel-scheduled", "direct", "ok"): Counted(1, 1),
        ("peek", "direct", "ok"): Counted(1, 1),
        # Seven, the one that was abandoned again, and the deferred one.
        ("receive", "direct", "ok"): Counted(9, 11),
        ("renew", "direct", "ok"): Counted(1, 1),
        ("complete", "direct", "ok"): Counted(6, 6),
        ("abandon", "direct", "ok"): Counted(1, 1),
        ("defer", "direct", "ok"): Counted(1, 1),
        ("dead-letter", "direct", "ok"): Counted(1, 1),
    }
    records = operations.wait_for(expected)
    assert bytes_of(records, "send") >= 132_000
    assert {record["entity_kind"] for record in records} == {"queue"}
    assert all(record["client"] for record in records)
    # Every message was acknowledged after some time, which is in one of the buckets of its operation.
    assert latencies_of(records, "send") == 7
    assert latencies_of(records, "receive") == 9


@mission("M29")
def test_a_message_that_took_the_detour_is_four_operations_in_their_stages(bus: Bus) -> None:
    queue = bus.queue()
    backlog = named(bus, f"{queue.name}/x-servicebus-transfer/0")
    on_backlog, on_queue = Operations(bus, backlog.name), Operations(bus, queue.name)
    backlog.send("diverted")
    assert backlog.drain() == ["diverted"]
    with (
        bus.connect(user_agent="tandem-syphon") as syphon,
        syphon.get_queue_sender(queue.name) as sender,
    ):
        sender.send_messages(ServiceBusMessage("brought back"))
    assert queue.drain() == ["brought back"]
    # To drain a queue is to ask until nothing comes.
    on_queue.wait_for(
        {
            ("send", "syphon", "ok"): Counted(1, 1),
            ("receive", "direct", "ok"): Counted(1, 1),
        },
        "empty-receive",
    )
    on_backlog.wait_for(
        {
            ("send", "backlog", "ok"): Counted(1, 1),
            ("receive", "syphon", "ok"): Counted(1, 1),
        },
        "empty-receive",
    )


def test_an_empty_receive_and_a_refused_send_are_counted_too(bus: Bus) -> None:
    queue = bus.queue(status="SendDisabled")
    operations = Operations(bus, queue.name)
    with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert receiver.receive_messages(1, max_wait_time=1) == []
    with pytest.raises(ServiceBusError):
        queue.send("refused")
    operations.wait_for(
        {
            ("empty-receive", "direct", "ok"): Counted(1, 1),
            ("send", "direct", "entity-disabled"): Counted(1, 1),
        }
    )


@mission("M29")
def test_an_empty_receive_is_counted_also_behind_one_that_got_all_it_asked_for(bus: Bus) -> None:
    queue = bus.queue()
    operations = Operations(bus, queue.name)
    queue.send("the only one")
    with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        assert len(receiver.receive_messages(1)) == 1
        assert receiver.receive_messages(1, max_wait_time=1) == []
    operations.wait_for(
        {
            ("send", "direct", "ok"): Counted(1, 1),
            ("receive", "direct", "ok"): Counted(1, 1),
            ("empty-receive", "direct", "ok"): Counted(1, 1),
        }
    )


def later() -> Any:
    from datetime import UTC, datetime, timedelta

    return datetime.now(UTC) + timedelta(hours=1)


def sequence_number_of(message: Any) -> int:
    assert message.sequence_number is not None
    return int(message.sequence_number)
