"""The checkpoint store for `azure.eventhub.aio`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from azure.eventhub.aio import CheckpointStore

from tandem.checkpoints.records import (
    claims_by_stream,
    read_checkpoint,
    stream_of,
    written_checkpoint,
    written_ownership,
)
from tandem.client import BrokerCheckpointStore, MessagingFactorySettings, Stream

__all__ = ["TandemCheckpointStore"]


class TandemCheckpointStore(CheckpointStore):
    """Keeps ownerships and checkpoints with the hub, in the broker. It holds no connection and needs no close.

    The names and types of the parameters are those of the SDK's own base class.
    """

    def __init__(self, store: BrokerCheckpointStore) -> None:
        self._store = store

    @classmethod
    def from_connection_string(
        cls, connection_string: str, settings: MessagingFactorySettings | None = None
    ) -> TandemCheckpointStore:
        """Return a store in the namespace, and with the key, that a connection string names."""
        return cls(BrokerCheckpointStore.from_connection_string(connection_string, settings))

    async def list_ownership(
        self, fully_qualified_namespace: str, eventhub_name: str, consumer_group: str, **kwargs: Any
    ) -> Iterable[dict[str, Any]]:
        stream = Stream(fully_qualified_namespace, eventhub_name, consumer_group)
        return [written_ownership(stream, one) for one in await self._store.list_ownerships(stream)]

    async def claim_ownership(
        self, ownership_list: Iterable[dict[str, Any]], **kwargs: Any
    ) -> Iterable[dict[str, Any]]:
        return [
            written_ownership(stream, granted)
            for stream, claims in claims_by_stream(ownership_list).items()
            for granted in await self._store.claim_ownerships(stream, claims)
        ]

    async def update_checkpoint(self, checkpoint: dict[str, str | int | None], **kwargs: Any) -> None:
        await self._store.update_checkpoint(stream_of(checkpoint), read_checkpoint(checkpoint))

    async def list_checkpoints(
        self, fully_qualified_namespace: str, eventhub_name: str, consumer_group: str, **kwargs: Any
    ) -> Iterable[dict[str, Any]]:
        stream = Stream(fully_qualified_namespace, eventhub_name, consumer_group)
        return [written_checkpoint(stream, one) for one in await self._store.list_checkpoints(stream)]
