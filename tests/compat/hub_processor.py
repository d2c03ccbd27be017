"""A process that reads an event hub with the official SDK and shares its partitions with others through Tandem.

    python -m tests.compat.hub_processor sync|aio CONNECTION_STRING HUB FILE

Each event is written to FILE, as one line with its partition and sequence number, before its checkpoint is kept.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, Final

from azure.eventhub import EventData, EventHubConsumerClient
from azure.eventhub import aio as eventhub_aio

from tandem.checkpoints import TandemCheckpointStore, aio

# Seconds. Short, so that a test need not wait long until partitions of a process that was killed are taken over.
OPTIONS: Final[dict[str, Any]] = {
    "consumer_group": "$Default",
    "load_balancing_interval": 0.3,
    "partition_ownership_expiration_interval": 2,
}


class Record:
    """What was processed, kept before anything else happens."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, partition_id: str, event: EventData) -> None:
        os.write(self._file, f"{partition_id} {event.sequence_number}\n".encode())


def process(connection_string: str, hub: str, record: Record) -> None:
    store = TandemCheckpointStore.from_connection_string(connection_string)

    def on_event(context: Any, event: EventData | None) -> None:
        assert event is not None
        record.add(context.partition_id, event)
        context.update_checkpoint(event)

    client = EventHubConsumerClient.from_connection_string(
        connection_string, eventhub_name=hub, checkpoint_store=store, **OPTIONS
    )
    client.receive(on_event=on_event, starting_position="-1")


async def process_async(connection_string: str, hub: str, record: Record) -> None:
    store = aio.TandemCheckpointStore.from_connection_string(connection_string)

    async def on_event(context: Any, event: EventData | None) -> None:
        assert event is not None
        record.add(context.partition_id, event)
        await context.update_checkpoint(event)

    client = eventhub_aio.EventHubConsumerClient.from_connection_string(
        connection_string, eventhub_name=hub, checkpoint_store=store, **OPTIONS
    )
    await client.receive(on_event=on_event, starting_position="-1")


def main() -> None:
    form, connection_string, hub, path = sys.argv[1:]
    if form == "sync":
        process(connection_string, hub, Record(path))
    else:
        asyncio.run(process_async(connection_string, hub, Record(path)))


if __name__ == "__main__":
    main()
