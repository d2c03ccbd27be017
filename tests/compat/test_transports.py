"""Every way in which the official SDK can reach the broker, on either of its ports."""

from __future__ import annotations

import time
from typing import Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType, aio
from azure.servicebus.exceptions import ServiceBusConnectionError, ServiceBusError

from tandem.auth.sas import make_token
from tandem.testing import Broker
from tests.compat.sdk import AT_ONCE, ROOT_KEY, ROOT_RULE, Bus, in_a_loop, take_one, text
from tests.patience import PATIENCE_S

pytestmark = AT_ONCE

TLS = TransportType.Amqp
WEBSOCKET = TransportType.AmqpOverWebsocket


def options(broker: Broker, transport: TransportType, port: int | None = None) -> dict[str, Any]:
    """How to reach a port of the broker in another way than by plain TCP."""
    return {
        "custom_endpoint_address": f"sb://localhost:{port or broker.port}",
        "connection_verify": str(broker.ca_path),
        "transport_type": transport,
        "retry_total": 0,
    }


def connection_string(key: str = ROOT_KEY) -> str:
    return f"Endpoint=sb://localhost;SharedAccessKeyName={ROOT_RULE};SharedAccessKey={key}"


def exchange(client: ServiceBusClient, queue: str) -> None:
    with client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages([ServiceBusMessage(b"x" * 100_000), ServiceBusMessage("hello")])
        with client.get_queue_receiver(queue) as receiver:
            large = take_one(receiver)
            assert len(text(large)) == 100_000
            receiver.complete_message(large)
            hello = take_one(receiver)
            receiver.renew_message_lock(hello)
            receiver.complete_message(hello)


@pytest.mark.parametrize("transport", [TLS, WEBSOCKET], ids=["tls", "websocket"])
@pytest.mark.parametrize("port", ["port", "http_port"])
def test_both_ports_speak_tls_and_websocket(bus: Bus, transport: TransportType, port: str) -> None:
    queue = bus.queue()
    exchange(
        ServiceBusClient.from_connection_string(
            connection_string(), **options(bus.broker, transport, getattr(bus.broker, port))
        ),
        queue.name,
    )
    assert queue.counts() == {}


def test_the_http_port_speaks_plain_amqp_too(bus: Bus) -> None:
    queue = bus.queue()
    address = bus.broker.connection_string.replace(f":{bus.broker.port}", f":{bus.broker.http_port}")
    exchange(ServiceBusClient.from_connection_string(address, retry_total=0), queue.name)
    assert queue.counts() == {}


@pytest.mark.parametrize("transport", [TLS, WEBSOCKET], ids=["tls", "websocket"])
@in_a_loop
async def test_the_asyncio_client_reaches_the_broker_in_every_way(bus: Bus, transport: TransportType) -> None:
    queue = bus.queue()
    client = aio.ServiceBusClient.from_connection_string(connection_string(), **options(bus.broker, transport))
    async with client:
        async with client.get_queue_sender(queue.name) as sender:
            await sender.send_messages(ServiceBusMessage(b"x" * 200_000))
        async with client.get_queue_receiver(queue.name) as receiver:
            (message,) = await receiver.receive_messages(1, PATIENCE_S)
            await receiver.complete_message(message)
    assert len(text(message)) == 200_000
    assert queue.counts() == {}


def test_a_named_key_is_a_credential(bus: Bus) -> None:
    queue = bus.queue()
    exchange(
        ServiceBusClient("localhost", AzureNamedKeyCredential(ROOT_RULE, ROOT_KEY), **options(bus.broker, TLS)),
        queue.name,
    )


def test_a_signature_made_beforehand_is_a_credential(bus: Bus) -> None:
    queue = bus.queue()
    token = make_token("sb://localhost/", ROOT_RULE, ROOT_KEY, int(time.time()) + 60)
    exchange(ServiceBusClient("localhost", AzureSasCredential(token), **options(bus.broker, TLS)), queue.name)


def test_the_name_of_a_cloud_namespace_means_this_broker(bus: Bus) -> None:
    queue = bus.queue()
    client = ServiceBusClient(
        "anything.servicebus.windows.net", AzureNamedKeyCredential(ROOT_RULE, ROOT_KEY), **options(bus.broker, TLS)
    )
    exchange(client, queue.name)


def test_a_client_that_does_not_know_the_certificate_authority_is_not_served(bus: Bus) -> None:
    queue = bus.queue()
    strange = {**options(bus.broker, TLS), "connection_verify": None}
    client = ServiceBusClient.from_connection_string(connection_string(), **strange)
    with client, pytest.raises(ServiceBusError), client.get_queue_sender(queue.name):
        pass


@pytest.mark.parametrize("transport", [TLS, WEBSOCKET], ids=["tls", "websocket"])
def test_a_wrong_key_is_refused_over_every_transport(bus: Bus, transport: TransportType) -> None:
    queue = bus.queue()
    client = ServiceBusClient.from_connection_string(connection_string(key="wrong"), **options(bus.broker, transport))
    # With a custom endpoint the SDK takes every failure to authenticate for one to connect.
    with client, pytest.raises(ServiceBusConnectionError):
        client.get_queue_sender(queue.name).send_messages(ServiceBusMessage("hello"))
