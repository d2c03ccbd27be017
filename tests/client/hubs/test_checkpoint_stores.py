"""One suite for every checkpoint store: owners by etag, and the last checkpoint."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from tandem.client import Checkpoint, CheckpointStore, FileCheckpointStore, Ownership, SqliteCheckpointStore, Stream

STREAM = Stream("sb://host", "hub/with/slashes", "$Default")
OTHER = Stream("sb://host", "hub/with/slashes", "others")


@pytest.fixture(params=["sqlite", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    return again(request.param, tmp_path)


def again(kind: str, folder: Path) -> CheckpointStore:
    return SqliteCheckpointStore(folder / "store.db") if kind == "sqlite" else FileCheckpointStore(folder / "store")


async def test_a_store_begins_empty(store: CheckpointStore) -> None:
    assert await store.list_ownerships(STREAM) == []
    assert await store.list_checkpoints(STREAM) == []
    assert await store.claim_ownerships(STREAM, []) == []


async def test_a_claim_is_kept_with_an_etag_of_its_own(store: CheckpointStore) -> None:
    (granted,) = await store.claim_ownerships(STREAM, [Ownership("0", "a", 12.5)])
    assert granted.etag
    assert dataclasses.replace(granted, etag=None) == Ownership("0", "a", 12.5)
    assert await store.list_ownerships(STREAM) == [granted]
    assert await store.list_ownerships(OTHER) == []


async def test_a_claim_on_an_older_state_is_refused(store: CheckpointStore) -> None:
    (first,) = await store.claim_ownerships(STREAM, [Ownership("0", "a", 1.0)])
    assert await store.claim_ownerships(STREAM, [Ownership("0", "b", 2.0)]) == []
    (renewed,) = await store.claim_ownerships(STREAM, [dataclasses.replace(first, renewed_at_s=3.0)])
    assert renewed.etag != first.etag
    assert await store.claim_ownerships(STREAM, [dataclasses.replace(first, owner_id="b")]) == []
    (taken,) = await store.claim_ownerships(STREAM, [dataclasses.replace(renewed, owner_id="b")])
    assert await store.list_ownerships(STREAM) == [taken]


async def test_of_many_who_claim_the_same_one_gets_it(store: CheckpointStore) -> None:
    claims = [[Ownership(str(partition), f"owner-{owner}", 1.0) for partition in range(4)] for owner in range(10)]
    granted = await asyncio.gather(*(store.claim_ownerships(STREAM, one) for one in claims))
    assert sum(len(one) for one in granted) == 4


async def test_the_last_checkpoint_of_each_partition_is_kept(store: CheckpointStore) -> None:
    await store.update_checkpoint(STREAM, Checkpoint("0", 5, "500"))
    await store.update_checkpoint(STREAM, Checkpoint("1", 7))
    await store.update_checkpoint(STREAM, Checkpoint("0", 6, "600"))
    await store.update_checkpoint(OTHER, Checkpoint("0", 99))
    found = sorted(await store.list_checkpoints(STREAM), key=lambda one: one.partition_id)
    assert found == [Checkpoint("0", 6, "600"), Checkpoint("1", 7)]


@pytest.mark.parametrize("kind", ["sqlite", "files"])
async def test_another_process_finds_what_one_has_kept(kind: str, tmp_path: Path) -> None:
    first, second = again(kind, tmp_path), again(kind, tmp_path)
    (granted,) = await first.claim_ownerships(STREAM, [Ownership("0", "a", 1.0)])
    await first.update_checkpoint(STREAM, Checkpoint("0", 5))
    assert await second.list_ownerships(STREAM) == [granted]
    assert await second.list_checkpoints(STREAM) == [Checkpoint("0", 5)]


async def test_no_half_written_file_stays_behind(tmp_path: Path) -> None:
    await FileCheckpointStore(tmp_path).update_checkpoint(STREAM, Checkpoint("0", 5))
    names = [path.name for path in await asyncio.to_thread(lambda: list(tmp_path.rglob("*.*")))]
    assert names == ["checkpoint-0.json"]
