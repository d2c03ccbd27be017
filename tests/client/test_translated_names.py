"""Lines of .NET code translate to lines of Python: the same call, the same arguments, in Python's spelling."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tandem.client
import tandem.client.sync
import tandem.pairing
from tandem.client import (
    BrokeredMessage,
    MessagingFactory,
    NamespaceManager,
    ReceiveMode,
    RuleDescription,
    ServiceBusEnvironment,
    SqlFilter,
    SqlRuleAction,
    SubscriptionDescription,
    TokenProvider,
    TrueFilter,
    sync,
)
from tandem.connection_string import ServiceAddress
from tandem.errors import UsageError
from tandem.testing import Broker
from tests.client.network import HOST, KEY, RULE_NAME
from tests.markers import mission
from tests.patience import PATIENCE_S


@mission("M4")
async def test_a_namespace_is_reached_by_a_service_uri_and_a_rule(broker: Broker, name: str) -> None:
    credentials = TokenProvider.create_shared_access_signature_token_provider(RULE_NAME, KEY)
    uri = ServiceBusEnvironment.create_service_uri("amqp", f"{HOST}:{broker.port}", "")
    manager = NamespaceManager(uri, credentials)
    queue = await manager.create_queue(name)
    async with MessagingFactory.create(uri, credentials) as factory:
        client = factory.create_queue_client(queue.path)
        await client.send(BrokeredMessage("there"))
        message = await client.receive(PATIENCE_S)
        assert message is not None
        assert message.get_body(str) == "there"


@mission("M4")
@pytest.mark.parametrize(
    "scheme, namespace, path, expected",
    [
        ("sb", "contoso", "", "sb://contoso.servicebus.windows.net/"),
        ("sb", "contoso", "orders", "sb://contoso.servicebus.windows.net/orders/"),
        ("https", "contoso", "/a b/", "https://contoso.servicebus.windows.net/a%20b/"),
        ("amqp", "localhost", "", "amqp://localhost/"),
        ("amqp", "localhost:5672", "", "amqp://localhost:5672/"),
        ("amqp", "contoso.localhost:5672", "", "amqp://contoso.localhost:5672/"),
        ("sb", "[::1]:5671", "", "sb://[::1]:5671/"),
    ],
)
def test_a_service_uri_is_an_address(scheme: str, namespace: str, path: str, expected: str) -> None:
    uri = ServiceBusEnvironment.create_service_uri(scheme, namespace, path)
    assert uri == expected
    if not path:
        assert ServiceAddress.parse(uri).is_tls is (scheme != "amqp")


@pytest.mark.parametrize("scheme, namespace", [("ftp", "contoso"), ("sb", ""), ("sb", "contoso/orders")])
def test_a_service_uri_that_leads_nowhere_is_refused(scheme: str, namespace: str) -> None:
    with pytest.raises(UsageError, match="it must be"):
        ServiceBusEnvironment.create_service_uri(scheme, namespace, "")


@mission("M8", "M9")
async def test_a_subscription_is_created_from_a_topic_a_name_and_a_filter(
    manager: NamespaceManager, factory: MessagingFactory, name: str
) -> None:
    topic = await manager.create_topic(name)
    inventory = await manager.create_subscription(topic.path, "Inventory")
    assert inventory == SubscriptionDescription(name, "Inventory")
    await manager.create_subscription(topic.path, "Dashboard", SqlFilter("StoreName = 'Store1'"))
    priced = RuleDescription("Priced", TrueFilter(), SqlRuleAction("SET Priced = TRUE"))
    await manager.create_subscription(topic.path, "Prices", priced)
    assert [rule.name for rule in await manager.get_rules(name, "Dashboard")] == ["$Default"]
    (rule,) = await manager.get_rules(name, "Prices")
    assert rule.name == "Priced"
    assert rule.action is not None
    assert rule.action.expression == "SET Priced = TRUE"

    client = factory.create_topic_client(topic.path)
    for store in ("Store1", "Store2"):
        await client.send(BrokeredMessage(store, properties={"StoreName": store}))
    dashboard = factory.create_subscription_client(name, "Dashboard", ReceiveMode.RECEIVE_AND_DELETE)
    first = await dashboard.receive(PATIENCE_S)
    assert first is not None
    assert first.get_body(str) == "Store1"
    assert (await manager.get_subscription(name, "Dashboard")).active_message_count == 0
    assert (await manager.get_subscription(name, "Inventory")).active_message_count == 2


async def test_a_description_of_a_subscription_still_takes_its_rule_as_the_second_argument_or_by_name(
    manager: NamespaceManager, name: str
) -> None:
    await manager.create_topic(name)
    await manager.create_subscription(SubscriptionDescription(name, "second"), SqlFilter("a = 1"))
    await manager.create_subscription(SubscriptionDescription(name, "named"), rule=SqlFilter("a = 2"))
    for subscription, expression in (("second", "a = 1"), ("named", "a = 2")):
        condition = (await manager.get_rule(name, subscription, "$Default")).filter
        assert isinstance(condition, SqlFilter)
        assert condition.expression == expression


async def test_a_subscription_without_a_name_or_with_two_is_refused_before_anything_is_sent(
    manager: NamespaceManager,
) -> None:
    with pytest.raises(UsageError, match="pass both as strings"):
        await manager.create_subscription("topic")
    with pytest.raises(UsageError, match="pass both as strings"):
        await manager.create_subscription("topic", SqlFilter("a = 1"))
    with pytest.raises(UsageError, match="must be a filter or a rule"):
        await manager.create_subscription(SubscriptionDescription("topic", "name"), "another name")
    with pytest.raises(UsageError, match="must be a filter or a rule"):
        await manager.create_subscription(SubscriptionDescription("topic", "name"), TrueFilter(), TrueFilter())


@mission("M20")
@pytest.mark.parametrize("name", ["PairedNamespaceOptions", "SendAvailabilityPairedNamespaceOptions"])
def test_the_options_of_a_pair_are_importable_beside_the_client(name: str) -> None:
    for module in (tandem.client, tandem.client.sync):
        assert getattr(module, name) is getattr(tandem.pairing, name)
        assert name in module.__all__


def test_a_name_that_the_client_does_not_have_is_an_attribute_error() -> None:
    for module in (tandem.client, tandem.client.sync):
        assert not hasattr(module, "NoSuchName")


def test_the_client_loads_pairing_only_when_a_program_asks_for_its_options() -> None:
    program = (
        "import sys, tandem.client, tandem.client.sync\n"
        "assert 'tandem.pairing' not in sys.modules\n"
        "from tandem.client import SendAvailabilityPairedNamespaceOptions\n"
        "assert 'tandem.pairing' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_plain_program_translates_in_the_same_way(broker: Broker, name: str) -> None:
    credentials = sync.TokenProvider.create_shared_access_signature_token_provider(RULE_NAME, KEY)
    uri = sync.ServiceBusEnvironment.create_service_uri("amqp", f"{HOST}:{broker.port}", "")
    manager = sync.NamespaceManager(uri, credentials)
    manager.create_topic(name)
    manager.create_subscription(name, "Dashboard", sync.SqlFilter("StoreName = 'Store1'"))
    with sync.MessagingFactory.create(uri, credentials) as factory:
        factory.create_topic_client(name).send(sync.BrokeredMessage("[1]", properties={"StoreName": "Store1"}))
        message = factory.create_subscription_client(name, "Dashboard").receive(PATIENCE_S)
        assert message is not None
        assert message.get_body(list) == [1]
        assert message.get_body() == b"[1]"
        message.complete()
