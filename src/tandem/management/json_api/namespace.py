"""`/namespace`: the namespace itself. Its tier can be changed; its entities keep their settings."""

from __future__ import annotations

from typing import Literal

from aiohttp import web
from msgspec import Struct

from tandem.auth import Right
from tandem.engine.namespace import Namespace
from tandem.engine.tiers import tier_of
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import Operation, describes
from tandem.management.json_api.reading import read_request

__all__ = ["NamespaceHandlers"]

_TierName = Literal["tandem", "standard", "premium"]


class ShownLimits(Struct):
    """The limits of the tier. Sizes of messages count everything that is sent: header, properties and body."""

    default_message_size_in_kilobytes: int
    min_message_size_in_kilobytes: int
    max_message_size_in_kilobytes: int
    max_batch_size_in_kilobytes: int
    max_session_state_in_kilobytes: int
    # The sizes that a queue or a topic may have; an empty list permits any up to the largest.
    sizes_in_megabytes: list[int]
    max_size_in_megabytes: int
    # Backlog queues of paired namespaces are exempt.
    max_delivery_count: int
    max_entities: int
    # 0 where entities cannot be partitioned.
    max_partitioned_entities: int
    max_batch_delete_messages: int
    max_hubs: int
    max_partitions: int
    max_consumer_groups: int
    # Null permits events to be kept for good.
    max_retention_ms: int | None


class ShownNamespace(Struct):
    """The namespace. `messaging_sku` is what the service's own API calls its tier."""

    name: str
    tier: _TierName
    messaging_sku: Literal["Standard", "Premium"]
    limits: ShownLimits


class NamespaceChange(Struct, forbid_unknown_fields=True):
    """The tier to have from now on."""

    tier: _TierName


class NamespaceHandlers:
    """`/namespace`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "GET",
            "/namespace",
            "show_namespace",
            "Show the namespace, its tier, and the limits of that tier.",
            "any right on the namespace",
            ShownNamespace,
            tag="namespace",
        )
    )
    async def show(self, request: web.Request) -> web.Response:
        self._gate.admit(request, "", None)
        self._gate.throttle(request, "")
        return json_answer(await self._gate.perform(_fields))

    @describes(
        Operation(
            "PATCH",
            "/namespace",
            "update_namespace",
            "Change the tier of the namespace. Entities keep their settings; what is created, changed or sent from now "
            "on is judged by the new limits.",
            "Manage on the namespace",
            ShownNamespace,
            body=NamespaceChange,
            tag="namespace",
        )
    )
    async def update(self, request: web.Request) -> web.Response:
        self._gate.admit(request, "", Right.MANAGE)
        self._gate.throttle(request, "")
        change = await read_request(request, NamespaceChange)

        def update(namespace: Namespace) -> dict[str, object]:
            namespace.set_tier(tier_of(change.tier))
            return _fields(namespace)

        return json_answer(await self._gate.perform(update))


def _fields(namespace: Namespace) -> dict[str, object]:
    limits = namespace.limits
    return {
        "name": namespace.name,
        "tier": limits.name,
        "messaging_sku": limits.messaging_sku,
        "limits": limits.to_fields(),
    }
