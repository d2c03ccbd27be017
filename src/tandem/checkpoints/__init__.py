"""A checkpoint store for the official azure-eventhub SDK that needs nothing but the broker.

    store = TandemCheckpointStore.from_connection_string(connection_string)
    client = EventHubConsumerClient.from_connection_string(
        connection_string, consumer_group="$Default", eventhub_name="telemetry", checkpoint_store=store
    )

`tandem.checkpoints.aio` has the same for `azure.eventhub.aio`. It needs the package azure-eventhub.
"""

from tandem.checkpoints.blocking import TandemCheckpointStore

__all__ = ["TandemCheckpointStore"]
