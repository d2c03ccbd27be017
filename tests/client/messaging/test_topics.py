"""Topics and subscriptions: the example of the mission, in this library."""

from __future__ import annotations

import pytest

from tandem.client import (
    BrokeredMessage,
    InvalidOperationError,
    MessagingFactory,
    NamespaceManager,
    ReceiveMode,
    RuleDescription,
    SqlFilter,
    SqlRuleAction,
    SubscriptionDescription,
    TrueFilter,
)
from tests.markers import mission
from tests.patience import PATIENCE_S


@mission("M7", "M8", "M9")
async def test_issues_reach_the_inventory_and_those_of_one_store_the_dashboard(
    manager: NamespaceManager, factory: MessagingFactory
) -> None:
    topic = "IssueTrackingTopic"
    await manager.create_topic(topic)
    await manager.create_subscription(SubscriptionDescription(topic, "Inventory"))
    await manager.create_subscription(SubscriptionDescription(topic, "Dashboard"), SqlFilter("StoreName = 'Store1'"))
    sender = factory.create_topic_client(topic)
    assert sender.path == topic
    await sender.send_batch(
        BrokeredMessage(f"issue {number}", properties={"StoreName": f"Store{number % 3}"}) for number in range(6)
    )
    inventory = factory.create_subscription_client(topic, "Inventory", ReceiveMode.PEEK_LOCK)
    messages = await inventory.receive_batch(100, PATIENCE_S)
    assert [message.body for message in messages] == [f"issue {number}".encode() for number in range(6)]
    for message in messages:
        await message.complete()
    assert await inventory.receive(0) is None
    dashboard = factory.create_subscription_client(topic, "Dashboard", ReceiveMode.RECEIVE_AND_DELETE)
    assert (dashboard.topic_path, dashboard.name, dashboard.receive_mode) == (
        topic,
        "Dashboard",
        ReceiveMode.RECEIVE_AND_DELETE,
    )
    assert [message.body for message in await dashboard.receive_batch(100, PATIENCE_S)] == [b"issue 1", b"issue 4"]
    assert await dashboard.receive(0) is None


@mission("M8")
async def test_an_action_without_a_filter_changes_every_copy(
    manager: NamespaceManager, factory: MessagingFactory, name: str
) -> None:
    await manager.create_topic(name)
    rule = RuleDescription("Mark", TrueFilter(), SqlRuleAction("SET seen = 'yes'"))
    await manager.create_subscription(SubscriptionDescription(name, "s"), rule)
    await factory.create_topic_client(name).send(BrokeredMessage())
    message = await factory.create_subscription_client(name, "s").receive(PATIENCE_S)
    assert message is not None
    assert message.properties["seen"] == "yes"


@mission("M7")
async def test_nobody_receives_from_a_topic(manager: NamespaceManager, factory: MessagingFactory, name: str) -> None:
    await manager.create_topic(name)
    with pytest.raises(InvalidOperationError, match="subscriptions"):
        await factory.create_message_receiver(name).receive(1)
