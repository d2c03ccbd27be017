"""Faults: let the broker fail on purpose, see what fails, and mend it.

No fault meets these requests themselves, or none could be cleared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeVar

from aiohttp import web
from msgspec import Meta, Struct

from tandem.auth import Right
from tandem.engine.message import NEVER_MS
from tandem.errors import ArgumentError, NotFound
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import Operation, describes
from tandem.management.json_api.reading import read_request
from tandem.server.faults import ERRORS, Fault, FaultDesk, FaultKind, FaultSettings

__all__ = ["FaultHandlers", "FaultRequest"]

Value = TypeVar("Value")

_OperationName = Literal["sends", "receives", "management"]
_RIGHT: Final = "Manage on the namespace"
_OPERATIONS: Final[dict[_OperationName, Right]] = {
    "sends": Right.SEND,
    "receives": Right.LISTEN,
    "management": Right.MANAGE,
}
_MAX_DIGITS: Final = 18


class FaultRequest(Struct, forbid_unknown_fields=True):
    """What is to fail: the whole namespace unless `entity` names one, until it is cleared unless `duration_ms` says how
    long. `error` is left to the kind unless it is named."""

    kind: str
    entity: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    error: str | None = None
    duration_ms: int | None = None
    delay_ms: int | None = None
    probability: float = 1.0
    seed: Annotated[int, Meta(ge=0, lt=1 << 32)] = 0
    rate_per_second: int | None = None
    operations: list[_OperationName] | None = None
    include_authentication: bool = False
    perform: bool = False


class ShownFault(Struct):
    """A fault, and how often it was met. Times are milliseconds since 1970 in UTC. `ends_at_ms` is null if the fault
    lasts until it is cleared, and equal to `started_at_ms` if it happened once and is over."""

    id: int
    kind: str
    entity: str | None
    error: str | None
    operations: list[_OperationName]
    started_at_ms: int
    ends_at_ms: int | None
    delay_ms: int | None
    probability: float
    seed: int
    rate_per_second: int | None
    include_authentication: bool
    perform: bool
    hit_count: int


class FaultList(Struct):
    """In the order in which they were set."""

    faults: list[ShownFault]


class FaultHandlers:
    """`/faults`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation("GET", "/faults/{id}", "show_fault", "Show a fault.", _RIGHT, ShownFault, tag="faults"),
    )
    async def show(self, request: web.Request) -> web.Response:
        return json_answer(_shown(self._find(request)))

    @describes(
        Operation("DELETE", "/faults/{id}", "clear_fault", "Clear a fault.", _RIGHT, ShownFault, tag="faults"),
    )
    async def clear(self, request: web.Request) -> web.Response:
        fault = self._find(request)
        self._desk.clear(fault)
        return json_answer(_shown(fault))

    @describes(Operation("GET", "/faults", "list_faults", "List the faults.", _RIGHT, FaultList, tag="faults"))
    async def list_all(self, request: web.Request) -> web.Response:
        self._gate.admit_to_repairs(request)
        return json_answer(FaultList([_shown(fault) for fault in self._desk]))

    @describes(
        Operation(
            "POST",
            "/faults",
            "inject_fault",
            "Let an entity or the namespace fail. Refused unless the broker was started with --allow-faults.",
            _RIGHT,
            ShownFault,
            status=201,
            body=FaultRequest,
            tag="faults",
        )
    )
    async def inject(self, request: web.Request) -> web.Response:
        self._gate.admit_to_repairs(request)
        order = await read_request(request, FaultRequest)
        fault = self._desk.inject(_settings(order))
        # What it does to clients at once has happened when this is answered.
        await self._gate.perform(lambda _: None)
        return json_answer(_shown(fault), status=201)

    @describes(Operation("DELETE", "/faults", "clear_faults", "Clear all faults.", _RIGHT, FaultList, tag="faults"))
    async def clear_all(self, request: web.Request) -> web.Response:
        self._gate.admit_to_repairs(request)
        return json_answer(FaultList([_shown(fault) for fault in self._desk.clear_all()]))

    @property
    def _desk(self) -> FaultDesk:
        return self._gate.hosted.services.fault_desk

    def _find(self, request: web.Request) -> Fault:
        self._gate.admit_to_repairs(request)
        text = request.match_info["id"]
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
            raise NotFound(f"There is no fault {text!r:.40}: the id of a fault is a number.")
        return self._desk.find(int(text))


def _settings(order: FaultRequest) -> FaultSettings:
    kinds = {kind.value: kind for kind in FaultKind}
    rights = None
    if order.operations is not None:
        rights = Right(0)
        for name in order.operations:
            rights |= _OPERATIONS[name]
    return FaultSettings(
        kind=_choice("kind", order.kind, kinds),
        entity=order.entity,
        error=None if order.error is None else _choice("error", order.error, ERRORS),
        duration_ms=order.duration_ms,
        delay_ms=order.delay_ms,
        probability=order.probability,
        seed=order.seed,
        rate_per_second=order.rate_per_second,
        rights=rights,
        includes_authentication=order.include_authentication,
        is_performed=order.perform,
    )


def _shown(fault: Fault) -> ShownFault:
    settings = fault.settings
    return ShownFault(
        id=fault.id,
        kind=fault.kind.value,
        entity=settings.entity,
        error=fault.error_name,
        operations=[name for name, right in _OPERATIONS.items() if right in fault.rights],
        started_at_ms=fault.started_at_ms,
        ends_at_ms=None if fault.ends_at_ms >= NEVER_MS else fault.ends_at_ms,
        delay_ms=settings.delay_ms,
        probability=settings.probability,
        seed=settings.seed,
        rate_per_second=settings.rate_per_second,
        include_authentication=settings.includes_authentication,
        perform=settings.is_performed,
        hit_count=fault.hit_count,
    )


def _choice(field: str, name: str, choices: Mapping[str, Value]) -> Value:
    if name not in choices:
        raise ArgumentError.of(
            f"{{field}} is {{value}}; it must be one of {', '.join(choices)}", field, value=name[:80]
        )
    return choices[name]
