"""The parts of descriptions that are not settings: what the service reports about an entity."""

# ruff: noqa: RUF009 - the calls in the defaults are dataclasses.field with a name, made anew for each class
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

__all__ = ["NEVER", "Entity", "MessageEntity", "reported"]

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
