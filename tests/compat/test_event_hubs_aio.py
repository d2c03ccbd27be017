"""The asyncio client of the official Event Hubs SDK, unmodified."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from azure.eventhub import EventData
from azure.eventhub.aio import CheckpointStore, EventHubConsumerClient, PartitionContext
from azure.eventhub.aio._eventprocessor.in_memory_checkpoint_store import InMemoryCheckpointStore
from azure.eventhub.exceptions import AuthenticationError, ConnectError, ConnectionLostError, EventHubError

from tests.compat.hubs import LATEST, START, Hub, new_hub
from tests.compat.sdk import AT_ONCE, Bus, in_a_loop
from tests.markers import mission
from tests.patience import until

pytestmark = AT_ONCE


class _Reading:
    """A consumer in a task of its own, and what it got: a context manager, closed on the way out."""

    def __init__(
        self, hub: Hub, position: Any = START, *, store: CheckpointStore | None = None, **options: Any
    ) -> None:
        self._client: EventHubConsumerClient = hub.consumer_aio(checkpoint_store=store)
        self._options = {"starting_position": position, **options}
        self._has_store = store is not None
        self.texts: list[str] = []
        self.errors: list[Exception] = []
        self.opened: set[str] = set()

    async def __aenter__(self) -> _Reading:
        self._task = asyncio.create_task(self._receive())
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()
        await self._task

    async def _receive(self) -> None:
        await self._client.receive_batch(
            on_event_batch=self._on_events,
            on_error=self._on_error,
            on_partition_initialize=self._on_open,
            on_partition_close=self._on_close,
            **self._options,
        )

    async def _on_events(self, context: PartitionContext, events: list[EventData]) -> None:
        self.texts += [event.body_as_str() for event in events]
        if self._has_store and events:
            await context.update_checkpoint(events[-1])

    async def _on_error(self, context: PartitionContext | None, error: Exception) -> None:
        self.errors.append(error)

    async def _on_open(self, context: PartitionContext) -> None:
        self.opened.add(context.partition_id)

    async def _on_close(self, context: PartitionContext, reason: Any) -> None:
        self.opened.discard(context.partition_id)


@mission("M10")
@in_a_loop
async def test_batches_partitions_and_keys_arrive_in_order(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=2)
    async with hub.producer_aio() as producer:
        assert await producer.get_partition_ids() == ["0", "1"]
        batch = await producer.create_batch(partition_id="1")
        for number in range(50):
            batch.add(EventData(f"{number}"))
        await producer.send_batch(batch)
        await producer.send_event(EventData("50"), partition_id="1")
        properties = await producer.get_partition_properties("1")
    assert properties["last_enqueued_sequence_number"] == 50
    async with _Reading(hub, partition_id="1") as reading:
        await until(lambda: len(reading.texts) == 51, "51 events")
    assert reading.texts == [f"{number}" for number in range(51)]


@mission("M10")
@in_a_loop
async def test_a_consumer_begins_at_an_offset_or_a_number(bus: Bus) -> None:
    hub = new_hub(bus)
    hub.send(*"abcd")
    for position, expected in (("1", "cd"), (0, "bcd")):
        async with _Reading(hub, position, partition_id="0") as reading:
            await until(lambda: len(reading.texts) >= len(expected), "the rest")  # noqa: B023 - awaited at once
        assert "".join(reading.texts) == expected


@mission("M10")
@in_a_loop
async def test_a_higher_owner_level_steals(bus: Bus) -> None:
    hub = new_hub(bus)
    async with _Reading(hub, partition_id="0", owner_level=3) as first:
        await asyncio.to_thread(hub.await_receivers, 1)
        async with _Reading(hub, LATEST, partition_id="0", owner_level=4) as second:
            await until(lambda: bool(first.errors), "the theft")
            await asyncio.to_thread(hub.send, "a")
            await until(lambda: second.texts == ["a"], "the event")
            assert first.texts == []
    assert isinstance(first.errors[0], ConnectionLostError)


@mission("M10")
@in_a_loop
async def test_two_consumers_share_the_partitions_and_one_takes_over(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=4)
    store = InMemoryCheckpointStore()  # type: ignore[no-untyped-call] # the SDK has none
    async with hub.producer_aio() as producer:
        for number in range(4):
            await producer.send_batch([EventData(f"first-{number}")], partition_id=str(number))
        async with _Reading(hub, store=store) as one:
            await until(lambda: len(one.texts) == 4, "the first round")
            async with _Reading(hub, store=store) as two:
                await until(lambda: len(one.opened) == len(two.opened) == 2, "two partitions each")
            await until(lambda: len(one.opened) == 4, "the other's partitions")
            for number in range(4):
                await producer.send_batch([EventData(f"second-{number}")], partition_id=str(number))
            await until(lambda: len(one.texts) == 8, "the second round")
    assert sorted(one.texts) == sorted([f"{name}-{number}" for name in ("first", "second") for number in range(4)])
    assert two.texts == []


@mission("M10")
@in_a_loop
async def test_a_buffered_producer_loses_nothing(bus: Bus) -> None:
    hub = new_hub(bus)
    sent: list[EventData] = []
    failed: list[Exception] = []

    async def on_success(events: list[Any], _: str | None) -> None:
        sent.extend(events)

    async def on_error(_: list[Any], __: str | None, error: Exception) -> None:
        failed.append(error)

    producer = hub.producer_aio(buffered_mode=True, on_success=on_success, on_error=on_error, max_wait_time=0.2)
    async with producer:
        for number in range(100):
            await producer.send_event(EventData(f"{number}"))
        await producer.flush()
    assert (len(sent), failed) == (100, [])
    assert hub.place()["last_sequence_number"] == 99


@mission("M10")
@in_a_loop
async def test_refusals_have_the_classes_of_the_sdk(bus: Bus) -> None:
    hub = new_hub(bus)
    async with hub.producer_aio() as producer:
        with pytest.raises(EventHubError, match="Status code: 400"):
            await producer.get_partition_properties("5")
    async with Hub(bus, "no-such-hub").producer_aio() as producer:
        with pytest.raises(AuthenticationError):
            await producer.send_event(EventData("a"))
    async with _Reading(hub, 17, partition_id="0") as reading:
        await until(lambda: bool(reading.errors), "the refusal")
    assert isinstance(reading.errors[0], ConnectError)
    assert "The supplied sequence number '17' is invalid" in str(reading.errors[0])
