"""Counts what clients do over HTTP, for the stream of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import hdrs, web

from tandem.engine.metering import OK
from tandem.errors import ProtocolError
from tandem.limits import MAX_CLIENT_NAME_CHARACTERS
from tandem.server.hosted_namespace import HostedNamespace
from tandem.server.nodes.link_meter import outcome_of
from tandem.wire_names import SYPHON_USER_AGENT

__all__ = ["Metered", "count", "count_as", "count_refusal", "expect_operation"]

# Below this, an answer tells a success.
_FIRST_ERROR: Final = 400


class Metered:
    """What a request is counted as: an operation on an entity for each of these sizes."""

    def __init__(self, entity: str, came_at_ms: int) -> None:
        self.entity = entity
        self.came_at_ms = came_at_ms
        self.operation = "manage"
        self.sizes: Sequence[int] = (0,)
        self.outcome = OK


_METERED: Final = web.RequestKey("metered", Metered)


def expect_operation(request: web.Request, entity: str, came_at_ms: int) -> None:
    """Count the request from now on, as management unless its handler says otherwise. One that a fault delayed is
    admitted twice, and came when it was admitted first."""
    earlier = request.get(_METERED)
    request[_METERED] = Metered(entity, came_at_ms if earlier is None else earlier.came_at_ms)


def count_as(request: web.Request, operation: str, sizes: Sequence[int] = (0,)) -> None:
    metered = request[_METERED]
    metered.operation = operation
    metered.sizes = sizes


def count_refusal(request: web.Request, error: ProtocolError) -> None:
    """The error of a request that is answered with one, and not by raising it."""
    metered = request.get(_METERED)
    if metered is not None:
        metered.outcome = outcome_of(error)


def count(request: web.Request, hosted: HostedNamespace, result: web.StreamResponse | Exception, now_ms: int) -> None:
    """The request is answered."""
    metered = request.get(_METERED)
    if metered is None:
        return
    if isinstance(result, ProtocolError):
        metered.outcome = outcome_of(result)
    elif isinstance(result, Exception) or (result.status >= _FIRST_ERROR and metered.outcome == OK):
        metered.outcome = "internal-error" if isinstance(result, Exception) else f"http-{result.status}"
    namespace = hosted.namespace
    entity = namespace.find_any(metered.entity) or namespace.hubs.find(metered.entity)
    agent = request.headers.get(hdrs.USER_AGENT, "")
    tally = namespace.meter.tally(
        metered.entity if entity is None else entity.name,
        "" if entity is None else entity.description.kind,
        metered.operation,
        f"http {agent}"[:MAX_CLIENT_NAME_CHARACTERS].rstrip(),
        SYPHON_USER_AGENT in agent,
        metered.outcome,
    )
    for size_bytes in metered.sizes:
        tally.add(size_bytes)
    tally.add_latency(now_ms - metered.came_at_ms, len(metered.sizes))
