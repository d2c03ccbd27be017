"""Queues, topics, subscriptions, rules, event hubs and consumer groups, as they are described to and by the service.

Those with settings are generated from `tandem.entity_settings` into `entity_descriptions`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tandem.client.description_parts import NEVER, Entity
from tandem.client.entity_descriptions import (
    EventHubDescription,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from tandem.entity_settings import EntityStatus
from tandem.rules import Filter, SqlAction, TrueFilter

__all__ = [
    "DEFAULT_RULE_NAME",
    "NEVER",
    "ConsumerGroupDescription",
    "EntityStatus",
    "EventHubDescription",
    "QueueDescription",
    "RuleDescription",
    "SubscriptionDescription",
    "TopicDescription",
]

# The rule that a subscription starts with.
DEFAULT_RULE_NAME: Final = "$Default"


@dataclass
class RuleDescription:
    """A rule of a subscription: which messages it selects, and what it changes in its copies of them."""

    name: str = DEFAULT_RULE_NAME
    filter: Filter = dataclasses.field(default_factory=TrueFilter)
    action: SqlAction | None = None
    created_at: datetime | None = dataclasses.field(default=None, compare=False)


@dataclass
class ConsumerGroupDescription(Entity):
    """A consumer group of an event hub: a view of its own on the events, with its own readers."""

    event_hub_path: str
    name: str
