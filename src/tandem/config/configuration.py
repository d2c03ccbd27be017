"""What a configuration says."""

from __future__ import annotations

from dataclasses import dataclass, field

from tandem.auth.keys import Right
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.rule import Rule
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.tiers import Tier
from tandem.engine.topic_description import TopicDescription

__all__ = ["Configuration", "Given", "KeySettings", "NamespaceSettings", "SubscriptionSettings", "TopicSettings"]


# Which settings are written down, by the path of the entity in lower case. A description has them all.
Given = dict[str, frozenset[str]]


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
class KeySettings:
    """A shared access rule of a namespace. Keys that are left out are made, and kept with the others."""

    name: str
    rights: Right
    primary_key: str | None = field(default=None, repr=False)
    secondary_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NamespaceSettings:
    """One namespace and its entities. Without a name it is the default one, whatever that is called."""

    name: str | None = None
    # None leaves it as it is.
    tier: Tier | None = None
    queues: list[QueueDescription] = field(default_factory=list)
    topics: list[TopicSettings] = field(default_factory=list)
    hubs: list[EventHubDescription] = field(default_factory=list)
    authorization_rules: list[KeySettings] = field(default_factory=list)
    given: Given = field(default_factory=dict)

    @property
    def has_entities(self) -> bool:
        return bool(self.queues or self.topics or self.hubs)


@dataclass(frozen=True, slots=True)
class Configuration:
    """None is what it leaves open."""

    default: NamespaceSettings = field(default_factory=NamespaceSettings)
    # Served beside it, each found by its host name.
    further: list[NamespaceSettings] = field(default_factory=list)
    host: str | None = None
    port: int | None = None
    http_port: int | None = None
    # Further addresses to listen on, as --listen takes them.
    listen: list[str] | None = None
    tls: str | None = None
    credits_per_second: int | None = None
    # The limits of [health] that it sets, by name; 0 is off.
    health: dict[str, int] = field(default_factory=dict)

    @property
    def namespaces(self) -> list[NamespaceSettings]:
        return [self.default, *self.further]
