"""The JSON API: queues are created, listed, shown, updated and deleted over HTTP, on any port of the broker.

    GET    /health                   is anybody there; needs no token
    GET    /api/queues?skip=&top=    {"queues": [...]} in the order of their names
    PUT    /api/queues/{name}        create; 201, or 409 if there is one
    GET    /api/queues/{name}        the settings and the counts
    PATCH  /api/queues/{name}        change some settings
    DELETE /api/queues/{name}        delete, with its messages

A request carries `Authorization: SharedAccessSignature ...`. Reading needs a token with any right, and writing one with
Manage. A name may hold slashes, encoded or as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import msgspec
from aiohttp import web

from tandem.auth import KeyRing, Right
from tandem.clock import Clock, SystemClock
from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.errors import ArgumentError, ArgumentOutOfRange
from tandem.management.access import require_right
from tandem.management.answers import errors_as_json, json_answer

__all__ = ["DEFAULT_PAGE_QUEUES", "MAX_BODY_BYTES", "MAX_PAGE_QUEUES", "ManagedBroker", "QueueApi", "add_routes"]

# Bytes. A description with every property at its longest has less than 4 KB.
MAX_BODY_BYTES: Final = 65_536

# Queues. One answer of the list. Service: 100, and at most 100.
DEFAULT_PAGE_QUEUES: Final = 100
MAX_PAGE_QUEUES: Final = 1_000

# Digits. Python needs time that grows with the square of the digits to read a number.
_MAX_DIGITS: Final = 9

Result = TypeVar("Result")


class ManagedBroker(Protocol):
    """What the API needs of a broker."""

    @property
    def http(self) -> web.Application:
        """The application of every port. Routes can be added until the broker starts."""

    @property
    def key_ring(self) -> KeyRing:
        """The rules that tokens are judged by."""

    async def perform(self, function: Callable[[Namespace], Result]) -> Result:
        """Run one step of the engine, and return when what it did is on disk."""


def add_routes(broker: ManagedBroker, clock: Clock | None = None) -> QueueApi:
    """Serve the JSON API on the ports of a broker that is not started yet."""
    api = QueueApi(broker, clock or SystemClock())
    # The first is the outermost: whatever another one refuses becomes JSON as well.
    broker.http.middlewares.insert(0, errors_as_json)
    router = broker.http.router
    router.add_get("/health", api.health)
    router.add_get("/api/queues", api.list_queues)
    router.add_put("/api/queues/{name:.+}", api.create_queue)
    router.add_get("/api/queues/{name:.+}", api.show_queue)
    router.add_patch("/api/queues/{name:.+}", api.update_queue)
    router.add_delete("/api/queues/{name:.+}", api.delete_queue)
    return api


class QueueApi:
    """The handlers, and how many requests they were asked to answer."""

    def __init__(self, broker: ManagedBroker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self.request_count = 0

    async def health(self, request: web.Request) -> web.Response:
        """In the words of the official emulator, which scripts wait for."""
        return json_answer({"status": "healthy", "message": "Service is healthy."})

    async def list_queues(self, request: web.Request) -> web.Response:
        self._admit(request, "", None)
        skip = _whole_number(request, "skip", 0, 10**_MAX_DIGITS - 1)
        top = _whole_number(request, "top", DEFAULT_PAGE_QUEUES, MAX_PAGE_QUEUES)

        def page(namespace: Namespace) -> list[dict[str, object]]:
            return [queue_fields(queue) for queue in namespace.queues[skip : skip + top]]

        return json_answer({"queues": await self._broker.perform(page)})

    async def create_queue(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self._admit(request, name, Right.MANAGE)
        fields = await _read_fields(request, name)
        description = QueueDescription.from_fields({**fields, "name": name})
        created = await self._broker.perform(lambda namespace: queue_fields(namespace.create_queue(description)))
        return json_answer(created, status=201)

    async def show_queue(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self._admit(request, name, None)
        return json_answer(await self._broker.perform(lambda namespace: queue_fields(namespace.get(name))))

    async def update_queue(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self._admit(request, name, Right.MANAGE)
        fields = await _read_fields(request, name)

        def update(namespace: Namespace) -> dict[str, object]:
            queue = namespace.get(name)
            description = QueueDescription.from_fields({**queue.description.to_fields(), **fields})
            namespace.update_queue(queue, description)
            return queue_fields(queue)

        return json_answer(await self._broker.perform(update))

    async def delete_queue(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self._admit(request, name, Right.MANAGE)

        def delete(namespace: Namespace) -> dict[str, object]:
            queue = namespace.get(name)
            namespace.delete(queue)
            return {"name": queue.name}

        return json_answer(await self._broker.perform(delete))

    def _admit(self, request: web.Request, entity: str, right: Right | None) -> None:
        self.request_count += 1
        require_right(request, entity, right, self._broker.key_ring, self._clock.now_ms() // 1_000)


def queue_fields(queue: Queue) -> dict[str, object]:
    """The settings of a queue, its counts, and its times."""
    main = queue.main
    dead_letter_count = queue.dead_letter_queue.active_count + queue.dead_letter_queue.deferred_count
    transfer_dead_letter_count = (
        queue.transfer_dead_letter_queue.active_count + queue.transfer_dead_letter_queue.deferred_count
    )
    counts = {
        "active_message_count": main.active_count,
        "dead_letter_message_count": dead_letter_count,
        "scheduled_message_count": main.scheduled_count,
        "deferred_message_count": main.deferred_count,
        # Messages on their way to where they are forwarded: here they are never under way, but there at once.
        "transfer_message_count": 0,
        "transfer_dead_letter_message_count": transfer_dead_letter_count,
    }
    return {
        **queue.description.to_fields(),
        **counts,
        "message_count": sum(counts.values()),
        "size_in_bytes": queue.size_bytes,
        "created_at_ms": queue.created_at_ms,
        "updated_at_ms": queue.updated_at_ms,
        "accessed_at_ms": queue.accessed_at_ms,
    }


# --- what a request says --------------------------------------------------------------------------------------------


async def _read_fields(request: web.Request, name: str) -> dict[str, object]:
    """The body, an object of the properties to set; no body is an empty one."""
    body = await _read_body(request)
    if not body.strip():
        return {}
    try:
        fields = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ArgumentError(f"the body must be a JSON object of properties: {error}") from error
    # It stands in the URL. A client that sends back what it got may repeat it.
    repeated = fields.pop("name", name)
    if not isinstance(repeated, str) or repeated.lower() != name.lower():
        raise ArgumentError(f"name is {repeated!r:.80} in the body and {name!r} in the URL: leave it out of the body")
    return fields


async def _read_body(request: web.Request) -> bytes:
    """Bounded while it comes in: a length that was told in advance may be missing or wrong."""
    body = bytearray()
    if (request.content_length or 0) <= MAX_BODY_BYTES:
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                break
        else:
            return bytes(body)
    raise web.HTTPRequestEntityTooLarge(
        MAX_BODY_BYTES,
        request.content_length or len(body),
        text=f"the body has more than {MAX_BODY_BYTES:,} bytes",
    )


def _whole_number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS) or int(text) > most:
        raise ArgumentOutOfRange(f"{name} is {text!r:.40}; it must be a whole number from 0 to {most:,}")
    return int(text)
