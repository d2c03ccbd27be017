"""One suite for every checkpoint store: owners by etag, and the last checkpoint."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.client import (
    BrokerCheckpointStore,
    Checkpoint,
    CheckpointStore,
    FileCheckpointStore,
    InvalidOperationError,
    MessagingEntityNotFoundError,
    MessagingError,
    MessagingFactorySettings,
    NoRetry,
    Ownership,
    SqliteCheckpointStore,
    Stream,
    UnauthorizedAccessError,
)
from tandem.testing import Broker

STREAM = Stream("sb://host", "hub/with/slashes", "$Default")
OTHER = Stream("sb://host", "hub/with/slashes", "others")
KINDS = ["sqlite", "files", "broker"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def folder(kind: str, broker: Broker, tmp_path: Path) -> Iterator[Path]:
    """Where the stores are; for the one in the broker, with the hub that it needs."""
    if kind == "broker":
        broker.create_hub(STREAM.event_hub_name, partition_count=4, consumer_groups=[OTHER.consumer_group])
    yield tmp_path
    if kind == "broker":
        broker.management.hubs.delete(STREAM.event_hub_name)


@pytest.fixture
def store(kind: str, folder: Path, broker: Broker) -> CheckpointStore:
    return again(kind, folder, broker)


def again(kind: str, folder: Path, broker: Broker) -> CheckpointStore:
    if kind == "broker":
        return BrokerCheckpointStore.from_connection_string(broker.connection_string)
    return SqliteCheckpointStore(folder / "store.db") if kind == "sqlite" else FileCheckpointStore(folder / "store")


async def test_a_store_begins_empty(store: CheckpointStore) -> None:
    assert await store.list_ownerships(STREAM) == []
    assert await store.list_checkpoints(STREAM) == []
    assert await store.claim_ownerships(STREAM, []) == []


async def test_a_claim_is_kept_with_an_etag_of_its_own(store: CheckpointStore) -> None:
    now_s = round(time.time(), 3)
    (granted,) = await store.claim_ownerships(STREAM, [Ownership("0", "a", now_s)])
    assert granted.etag
    assert (granted.partition_id, granted.owner_id) == ("0", "a")
    # The broker's own clock counts, or the claimer's.
    assert now_s <= granted.renewed_at_s <= time.time()
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


async def test_another_process_finds_what_one_has_kept(kind: str, folder: Path, broker: Broker) -> None:
    first, second = again(kind, folder, broker), again(kind, folder, broker)
    (granted,) = await first.claim_ownerships(STREAM, [Ownership("0", "a", 1.0)])
    await first.update_checkpoint(STREAM, Checkpoint("0", 5))
    assert await second.list_ownerships(STREAM) == [granted]
    assert await second.list_checkpoints(STREAM) == [Checkpoint("0", 5)]


async def test_no_half_written_file_stays_behind(tmp_path: Path) -> None:
    await FileCheckpointStore(tmp_path).update_checkpoint(STREAM, Checkpoint("0", 5))
    names = [path.name for path in await asyncio.to_thread(lambda: list(tmp_path.rglob("*.*")))]
    assert names == ["checkpoint-0.json"]


@pytest.mark.parametrize("kind", ["broker"])
async def test_what_the_broker_refuses_is_raised_as_a_messaging_error(
    kind: str, folder: Path, broker: Broker, name: str
) -> None:
    store = again(kind, folder, broker)
    with pytest.raises(MessagingEntityNotFoundError, match=name):
        await store.list_ownerships(dataclasses.replace(STREAM, event_hub_name=name))
    with pytest.raises(MessagingEntityNotFoundError, match="no such consumer group"):
        await store.update_checkpoint(dataclasses.replace(STREAM, consumer_group="nobody"), Checkpoint("0", 1))
    with pytest.raises(InvalidOperationError, match="partition"):
        await store.update_checkpoint(STREAM, Checkpoint("4", 1))
    with pytest.raises(InvalidOperationError, match="partition"):
        await store.claim_ownerships(STREAM, [Ownership("0", "a", 0.0), Ownership("x", "a", 0.0)])
    assert await store.list_ownerships(STREAM) == []
    wrong_key = broker.connection_string.replace("SAS_KEY_VALUE", "WRONG")
    with pytest.raises(UnauthorizedAccessError):
        await BrokerCheckpointStore.from_connection_string(wrong_key).list_checkpoints(STREAM)


@pytest.mark.parametrize("answer", [b"<html/>", b"[]", b'{"error": "x"}'])
async def test_what_is_no_broker_is_named(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        status = b"404 Not Found" if b"error" in answer else b"200 OK"
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(answer), answer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        given = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
        settings = MessagingFactorySettings(retry_policy=NoRetry())
        store = BrokerCheckpointStore.from_connection_string(given, settings)
        with pytest.raises(MessagingError, match=f"127.0.0.1:{port}"):
            await store.list_checkpoints(STREAM)
