"""Descriptions of subscriptions."""

from __future__ import annotations

from tandem.addresses import subscription_path, validate_entity_name, validate_subscription_name
from tandem.engine.description import QueueDescription, take_names
from tandem.entity_settings import SUBSCRIPTION

__all__ = ["SubscriptionDescription"]


class SubscriptionDescription(QueueDescription):
    """The chosen settings of one subscription. To clients that receive, it is a queue with a longer name.

    `name` is the whole path, under which it is found; `subscription_name` is its own name below the topic.
    """

    __slots__ = ("dead_lettering_on_filter_evaluation_exceptions", "subscription_name", "topic_name")

    def __init__(self, topic_name: str, subscription_name: str, **settings: object) -> None:
        self.topic_name = topic_name
        self.subscription_name = subscription_name
        super().__init__(subscription_path(topic_name, subscription_name), None, **settings)
        value = self.values["dead_lettering_on_filter_evaluation_exceptions"]
        self.dead_lettering_on_filter_evaluation_exceptions = value is True

    def rename(self, topic_name: str) -> None:
        """Take the topic's own spelling; names are the same in any case."""
        self.topic_name = topic_name
        self.name = subscription_path(topic_name, self.subscription_name)

    def check_name(self) -> None:
        validate_entity_name(self.topic_name, "topic_name")
        validate_subscription_name(self.subscription_name)

    @property
    def kind(self) -> str:
        return SUBSCRIPTION

    @property
    def dead_letter_source(self) -> str:
        return subscription_path(self.topic_name.lower(), self.subscription_name.lower())

    def name_fields(self) -> dict[str, object]:
        return {"topic_name": self.topic_name, "name": self.subscription_name}

    @staticmethod
    def from_fields(fields: dict[str, object]) -> SubscriptionDescription:
        """Return the description of these plain values. ArgumentError names the field that is wrong."""
        settings = dict(fields)
        topic_name, name = take_names(SUBSCRIPTION, settings)
        return SubscriptionDescription(topic_name, name, **settings)
