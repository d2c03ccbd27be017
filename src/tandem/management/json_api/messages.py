"""Looking at the messages of an entity by their state. Nothing is locked, and nothing is counted as a delivery."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, cast, get_args

from aiohttp import web
from msgspec import Meta

from tandem.auth import Right
from tandem.engine.browsing import BrowsedPage, MessageState, browse, count_of
from tandem.engine.message import SEQUENCE_MASK
from tandem.engine.namespace import Namespace
from tandem.limits import MAX_BROWSE_STEPS, MAX_BROWSED_MESSAGES, MAX_PEEK_BYTES
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import Operation, Parameter, describes
from tandem.management.json_api.reading import ask, query_choice
from tandem.management.json_api.rendering import shown_message
from tandem.management.json_api.shapes import BodyMode, MessageList, ShownMessage, State
from tandem.management.requests import query_number

__all__ = ["MessageHandlers"]

_DEFAULT_MESSAGES: Final = 50

# Messages. Between two such bunches others get their turn.
_BUNCH_MESSAGES: Final = 25

_BODY: Final = "Nothing of the bodies, their first 1,024 bytes, or all of them."


class MessageHandlers:
    """`/entities/{path}/messages`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "GET",
            "/entities/{path}/messages",
            "browse_messages",
            "Browse the messages of one state, without locking them.",
            "Listen on the entity",
            MessageList,
            parameters=(
                Parameter("state", State, "Which messages; `active` if it is left out."),
                Parameter(
                    "from", Annotated[int, Meta(ge=0, le=(1 << 63) - 1)], "The first sequence number to look at."
                ),
                Parameter(
                    "top", Annotated[int, Meta(ge=1, le=MAX_BROWSED_MESSAGES)], "How many at most; 50 if left out."
                ),
                Parameter("body", BodyMode, _BODY),
            ),
        )
    )
    async def browse(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        self._gate.admit(request, path, Right.LISTEN)
        state = MessageState(query_choice(request, "state", get_args(State), "active"))
        mode = cast("BodyMode", query_choice(request, "body", get_args(BodyMode), "preview"))
        top = query_number(request, "top", _DEFAULT_MESSAGES, 1, MAX_BROWSED_MESSAGES)
        first = query_number(request, "from", 0, 0, (1 << 63) - 1) & SEQUENCE_MASK
        shown: list[ShownMessage] = []
        size_bytes = 0
        after = max(first, 1) - 1
        for _ in range(MAX_BROWSE_STEPS):
            page = await self._page(path, state, after, top - len(shown))
            after = page.up_to
            for number, one in enumerate(page.messages):
                if number % _BUNCH_MESSAGES == _BUNCH_MESSAGES - 1:
                    await asyncio.sleep(0)
                rendered = shown_message(one, state, mode)
                shown.append(rendered)
                size_bytes += _shown_bytes(rendered)
            if page.is_last or len(shown) >= top or size_bytes >= MAX_PEEK_BYTES:
                return json_answer(MessageList(shown, None if page.is_last else after + 1))
        return json_answer(MessageList(shown, after + 1))

    async def _page(self, path: str, state: MessageState, after: int, limit: int) -> BrowsedPage:
        def look(namespace: Namespace, asker: object) -> None:
            queue = namespace.get(path)
            if count_of(queue, state):
                browse(queue, state, after, limit, asker)
            else:
                # There is nothing to look for, however long the line of others is.
                namespace.effects.reply(asker, BrowsedPage([], after, True))

        return cast("BrowsedPage", await ask(self._gate, look))


def _shown_bytes(message: ShownMessage) -> int:
    """About what it adds to an answer: its properties, and what is shown of its body."""
    return message.size_in_bytes - (message.body_size_in_bytes or 0) + len(message.body or "")
