"""Refusals, as the error classes of the official SDK: a program decides by them whether to try again."""

from __future__ import annotations

import threading
from typing import Final

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)

from tandem.auth.sas import make_token
from tandem.testing import Broker
from tests.compat.sdk import (
    AT_ONCE,
    ROOT_KEY,
    ROOT_RULE,
    Bus,
    Queue,
    connection_string,
    in_seconds,
    take,
    take_all,
    take_one,
    text,
    texts,
)
from tests.markers import mission
from tests.patience import PATIENCE_S

pytestmark = AT_ONCE


def with_token(broker: Broker, resource: str, expires_at_s: int) -> str:
    token = make_token(resource, ROOT_RULE, ROOT_KEY, expires_at_s)
    return f"Endpoint=sb://127.0.0.1:{broker.port};SharedAccessSignature={token};UseDevelopmentEmulator=true"


def send(address: str, queue: Queue) -> None:
    client = ServiceBusClient.from_connection_string(address, retry_total=0)
    with client, client.get_queue_sender(queue.name) as sender:
        sender.send_messages(ServiceBusMessage("hello"))


def receive(address: str, queue: Queue) -> list[str]:
    client = ServiceBusClient.from_connection_string(address, retry_total=0)
    with client, client.get_queue_receiver(queue.name) as receiver:
        received = take(receiver, 1) + take_all(receiver)
        return texts(received)


# The year 2100.
FAR_FUTURE_S: Final = 4_102_444_800


@mission("M17")
@pytest.mark.parametrize("rule, key", [(ROOT_RULE, "wrong"), ("NoSuchRule", ROOT_KEY)])
def test_a_wrong_key_and_an_unknown_rule_fail_to_authenticate(bus: Bus, rule: str, key: str) -> None:
    queue = bus.queue()
    with pytest.raises(ServiceBusAuthenticationError):
        send(connection_string(bus.broker, key, rule), queue)
    assert queue.counts() == {}


@mission("M17")
def test_an_expired_token_fails_to_authenticate(bus: Bus) -> None:
    queue = bus.queue()
    resource = f"sb://127.0.0.1:{bus.broker.port}/{queue.name}"
    with pytest.raises(ServiceBusAuthenticationError):
        send(with_token(bus.broker, resource, 1_700_000_000), queue)


def test_a_token_made_elsewhere_is_as_good_as_a_key(bus: Bus) -> None:
    queue = bus.queue()
    send(with_token(bus.broker, f"sb://127.0.0.1:{bus.broker.port}/{queue.name}", FAR_FUTURE_S), queue)
    send(with_token(bus.broker, f"sb://127.0.0.1:{bus.broker.port}", FAR_FUTURE_S), queue)
    assert queue.counts() == {"active": 2}


def test_either_key_of_a_rule_will_do(bus: Bus) -> None:
    queue = bus.queue()
    for key in (ROOT_KEY, "secondary-of-root"):
        send(connection_string(bus.broker, key), queue)
    assert queue.counts() == {"active": 2}


@mission("M17")
def test_a_rule_that_may_only_listen_does_not_send(bus: Bus) -> None:
    queue = bus.queue()
    queue.send("hello")
    listener = connection_string(bus.broker, "key-of-listener", "Listener")
    with pytest.raises(ServiceBusAuthorizationError, match="'Send' claim"):
        send(listener, queue)
    assert receive(listener, queue) == ["hello"]


@mission("M17")
def test_a_rule_that_may_only_send_does_not_listen(bus: Bus) -> None:
    queue = bus.queue()
    sender = connection_string(bus.broker, "key-of-sender", "Sender")
    send(sender, queue)
    with pytest.raises(ServiceBusAuthorizationError, match="'Listen' claim"):
        receive(sender, queue)
    assert queue.counts() == {"active": 1}


@mission("M17")
def test_a_rule_of_one_queue_opens_no_other(bus: Bus) -> None:
    own, other = Queue(bus.broker, bus.client, "a-queue-with-a-rule"), bus.queue()
    bus.broker.create_queue(own.name)
    address = connection_string(bus.broker, "key-of-one-queue", "OfOneQueue")
    send(address, own)
    assert receive(address, own) == ["hello"]
    with pytest.raises(ServiceBusAuthenticationError):
        send(address, other)


@mission("M17")
def test_a_token_for_one_queue_opens_no_other(bus: Bus) -> None:
    mine, other = bus.queue(), bus.queue()
    resource = f"sb://127.0.0.1:{bus.broker.port}/{mine.name}"
    with pytest.raises(ServiceBusAuthenticationError):
        send(with_token(bus.broker, resource, FAR_FUTURE_S), other)
    assert other.counts() == {}


