"""Every way in which the official SDK can reach the broker, on either of its ports."""

from __future__ import annotations

import time

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusConnectionError, ServiceBusError

from tandem.auth.sas import make_token
from tests.compat.sdk import AT_ONCE, ROOT_KEY, ROOT_RULE, Bus, address_of, in_a_loop, take_one, text
from tests.patience import PATIENCE_S

pytestmark = AT_ONCE

in_tls = pytest.mark.parametrize("transport", ["tls", "websocket"])


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


@in_tls
@pytest.mark.parametrize("port", ["port", "http_port"])
def test_both_ports_speak_tls_and_websocket(bus: Bus, transport: str, port: str) -> None:
    queue = bus.queue()
    address, options = address_of(bus.broker, transport, port=getattr(bus.broker, port))
    exchange(ServiceBusClient.from_connection_string(address, **options), queue.name)
    assert queue.counts() == {}


def test_the_http_port_speaks_plain_amqp_too(bus: Bus) -> None:
    queue = bus.queue()
    address, options = address_of(bus.broker, "tcp", port=bus.broker.http_port)
    exchange(ServiceBusClient.from_connection_string(address, **options), queue.name)
    assert queue.counts() == {}


@in_tls
@in_a_loop
async def test_the_asyncio_client_reaches_the_broker_in_every_way(bus: Bus, transport: str) -> None:
    queue = bus.queue()
    async with bus.connect_aio() as client:
        async with client.get_queue_sender(queue.name) as sender:
            await sender.send_messages(ServiceBusMessage(b"x" * 200_000))
        async with client.get_queue_receiver(queue.name) as receiver:
            (message,) = await receiver.receive_messages(1, PATIENCE_S)
            await receiver.complete_message(message)
    assert len(text(message)) == 200_000
    assert queue.counts() == {}


def test_a_named_key_is_a_credential(bus: Bus) -> None:
    queue = bus.queue()
    credential = AzureNamedKeyCredential(ROOT_RULE, ROOT_KEY)
    exchange(ServiceBusClient("localhost", credential, **address_of(bus.broker, "tls").options), queue.name)


def test_a_signature_made_beforehand_is_a_credential(bus: Bus) -> None:
    queue = bus.queue()
    token = make_token("sb://localhost/", ROOT_RULE, ROOT_KEY, int(time.time()) + 60)
    credential = AzureSasCredential(token)
    exchange(ServiceBusClient("localhost", credential, **address_of(bus.broker, "tls").options), queue.name)


def test_the_name_of_a_cloud_namespace_means_this_broker(bus: Bus) -> None:
    queue = bus.queue()
    credential = AzureNamedKeyCredential(ROOT_RULE, ROOT_KEY)
    options = address_of(bus.broker, "tls").options
    exchange(ServiceBusClient("anything.servicebus.windows.net", credential, **options), queue.name)


def test_a_client_that_does_not_know_the_certificate_authority_is_not_served(bus: Bus) -> None:
    queue = bus.queue()
    address, options = address_of(bus.broker, "tls")
    client = ServiceBusClient.from_connection_string(address, **{**options, "connection_verify": None})
    with client, pytest.raises(ServiceBusError), client.get_queue_sender(queue.name):
        pass


@in_tls
def test_a_wrong_key_is_refused_over_every_transport(bus: Bus, transport: str) -> None:
    queue = bus.queue()
    address, options = address_of(bus.broker, transport, key="wrong")
    client = ServiceBusClient.from_connection_string(address, **options)
    # With a custom endpoint the SDK takes every failure to authenticate for one to connect.
    with client, pytest.raises(ServiceBusConnectionError):
        client.get_queue_sender(queue.name).send_messages(ServiceBusMessage("hello"))
