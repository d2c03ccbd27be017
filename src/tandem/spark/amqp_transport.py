"""Reads over AMQP: slower than bulk reads by an order of magnitude, and understood by every service with event hubs.

Readers have no epoch, so that two queries never disconnect each other; each task reads its own range from its first
number on, and closes its link behind the last. The client library waits while the service cannot be reached.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tandem.client import (
    EventHubClient,
    EventHubConsumer,
    EventPosition,
    MessagingFactorySettings,
    NamespaceManager,
    RetryPolicy,
    UnauthorizedAccessError,
    blocking,
)
from tandem.client.hubs.event_hub_client import PartitionProperties
from tandem.engine.hubs.arrivals import Arrivals
from tandem.event_columns import HEAD, heads_of, public_batch
from tandem.spark.given_options import OptionError
from tandem.spark.offsets import EventRange, HubExtent, PartitionExtent, expired, made_again, stepped_back
from tandem.spark.options import LISTING_HINT, EventHubsOptions

__all__ = ["AmqpTransport", "list_hubs_of_service", "patient_settings"]

# Events in a record batch, and bytes after which it is full.
_BATCH_ROWS: Final = 10_000
_BATCH_BYTES: Final = 8 << 20

# Seconds. How long a reader waits for events that the hub said it has, before it looks whether they are still there.
_PATIENCE_S: Final = 15.0

# Seconds. How long to wait for the first event of a time or an offset: the service has it at hand, or has none.
_LOOKUP_S: Final = 5.0


def patient_settings(timeout_s: float, user_agent: str = "tandem-spark") -> MessagingFactorySettings:
    """For clients that go on trying until the time is over, however often they fail."""
    return MessagingFactorySettings(
        operation_timeout=timedelta(seconds=timeout_s),
        retry_policy=RetryPolicy(max_attempts=1_000_000, max_backoff_s=5.0),
        user_agent=user_agent,
    )


def list_hubs_of_service(options: EventHubsOptions) -> list[str]:
    """Return the names of all hubs of a namespace, by the service's management API."""
    settings = patient_settings(options.operation_timeout_s)
    manager = NamespaceManager.from_connection_string(options.connection_string, settings)
    try:
        return [hub.path for hub in blocking.run(manager.get_event_hubs())]
    except UnauthorizedAccessError as error:
        raise UnauthorizedAccessError(f"{error.description} {LISTING_HINT}") from error


