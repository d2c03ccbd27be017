"""Over TLS: AMQP and management on the same port, with a certificate authority of one's own."""

from __future__ import annotations

import ssl

import pytest

from tandem.client import (
    BrokeredMessage,
    CertificateNotTrustedError,
    MessagingFactory,
    MessagingFactorySettings,
    NamespaceManager,
    NoRetry,
    TokenProvider,
)
from tandem.testing import Broker
from tests.client.network import KEY, RULE_NAME
from tests.markers import mission
from tests.patience import PATIENCE_S


@mission("M4", "M5")
async def test_a_namespace_is_managed_and_used_over_tls(broker: Broker, name: str) -> None:
    settings = MessagingFactorySettings(ssl_context=ssl.create_default_context(cafile=str(broker.ca_path)))
    address = f"sb://localhost:{broker.port}"
    token_provider = TokenProvider.create_shared_access_signature(RULE_NAME, KEY)
    manager = NamespaceManager(address, token_provider, settings)
    await manager.create_queue(name)
    async with MessagingFactory.create(address, token_provider, settings) as factory:
        client = factory.create_queue_client(name)
        await client.send(BrokeredMessage("in secret"))
        message = await client.receive(PATIENCE_S)
        assert message is not None
        await message.complete()
    await manager.delete_queue(name)


async def test_a_certificate_that_nobody_vouches_for_is_refused(broker: Broker, name: str) -> None:
    settings = MessagingFactorySettings(retry_policy=NoRetry())
    address = f"sb://localhost:{broker.port}"
    token_provider = TokenProvider.create_shared_access_signature(RULE_NAME, KEY)
    async with MessagingFactory.create(address, token_provider, settings) as factory:
        with pytest.raises(CertificateNotTrustedError, match="SSL_CERT_FILE"):
            await factory.create_queue_client(name).send(BrokeredMessage())
    with pytest.raises(CertificateNotTrustedError, match="SSL_CERT_FILE"):
        await NamespaceManager(address, token_provider, settings).get_queues()
