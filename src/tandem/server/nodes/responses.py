"""Where answers go: the links on which a client receives the responses of `$cbs` and `$management`.

The SDKs name the place of an answer in four different ways: `reply-to` may be the target address of the response link,
its name, or nothing at all, when the only response link of the session to the same node is meant.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from tandem.amqp import LinkAttached, SenderLink
from tandem.amqp.link import Link
from tandem.amqp.terminus import Target
from tandem.errors import ResourceLimitExceeded
from tandem.limits import MAX_WAITING_RESPONSE_BYTES, MAX_WAITING_RESPONSES
from tandem.server.nodes.request_gate import Room

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["ResponseLink", "find_response_link"]

_SETTLED: Final = 1


class ResponseLink:
    """A link on which we answer. Answers are sent settled: no client settles them reliably."""

    def __init__(self, peer: Peer, event: LinkAttached, node: str) -> None:
        link = event.link
        assert isinstance(link, SenderLink)
        self.peer = peer
        self.link = link
        self.node = node
        target = event.attach.target
        self.target_address = target.address if isinstance(target, Target) else None
        self._waiting: deque[tuple[bytes, Room | None]] = deque()
        reply = link.attach_reply()
        if reply.source is not None:
            # Answers are not filtered, whatever was asked for.
            reply.source.filter = None
        link.accept(reply)

    def send(self, payload: bytes, room: Room | None = None) -> None:
        """Send an answer, or keep it until there is credit. Its request leaves its room with it."""
        if len(self._waiting) >= MAX_WAITING_RESPONSES or self._is_too_much(len(payload)):
            self.link.detach(
                ResourceLimitExceeded(
                    f"{len(self._waiting)} responses wait for credit on '{self.link.name:.80}', as many as are kept"
                )
            )
            if room is not None:
                room.leave()
            return
        self._waiting.append((payload, room))
        self.peer.waiting_response_bytes += len(payload)
        self.on_credit()

    def _is_too_much(self, size_bytes: int) -> bool:
        """Whether the connection has too many bytes waiting with this one. One answer alone is never too much."""
        waiting_bytes = self.peer.waiting_response_bytes
        return waiting_bytes > 0 and waiting_bytes + size_bytes > MAX_WAITING_RESPONSE_BYTES

    def _take(self) -> tuple[bytes, Room | None]:
        payload, room = self._waiting.popleft()
        self.peer.waiting_response_bytes -= len(payload)
        return payload, room

    def on_credit(self) -> None:
        link = self.link
        while self._waiting and link.credit > 0 and link.is_attached:
            payload, room = self._take()
            link.send(payload, is_settled=True)
            if room is not None:
                room.leave()
        if link.is_draining and link.credit > 0:
            link.drained()
        self.peer.endpoint.flush_soon()

    def close(self) -> None:
        while self._waiting:
            _, room = self._take()
            if room is not None:
                room.leave()


def find_response_link(
    links: list[ResponseLink], node: str, reply_to: str | None, request_link: Link
) -> ResponseLink | None:
    """By target address, by name, by session, or whichever there is."""
    alive = [link for link in links if link.node == node and link.link.is_attached]
    if reply_to is not None:
        for response_link in alive:
            if response_link.target_address == reply_to:
                return response_link
        for response_link in alive:
            if response_link.link.name == reply_to:
                return response_link
    for response_link in reversed(alive):
        if response_link.link.session is request_link.session:
            return response_link
    return alive[-1] if alive else None
