"""HTTP requests that a fault leaves without an answer, or answers late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from tandem.auth import Right
from tandem.fault_kinds import FaultKind
from tandem.server.faults.fault import Fault
from tandem.server.faults.faults import Faults, Verdict

__all__ = ["MUTING_FAULT", "Withheld", "hang_up", "meet", "stay_silent"]

# In a request: the fault that lets it be done and keeps back the answer.
MUTING_FAULT: Final = web.RequestKey("muting_fault", Fault)
# In a request: it was held up already.
_IS_LATE: Final = web.RequestKey("is_late", bool)


class Withheld(Exception):
    """A request is not answered now. Nothing was done for it so far, so that it can be handled from its beginning."""

    def __init__(self, fault: Fault, is_resumed: asyncio.Event) -> None:
        super().__init__(f"fault {fault.id}")
        self._fault = fault
        self._is_resumed = is_resumed

    async def go_on(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self._fault.kind is FaultKind.TIMEOUT:
            return await stay_silent(request, self._fault)
        await self._is_resumed.wait()
        request[_IS_LATE] = True
        return await handler(request)


def meet(request: web.Request, faults: Faults, right: Right, path: str) -> None:
    """Raise the error of a fault that refuses the request, or Withheld."""
    if request.get(_IS_LATE):
        return
    is_resumed = asyncio.Event()
    met = faults.meet(right, path, is_resumed.set)
    if met is None:
        return
    if met.verdict is Verdict.WITHHELD:
        raise Withheld(met.fault, is_resumed)
    request[MUTING_FAULT] = met.fault


async def stay_silent(request: web.Request, fault: Fault) -> web.StreamResponse:
    """Until the fault is over, or the client has gone."""
    await fault.ended.wait()
    return await hang_up(request)


async def hang_up(request: web.Request) -> web.StreamResponse:
    """End the connection without a word."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)
