"""The checkpoint store for `azure.eventhub`, in calls that wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from azure.eventhub import CheckpointStore

from tandem.checkpoints import aio
from tandem.client import BrokerCheckpointStore, MessagingFactorySettings
from tandem.client.blocking import run

__all__ = ["TandemCheckpointStore"]


class TandemCheckpointStore(CheckpointStore):
    """Keeps ownerships and checkpoints with the hub, in the broker. Several threads may use it; it needs no close."""

    def __init__(self, store: BrokerCheckpointStore) -> None:
        self._store = aio.TandemCheckpointStore(store)

    @classmethod
    def from_connection_string(
        cls, connection_string: str, settings: MessagingFactorySettings | None = None
    ) -> TandemCheckpointStore:
        """Return a store in the namespace, and with the key, that a connection string names."""
        return cls(BrokerCheckpointStore.from_connection_string(connection_string, settings))

    def list_ownership(
        self, fully_qualified_namespace: str, eventhub_name: str, consumer_group: str, **kwargs: Any
    ) -> Iterable[dict[str, Any]]:
        return run(self._store.list_ownership(fully_qualified_namespace, eventhub_name, consumer_group))

    def claim_ownership(self, ownership_list: Iterable[dict[str, Any]], **kwargs: Any) -> Iterable[dict[str, Any]]:
        return run(self._store.claim_ownership(ownership_list))

    def update_checkpoint(self, checkpoint: dict[str, str | int | None], **kwargs: Any) -> None:
        run(self._store.update_checkpoint(checkpoint))

    def list_checkpoints(
        self, fully_qualified_namespace: str, eventhub_name: str, consumer_group: str, **kwargs: Any
    ) -> Iterable[dict[str, Any]]:
        return run(self._store.list_checkpoints(fully_qualified_namespace, eventhub_name, consumer_group))