class AmqpTransport:
    """A hub of any service, by AMQP."""

    def __init__(self, options: EventHubsOptions, hub: str) -> None:
        self._options = options
        self._hub = hub

    def extent(self) -> HubExtent:
        return blocking.run(self._extent())

    def numbers_at_time(self, time_ms: int) -> dict[str, int]:
        return blocking.run(self._numbers_at_time(time_ms))

    def number_at_offset(self, partition: str, offset: str) -> int:
        number = blocking.run(self._first_number(partition, EventPosition.from_offset(offset, is_inclusive=True)))
        if number is None:
            raise OptionError(f"eventhubs: offset is {offset!r:.80}; partition {partition} has no event from there on")
        return number

    def read(self, wanted: EventRange, columns: Collection[str]) -> Iterator[Any]:
        client = self._client()
        try:
            # A link is to whatever hub has the name: so the incarnation is looked up before and after.
            extent = blocking.run(self._extent_by(client))
            left = self._left_of(wanted, extent)
            if left is None:
                return
            yield from self._batches(client, left, HEAD in columns)
            after = blocking.run(self._extent_by(client)).incarnation
            if after != extent.incarnation:
                # Events of both may have come: the task has to fail. Tried again, it finds nothing to read.
                raise made_again(self._hub, extent.incarnation, after)
        finally:
            blocking.run(client.close())

    def _left_of(self, wanted: EventRange, extent: HubExtent) -> EventRange | None:
        """Return what a hub has of a range that was planned; None for nothing. Raise if it has less, and that matters.

        Spark plans a batch once and reads it until it succeeds: the hub may be another one by then.
        """
        if extent.incarnation != wanted.incarnation:
            if self._options.fails_on_data_loss:
                raise made_again(self._hub, wanted.incarnation, extent.incarnation)
            return None
        behind = extent.partitions[wanted.partition].next
        if behind >= wanted.end:
            return wanted
        if self._options.fails_on_data_loss:
            raise stepped_back(self._hub, wanted.partition, wanted.end, behind)
        return dataclasses.replace(wanted, end=behind) if behind > wanted.first else None

    def _batches(self, client: EventHubClient, wanted: EventRange, has_heads: bool) -> Iterator[Any]:
        consumer = client.create_consumer(
            self._options.consumer_group,
            wanted.partition,
            EventPosition.from_sequence_number(wanted.first, is_inclusive=True),
            prefetch_count=min(self._options.prefetch_count, wanted.count),
        )
        reader = _RangeReader(consumer, wanted, has_heads)
        while reader.next_number < wanted.end:
            # Taken apart on the thread on which it came: two threads would only take the interpreter from each other.
            batch = blocking.run(reader.next_batch())
            if batch is not None:
                yield batch
                continue
            number = self._where_to_go_on(reader, wanted)
            if number is None:
                return
            reader.go_on_at(number)

    def _where_to_go_on(self, reader: _RangeReader, wanted: EventRange) -> int | None:
        """Not the next event came but a later one, or none for a while: it takes longer, or it has expired."""
        first = reader.next_number
        came = reader.number_that_came()
        if came is None:
            extent = self.extent()
            left = self._left_of(wanted, extent)
            if left is None or left.end <= first:
                return None
            came = extent.partitions[wanted.partition].begin
        # All behind the range is of no concern, also when the range itself has expired.
        number = max(first, min(came, wanted.end))
        if number > first and self._options.fails_on_data_loss:
            raise expired(self._hub, wanted.partition, first, number)
        return number

    # --- on the loop of the client library ------------------------------------------------------------------

    def _client(self) -> EventHubClient:
        return EventHubClient.from_connection_string(
            self._options.connection_string, self._hub, patient_settings(self._options.operation_timeout_s)
        )

    async def _extent(self) -> HubExtent:
        async with self._client() as client:
            return await self._extent_by(client)

    async def _extent_by(self, client: EventHubClient) -> HubExtent:
        hub = await client.get_properties()
        found = await asyncio.gather(*(client.get_partition_properties(one) for one in hub.partition_ids))
        # The service tells no incarnation; that a hub was made at another time says the same.
        incarnation = f"created:{int(hub.created_at.timestamp() * 1_000)}"
        return HubExtent(self._hub, incarnation, {one.partition_id: _partition_extent(one) for one in found})

    async def _numbers_at_time(self, time_ms: int) -> dict[str, int]:
        # A consumer begins behind a time: a millisecond less makes it "at this time or later".
        position = EventPosition.from_enqueued_time(datetime.fromtimestamp((time_ms - 1) / 1_000, UTC))
        extent = await self._extent()
        found = dict.fromkeys(extent.partitions, 0)
        for partition, bounds in extent.partitions.items():
            number = await self._first_number(partition, position) if bounds.begin < bounds.next else None
            found[partition] = bounds.next if number is None else number
        return found

    async def _first_number(self, partition: str, position: EventPosition) -> int | None:
        async with self._client() as client:
            consumer = client.create_consumer(self._options.consumer_group, partition, position, prefetch_count=1)
            event = await consumer.receive(_LOOKUP_S)
        return None if event is None else event.sequence_number


class _RangeReader:
    """Reads a range from its first event to its last, a record batch at a time."""

    def __init__(self, consumer: EventHubConsumer, wanted: EventRange, has_heads: bool) -> None:
        self._consumer = consumer
        self._has_heads = has_heads
        self._partition_id = int(wanted.partition)
        self._end = wanted.end
        self._arrivals = Arrivals(wanted.first, _BATCH_ROWS, _BATCH_BYTES)
        # What came, and how much of it is in a batch already.
        self._payloads: list[bytes] = []
        self._taken = 0

    @property
    def next_number(self) -> int:
        return self._arrivals.next_number

    def number_that_came(self) -> int | None:
        """Of the event that came in place of the next one; None if nothing came at all."""
        if self._taken == len(self._payloads):
            return None
        number = self._arrivals.number_of(self._payloads[self._taken])
        # What is no event of a hub is behind the last of them.
        return self._end if number is None else number

    def go_on_at(self, number: int) -> None:
        self._arrivals.begin(number)

    async def next_batch(self) -> Any:
        """Events that follow each other; None if the next one did not come."""
        arrivals = self._arrivals
        arrivals.begin(arrivals.next_number)
        while True:
            self._taken = arrivals.fill(self._payloads, self._taken, self._end)
            left = self._end - arrivals.next_number
            if not left or arrivals.is_full or self._taken < len(self._payloads):
                break
            self._payloads = await self._consumer.receive_payloads(min(_BATCH_ROWS, left), _PATIENCE_S)
            self._taken = 0
            if not self._payloads:
                break
        if not len(arrivals):
            return None
        batch = public_batch(arrivals.rows, self._partition_id, arrivals.offsets)
        return batch.append_column(HEAD, heads_of(arrivals.rows)) if self._has_heads else batch


def _partition_extent(found: PartitionProperties) -> PartitionExtent:
    behind = found.last_enqueued_sequence_number + 1
    return PartitionExtent(behind if found.is_empty else found.beginning_sequence_number, behind)
