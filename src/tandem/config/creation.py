"""Making what a configuration has and the namespace has not. What exists is left alone, with its rules."""

from __future__ import annotations

from typing import Final

from tandem.config.configuration import Configuration, SubscriptionSettings
from tandem.engine.description import QueueDescription
from tandem.engine.descriptions import description_of
from tandem.engine.namespace import Namespace
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic import Topic
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ConfigurationError

__all__ = ["create_missing"]

_TARGETS: Final = ("forward_to", "forward_dead_lettered_messages_to")


def create_missing(namespace: Namespace, configuration: Configuration) -> None:
    """All or none. Entities may forward to each other, in any order and in a ring."""
    queues = [one for one in configuration.queues if _is_missing(namespace, one)]
    topics = [one.description for one in configuration.topics if _is_missing(namespace, one.description)]
    subscriptions = [
        one
        for topic in configuration.topics
        for one in topic.subscriptions
        if namespace.find_any(one.description.name) is None
    ]
    forwarding = [*queues, *[one.description for one in subscriptions]]
    _check_targets(namespace, forwarding, {one.name.lower() for one in [*queues, *topics]})
    # First without forwarding, so that every target is there before it is named.
    for queue in queues:
        namespace.create_queue(_without_targets(queue))
    for topic in topics:
        namespace.create_topic(topic)
    for subscription in subscriptions:
        _create_subscription(namespace, subscription)
    for description in forwarding:
        if any(getattr(description, field) is not None for field in _TARGETS):
            namespace.update_queue(namespace.get(description.name), description)


def _is_missing(namespace: Namespace, description: QueueDescription) -> bool:
    entity = namespace.find(description.name)
    if entity is None:
        return True
    if isinstance(entity, Topic) is not isinstance(description, TopicDescription):
        raise ConfigurationError(
            f"{description.name!r} is a {description.kind} in the configuration, and a {entity.description.kind} "
            "exists by that name: delete it, or choose another name"
        )
    return False


def _check_targets(namespace: Namespace, forwarding: list[QueueDescription], created: set[str]) -> None:
    for description in forwarding:
        for field in _TARGETS:
            target = getattr(description, field)
            if target is not None and target.lower() not in created and namespace.find(target) is None:
                raise ConfigurationError(
                    f"{field} of the {description.kind} {description.name!r} is {target!r}, which neither exists nor "
                    "is in the configuration"
                )


def _without_targets(description: QueueDescription) -> QueueDescription:
    return description_of(description.kind, {**description.stored_fields(), **dict.fromkeys(_TARGETS)})


def _create_subscription(namespace: Namespace, settings: SubscriptionSettings) -> None:
    # The topic may exist, spelled in another way.
    settings.description.rename(namespace.topic(settings.description.topic_name).name)
    description = _without_targets(settings.description)
    assert isinstance(description, SubscriptionDescription)
    for rule in settings.rules or []:
        rule.created_at_ms = namespace.now_ms
    namespace.create_subscription(description, settings.rules)
