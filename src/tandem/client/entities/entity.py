"""What the service reports about every entity; and rules and consumer groups, which have no settings."""

# ruff: noqa: RUF009 - the calls in the defaults are dataclasses.field with a name, made anew for each class
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tandem.rules import Filter, SqlAction, TrueFilter

__all__ = [
    "DEFAULT_RULE_NAME",
    "NEVER",
    "ConsumerGroupDescription",
    "Entity",
    "MessageEntity",
    "RuleDescription",
    "reported",
]

# The rule that a subscription starts with.
DEFAULT_RULE_NAME: Final = "$Default"

# Stands for "no end" where a duration is expected.
NEVER: Final = timedelta.max


# Any: a field is typed where it is declared, as those of the standard library are.
def reported(element: str) -> Any:
    """Return a field that the service reports and never reads. Descriptions that differ only in these are equal."""
    return dataclasses.field(default=None, metadata={"element": element}, compare=False, repr=False)


@dataclass(kw_only=True)
class Entity:
    """The facts that the service reports about every entity."""

    created_at: datetime | None = reported("CreatedAt")
    updated_at: datetime | None = reported("UpdatedAt")
    # The rules and keys of the entity as XML. They come back unchanged when something else is updated.
    authorization_rules_xml: str | None = dataclasses.field(default=None, repr=False, compare=False)


@dataclass(kw_only=True)
class MessageEntity(Entity):
    """The facts that the service reports about entities that hold messages."""

    accessed_at: datetime | None = reported("AccessedAt")
    active_message_count: int | None = reported("ActiveMessageCount")
    dead_letter_message_count: int | None = reported("DeadLetterMessageCount")
    scheduled_message_count: int | None = reported("ScheduledMessageCount")
    transfer_message_count: int | None = reported("TransferMessageCount")
    transfer_dead_letter_message_count: int | None = reported("TransferDeadLetterMessageCount")


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
