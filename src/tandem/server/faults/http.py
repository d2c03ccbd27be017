"""HTTP requests that meet a fault: refused, answered late, or not answered at all."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import hdrs, web

from tandem.auth import Right
from tandem.fault_kinds import FaultKind
from tandem.server.faults.active_faults import Faults, Verdict
from tandem.server.faults.fault import Fault

__all__ = ["MUTING_FAULT", "Withheld", "hang_up", "has_met_faults", "meet", "stay_silent"]

# In a request: the fault that lets it be performed and withholds the answer.
MUTING_FAULT: Final = web.RequestKey("muting_fault", Fault)
# In a request: a fault has delayed it already.
_IS_LATE: Final = web.RequestKey("is_late", bool)
# In a request: the faults of its namespace were asked about it.
_HAS_MET: Final = web.RequestKey("has_met_faults", bool)

# Methods that change nothing: a request that is performed without an answer is one that is not performed.
_READING: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})


class Withheld(BaseException):
    """Stops the handling of a request that is not answered now.

    Nothing was done for the request so far, so that it can be handled again from its beginning. Handlers turn every
    Exception into an answer; this must not become one, so it is a BaseException, as asyncio.CancelledError is.
    """

    def __init__(self, fault: Fault, is_resumed: asyncio.Event) -> None:
        super().__init__(f"fault {fault.id}")
        self._fault = fault
        self._is_resumed = is_resumed

    async def wait(self, request: web.Request) -> bool:
        """Wait for the end of the delay, or of the fault. Return True if the request is to be handled then."""
        if self._fault.kind is FaultKind.TIMEOUT:
            await self._fault.ended.wait()
            return False
        await self._is_resumed.wait()
        request[_IS_LATE] = True
        return True


def meet(request: web.Request, faults: Faults, right: Right, path: str) -> None:
    """Raise the error of a fault that refuses the request, or Withheld."""
    request[_HAS_MET] = True
    if request.get(_IS_LATE):
        return
    is_resumed = asyncio.Event()
    met = faults.meet(right, path, is_resumed.set)
    if met is None:
        return
    if met.verdict is Verdict.WITHHELD or request.method in _READING:
        raise Withheld(met.fault, is_resumed)
    request[MUTING_FAULT] = met.fault


def has_met_faults(request: web.Request) -> bool:
    """Return whether `meet` was called; handlers that anybody may use do not call it."""
    return _HAS_MET in request


async def stay_silent(request: web.Request, fault: Fault) -> web.StreamResponse:
    """Wait for the end of the fault, or until the client has gone, then end the connection."""
    await fault.ended.wait()
    return hang_up(request)


def hang_up(request: web.Request) -> web.StreamResponse:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)
