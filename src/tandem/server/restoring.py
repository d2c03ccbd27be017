"""Fill a namespace with what its store holds: all of it at the start, or single entities that are read again."""

from __future__ import annotations

from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.namespace import Namespace
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.engine.rule import Rule
from tandem.engine.stored_description import description_of
from tandem.engine.subscription import Subscription
from tandem.errors import StoreCorrupt, TandemError
from tandem.store.base import Entities, Recovered, Store

__all__ = ["restore", "restore_entities"]


def restore(namespace: Namespace, store: Store) -> None:
    """Fill a fresh namespace with what its store holds."""
    recovered = store.recover()
    namespace.restore_body_number(recovered.last_body_number)
    restore_entities(namespace, Entities(recovered.queues, recovered.streams, recovered.rules))
    _restore_hubs(namespace, recovered)


def restore_entities(namespace: Namespace, recovered: Entities) -> None:
    """Add entities as they are on disk."""
    # A topic is older than its subscriptions, but numbers come round.
    for record in sorted(recovered.queues, key=lambda one: one.kind == "subscription"):
        try:
            description = description_of(record.kind, record.fields)
            restored = namespace.restore(record.number, description, record.created_at_ms, record.updated_at_ms)
            restored.restore_ids(record.last_id_at_ms)
        except Exception as error:
            raise StoreCorrupt(f"the description of {record.kind} {record.number} cannot be used: {error}") from error
    for rule in recovered.rules:
        subscription = namespace.queue_of_stream(rule.queue_number * STREAMS_PER_QUEUE)
        if not isinstance(subscription, Subscription):
            raise StoreCorrupt(f"the rule '{rule.name}' is of subscription {rule.queue_number}, which has no record")
        try:
            subscription.restore_rule(Rule.from_fields(rule.name, rule.fields, rule.created_at_ms))
        except TandemError as error:
            raise StoreCorrupt(f"the rule '{rule.name}' of '{subscription.name}' cannot be used: {error}") from error
    for stream in recovered.streams:
        queue = namespace.queue_of_stream(stream.stream)
        if queue is None:
            raise StoreCorrupt(
                f"the store counts messages of a queue {stream.stream // STREAMS_PER_QUEUE} without record"
            )
        if stream.stream == queue.main.stream:
            queue.next_sequence_number = max(queue.next_sequence_number, stream.next_sequence_number)
        for subqueue in queue.subqueues():
            if subqueue.stream == stream.stream:
                subqueue.restore(
                    stream.active,
                    stream.deferred,
                    stream.scheduled,
                    stream.size_bytes,
                    stream.next_sequence_number - 1,
                )


def _restore_hubs(namespace: Namespace, recovered: Recovered) -> None:
    hubs = namespace.hubs
    hubs.restore_number(max(recovered.log.last_hub_number, recovered.last_dropped_hub))
    for record in recovered.hubs:
        try:
            description = EventHubDescription.from_fields(record.fields)
        except TandemError as error:
            raise StoreCorrupt(f"the description of hub {record.number} cannot be used: {error}") from error
        hubs.restore(record.number, description, record.created_at_ms, record.updated_at_ms)
    for place in recovered.log.partitions:
        hub = hubs.find_number(place.hub_number)
        if hub is not None:
            hub.partitions[place.partition_id].restore(
                place.begin_sequence_number, place.next_sequence_number, place.last_enqueued_at_ms, place.size_bytes
            )
    for producer in recovered.log.producers:
        hub = hubs.find_number(producer.hub_number)
        if hub is not None:
            hub.partitions[producer.partition_id].producers.restore(producer.mark)
    for progress in recovered.progress:
        hub = hubs.find_number(progress.hub_number)
        if hub is not None:
            hub.progress.restore(progress.group, progress.partition_id, progress.fields)
