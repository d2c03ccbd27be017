"""An in-memory relay on the asyncio driver: any address is a first-in-first-out queue, nothing is durable.

It is the smallest server that exercises the whole of `tandem.amqp`: settlement in both modes, credit and drain,
transactions. Interop tests, the demonstration and `tandem bench amqp` run against it. It is no broker: messages live
as long as the process, those under way to a consumer as long as its link, and there is no lock, no limit and no
authorisation.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable

from tandem.amqp import (
    ACCEPTED,
    AmqpError,
    AuthenticationRequested,
    ConnectionClosed,
    Coordinator,
    CreditReceived,
    Declare,
    Declared,
    DeliveryState,
    DispositionReceived,
    Event,
    IncomingDelivery,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    OutgoingDelivery,
    ReceiverLink,
    Rejected,
    SenderLink,
    SessionEnded,
    SessionFailed,
    Settings,
    TransactionalState,
    decode_transaction_request,
)
from tandem.driver import Endpoint, Server
from tandem.errors import DecodeError, NotFound, ProtocolError, TransactionUnknownId

__all__ = ["Relay", "RelayQueue"]

# Deliveries. How many a sender may have under way; it is topped up at half.
SENDER_CREDIT = 2_000

# snd-settle-mode settled: the receiver wants no settlement.
SETTLED = 1


class _Consumer:
    """A link that takes messages from a queue."""

    __slots__ = ("endpoint", "is_settled", "link", "queue")

    def __init__(self, endpoint: Endpoint, link: SenderLink, queue: RelayQueue, is_settled: bool) -> None:
        self.endpoint = endpoint
        self.link = link
        self.queue = queue
        self.is_settled = is_settled


class RelayQueue:
    """Messages as they came, and the consumers that wait for them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.messages: deque[tuple[bytes, int]] = deque()
        self.rejected: list[tuple[bytes, DeliveryState]] = []
        self.consumers: deque[_Consumer] = deque()

    def deliver(self) -> None:
        """Hand messages to consumers that have credit, in turn."""
        messages = self.messages
        for _ in range(len(self.consumers)):
            if not messages:
                break
            consumer = self.consumers[0]
            self.consumers.rotate(-1)
            self._deliver_to(consumer)
        for consumer in self.consumers:
            # A drain ends when the queue is empty or the credit is used up, whichever comes first.
            if consumer.link.is_draining and consumer.link.credit and not messages:
                consumer.link.drained()
                consumer.endpoint.flush_soon()

    def _deliver_to(self, consumer: _Consumer) -> None:
        messages = self.messages
        link = consumer.link
        count = min(link.credit, len(messages))
        if count == 0 or consumer.endpoint.is_congested or not link.is_attached:
            return
        is_settled = consumer.is_settled
        for _ in range(count):
            message = messages.popleft()
            link.send(message[0], is_settled=is_settled, message_format=message[1], context=message)
        consumer.endpoint.flush_soon()


class _Transaction:
    """Work held back until its discharge."""

    def __init__(self) -> None:
        self.on_commit: list[Callable[[], None]] = []
        self.on_rollback: list[Callable[[], None]] = []


