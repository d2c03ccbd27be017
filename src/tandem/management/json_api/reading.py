"""What the handlers of operations share: reading requests by their types, and asking the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from tandem.engine.message import NEVER_MS
from tandem.engine.namespace import Namespace
from tandem.errors import ArgumentError
from tandem.limits import MAX_JSON_BODY_BYTES
from tandem.management.gate import Gate
from tandem.management.requests import read_body

__all__ = ["ask", "moment_ms", "query_choice", "read_request"]

Request = TypeVar("Request")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def read_request(request: web.Request, kind: type[Request], limit_bytes: int = MAX_JSON_BODY_BYTES) -> Request:
    """The body of a request. No body is an empty object."""
    body = await read_body(request, limit_bytes)
    try:
        return msgspec.json.decode(body if body.strip() else b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ArgumentError(f"the body of the request cannot be used: {error}") from None


def query_choice(request: web.Request, name: str, choices: tuple[str, ...], default: str | None) -> str:
    text = request.query.get(name, default)
    if text not in choices:
        given = "missing" if text is None else f"{text!r:.40}"
        raise ArgumentError(f"{name} is {given}; it must be one of {', '.join(choices)}")
    return text


def moment_ms(field: str, moment: int | str | None) -> int:
    """Milliseconds since 1970 of a time that is given as such or as ISO 8601; none is the end of all times."""
    if moment is None:
        return NEVER_MS
    if isinstance(moment, int):
        return moment
    try:
        read = datetime.fromisoformat(moment)
    except ValueError:
        raise ArgumentError(f"{field} is {moment!r:.80}; it must be a time such as 2026-11-16T02:47:08Z") from None
    if read.tzinfo is None:
        raise ArgumentError(f"{field} is {moment!r:.80}, without a time zone: add Z, or an offset such as +01:00")
    return int((read - _EPOCH).total_seconds() * 1_000)


class _Answer:
    """Waits for what the engine answers."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def release(self, answer: object) -> None:
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


async def ask(gate: Gate, function: Callable[[Namespace, object], None]) -> object:
    """Run a command that is answered later, as one step of the engine, and return the answer."""
    answer = _Answer()
    await gate.perform(lambda namespace: function(namespace, answer))
    return await answer.future
