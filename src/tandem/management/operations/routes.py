"""Which path is answered by whom."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NoReturn

from aiohttp import hdrs, web

from tandem.management.gate import Gate
from tandem.management.handlers import add_methods
from tandem.management.operations.authorization import AuthorizationHandlers
from tandem.management.operations.consumer_groups import ConsumerGroupHandlers
from tandem.management.operations.counts import CountHandlers
from tandem.management.operations.described import PREFIX, Handler, Operation, operations_of, served_by
from tandem.management.operations.entities import ENTITY_OPERATIONS
from tandem.management.operations.exports import ExportHandlers
from tandem.management.operations.faults import FaultHandlers
from tandem.management.operations.health import HealthHandlers
from tandem.management.operations.hub_events import HubEventHandlers
from tandem.management.operations.hub_partitions import HubPartitionHandlers
from tandem.management.operations.imports import ImportHandlers
from tandem.management.operations.jobs import JobHandlers, Jobs
from tandem.management.operations.messages import MessageHandlers
from tandem.management.operations.namespace import NamespaceHandlers
from tandem.management.operations.openapi import OpenApiHandlers
from tandem.management.operations.sessions import SessionHandlers
from tandem.management.operations.tasks import TaskHandlers

__all__ = ["add_hub_operations", "add_operations", "all_operations"]

# The longest paths first: what can be read as the state of a session is that, and no entity with slashes in its name.
_HUB_CLASSES: Final = (HubEventHandlers, HubPartitionHandlers, ConsumerGroupHandlers)
_CLASSES: Final = (
    SessionHandlers,
    MessageHandlers,
    TaskHandlers,
    JobHandlers,
    ExportHandlers,
    ImportHandlers,
    AuthorizationHandlers,
    FaultHandlers,
    HealthHandlers,
    NamespaceHandlers,
    CountHandlers,
    OpenApiHandlers,
)

# What in a path stands for the name of an entity.
_WITH_SLASHES: Final = ("path", "hub_name")


def all_operations() -> list[Operation]:
    """Everything that the API can do."""
    return [*ENTITY_OPERATIONS, *operations_of(*_HUB_CLASSES, *_CLASSES)]


def add_hub_operations(app: web.Application, gate: Gate) -> None:
    """Serve what lies below an event hub. The hubs themselves have to be added behind it."""
    events = HubEventHandlers(gate)
    app.on_shutdown.append(events.stop)
    app.on_cleanup.append(events.close)
    _serve(app, (events, HubPartitionHandlers(gate), ConsumerGroupHandlers(gate)))


def add_operations(app: web.Application, gate: Gate) -> None:
    """Serve the operations. What else lies below the prefix has to be added before."""
    jobs = Jobs(gate)
    app.on_shutdown.append(jobs.stop)
    handlers = (
        SessionHandlers(gate),
        MessageHandlers(gate),
        TaskHandlers(gate, jobs),
        JobHandlers(gate, jobs),
        ExportHandlers(gate),
        ImportHandlers(gate),
        AuthorizationHandlers(gate),
        FaultHandlers(gate),
        HealthHandlers(gate),
        NamespaceHandlers(gate),
        CountHandlers(gate),
        OpenApiHandlers(all_operations),
    )
    _serve(app, handlers)
    app.router.add_route(hdrs.METH_ANY, "/$api{path:(/.*)?}", _nothing)


def _serve(app: web.Application, handlers: Iterable[object]) -> None:
    by_path: dict[str, dict[str, Handler]] = {}
    for one in handlers:
        for operation, handler in served_by(one):
            by_path.setdefault(operation.path, {})[operation.method] = handler
    for path, methods in by_path.items():
        add_methods(app.router.add_resource(PREFIX + _pattern(path)), methods)


def _pattern(path: str) -> str:
    """Names of entities hold slashes: what follows them is found from the right."""
    return re.sub(r"{(\w+)}", lambda found: f"{{{found[1]}:{'.+' if found[1] in _WITH_SLASHES else '[^/]+'}}}", path)


async def _nothing(_: web.Request) -> NoReturn:
    raise web.HTTPNotFound
