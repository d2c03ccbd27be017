"""Processors that read a hub together: each event once while nobody fails, and none lost when somebody does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tandem.client import (
    CloseReason,
    EventData,
    EventHandler,
    EventHubClient,
    EventProcessor,
    EventProcessorSettings,
    FileCheckpointStore,
    Ownership,
    PartitionContext,
    SqliteCheckpointStore,
    Stream,
)
from tandem.errors import UsageError
from tandem.testing import Broker
from tests.markers import mission
from tests.patience import until

PARTITIONS = 4
# Nobody loses a partition because the machine is slow.
QUICK = EventProcessorSettings(load_balancing_interval_s=0.1, ownership_expiry_s=60.0)


class Collector(EventHandler):
    """Keeps what it is given, and a checkpoint behind each batch."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.opened: list[str] = []
        self.closed: list[tuple[str, CloseReason]] = []
        self.errors: list[Exception] = []
        self.fails_once = False

    async def process_events(self, context: PartitionContext, events: list[EventData]) -> None:
        if self.fails_once:
            self.fails_once = False
            raise ValueError("a handler that fails")
        self.bodies += [event.body for event in events]
        await context.checkpoint(events[-1])

    async def process_error(self, context: PartitionContext | None, error: Exception) -> None:
        self.errors.append(error)

    async def partition_initialize(self, context: PartitionContext) -> None:
        self.opened.append(context.partition_id)

    async def partition_close(self, context: PartitionContext, reason: CloseReason) -> None:
        self.closed.append((context.partition_id, reason))


async def send(client: EventHubClient, count: int, label: str) -> set[bytes]:
    producer = client.create_producer()
    sent: set[bytes] = set()
    for number in range(count):
        body = f"{label}-{number}".encode()
        await producer.send(EventData(body), partition_id=str(number % PARTITIONS))
        sent.add(body)
    return sent


@mission("M10")
async def test_two_processors_share_the_partitions_and_each_event_is_processed(
    broker: Broker, name: str, tmp_path: Path
) -> None:
    broker.create_hub(name, partition_count=PARTITIONS)
    store = SqliteCheckpointStore(tmp_path / "checkpoints.db")
    first, second = Collector(), Collector()
    async with (
        EventHubClient.from_connection_string(broker.connection_string, name) as client,
        EventHubClient.from_connection_string(broker.connection_string, name) as other,
    ):
        async with EventProcessor(client, store, first, settings=QUICK) as one:
            sent = await send(client, 20, "alone")
            await until(lambda: set(first.bodies) == sent)
            assert one.partition_ids == ["0", "1", "2", "3"]
            async with EventProcessor(other, store, second, settings=QUICK) as two:
                await until(lambda: len(one.partition_ids) == 2 and len(two.partition_ids) == 2)
                assert set(one.partition_ids) | set(two.partition_ids) == {"0", "1", "2", "3"}
                sent |= await send(client, 20, "together")
                await until(lambda: set(first.bodies) | set(second.bodies) == sent)
                assert second.bodies
            assert {reason for _, reason in second.closed} == {CloseReason.SHUTDOWN}
            # What was given back is taken at once, not when it would have expired.
            await until(lambda: len(one.partition_ids) == PARTITIONS)
            sent |= await send(client, 20, "alone again")
            await until(lambda: set(first.bodies) | set(second.bodies) == sent)
        assert CloseReason.OWNERSHIP_LOST in {reason for _, reason in first.closed}
    assert first.errors == second.errors == []
    assert len(first.opened) == len(first.closed)


@mission("M10")
async def test_a_processor_that_starts_again_goes_on_behind_its_checkpoint(
    broker: Broker, name: str, tmp_path: Path
) -> None:
    broker.create_hub(name, partition_count=PARTITIONS)
    store = SqliteCheckpointStore(tmp_path / "checkpoints.db")
    async with EventHubClient.from_connection_string(broker.connection_string, name) as client:
        first = Collector()
        async with EventProcessor(client, store, first, settings=QUICK):
            before = await send(client, 8, "before")
            await until(lambda: set(first.bodies) == before)
        after = await send(client, 8, "after")
        second = Collector()
        async with EventProcessor(client, store, second, settings=QUICK):
            await until(lambda: set(second.bodies) == after)
    assert sorted(second.bodies) == sorted(after)


