"""Names of entities, subscriptions and rules that the service accepts, through the official clients."""

from __future__ import annotations

import uuid

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import SqlRuleFilter

from tandem.testing import Broker
from tests.compat.admin import SYNC, Admin
from tests.compat.sdk import ROOT_KEY, connection_string, texts
from tests.markers import mission
from tests.patience import PATIENCE_S


@mission("M4", "M7")
@pytest.mark.parametrize(
    "prefix, suffix",
    [
        ("MassTransit/Fault--Orders/", "--"),
        ("", "_"),
        ("", "."),
        ("txt/.-_", ""),
        ("_", "-"),
    ],
)
def test_a_topic_a_subscription_and_a_rule_may_begin_and_end_with_marks(
    broker: Broker, prefix: str, suffix: str
) -> None:
    unique = uuid.uuid4().hex[:8]
    topic, subscription, rule = f"{prefix}{unique}{suffix}", f"_{unique}{suffix}", f"-{unique}{suffix}"
    with Admin(broker, SYNC) as admin:
        admin.create_topic(topic)
        admin.create_subscription(topic, subscription)
        admin.create_rule(topic, subscription, rule, filter=SqlRuleFilter("sys.Label = 'x'"))
        assert admin.get_topic(topic).name == topic
        assert [one.name for one in admin.list_subscriptions(topic)] == [subscription]
        assert [one.name for one in admin.list_rules(topic, subscription)] == ["$Default", rule]
        assert admin.get_rule(topic, subscription, rule).name == rule
    client = ServiceBusClient.from_connection_string(connection_string(broker, ROOT_KEY), retry_total=0)
    with client, client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("fault"))
        with client.get_subscription_receiver(topic, subscription, receive_mode="receiveanddelete") as receiver:
            assert texts(receiver.receive_messages(1, PATIENCE_S)) == ["fault"]
