"""What deleted queues leave behind in the tables: deleted a few rows at a time, as there may be millions of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import apsw

from tandem.engine.message import SEQUENCE_BITS
from tandem.engine.queue import STREAMS_PER_QUEUE

__all__ = ["Garbage"]

# Rows that are deleted at once, and of how many streams at most.
_ROWS: Final = 2_000
_STREAMS: Final = 200

_MESSAGES: Final = f"""
DELETE FROM message WHERE row IN
    (SELECT row FROM message WHERE row >= ?1 << {SEQUENCE_BITS} AND row < ?1 + 1 << {SEQUENCE_BITS} LIMIT ?2)
RETURNING body_number
"""  # noqa: S608 # numbers only
_SESSIONS: Final = """
DELETE FROM session WHERE rowid IN (SELECT rowid FROM session WHERE stream = ?1 LIMIT ?2)
"""
_DUPLICATES: Final = f"""
DELETE FROM duplicate WHERE (queue, key) IN
    (SELECT queue, key FROM duplicate WHERE queue = ?1 / {STREAMS_PER_QUEUE} LIMIT ?2)
"""  # noqa: S608 # numbers only

# Counts copies of shared bodies down, and adds to a mapping by how many bytes that changes the streams they count to.
Release = Callable[[Mapping[int, int], dict[int, int]], None]


class Garbage:
    """The streams of deleted queues. What is still written to one has no reader, and nobody counts it."""

    def __init__(self, connection: apsw.Connection, release: Release) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._release = release
        # Also those that were swept: as long as no queue can get their numbers, something may come late for them.
        self._streams = {stream for (stream,) in self._execute("SELECT stream FROM garbage")}
        self.is_left = bool(self._streams)

    def __contains__(self, stream: int) -> bool:
        return stream in self._streams

    def add(self, stream: int) -> None:
        self._execute("INSERT OR IGNORE INTO garbage VALUES (?)", (stream,))
        self._streams.add(stream)
        self.is_left = True

    def sweep(self) -> dict[int, int]:
        """Delete some rows. Returns by how many bytes the shared bodies that are counted to a stream have shrunk."""
        streams = [stream for (stream,) in self._execute("SELECT stream FROM garbage LIMIT ?", (_STREAMS,))]
        self.is_left = bool(streams)
        freed: dict[int, int] = {}
        with self._connection:
            row_count = 0
            for stream in streams:
                row_count += self._sweep_stream(stream, _ROWS - row_count, freed)
                if row_count == _ROWS:
                    break
        return freed

    def sweep_from(self, number: int) -> None:
        """New queues get the numbers after the last one: nothing of a deleted queue may wait for them there."""
        first = number * STREAMS_PER_QUEUE
        streams = sorted(stream for stream in self._streams if stream >= first)
        for stream in streams:
            is_swept = False
            while not is_swept:
                with self._connection:
                    is_swept = self._sweep_stream(stream, _ROWS, {}) < _ROWS
        # Not before: what subscriptions held is counted to their topic, which went with them.
        self._streams.difference_update(streams)

    def _sweep_stream(self, stream: int, limit: int, freed: dict[int, int]) -> int:
        """Delete as many rows of it; returns how many there were. With fewer, nothing is left of it."""
        numbers = [number for (number,) in self._execute(_MESSAGES, (stream, limit))]
        released = Counter(number for number in numbers if number is not None)
        if released:
            self._sweep_bodies(released, freed)
        row_count = len(numbers)
        for statement in (_SESSIONS, _DUPLICATES):
            if row_count < limit:
                self._execute(statement, (stream, limit - row_count))
                row_count += self._connection.changes()
        if row_count < limit:
            self._execute("DELETE FROM garbage WHERE stream = ?", (stream,))
        return row_count

    def _sweep_bodies(self, released: Mapping[int, int], freed: dict[int, int]) -> None:
        changes: dict[int, int] = {}
        self._release(released, changes)
        for stream, by_bytes in changes.items():
            if stream in self._streams:
                continue
            # A topic may be gone, and swept before its subscriptions are: nobody counts for it any more.
            self._execute("UPDATE stream SET size_bytes = size_bytes + ? WHERE stream = ?", (by_bytes, stream))
            if self._connection.changes():
                freed[stream] = freed.get(stream, 0) + by_bytes
