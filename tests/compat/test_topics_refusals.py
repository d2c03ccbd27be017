"""What a topic and a subscription refuse, as the error classes of the official SDK."""

from __future__ import annotations

import uuid

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)

from tests.compat.sdk import AT_ONCE, Bus, Subscription, Topic, connection_string, take_one, text
from tests.markers import mission

pytestmark = AT_ONCE


@mission("M7", "M17")
def test_nobody_receives_from_a_topic(bus: Bus) -> None:
    topic = bus.topic()
    with pytest.raises(ServiceBusError, match="subscriptions"), topic.receiver():
        pass
    with pytest.raises(ServiceBusError, match="subscriptions"), topic.dead_letters():
        pass


@mission("M7", "M17")
def test_nobody_sends_to_a_subscription(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription()
    # The helper sends to the subscription as if it were a queue.
    with pytest.raises(ServiceBusError, match="topic"):
        subscription.send("smuggled")
    dead_letters = Topic(bus.broker, bus.client, f"{subscription.name}/$DeadLetterQueue")
    with pytest.raises(ServiceBusError):
        dead_letters.send("smuggled")
    assert subscription.counts() == {}


@mission("M17")
def test_a_subscription_that_does_not_exist_is_refused_when_it_is_opened(bus: Bus) -> None:
    topic = bus.topic()
    missing = Subscription(bus.broker, bus.client, topic.name, "no-such-subscription")
    # The broker looks for it when the token for it is put: the SDK takes that for a failure to authenticate.
    with pytest.raises(ServiceBusAuthenticationError), missing.receiver():
        pass
    of_no_topic = Subscription(bus.broker, bus.client, "no-such-topic", "no-such-subscription")
    with pytest.raises(ServiceBusAuthenticationError), of_no_topic.receiver():
        pass
    with pytest.raises(ServiceBusAuthenticationError):
        Topic(bus.broker, bus.client, "no-such-topic").send("hello")


@mission("M17")
def test_a_subscription_that_is_deleted_under_a_receiver_is_not_found(bus: Bus) -> None:
    topic = bus.topic()
    doomed, other = topic.subscription(), topic.subscription()
    topic.send("before")
    with doomed.receiver() as receiver:
        assert text(take_one(receiver)) == "before"
        bus.broker.delete_subscription(topic.name, doomed.own_name)
        with pytest.raises(MessagingEntityNotFoundError):
            receiver.receive_messages(1, 10)
    topic.send("after")
    assert other.drain() == ["before", "after"]


@mission("M17")
def test_a_topic_takes_its_subscriptions_with_it(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription()
    with topic.sender() as sender, subscription.receiver() as receiver:
        sender.send_messages(ServiceBusMessage("news"))
        take_one(receiver)
        bus.broker.delete_topic(topic.name)
        with pytest.raises(MessagingEntityNotFoundError):
            receiver.receive_messages(1, 10)
        with pytest.raises(MessagingEntityNotFoundError):
            sender.send_messages(ServiceBusMessage("news"))
    # A new topic of that name begins with nothing.
    bus.broker.create_topic(topic.name)
    with pytest.raises(ServiceBusAuthenticationError), subscription.receiver():
        pass


@mission("M17")
@pytest.mark.parametrize("status", ["Disabled", "SendDisabled"])
def test_a_topic_that_may_not_be_sent_to_says_so(bus: Bus, status: str) -> None:
    topic = bus.topic()
    subscription = topic.subscription()
    topic.send("before")
    bus.broker.update_topic(topic.name, status=status)
    with pytest.raises(MessagingEntityDisabledError):
        topic.send("while disabled")
    bus.broker.update_topic(topic.name, status="Active")
    topic.send("after")
    assert subscription.drain() == ["before", "after"]


@mission("M17")
def test_a_subscription_that_may_not_be_received_from_says_so_and_is_filled_all_the_same(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription(status="ReceiveDisabled")
    topic.send("news")
    with pytest.raises(MessagingEntityDisabledError), subscription.receiver():
        pass
    bus.broker.update_subscription(topic.name, subscription.own_name, status="Active")
    assert subscription.drain() == ["news"]


@mission("M17")
def test_a_key_for_one_topic_opens_its_subscriptions_and_no_other(bus: Bus) -> None:
    own = Topic(bus.broker, bus.client, "a-topic-with-a-rule")
    bus.broker.create_topic(own.name)
    subscription, other = own.subscription(), bus.topic()
    address = connection_string(bus.broker, "key-of-one-topic", "OfOneTopic")
    with ServiceBusClient.from_connection_string(address, retry_total=0) as client:
        Topic(bus.broker, client, own.name).send("hello")
        assert Subscription(bus.broker, client, own.name, subscription.own_name).drain() == ["hello"]
        with pytest.raises(ServiceBusAuthenticationError):
            Topic(bus.broker, client, other.name).send("hello")


@mission("M17")
def test_a_key_that_only_listens_does_not_publish_and_one_that_only_sends_does_not_receive(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription()
    sending = connection_string(bus.broker, "key-of-sender", "Sender")
    listening = connection_string(bus.broker, "key-of-listener", "Listener")
    with ServiceBusClient.from_connection_string(sending, retry_total=0) as client:
        Topic(bus.broker, client, topic.name).send("hello")
        with pytest.raises(ServiceBusAuthorizationError, match="'Listen' claim"):
            Subscription(bus.broker, client, topic.name, subscription.own_name).drain()
    with ServiceBusClient.from_connection_string(listening, retry_total=0) as client:
        with pytest.raises(ServiceBusAuthorizationError, match="'Send' claim"):
            Topic(bus.broker, client, topic.name).send("hello")
        assert Subscription(bus.broker, client, topic.name, subscription.own_name).drain() == ["hello"]


@mission("M17")
def test_a_session_is_asked_for_where_there_are_sessions_and_only_there(bus: Bus) -> None:
    topic = bus.topic()
    plain, with_sessions = topic.subscription(), topic.subscription(requires_session=True)
    with pytest.raises(ServiceBusError), with_sessions.receiver():
        pass
    with pytest.raises(ServiceBusError), plain.receiver(session_id=uuid.uuid4().hex):
        pass


@mission("M17")
def test_one_refused_link_harms_nobody_else(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription()
    with topic.sender() as sender, subscription.receiver() as receiver:
        with pytest.raises(ServiceBusError), topic.receiver():
            pass
        with pytest.raises(ServiceBusError):
            subscription.send("smuggled")
        sender.send_messages(ServiceBusMessage("hello"))
        assert text(take_one(receiver)) == "hello"
