"""What is configured wrongly is raised by `pair_namespace` and by sends; what is away is an outage."""

from __future__ import annotations

import shutil
import socket
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.client import (
    BrokeredMessage,
    CertificateNotTrustedError,
    HostNotFoundError,
    MessagingFactory,
    MessagingFactorySettings,
    NoRetry,
    TokenProvider,
    UnauthorizedAccessError,
)
from tandem.pairing import FailoverState
from tandem.testing import Broker, ChaosProxy
from tests.markers import mission
from tests.pairing.hurry import PairUnderTest, inject
from tests.patience import PATIENCE_S

NO_HOST = "no-such-host.invalid"
KEY = TokenProvider.create_shared_access_signature("RootManageSharedAccessKey", "SAS_KEY_VALUE")
SETTINGS = MessagingFactorySettings(operation_timeout=timedelta(seconds=PATIENCE_S))


def primary_at(pair: PairUnderTest, address: str, provider: TokenProvider = KEY, **chosen: Any) -> None:
    """Give the pair another primary."""
    settings = MessagingFactorySettings(operation_timeout=timedelta(seconds=PATIENCE_S), **chosen)
    pair.primary = MessagingFactory.create(address, provider, settings)


def backlog_names(pair: PairUnderTest) -> set[str]:
    return {queue["name"].partition("/")[0] for queue in pair.secondary_broker.queues()}


