"""The AMQP client inside the official Python SDK, as it stands, against our server driver and the in-memory relay.

What the SDK puts on top of it, tokens and management, needs a broker; connection, session, links and settlement do not.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from azure.servicebus._pyamqp import ReceiveClient, SendClient
from azure.servicebus._pyamqp.authentication import SASLPlainAuth
from azure.servicebus._pyamqp.constants import ReceiverSettleMode, SenderSettleMode
from azure.servicebus._pyamqp.message import Message, Properties

from tests.interop.relay_thread import PASSWORD, RelayThread
from tests.markers import spec
from tests.patience import PATIENCE_S


@pytest.fixture
def relay() -> Iterator[RelayThread]:
    with RelayThread() as relay:
        yield relay


def client_options(password: str = PASSWORD) -> dict[str, Any]:
    return {"auth": SASLPlainAuth("rule", password), "use_tls": False}


def send(relay: RelayThread, queue: str, *messages: Message) -> None:
    with SendClient(f"127.0.0.1:{relay.port}", f"amqps://127.0.0.1/{queue}", **client_options()) as client:
        for message in messages:
            client.send_message(message, timeout=PATIENCE_S)


def receive(relay: RelayThread, queue: str, count: int, **options: Any) -> list[Any]:
    address = f"amqps://127.0.0.1/{queue}"
    received: list[Any] = []
    with ReceiveClient(f"127.0.0.1:{relay.port}", address, link_credit=count, **options, **client_options()) as client:
        while len(received) < count:
            batch = client.receive_message_batch(max_batch_size=count, timeout=PATIENCE_S)
            assert batch, f"only {len(received)} of {count} came"
            received += batch
    return received


@spec("amqp:2", "amqp:3", "amqp:5")
def test_messages_of_the_sdk_arrive_and_come_back_as_it_wrote_them(relay: RelayThread) -> None:
    messages = [
        Message(
            properties=Properties(message_id=f"m-{number}", subject="label"),
            application_properties={"number": number, "text": "ä", "flag": True},
            data=[b"body %d" % number],
        )
        for number in range(20)
    ]
    send(relay, "queue", *messages)
    received = receive(relay, "queue", 20, receive_settle_mode=ReceiverSettleMode.Second)
    assert [message.properties.message_id for message in received] == [f"m-{number}".encode() for number in range(20)]
    assert [b"".join(message.data) for message in received] == [b"body %d" % number for number in range(20)]
    assert received[7].application_properties == {b"number": 7, b"text": "ä".encode(), b"flag": True}


def test_a_large_message_of_the_sdk_travels_in_several_frames(relay: RelayThread) -> None:
    body = bytes(range(256)) * 8_000
    send(relay, "large", Message(data=[body]))
    (message,) = receive(relay, "large", 1)
    assert b"".join(message.data) == body


def test_settled_deliveries_reach_the_sdk(relay: RelayThread) -> None:
    send(relay, "settled", Message(data=[b"x"]), Message(data=[b"y"]))
    received = receive(relay, "settled", 2, send_settle_mode=SenderSettleMode.Settled)
    assert [b"".join(message.data) for message in received] == [b"x", b"y"]


def test_a_wrong_password_is_refused_in_a_way_that_the_sdk_understands(relay: RelayThread) -> None:
    client = SendClient(f"127.0.0.1:{relay.port}", "queue", **client_options("wrong"))
    with pytest.raises(ValueError, match="SASL negotiation failed"):
        client.open()
    del client
    gc.collect()
