"""Entities through the service's management API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tandem.client import (
    NEVER,
    BrokeredMessage,
    CorrelationFilter,
    EntityStatus,
    FalseFilter,
    InvalidOperationError,
    MessagingCommunicationError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityNotFoundError,
    MessagingFactory,
    MessagingFactorySettings,
    NamespaceManager,
    NoRetry,
    QueueDescription,
    RuleDescription,
    SqlFilter,
    SqlRuleAction,
    SubscriptionDescription,
    TokenProvider,
    TopicDescription,
    TrueFilter,
    UnauthorizedAccessError,
)
from tandem.errors import ServerBusy
from tandem.testing import Broker, Bus
from tests.client.network import HOST, RULE_NAME, StillTime
from tests.markers import mission


@mission("M4")
async def test_a_queue_is_created_fetched_updated_listed_and_deleted(
    manager: NamespaceManager, factory: MessagingFactory, name: str
) -> None:
    described = QueueDescription(
        name,
        lock_duration=timedelta(seconds=45),
        max_size_in_megabytes=5_120,
        requires_duplicate_detection=True,
        default_message_time_to_live=timedelta(days=2, milliseconds=500),
        dead_lettering_on_message_expiration=True,
        duplicate_detection_history_time_window=timedelta(minutes=5),
        max_delivery_count=2_147_483_647,
        user_metadata=" <for> & by 'us' ",
        auto_delete_on_idle=timedelta(hours=1),
    )
    created = await manager.create_queue(described)
    described.max_message_size_in_kilobytes = created.max_message_size_in_kilobytes
    assert created == described
    assert created.created_at is not None
    await factory.create_queue_client(name).send(BrokeredMessage("counted"))
    got = await manager.get_queue(name)
    assert got == described
    assert got.active_message_count == 1
    assert got.message_count == 1
    assert got.size_in_bytes
    got.lock_duration = timedelta(minutes=2)
    got.status = EntityStatus.SEND_DISABLED
    updated = await manager.update_queue(got)
    assert updated.lock_duration == timedelta(minutes=2)
    assert (await manager.get_queue(name)).status is EntityStatus.SEND_DISABLED
    assert name in [queue.path for queue in await manager.get_queues()]
    assert await manager.queue_exists(name)
    await manager.delete_queue(name)
    assert not await manager.queue_exists(name)
    with pytest.raises(MessagingEntityNotFoundError, match=name):
        await manager.get_queue(name)
    with pytest.raises(MessagingEntityNotFoundError):
        await manager.delete_queue(name)


async def test_a_queue_from_its_name_alone_has_the_defaults(manager: NamespaceManager, name: str) -> None:
    path = f"{name}/with/slashes"
    queue = await manager.create_queue(path)
    assert queue.path == path
    assert queue.lock_duration == timedelta(minutes=1)
    assert queue.default_message_time_to_live == NEVER
    assert queue.auto_delete_on_idle == NEVER
    assert (await manager.get_queue(path)).accessed_at is None or queue.accessed_at is None


async def test_forwarding_is_told_by_the_path(manager: NamespaceManager, name: str) -> None:
    await manager.create_queue(f"{name}/target")
    queue = await manager.create_queue(
        QueueDescription(name, forward_to=f"{name}/target", forward_dead_lettered_messages_to=f"{name}/target")
    )
    assert queue.forward_to == f"{name}/target"
    assert queue.forward_dead_lettered_messages_to == f"{name}/target"


@pytest.mark.parametrize("field", ["forward_to", "forward_dead_lettered_messages_to"])
async def test_a_manager_shows_a_token_for_the_entity_that_it_forwards_to(
    manager: NamespaceManager, name: str, field: str
) -> None:
    """A token for the path of the request says nothing about the target, whose name has nothing in common with it."""
    queue, topic = f"to-{name}", f"news-to-{name}"
    await manager.create_queue(queue)
    await manager.create_topic(topic)
    await manager.create_topic(f"{name}-topic")
    for target in (queue, topic, f"sb://any-host/{queue}"):
        path = target.rpartition("/")[2]
        queue_description = QueueDescription(f"{name}-{len(target)}")
        setattr(queue_description, field, target)
        made = await manager.create_queue(queue_description)
        assert getattr(made, field) == path
        description = SubscriptionDescription(f"{name}-topic", f"s{len(target)}")
        setattr(description, field, target)
        subscription = await manager.create_subscription(description)
        assert getattr(subscription, field) == path
        for other in (topic, queue):
            setattr(made, field, other)
            assert getattr(await manager.update_queue(made), field) == other
            setattr(subscription, field, other)
            assert getattr(await manager.update_subscription(subscription), field) == other


async def test_a_manager_that_may_not_send_to_a_target_cannot_forward_there(
    manager: NamespaceManager, name: str
) -> None:
    await manager.create_queue(f"to-{name}")
    await manager.create_queue(name)
    queue = await manager.get_queue(name)
    queue.authorization_rules_xml = (
        '<AuthorizationRules xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">'
        '<AuthorizationRule xmlns:i="http://www.w3.org/2001/XMLSchema-instance" '
        'i:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue>'
        "<Rights><AccessRights>Manage</AccessRights><AccessRights>Send</AccessRights><AccessRights>Listen</AccessRights>"
        "</Rights><KeyName>own</KeyName><PrimaryKey>key-own</PrimaryKey></AuthorizationRule></AuthorizationRules>"
    )
    await manager.update_queue(queue)
    own = NamespaceManager(manager.address, TokenProvider.create_shared_access_signature("own", "key-own"))
    mine = await own.get_queue(name)
    mine.forward_to = f"to-{name}"
    with pytest.raises(UnauthorizedAccessError):
        await own.update_queue(mine)
    assert (await manager.get_queue(name)).forward_to is None


async def test_rules_of_access_survive_an_update_of_something_else(
    broker: Broker, manager: NamespaceManager, name: str
) -> None:
    await manager.create_queue(name)
    queue = await manager.get_queue(name)
    queue.authorization_rules_xml = (
        '<AuthorizationRules xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" '
        'xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><AuthorizationRule '
        'i:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue>'
        "<Rights><AccessRights>Send</AccessRights></Rights><KeyName>only-send</KeyName>"
        "<PrimaryKey>c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I=</PrimaryKey></AuthorizationRule></AuthorizationRules>"
    )
    await manager.update_queue(queue)
    again = await manager.get_queue(name)
    again.max_delivery_count = 3
    await manager.update_queue(again)
    assert "only-send" in ((await manager.get_queue(name)).authorization_rules_xml or "")


@mission("M4", "M7")
async def test_a_topic_and_its_subscriptions_are_created_fetched_updated_listed_and_deleted(
    manager: NamespaceManager, name: str
) -> None:
    topic = await manager.create_topic(TopicDescription(name, user_metadata="issues"))
    assert topic.user_metadata == "issues"
    first = SubscriptionDescription(name, "first", lock_duration=timedelta(seconds=30), max_delivery_count=3)
    assert await manager.create_subscription(first) == first
    await manager.create_subscription(SubscriptionDescription(name, "second"), FalseFilter())
    assert (await manager.get_topic(name)).subscription_count == 2
    first.max_delivery_count = 5
    await manager.update_subscription(first)
    assert (await manager.get_subscription(name, "first")).max_delivery_count == 5
    assert [one.name for one in await manager.get_subscriptions(name)] == ["first", "second"]
    assert await manager.subscription_exists(name, "first")
    await manager.delete_subscription(name, "first")
    assert not await manager.subscription_exists(name, "first")
    topic.user_metadata = "more issues"
    await manager.update_topic(topic)
    assert [one.user_metadata for one in await manager.get_topics() if one.path == name] == ["more issues"]
    assert await manager.topic_exists(name)
    assert not await manager.queue_exists(name)
    await manager.delete_topic(name)
    assert not await manager.topic_exists(name)


@mission("M4", "M8")
async def test_rules_with_values_of_every_type_come_back_as_they_went(manager: NamespaceManager, name: str) -> None:
    await manager.create_topic(name)
    await manager.create_subscription(SubscriptionDescription(name, "s"), SqlFilter("StoreName = 'Store1'"))
    (default,) = await manager.get_rules(name, "s")
    assert default.name == "$Default"
    assert isinstance(default.filter, SqlFilter)
    assert default.filter.expression == "StoreName = 'Store1'"
    assert default.created_at is not None
    values: dict[str, object] = {
        "text": "<a>",
        "int": 1,
        "long": 2**40,
        "double": 1.5,
        "flag": True,
        "moment": datetime(2026, 1, 31, 12, 30, tzinfo=UTC),
        "span": timedelta(hours=25, milliseconds=7),
    }
    rule = RuleDescription("all", CorrelationFilter(label="x", to="y", properties=values), SqlRuleAction("SET a = 1"))
    await manager.create_rule(name, "s", rule)
    got = await manager.get_rule(name, "s", "all")
    assert isinstance(got.filter, CorrelationFilter)
    assert (got.filter.label, got.filter.to, got.filter.properties) == ("x", "y", values)
    assert got.action is not None
    assert got.action.expression == "SET a = 1"
    with_parameters = RuleDescription("all", SqlFilter("a > @n", {"@n": 3}), SqlRuleAction("SET b = @m", {"@m": "t"}))
    await manager.update_rule(name, "s", with_parameters)
    got = await manager.get_rule(name, "s", "all")
    assert isinstance(got.filter, SqlFilter)
    assert got.filter.parameters == {"@n": 3}
    assert got.action is not None
    assert got.action.parameters == {"@m": "t"}
    for one in (TrueFilter(), FalseFilter()):
        await manager.update_rule(name, "s", RuleDescription("all", one))
        assert type((await manager.get_rule(name, "s", "all")).filter) is type(one)
    assert await manager.rule_exists(name, "s", "all")
    await manager.delete_rule(name, "s", "all")
    assert not await manager.rule_exists(name, "s", "all")


async def test_a_long_list_is_read_to_its_end(manager: NamespaceManager, name: str) -> None:
    await manager.create_topic(name)
    await manager.create_subscription(SubscriptionDescription(name, "s"))
    for number in range(105):
        await manager.create_rule(name, "s", RuleDescription(f"rule-{number:03}", CorrelationFilter(label=str(number))))
    assert len(await manager.get_rules(name, "s")) == 106


@mission("M17")
async def test_what_the_service_refuses_has_its_own_error(manager: NamespaceManager, name: str) -> None:
    await manager.create_queue(name)
    with pytest.raises(MessagingEntityAlreadyExistsError):
        await manager.create_queue(name)
    with pytest.raises(InvalidOperationError, match="lock_duration is 1:00:00; it must be between 0:00:01 and 0:05:00"):
        await manager.create_queue(QueueDescription(f"{name}-b", lock_duration=timedelta(hours=1)))
    with pytest.raises(MessagingEntityNotFoundError):
        await manager.update_queue(QueueDescription(f"{name}-c"))
    with pytest.raises(MessagingEntityNotFoundError):
        await manager.create_subscription(SubscriptionDescription(f"{name}-d", "s"))


@mission("M4", "M17")
async def test_a_wrong_key_may_not_manage(broker: Broker) -> None:
    provider = TokenProvider.create_shared_access_signature(RULE_NAME, "wrong")
    with pytest.raises(UnauthorizedAccessError):
        await NamespaceManager(f"http://{HOST}:{broker.http_port}", provider).get_queues()


@mission("M12")
async def test_a_namespace_that_cannot_be_reached_cannot_be_managed() -> None:
    provider = TokenProvider.create_shared_access_signature(RULE_NAME, "key")
    settings = MessagingFactorySettings(retry_policy=NoRetry())
    with pytest.raises(MessagingCommunicationError, match="cannot be reached"):
        await NamespaceManager(f"http://{HOST}:1", provider, settings).get_queues()


@mission("M13")
async def test_management_of_a_busy_namespace_waits_ten_seconds_and_goes_on(bus: Bus, name: str) -> None:
    outage = bus.break_management(error=ServerBusy)

    class Mending(StillTime):
        async def sleep(self, delay_s: float) -> None:
            await super().sleep(delay_s)
            if sum(self.slept_s) >= 9.9:
                outage.restore()

    time = Mending()
    settings = MessagingFactorySettings(waiting=time)
    manager = NamespaceManager.from_connection_string(bus.admin_connection_string, settings)
    await manager.create_queue(name)
    assert sum(time.slept_s) == pytest.approx(10)
