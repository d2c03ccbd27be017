"""Topics over HTTP."""

from __future__ import annotations

from typing import ClassVar

from tandem.addresses import split_subscription
from tandem.engine.namespace import Namespace
from tandem.engine.topic import Topic
from tandem.engine.topic_description import TopicDescription
from tandem.entity_settings import TOPIC
from tandem.errors import ArgumentError
from tandem.management.json_api.entity_handlers import Fields, Handlers, Names, Noun
from tandem.management.json_api.entity_shapes import Topic as ShownTopic
from tandem.management.json_api.entity_shapes import TopicList, TopicRequest
from tandem.management.json_api.queues import time_fields

__all__ = ["TopicHandlers"]


class TopicHandlers(Handlers[Topic]):
    """`/$api/v1/topics`"""

    noun: ClassVar[Noun] = Noun(TOPIC, "/topics", TOPIC, ShownTopic, TopicList, TopicRequest)

    def all(self, namespace: Namespace, names: Names) -> list[Topic]:
        return namespace.topics

    def find(self, namespace: Namespace, names: Names) -> Topic:
        return namespace.topic(names["name"])

    def make(self, namespace: Namespace, names: Names, fields: Fields) -> Topic:
        # Such a path names a subscription to every client, in whatever case it is written.
        if split_subscription(names["name"].lower()) is not None:
            raise ArgumentError(
                f"name is {names['name']!r:.80}, which reads as a subscription: leave out the segment 'subscriptions'"
            )
        return namespace.create_topic(TopicDescription.from_fields({**fields, **names}))

    def change(self, namespace: Namespace, entity: Topic, fields: Fields) -> Topic:
        namespace.update_queue(entity, TopicDescription.from_fields({**entity.description.to_fields(), **fields}))
        return entity

    def remove(self, namespace: Namespace, entity: Topic) -> None:
        namespace.delete(entity)

    def fields(self, entity: Topic) -> Fields:
        """Messages that were sent are in its subscriptions: it counts those that wait to be, or could not go on."""
        counts = entity.message_counts
        return {
            **entity.description.to_fields(),
            "subscription_count": len(entity.subscriptions),
            "scheduled_message_count": counts.scheduled,
            "transfer_dead_letter_message_count": counts.transfer_dead_letter,
            "size_in_bytes": entity.size_bytes,
            **time_fields(entity),
        }
