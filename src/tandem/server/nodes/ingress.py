"""A link on which a client sends to a queue or a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem import wire_names
from tandem.addresses import Address, SubQueue, parse_address
from tandem.amqp import ACCEPTED, IncomingDelivery, LinkAttached, ReceiverLink, TransactionalState
from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.types import Symbol
from tandem.auth import Right
from tandem.engine.intake import Draft
from tandem.engine.message import SCHEDULED
from tandem.engine.metering import Tally
from tandem.engine.queue import Queue
from tandem.engine.topic import Topic
from tandem.engine.visibility import is_delayed
from tandem.errors import NotAllowed, NotFound, ProtocolError, Scope
from tandem.server.nodes.acknowledging import Acknowledging
from tandem.server.nodes.attaching import sending_properties, text_property

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["Ingress"]

# Deliveries. What a client may send ahead of our acknowledgements; topped up at half. It bounds what one commit can
# hold, and so how long others wait for it; a commit of ten milliseconds still lets 100,000 messages a second pass.
_CREDIT: Final = 2_000


class Ingress(Acknowledging):
    """A client sends to a queue."""

    def __init__(self, peer: Peer, event: LinkAttached, queue: Queue, address: Address) -> None:
        link = event.link
        assert isinstance(link, ReceiverLink)
        if address.sub_queue is not SubQueue.NONE:
            raise NotAllowed(f"Messages cannot be sent to '{address.path}': it is filled by the broker.", Scope.LINK)
        if queue.topic is not None:
            raise NotAllowed(f"Messages cannot be sent to '{address.path}': send them to the topic.", Scope.LINK)
        if not queue.description.can_send:
            raise queue.disabled()
        super().__init__(peer, link, address, queue, _CREDIT)
        self._queue = queue
        self.destination = text_property(event, wire_names.TRANSFER_DESTINATION)
        if self.destination is not None:
            # By way of this entity is still to that one.
            peer.require(Right.SEND, parse_address(self.destination))
        reply = link.attach_reply()
        reply.max_message_size = queue.max_message_size_bytes
        reply.properties = sending_properties(queue.max_batch_size_bytes)
        if wire_names.DELAYED_DELIVERY in (event.attach.desired_capabilities or []):
            reply.offered_capabilities = [Symbol(wire_names.DELAYED_DELIVERY)]
        link.accept(reply)
        link.grant(_CREDIT)

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        queue = self._queue
        try:
            admission = self.peer.services.admission
            if admission is not None:
                admission.check_send(queue.name, queue.namespace.now_ms, queue.description.enable_partitioning)
            state = delivery.state
            if state is not None or self.destination is not None or queue.is_dropped:
                self._take_unusual(delivery, state)
                return
            drafts = queue.read(delivery.payload, delivery.message_format)
            queue.take(drafts)
        except ProtocolError as error:
            self.refuse(delivery, error)
            return
        tally = self._count(drafts)
        if tally is self._sends:
            self.acknowledge_later(delivery, len(drafts))
        else:
            self.acknowledge_alone(delivery, tally, len(drafts))

    def end_turn(self) -> None:
        super().end_turn()
        queue = self._queue
        if isinstance(queue, Topic):
            # A frame stands for about ten microseconds, and a filter for one at most.
            self.link.work_per_delivery = queue.selector.judged_count // 10

    def _count(self, drafts: list[Draft]) -> Tally:
        """What the last of them is: the messages of a transfer are mostly of one kind."""
        tally = self._sends
        for draft in drafts:
            message = draft.message
            if draft.is_ping:
                tally = self.meter.tally("ping")
            elif message.state == SCHEDULED and not is_delayed(message):
                tally = self.meter.tally("schedule")
            else:
                tally = self._sends
            tally.add(message.size_bytes)
        return tally

    def take_unanswered(self, delivery: IncomingDelivery) -> None:
        self._count(self._take(delivery, delivery.state))

    def _take_unusual(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Part of a transaction, sent by way of another entity, or to an entity that is gone."""
        drafts = self._take(delivery, state)
        tally = self._count(drafts)
        if isinstance(state, TransactionalState):
            self.link.settle(delivery, TransactionalState(state.txn_id, ACCEPTED))
            self.top_up()
        else:
            self.acknowledge_alone(delivery, tally, len(drafts))

    def _take(self, delivery: IncomingDelivery, state: DeliveryState | None) -> list[Draft]:
        """Take a delivery without acknowledging it."""
        queue = self._queue
        if queue.is_dropped:
            # Even if another has its name by now: nobody could receive what this one takes.
            raise NotFound(f"The messaging entity '{queue.name}' could not be found. It was deleted.")
        drafts = queue.read(delivery.payload, delivery.message_format)
        if self.destination is not None:
            for draft in drafts:
                draft.destination = self.destination
        if isinstance(state, TransactionalState):
            via = self.peer.cross_entity.via(self.link.session, queue)
            queue.namespace.transactions.find(state.txn_id, self.peer).send(queue, drafts, via)
        else:
            queue.take(drafts)
        return drafts
