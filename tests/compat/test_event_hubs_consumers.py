"""Consumers of the official Event Hubs SDK side by side: owner levels, balance over processes, checkpoints."""

from __future__ import annotations

import threading
from typing import Any, Final

import pytest
from azure.eventhub import CheckpointStore, EventData, PartitionContext
from azure.eventhub._eventprocessor.in_memory_checkpoint_store import InMemoryCheckpointStore
from azure.eventhub.exceptions import ConnectionLostError

from tests.compat.hubs import LATEST, START, Hub, Reading, new_hub
from tests.compat.sdk import AT_ONCE, TEST_LIMIT_S, Bus
from tests.markers import mission
from tests.patience import wait_until

pytestmark = AT_ONCE

PARTITIONS: Final = 2


# Who was displaced tries again at the next look after the balance: not before the test is over. The thread of the SDK
# that sleeps so long is a daemon, and keeps nobody.
PATIENT: Final = {"load_balancing_interval": TEST_LIMIT_S}


@mission("M10")
def test_a_higher_owner_level_steals_and_the_other_is_told_so(bus: Bus) -> None:
    hub = new_hub(bus)
    with Reading(hub, partition_id="0", owner_level=1, client=PATIENT) as first:
        hub.await_receivers(1)
        hub.send("a")
        first.wait_for(1)
        with Reading(hub, LATEST, partition_id="0", owner_level=2) as second:
            error = first.wait_for_error()
            wait_until(lambda: first.closed == ["0"], "the close of the partition")
            hub.send("b")
            second.wait_for(1)
            assert (first.texts, second.texts, second.errors) == (["a"], ["b"], [])
    assert isinstance(error, ConnectionLostError)
    assert error.error == "link:stolen"
    assert "with higher epoch of '2' is created hence current receiver" in str(error)


@mission("M10")
def test_who_was_displaced_does_not_come_back_before_the_other_leaves(bus: Bus) -> None:
    hub = new_hub(bus)
    with Reading(hub, LATEST, partition_id="0", owner_level=1) as first:
        hub.await_receivers(1)
        with Reading(hub, LATEST, partition_id="0", owner_level=2) as second:
            # It tries again and again, and is refused each time.
            wait_until(lambda: len(first.errors) > 2, "several attempts")
            hub.send("a")
            second.wait_for(1)
            assert first.texts == []
        hub.await_receivers(1)
        hub.send("b")
        wait_until(lambda: first.texts == ["b"], "the event")


@mission("M10")
@pytest.mark.parametrize("owner_level, reason", [(1, "with epoch 1 cannot be created"), (None, "non-epoch receiver")])
def test_a_lower_owner_level_or_none_is_refused(bus: Bus, owner_level: int | None, reason: str) -> None:
    hub = new_hub(bus)
    with Reading(hub, partition_id="0", owner_level=2) as owner:
        hub.await_receivers(1)
        with Reading(hub, partition_id="0", owner_level=owner_level) as other:
            error = other.wait_for_error()
        hub.send("a")
        owner.wait_for(1)
    assert isinstance(error, ConnectionLostError)
    assert error.error == "link:stolen"
    assert reason in str(error)
    assert other.texts == []


@mission("M10")
def test_of_two_with_the_same_owner_level_the_newer_one_reads(bus: Bus) -> None:
    hub = new_hub(bus)
    with Reading(hub, partition_id="0", owner_level=0, client=PATIENT) as first:
        hub.await_receivers(1)
        with Reading(hub, partition_id="0", owner_level=0, client=PATIENT) as second:
            error = first.wait_for_error()
            hub.send("a")
            second.wait_for(1)
            assert (first.texts, second.texts) == ([], ["a"])
    assert isinstance(error, ConnectionLostError)


