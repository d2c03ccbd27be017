"""A description from what was stored of it, whatever it describes."""

from __future__ import annotations

from tandem.engine.description import QueueDescription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ArgumentError

__all__ = ["description_of"]


def description_of(kind: str, fields: dict[str, object]) -> QueueDescription:
    if kind == "queue":
        return QueueDescription.from_fields(fields)
    if kind == "topic":
        return TopicDescription.from_fields(fields)
    if kind == "subscription":
        return SubscriptionDescription.from_fields(fields)
    raise ArgumentError(f"kind is {kind!r}; it must be queue, topic or subscription")
