"""Queues over HTTP."""

from __future__ import annotations

from typing import ClassVar

from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.topic import Topic
from tandem.entity_settings import QUEUE
from tandem.errors import NotFound
from tandem.management.json_api.entity_handlers import Fields, Handlers, Names, Noun
from tandem.management.json_api.entity_shapes import Queue as ShownQueue
from tandem.management.json_api.entity_shapes import QueueList, QueueRequest

__all__ = ["QueueHandlers", "queue_fields", "time_fields"]


class QueueHandlers(Handlers[Queue]):
    """`/$api/v1/queues`"""

    noun: ClassVar[Noun] = Noun(QUEUE, "/queues", QUEUE, ShownQueue, QueueList, QueueRequest)

    def all(self, namespace: Namespace, names: Names) -> list[Queue]:
        return namespace.queues

    def find(self, namespace: Namespace, names: Names) -> Queue:
        queue = namespace.find(names["name"])
        # To the engine a topic is a queue of a kind; here it has a path of its own.
        if queue is None or isinstance(queue, Topic):
            raise NotFound(f"The messaging entity '{names['name']}' could not be found.")
        return queue

    def make(self, namespace: Namespace, names: Names, fields: Fields) -> Queue:
        return namespace.create_queue(QueueDescription.from_fields({**fields, **names}))

    def change(self, namespace: Namespace, entity: Queue, fields: Fields) -> Queue:
        namespace.update_queue(entity, QueueDescription.from_fields({**entity.description.to_fields(), **fields}))
        return entity

    def remove(self, namespace: Namespace, entity: Queue) -> None:
        namespace.delete(entity)

    def fields(self, entity: Queue) -> Fields:
        return queue_fields(entity)


def queue_fields(queue: Queue) -> Fields:
    """The settings of a queue or a subscription, its counts, and its times."""
    counts = queue.message_counts
    return {
        **queue.description.to_fields(),
        "active_message_count": counts.active,
        "dead_letter_message_count": counts.dead_letter,
        "scheduled_message_count": counts.scheduled,
        "deferred_message_count": counts.deferred,
        "transfer_message_count": counts.transfer,
        "transfer_dead_letter_message_count": counts.transfer_dead_letter,
        "message_count": counts.total,
        "size_in_bytes": queue.size_bytes,
        **time_fields(queue),
    }


def time_fields(queue: Queue) -> Fields:
    return {
        "created_at_ms": queue.created_at_ms,
        "updated_at_ms": queue.updated_at_ms,
        "accessed_at_ms": queue.accessed_at_ms,
    }
