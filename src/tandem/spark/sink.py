"""Write rows to an event hub: at least once, in batches.

Columns: `body`, optionally `properties`, and optionally one of `partitionId` and `partitionKey`. Within a partition of
the hub, the rows of a task arrive in their order, whatever their keys: the sink assigns keys to partitions itself, with
the service's hash. A task that Spark retries sends its rows again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pyspark.sql.types import StructType

from tandem.client import EventData, EventHubClient, EventHubProducer, blocking
from tandem.spark.amqp_transport import patient_settings
from tandem.spark.columns import rows_of
from tandem.spark.given_options import OptionError
from tandem.spark.options import FORMAT, EventHubsOptions
from tandem.spark.schemas import EVENTS_TO_SEND
from tandem.spark.typed_properties import values_of
from tandem.spark.writers import Sent

__all__ = ["HubTarget"]

# Partitions that are sent to at the same time.
_SENDS_AT_ONCE: Final = 64


@dataclass(frozen=True)
class HubTarget:
    """An event hub."""

    format: ClassVar[str] = FORMAT
    nouns: ClassVar[str] = "events"
    columns: ClassVar[StructType] = EVENTS_TO_SEND

    options: EventHubsOptions

    def send(self, batches: Iterator[Any]) -> Sent:
        options = self.options
        client = EventHubClient.from_connection_string(
            options.connection_string, options.event_hub, patient_settings(options.operation_timeout_s)
        )
        count = 0
        try:
            producer = client.create_producer()
            for batch in batches:
                blocking.run(_send_rows(producer, rows_of(batch)))
                count += batch.num_rows
        finally:
            blocking.run(client.close())
        return Sent(count)


async def _send_rows(producer: EventHubProducer, rows: Iterator[dict[str, Any]]) -> None:
    """Send rows, in their order within each partition. Rows with neither id nor key go where the hub chooses."""
    by_partition: dict[str | None, list[EventData]] = {}
    for row in rows:
        partition_id, key = row.get("partitionId"), row.get("partitionKey")
        if key is not None:
            if partition_id is not None:
                raise OptionError(
                    f"eventhubs: a row has partitionId {partition_id!r:.40} and partitionKey {key!r:.80}; a key "
                    "chooses the partition by itself: leave one of them null"
                )
            partition_id = await producer.partition_of(key)
        event = EventData(row["body"], properties=values_of(row.get("properties")), partition_key=key)
        by_partition.setdefault(partition_id, []).append(event)
    sending = asyncio.Semaphore(_SENDS_AT_ONCE)

    async def send(partition_id: str | None, events: list[EventData]) -> None:
        async with sending:
            await producer.send_batch(events, partition_id=partition_id)

    async with asyncio.TaskGroup() as group:
        for partition_id, events in by_partition.items():
            group.create_task(send(partition_id, events))
