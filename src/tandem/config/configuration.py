"""What a configuration says."""

from __future__ import annotations

from dataclasses import dataclass, field

from tandem.engine.description import QueueDescription
from tandem.engine.rule import Rule
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription

__all__ = ["Configuration", "SubscriptionSettings", "TopicSettings"]


@dataclass(frozen=True, slots=True)
class SubscriptionSettings:
    """A subscription, and its rules: None for the one that selects everything."""

    description: SubscriptionDescription
    rules: list[Rule] | None = None


@dataclass(frozen=True, slots=True)
class TopicSettings:
    description: TopicDescription
    subscriptions: list[SubscriptionSettings] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Configuration:
    """None is what it leaves open."""

    namespace: str | None = None
    host: str | None = None
    port: int | None = None
    http_port: int | None = None
    tls: str | None = None
    credits_per_second: int | None = None
    queues: list[QueueDescription] = field(default_factory=list)
    topics: list[TopicSettings] = field(default_factory=list)
