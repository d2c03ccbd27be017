"""Writing to an event hub: at least once, in batches, in the order of each Spark partition.

Columns: `body`, and if you like one of `partitionId` and `partitionKey`, and `properties`. A task that is tried again
sends its rows again.
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

# Sends under way at once, each for another partition or key.
_SENDS_AT_ONCE: Final = 64

# Where an event goes: partitionId, partitionKey.
_Target = tuple[str | None, str | None]


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
