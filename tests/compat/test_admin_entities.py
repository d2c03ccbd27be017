"""Queues, topics and subscriptions are created, listed, fetched, updated and deleted by the official clients."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import (
    AccessRights,
    EntityAvailabilityStatus,
    EntityStatus,
    QueueProperties,
    SqlRuleFilter,
    SubscriptionProperties,
    TopicProperties,
)

from tandem.testing import Broker
from tests.compat.admin import KINDS, SYNC, Admin, new_name, shared_access_rule
from tests.compat.sdk import Bus, take_all, take_one
from tests.markers import mission

# .NET's largest TimeSpan, as the SDK reads it.
FOR_EVER: Final = timedelta(days=10_675_199, seconds=10_085, microseconds=477_581)


@pytest.fixture(params=KINDS, scope="module")
def admin(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Admin]:
    with Admin(broker, request.param) as admin:
        yield admin


def settings(properties: Any, names: list[str]) -> dict[str, Any]:
    return {name: getattr(properties, name) for name in names}


# --- queues ---------------------------------------------------------------------------------------------------------

QUEUE_DEFAULTS: Final[dict[str, Any]] = {
    "lock_duration": timedelta(minutes=1),
    "max_size_in_megabytes": 1024,
    "requires_duplicate_detection": False,
    "requires_session": False,
    "default_message_time_to_live": FOR_EVER,
    "dead_lettering_on_message_expiration": False,
    "duplicate_detection_history_time_window": timedelta(minutes=10),
    "max_delivery_count": 10,
    "enable_batched_operations": True,
    "status": EntityStatus.ACTIVE,
    "auto_delete_on_idle": FOR_EVER,
    "enable_partitioning": False,
    "enable_express": False,
    "availability_status": EntityAvailabilityStatus.AVAILABLE,
    "forward_to": None,
    "forward_dead_lettered_messages_to": None,
    "user_metadata": None,
    "max_message_size_in_kilobytes": 256,
    "authorization_rules": None,
}
QUEUE_OPTIONS: Final[dict[str, Any]] = {
    "lock_duration": timedelta(seconds=13),
    "max_size_in_megabytes": 3072,
    "requires_duplicate_detection": True,
    "requires_session": True,
    "default_message_time_to_live": timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5),
    "dead_lettering_on_message_expiration": True,
    "duplicate_detection_history_time_window": timedelta(minutes=12),
    "max_delivery_count": 14,
    "enable_batched_operations": False,
    "status": EntityStatus.RECEIVE_DISABLED,
    "auto_delete_on_idle": timedelta(minutes=10),
    "user_metadata": 'for <tests> & "more" — with äöü ',
    "max_message_size_in_kilobytes": 1024,
}


@mission("M4")
def test_a_queue_has_the_defaults_of_the_service(admin: Admin) -> None:
    name = new_name("queue")
    created = admin.create_queue(name)
    assert created.name == name
    assert settings(created, list(QUEUE_DEFAULTS)) == QUEUE_DEFAULTS
    assert settings(admin.get_queue(name), list(QUEUE_DEFAULTS)) == QUEUE_DEFAULTS


@mission("M4")
def test_a_queue_is_created_with_every_option(admin: Admin) -> None:
    name, target = new_name("queue"), new_name("target")
    admin.create_queue(target)
    created = admin.create_queue(name, forward_dead_lettered_messages_to=target, **QUEUE_OPTIONS)
    fetched = admin.get_queue(name)
    for queue in (created, fetched):
        assert settings(queue, list(QUEUE_OPTIONS)) == QUEUE_OPTIONS
        assert queue.forward_dead_lettered_messages_to.endswith(f"/{target}")
        assert queue.forward_dead_lettered_messages_to.startswith("sb://localhost:")


@mission("M4")
def test_a_partitioned_queue_is_created(admin: Admin) -> None:
    name = new_name("queue")
    admin.create_queue(name, enable_partitioning=True)
    assert admin.get_queue(name).enable_partitioning is True


@mission("M4")
def test_a_queue_is_updated_by_what_was_fetched_and_changed(admin: Admin) -> None:
    name, target = new_name("queue"), new_name("target")
    admin.create_queue(target)
    admin.create_queue(name)
    queue = admin.get_queue(name)
    changes = {
        option: QUEUE_OPTIONS[option]
        for option in QUEUE_OPTIONS
        if option not in {"requires_session", "requires_duplicate_detection"}
    }
    for option, value in changes.items():
        setattr(queue, option, value)
    queue.forward_to = target
    queue.forward_dead_lettered_messages_to = target
    admin.update_queue(queue)
    updated = admin.get_queue(name)
    assert settings(updated, list(changes)) == changes
    assert updated.forward_to.endswith(f"/{target}")
    assert updated.forward_dead_lettered_messages_to.endswith(f"/{target}")
    # What comes back as a whole URI is understood as well.
    admin.update_queue(updated)
    assert admin.get_queue(name).forward_to == updated.forward_to
    updated.forward_to = None
    updated.forward_dead_lettered_messages_to = ""
    admin.update_queue(updated)
    assert admin.get_queue(name).forward_to is None
    assert admin.get_queue(name).forward_dead_lettered_messages_to is None


@mission("M4")
def test_an_update_takes_a_mapping_and_single_options(admin: Admin) -> None:
    name = new_name("queue")
    admin.create_queue(name)
    fields = dict(admin.get_queue(name))
    assert isinstance(fields["lock_duration"], timedelta)
    admin.update_queue({**fields, "max_delivery_count": 15})
    assert admin.get_queue(name).max_delivery_count == 15
    admin.update_queue(admin.get_queue(name), max_delivery_count=16, lock_duration=timedelta(seconds=16))
    updated = admin.get_queue(name)
    assert (updated.max_delivery_count, updated.lock_duration) == (16, timedelta(seconds=16))
    topic = new_name("topic")
    admin.create_topic(topic)
    admin.update_topic({**dict(admin.get_topic(topic)), "user_metadata": "by mapping"})
    admin.update_topic(admin.get_topic(topic), max_size_in_megabytes=2048)
    changed = admin.get_topic(topic)
    assert (changed.user_metadata, changed.max_size_in_megabytes) == ("by mapping", 2048)
    admin.create_subscription(topic, "all")
    admin.update_subscription(topic, {**dict(admin.get_subscription(topic, "all")), "max_delivery_count": 17})
    admin.update_subscription(topic, admin.get_subscription(topic, "all"), lock_duration=timedelta(seconds=18))
    subscription = admin.get_subscription(topic, "all")
    assert (subscription.max_delivery_count, subscription.lock_duration) == (17, timedelta(seconds=18))


@mission("M4")
def test_names_hold_slashes_and_are_the_same_in_any_case(admin: Admin) -> None:
    name = f"Region/{new_name('Queue')}"
    admin.create_queue(name)
    assert admin.get_queue(name).name == name
    # The SDK repeats the name it was given.
    assert admin.get_queue(name.upper()).max_delivery_count == 10
    assert name in [queue.name for queue in admin.list_queues()]
    admin.delete_queue(name.lower())
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue(name)
    topic = f"Region/{new_name('Topic')}"
    admin.create_topic(topic)
    admin.create_subscription(topic, "All.of-it_1")
    assert admin.get_subscription(topic.lower(), "ALL.of-it_1").max_delivery_count == 10
    assert [one.name for one in admin.list_subscriptions(topic.upper())] == ["All.of-it_1"]
    admin.create_rule(topic, "All.of-it_1", "Mine", filter=SqlRuleFilter("a = 1"))
    assert admin.get_rule(topic, "all.of-it_1", "mine").filter.sql_expression == "a = 1"
    assert [one.name for one in admin.list_rules(topic, "all.of-it_1")] == ["$Default", "Mine"]


@mission("M4")
def test_a_queue_is_deleted_with_what_it_holds(broker: Broker, admin: Admin) -> None:
    name = new_name("queue")
    admin.create_queue(name)
    assert name in {queue["name"] for queue in broker.queues()}
    admin.delete_queue(name)
    assert name not in {queue["name"] for queue in broker.queues()}


# --- topics and subscriptions ---------------------------------------------------------------------------------------

TOPIC_DEFAULTS: Final[dict[str, Any]] = {
    "default_message_time_to_live": FOR_EVER,
    "max_size_in_megabytes": 1024,
    "requires_duplicate_detection": False,
    "duplicate_detection_history_time_window": timedelta(minutes=10),
    "enable_batched_operations": True,
    "filtering_messages_before_publishing": False,
    "status": EntityStatus.ACTIVE,
    "support_ordering": True,
    "auto_delete_on_idle": FOR_EVER,
    "enable_partitioning": False,
    "enable_express": False,
    "availability_status": EntityAvailabilityStatus.AVAILABLE,
    "user_metadata": None,
    "max_message_size_in_kilobytes": 256,
    "authorization_rules": None,
}
TOPIC_OPTIONS: Final[dict[str, Any]] = {
    "default_message_time_to_live": timedelta(minutes=11),
    "max_size_in_megabytes": 2048,
    "requires_duplicate_detection": True,
    "duplicate_detection_history_time_window": timedelta(minutes=12),
    "enable_batched_operations": False,
    "status": EntityStatus.SEND_DISABLED,
    "support_ordering": False,
    "auto_delete_on_idle": timedelta(minutes=10),
    "user_metadata": "a topic",
    "max_message_size_in_kilobytes": 1024,
}
SUBSCRIPTION_DEFAULTS: Final[dict[str, Any]] = {
    "lock_duration": timedelta(minutes=1),
    "requires_session": False,
    "default_message_time_to_live": FOR_EVER,
    "dead_lettering_on_message_expiration": False,
    "dead_lettering_on_filter_evaluation_exceptions": True,
    "max_delivery_count": 10,
    "enable_batched_operations": True,
    "status": EntityStatus.ACTIVE,
    "forward_to": None,
    "user_metadata": None,
    "forward_dead_lettered_messages_to": None,
    "auto_delete_on_idle": FOR_EVER,
    "availability_status": EntityAvailabilityStatus.AVAILABLE,
}
SUBSCRIPTION_OPTIONS: Final[dict[str, Any]] = {
    "lock_duration": timedelta(seconds=13),
    "requires_session": True,
    "default_message_time_to_live": timedelta(minutes=11),
    "dead_lettering_on_message_expiration": True,
    "dead_lettering_on_filter_evaluation_exceptions": False,
    "max_delivery_count": 14,
    "enable_batched_operations": False,
    "status": EntityStatus.RECEIVE_DISABLED,
    "user_metadata": "a subscription",
    "auto_delete_on_idle": timedelta(minutes=10),
}


@mission("M4", "M7")
def test_a_topic_has_the_defaults_of_the_service_and_every_option(admin: Admin) -> None:
    plain, special = new_name("topic"), new_name("topic")
    created = admin.create_topic(plain)
    for topic in (created, admin.get_topic(plain)):
        assert topic.name == plain
        assert settings(topic, list(TOPIC_DEFAULTS)) == TOPIC_DEFAULTS
    created = admin.create_topic(special, **TOPIC_OPTIONS)
    for topic in (created, admin.get_topic(special)):
        assert settings(topic, list(TOPIC_OPTIONS)) == TOPIC_OPTIONS


@mission("M4", "M7")
def test_a_topic_is_updated_and_deleted_with_its_subscriptions(admin: Admin) -> None:
    name = new_name("topic")
    admin.create_topic(name)
    admin.create_subscription(name, "all")
    topic = admin.get_topic(name)
    changes = {option: TOPIC_OPTIONS[option] for option in TOPIC_OPTIONS if option != "requires_duplicate_detection"}
    for option, value in changes.items():
        setattr(topic, option, value)
    admin.update_topic(topic)
    assert settings(admin.get_topic(name), list(changes)) == changes
    admin.delete_topic(name)
    for missing in (partial(admin.get_topic, name), partial(admin.get_subscription, name, "all")):
        with pytest.raises(ResourceNotFoundError):
            missing()


@mission("M4", "M7")
def test_a_subscription_has_the_defaults_of_the_service_and_every_option(admin: Admin) -> None:
    topic, target = new_name("topic"), new_name("target")
    admin.create_topic(topic)
    admin.create_queue(target)
    created = admin.create_subscription(topic, "plain")
    for subscription in (created, admin.get_subscription(topic, "plain")):
        assert subscription.name == "plain"
        assert settings(subscription, list(SUBSCRIPTION_DEFAULTS)) == SUBSCRIPTION_DEFAULTS
    created = admin.create_subscription(
        topic, "special", forward_dead_lettered_messages_to=target, **SUBSCRIPTION_OPTIONS
    )
    for subscription in (created, admin.get_subscription(topic, "special")):
        assert settings(subscription, list(SUBSCRIPTION_OPTIONS)) == SUBSCRIPTION_OPTIONS
        assert subscription.forward_dead_lettered_messages_to.endswith(f"/{target}")


@mission("M4", "M7")
def test_a_subscription_is_updated_listed_and_deleted(admin: Admin) -> None:
    topic, target = new_name("topic"), new_name("target")
    admin.create_topic(topic)
    admin.create_queue(target)
    for name in ("b", "a", "c"):
        admin.create_subscription(topic, name)
    assert [one.name for one in admin.list_subscriptions(topic)] == ["a", "b", "c"]
    assert [one.name for one in admin.list_subscriptions_runtime_properties(topic)] == ["a", "b", "c"]
    subscription = admin.get_subscription(topic, "a")
    changes = {option: SUBSCRIPTION_OPTIONS[option] for option in SUBSCRIPTION_OPTIONS if option != "requires_session"}
    for option, value in changes.items():
        setattr(subscription, option, value)
    subscription.forward_to = f"sb://localhost/{target}"
    admin.update_subscription(topic, subscription)
    updated = admin.get_subscription(topic, "a")
    assert settings(updated, list(changes)) == changes
    assert updated.forward_to.endswith(f"/{target}")
    admin.delete_subscription(topic, "a")
    assert [one.name for one in admin.list_subscriptions(topic)] == ["b", "c"]


@mission("M4")
def test_the_namespace_tells_its_name_and_its_tier(admin: Admin) -> None:
    namespace = admin.get_namespace_properties()
    assert namespace.name == "sbemulatorns"
    assert namespace.messaging_sku == "Standard"
    assert namespace.namespace_type == "Messaging"
    assert namespace.created_at_utc <= datetime.now(UTC)
    assert namespace.modified_at_utc <= datetime.now(UTC)


# --- lists ----------------------------------------------------------------------------------------------------------


@mission("M4")
def test_lists_go_on_over_all_pages(broker: Broker) -> None:
    prefix = new_name("many")
    names = [f"{prefix}-{number:03}" for number in range(250)]
    for name in names:
        broker.create_queue(name)
    topic = new_name("topic")
    broker.create_topic(topic)
    subscriptions = [f"subscription-{number:03}" for number in range(105)]
    for name in subscriptions:
        broker.create_subscription(topic, name)
    for kind in KINDS:
        with Admin(broker, kind) as admin:
            listed: dict[str, list[Any]] = {
                "queues": admin.list_queues(),
                "counts": admin.list_queues_runtime_properties(),
                "pages of 30": admin.list_queues(max_page_size=30),
                "from the second": admin.list_queues(start_index=1),
            }
            found = {what: [one.name for one in items] for what, items in listed.items()}
            for what, everything in found.items():
                assert len(everything) == len(set(everything)), what
                assert [name for name in everything if name.startswith(prefix)][-249:] == names[-249:], what
            assert names[0] in found["queues"]
            assert found["pages of 30"] == found["counts"] == found["queues"]
            assert found["from the second"] == found["queues"][1:]
            assert [one.name for one in admin.list_subscriptions(topic)] == subscriptions
            assert topic in [one.name for one in admin.list_topics()]
            assert topic in [one.name for one in admin.list_topics_runtime_properties()]
    for name in names:
        broker.delete_queue(name)


@mission("M4")
def test_an_empty_list_is_empty(admin: Admin) -> None:
    topic = new_name("topic")
    admin.create_topic(topic)
    assert admin.list_subscriptions(topic) == []
    admin.create_subscription(topic, "none")
    admin.delete_rule(topic, "none", "$Default")
    assert admin.list_rules(topic, "none") == []


# --- counts ---------------------------------------------------------------------------------------------------------


@mission("M4")
def test_runtime_properties_count_what_traffic_left(broker: Broker) -> None:
    started = datetime.now(UTC) - timedelta(seconds=1)
    with Bus(broker) as bus, Admin(broker, SYNC) as admin:
        queue, topic = bus.queue(), bus.topic()
        subscription = topic.subscription()
        queue.send("active", "deferred", "dead", "active")
        with queue.sender() as sender:
            sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
        with queue.receiver() as receiver:
            take_one(receiver)
            receiver.defer_message(take_one(receiver))
            receiver.dead_letter_message(take_one(receiver))
            take_all(receiver)
        topic.send("one", "two")
        with topic.sender() as sender:
            sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
        counts = admin.get_queue_runtime_properties(queue.name)
        assert counts.name == queue.name
        assert counts.total_message_count == 5
        assert counts.active_message_count == 3  # Deferred messages are among them.
        assert counts.dead_letter_message_count == 1
        assert counts.scheduled_message_count == 1
        assert counts.transfer_message_count == 0
        assert counts.transfer_dead_letter_message_count == 0
        assert counts.size_in_bytes > 0
        assert started <= counts.created_at_utc <= counts.accessed_at_utc <= datetime.now(UTC) + timedelta(seconds=1)
        assert counts.updated_at_utc >= started
        of_topic = admin.get_topic_runtime_properties(topic.name)
        assert (of_topic.subscription_count, of_topic.scheduled_message_count) == (1, 1)
        assert of_topic.size_in_bytes > 0
        of_subscription = admin.get_subscription_runtime_properties(topic.name, subscription.own_name)
        assert (of_subscription.active_message_count, of_subscription.total_message_count) == (2, 2)
        assert of_subscription.accessed_at_utc >= started
        (listed,) = admin.list_subscriptions_runtime_properties(topic.name)
        assert listed.active_message_count == 2
        assert {one.name: one.total_message_count for one in admin.list_queues_runtime_properties()}[queue.name] == 5


@mission("M4")
def test_what_was_created_is_what_the_models_of_the_sdk_say(admin: Admin) -> None:
    topic, queue = new_name("topic"), new_name("queue")
    assert isinstance(admin.create_queue(queue), QueueProperties)
    assert isinstance(admin.create_topic(topic), TopicProperties)
    assert isinstance(admin.create_subscription(topic, "s"), SubscriptionProperties)


@mission("M4")
def test_authorization_rules_of_entities_come_back_with_their_keys(admin: Admin) -> None:
    rules = [
        shared_access_rule("sends", [AccessRights.SEND], "c2VuZA==", "c2VuZDI="),
        shared_access_rule("all", [AccessRights.MANAGE, AccessRights.SEND, AccessRights.LISTEN], "YWxs", "YWxsMg=="),
    ]
    queue, topic = new_name("queue"), new_name("topic")
    admin.create_queue(queue, authorization_rules=rules)
    admin.create_topic(topic, authorization_rules=rules)
    for entity in (admin.get_queue(queue), admin.get_topic(topic)):
        found = {rule.key_name: rule for rule in entity.authorization_rules}
        assert list(found) == ["sends", "all"]
        for rule in rules:
            same = found[rule.key_name]
            assert (same.primary_key, same.secondary_key) == (rule.primary_key, rule.secondary_key)
            assert set(same.rights) == set(rule.rights or [])
            assert (same.type, same.claim_type, same.claim_value) == (rule.type, rule.claim_type, rule.claim_value)
            assert same.created_at_utc <= same.modified_at_utc
