"""`NAME.localhost` leads to this machine, for AMQP and HTTP and in both forms, whatever the system's resolver knows."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.client import (
    BrokeredMessage,
    HostNotFoundError,
    MessagingCommunicationError,
    MessagingFactory,
    MessagingFactorySettings,
    NamespaceManager,
    NoRetry,
    TokenProvider,
    sync,
)
from tandem.testing import Broker
from tests.client.network import KEY, RULE_NAME
from tests.patience import PATIENCE_S

TOML = '[[namespace]]\nname = "front"\n\n[[namespace]]\nname = "back"\n'
PROVIDER = TokenProvider.create_shared_access_signature(RULE_NAME, KEY)
ONCE = MessagingFactorySettings(retry_policy=NoRetry())


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder: Path = tmp_path_factory.mktemp("house")
    (folder / "two.toml").write_text(TOML)
    with Broker(folder / "data", arguments=("--dev", "--config", str(folder / "two.toml"))) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_names_below_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system whose resolver does not know RFC 6761."""
    resolve = socket.getaddrinfo

    # Any: the parameters of the system's function.
    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if str(host).endswith(".localhost"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize("scheme", ["amqp", "sb"])
async def test_a_namespace_below_localhost_is_managed_and_used(house: Broker, scheme: str) -> None:
    trusted = ssl.create_default_context(cafile=str(house.ca_path))
    settings = MessagingFactorySettings(ssl_context=trusted)
    address = f"{scheme}://back.localhost:{house.port}"
    await NamespaceManager(address, PROVIDER, settings).create_queue(f"orders-{scheme}")
    async with MessagingFactory.create(address, PROVIDER, settings) as factory:
        reported = await factory.identify()
        assert reported is not None
        assert reported.name == "back", "the name selects the namespace"
        client = factory.create_queue_client(f"orders-{scheme}")
        await client.send(BrokeredMessage("hello"))
        assert await client.receive(PATIENCE_S) is not None


def test_a_namespace_below_localhost_is_used_without_asyncio(house: Broker) -> None:
    address = f"amqp://back.localhost:{house.port}"
    sync.NamespaceManager(address, PROVIDER).create_queue("orders-sync")
    with sync.MessagingFactory.create(address, PROVIDER) as factory:
        reported = factory.identify()
        assert reported is not None
        assert reported.name == "back"
        factory.create_queue_client("orders-sync").send(sync.BrokeredMessage("hello"))


async def test_a_host_that_does_not_exist_is_an_error_of_its_own() -> None:
    address = "amqp://no-such-host.invalid:5672"
    async with MessagingFactory.create(address, PROVIDER, ONCE) as factory:
        with pytest.raises(HostNotFoundError, match=r"no-such-host.invalid"):
            await factory.create_queue_client("orders").send(BrokeredMessage())
    with pytest.raises(HostNotFoundError, match=r"no-such-host.invalid"):
        await NamespaceManager(address, PROVIDER, ONCE).get_queues()


async def test_a_resolver_in_trouble_is_not_a_host_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    for attempt in (
        MessagingFactory.create("amqp://broker.example", PROVIDER, ONCE).identify,
        NamespaceManager("amqp://broker.example", PROVIDER, ONCE).get_queues,
    ):
        with pytest.raises(MessagingCommunicationError) as raised:
            await attempt()
        assert type(raised.value) is MessagingCommunicationError
