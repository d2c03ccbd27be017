"""Ownerships and checkpoints of a consumer group: through these, processors share the partitions of an event hub."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from tandem.auth import Right
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.progress import NEVER_CLAIMED, GroupProgress
from tandem.engine.namespace import Namespace
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import Method, Operation, describes
from tandem.management.json_api.hub_shapes import (
    Checkpoint,
    CheckpointList,
    CheckpointRequest,
    ClaimRequest,
    PartitionClaim,
    PartitionOwnership,
    PartitionOwnershipList,
)
from tandem.management.json_api.reading import read_request

__all__ = ["ProgressHandlers"]

_GROUP: Final = "/hubs/{hub_name}/consumer-groups/{group}"
_OWNERSHIPS: Final = f"{_GROUP}/ownerships"
_CHECKPOINTS: Final = f"{_GROUP}/checkpoints"


def _describes(
    method: str, path: str, name: str, summary: str, answer: Any, body: Any = None
) -> Callable[[Method], Method]:
    return describes(Operation(method, path, name, summary, "Listen on the hub", answer, body=body, tag="hubs"))


class ProgressHandlers:
    """`/hubs/{hub_name}/consumer-groups/{group}`, and `/ownerships` and `/checkpoints` below it"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @_describes(
        "GET",
        _OWNERSHIPS,
        "list_ownerships",
        "List the partitions that processors of a consumer group have claimed, also those whose owner is gone.",
        PartitionOwnershipList,
    )
    async def list_ownerships(self, request: web.Request) -> web.Response:
        hub_name, group_name = self._admit(request)

        def read(namespace: Namespace) -> PartitionOwnershipList:
            hub, group = _find(namespace, hub_name, group_name)
            claimed = [one for one in hub.progress.of_group(group) if one.etag != NEVER_CLAIMED]
            return PartitionOwnershipList([_ownership(one) for one in claimed])

        return json_answer(await self._gate.perform(read))

    @_describes(
        "POST",
        _OWNERSHIPS,
        "claim_ownerships",
        "Claim partitions. The answer has those that were granted, each with a new etag; a claim with another etag "
        "than the present one is not granted.",
        PartitionOwnershipList,
        ClaimRequest,
    )
    async def claim(self, request: web.Request) -> web.Response:
        hub_name, group_name = self._admit(request)
        claims = (await read_request(request, ClaimRequest)).claims

        def claim(namespace: Namespace) -> PartitionOwnershipList:
            hub, group = _find(namespace, hub_name, group_name)
            # All partitions are looked up first: a claim of one that does not exist grants none of the others.
            wanted = [(hub.partition(one.partition).partition_id, one) for one in claims]
            granted = [
                hub.progress.claim(group, partition_id, one.owner_id, _etag(one)) for partition_id, one in wanted
            ]
            return PartitionOwnershipList([_ownership(one) for one in granted if one is not None])

        return json_answer(await self._gate.perform(claim))

    @_describes(
        "GET",
        _CHECKPOINTS,
        "list_checkpoints",
        "List the checkpoints of a consumer group, and how many events came after each of them.",
        CheckpointList,
    )
    async def list_checkpoints(self, request: web.Request) -> web.Response:
        hub_name, group_name = self._admit(request)

        def read(namespace: Namespace) -> CheckpointList:
            hub, group = _find(namespace, hub_name, group_name)
            kept = [one for one in hub.progress.of_group(group) if one.checkpointed_at_ms]
            return CheckpointList([_checkpoint(hub, one) for one in kept])

        return json_answer(await self._gate.perform(read))

    @_describes(
        "PUT",
        f"{_CHECKPOINTS}/{{partition_id}}",
        "update_checkpoint",
        "Remember up to and with which event a partition was processed.",
        Checkpoint,
        CheckpointRequest,
    )
    async def update_checkpoint(self, request: web.Request) -> web.Response:
        hub_name, group_name = self._admit(request)
        partition_id = request.match_info["partition_id"]
        wanted = await read_request(request, CheckpointRequest)

        def update(namespace: Namespace) -> Checkpoint:
            hub, group = _find(namespace, hub_name, group_name)
            number = hub.partition(partition_id).partition_id
            return _checkpoint(hub, hub.progress.checkpoint(group, number, wanted.sequence_number, wanted.offset))

        return json_answer(await self._gate.perform(update))

    def _admit(self, request: web.Request) -> tuple[str, str]:
        hub_name = request.match_info["hub_name"]
        self._gate.admit(request, hub_name, Right.LISTEN, hub_name)
        self._gate.throttle_reading()
        return hub_name, request.match_info["group"]


def _find(namespace: Namespace, hub_name: str, group_name: str) -> tuple[EventHub, str]:
    hub = namespace.hubs.get(hub_name)
    return hub, hub.consumer_group(group_name)


def _etag(claim: PartitionClaim) -> int:
    """Return the etag of a claim. What never was an etag of this broker matches none."""
    if claim.etag is None:
        return NEVER_CLAIMED
    return int(claim.etag) if claim.etag.isascii() and claim.etag.isdigit() and len(claim.etag) <= 18 else -1


def _ownership(progress: GroupProgress) -> PartitionOwnership:
    return PartitionOwnership(
        partition=str(progress.partition_id),
        owner_id=progress.owner_id,
        etag=str(progress.etag),
        claimed_at_ms=progress.claimed_at_ms,
    )


def _checkpoint(hub: EventHub, progress: GroupProgress) -> Checkpoint:
    partition = hub.partitions[progress.partition_id]
    # Events that retention has taken since then are not ahead of the reader any more.
    next_to_read = max(progress.sequence_number + 1, partition.begin_sequence_number)
    return Checkpoint(
        partition=str(progress.partition_id),
        sequence_number=progress.sequence_number,
        offset=progress.offset,
        updated_at_ms=progress.checkpointed_at_ms,
        events_behind=max(0, partition.next_sequence_number - next_to_read),
    )