@mission("M10")
def test_five_read_side_by_side_without_an_owner_level_and_the_sixth_is_refused(bus: Bus) -> None:
    hub = new_hub(bus)
    readings = [Reading(hub, partition_id="0") for _ in range(5)]
    try:
        for reading in readings:
            reading.__enter__()
        hub.await_receivers(5)
        with Reading(hub, partition_id="0") as sixth:
            error = sixth.wait_for_error()
        hub.send("a")
        for reading in readings:
            reading.wait_for(1)
    finally:
        for reading in readings:
            reading.close()
    assert "maximum number of allowed receivers per partition in a consumer group which is 5" in str(error)


class _Worker(Reading):
    """A consumer that shares the partitions with others by way of a checkpoint store, and checkpoints what it got."""

    def __init__(self, hub: Hub, store: CheckpointStore) -> None:
        super().__init__(
            hub,
            START,
            client={"checkpoint_store": store, "partition_ownership_expiration_interval": 60.0},
        )
        self.on_events = self._checkpoint

    def _checkpoint(self, context: PartitionContext, events: list[EventData]) -> None:
        context.update_checkpoint(events[-1])


@mission("M10")
def test_two_consumers_share_the_partitions_and_one_goes_on_where_the_other_stopped(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=PARTITIONS)
    store = InMemoryCheckpointStore()  # type: ignore[no-untyped-call] # the SDK has none
    sent: list[str] = []

    def send_round(number: int) -> None:
        with hub.producer() as producer:
            for partition in range(PARTITIONS):
                producer.send_batch(
                    [EventData(f"{number}-{partition}-{n}") for n in range(3)], partition_id=str(partition)
                )
                sent.extend([f"{number}-{partition}-{n}" for n in range(3)])

    send_round(0)
    with _Worker(hub, store) as first:
        first.wait_for(len(sent))
        with _Worker(hub, store) as second:
            wait_until(lambda: len(first.opened) == len(second.opened) == PARTITIONS // 2, "one partition each")
            assert first.opened | second.opened == {str(number) for number in range(PARTITIONS)}
            wait_until(
                lambda: all(one["receiver_count"] == 1 for one in bus.broker.partitions(hub.name)), "one link each"
            )
            send_round(1)
            wait_until(lambda: set(first.texts) | set(second.texts) == set(sent), "everything of the second round")
            shared = set(second.texts)
        wait_until(lambda: len(first.opened) == PARTITIONS, "the other's partitions")
        send_round(2)
        wait_until(lambda: set(first.texts) | set(second.texts) == set(sent), "everything of the third round")
    everything = first.texts + second.texts
    # Both had a part of the second round, and what was checkpointed did not come again.
    assert shared
    assert sorted(everything) == sorted(sent)
    for worker in (first, second):
        for partition in range(PARTITIONS):
            own = [text for text in worker.texts if text.split("-")[1] == str(partition)]
            assert own == sorted(own)


@mission("M10")
def test_a_consumer_that_starts_again_resumes_from_its_checkpoint(bus: Bus) -> None:
    hub = new_hub(bus)
    store = InMemoryCheckpointStore()  # type: ignore[no-untyped-call] # the SDK has none
    hub.send("a", "b")
    with _Worker(hub, store) as first:
        first.wait_for(2)
    hub.send("c")
    with _Worker(hub, store) as second:
        second.wait_for(1)
    assert (first.texts, second.texts) == (["a", "b"], ["c"])


@mission("M10")
def test_one_callback_after_another_gets_every_event_of_all_partitions(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=2)
    seen: list[tuple[str, str]] = []
    consumer = hub.consumer()

    def on_event(context: PartitionContext, event: EventData | None) -> None:
        assert event is not None
        seen.append((context.partition_id, event.body_as_str()))

    hub.send("a", "b", partition_id="0")
    hub.send("c", partition_id="1")
    options: dict[str, Any] = {"on_event": on_event, "starting_position": START}
    thread = threading.Thread(target=consumer.receive, kwargs=options)
    thread.start()
    wait_until(lambda: len(seen) == 3, "three events")
    consumer.close()
    thread.join()
    assert sorted(seen) == [("0", "a"), ("0", "b"), ("1", "c")]
