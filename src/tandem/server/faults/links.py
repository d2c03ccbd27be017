"""Links while faults are set: each stands between a link and its node, and lets through what meets no fault.

    client ─▶ FaultyIngress ─▶ Ingress, EventIngress
    client ◀▶ FaultyEgress  ◀▶ Egress
    client ◀▶ FaultyEventEgress ◀▶ EventEgress

The fault desk puts them in place with the first fault and takes them away with the last one, on every link at once.
Without faults there are none of these, and nothing on the path of a message asks for faults.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tandem.amqp import DispositionReceived, IncomingDelivery
from tandem.amqp.link import Link
from tandem.auth import Right
from tandem.engine.effects import HandedOut, Notice, NoticeKind
from tandem.engine.hubs.event import size_of
from tandem.engine.hubs.receiver import EventDelivery
from tandem.engine.lock_table import Lock
from tandem.errors import ProtocolError
from tandem.limits import MESSAGE_OVERHEAD_BYTES
from tandem.server.faults.active_faults import Faults, Verdict
from tandem.server.nodes.acknowledging import Acknowledging
from tandem.server.nodes.egress import Egress
from tandem.server.nodes.event_hub import EventEgress

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["FaultyEgress", "FaultyLink", "connect"]


def connect(link: Link, node: object, faults: Faults | None) -> None:
    """Connect a link with its node: by way of faults, or directly if there are none."""
    link.context = node
    if isinstance(node, Acknowledging):
        link.context = node if faults is None else FaultyIngress(node, faults)
    elif isinstance(node, Egress):
        link.context = node.consumer.context = node if faults is None else FaultyEgress(node, faults)
    elif isinstance(node, EventEgress):
        link.context = node.receiver.context = node if faults is None else FaultyEventEgress(node, faults)


class FaultyLink:
    """What all of them have in common."""

    def __init__(self, node: Acknowledging | Egress | EventEgress, faults: Faults, entity: str) -> None:
        self.node = node
        self.peer: Peer = node.peer
        self._faults = faults
        self._entity = entity

    def _is_starved(self, take_back_credit: Callable[[], None]) -> bool:
        """Return whether a receiver gets nothing: it is refused and detached, or its requests time out."""
        try:
            self._faults.check_path(Right.LISTEN, self._entity)
        except ProtocolError as error:
            self.node.link.detach(self.peer.tracker.sign(error, self.node.address.path))
            self.peer.forget(self.node.link)
            return True
        is_starved = self._faults.starves(self._entity)
        if is_starved:
            take_back_credit()
        return is_starved

    def _is_stalled(self, size_bytes: int, go_on: Callable[[], None]) -> bool:
        """Return whether what is for a receiver is sent later, by `go_on`.

        Until then the connection does not owe these bytes: they would keep its other receivers waiting.
        """
        gate = self.peer.gate

        def send_late() -> None:
            gate.owed_bytes += size_bytes
            go_on()

        is_stalled = self._faults.stalls_delivery(self._entity, partial(self.peer.turn, send_late))
        if is_stalled:
            gate.owed_bytes -= size_bytes
        return is_stalled


class FaultyIngress(FaultyLink):
    """A link on which a client sends."""

    def __init__(self, node: Acknowledging, faults: Faults) -> None:
        super().__init__(node, faults, node.entity)
        self._ingress = node

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        node = self._ingress
        again = partial(self.peer.turn, partial(self._go_on, delivery))
        try:
            met = self._faults.meet(Right.SEND, self._entity, again)
        except ProtocolError as error:
            node.refuse(delivery, error)
            return
        if met is None:
            node.on_delivery(delivery)
            return
        if met.verdict is Verdict.MUTED:
            # An error is an answer too.
            with contextlib.suppress(ProtocolError):
                node.take_unanswered(delivery)
        # Without an answer it counts as in flight, so that credit bounds how many there can be.
        node.in_flight += 1

    def _go_on(self, delivery: IncomingDelivery) -> None:
        """Take a delivery that was delayed, unless its link is gone."""
        node = self._ingress
        node.in_flight -= 1
        if node.link.context is not None:
            node.on_delivery(delivery)


class FaultyEgress(FaultyLink):
    """A link on which a client receives messages."""

    def __init__(self, node: Egress, faults: Faults) -> None:
        super().__init__(node, faults, node.consumer.subqueue.queue.name)
        self._egress = node

    def on_credit(self) -> None:
        consumer = self._egress.consumer
        outlet = consumer.outlet
        is_receiving = consumer.is_open and self._egress.link.is_attached
        if outlet is None or not (is_receiving and self._is_starved(partial(outlet.grant, consumer, 0, False))):
            self._egress.on_credit()

    def on_disposition(self, event: DispositionReceived) -> None:
        settle = self._egress.on_disposition
        again = partial(self.peer.turn, partial(settle, event))
        try:
            met = self._faults.meet(Right.LISTEN, self._entity, again)
        except ProtocolError as error:
            self._egress.refuse_all(event, error)
            return
        if met is None:
            settle(event)
        elif met.verdict is Verdict.MUTED:
            # As if the client had settled already: then it waits for no answer.
            settle(DispositionReceived(event.link, event.deliveries, event.state, is_settled=True))

    def deliver(self, locks: list[Lock]) -> None:
        consumer = self._egress.consumer

        def deliver_late() -> None:
            consumer.unsent_count -= len(locks)
            self._egress.deliver(locks)
            self._egress.finish_drain()

        size_bytes = sum([lock.message.size_bytes + MESSAGE_OVERHEAD_BYTES for lock in locks])
        if self._is_stalled(size_bytes, deliver_late):
            # They use up credit only when they are sent.
            consumer.unsent_count += len(locks)
        else:
            self._egress.deliver(locks)

    def hand_out(self, message: HandedOut) -> None:
        hand_out = partial(self._egress.hand_out, message)
        if not self._is_stalled(message.message.size_bytes + MESSAGE_OVERHEAD_BYTES, hand_out):
            hand_out()

    def notify(self, notice: Notice) -> None:
        if notice.kind is NoticeKind.SESSION_ACCEPTED:
            # Credit that came before the session meets faults as any other.
            self._egress.accept_session()
            self.on_credit()
            self.peer.endpoint.flush_soon()
        else:
            self._egress.notify(notice)


class FaultyEventEgress(FaultyLink):
    """A link on which a client reads events."""

    def __init__(self, node: EventEgress, faults: Faults) -> None:
        super().__init__(node, faults, node.partition.hub.name)
        self._egress = node

    def on_credit(self) -> None:
        receiver = self._egress.receiver
        take_back_credit = partial(self._egress.partition.grant, receiver, 0, False)
        if not (receiver.is_open and self._is_starved(take_back_credit)):
            self._egress.on_credit()

    def deliver_events(self, delivery: EventDelivery) -> None:
        deliver = partial(self._egress.deliver_events, delivery)
        if not self._is_stalled(size_of(delivery.events), deliver):
            deliver()
