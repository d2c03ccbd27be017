"""The official SDK in a pair: who its primary is, and what is configured wrongly."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import ServiceBusConnectionError, ServiceBusError

from tandem.client import CertificateNotTrustedError, HostNotFoundError, UnauthorizedAccessError
from tandem.errors import ConfigurationError
from tandem.pairing import FailoverState, PairingEvent
from tandem.pairing.azure import PairedServiceBusClient, PairedServiceBusOptions, SyphonRunner, aio
from tandem.testing import Broker
from tests.markers import mission
from tests.pairing.test_identity import backlog, spelled
from tests.patience import until

DEVELOPMENT = ("--dev", "--allow-faults")

# The SDK leaves sockets behind when a connection fails; that is not ours to judge.


@pytest.fixture
def secondary(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "secondary", arguments=(*DEVELOPMENT, "--namespace", "backup")) as broker:
        yield broker


@pytest.fixture
def sales(tmp_path: Path) -> Iterator[Broker]:
    """A primary that is not started yet."""
    with contextlib.closing(Broker(tmp_path / "sales", arguments=(*DEVELOPMENT, "--namespace", "sales"))) as broker:
        yield broker


class Driven:
    """A paired client of the SDK, of either kind."""

    def __init__(self, client: Any, is_async: bool, events: list[PairingEvent]) -> None:
        self.client = client
        self.events = events
        self._is_async = is_async

    async def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        return await (method(*arguments) if self._is_async else asyncio.to_thread(method, *arguments))

    async def send(self, text: str) -> None:
        await self.call(self.client.get_queue_sender("orders").send_messages, ServiceBusMessage(text))


Drive = Callable[..., contextlib.AbstractAsyncContextManager[Driven]]


@pytest.fixture(params=["blocking", "asyncio"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "asyncio")


@pytest.fixture
def drive(is_async: bool, secondary: Broker) -> Drive:
    @contextlib.asynccontextmanager
    async def make(primary: Any, **chosen: Any) -> AsyncIterator[Driven]:
        events: list[PairingEvent] = []
        given = {
            "backlog_queue_count": 2,
            "failover_interval": timedelta(0),
            "ping_primary_interval": timedelta(milliseconds=200),
            "listener": events.append,
            **chosen,
        }
        kind = aio.PairedServiceBusClient if is_async else PairedServiceBusClient
        client = kind(primary, secondary.connection_string, PairedServiceBusOptions(**given))
        driven = Driven(client, is_async, events)
        try:
            await driven.call(client.set_up)
            yield driven
        finally:
            await driven.call(client.close)

    return make


@mission("M21", "M26")
async def test_a_backlog_of_the_sdk_is_found_by_another_spelling_of_the_address(
    drive: Drive, sales: Broker, secondary: Broker
) -> None:
    sales.start()
    sales.create_queue("orders")
    async with drive(spelled(sales, "127.0.0.1")) as driven:
        sales.kill()
        await driven.send("on a detour")
    assert backlog(secondary) == {"sales": 1}
    sales.start()
    async with SyphonRunner(spelled(sales, "sales.localhost"), secondary.connection_string) as runner:
        await until(lambda: runner.moved_count == 1, "the backlog arrives")


@mission("M16")
async def test_a_program_of_the_sdk_that_starts_in_an_outage_strands_nothing(
    drive: Drive, sales: Broker, secondary: Broker
) -> None:
    async with drive(spelled(sales, "localhost")) as driven:
        await driven.send("on a detour")
        (provisional,) = backlog(secondary)
        sales.start()
        sales.create_queue("orders")

        def identified() -> list[PairingEvent]:
            return [event for event in driven.events if event["event"] == "primary-identified"]

        await until(lambda: bool(identified()), "the program learns who its primary is")
        (event,) = identified()
        assert (event["used"], event["namespace"]) == (provisional, "sales")
    async with SyphonRunner(spelled(sales, "sales.localhost"), secondary.connection_string) as runner:
        await until(lambda: runner.moved_count == 1, "the backlog arrives")


@mission("M19")
async def test_what_is_configured_wrongly_is_raised_when_the_sdk_is_set_up(
    drive: Drive, sales: Broker, secondary: Broker
) -> None:
    sales.start()
    with pytest.raises(UnauthorizedAccessError):
        async with drive(sales.connection_string.replace("SAS_KEY_VALUE", "not the key")):
            pass
    with pytest.raises(HostNotFoundError, match="allow_unresolved_primary=True"):
        async with drive(spelled(sales, "no-such-host.invalid")):
            pass
    with pytest.raises(ConfigurationError, match="both namespaces of the pair are one"):
        async with drive(spelled(secondary, "backup.localhost")):
            pass
    assert backlog(secondary) == {}, "nothing was set up"
    async with drive(spelled(sales, "no-such-host.invalid"), allow_unresolved_primary=True) as driven:
        await driven.send("on a detour")
    assert sum(backlog(secondary).values()) == 1


# Any: the clients of both kinds, and their settings.
def tls_client(is_async: bool, broker: Broker, **trusted: Any) -> Any:
    """A client of the SDK that speaks TLS to a broker."""
    kind = AsyncServiceBusClient if is_async else ServiceBusClient
    return kind(
        "localhost",
        AzureNamedKeyCredential("RootManageSharedAccessKey", "SAS_KEY_VALUE"),
        custom_endpoint_address=f"sb://localhost:{broker.port}",
        retry_total=0,
        **trusted,
    )


@mission("M19")
async def test_a_certificate_that_the_sdk_does_not_trust_is_raised_when_it_is_set_up(
    drive: Drive, is_async: bool, sales: Broker, secondary: Broker
) -> None:
    sales.start()
    sales.create_queue("orders")
    with pytest.raises(CertificateNotTrustedError):
        async with drive(tls_client(is_async, sales)):
            pass
    assert backlog(secondary) == {}, "nothing was set up"
    async with drive(tls_client(is_async, sales, connection_verify=str(sales.ca_path))) as driven:
        await driven.send("in secret")
    assert sales.queue("orders")["active_message_count"] == 1


@mission("M22")
async def test_a_certificate_that_the_sdk_no_longer_trusts_is_raised_by_sends(
    drive: Drive, is_async: bool, sales: Broker, secondary: Broker, tmp_path: Path
) -> None:
    sales.start()
    sales.create_queue("orders")
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(sales.ca_path.read_bytes())
    async with drive(tls_client(is_async, sales, connection_verify=str(trusted))) as driven:
        sales.stop()
        for file in (sales.data_dir / "tls").iterdir():
            file.unlink()
        sales.start()
        with pytest.raises((ServiceBusConnectionError, ServiceBusError)):
            await driven.send("to whom?")
        assert driven.client.states == {"orders": FailoverState.HEALTHY}
    assert sum(backlog(secondary).values()) == 0


async def test_clients_of_the_sdk_pair_in_an_outage_too(
    drive: Drive, is_async: bool, sales: Broker, secondary: Broker
) -> None:
    kind = AsyncServiceBusClient if is_async else ServiceBusClient
    client = kind.from_connection_string(sales.connection_string, retry_total=0)
    async with drive(client) as driven:
        await driven.send("on a detour")
    sales.start()
    sales.create_queue("orders")
    async with SyphonRunner(spelled(sales, "localhost"), secondary.connection_string) as runner:
        await until(lambda: runner.moved_count == 1, "the backlog arrives")
