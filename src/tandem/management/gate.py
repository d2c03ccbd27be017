"""What every handler needs of the broker: the namespace that a request is for, and who is let in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar

from aiohttp import hdrs, web

from tandem.auth import Right
from tandem.clock import Clock
from tandem.engine.namespace import Namespace
from tandem.errors import ProtocolError
from tandem.management.access import Judges, require_right
from tandem.management.metered import count, expect_operation
from tandem.server.directory import Directory
from tandem.server.faults.http import MUTING_FAULT, Withheld, hang_up, meet, stay_silent
from tandem.server.hosted_namespace import HostedNamespace
from tandem.server.throttle import MANAGEMENT_CREDITS, MESSAGE_CREDITS
from tandem.server.tracking import Tracker

__all__ = ["Gate", "ManagedBroker"]

Result = TypeVar("Result")

# The namespace of the request that is being handled: each is handled in a task of its own.
_namespace: Final[ContextVar[HostedNamespace]] = ContextVar("namespace")

# Below it faults are set and cleared.
FAULTS_PATH: Final = "/$api/v1/faults"

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


class Gate:
    """Between requests and namespaces: which it is, whether they may, and how many there were."""

    def __init__(self, broker: ManagedBroker, clock: Clock) -> None:
        self._directory = broker.directory
        self._clock = clock
        self.request_count = 0

    @web.middleware
    async def choose_namespace(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """By the host that the request is for."""
        hosted = self._directory.find(request.host)
        _namespace.set(hosted)
        faults = hosted.services.faults
        # The way to clear a fault stays open.
        if faults is not None and not request.path.startswith(FAULTS_PATH):
            if faults.refuses_connection():
                return await hang_up(request)
            faults.check_everything(request.path)
        try:
            answer = await handler(request)
        except Withheld as withheld:
            return await withheld.go_on(request, handler)
        except Exception as error:
            count(request, hosted, error, self._clock.now_ms())
            raise
        count(request, hosted, answer, self._clock.now_ms())
        muting = request.get(MUTING_FAULT)
        return answer if muting is None else await stay_silent(request, muting)

    @property
    def hosted(self) -> HostedNamespace:
        """The namespace that the request is for."""
        return _namespace.get()

    @property
    def tracker(self) -> Tracker:
        return _namespace.get().tracker

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def admit(self, request: web.Request, entity: str, right: Right | None) -> None:
        """Refuse a request whose token does not have the right to an entity; with None any right will do."""
        self.request_count += 1
        require_right(request, entity, right, self._judges())
        expect_operation(request, entity, self._clock.now_ms())
        faults = _namespace.get().services.faults
        if faults is not None:
            meet(request, faults, Right.MANAGE if right is None else right, entity)

    def admit_to_faults(self, request: web.Request) -> None:
        """Who may manage the namespace may let it fail. No fault meets such a request, or none could be cleared."""
        self.request_count += 1
        require_right(request, "", Right.MANAGE, self._judges())

    def is_trusted(self, request: web.Request) -> bool:
        """Whether a request that needs no token has one for the whole namespace, with any right."""
        token = request.headers.get(hdrs.AUTHORIZATION)
        if not token:
            return False
        try:
            require_right(request, "", None, self._judges(), token)
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
        require_right(request, entity, right, self._judges(), token)

    def _judges(self) -> Judges:
        namespace = _namespace.get()
        return Judges(namespace.key_ring, namespace.jwt, self._clock.now_ms() // 1_000)

    def throttle(self) -> None:
        """Pay for one operation, or raise ServerBusy."""
        _namespace.get().throttle.take(MANAGEMENT_CREDITS, self._clock.now_ms())

    def throttle_message(self, *, is_partitioned: bool) -> None:
        """Pay for one message, or raise ServerBusy."""
        _namespace.get().throttle.take(MESSAGE_CREDITS, self._clock.now_ms(), is_partitioned=is_partitioned)

    async def perform(self, function: Callable[[Namespace], Result]) -> Result:
        return await _namespace.get().perform(function)
