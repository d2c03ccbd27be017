"""The events of hubs as a part of a store: a log of them, and the hubs that a batch deletes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tandem.engine.hubs.event import Event
from tandem.engine.queries import EventsQuery, EventTimeQuery, Query
from tandem.errors import ArrowUnavailable
from tandem.store.base import Trimmed

__all__ = ["StoredEvents"]


class Log(Protocol):
    """The part of a log that is the same on disk and in memory."""

    @property
    def has_uncommitted(self) -> bool: ...

    @property
    def has_more_to_seal(self) -> bool: ...

    def drop_hub(self, hub_number: int) -> None: ...

    def committed(self) -> None: ...

    def read(
        self, hub_number: int, partition_id: int, from_sequence_number: int, limit: int, limit_bytes: int
    ) -> list[Event]: ...

    def find_time(self, hub_number: int, partition_id: int, at_ms: int) -> int: ...

    def maintain(
        self, now_ms: int, retention: Mapping[int, tuple[int | None, int | None]]
    ) -> list[tuple[int, int, int]]: ...

    def size_bytes(self, hub_number: int, partition_id: int) -> int: ...


class StoredEvents:
    """What `Events` promises, kept in a log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        # Deleted in the batch that is being written.
        self.dropped_hubs: set[int] = set()

    @property
    def has_uncommitted(self) -> bool:
        return self._log.has_uncommitted

    @property
    def has_more_to_seal(self) -> bool:
        return self._log.has_more_to_seal

    def committed(self) -> None:
        self._log.committed()
        # Not before the record of the hub is gone: a hub that a crash brings back must have its events.
        for number in self.dropped_hubs:
            self._log.drop_hub(number)
        self.dropped_hubs.clear()

    def maintain(self, now_ms: int, retention: Mapping[int, tuple[int | None, int | None]]) -> list[Trimmed]:
        return [
            Trimmed(number, partition_id, begin, self._log.size_bytes(number, partition_id))
            for number, partition_id, begin in self._log.maintain(now_ms, retention)
        ]

    def read(self, query: Query) -> bool:
        """Answer a query about events. False if it is about something else."""
        if not isinstance(query, EventsQuery | EventTimeQuery):
            return False
        hub_number, partition_id = query.hub_number, query.partition_id
        try:
            if isinstance(query, EventsQuery):
                first, limit, limit_bytes = query.from_sequence_number, query.limit, query.limit_bytes
                query.answer(self._log.read(hub_number, partition_id, first, limit, limit_bytes))
            else:
                query.answer(self._log.find_time(hub_number, partition_id, query.at_ms))
        except ArrowUnavailable as error:
            query.refuse(error)
        return True
