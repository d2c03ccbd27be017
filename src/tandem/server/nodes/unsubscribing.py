"""A link by which a client of JMS takes a durable subscription back: it names the subscription, and closes the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.addresses import parse_address
from tandem.amqp import LinkAttached, SenderLink
from tandem.amqp.terminus import Source
from tandem.engine.subscription import Subscription

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["Unsubscribing"]


class Unsubscribing:
    """Nothing is received here. The subscription is deleted when the client closes the link, and not if it is lost."""

    def __init__(self, peer: Peer, event: LinkAttached, subscriptions: list[Subscription]) -> None:
        link = event.link
        assert isinstance(link, SenderLink)
        self.peer = peer
        self.link = link
        self.address = parse_address(subscriptions[0].name)
        self._subscriptions = subscriptions
        reply = link.attach_reply()
        reply.source = Source(subscriptions[0].name)
        link.accept(reply)

    def on_credit(self) -> None:
        if self.link.is_draining:
            self.link.drained()

    def close(self) -> None:
        if self.peer.is_lost:
            return
        for subscription in self._subscriptions:
            if not subscription.is_dropped:
                self.peer.services.namespace.delete(subscription)
