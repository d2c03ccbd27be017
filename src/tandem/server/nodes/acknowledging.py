"""What all links have in common on which clients send: what was taken is acknowledged when it is on disk."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, cast

from tandem.amqp import IncomingDelivery, ReceiverLink, Rejected
from tandem.engine.namespace import Namespace
from tandem.errors import ProtocolError
from tandem.server.nodes.link_meter import LinkMeter

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["SEND", "Acknowledging"]

SEND: Final = "send"


class Acknowledging:
    """Credit for what a client may send ahead, and one acknowledgement for all that came in a turn."""

    def __init__(
        self, peer: Peer, link: ReceiverLink, namespace: Namespace, credit: int, entity: str, entity_kind: str
    ) -> None:
        self.peer = peer
        self.link = link
        self._namespace = namespace
        self._entity = entity
        # Deliveries that a client may send ahead of our acknowledgements; topped up at half.
        self._credit = credit
        self._accepted: list[IncomingDelivery] = []
        # Taken, and not acknowledged yet.
        self._in_flight = 0
        self.meter = LinkMeter(peer, entity, entity_kind)
        self._sends = self.meter.tally(SEND)
        # When the deliveries came that the acknowledgements under way are for, oldest first.
        self._came_at_ms: deque[int] = deque()

    def acknowledge_later(self, delivery: IncomingDelivery) -> None:
        """The delivery was taken."""
        if delivery.is_settled:
            self.top_up()
            return
        accepted = self._accepted
        if not accepted:
            self.peer.dirty.append(self)
        accepted.append(delivery)

    def end_turn(self) -> None:
        """All that was taken in this turn is acknowledged together, when it is on disk."""
        accepted, self._accepted = self._accepted, []
        self._acknowledge(accepted)

    def acknowledge_alone(self, delivery: IncomingDelivery) -> None:
        """The same for one that is not acknowledged with the others of its turn."""
        self._acknowledge([delivery])

    def _acknowledge(self, deliveries: list[IncomingDelivery]) -> None:
        self._in_flight += len(deliveries)
        self._came_at_ms.append(self._namespace.now_ms)
        self._namespace.effects.replies.append((self, deliveries))

    def release(self, answer: object) -> None:
        settle = self.link.settle
        deliveries = cast("list[IncomingDelivery]", answer)
        for delivery in deliveries:
            settle(delivery)
        self._in_flight -= len(deliveries)
        self._sends.add_latency(self._namespace.now_ms - self._came_at_ms.popleft(), len(deliveries))
        self.top_up()
        self.peer.endpoint.flush_soon()

    def refuse(self, delivery: IncomingDelivery, error: ProtocolError) -> None:
        self.link.settle(delivery, Rejected(self.peer.tracker.sign(error, self._entity)))
        self.meter.refused(SEND, error, len(delivery.payload))
        self.top_up()

    def top_up(self) -> None:
        room = self._credit - self._in_flight
        if self.link.credit * 2 < room:
            self.link.grant(room)

    def close(self) -> None:
        """What was taken stays taken."""