class Resolver:
    """A resolver that answers as a test says for one host, and as the system does for all others."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._resolve = socket.getaddrinfo
        # The error for that host; None leads to the loopback interface.
        self.error: int | None = None

    # Any: the parameters of the system's function.
    def __call__(self, host: Any, *arguments: Any, **options: Any) -> Any:
        if host != self._host:
            return self._resolve(host, *arguments, **options)
        if self.error is not None:
            raise socket.gaierror(self.error, "as the test says")
        return self._resolve("127.0.0.1", *arguments, **options)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    resolver = Resolver("primary.test")
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    return resolver


@mission("M19")
async def test_a_host_that_does_not_exist_is_raised_by_pairing(pair: PairUnderTest) -> None:
    primary_at(pair, f"amqp://{NO_HOST}:5672")
    with pytest.raises(HostNotFoundError, match=r"no host of that name.*allow_unresolved_primary=True"):
        await pair.pair()
    assert pair.backlog() == {}, "nothing was set up"


@mission("M19")
async def test_a_host_that_does_not_exist_is_permitted_on_request(pair: PairUnderTest, queue: str) -> None:
    primary_at(pair, f"amqp://{NO_HOST}:5672")
    await pair.pair(allow_unresolved_primary=True, failover_interval=timedelta(0))
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("on a detour"))
    assert sum(pair.backlog().values()) == 1


@mission("M16", "M19")
async def test_a_resolver_that_cannot_answer_is_an_outage(pair: PairUnderTest, queue: str, resolver: Resolver) -> None:
    resolver.error = socket.EAI_AGAIN
    primary_at(pair, f"amqp://primary.test:{pair.primary_broker.port}")
    await pair.pair(failover_interval=timedelta(0))
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("on a detour"))
    assert sum(pair.backlog().values()) == 1


@mission("M16", "M22")
async def test_a_name_that_no_longer_resolves_is_an_outage_once_the_primary_was_reached(
    pair: PairUnderTest, queue: str, resolver: Resolver
) -> None:
    with ChaosProxy("127.0.0.1", pair.primary_broker.port) as proxy:
        primary_at(pair, f"amqp://primary.test:{proxy.port}")
        await pair.pair(failover_interval=timedelta(0))
        client = pair.primary.create_queue_client(queue)
        await client.send(BrokeredMessage("direct"))
        resolver.error = socket.EAI_NONAME
        proxy.reset()
        await client.send(BrokeredMessage("on a detour"))
    assert sum(pair.backlog().values()) == 1
    assert pair.primary_broker.queue(queue)["active_message_count"] == 1


@mission("M16", "M19")
async def test_a_primary_that_accepts_connections_and_says_nothing_is_an_outage(
    pair: PairUnderTest, queue: str
) -> None:
    with ChaosProxy("127.0.0.1", pair.primary_broker.port) as proxy:
        proxy.to_server.is_stalled = True
        # Pairing waits for an answer no longer than an operation may take.
        settings = MessagingFactorySettings(operation_timeout=timedelta(seconds=3))
        pair.primary = MessagingFactory.create(f"amqp://127.0.0.1:{proxy.port}", KEY, settings)
        await pair.pair(failover_interval=timedelta(0))
        assert set(pair.backlog()) == {0, 1, 2}


@mission("M16", "M19")
async def test_a_primary_that_does_not_answer_for_keys_is_an_outage_of_a_known_namespace(
    mortal_pair: PairUnderTest,
) -> None:
    before = backlog_names(mortal_pair)
    inject(mortal_pair.primary_broker, "timeout", include_authentication=True)
    settings = MessagingFactorySettings(operation_timeout=timedelta(seconds=3))
    mortal_pair.primary = MessagingFactory.create(mortal_pair.primary.address, KEY, settings)
    await mortal_pair.pair(primary_namespace=None)
    (name,) = backlog_names(mortal_pair) - before
    assert name.startswith("sbemulatorns-"), "it has said who it is"


@mission("M19")
async def test_a_certificate_that_is_not_trusted_is_raised_by_pairing(pair: PairUnderTest) -> None:
    primary_at(pair, f"sb://localhost:{pair.primary_broker.port}")
    with pytest.raises(CertificateNotTrustedError, match="SSL_CERT_FILE"):
        await pair.pair()
    assert pair.backlog() == {}, "nothing was set up"


@mission("M22")
async def test_a_certificate_that_is_no_longer_trusted_is_raised_by_sends(
    mortal: Broker, secondary: Broker, mortal_pair: PairUnderTest, name: str
) -> None:
    mortal.create_queue(name)
    trusted = ssl.create_default_context(cafile=str(mortal.ca_path))
    primary_at(mortal_pair, f"sb://localhost:{mortal.port}", ssl_context=trusted, retry_policy=NoRetry())
    options = mortal_pair.options(failover_interval=timedelta(0))
    await mortal_pair.primary.pair_namespace(options)
    client = mortal_pair.primary.create_queue_client(name)
    await client.send(BrokeredMessage("in secret"))
    mortal.stop()
    shutil.rmtree(Path(mortal.data_dir) / "tls")
    mortal.start()
    with pytest.raises(CertificateNotTrustedError):
        await client.send(BrokeredMessage("to whom?"))
    assert sum(mortal_pair.backlog().values()) == 0
    assert options.paired_namespace is not None
    assert options.paired_namespace.states == {name: FailoverState.HEALTHY}


@mission("M19")
async def test_a_wrong_key_of_the_primary_is_raised_by_pairing(pair: PairUnderTest) -> None:
    wrong = TokenProvider.create_shared_access_signature("RootManageSharedAccessKey", "not the key")
    primary_at(pair, pair.primary.address, wrong)
    with pytest.raises(UnauthorizedAccessError):
        await pair.pair()
    assert pair.backlog() == {}, "nothing was set up"


@mission("M19")
async def test_a_wrong_key_of_the_secondary_is_raised_by_pairing(pair: PairUnderTest) -> None:
    wrong = TokenProvider.create_shared_access_signature("RootManageSharedAccessKey", "not the key")
    pair.secondary = MessagingFactory.create(pair.secondary.address, wrong, SETTINGS)
    with pytest.raises(UnauthorizedAccessError):
        await pair.pair()


@mission("M19", "M22")
@pytest.mark.parametrize("kind", ["key", "token"])
async def test_a_key_of_one_entity_pairs_if_it_says_which(pair: PairUnderTest, queue: str, kind: str) -> None:
    broker = pair.primary_broker
    rule = broker.request("PUT", f"/$api/v1/authorization-rules/sender?entity={queue}", {"rights": ["Send"]})
    provider = TokenProvider.create_shared_access_signature("sender", rule["primary_key"], entity_path=queue)
    if kind == "token":
        token = await provider.get_token(f"sb://127.0.0.1/{queue}", 4_000_000_000)
        provider = TokenProvider.create_from_token(token.text)
    primary_at(pair, pair.primary.address, provider)
    await pair.pair()
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("direct"))
    assert broker.queue(queue)["active_message_count"] == 1
    unsaid = TokenProvider.create_shared_access_signature("sender", rule["primary_key"])
    factory = MessagingFactory.create(pair.primary.address, unsaid)
    async with factory:
        with pytest.raises(UnauthorizedAccessError) as raised:
            await factory.pair_namespace(pair.options(primary_namespace=f"unsaid-{queue}"))
    assert "EntityPath=" in raised.value.__notes__[0]
