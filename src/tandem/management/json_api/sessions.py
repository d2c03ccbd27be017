"""The sessions of an entity, and the state that applications keep beside them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Any, Final, cast

from aiohttp import web
from msgspec import Meta

from tandem.auth import Right
from tandem.engine.browsing import BrowsedSession, browse_sessions
from tandem.engine.namespace import Namespace
from tandem.engine.sessions import Sessions
from tandem.errors import ArgumentError, NotAllowed, Scope, SessionCannotBeLocked
from tandem.limits import MAX_ID_CHARACTERS, MAX_LISTED_SESSIONS, MAX_STATE_BODY_BYTES
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import Method, Operation, Parameter, describes
from tandem.management.json_api.reading import ask, read_request
from tandem.management.json_api.rendering import shown_bytes
from tandem.management.json_api.shapes import SessionList, SessionState, SessionStateRequest, ShownSession
from tandem.management.requests import query_number

__all__ = ["SessionHandlers"]

_DEFAULT_SESSIONS: Final = 100


def _describes_state(method: str, name: str, summary: str, body: Any = None) -> Callable[[Method], Method]:
    """Describe an operation on the state of a session."""
    path = "/entities/{path}/sessions/{session_id}/state"
    return describes(
        Operation(method, path, name, summary, "Listen on the entity", SessionState, body=body, tag="sessions")
    )


class SessionHandlers:
    """`/entities/{path}/sessions`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "GET",
            "/entities/{path}/sessions",
            "list_sessions",
            "List sessions that have active messages or a state, in the order of their ids.",
            "Listen on the entity",
            SessionList,
            parameters=(
                Parameter("after", Annotated[str, Meta(max_length=MAX_ID_CHARACTERS)], "Only ids behind this one."),
                Parameter(
                    "top", Annotated[int, Meta(ge=1, le=MAX_LISTED_SESSIONS)], "How many at most; 100 if left out."
                ),
            ),
            tag="sessions",
        )
    )
    async def list_all(self, request: web.Request) -> web.Response:
        path = self._admit(request)
        top = query_number(request, "top", _DEFAULT_SESSIONS, 1, MAX_LISTED_SESSIONS)
        after = request.query.get("after")

        def look(namespace: Namespace, asker: object) -> None:
            _sessions(namespace, path)
            browse_sessions(namespace.get(path).main, after, top, asker)

        found = cast("list[BrowsedSession]", await ask(self._gate, look))
        next_after = found[-1].record.session_id if len(found) == top else None
        return json_answer(SessionList([_shown(one) for one in found], next_after))

    @_describes_state("GET", "show_session_state", "Show the state of a session.")
    async def show_state(self, request: web.Request) -> web.Response:
        path, session_id = self._admit(request), _session_id(request)

        def look(namespace: Namespace, asker: object) -> None:
            _sessions(namespace, path).get_state(session_id, asker)

        (state,) = cast("tuple[bytes | None]", await ask(self._gate, look))
        return json_answer(_state_answer(session_id, state))

    @_describes_state(
        "PUT", "set_session_state", "Set the state of a session that no receiver holds.", SessionStateRequest
    )
    async def set_state(self, request: web.Request) -> web.Response:
        path, session_id = self._admit(request), _session_id(request)
        state = _state_of(await read_request(request, SessionStateRequest, MAX_STATE_BODY_BYTES))
        return await self._set(path, session_id, state)

    @_describes_state(
        "DELETE", "delete_session_state", "Delete the state of a session that no receiver holds. Its messages stay."
    )
    async def delete_state(self, request: web.Request) -> web.Response:
        return await self._set(self._admit(request), _session_id(request), None)

    async def _set(self, path: str, session_id: str, state: bytes | None) -> web.Response:
        def change(namespace: Namespace, asker: object) -> None:
            sessions = _sessions(namespace, path)
            if sessions.find(session_id) is not None:
                raise SessionCannotBeLocked(
                    f"The session '{session_id}' is locked by a receiver, which may set its state too: wait until the "
                    "lock is over."
                )
            sessions.set_state(session_id, state, asker)

        await ask(self._gate, change)
        return json_answer(_state_answer(session_id, state))

    def _admit(self, request: web.Request) -> str:
        path = request.match_info["path"]
        self._gate.admit(request, path, Right.LISTEN)
        return path


def _sessions(namespace: Namespace, path: str) -> Sessions:
    sessions = namespace.get(path).main.sessions
    if sessions is None:
        raise NotAllowed(f"'{path}' does not require sessions: it has none.", Scope.DELIVERY)
    return sessions


def _session_id(request: web.Request) -> str:
    session_id = request.match_info["session_id"]
    if len(session_id) > MAX_ID_CHARACTERS:
        raise ArgumentError(f"session_id has {len(session_id)} characters; at most {MAX_ID_CHARACTERS} are allowed")
    return session_id


def _shown(browsed: BrowsedSession) -> ShownSession:
    record = browsed.record
    has_state = record.state_bytes >= 0
    return ShownSession(
        session_id=record.session_id,
        active_message_count=record.active_count,
        has_state=has_state,
        state_size_in_bytes=record.state_bytes if has_state else None,
        state_updated_at_ms=record.updated_at_ms if has_state else None,
        is_locked=bool(browsed.locked_until_ms),
        locked_until_ms=browsed.locked_until_ms or None,
    )


def _state_answer(session_id: str, state: bytes | None) -> SessionState:
    if state is None:
        return SessionState(session_id, None, None)
    return SessionState(session_id, *shown_bytes(state, len(state)))


def _state_of(request: SessionStateRequest) -> bytes:
    if request.encoding == "text":
        return request.state.encode()
    try:
        return base64.b64decode(request.state, validate=True)
    except (binascii.Error, ValueError):
        raise ArgumentError("state is not base64, as encoding says") from None
