"""`/counts`: how many messages of each state all entities hold, as one commit left them."""

from __future__ import annotations

from itertools import chain, islice
from typing import Literal, cast

from aiohttp import web
from msgspec import Struct

from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import Operation, describes
from tandem.management.json_api.entity_handlers import PAGE
from tandem.management.requests import read_page

__all__ = ["CountHandlers"]

_Kind = Literal["queue", "topic", "subscription"]


class EntityCounts(Struct):
    """The messages of one entity. A topic holds those that are scheduled, and those that it could not transfer."""

    path: str
    kind: _Kind
    active_message_count: int
    deferred_message_count: int
    scheduled_message_count: int
    dead_letter_message_count: int
    transfer_message_count: int
    transfer_dead_letter_message_count: int
    message_count: int
    size_in_bytes: int


class CountList(Struct):
    """Queues, then each topic with its subscriptions, in the order of their names. `message_count` is that of all
    entities listed."""

    message_count: int
    entities: list[EntityCounts]


class CountHandlers:
    """`/counts`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "GET",
            "/counts",
            "list_counts",
            "Count the messages of queues, topics and subscriptions by state, all as one commit left them: a message "
            "that moves between two entities listed is in exactly one of them.",
            "any right on the namespace",
            CountList,
            parameters=PAGE,
            tag="namespace",
        )
    )
    async def list_all(self, request: web.Request) -> web.Response:
        self._gate.admit(request, "", None)
        self._gate.throttle(request, "")
        page = read_page(request)

        def read(namespace: Namespace) -> CountList:
            """One step: nothing is committed in the middle of it."""
            entities = [_counts(one) for one in islice(_entities(namespace), page.start, page.stop)]
            return CountList(sum([one.message_count for one in entities]), entities)

        return json_answer(await self._gate.perform(read))


def _entities(namespace: Namespace) -> chain[Queue]:
    """Return all entities that hold messages, in order."""
    with_subscriptions = [
        [topic, *[topic.subscriptions[name] for name in sorted(topic.subscriptions)]] for topic in namespace.topics
    ]
    return chain(namespace.queues, *with_subscriptions)


def _counts(entity: Queue) -> EntityCounts:
    counts = entity.message_counts
    return EntityCounts(
        path=entity.name,
        kind=cast("_Kind", entity.description.kind),
        active_message_count=counts.active,
        deferred_message_count=counts.deferred,
        scheduled_message_count=counts.scheduled,
        dead_letter_message_count=counts.dead_letter,
        transfer_message_count=counts.transfer,
        transfer_dead_letter_message_count=counts.transfer_dead_letter,
        message_count=counts.total,
        size_in_bytes=entity.size_bytes,
    )
