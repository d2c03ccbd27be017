"""All that a broker answers over HTTP, on any of its ports.

GET    /health        whether the broker serves, and warnings; needs no token
/$api/v1/...          the JSON API: `json_api`
/{entity}/messages    the service's REST data plane: `rest`
everything else       the service's own management API: `atom`
"""

from __future__ import annotations

from aiohttp import hdrs, web

from tandem.clock import Clock, SystemClock
from tandem.management.answers import errors_as_json
from tandem.management.atom.service import AtomService
from tandem.management.gate import HEALTH_PATH, Gate, ManagedBroker
from tandem.management.health import Health
from tandem.management.json_api import add_json_api
from tandem.management.rest.service import MessageService

__all__ = ["add_routes"]


def add_routes(broker: ManagedBroker, clock: Clock | None = None) -> Gate:
    """Serve the management APIs on the ports of a broker that is not started yet."""
    gate = Gate(broker, clock or SystemClock())
    # The first is the outermost: whatever another one refuses becomes JSON as well.
    broker.http.middlewares.insert(0, errors_as_json)
    broker.http.middlewares.insert(1, gate.choose_namespace)
    router = broker.http.router
    router.add_get(HEALTH_PATH, Health(gate, broker.directory).answer)
    add_json_api(broker.http, gate)
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
