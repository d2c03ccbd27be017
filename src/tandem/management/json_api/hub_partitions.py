"""How far the partitions of an event hub have come, all of them in one answer."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, cast

from aiohttp import web
from msgspec import Meta, structs

from tandem.engine.hubs.event import offset_of
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.partition import Partition
from tandem.engine.namespace import Namespace
from tandem.engine.queries import EventTimeQuery
from tandem.errors import ProtocolError
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.hubs import incarnation_of
from tandem.management.json_api.described import Operation, Parameter, describes
from tandem.management.json_api.hub_shapes import HubPositions, PartitionPosition, ShownPartition
from tandem.management.json_api.reading import ask
from tandem.management.requests import query_number

__all__ = ["HubPartitionHandlers"]

_ALL: Final = "/hubs/{hub_name}/partitions"
_MAX_TIME_MS: Final = (1 << 61) - 1
_AT_TIME: Final = Parameter(
    "at_ms",
    Annotated[int, Meta(ge=0, le=_MAX_TIME_MS)],
    "Milliseconds since 1970 in UTC: also say which event of each partition is the first of this time or later.",
)


class HubPartitionHandlers:
    """`/hubs/{hub_name}/partitions`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "GET",
            f"{_ALL}/{{partition_id}}",
            "show_partition",
            "How far a partition has come.",
            "any on the hub",
            ShownPartition,
            parameters=(_AT_TIME,),
            tag="hubs",
        )
    )
    async def show(self, request: web.Request) -> web.Response:
        found = await self._positions(request, request.match_info["partition_id"])
        return json_answer(
            ShownPartition(hub=found.hub, incarnation=found.incarnation, **structs.asdict(found.partitions[0]))
        )

    @describes(
        Operation(
            "GET",
            _ALL,
            "list_partitions",
            "How far the partitions of an event hub have come.",
            "any on the hub",
            HubPositions,
            parameters=(_AT_TIME,),
            tag="hubs",
        )
    )
    async def list_all(self, request: web.Request) -> web.Response:
        return json_answer(await self._positions(request, None))

    async def _positions(self, request: web.Request, partition_id: str | None) -> HubPositions:
        hub_name = request.match_info["hub_name"]
        self._gate.admit(request, hub_name, None, hub_name)
        self._gate.throttle_reading()
        at_ms = query_number(request, "at_ms", 0, 0, _MAX_TIME_MS) if "at_ms" in request.query else None

        def look(namespace: Namespace, asker: object) -> None:
            hub = namespace.hubs.get(hub_name)
            partitions = hub.partitions if partition_id is None else [hub.partition(partition_id)]
            positions = [_position(one) for one in partitions]
            answer = HubPositions(hub=hub.name, incarnation=incarnation_of(hub), partitions=positions)
            if at_ms is None:
                namespace.effects.reply(asker, answer)
            else:
                _find_time(hub, answer, at_ms, asker)

        return cast("HubPositions", await ask(self._gate, look))


def _position(partition: Partition) -> PartitionPosition:
    return PartitionPosition(
        partition=str(partition.partition_id),
        begin_sequence_number=partition.begin_sequence_number,
        next_sequence_number=partition.next_sequence_number,
        last_sequence_number=partition.last_sequence_number,
        last_enqueued_offset=offset_of(partition.last_sequence_number),
        last_enqueued_at_ms=partition.last_enqueued_at_ms,
        is_empty=partition.is_empty,
        size_in_bytes=partition.size_bytes,
        receiver_count=partition.receiver_count(),
    )


def _find_time(hub: EventHub, answer: HubPositions, at_ms: int, asker: object) -> None:
    """Ask the store about every partition, and answer when it has said the last of them."""
    effects = hub.namespace.effects
    waiting = len(answer.partitions)

    def note(position: PartitionPosition, sequence_number: int) -> None:
        nonlocal waiting
        position.sequence_number_at_time = sequence_number
        waiting -= 1
        if not waiting:
            # By now the effects are others.
            hub.namespace.effects.reply(asker, answer)

    def refuse(error: ProtocolError) -> None:
        hub.namespace.effects.reply(asker, error)

    for position in answer.partitions:
        query = EventTimeQuery(hub.number, int(position.partition), at_ms, partial(note, position), refuse)
        effects.queries.append(query)
