"""Short names of entities: a backlog queue is known by its number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tandem.engine.metering import BACKLOG_QUEUES

__all__ = ["is_backlog_queue", "short_names"]

_MERGED: Final = "backlog queues"


def is_backlog_queue(entity: str) -> bool:
    return BACKLOG_QUEUES in entity


def short_names(entities: Iterable[str], *, is_merged: bool = False) -> Mapping[str, str]:
    """Return `backlog 3` for `shop/x-servicebus-transfer/3`, or `shop backlog 3` if there is more than one primary.

    With `is_merged` all of them are `backlog queues`: senders choose among them at random, and what one of them costs
    says nothing.
    """
    every = set(entities)
    primaries = {entity.partition(BACKLOG_QUEUES)[0] for entity in every if is_backlog_queue(entity)}
    names: dict[str, str] = {}
    for entity in every:
        primary, separator, number = entity.partition(BACKLOG_QUEUES)
        named = f"backlog {number}" if len(primaries) == 1 else f"{primary} backlog {number}"
        names[entity] = entity if not separator else _MERGED if is_merged else named
    return names
