"""Making what a configuration has and the namespace has not; and, on a reload, changing what the file has changed.

Nothing is ever deleted. Whatever cannot be is found before anything is done: all or none.
"""

from __future__ import annotations

from typing import Final

from tandem.config.configuration import NamespaceSettings, SubscriptionSettings
from tandem.config.hubs import HubChange, find_hub_changes, missing_hubs, name_taken, require_no_hub
from tandem.config.tiers import check_tier
from tandem.engine.description import QueueDescription
from tandem.engine.descriptions import description_of
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.subscription import Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic import Topic
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ArgumentError, ConfigurationError

__all__ = ["Change", "create_missing", "find_changes", "update_changed"]

_TARGETS: Final = ("forward_to", "forward_dead_lettered_messages_to")

# What an entity has for life.
_FIXED: Final = ("requires_session", "requires_duplicate_detection", "enable_partitioning")

# Not settings of the entity itself: what it is called, and what has a place of its own.
_NO_SETTINGS: Final = frozenset({"name", "topic_name", "subscriptions", "rules"})


# --- what is missing ------------------------------------------------------------------------------------------------


def create_missing(namespace: Namespace, settings: NamespaceSettings) -> list[str]:
    """Create what is missing, and say so. What exists is left alone, with its rules.

    Entities may forward to each other, in any order and in a ring.
    """
    hubs = missing_hubs(namespace, settings)
    queues = [one for one in settings.queues if _is_missing(namespace, one)]
    topics = [one.description for one in settings.topics if _is_missing(namespace, one.description)]
    subscriptions = [one for one in _subscriptions(settings) if namespace.find_any(one.description.name) is None]
    forwarding = [*queues, *[one.description for one in subscriptions]]
    _check_targets(namespace, settings, forwarding)
    check_tier(namespace, settings)
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
    for hub in hubs:
        namespace.hubs.create(hub)
    made = [*queues, *topics, *[one.description for one in subscriptions]]
    words = [f"created the {one.kind} {one.name}" for one in made]
    return words + [f"created the {hub.kind} {hub.name}" for hub in hubs]


def _subscriptions(settings: NamespaceSettings) -> list[SubscriptionSettings]:
    return [one for topic in settings.topics for one in topic.subscriptions]


def _is_missing(namespace: Namespace, description: QueueDescription) -> bool:
    entity = namespace.find(description.name)
    if entity is None:
        require_no_hub(namespace, description)
        return True
    if isinstance(entity, Topic) is not isinstance(description, TopicDescription):
        raise name_taken(description.name, description.kind, entity.description.kind)
    return False


def _check_targets(namespace: Namespace, settings: NamespaceSettings, forwarding: list[QueueDescription]) -> None:
    coming = {one.name.lower() for one in [*settings.queues, *[topic.description for topic in settings.topics]]}
    for description in forwarding:
        for field in _TARGETS:
            target = getattr(description, field)
            if target is not None and target.lower() not in coming and namespace.find(target) is None:
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


# --- what has changed -----------------------------------------------------------------------------------------------


class Change:
    """An entity that is to become what the file says: another description, or other rules, or both."""

    def __init__(
        self, entity: Queue, description: QueueDescription | None, names: list[str], rules: list[Rule]
    ) -> None:
        self.entity = entity
        self.description = description
        self.names = names
        self.rules = rules


def find_changes(namespace: Namespace, settings: NamespaceSettings) -> list[Change | HubChange]:
    """Where existing entities differ from what is written down. Settings that the file does not have stay as they are.

    Raises ConfigurationError for what cannot be changed, or cannot be at all.
    """
    descriptions = [*settings.queues, *[topic.description for topic in settings.topics]]
    forwarding = [one for one in descriptions if not isinstance(one, TopicDescription)]
    forwarding += [one.description for one in _subscriptions(settings)]
    _check_targets(namespace, settings, forwarding)
    hub_changes = find_hub_changes(namespace, settings)
    changes = [_change(namespace, one, settings, []) for one in descriptions if not _is_missing(namespace, one)]
    changes += [_change(namespace, one.description, settings, one.rules or []) for one in _subscriptions(settings)]
    found = [one for one in changes if one is not None]
    described = [(one.description, one.entity.description) for one in found if one.description is not None]
    of_hubs = [(one.description, one.hub.description) for one in hub_changes]
    check_tier(namespace, settings, [*described, *of_hubs])
    return [*found, *hub_changes]


def _change(
    namespace: Namespace, wanted: QueueDescription, settings: NamespaceSettings, rules: list[Rule]
) -> Change | None:
    entity = namespace.find_any(wanted.name)
    if entity is None:
        return None
    before, after = entity.description.stored_fields(), wanted.stored_fields()
    given = settings.given.get(wanted.name.lower(), frozenset()) - _NO_SETTINGS
    names = sorted(name for name in given if before.get(name) != after.get(name))
    for name in _FIXED:
        if name in names:
            raise ConfigurationError(
                f"{name} of the {wanted.kind} {entity.name!r} is {before[name]!r} and cannot be changed to "
                f"{after[name]!r}: delete the {wanted.kind} first, or take the setting back"
            )
    changed_rules = [rule for rule in rules if _is_changed(entity, rule)]
    if not names and not changed_rules:
        return None
    try:
        # An empty list takes the rules back; without one they would stay.
        fields = {**before, **{name: after.get(name, []) for name in names}}
        description = description_of(wanted.kind, fields) if names else None
    except ArgumentError as error:
        raise ConfigurationError(f"the {wanted.kind} {entity.name!r}: {error}") from error
    return Change(entity, description, names, changed_rules)


def _is_changed(entity: Queue, rule: Rule) -> bool:
    assert isinstance(entity, Subscription)
    existing = entity.rules.get(rule.name.lower())
    return existing is None or existing.to_fields() != rule.to_fields()


def update_changed(namespace: Namespace, changes: list[Change | HubChange]) -> list[str]:
    """Make the changes, and say so. What they forward to is there by now."""
    done: list[str] = []
    for change in changes:
        if isinstance(change, HubChange):
            done.append(change.make(namespace))
            continue
        entity = change.entity
        title = f"the {entity.description.kind} {entity.name}"
        if change.description is not None:
            namespace.update_queue(entity, change.description)
            done.append(f"updated {title}: {', '.join(change.names)}")
        for rule in change.rules:
            assert isinstance(entity, Subscription)
            done.append(f"{_put_rule(namespace, entity, rule)} the rule {rule.name} of {title}")
    return done


def _put_rule(namespace: Namespace, subscription: Subscription, rule: Rule) -> str:
    if rule.name.lower() in subscription.rules:
        subscription.replace_rule(rule)
        return "updated"
    rule.created_at_ms = namespace.now_ms
    subscription.add_rule(rule)
    return "created"