@mission("M17")
def test_a_queue_that_does_not_exist_is_refused_when_it_is_opened(bus: Bus) -> None:
    missing = Queue(bus.broker, bus.client, "no-such-queue")
    # The broker looks for the queue when the token for it is put: the SDK takes that for a failure to authenticate.
    with pytest.raises(ServiceBusAuthenticationError):
        missing.send("hello")
    with pytest.raises(ServiceBusAuthenticationError), missing.receiver():
        pass


@mission("M17")
def test_a_queue_that_is_deleted_under_a_receiver_is_not_found(bus: Bus) -> None:
    queue = bus.queue()
    with queue.receiver() as receiver:
        assert take_all(receiver) == []
        bus.broker.delete_queue(queue.name)
        with pytest.raises(MessagingEntityNotFoundError):
            receiver.receive_messages(1, PATIENCE_S)


@mission("M17")
def test_a_queue_that_is_deleted_under_a_sender_is_not_found(bus: Bus) -> None:
    queue = bus.queue()
    with queue.sender() as sender:
        sender.send_messages(ServiceBusMessage("hello"))
        bus.broker.delete_queue(queue.name)
        with pytest.raises(MessagingEntityNotFoundError):
            sender.send_messages(ServiceBusMessage("hello"))


@mission("M17")
def test_those_who_use_a_queue_are_told_when_it_is_disabled(bus: Bus) -> None:
    queue = bus.queue()
    with queue.sender() as sender, queue.receiver() as receiver:
        timer = threading.Timer(0.5, bus.broker.update_queue, [queue.name], {"status": "Disabled"})
        timer.start()
        with pytest.raises(MessagingEntityDisabledError):
            receiver.receive_messages(1, PATIENCE_S)
        timer.join()
        with pytest.raises(MessagingEntityDisabledError):
            sender.send_messages(ServiceBusMessage("hello"))


@mission("M17")
@pytest.mark.parametrize("status", ["Disabled", "SendDisabled"])
def test_a_queue_that_may_not_be_sent_to_says_so(bus: Bus, status: str) -> None:
    queue = bus.queue()
    queue.send("before")
    bus.broker.update_queue(queue.name, status=status)
    with pytest.raises(MessagingEntityDisabledError):
        queue.send("while disabled")
    bus.broker.update_queue(queue.name, status="Active")
    queue.send("after")
    assert queue.drain() == ["before", "after"]


@mission("M17")
@pytest.mark.parametrize("status", ["Disabled", "ReceiveDisabled"])
def test_a_queue_that_may_not_be_received_from_says_so(bus: Bus, status: str) -> None:
    queue = bus.queue()
    queue.send("hello")
    bus.broker.update_queue(queue.name, status=status)
    with pytest.raises(MessagingEntityDisabledError), queue.receiver():
        pass
    bus.broker.update_queue(queue.name, status="Active")
    assert queue.drain() == ["hello"]


def test_a_queue_that_only_receives_or_only_sends_still_does_that(bus: Bus) -> None:
    queue = bus.queue(status="ReceiveDisabled")
    queue.send("hello")
    bus.broker.update_queue(queue.name, status="SendDisabled")
    assert queue.drain() == ["hello"]


@mission("M17")
def test_nobody_sends_to_a_dead_letter_queue(bus: Bus) -> None:
    queue = bus.queue()
    with pytest.raises(ServiceBusError):
        Queue(bus.broker, bus.client, f"{queue.name}/$DeadLetterQueue").send("hello")


def test_a_refusal_says_which_queue_and_how_to_find_it_in_the_log(bus: Bus) -> None:
    queue = bus.queue(status="Disabled")
    with pytest.raises(MessagingEntityDisabledError, match=r"TrackingId:[0-9a-f-]{36}\S*, SystemTracker:") as refusal:
        queue.send("hello")
    assert queue.name in str(refusal.value)


def test_one_refused_link_harms_nobody_else(bus: Bus) -> None:
    queue, disabled = bus.queue(), bus.queue(status="Disabled")
    with queue.sender() as sender, queue.receiver() as receiver:
        with pytest.raises(MessagingEntityDisabledError):
            disabled.send("hello")
        sender.send_messages(ServiceBusMessage("hello"))
        assert text(take_one(receiver)) == "hello"


@mission("M4", "M17")
def test_a_client_goes_on_with_an_entity_that_was_deleted_and_created_again(bus: Bus) -> None:
    """What it asks goes on at once; a sender is told of the end of its entity once."""
    queue = bus.queue()
    with queue.sender() as sender:
        sender.send_messages(ServiceBusMessage("lost with the queue"))
        sender.schedule_messages(ServiceBusMessage("lost as well"), in_seconds(3_600))
        bus.broker.delete_queue(queue.name)
        bus.broker.create_queue(queue.name)
        sender.schedule_messages(ServiceBusMessage("scheduled"), in_seconds(3_600))
        with pytest.raises(MessagingEntityNotFoundError):
            sender.send_messages(ServiceBusMessage("refused"))
        sender.send_messages(ServiceBusMessage("sent"))
    assert queue.counts() == {"active": 1, "scheduled": 1}
