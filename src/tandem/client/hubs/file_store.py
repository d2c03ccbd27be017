"""Ownerships and checkpoints as files of a directory, for a few processors and for people who like to look.

    DIRECTORY/<namespace>/<hub>/<group>/ownership-<partition>.json
                                        checkpoint-<partition>.json
                                        lock

Each file is written under another name and renamed, so that a reader sees the old or the new one and nothing between.
Claims are made under a lock of the operating system, which goes with the process that holds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tandem.client.hubs.checkpoint_store import Checkpoint, CheckpointStore, Ownership, Stream

__all__ = ["FileCheckpointStore"]


class FileCheckpointStore(CheckpointStore):
    """Several processes may use the same directory, on a disk that has the locks of POSIX."""

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)

    async def list_ownerships(self, stream: Stream) -> list[Ownership]:
        return [Ownership(**fields) for fields in await asyncio.to_thread(self._read_all, stream, "ownership")]

    async def claim_ownerships(self, stream: Stream, claims: Sequence[Ownership]) -> list[Ownership]:
        return await asyncio.to_thread(self._claim_all, stream, claims)

    async def list_checkpoints(self, stream: Stream) -> list[Checkpoint]:
        return [Checkpoint(**fields) for fields in await asyncio.to_thread(self._read_all, stream, "checkpoint")]

    async def update_checkpoint(self, stream: Stream, checkpoint: Checkpoint) -> None:
        await asyncio.to_thread(self._write, stream, "checkpoint", checkpoint)

    def _folder(self, stream: Stream) -> Path:
        parts = (stream.namespace, stream.event_hub_name, stream.consumer_group)
        # Names may hold slashes; a file name may not.
        folder = self._directory.joinpath(*(quote(part, safe="") for part in parts))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    # Any: what a JSON object holds.
    def _read_all(self, stream: Stream, kind: str) -> list[dict[str, Any]]:
        paths = sorted(self._folder(stream).glob(f"{kind}-*.json"))
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    def _claim_all(self, stream: Stream, claims: Sequence[Ownership]) -> list[Ownership]:
        granted: list[Ownership] = []
        with _locked(self._folder(stream) / "lock"):
            etags = {fields["partition_id"]: fields["etag"] for fields in self._read_all(stream, "ownership")}
            for claim in claims:
                if etags.get(claim.partition_id) == claim.etag:
                    one = dataclasses.replace(claim, etag=uuid.uuid4().hex)
                    self._write(stream, "ownership", one)
                    granted.append(one)
        return granted

    def _write(self, stream: Stream, kind: str, value: Ownership | Checkpoint) -> None:
        path = self._folder(stream) / f"{kind}-{quote(value.partition_id, safe='')}.json"
        # Its own name for each writer, and not one that a reader looks for.
        fresh = path.with_suffix(f".{uuid.uuid4().hex}.new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(value), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    # Here and not above: Windows has none, and everything else of the client works there.
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