class Relay:
    """The application behind every connection of one server."""

    def __init__(self, settings: Settings | None = None, password: str | None = None) -> None:
        """With a `password` PLAIN clients must know it, whatever their user name is."""
        self.queues: dict[str, RelayQueue] = {}
        self.server = Server(settings or Settings("relay"), lambda: self)
        self._password = password
        self._transactions: dict[bytes, _Transaction] = {}
        self._transactions_made = 0

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen, and say on which port."""
        await self.server.start(host, port)
        return self.server.port

    async def close(self) -> None:
        await self.server.close()

    def queue(self, address: str) -> RelayQueue:
        queue = self.queues.get(address)
        if queue is None:
            queue = self.queues[address] = RelayQueue(address)
        return queue

    # --- Application ----------------------------------------------------------------------------------------

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        touched: set[RelayQueue] = set()
        for event in events:
            if isinstance(event, IncomingDelivery):
                queue = self._on_delivery(event)
                if queue is not None:
                    touched.add(queue)
            elif isinstance(event, DispositionReceived):
                self._on_disposition(event, touched)
            elif isinstance(event, CreditReceived):
                if isinstance(event.link.context, _Consumer):
                    touched.add(event.link.context.queue)
            else:
                self._on_rare_event(endpoint, event, touched)
        for queue in touched:
            queue.deliver()

    def on_writable(self, endpoint: Endpoint) -> None:
        for queue in self.queues.values():
            queue.deliver()

    def on_lost(self, endpoint: Endpoint) -> None:
        self._forget(lambda consumer: consumer.endpoint is endpoint)

    def _on_rare_event(self, endpoint: Endpoint, event: Event, touched: set[RelayQueue]) -> None:
        if isinstance(event, AuthenticationRequested):
            if self._password is None or event.user is None or event.password == self._password:
                endpoint.connection.accept_authentication()
            else:
                endpoint.connection.reject_authentication()
        elif isinstance(event, LinkAttached):
            self._on_attach(endpoint, event, touched)
        elif isinstance(event, LinkDetached | LinkFailed):
            self._forget(lambda consumer: consumer.link is event.link)
        elif isinstance(event, SessionEnded | SessionFailed):
            self._forget(lambda consumer: consumer.link.session is event.session)
        elif isinstance(event, ConnectionClosed):
            self.on_lost(endpoint)

    def _on_attach(self, endpoint: Endpoint, event: LinkAttached, touched: set[RelayQueue]) -> None:
        link = event.link
        if isinstance(link, ReceiverLink):
            self._on_attach_to_send(event, link)
            return
        assert isinstance(link, SenderLink)
        source = event.attach.source
        if source is None or not isinstance(source.address, str):
            link.refuse(NotFound("The messaging entity could not be found: the attach has no source address."))
            return
        queue = self.queue(source.address)
        consumer = _Consumer(endpoint, link, queue, event.attach.snd_settle_mode == SETTLED)
        link.context = consumer
        queue.consumers.append(consumer)
        touched.add(queue)
        link.accept()

    def _on_attach_to_send(self, event: LinkAttached, link: ReceiverLink) -> None:
        target = event.attach.target
        if isinstance(target, Coordinator):
            link.context = target
        elif target is not None and isinstance(target.address, str):
            link.context = self.queue(target.address)
        else:
            link.refuse(NotFound("The messaging entity could not be found: the attach has no target address."))
            return
        link.accept()
        link.grant(SENDER_CREDIT)

    def _forget(self, is_gone: Callable[[_Consumer], bool]) -> None:
        """Take out consumers that are gone. What they had not settled is gone with them: this is no broker."""
        for queue in self.queues.values():
            if any(is_gone(consumer) for consumer in queue.consumers):
                queue.consumers = deque(consumer for consumer in queue.consumers if not is_gone(consumer))

    # --- messages -------------------------------------------------------------------------------------------

    def _on_delivery(self, delivery: IncomingDelivery) -> RelayQueue | None:
        link = delivery.link
        # The peer may have detached behind its last message already: that message counts all the same.
        if link.credit * 2 <= SENDER_CREDIT and link.is_attached:
            link.grant(SENDER_CREDIT)
        queue = link.context
        if not isinstance(queue, RelayQueue):
            # Neither a queue nor a coordinator: sent behind an attach that was refused.
            if isinstance(queue, Coordinator):
                self._on_coordinator(delivery)
            return None
        if isinstance(delivery.state, TransactionalState):
            self._on_transactional_send(delivery, delivery.state, queue)
            return None
        queue.messages.append((delivery.payload, delivery.message_format))
        link.settle(delivery)
        return queue

    def _on_disposition(self, event: DispositionReceived, touched: set[RelayQueue]) -> None:
        consumer = event.link.context
        assert isinstance(consumer, _Consumer)
        state = event.state
        if not event.is_settled:
            for delivery in event.deliveries:
                event.link.settle(delivery, state)
        if state is ACCEPTED:
            return
        touched.add(consumer.queue)
        # Backwards, so that what is put back at the front keeps its order.
        for delivery in reversed(event.deliveries):
            self._apply(consumer.queue, delivery, state)

    def _apply(self, queue: RelayQueue, delivery: OutgoingDelivery, state: DeliveryState | None) -> None:
        """Accepted is gone, rejected is recorded, everything else goes back to the front."""
        message = delivery.context
        assert isinstance(message, tuple)
        if isinstance(state, TransactionalState):
            transaction = self._transactions.get(state.txn_id)
            outcome = state.outcome
            if transaction is not None:
                transaction.on_commit.append(lambda: self._apply(queue, delivery, outcome))
                transaction.on_rollback.append(lambda: self._apply(queue, delivery, None))
        elif isinstance(state, Rejected):
            queue.rejected.append((message[0], state))
        elif state is not ACCEPTED:
            queue.messages.appendleft(message)

    # --- transactions ---------------------------------------------------------------------------------------

    def _on_transactional_send(self, delivery: IncomingDelivery, state: TransactionalState, queue: RelayQueue) -> None:
        transaction = self._transactions.get(state.txn_id)
        if transaction is None:
            error = TransactionUnknownId(f"transaction {state.txn_id!r} is not declared")
            delivery.link.settle(delivery, Rejected(AmqpError.of(error)))
            return

        def commit() -> None:
            queue.messages.append((delivery.payload, delivery.message_format))
            queue.deliver()

        transaction.on_commit.append(commit)
        delivery.link.settle(delivery, TransactionalState(state.txn_id, ACCEPTED))

    def _on_coordinator(self, delivery: IncomingDelivery) -> None:
        try:
            state = self._coordinate(delivery.payload)
        except ProtocolError as error:
            state = Rejected(AmqpError.of(error))
        delivery.link.settle(delivery, state)

    def _coordinate(self, payload: bytes) -> DeliveryState:
        request = decode_transaction_request(payload)
        if isinstance(request, Declare):
            if request.global_id is not None:
                raise DecodeError(f"declare.global-id is not supported: {request.global_id!r}")
            self._transactions_made += 1
            txn_id = struct.pack(">I", self._transactions_made)
            self._transactions[txn_id] = _Transaction()
            return Declared(txn_id)
        transaction = self._transactions.pop(request.txn_id, None)
        if transaction is None:
            raise TransactionUnknownId(f"transaction {request.txn_id!r} is not declared")
        for step in transaction.on_rollback if request.fail else transaction.on_commit:
            step()
        return ACCEPTED
