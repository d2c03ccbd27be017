"""Writing to an event hub: at least once, in batches, in the order of each Spark partition.

Columns: `body`, and if you like one of `partitionId` and `partitionKey`, and `properties`. A task that is tried again
sends its rows again.
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
from tandem.spark.writers import Sent

__all__ = ["HubTarget"]

# Sends under way at once, each for another partition or key.
_SENDS_AT_ONCE: Final = 64

# Where an event goes: partitionId, partitionKey.
_Target = tuple[str | None, str | None]


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
                by_target: dict[_Target, list[EventData]] = {}
                for row in rows_of(batch):
                    by_target.setdefault(_target(row), []).append(
                        EventData(row["body"], properties=row.get("properties") or {})
                    )
                blocking.run(_send_all(producer, by_target))
                count += batch.num_rows
        finally:
            blocking.run(client.close())
        return Sent(count)


def _target(row: dict[str, Any]) -> _Target:
    partition_id, partition_key = row.get("partitionId"), row.get("partitionKey")
    if partition_id is not None and partition_key is not None:
        raise OptionError(
            f"eventhubs: a row has partitionId {partition_id!r:.40} and partitionKey {partition_key!r:.80}; a key "
            "chooses the partition by itself: leave one of them null"
        )
    return partition_id, partition_key


async def _send_all(producer: EventHubProducer, by_target: dict[_Target, list[EventData]]) -> None:
    under_way = asyncio.Semaphore(_SENDS_AT_ONCE)

    async def send(target: _Target, events: list[EventData]) -> None:
        async with under_way:
            await producer.send_batch(events, partition_id=target[0], partition_key=target[1])

    async with asyncio.TaskGroup() as group:
        for target, events in by_target.items():
            group.create_task(send(target, events))
