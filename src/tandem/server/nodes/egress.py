"""A link on which a client receives from a queue, a subscription, a dead-letter queue or a session."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from tandem import wire_names
from tandem.addresses import Address
from tandem.amqp import (
    RELEASED,
    AmqpError,
    DispositionReceived,
    LinkAttached,
    OutgoingDelivery,
    Rejected,
    SenderLink,
    TransactionalState,
)
from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.performatives import Attach
from tandem.amqp.terminus import COPY, MOVE, Source
from tandem.amqp.types import Symbol
from tandem.engine.effects import HandedOut, Notice, NoticeKind
from tandem.engine.lock_table import Lock
from tandem.engine.message import BrokeredMessage
from tandem.engine.metering import Tally
from tandem.engine.subqueue import SubQueue
from tandem.engine.topic import Topic
from tandem.errors import NotAllowed, OperationNotImplemented, ProtocolError, Scope, SessionLockLost
from tandem.limits import MESSAGE_OVERHEAD_BYTES, SESSION_CLOSE_GRACE_MS, SESSION_WAIT_MS
from tandem.server.nodes.attaching import SETTLED, number_property
from tandem.server.nodes.client_entities import Subscribed
from tandem.server.nodes.link_filters import LinkFilters
from tandem.server.nodes.link_meter import LinkMeter
from tandem.server.nodes.settlement import held_bytes_of_outcome, operation_of, settlement_of
from tandem.wire_names import SHARED_SUBSCRIPTIONS

if TYPE_CHECKING:
    import asyncio

    from tandem.server.peer import Peer

__all__ = ["Egress"]


class _Echo:
    """Settlements that are confirmed to the client when they are on disk."""

    __slots__ = ("_came_at_ms", "_deliveries", "_egress", "_state", "_tally")

    def __init__(
        self, egress: Egress, deliveries: list[OutgoingDelivery], state: DeliveryState, tally: Tally, came_at_ms: int
    ) -> None:
        self._egress = egress
        self._deliveries = deliveries
        self._state = state
        self._tally = tally
        self._came_at_ms = came_at_ms

    @property
    def peer(self) -> Peer:
        return self._egress.peer

    def release(self, answer: object) -> None:
        link = self._egress.link
        for delivery in self._deliveries:
            link.settle(delivery, self._state)
        self._tally.add_latency(self._egress.now_ms - self._came_at_ms, len(self._deliveries))
        self._egress.peer.endpoint.flush_soon()


class _Accepting:
    """An attach that is answered when the subscription that it made is on disk."""

    __slots__ = ("_egress", "_reply")

    def __init__(self, egress: Egress, reply: Attach) -> None:
        self._egress = egress
        self._reply = reply

    @property
    def peer(self) -> Peer:
        return self._egress.peer

    def release(self, answer: object) -> None:
        link = self._egress.link
        link.accept(self._reply)
        if link.context is not None:
            # Credit that came before the answer.
            cast("Egress", link.context).on_credit()
        self._egress.peer.endpoint.flush_soon()


class Egress:
    """A client receives from a queue, a dead-letter queue or a session."""

    def __init__(
        self,
        peer: Peer,
        event: LinkAttached,
        subqueue: SubQueue,
        address: Address,
        subscribed: Subscribed | None = None,
    ) -> None:
        """`subscribed` says that the line is the subscription of a consumer of a topic, whose selector is its rule."""
        link = event.link
        assert isinstance(link, SenderLink)
        if isinstance(subqueue.queue, Topic):
            raise NotAllowed(
                f"Messages cannot be received from the topic '{address.path}': receive from one of its subscriptions.",
                Scope.LINK,
            )
        if not subqueue.queue.description.can_receive:
            raise subqueue.queue.disabled()
        self.peer = peer
        self.link = link
        self.address = address
        self._subqueue = subqueue
        self.meter = LinkMeter(peer, subqueue.path, subqueue.queue.description.kind)
        self._receives = self.meter.tally("receive")
        # Runs when the lock of its session has expired.
        self._detaching: asyncio.TimerHandle | None = None
        # Whether the client asks, and what came since it began to.
        self._is_asking = False
        self._received_count = 0
        self._subscribed = subscribed
        self._offered = [Symbol(one) for one in event.attach.desired_capabilities or [] if one == SHARED_SUBSCRIPTIONS]
        source = event.attach.source or Source()
        self._filters = LinkFilters(event)
        # Locks of messages to give back when the link is closed; None on links whose locks last until they expire.
        self._unsettled: dict[Lock, None] | None = None if source.default_outcome is None else {}
        # A durable terminus is a subscription of JMS, which calls its messages copies of those of the topic.
        if source.distribution_mode == COPY and not source.durable:
            self._browse()
        elif self._filters.has_session:
            self._wait_for_session(event)
        else:
            self._consume(event)

    def _consume(self, event: LinkAttached) -> None:
        deletes = event.attach.snd_settle_mode == SETTLED
        subscribed = self._subscribed
        condition = None if subscribed is not None else self._filters.condition()
        self.consumer = self._subqueue.open_consumer(self, deletes, self.peer.gate, condition)
        if subscribed is not None and subscribed.is_new:
            # The client relies on its subscription from the answer on: it has to be on disk.
            self._subqueue.namespace.effects.reply(_Accepting(self, self._reply()), None)
        else:
            self.link.accept(self._reply())

    def _browse(self) -> None:
        """Send copies: nothing is locked or taken away, and nothing is there to be settled."""
        if self._filters.has_session:
            raise OperationNotImplemented(
                "A browser looks at all sessions of an entity. Leave the session filter out.", Scope.LINK
            )
        self._receives = self.meter.tally("peek")
        self.consumer = self._subqueue.open_browser(self, self.peer.gate, self._filters.condition())
        reply = self._reply()
        reply.snd_settle_mode = SETTLED
        self.link.accept(reply)

    def _wait_for_session(self, event: LinkAttached) -> None:
        """Ask for a session. The attach is answered when it is found."""
        filters = self._filters
        if filters.selector is not None:
            raise OperationNotImplemented(
                "The messages of a session are received in their order: a selector cannot pick some of them.",
                Scope.LINK,
            )
        deletes = event.attach.snd_settle_mode == SETTLED
        wait_ms = min(number_property(event, wire_names.TIMEOUT, SESSION_WAIT_MS), SESSION_WAIT_MS)
        self.consumer = self._subqueue.accept_session(self, deletes, filters.session_id, wait_ms, self.peer.gate)

    def _reply(self) -> Attach:
        """Return the answer to the attach, with what is in force of that which was asked for."""
        reply = self.link.attach_reply()
        source = reply.source
        if source is not None:
            source.filter = self._filters.in_force()
            if source.distribution_mode == COPY and source.durable:
                source.distribution_mode = MOVE
            if source.default_outcome is not None:
                source.default_outcome = RELEASED
        if self._offered:
            reply.offered_capabilities = self._offered
        return reply

    @property
    def now_ms(self) -> int:
        return self._subqueue.namespace.now_ms

    # --- from the client ------------------------------------------------------------------------------------

    def on_credit(self) -> None:
        """Pass the link's credit on to the engine. Credit that comes before the attach is answered waits for that."""
        consumer = self.consumer
        outlet = consumer.outlet
        link = self.link
        if outlet is None or not link.is_attached:
            return
        if not consumer.is_open:
            # The lock of its session has expired, and the link is about to be detached: there is nothing for it.
            self._drained()
            return
        self._is_asking = self._is_asking or link.credit > 0
        outlet.grant(consumer, max(0, link.credit - consumer.unsent_count), link.is_draining)

    def on_disposition(self, event: DispositionReceived) -> None:
        state = event.state
        if isinstance(state, TransactionalState):
            self._enlist(event, state)
            return
        settled: list[OutgoingDelivery] = []
        operation = operation_of(state)
        try:
            settle = settlement_of(state, self._subqueue)
            for delivery in event.deliveries:
                lock = cast("Lock", delivery.context)
                if self._unsettled is not None:
                    self._unsettled.pop(lock, None)
                try:
                    settle(lock)
                except ProtocolError as error:
                    self._refuse(delivery, error, operation)
                else:
                    settled.append(delivery)
        except ProtocolError as error:
            self.refuse_all(event, error)
        if self.peer.gate.has_missed:
            self.peer.regulate()
        if not settled:
            return
        tally = self.meter.tally(operation)
        tally.add_many(len(settled))
        if not event.is_settled:
            # The outcome without its error: with one, clients take it for a failure.
            echo = Rejected() if isinstance(state, Rejected) else (state or RELEASED)
            self._subqueue.namespace.effects.replies.append((_Echo(self, settled, echo, tally, self.now_ms), None))

    def _enlist(self, event: DispositionReceived, state: TransactionalState) -> None:
        """The settlement is part of a transaction: it is confirmed now, and happens at the discharge."""
        for delivery in event.deliveries:
            lock = cast("Lock", delivery.context)
            if self._unsettled is not None:
                self._unsettled.pop(lock, None)
            try:
                settle = settlement_of(state.outcome, self._subqueue)
                transaction = self._subqueue.namespace.transactions.find(state.txn_id, self.peer)
                held_bytes = held_bytes_of_outcome(state.outcome)
                transaction.settle(lock, partial(settle, lock), held_bytes, event.is_settled)
            except ProtocolError as error:
                self._fail_transaction(state, error)
                self._refuse(delivery, error, operation_of(state.outcome))
            else:
                self.meter.tally(operation_of(state.outcome)).add_many(1)
                self.link.settle(delivery, state)

    def _fail_transaction(self, state: DeliveryState | None, error: ProtocolError) -> None:
        """A client that has settled the delivery itself is not told of a refusal: its commit must not succeed."""
        if isinstance(state, TransactionalState):
            self._subqueue.namespace.transactions.fail(state.txn_id, self.peer, error)

    def refuse_all(self, event: DispositionReceived, error: ProtocolError) -> None:
        self._fail_transaction(event.state, error)
        for delivery in event.deliveries:
            self._refuse(delivery, error, operation_of(event.state))

    def _refuse(self, delivery: OutgoingDelivery, error: ProtocolError, operation: str) -> None:
        self.link.settle(delivery, Rejected(self.peer.tracker.sign(error, self._subqueue.path)))
        self.meter.refused(operation, error)

    def resume(self) -> None:
        """The connection takes more again."""
        consumer = self.consumer
        if consumer.outlet is not None and consumer.is_open:
            consumer.outlet.wake(consumer)

    def close(self) -> None:
        self._stop_asking()
        self._subqueue.close_consumer(self.consumer)
        if self._unsettled and not self.peer.is_lost:
            # The client says what it wants of messages that it has looked at; it has not looked at these.
            for lock in self._unsettled:
                if not lock.is_enlisted:
                    self._subqueue.release(lock)
        if self._detaching is not None:
            self._detaching.cancel()

    # --- to the client --------------------------------------------------------------------------------------

    def deliver(self, locks: list[Lock]) -> None:
        link = self.link
        gate = self.peer.gate
        for lock in locks:
            gate.owed_bytes -= lock.message.size_bytes + MESSAGE_OVERHEAD_BYTES
            prefix, bare = lock.take_parts()
            if link.credit <= 0 or not link.is_attached:
                # Gone in the very turn in which the message was locked for it.
                self._subqueue.release(lock)
            else:
                link.send(bare, lock.tag, prefix=prefix, context=lock)
                if self._unsettled is not None:
                    self._unsettled[lock] = None
                self._count(lock.message)
        if link.credit <= 0:
            # It got all that it asked for; what it asks for next is another receive.
            self._stop_asking()
        self.peer.endpoint.flush_soon()
        self.peer.regulate()

    def hand_out(self, message: HandedOut) -> None:
        self.peer.gate.owed_bytes -= message.message.size_bytes + MESSAGE_OVERHEAD_BYTES
        consumer = self.consumer
        consumer.unsent_count -= 1
        link = self.link
        if link.is_attached and link.credit > 0:
            # Without a lock there is no token, so the tag is empty, as the service has it.
            link.send(message.payload, b"", is_settled=True)
            self._count(message.message)
            if link.credit <= 0:
                self._stop_asking()
            self.finish_drain()
            self.peer.endpoint.flush_soon()
        self.peer.regulate()

    def _count(self, message: BrokeredMessage) -> None:
        """A message was received: how large it was, and how long it had waited."""
        self._received_count += 1
        receives = self._receives
        receives.add(message.size_bytes)
        receives.add_latency(self.now_ms - message.enqueued_time_ms, 1)

    def _stop_asking(self) -> None:
        """The client has stopped to ask: perhaps there was nothing for it."""
        if self._is_asking and not self._received_count:
            self.meter.tally("empty-receive").add_many(1)
        self._is_asking = False
        self._received_count = 0

    def finish_drain(self) -> None:
        """A drain that was answered while messages waited for their removal to be on disk ends with the last one."""
        if self._is_drained and not self.consumer.unsent_count:
            self._is_drained = False
            self._drained()

    def _drained(self) -> None:
        if self.link.is_draining:
            self.link.drained()
            self._stop_asking()

    _is_drained = False

    def notify(self, notice: Notice) -> None:
        if notice.kind is NoticeKind.DRAINED:
            if self.consumer.unsent_count:
                self._is_drained = True
            else:
                self._drained()
        elif notice.kind is NoticeKind.SESSION_ACCEPTED:
            self.accept_session()
            self.on_credit()
        else:
            error = notice.error
            assert isinstance(error, ProtocolError)
            signed = self.peer.tracker.sign(error, self._subqueue.path)
            if notice.kind is NoticeKind.SESSION_REFUSED:
                self.link.refuse(signed)
            elif isinstance(error, SessionLockLost):
                self._detaching = self.peer.services.call_later(
                    SESSION_CLOSE_GRACE_MS / 1000, partial(self._detach, signed)
                )
                return
            else:
                self.link.detach(signed)
            self.peer.forget(self.link)
        self.peer.endpoint.flush_soon()

    def _detach(self, error: AmqpError) -> None:
        self.link.detach(error)
        self.peer.forget(self.link)
        self.peer.endpoint.flush_soon()

    def accept_session(self) -> None:
        """Answer the attach: the receiver holds a session now."""
        outlet = self.consumer.outlet
        assert outlet is not None
        session = outlet.session
        assert session is not None
        link = self.link
        if link.is_gone:
            return
        reply = self._reply()
        assert reply.source is not None
        reply.source.filter = self._filters.in_force_with(session.session_id)
        reply.properties = {Symbol(wire_names.LOCKED_UNTIL_UTC): wire_names.ticks_of(session.locked_until_ms)}
        link.accept(reply)
