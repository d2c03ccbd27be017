"""Links to and from a queue: `Ingress` takes what clients send, `Egress` gives what they receive."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from tandem import wire_names
from tandem.addresses import Address, SubQueue, parse_address
from tandem.amqp import (
    ACCEPTED,
    RELEASED,
    AmqpError,
    DispositionReceived,
    IncomingDelivery,
    LinkAttached,
    Modified,
    OutgoingDelivery,
    ReceiverLink,
    Rejected,
    SenderLink,
    TransactionalState,
)
from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.encode import encode
from tandem.amqp.terminus import Source
from tandem.amqp.types import Described, Symbol, UInt, ULong
from tandem.auth import Right
from tandem.engine.effects import HandedOut, Notice, NoticeKind
from tandem.engine.intake import Draft
from tandem.engine.lock_table import Lock
from tandem.engine.message import SCHEDULED, BrokeredMessage
from tandem.engine.metering import Tally
from tandem.engine.queue import Queue
from tandem.engine.subqueue import SubQueue as EngineSubQueue
from tandem.engine.topic import Topic
from tandem.engine.visibility import is_delayed
from tandem.errors import (
    ArgumentError,
    EncodeError,
    EntityDisabled,
    NotAllowed,
    NotFound,
    ProtocolError,
    Scope,
    SessionLockLost,
)
from tandem.limits import (
    DECODED_BYTES_PER_BYTE,
    MAX_PROPERTIES_TO_MODIFY_BYTES,
    MESSAGE_OVERHEAD_BYTES,
    SESSION_CLOSE_GRACE_MS,
    SESSION_WAIT_MS,
)
from tandem.server.faults.faults import Faults, Verdict
from tandem.server.nodes.acknowledging import Acknowledging
from tandem.server.nodes.link_meter import LinkMeter

if TYPE_CHECKING:
    import asyncio

    from tandem.server.peer import Peer

__all__ = ["Egress", "Ingress"]

# Deliveries. What a client may send ahead of our acknowledgements; topped up at half. It bounds what one commit can
# hold, and so how long others wait for it; a commit of ten milliseconds still lets 100,000 messages a second pass.
_CREDIT: Final = 2_000

_SETTLED: Final = 1

# What the service answers with, in milliseconds.
_SERVICE_TIMEOUT_MS: Final = 65_000


class Ingress(Acknowledging):
    """A client sends to a queue."""

    def __init__(self, peer: Peer, event: LinkAttached, queue: Queue, address: Address) -> None:
        link = event.link
        assert isinstance(link, ReceiverLink)
        if address.sub_queue is not SubQueue.NONE:
            raise NotAllowed(f"Messages cannot be sent to '{address.path}': it is filled by the broker.", Scope.LINK)
        if queue.topic is not None:
            raise NotAllowed(f"Messages cannot be sent to '{address.path}': send them to the topic.", Scope.LINK)
        _require_active(queue, queue.description.can_send)
        if peer.services.faults is not None:
            peer.services.faults.check(Right.SEND, queue)
        super().__init__(peer, link, queue.namespace, _CREDIT, queue.name, queue.description.kind)
        self._queue = queue
        self.destination = _text_property(event, wire_names.TRANSFER_DESTINATION)
        if self.destination is not None:
            # By way of this entity is still to that one.
            peer.require(Right.SEND, parse_address(self.destination))
        self.address = address
        limit = queue.max_message_size_bytes
        reply = link.attach_reply()
        reply.max_message_size = limit
        reply.properties = {
            Symbol(wire_names.TIMEOUT): UInt(_SERVICE_TIMEOUT_MS),
            Symbol(wire_names.MAX_MESSAGE_BATCH_SIZE): ULong(queue.max_batch_size_bytes),
        }
        link.accept(reply)
        link.grant(_CREDIT)

    @property
    def is_entity_deleted(self) -> bool:
        return self._queue.is_dropped

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        queue = self._queue
        try:
            services = self.peer.services
            if services.faults is not None and self.meets_fault(delivery):
                return
            admission = services.admission
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


class Egress:
    """A client receives from a queue, a dead-letter queue or a session."""

    def __init__(self, peer: Peer, event: LinkAttached, subqueue: EngineSubQueue, address: Address) -> None:
        link = event.link
        assert isinstance(link, SenderLink)
        if isinstance(subqueue.queue, Topic):
            raise NotAllowed(
                f"Messages cannot be received from the topic '{address.path}': receive from one of its subscriptions.",
                Scope.LINK,
            )
        _require_active(subqueue.queue, subqueue.queue.description.can_receive)
        if peer.services.faults is not None:
            peer.services.faults.check(Right.LISTEN, subqueue.queue)
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
        deletes = event.attach.snd_settle_mode == _SETTLED
        source = event.attach.source
        filters = source.filter if source is not None else None
        if filters is None or wire_names.SESSION_FILTER not in filters:
            self.consumer = subqueue.open_consumer(self, deletes, peer.gate)
            link.accept()
            return
        # What the client wrote as filter is answered in the same form.
        self._filter = filters[wire_names.SESSION_FILTER]
        wanted = self._filter.value if isinstance(self._filter, Described) else self._filter
        if wanted is not None and not isinstance(wanted, str):
            raise ArgumentError(f"{wire_names.SESSION_FILTER} must be a string or null, got {wanted!r:.80}", Scope.LINK)
        wait_ms = _number_property(event, wire_names.TIMEOUT, SESSION_WAIT_MS)
        session_id = None if wanted is None else str(wanted)
        self.consumer = subqueue.accept_session(self, deletes, session_id, min(wait_ms, SESSION_WAIT_MS), peer.gate)

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
        faults = self.peer.services.faults
        if faults is not None and self._is_starved(faults):
            return
        self._is_asking = self._is_asking or link.credit > 0
        outlet.grant(consumer, max(0, link.credit - consumer.unsent_count), link.is_draining)

    def _is_starved(self, faults: Faults) -> bool:
        """Whether a fault keeps messages from this receiver. Credit that it had is taken back."""
        path = self._subqueue.queue.name
        try:
            faults.check_path(Right.LISTEN, path)
        except ProtocolError as error:
            self.link.detach(self.peer.tracker.sign(error, path))
            self.peer.forget(self.link)
            return True
        consumer = self.consumer
        is_starved = faults.starves(path)
        if is_starved and consumer.outlet is not None:
            consumer.outlet.grant(consumer, 0, False)
        return is_starved

    def on_disposition(self, event: DispositionReceived) -> None:
        if self.peer.services.faults is None:
            self._settle(event)
            return
        try:
            met = self.peer.meet(Right.LISTEN, self._subqueue.queue.name, partial(self._settle, event))
        except ProtocolError as error:
            self._fail_transaction(event.state, error)
            for delivery in event.deliveries:
                self._refuse(delivery, error, _operation_of(event.state))
            return
        if met is None or met.verdict is Verdict.MUTED:
            self._settle(event, is_echoed=met is None)

    def _settle(self, event: DispositionReceived, *, is_echoed: bool = True) -> None:
        state = event.state
        if isinstance(state, TransactionalState):
            self._enlist(event, state)
            return
        settled: list[OutgoingDelivery] = []
        operation = _operation_of(state)
        try:
            settle = self._settlement(state)
            for delivery in event.deliveries:
                try:
                    settle(cast("Lock", delivery.context))
                except ProtocolError as error:
                    self._refuse(delivery, error, operation)
                else:
                    settled.append(delivery)
        except ProtocolError as error:
            for delivery in event.deliveries:
                self._refuse(delivery, error, operation)
        if self.peer.gate.has_missed:
            self.peer.regulate()
        if not settled:
            return
        tally = self.meter.tally(operation)
        tally.add_many(len(settled))
        if not event.is_settled and is_echoed:
            # The outcome without its error: with one, clients take it for a failure.
            echo = Rejected() if isinstance(state, Rejected) else (state or RELEASED)
            self._subqueue.namespace.effects.replies.append((_Echo(self, settled, echo, tally, self.now_ms), None))

    def _settlement(self, state: DeliveryState | None) -> Callable[[Lock], None]:
        """What an outcome means for a message. Whatever can be wrong with it is found here, before anything is done:
        a transaction must not stop half way."""
        subqueue = self._subqueue
        if state is ACCEPTED:
            return subqueue.complete
        if isinstance(state, Modified):
            properties = checked_properties(state.message_annotations)
            if state.undeliverable_here:
                return lambda lock: subqueue.defer(lock, properties)
            return lambda lock: subqueue.abandon(lock, properties)
        if isinstance(state, Rejected):
            subqueue.check_can_dead_letter()
            info = checked_properties(None if state.error is None else state.error.info) or {}
            reason = info.pop(wire_names.DEAD_LETTER_REASON, None)
            description = info.pop(wire_names.DEAD_LETTER_ERROR_DESCRIPTION, None)
            return lambda lock: subqueue.dead_letter(lock, reason, description, info)
        return subqueue.release

    def _enlist(self, event: DispositionReceived, state: TransactionalState) -> None:
        """The settlement is part of a transaction: it is confirmed now, and happens at the discharge."""
        for delivery in event.deliveries:
            lock = cast("Lock", delivery.context)
            try:
                settle = self._settlement(state.outcome)
                transaction = self._subqueue.namespace.transactions.find(state.txn_id, self.peer)
                transaction.settle(lock, partial(settle, lock), held_bytes_of_outcome(state.outcome))
            except ProtocolError as error:
                self._fail_transaction(state, error)
                self._refuse(delivery, error, _operation_of(state.outcome))
            else:
                self.meter.tally(_operation_of(state.outcome)).add_many(1)
                self.link.settle(delivery, state)

    def _fail_transaction(self, state: DeliveryState | None, error: ProtocolError) -> None:
        """A client that has settled the delivery itself is not told of a refusal: its commit must not succeed."""
        if isinstance(state, TransactionalState):
            self._subqueue.namespace.transactions.fail(state.txn_id, self.peer, error)

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
        if self._detaching is not None:
            self._detaching.cancel()

    # --- to the client --------------------------------------------------------------------------------------

    def deliver(self, locks: list[Lock]) -> None:
        if not self._is_late:
            for lock in locks:
                self.peer.gate.owed_bytes -= lock.message.size_bytes + MESSAGE_OVERHEAD_BYTES
        faults = self.peer.services.faults
        if faults is not None and self._is_stalled(faults, partial(self._deliver_late, locks)):
            # They use up credit only when they are sent.
            self.consumer.unsent_count += len(locks)
            return
        link = self.link
        for lock in locks:
            prefix, bare = lock.take_parts()
            if link.credit <= 0 or not link.is_attached:
                # Gone in the very turn in which the message was locked for it.
                self._subqueue.release(lock)
            else:
                link.send(bare, lock.tag, prefix=prefix, context=lock)
                self._count(lock.message)
        if link.credit <= 0:
            # It got all that it asked for; what it asks for next is another receive.
            self._stop_asking()
        self.peer.endpoint.flush_soon()
        self.peer.regulate()

    def _is_stalled(self, faults: Faults, again: Callable[[], None]) -> bool:
        if self._is_late:
            return False
        return faults.stalls_delivery(self._subqueue.queue.name, partial(self.peer.turn, again))

    def _deliver_late(self, locks: list[Lock]) -> None:
        self.consumer.unsent_count -= len(locks)
        self._is_late = True
        self.deliver(locks)
        self._is_late = False
        self._finish_drain()

    def _hand_out_late(self, message: HandedOut) -> None:
        self._is_late = True
        self.hand_out(message)
        self._is_late = False

    # What is being delivered was held up, and is not held up again.
    _is_late = False

    def hand_out(self, message: HandedOut) -> None:
        if not self._is_late:
            self.peer.gate.owed_bytes -= message.message.size_bytes + MESSAGE_OVERHEAD_BYTES
        faults = self.peer.services.faults
        if faults is not None and self._is_stalled(faults, partial(self._hand_out_late, message)):
            return
        consumer = self.consumer
        consumer.unsent_count -= 1
        link = self.link
        if link.is_attached and link.credit > 0:
            # Without a lock there is no token, so the tag is empty, as the service has it.
            link.send(message.payload, b"", is_settled=True)
            self._count(message.message)
            if link.credit <= 0:
                self._stop_asking()
            self._finish_drain()
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

    def _finish_drain(self) -> None:
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
            self._accept_session()
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

    def _accept_session(self) -> None:
        outlet = self.consumer.outlet
        assert outlet is not None
        session = outlet.session
        assert session is not None
        link = self.link
        if link.is_gone:
            return
        reply = link.attach_reply()
        asked = reply.source
        assert asked is not None
        value: object = session.session_id
        if isinstance(self._filter, Described):
            value = Described(self._filter.descriptor, session.session_id)
        reply.source = _with_filter(asked, {Symbol(wire_names.SESSION_FILTER): value})
        reply.properties = {Symbol(wire_names.LOCKED_UNTIL_UTC): wire_names.ticks_of(session.locked_until_ms)}
        link.accept(reply)
        self.on_credit()


def held_bytes_of_outcome(outcome: DeliveryState | None) -> int:
    """Return what an outcome holds in memory while its transaction is open."""
    if isinstance(outcome, Modified | Rejected):
        return len(outcome.encoded()) * DECODED_BYTES_PER_BYTE
    return 0


def _operation_of(state: DeliveryState | None) -> str:
    """What an outcome is counted as."""
    if state is ACCEPTED:
        return "complete"
    if isinstance(state, Modified):
        return "defer" if state.undeliverable_here else "abandon"
    if isinstance(state, Rejected):
        return "dead-letter"
    return "abandon"


def _require_active(queue: Queue, is_active: bool) -> None:
    if not is_active:
        raise EntityDisabled(f"Messaging entity '{queue.name}' is currently disabled.")


def _with_filter(source: Source, filters: dict[object, object]) -> Source:
    return Source(
        source.address,
        durable=source.durable,
        expiry_policy=source.expiry_policy,
        timeout_s=source.timeout_s,
        dynamic=source.dynamic,
        dynamic_node_properties=source.dynamic_node_properties,
        distribution_mode=source.distribution_mode,
        filter=filters,
        default_outcome=source.default_outcome,
        outcomes=source.outcomes,
        capabilities=source.capabilities,
    )


def _text_property(event: LinkAttached, name: str) -> str | None:
    value = (event.attach.properties or {}).get(name)
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    raise ArgumentError(f"attach.properties.{name} must be a string, got {value!r:.80}", Scope.LINK)


def _number_property(event: LinkAttached, name: str, default: int) -> int:
    value = (event.attach.properties or {}).get(name)
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise ArgumentError(f"attach.properties.{name} must be a number of milliseconds, got {value!r:.80}", Scope.LINK)


def checked_properties(changes: object) -> dict[str, object] | None:
    """The properties to modify, which become application properties of the message."""
    if not changes:
        return None
    if not isinstance(changes, dict):
        raise ArgumentError(f"properties to modify must be a map, got {changes!r:.80}")
    properties = {str(key): value for key, value in changes.items()}
    try:
        size_bytes = len(encode(properties))
    except EncodeError as error:
        raise ArgumentError(f"the properties to modify cannot be stored: {error}") from None
    if size_bytes > MAX_PROPERTIES_TO_MODIFY_BYTES:
        raise ArgumentError(
            f"the properties to modify take {size_bytes} bytes; at most {MAX_PROPERTIES_TO_MODIFY_BYTES} are allowed"
        )
    return properties
