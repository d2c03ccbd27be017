"""What every handler needs of the broker: the namespace that a request is for, and who is let in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

from aiohttp import hdrs, web

from tandem.addresses import parse_address
from tandem.auth import Resource, Right
from tandem.clock import Clock
from tandem.engine.namespace import Namespace
from tandem.errors import InvalidToken, ProtocolError, ServerBusy
from tandem.management.access import Judges, require_right
from tandem.management.metered import count, expect_operation
from tandem.server.directory import Directory
from tandem.server.faults.http import MUTING_FAULT, Withheld, hang_up, has_met_faults, meet, stay_silent
from tandem.server.health.monitor import Monitor
from tandem.server.hosted_namespace import HostedNamespace
from tandem.server.http_connection import trust, wait_of_request_s
from tandem.server.tracking import Tracker
from tandem.wire_names import JSON_API

__all__ = ["HEALTH_PATH", "Gate", "ManagedBroker"]

Result = TypeVar("Result")

# The namespace of the request that is being handled: each is handled in a task of its own.
_namespace: Final[ContextVar[HostedNamespace]] = ContextVar("namespace")

# Below it faults are set and cleared.
FAULTS_PATH: Final = f"{JSON_API}/faults"

# How the broker is: this is answered whatever is wrong with it.
DIAGNOSIS_PATH: Final = f"{JSON_API}/diagnosis"

# Whether the process serves at all: whoever asks would end it otherwise.
HEALTH_PATH: Final = "/health"

# For how long the answer to a request with an invalid token is held back.
_FAILURE_DELAY_S: Final = web.RequestKey("failure_delay_s", float)

# How clients say which entity a token beside the usual one is for.
_FORWARD_AUTHORIZATION: Final = {
    "forward_to": "ServiceBusSupplementaryAuthorization",
    "forward_dead_lettered_messages_to": "ServiceBusDlqSupplementaryAuthorization",
}


class ManagedBroker(Protocol):
    """What the API needs of a broker."""

    @property
    def http(self) -> web.Application:
        """The application of every port. Routes can be added until the broker starts."""

    @property
    def directory(self) -> Directory:
        """Its namespaces."""

    @property
    def monitor(self) -> Monitor:
        """How it is."""

    @property
    def addresses(self) -> list[str]:
        """Every address that it listens on."""


class Gate:
    """Between requests and namespaces: which it is, whether they may, and how many there were."""

    def __init__(self, broker: ManagedBroker, clock: Clock) -> None:
        self._broker = broker
        self._directory = broker.directory
        self.monitor = broker.monitor
        self._clock = clock
        self.request_count = 0

    @web.middleware
    async def choose_namespace(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Handle a request in the namespace that its host names, with the faults of that namespace."""
        hosted = self._directory.find(request.host)
        _namespace.set(hosted)
        if request.transport is not None:
            # Also without a wait: requests that follow each other without pause take turns with everybody else.
            await asyncio.sleep(wait_of_request_s(request.transport))
        try:
            return await self._serve(request, handler, hosted)
        finally:
            if request.get(_FAILURE_DELAY_S):
                await asyncio.sleep(request[_FAILURE_DELAY_S])

    async def _serve(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
        hosted: HostedNamespace,
    ) -> web.StreamResponse:
        if request.path == DIAGNOSIS_PATH:
            return await handler(request)
        if hosted.services.is_restarting and request.path != HEALTH_PATH:
            raise ServerBusy(
                f"The namespace '{hosted.name}' is being restarted. Please wait 10 seconds and try again. "
                "`tandem diagnose` says why."
            )
        # The way to clear a fault stays open.
        if request.path.startswith(FAULTS_PATH):
            return await handler(request)
        services = hosted.services
        if services.faults is not None and services.faults.refuses_connection():
            return hang_up(request)
        transport = request.transport
        # A client that has gone already has none.
        if transport is None:
            return hang_up(request)
        services.http_transports.add(transport)
        try:
            return await self._handle(request, handler, hosted)
        finally:
            services.http_transports.discard(transport)

    async def _handle(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
        hosted: HostedNamespace,
    ) -> web.StreamResponse:
        try:
            answer = await handler(request)
            if hosted.services.faults is not None and not (answer.prepared or has_met_faults(request)):
                hosted.services.faults.check_everything(request.path)
        except Withheld as withheld:
            is_resumed = await withheld.wait(request)
            return await self._handle(request, handler, hosted) if is_resumed else hang_up(request)
        except Exception as error:
            count(request, hosted, error, self._clock.now_ms())
            muting = request.get(MUTING_FAULT)
            if muting is None:
                raise
            return await stay_silent(request, muting)
        count(request, hosted, answer, self._clock.now_ms())
        muting = request.get(MUTING_FAULT)
        return answer if muting is None else await stay_silent(request, muting)

    @property
    def hosted(self) -> HostedNamespace:
        """The namespace that the request is for."""
        return _namespace.get()

    @property
    def addresses(self) -> list[str]:
        """Every address that the broker listens on."""
        return self._broker.addresses

    @property
    def tracker(self) -> Tracker:
        return _namespace.get().tracker

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def admit(self, request: web.Request, entity: str, right: Right | None, owner: str | None = None) -> None:
        """Refuse a request whose token does not have the right to an entity; with None any right will do.

        `owner` is the queue, topic or event hub that the path belongs to, where the URL says so. Otherwise the
        namespace knows it.
        """
        self.request_count += 1
        self._require_right(request, entity, _resource(entity, owner), right)
        expect_operation(request, entity, self._clock.now_ms())
        faults = _namespace.get().services.faults
        if faults is not None:
            meet(request, faults, Right.MANAGE if right is None else right, entity)

    def admit_to_repairs(self, request: web.Request) -> None:
        """Require Manage on the namespace, to set faults or to look into the broker.

        Neither a fault nor an overload refuses such a request, or none could be cleared or found.
        """
        self.request_count += 1
        self._require_right(request, "", _resource(""), Right.MANAGE)

    def is_trusted(self, request: web.Request) -> bool:
        """Whether a request that needs no token has one for the whole namespace, with any right."""
        token = request.headers.get(hdrs.AUTHORIZATION)
        if not token:
            return False
        try:
            self._require_right(request, "", _resource(""), None, token)
        except ProtocolError:
            return False
        return True

    def admit_forwarding(self, request: web.Request, fields: Mapping[str, object]) -> None:
        """Who forwards sends. A token for the target is judged if one is there; without one, the usual has to cover
        the target too."""
        for field, header in _FORWARD_AUTHORIZATION.items():
            target = fields.get(field)
            if isinstance(target, str) and target:
                self.admit_other(request, target, Right.SEND, request.headers.get(header, ""))

    def admit_other(self, request: web.Request, entity: str, right: Right, token: str = "") -> None:
        """The same for another entity than that of the URL, which a token for the URL says nothing about."""
        self._require_right(request, entity, _resource(entity), right, token)

    def _require_right(
        self,
        request: web.Request,
        entity: str,
        resource: Resource,
        right: Right | None,
        supplementary_token: str | None = None,
    ) -> None:
        try:
            require_right(request, entity, resource, right, self._judges(), supplementary_token)
        except InvalidToken:
            if supplementary_token or hdrs.AUTHORIZATION in request.headers:
                remote = request.remote or ""
                request[_FAILURE_DELAY_S] = self._directory.failed_authentications.note(remote)
            raise
        trust(request.transport)

    def _judges(self) -> Judges:
        namespace = _namespace.get()
        return Judges(namespace.key_ring, namespace.jwt, self._clock.now_ms() // 1_000)

    def throttle(self, request: web.Request, entity: str) -> None:
        """Pay for one operation on an entity, or raise ServerBusy. Deleting makes room, and goes on under overload."""
        admission = _namespace.get().services.admission
        if admission is None:
            return
        if request.method == hdrs.METH_DELETE:
            admission.check_settlement(self._clock.now_ms())
        else:
            admission.check_management(entity, self._clock.now_ms())

    def throttle_reading(self) -> None:
        """Pay for one operation that belongs to receiving, or raise ServerBusy. It goes on under overload."""
        admission = _namespace.get().services.admission
        if admission is not None:
            admission.check_settlement(self._clock.now_ms())

    def throttle_message(self, entity: str, size_bytes: int, *, is_partitioned: bool) -> None:
        """Pay for one message to an entity, or raise ServerBusy."""
        services = _namespace.get().services
        if services.admission is not None:
            services.admission.check_send(entity, self._clock.now_ms(), is_partitioned)
        services.loads.add(entity, 1, size_bytes)

    async def perform(self, function: Callable[[Namespace], Result]) -> Result:
        return await _namespace.get().perform(function)


def _resource(entity: str, owner: str | None = None) -> Resource:
    """Return what a path stands for in the namespace of the request."""
    found = _namespace.get().namespace.resource_of(parse_address(quote(entity)))
    wanted = found.owner if owner is None else parse_address(quote(owner)).entity
    # The URL may mean something else than what is found under the path: a queue, and not the subscription.
    return found if found.owner == wanted else Resource(found.path, wanted)
