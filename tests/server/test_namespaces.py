"""Several namespaces in one broker: each has its own entities and keys, and is found by the name of the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tandem.amqp import ACCEPTED, Settings
from tandem.amqp.message import encode_message
from tandem.auth import make_token
from tandem.driver import Client
from tandem.engine.description import QueueDescription
from tandem.errors import RemoteError, StoreError, TandemError
from tandem.management.api import add_routes
from tandem.server.broker import Broker, BrokerSettings
from tandem.server.hosted_namespace import HostedNamespace
from tests.markers import mission

RULE = "RootManageSharedAccessKey"


@asynccontextmanager
async def running(directory: Path, *names: str) -> AsyncIterator[Broker]:
    first, *others = names
    settings = BrokerSettings(
        directory, namespace=first, further_namespaces=tuple(others), port=0, http_port=0, tls="off"
    )
    broker = Broker(settings)
    add_routes(broker)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def hosted(broker: Broker, name: str) -> HostedNamespace:
    return broker.directory.find(f"{name}.localhost")


def key_of(broker: Broker, name: str) -> str:
    rule = hosted(broker, name).key_ring.get(RULE)
    assert rule is not None
    return rule.primary_key


async def make_queue(broker: Broker, name: str, queue: str) -> None:
    await hosted(broker, name).perform(lambda namespace: namespace.create_queue(QueueDescription(queue)))


async def connect(broker: Broker, host: str | None, key: str) -> Client:
    settings = Settings("client", hostname=host, user=RULE, password=key)
    return await Client.connect("127.0.0.1", broker.port, settings)


@mission("M4")
async def test_each_namespace_has_its_own_queues(tmp_path: Path) -> None:
    async with running(tmp_path, "one", "two") as broker:
        await make_queue(broker, "one", "q")
        async with await connect(broker, "one.servicebus.windows.net", key_of(broker, "one")) as client:
            assert await (await client.sender("q")).send(encode_message(data=b"x")) == ACCEPTED
        async with await connect(broker, "two.servicebus.windows.net", key_of(broker, "two")) as client:
            with pytest.raises(RemoteError, match="could not be found"):
                await client.sender("q")
        assert hosted(broker, "one").namespace.get("q").main.active_count == 1
        assert hosted(broker, "two").namespace.find("q") is None


@mission("M4")
async def test_the_key_of_one_namespace_opens_no_other(tmp_path: Path) -> None:
    async with running(tmp_path, "one", "two") as broker:
        assert key_of(broker, "one") != key_of(broker, "two")
        with pytest.raises(TandemError, match="credentials"):
            await connect(broker, "two.localhost", key_of(broker, "one"))


async def test_a_host_that_names_no_namespace_is_the_default_one(tmp_path: Path) -> None:
    async with running(tmp_path, "one", "two") as broker:
        await make_queue(broker, "one", "q")
        for host in (None, "localhost", "127.0.0.1", "three.localhost", "bus.example.com"):
            async with await connect(broker, host, key_of(broker, "one")) as client:
                await client.sender("q")


async def test_who_is_logged_in_stays_in_its_namespace_whatever_its_open_says(tmp_path: Path) -> None:
    async with running(tmp_path, "one", "two") as broker:
        await make_queue(broker, "two", "q")
        client = await connect(broker, "one.localhost", key_of(broker, "one"))
        async with client:
            with pytest.raises(RemoteError, match="could not be found"):
                await client.sender("q")


async def test_http_finds_the_namespace_by_the_host_header(tmp_path: Path) -> None:
    async with running(tmp_path, "one", "two") as broker, aiohttp.ClientSession() as session:
        await make_queue(broker, "two", "only-in-two")
        url = f"http://127.0.0.1:{broker.http_port}/$api/v1/queues"
        for name, queues in (("one", []), ("two", ["only-in-two"])):
            host = f"{name}.localhost:{broker.http_port}"
            token = make_token(f"http://{host}/", RULE, key_of(broker, name), 4_000_000_000)
            headers = {"Host": host, "Authorization": token}
            async with session.get(url, headers=headers) as response:
                assert response.status == 200
                assert [queue["name"] for queue in (await response.json())["queues"]] == queues
        host = f"two.localhost:{broker.http_port}"
        wrong = make_token(f"http://{host}/", RULE, key_of(broker, "one"), 4_000_000_000)
        async with session.get(url, headers={"Host": host, "Authorization": wrong}) as response:
            assert response.status == 401


@mission("M1")
async def test_all_namespaces_are_there_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path, "one", "two") as broker:
        await make_queue(broker, "two", "q")
        key = key_of(broker, "two")
        async with await connect(broker, "two.localhost", key) as client:
            await (await client.sender("q")).send(encode_message(data=b"x"))
    async with running(tmp_path, "one", "two") as broker:
        assert key_of(broker, "two") == key
        assert hosted(broker, "two").namespace.get("q").main.active_count == 1


async def test_a_namespace_that_cannot_be_opened_leaves_the_others_unlocked(tmp_path: Path) -> None:
    async with running(tmp_path / "busy", "two"):
        (tmp_path / "mine" / "namespaces").mkdir(parents=True)
        (tmp_path / "mine" / "namespaces" / "two").symlink_to(tmp_path / "busy")
        settings = BrokerSettings(tmp_path / "mine", namespace="one", further_namespaces=("two",), port=0, http_port=0)
        with pytest.raises(StoreError, match="in use"):
            Broker(settings)
        async with running(tmp_path / "mine", "one"):
            await asyncio.sleep(0)
