"""Where processors keep who owns which partition and how far it was read: the interface, and what is kept.

A store is shared by all processes that read a hub together. It decides by etags: a claim that was made on an older
state than the store has is refused, so that of two processors that want the same partition one gets it.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Checkpoint", "CheckpointStore", "Ownership", "Stream"]


@dataclass(frozen=True)
class Stream:
    """What is read together: a hub, as one consumer group sees it."""

    namespace: str
    event_hub_name: str
    consumer_group: str


@dataclass(frozen=True)
class Ownership:
    """Who reads a partition. An empty `owner_id` is nobody. `etag` is the store's, None for one that it never saw."""

    partition_id: str
    owner_id: str
    renewed_at_s: float
    etag: str | None = None


@dataclass(frozen=True)
class Checkpoint:
    """How far a partition was read: up to and with this event."""

    partition_id: str
    sequence_number: int
    offset: str | None = None


class CheckpointStore(abc.ABC):
    """Keeps ownerships and checkpoints. Subclass it to keep them elsewhere."""

    @abc.abstractmethod
    async def list_ownerships(self, stream: Stream) -> list[Ownership]:
        """All that were ever claimed, those that have expired too."""

    @abc.abstractmethod
    async def claim_ownerships(self, stream: Stream, claims: Sequence[Ownership]) -> list[Ownership]:
        """Take over those whose etag is the store's own, and return them with new etags. The others are not yours."""

    @abc.abstractmethod
    async def list_checkpoints(self, stream: Stream) -> list[Checkpoint]:
        """The last checkpoint of each partition."""

    @abc.abstractmethod
    async def update_checkpoint(self, stream: Stream, checkpoint: Checkpoint) -> None:
        """Remember how far a partition was read."""
