"""Ownerships and checkpoints in one SQLite file, for the processors of one machine."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import apsw

from tandem.client.hubs.checkpoint_store import Checkpoint, CheckpointStore, Ownership, Stream

__all__ = ["SqliteCheckpointStore"]

# Milliseconds. How long one process waits for another to finish its transaction; each takes a few.
_BUSY_TIMEOUT_MS: Final = 10_000

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS ownership (
    namespace TEXT, hub TEXT, consumer_group TEXT, partition_id TEXT,
    owner_id TEXT NOT NULL, renewed_at_s REAL NOT NULL, etag TEXT NOT NULL,
    PRIMARY KEY (namespace, hub, consumer_group, partition_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoint (
    namespace TEXT, hub TEXT, consumer_group TEXT, partition_id TEXT,
    sequence_number INTEGER NOT NULL, offset_text TEXT,
    PRIMARY KEY (namespace, hub, consumer_group, partition_id)
) WITHOUT ROWID;
"""
_OF_STREAM: Final = "namespace = ? AND hub = ? AND consumer_group = ?"

Result = TypeVar("Result")


class SqliteCheckpointStore(CheckpointStore):
    """Several processes may use the same file. Not over a network: SQLite needs the locks of a local disk."""

    def __init__(self, path: Path | str) -> None:
        self._path = str(path)
        self._lock = threading.Lock()

    async def list_ownerships(self, stream: Stream) -> list[Ownership]:
        query = f"SELECT partition_id, owner_id, renewed_at_s, etag FROM ownership WHERE {_OF_STREAM}"  # noqa: S608 - a constant

        def read(database: apsw.Connection) -> list[Ownership]:
            return [Ownership(*row) for row in database.execute(query, _key(stream))]

        return await self._run(read)

    async def claim_ownerships(self, stream: Stream, claims: Sequence[Ownership]) -> list[Ownership]:
        def claim(database: apsw.Connection) -> list[Ownership]:
            granted = [_claim(database, stream, one) for one in claims]
            return [one for one in granted if one is not None]

        return await self._run(claim)

    async def list_checkpoints(self, stream: Stream) -> list[Checkpoint]:
        query = f"SELECT partition_id, sequence_number, offset_text FROM checkpoint WHERE {_OF_STREAM}"  # noqa: S608 - a constant

        def read(database: apsw.Connection) -> list[Checkpoint]:
            return [Checkpoint(*row) for row in database.execute(query, _key(stream))]

        return await self._run(read)

    async def update_checkpoint(self, stream: Stream, checkpoint: Checkpoint) -> None:
        row = (*_key(stream), checkpoint.partition_id, checkpoint.sequence_number, checkpoint.offset)

        def write(database: apsw.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?, ?, ?, ?)", row)

        await self._run(write)

    async def _run(self, work: Callable[[apsw.Connection], Result]) -> Result:
        """In a thread, in one transaction that excludes all others, on a connection that is closed again."""

        def run() -> Result:
            with self._lock:
                database = apsw.Connection(self._path)
                try:
                    database.set_busy_timeout(_BUSY_TIMEOUT_MS)
                    database.execute("BEGIN IMMEDIATE")
                    database.execute(_SCHEMA)
                    result = work(database)
                    database.execute("COMMIT")
                    return result
                finally:
                    # What was not committed is rolled back by this.
                    database.close()

        return await asyncio.to_thread(run)


def _key(stream: Stream) -> tuple[str, str, str]:
    return stream.namespace, stream.event_hub_name, stream.consumer_group


def _claim(database: apsw.Connection, stream: Stream, claim: Ownership) -> Ownership | None:
    query = f"SELECT etag FROM ownership WHERE {_OF_STREAM} AND partition_id = ?"  # noqa: S608 - a constant
    row = database.execute(query, (*_key(stream), claim.partition_id)).fetchone()
    if (None if row is None else row[0]) != claim.etag:
        return None
    granted = Ownership(claim.partition_id, claim.owner_id, claim.renewed_at_s, uuid.uuid4().hex)
    database.execute(
        "INSERT OR REPLACE INTO ownership VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*_key(stream), granted.partition_id, granted.owner_id, granted.renewed_at_s, granted.etag),
    )
    return granted
