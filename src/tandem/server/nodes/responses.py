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

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["ResponseLink", "find_response_link"]

# Responses that wait for credit on one link. One client grants credit only after its request; none has more requests
# under way than this.
MAX_WAITING_RESPONSES: Final = 1_000

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
        self._waiting: deque[bytes] = deque()
        link.accept()

    def send(self, payload: bytes) -> None:
        if len(self._waiting) >= MAX_WAITING_RESPONSES:
            self.link.detach(
                ResourceLimitExceeded(f"{MAX_WAITING_RESPONSES} responses wait for credit on '{self.link.name:.80}'")
            )
            return
        self._waiting.append(payload)
        self.on_credit()

    def on_credit(self) -> None:
        link = self.link
        while self._waiting and link.credit > 0 and link.is_attached:
            link.send(self._waiting.popleft(), is_settled=True)
        if link.is_draining and link.credit > 0:
            link.drained()
        self.peer.endpoint.flush_soon()

    def close(self) -> None:
        self._waiting.clear()


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
