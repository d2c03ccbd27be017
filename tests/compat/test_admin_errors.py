"""What cannot be is refused with the error classes and texts that programs decide by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)

from tandem.testing import Broker
from tests.compat.admin import KINDS, SYNC, Admin, new_name
from tests.compat.sdk import ROOT_KEY, ROOT_RULE
from tests.markers import mission


@pytest.fixture(params=KINDS, scope="module")
def admin(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Admin]:
    with Admin(broker, request.param) as admin:
        yield admin


@mission("M4")
def test_what_does_not_exist_is_not_found(admin: Admin) -> None:
    topic = new_name("topic")
    admin.create_topic(topic)
    calls: list[Callable[[], Any]] = [
        partial(admin.get_queue, "missing"),
        partial(admin.get_queue_runtime_properties, "missing"),
        partial(admin.delete_queue, "missing"),
        partial(admin.get_topic, "missing"),
        partial(admin.get_topic_runtime_properties, "missing"),
        partial(admin.delete_topic, "missing"),
        partial(admin.get_subscription, topic, "missing"),
        partial(admin.get_subscription_runtime_properties, topic, "missing"),
        partial(admin.get_subscription, "missing", "missing"),
        partial(admin.delete_subscription, topic, "missing"),
        partial(admin.get_rule, topic, "missing", "missing"),
        partial(admin.delete_rule, topic, "missing", "missing"),
        partial(admin.create_subscription, "missing", "s"),
        partial(admin.list_subscriptions, "missing"),
        partial(admin.list_rules, topic, "missing"),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(HttpResponseError) as missing:
            call()
        is_missing = isinstance(missing.value, ResourceNotFoundError) or missing.value.status_code == 404
        assert is_missing, (number, missing.value)


@mission("M4", "M10")
def test_an_event_hub_is_listed_neither_as_a_queue_nor_as_a_topic_and_keeps_its_name(
    admin: Admin, broker: Broker
) -> None:
    hub = new_name("hub")
    broker.create_hub(hub, partition_count=1)
    assert hub not in [entity.name for entity in [*admin.list_queues(), *admin.list_topics()]]
    for create in (admin.create_queue, admin.create_topic):
        with pytest.raises(ResourceExistsError):
            create(hub)


@mission("M4")
def test_an_update_of_what_does_not_exist_is_not_found(admin: Admin) -> None:
    topic = new_name("topic")
    queue = admin.create_queue(new_name("queue"))
    other = admin.create_topic(topic)
    subscription = admin.create_subscription(topic, "s")
    for entity in (queue, other, subscription):
        entity.name = "missing"
    for update, words in {
        partial(admin.update_queue, queue): "SubCode=40400. Not Found",
        partial(admin.update_topic, other): "SubCode=40400. Not Found",
        partial(admin.update_subscription, topic, subscription): rf"Entity 'sbemulatorns:Topic:{topic}\|missing'",
    }.items():
        with pytest.raises(HttpResponseError, match=words) as missing:
            update()
        assert missing.value.status_code == 404


@mission("M4")
def test_what_exists_cannot_be_created_again(admin: Admin) -> None:
    queue, topic = new_name("queue"), new_name("topic")
    admin.create_queue(queue)
    admin.create_topic(topic)
    admin.create_subscription(topic, "s")
    for create in (
        partial(admin.create_queue, queue),
        partial(admin.create_queue, queue.upper()),
        partial(admin.create_topic, queue),
        partial(admin.create_queue, topic),
        partial(admin.create_subscription, topic, "S"),
    ):
        with pytest.raises(
            ResourceExistsError, match=r"SubCode=40900|The messaging entity .* already exists"
        ) as refused:
            create()
        assert refused.value.status_code == 409


BAD_QUEUES: Final[dict[str, dict[str, Any]]] = {
    "LockDuration is P25D; it must be between PT1S and PT5M": {"lock_duration": timedelta(days=25)},
    "MaxDeliveryCount is 0": {"max_delivery_count": 0},
    "MaxSizeInMegabytes is -1": {"max_size_in_megabytes": -1},
    "DuplicateDetectionHistoryTimeWindow is PT1S": {"duplicate_detection_history_time_window": timedelta(seconds=1)},
    "AutoDeleteOnIdle is PT1M; it must be at least PT5M": {"auto_delete_on_idle": timedelta(minutes=1)},
    "DefaultMessageTimeToLive is PT0.5S": {"default_message_time_to_live": timedelta(milliseconds=500)},
    "Status is 'Sleeping'": {"status": "Sleeping"},
    "UserMetadata has 1025 characters": {"user_metadata": "x" * 1025},
    "ForwardTo is 'nowhere', which does not exist": {"forward_to": "nowhere"},
    "ForwardDeadLetteredMessagesTo is 'nowhere'": {"forward_dead_lettered_messages_to": "nowhere"},
    "MaxMessageSizeInKilobytes is 102401": {"max_message_size_in_kilobytes": 102_401},
}


@mission("M4")
@pytest.mark.parametrize("words", BAD_QUEUES)
def test_a_bad_value_is_refused_by_the_name_of_its_element(admin: Admin, words: str) -> None:
    with pytest.raises(HttpResponseError, match=words) as refused:
        admin.create_queue(new_name("queue"), **BAD_QUEUES[words])
    assert refused.value.status_code == 400
    assert "SubCode=40000" in str(refused.value)


@mission("M4")
def test_bad_names_are_refused(admin: Admin) -> None:
    topic = new_name("topic")
    admin.create_topic(topic)
    for create in (
        partial(admin.create_queue, "a$b"),
        partial(admin.create_queue, "a/b[]"),
        partial(admin.create_queue, "n" * 261),
        partial(admin.create_topic, "with space"),
        partial(admin.create_subscription, topic, "s" * 51),
        partial(admin.create_subscription, topic, "with space"),
        partial(admin.create_subscription, topic, "with/slash"),
    ):
        with pytest.raises(HttpResponseError) as refused:
            create()
        assert refused.value.status_code == 400, refused.value
    for empty in (partial(admin.create_queue, ""), partial(admin.delete_queue, "")):
        with pytest.raises((HttpResponseError, ValueError)):
            empty()


@mission("M4")
def test_what_cannot_change_is_refused(admin: Admin) -> None:
    queue, topic = admin.create_queue(new_name("queue")), admin.create_topic(new_name("topic"))
    subscription = admin.create_subscription(topic.name, "s")
    for entity, option, update in (
        (queue, "requires_session", partial(admin.update_queue, queue)),
        (queue, "requires_duplicate_detection", partial(admin.update_queue, queue)),
        (queue, "enable_partitioning", partial(admin.update_queue, queue)),
        (topic, "requires_duplicate_detection", partial(admin.update_topic, topic)),
        (subscription, "requires_session", partial(admin.update_subscription, topic.name, subscription)),
    ):
        setattr(entity, option, True)
        element = option.title().replace("_", "")
        with pytest.raises(HttpResponseError, match=f"the {element} property of an existing") as refused:
            update()
        assert refused.value.status_code == 400
        setattr(entity, option, False)


@mission("M4")
@pytest.mark.parametrize("rule, key", [(ROOT_RULE, "wrong"), ("NoSuchRule", ROOT_KEY)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_key_is_a_failure_of_authentication(broker: Broker, kind: str, rule: str, key: str) -> None:
    with Admin(broker, kind, key, rule) as stranger:
        for call in (
            stranger.get_namespace_properties,
            partial(stranger.create_queue, "refused"),
            stranger.list_queues,
            partial(stranger.delete_queue, "refused"),
        ):
            with pytest.raises(ClientAuthenticationError) as refused:
                call()
            assert refused.value.status_code == 401
    assert "refused" not in {queue["name"] for queue in broker.queues()}


@mission("M4")
@pytest.mark.parametrize("rule, key", [("Listener", "key-of-listener"), ("Sender", "key-of-sender")])
def test_who_may_not_manage_is_refused(broker: Broker, rule: str, key: str) -> None:
    queue = new_name("queue")
    broker.create_queue(queue)
    with Admin(broker, SYNC, key, rule) as listener:
        for call in (
            partial(listener.get_queue, queue),
            partial(listener.create_queue, "refused"),
            listener.list_queues,
            partial(listener.delete_queue, queue),
        ):
            with pytest.raises(HttpResponseError, match="'Manage' claim") as refused:
                call()
            assert refused.value.status_code in {401, 403}
    assert broker.queue(queue)
