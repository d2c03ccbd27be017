"""Write rows to an event hub: at least once, in batches.

Columns: `body`, optionally `properties`, and optionally one of `partitionId` and `partitionKey`. Within a partition of
the hub, the rows of a task arrive in their order, whatever their keys: the sink assigns keys to partitions itself, with
the service's hash. A task that Spark retries sends its rows again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tandem.client import EventData, EventHubClient, EventHubProducer, blocking
from tandem.spark.amqp_transport import patient_settings
from tandem.spark.columns import check_columns, rows_of
from tandem.spark.given_options import OptionError
from tandem.spark.options import FORMAT, EventHubsOptions
from tandem.spark.schemas import EVENTS_TO_SEND

__all__ = ["HubStreamWriter", "HubWriter", "Sent"]

# Partitions that are sent to at the same time.
_SENDS_AT_ONCE: Final = 64


@dataclass
class Sent(WriterCommitMessage):
    """What a task has sent."""

    count: int


class HubWriter(DataSourceArrowWriter):
    """Of a batch."""

    def __init__(self, options: EventHubsOptions, schema: StructType, overwrite: bool) -> None:
        check_columns(FORMAT, schema, EVENTS_TO_SEND)
        if overwrite:
            raise OptionError('eventhubs: the mode is overwrite; events can only be added: use mode("append")')
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _send(self._options, iterator)


class HubStreamWriter(DataSourceStreamArrowWriter):
    """Of a stream."""

    def __init__(self, options: EventHubsOptions, schema: StructType) -> None:
        check_columns(FORMAT, schema, EVENTS_TO_SEND)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _send(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's own name
        """What was sent is in the hub already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - as above
        """What was sent stays: the batch is sent again, and readers see it twice."""


def _send(options: EventHubsOptions, batches: Iterator[Any]) -> Sent:
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
        event = EventData(row["body"], properties=row.get("properties") or {}, partition_key=key)
        by_partition.setdefault(partition_id, []).append(event)
    sending = asyncio.Semaphore(_SENDS_AT_ONCE)

    async def send(partition_id: str | None, events: list[EventData]) -> None:
        async with sending:
            await producer.send_batch(events, partition_id=partition_id)

    async with asyncio.TaskGroup() as group:
        for partition_id, events in by_partition.items():
            group.create_task(send(partition_id, events))
