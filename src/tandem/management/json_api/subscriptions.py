"""Subscriptions over HTTP."""

from __future__ import annotations

from typing import ClassVar

from tandem.addresses import subscription_path
from tandem.engine.namespace import Namespace
from tandem.engine.subscription import Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic import Topic
from tandem.entity_settings import SUBSCRIPTION, TOPIC
from tandem.errors import ArgumentError
from tandem.management.json_api.entity_handlers import Fields, Handlers, Names, Noun
from tandem.management.json_api.entity_shapes import NewSubscription, SubscriptionList, SubscriptionRequest
from tandem.management.json_api.entity_shapes import Subscription as ShownSubscription
from tandem.management.json_api.queues import queue_fields
from tandem.management.rule_lists import read_rules

__all__ = ["SubscriptionHandlers", "subscriptions_of"]


class SubscriptionHandlers(Handlers[Subscription]):
    """`/$api/v1/topics/{topic_name}/subscriptions`"""

    noun: ClassVar[Noun] = Noun(
        SUBSCRIPTION,
        "/topics/{topic_name}/subscriptions",
        SUBSCRIPTION,
        ShownSubscription,
        SubscriptionList,
        NewSubscription,
        SubscriptionRequest,
        list_holder=TOPIC,
    )

    def path(self, names: Names) -> str:
        topic = names["topic_name"]
        return subscription_path(topic, names["name"]) if "name" in names else topic

    def all(self, namespace: Namespace, names: Names) -> list[Subscription]:
        return subscriptions_of(namespace.topic(names["topic_name"]))

    def find(self, namespace: Namespace, names: Names) -> Subscription:
        return namespace.subscription(names["topic_name"], names["name"])

    def make(self, namespace: Namespace, names: Names, fields: Fields) -> Subscription:
        """With the rules that the body has, or with the one that selects everything."""
        given = fields.pop("rules", None)
        description = SubscriptionDescription.from_fields({**fields, **names})
        if given is None:
            return namespace.create_subscription(description)
        rules = read_rules("rules", given, namespace.now_ms)
        return namespace.create_subscription(description, rules)

    def change(self, namespace: Namespace, entity: Subscription, fields: Fields) -> Subscription:
        if "rules" in fields:
            raise ArgumentError("rules of a subscription that exists are changed one by one, below its path /rules")
        before = entity.description.to_fields()
        namespace.update_queue(entity, SubscriptionDescription.from_fields({**before, **fields}))
        return entity

    def remove(self, namespace: Namespace, entity: Subscription) -> None:
        namespace.delete(entity)

    def fields(self, entity: Subscription) -> Fields:
        return queue_fields(entity)


def subscriptions_of(topic: Topic) -> list[Subscription]:
    """In the order of their names."""
    return [topic.subscriptions[name] for name in sorted(topic.subscriptions)]
