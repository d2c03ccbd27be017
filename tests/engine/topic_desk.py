"""The desk with topics on it."""

from __future__ import annotations

from collections.abc import Mapping

from tandem.amqp.message import Header, Properties, encode_message
from tandem.amqp.types import Timestamp
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.stored_description import description_of
from tandem.engine.subscription import Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic import Topic
from tandem.engine.topic_description import TopicDescription
from tests.engine.desk import Desk, body

__all__ = ["TopicDesk", "colored", "correlation", "rule", "sql"]


def colored(
    text: str = "a",
    color: str | None = None,
    *,
    size: object = None,
    label: str | None = None,
    message_id: str | None = None,
    session_id: str | None = None,
    ttl_ms: int | None = None,
    due_ms: int | None = None,
) -> bytes:
    """A message with properties that rules can ask for."""
    user: dict[str, object] = {}
    if color is not None:
        user["color"] = color
    if size is not None:
        user["size"] = size
    return encode_message(
        header=None if ttl_ms is None else Header(ttl_ms=ttl_ms),
        message_annotations=None if due_ms is None else {"x-opt-scheduled-enqueue-time": Timestamp(due_ms)},
        properties=Properties(message_id=message_id or text[:20], subject=label, group_id=session_id),
        application_properties=user or None,
        data=text.encode(),
    )


def sql(expression: str) -> dict[str, object]:
    return {"kind": "sql", "expression": expression}


def correlation(**fields: object) -> dict[str, object]:
    return {"kind": "correlation", **fields}


def rule(
    name: str,
    condition: Mapping[str, object] | None = None,
    action: str | None = None,
    *,
    parameters: Mapping[str, object] | None = None,
) -> Rule:
    """Without a condition it selects everything."""
    fields: dict[str, object] = {"filter": None if condition is None else dict(condition), "action": None}
    if action is not None:
        fields["action"] = {"expression": action, "parameters": dict(parameters or {})}
    return Rule.from_fields(name, fields, 0)


class TopicDesk(Desk):
    """A namespace with topics whose effects are performed at once."""

    def topic(self, name: str = "news", **fields: object) -> Topic:
        topic = self.namespace.create_topic(TopicDescription.from_fields({"name": name, **fields}))
        self.flush()
        return topic

    def subscription(self, topic: Topic, name: str, *rules: Rule, **fields: object) -> Subscription:
        """With these rules; with none, it gets everything."""
        description = SubscriptionDescription.from_fields({"topic_name": topic.name, "name": name, **fields})
        subscription = self.namespace.create_subscription(description, list(rules) if rules else None)
        self.flush()
        return subscription

    def update(self, queue: Queue, **fields: object) -> None:
        description = description_of(queue.description.kind, {**queue.description.to_fields(), **fields})
        self.namespace.update_queue(queue, description)
        self.flush()

    def bodies_in_store(self) -> dict[int, int]:
        """How many copies there are of each body that is shared."""
        return {number: one.copies for number, one in self.store._bodies.items()}

    def complete_all(self, queue: Queue) -> list[str]:
        """Receive whatever there is now, and be done with it."""
        subqueue = queue.main
        consumer = self.receiver(subqueue, credit=100)
        locks = self.take()
        for lock in locks:
            subqueue.complete(lock)
        subqueue.close_consumer(consumer)
        self.flush()
        return [body(lock) for lock in locks]