class Slow(Collector):
    """Takes its time for a batch, and says when it has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def process_events(self, context: PartitionContext, events: list[EventData]) -> None:
        self.has_begun.set()
        await self.may_end.wait()
        await super().process_events(context, events)


async def test_a_handler_at_work_may_finish_when_the_processor_stops(broker: Broker, name: str, tmp_path: Path) -> None:
    broker.create_hub(name, partition_count=1)
    store = SqliteCheckpointStore(tmp_path / "checkpoints.db")
    handler = Slow()
    async with EventHubClient.from_connection_string(broker.connection_string, name) as client:
        await client.create_producer().send(EventData("finished"))
        processor = EventProcessor(client, store, handler, settings=QUICK)
        processor.start()
        await handler.has_begun.wait()
        stopping = asyncio.create_task(processor.stop())
        await asyncio.sleep(0.05)
        assert not stopping.done()
        handler.may_end.set()
        await stopping
        assert handler.bodies == [b"finished"]
        checkpoints = await store.list_checkpoints(Stream(client.address, name, "$Default"))
        assert [one.sequence_number for one in checkpoints] == [0]


async def test_a_handler_that_does_not_finish_is_cancelled_in_the_end(
    broker: Broker, name: str, tmp_path: Path
) -> None:
    broker.create_hub(name, partition_count=1)
    handler = Slow()
    settings = EventProcessorSettings(0.1, 60.0, close_grace_s=0.05)
    async with EventHubClient.from_connection_string(broker.connection_string, name) as client:
        await client.create_producer().send(EventData("never finished"))
        async with EventProcessor(client, FileCheckpointStore(tmp_path), handler, settings=settings):
            await handler.has_begun.wait()
    assert handler.bodies == []
    assert handler.closed == [("0", CloseReason.SHUTDOWN)]


async def test_a_handler_that_fails_is_told_and_gets_the_events_again(
    broker: Broker, name: str, tmp_path: Path
) -> None:
    broker.create_hub(name, partition_count=1)
    store = SqliteCheckpointStore(tmp_path / "checkpoints.db")
    handler = Collector()
    handler.fails_once = True
    async with EventHubClient.from_connection_string(broker.connection_string, name) as client:
        await client.create_producer().send(EventData("precious"))
        async with EventProcessor(client, store, handler, settings=QUICK):
            await until(lambda: handler.bodies == [b"precious"])
    assert [type(error) for error in handler.errors] == [ValueError]
    assert handler.closed[0] == ("0", CloseReason.FAILED)


async def test_a_store_that_fails_is_told_and_tried_again(broker: Broker, name: str, tmp_path: Path) -> None:
    broker.create_hub(name, partition_count=1)
    missing = tmp_path / "not-there-yet"
    handler = Collector()
    async with EventHubClient.from_connection_string(broker.connection_string, name) as client:
        await client.create_producer().send(EventData("patient"))
        async with EventProcessor(client, SqliteCheckpointStore(missing / "store.db"), handler, settings=QUICK):
            await until(lambda: bool(handler.errors))
            missing.mkdir()
            await until(lambda: handler.bodies == [b"patient"])


async def test_a_processor_is_started_once_and_stopped_as_often_as_one_likes(
    broker: Broker, name: str, tmp_path: Path
) -> None:
    broker.create_hub(name, partition_count=1)
    async with EventHubClient.from_connection_string(broker.connection_string, name) as client:
        processor = EventProcessor(client, SqliteCheckpointStore(tmp_path / "s.db"), Collector(), settings=QUICK)
        processor.start()
        with pytest.raises(UsageError, match="runs already"):
            processor.start()
        await processor.stop()
        await processor.stop()


def test_claims_must_be_renewed_before_they_expire() -> None:
    with pytest.raises(UsageError, match="ownership_expiry_s"):
        EventProcessorSettings(load_balancing_interval_s=30, ownership_expiry_s=10)


class SlowStore(SqliteCheckpointStore):
    """Answers the first claim only when it is told to, after it was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.has_claimed = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def claim_ownerships(self, stream: Stream, ownerships: Sequence[Ownership]) -> list[Ownership]:
        granted = await super().claim_ownerships(stream, ownerships)
        self.has_claimed.set()
        await self.may_answer.wait()
        return granted


@mission("M10")
async def test_a_processor_that_stops_while_it_claims_gives_back_what_it_gets(
    broker: Broker, name: str, tmp_path: Path
) -> None:
    broker.create_hub(name, partition_count=PARTITIONS)
    store = SlowStore(tmp_path / "checkpoints.db")
    async with EventHubClient.from_connection_string(broker.connection_string, name) as client:
        processor = EventProcessor(client, store, Collector(), settings=QUICK)
        processor.start()
        await store.has_claimed.wait()
        stopping = asyncio.create_task(processor.stop())
        # It runs until it waits for the round to end.
        await asyncio.sleep(0)
        store.may_answer.set()
        await stopping
        stream = Stream(client.address, name, "$Default")
        assert [one.owner_id for one in await store.list_ownerships(stream)] == [""] * PARTITIONS
