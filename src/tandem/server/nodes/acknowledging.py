"""What all links have in common on which clients send: what was taken is acknowledged when it is on disk."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, cast

from tandem.addresses import Address
from tandem.amqp import IncomingDelivery, ReceiverLink, Rejected, TransactionalState
from tandem.engine.hubs.hub import EventHub
from tandem.engine.metering import Tally
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.errors import ProtocolError
from tandem.limits import MESSAGE_OVERHEAD_BYTES, UNDECIDED_DELIVERY_BYTES
from tandem.server.nodes.link_meter import LinkMeter

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["SEND", "Acknowledging"]

SEND: Final = "send"


class Acknowledging:
    """Credit for what a client may send ahead, and one acknowledgement for all that came in a turn."""

    def __init__(self, peer: Peer, link: ReceiverLink, address: Address, entity: Queue | EventHub, credit: int) -> None:
        self.peer = peer
        self.link = link
        self.address = address
        self._namespace: Namespace = entity.namespace
        self._sent_to = entity
        self.entity = entity.name
        self._loads = peer.services.loads
        # Deliveries that a client may send ahead of our acknowledgements; topped up at half.
        self._credit = credit
        self._accepted: list[IncomingDelivery] = []
        # How many messages are in them: a batch is one delivery. And the bytes of those that came settled, which the
        # connection does not count.
        self._accepted_messages = 0
        self._accepted_settled_bytes = 0
        # Taken, and not acknowledged yet.
        self.in_flight = 0
        self.meter = LinkMeter(peer, entity.name, entity.description.kind)
        self._sends = self.meter.tally(SEND)
        # Of the acknowledgements under way, oldest first: when what they are for came, what it is counted as, how many
        # messages it has, and what is held for it.
        self._expected: deque[tuple[int, Tally, int, int]] = deque()

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        """Take a delivery, or refuse it."""
        raise NotImplementedError

    def take_unanswered(self, delivery: IncomingDelivery) -> None:
        """Take a delivery without acknowledging it; raise what it would be refused with."""
        raise NotImplementedError

    def acknowledge_later(self, delivery: IncomingDelivery, message_count: int) -> None:
        """A delivery with so many messages was taken. One that came settled needs no answer, and is in memory until it
        is on disk like any other."""
        if delivery.is_settled:
            self._accepted_settled_bytes += len(delivery.payload)
        accepted = self._accepted
        if not accepted:
            self.peer.dirty.append(self)
        accepted.append(delivery)
        self._accepted_messages += message_count

    def end_turn(self) -> None:
        """All that was taken in this turn is acknowledged together, when it is on disk."""
        accepted, self._accepted = self._accepted, []
        message_count, self._accepted_messages = self._accepted_messages, 0
        settled_bytes, self._accepted_settled_bytes = self._accepted_settled_bytes, 0
        self._acknowledge(accepted, self._sends, message_count, settled_bytes)

    def acknowledge_alone(self, delivery: IncomingDelivery, tally: Tally, message_count: int) -> None:
        """The same for one that is not acknowledged with the others of its turn, or is no send."""
        self._acknowledge([delivery], tally, message_count, len(delivery.payload) if delivery.is_settled else 0)

    def _acknowledge(
        self, deliveries: list[IncomingDelivery], tally: Tally, message_count: int, settled_bytes: int
    ) -> None:
        held_bytes = settled_bytes + message_count * MESSAGE_OVERHEAD_BYTES
        held_bytes += len(deliveries) * UNDECIDED_DELIVERY_BYTES
        self.peer.endpoint.connection.hold(held_bytes)
        self.in_flight += len(deliveries)
        # The messages of a turn are mostly alike: the last one stands for all.
        self._loads.add(self.entity, message_count, len(deliveries) * len(deliveries[-1].payload))
        self._expected.append((self._namespace.now_ms, tally, message_count, held_bytes))
        self._namespace.effects.replies.append((self, deliveries))

    def release(self, answer: object) -> None:
        settle = self.link.settle
        deliveries = cast("list[IncomingDelivery]", answer)
        for delivery in deliveries:
            settle(delivery)
        self.in_flight -= len(deliveries)
        came_at_ms, tally, message_count, held_bytes = self._expected.popleft()
        self.peer.endpoint.connection.release(held_bytes)
        tally.add_latency(self._namespace.now_ms - came_at_ms, message_count)
        self.top_up()
        self.peer.endpoint.flush_soon()

    def refuse(self, delivery: IncomingDelivery, error: ProtocolError) -> None:
        """Reject a delivery. If the entity is deleted the link ends too: attaching again finds the entity that has
        the name by then, while this link would refuse for ever."""
        state = delivery.state
        if isinstance(state, TransactionalState):
            # Java takes every outcome of a send in a transaction for a success: its commit must not succeed.
            self._namespace.transactions.fail(state.txn_id, self.peer, error)
        signed = self.peer.tracker.sign(error, self.entity)
        self.link.settle(delivery, Rejected(signed))
        self.meter.refused(SEND, error, len(delivery.payload))
        if self._sent_to.is_dropped:
            self.link.detach(signed)
            self.peer.forget(self.link)
        else:
            self.top_up()

    def top_up(self) -> None:
        room = self._credit - self.in_flight
        if self.link.credit * 2 < room:
            self.link.grant(room)

    def close(self) -> None:
        """What was taken stays taken."""
