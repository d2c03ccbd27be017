"""The JSON API: queues, topics, subscriptions, rules and event hubs are managed over HTTP, on any port of the broker.

    GET    /health                          whether the broker serves, and warnings; needs no token
    GET    /$api/v1/queues?skip=&top=           {"queues": [...]} in the order of their names
    PUT    /$api/v1/queues/{name}               create; 201, or 409 if there is one
    GET    /$api/v1/queues/{name}               the settings and the counts
    PATCH  /$api/v1/queues/{name}               change some settings
    DELETE /$api/v1/queues/{name}               delete, with its messages

The same for each of these, and one question:

    /$api/v1/topics/{name}                       deleted with its subscriptions
    /$api/v1/topics/{topic_name}/subscriptions/{name}
                                             PUT may have "rules": [{"name": ..., "filter": ..., "action": ...}]
    /$api/v1/topics/{topic_name}/subscriptions/{subscription_name}/rules/{name}
    /$api/v1/hubs/{name}                         what lies below it is in `operations`
    POST   /$api/v1/topics/{name}/explain        which subscriptions would get a message with these properties, and why

A request carries `Authorization: SharedAccessSignature ...`. Reading needs a token with any right, and writing one with
Manage. Names of queues, topics and hubs may hold slashes, encoded or as they are: what follows them is found from the
right.
"""

from __future__ import annotations

from typing import Any, Final

from aiohttp import hdrs, web

from tandem.clock import Clock, SystemClock
from tandem.management.answers import errors_as_json
from tandem.management.atom.service import AtomService
from tandem.management.explanations import ExplanationHandlers
from tandem.management.gate import HEALTH_PATH, Gate, ManagedBroker
from tandem.management.handlers import Handlers, add_methods
from tandem.management.health import Health
from tandem.management.hubs import HubHandlers
from tandem.management.operations import add_hub_operations, add_operations
from tandem.management.queues import QueueHandlers
from tandem.management.rest.service import MessageService
from tandem.management.rules import RuleHandlers
from tandem.management.subscriptions import SubscriptionHandlers
from tandem.management.topics import TopicHandlers
from tandem.wire_names import JSON_API

__all__ = ["add_routes"]


# The longest first: what can be read as a rule of a subscription is one, and no topic with slashes in its name.
_SUBSCRIPTIONS: Final = JSON_API + "/topics/{topic_name:.+}/subscriptions"
_RULES: Final = _SUBSCRIPTIONS + "/{subscription_name:[^/]+}/rules"


def add_routes(broker: ManagedBroker, clock: Clock | None = None) -> Gate:
    """Serve the JSON API on the ports of a broker that is not started yet."""
    gate = Gate(broker, clock or SystemClock())
    # The first is the outermost: whatever another one refuses becomes JSON as well.
    broker.http.middlewares.insert(0, errors_as_json)
    broker.http.middlewares.insert(1, gate.choose_namespace)
    router = broker.http.router
    router.add_get(HEALTH_PATH, Health(gate, broker.directory).answer)
    _add_noun(router, _RULES, "[^/]+", RuleHandlers(gate))
    _add_noun(router, _SUBSCRIPTIONS, "[^/]+", SubscriptionHandlers(gate))
    router.add_post(JSON_API + "/topics/{name:.+}/explain", ExplanationHandlers(gate).explain)
    _add_noun(router, f"{JSON_API}/topics", ".+", TopicHandlers(gate))
    _add_noun(router, f"{JSON_API}/queues", ".+", QueueHandlers(gate))
    add_hub_operations(broker.http, gate)
    _add_noun(router, f"{JSON_API}/hubs", ".+", HubHandlers(gate))
    add_operations(broker.http, gate)
    # Last of all: every other path begins with the name of an entity.
    router.add_route(hdrs.METH_ANY, "/{path:.*}", _Entities(gate).answer)
    return gate


class _Entities:
    """What lies below an entity: its messages, and otherwise its description."""

    def __init__(self, gate: Gate) -> None:
        self._messages = MessageService(gate)
        self._atom = AtomService(gate, gate.now_ms())

    async def answer(self, request: web.Request) -> web.StreamResponse:
        return await self._messages.answer(request) or await self._atom.answer(request)


def _add_noun(router: web.UrlDispatcher, path: str, name_pattern: str, handlers: Handlers[Any]) -> None:
    # Before the list: a subscription may be called `subscriptions`.
    add_methods(
        router.add_resource(f"{path}/{{name:{name_pattern}}}"),
        {
            hdrs.METH_PUT: handlers.create,
            hdrs.METH_GET: handlers.show,
            hdrs.METH_PATCH: handlers.update,
            hdrs.METH_DELETE: handlers.delete,
        },
    )
    add_methods(router.add_resource(path), {hdrs.METH_GET: handlers.list_all})
