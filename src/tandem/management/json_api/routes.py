"""Which path is answered by whom."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NoReturn

from aiohttp import hdrs, web

from tandem.management.gate import Gate
from tandem.management.json_api.authorization import AuthorizationHandlers
from tandem.management.json_api.consumer_groups import ConsumerGroupHandlers
from tandem.management.json_api.counts import CountHandlers
from tandem.management.json_api.described import PREFIX, Handler, Operation, operations_of, served_by
from tandem.management.json_api.explanations import ExplanationHandlers
from tandem.management.json_api.exports import ExportHandlers
from tandem.management.json_api.faults import FaultHandlers
from tandem.management.json_api.health import HealthHandlers
from tandem.management.json_api.hub_events import HubEventHandlers
from tandem.management.json_api.hub_partitions import HubPartitionHandlers
from tandem.management.json_api.hubs import HubHandlers
from tandem.management.json_api.imports import ImportHandlers
from tandem.management.json_api.jobs import JobHandlers, Jobs
from tandem.management.json_api.messages import MessageHandlers
from tandem.management.json_api.namespace import NamespaceHandlers
from tandem.management.json_api.openapi import OpenApiHandlers
from tandem.management.json_api.progress import ProgressHandlers
from tandem.management.json_api.queues import QueueHandlers
from tandem.management.json_api.rules import RuleHandlers
from tandem.management.json_api.sessions import SessionHandlers
from tandem.management.json_api.subscriptions import SubscriptionHandlers
from tandem.management.json_api.tasks import TaskHandlers
from tandem.management.json_api.topics import TopicHandlers

__all__ = ["add_json_api", "all_operations"]

# The longest paths first: what can be read as a rule of a subscription is one, and no topic with slashes in its name.
_CLASSES: Final[tuple[type, ...]] = (
    RuleHandlers,
    SubscriptionHandlers,
    ExplanationHandlers,
    TopicHandlers,
    QueueHandlers,
    HubEventHandlers,
    HubPartitionHandlers,
    ProgressHandlers,
    ConsumerGroupHandlers,
    HubHandlers,
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

# What in a path stands for the name of an entity, which may hold slashes; and what comes before such a name.
_WITH_SLASHES: Final = ("path", "hub_name", "topic_name")
_ENTITIES: Final = ("/queues/", "/topics/", "/hubs/")


def all_operations() -> list[Operation]:
    """Return everything that the API can do."""
    return operations_of(*_CLASSES)


def add_json_api(app: web.Application, gate: Gate) -> None:
    """Serve the whole JSON API."""
    jobs = Jobs(gate)
    app.on_shutdown.append(jobs.stop)
    events = HubEventHandlers(gate)
    app.on_shutdown.append(events.stop)
    app.on_cleanup.append(events.close)
    made = {
        HubEventHandlers: events,
        TaskHandlers: TaskHandlers(gate, jobs),
        JobHandlers: JobHandlers(gate, jobs),
        OpenApiHandlers: OpenApiHandlers(all_operations),
    }
    by_path: dict[str, dict[str, Handler]] = {}
    for kind in _CLASSES:
        for operation, handler in served_by(made.get(kind) or kind(gate)):
            by_path.setdefault(operation.path, {})[operation.method] = handler
    for path, methods in by_path.items():
        _add_methods(app.router.add_resource(PREFIX + _pattern(path)), methods)
    app.router.add_route(hdrs.METH_ANY, "/$api{path:(/.*)?}", _nothing)


def _add_methods(resource: web.Resource, handlers: Mapping[str, Handler]) -> None:
    """Serve these methods and no others: another one would go on to whatever else takes the path. So
    `PUT /$api/v1/topics/orders/subscriptions` would make a topic of that name."""

    async def refuse(request: web.Request) -> NoReturn:
        raise web.HTTPMethodNotAllowed(request.method, list(handlers))

    for method, handler in handlers.items():
        resource.add_route(method, handler)
    resource.add_route(hdrs.METH_ANY, refuse)


def _pattern(path: str) -> str:
    """Names of entities hold slashes: what follows them is found from the right."""
    return re.sub(r"{(\w+)}", _placeholder, path)


def _placeholder(found: re.Match[str]) -> str:
    has_slashes = found[1] in _WITH_SLASHES or (found[1] == "name" and found.string[: found.start()] in _ENTITIES)
    return f"{{{found[1]}:{'.+' if has_slashes else '[^/]+'}}}"


async def _nothing(_: web.Request) -> NoReturn:
    raise web.HTTPNotFound
