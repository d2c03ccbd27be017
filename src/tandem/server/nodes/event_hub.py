"""Links to and from an event hub: `EventIngress` takes what clients send, `EventEgress` gives what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem import wire_names
from tandem.addresses import Address, HubPath
from tandem.amqp import IncomingDelivery, LinkAttached, ReceiverLink, SenderLink
from tandem.amqp.sections import NO_ENTRIES, Entries
from tandem.amqp.types import Int, Short, Symbol, Timestamp
from tandem.engine.hubs.description import DEFAULT_CONSUMER_GROUP, OPERATIONS_HUB
from tandem.engine.hubs.event import offset_of, size_of
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.partition import Partition
from tandem.engine.hubs.position import START, parse_selector
from tandem.engine.hubs.producers import read_number
from tandem.engine.hubs.receiver import EventDelivery
from tandem.engine.hubs.record import ProducerMark
from tandem.errors import ArgumentError, ArgumentOutOfRange, NotAllowed, ProtocolError, Scope
from tandem.server.nodes.acknowledging import Acknowledging
from tandem.server.nodes.attaching import SETTLED, sending_properties
from tandem.server.nodes.link_filters import LinkFilters
from tandem.server.nodes.link_meter import LinkMeter
from tandem.wire_names import RECEIVER_EPOCH

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["NO_EVENT_TIME_MS", "EventEgress", "EventIngress"]

# Deliveries that a client may send ahead. As the service grants for a hub.
_CREDIT: Final = 300

# Milliseconds. The first moment of the year 1: when the last event of an empty partition came.
NO_EVENT_TIME_MS: Final = -wire_names.TICKS_OF_1970 // wire_names.TICKS_PER_MS

_MAX_EPOCH: Final = 0x7FFF_FFFF_FFFF_FFFF

_PROPERTIES: Final = "attach.properties"

# New ids of idempotent producers have 31 bits: clients keep them as floating-point numbers.
_MAX_PRODUCER_ID: Final = 0x7FFF_FFFF


class EventIngress(Acknowledging):
    """A client sends to a hub, to one of its partitions, or as a publisher."""

    def __init__(self, peer: Peer, event: LinkAttached, hub: EventHub, path: HubPath, address: Address) -> None:
        link = event.link
        assert isinstance(link, ReceiverLink)
        if path.consumer_group is not None:
            raise NotAllowed(f"Events cannot be sent to '{address.path}': send them to the hub.", Scope.LINK)
        if not hub.description.can_send:
            raise hub.disabled()
        super().__init__(peer, link, address, hub, _CREDIT)
        self._hub = hub
        self._partition: Partition | None = None if path.partition_id is None else hub.partition(path.partition_id)
        if hub.name == OPERATIONS_HUB:
            # What clients report of themselves; they cannot speak for the broker.
            self._partition = hub.partitions[-1]
        self._publisher = path.publisher
        self._producer: ProducerMark | None = None
        limit = hub.description.max_event_size_bytes
        reply = link.attach_reply()
        reply.max_message_size = limit
        properties = sending_properties(limit)
        partition = self._partition
        # Numbers are those of one partition. The .NET SDK also asks for them on a link to the whole hub, which it opens
        # to learn the size of a batch: that link is not offered any.
        if partition is not None and wire_names.IDEMPOTENT_PRODUCER in (event.attach.desired_capabilities or []):
            self._open_producer(event, partition, properties)
            reply.offered_capabilities = [Symbol(wire_names.IDEMPOTENT_PRODUCER)]
        reply.properties = properties
        link.accept(reply)
        link.grant(_CREDIT)

    def _open_producer(self, event: LinkAttached, partition: Partition, properties: dict[object, object]) -> None:
        """Take up the numbers of a producer that repeats sends without storing events twice, and report them."""
        asked = event.attach.properties or {}
        producer_id = read_number(asked, wire_names.PRODUCER_ID, _PROPERTIES, Scope.LINK)
        if producer_id is None:
            nonce = self._namespace.nonces.next()
            producer_id = int.from_bytes(nonce[:4], "big") & _MAX_PRODUCER_ID
        epoch = read_number(asked, wire_names.PRODUCER_EPOCH, _PROPERTIES, Scope.LINK)
        number = read_number(asked, wire_names.PRODUCER_SEQUENCE_NUMBER, _PROPERTIES, Scope.LINK)
        mark = partition.producers.open(producer_id, 0 if epoch is None else epoch, number)
        self._producer = mark
        properties[Symbol(wire_names.PRODUCER_ID)] = mark.producer_id
        properties[Symbol(wire_names.PRODUCER_EPOCH)] = Short(mark.epoch)
        properties[Symbol(wire_names.PRODUCER_SEQUENCE_NUMBER)] = Int(mark.sequence_number)

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        try:
            admission = self.peer.services.admission
            if admission is not None:
                admission.check_send(self._hub.name, self._namespace.now_ms, False)
            count = self._take(delivery)
        except ProtocolError as error:
            self.refuse(delivery, error)
            return
        self.acknowledge_later(delivery, count)

    def take_unanswered(self, delivery: IncomingDelivery) -> None:
        self._take(delivery)

    def _take(self, delivery: IncomingDelivery) -> int:
        """Take the events of a delivery without acknowledging it. Return how many there are."""
        if delivery.state is not None:
            raise NotAllowed("Event hubs take no part in transactions.", Scope.DELIVERY)
        hub = self._hub
        units_before = hub.billable_units
        count = hub.send(delivery.payload, delivery.message_format, self._partition, self._publisher, self._producer)
        self._sends.add_batch(count, len(delivery.payload), hub.billable_units - units_before)
        return count


class EventEgress:
    """A client reads a partition. What it is sent is settled at once: nothing is ever taken from a hub."""

    def __init__(self, peer: Peer, event: LinkAttached, hub: EventHub, path: HubPath, address: Address) -> None:
        link = event.link
        assert isinstance(link, SenderLink)
        if path.partition_id is None:
            raise ArgumentError(
                f"'{address.path}' names no partition: events are read from 'hub/ConsumerGroups/group/Partitions/0'.",
                Scope.LINK,
            )
        group = hub.consumer_group(path.consumer_group or DEFAULT_CONSUMER_GROUP)
        partition = hub.partition(path.partition_id)
        if not hub.description.can_receive:
            raise hub.disabled()
        self.peer = peer
        self.link = link
        self.address = address
        self.partition = partition
        self._receives = LinkMeter(peer, hub.name, "hub").tally("receive")
        self._has_metrics = wire_names.RECEIVER_RUNTIME_METRIC in (event.attach.desired_capabilities or [])
        epoch = _owner_level(event)
        name = (event.attach.properties or {}).get(wire_names.RECEIVER_NAME)
        filters = LinkFilters(event)
        # Without a filter everything is wanted.
        position = START if filters.selector is None else parse_selector(filters.selector)
        receiver_name = str(name)[:64] if isinstance(name, str) else None
        self.receiver = partition.open_receiver(self, group, epoch, receiver_name, position, peer.gate)
        reply = link.attach_reply()
        reply.snd_settle_mode = SETTLED
        if reply.source is not None:
            reply.source.filter = filters.in_force()
        link.accept(reply)

    # --- from the client ------------------------------------------------------------------------------------

    def on_credit(self) -> None:
        receiver = self.receiver
        link = self.link
        if receiver.is_open:
            self.partition.grant(receiver, max(0, link.credit - receiver.unsent_count), link.is_draining)

    def resume(self) -> None:
        """The connection takes more again."""
        self.partition.wake(self.receiver)

    def close(self) -> None:
        self.partition.close_receiver(self.receiver)

    # --- to the client --------------------------------------------------------------------------------------

    def deliver_events(self, delivery: EventDelivery) -> None:
        self.peer.gate.owed_bytes -= size_of(delivery.events)
        receiver = self.receiver
        link = self.link
        events = delivery.events
        if events:
            receiver.unsent_count -= len(events)
            # Whoever was displaced in this very turn gets nothing more.
            if link.is_attached and receiver.is_open:
                metrics = self._metrics() if self._has_metrics else NO_ENTRIES
                receives = self._receives
                for event in events:
                    link.send(event.encoded(metrics), b"", is_settled=True)
                    receives.add(event.size_bytes)
                waited_ms = self.partition.hub.namespace.now_ms - events[-1].enqueued_at_ms
                receives.add_latency(waited_ms, len(events))
        if delivery.is_drained and link.is_draining:
            link.drained()
        error = delivery.error
        if error is not None and not link.is_gone:
            assert isinstance(error, ProtocolError)
            link.detach(self.peer.tracker.sign(error, self.address.path))
            self.peer.forget(link)
        self.peer.endpoint.flush_soon()
        self.peer.regulate()

    def _metrics(self) -> Entries:
        """Return how far the partition is, for a client that asked to get it with each event."""
        partition = self.partition
        last = partition.last_sequence_number
        at_ms = partition.last_enqueued_at_ms
        return Entries.with_symbol_keys(
            {
                "last_enqueued_sequence_number_epoch": Int(-1),
                "last_enqueued_sequence_number": last,
                "last_enqueued_offset": offset_of(last),
                "last_enqueued_time_utc": Timestamp(NO_EVENT_TIME_MS if at_ms is None else at_ms),
                "runtime_info_retrieval_time_utc": Timestamp(partition.hub.namespace.now_ms),
            }
        )


def _owner_level(event: LinkAttached) -> int | None:
    value = (event.attach.properties or {}).get(RECEIVER_EPOCH)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(f"{_PROPERTIES}.{RECEIVER_EPOCH} must be a number, got {value!r:.80}", Scope.LINK)
    if not 0 <= value <= _MAX_EPOCH:
        raise ArgumentOutOfRange(
            f"{_PROPERTIES}.{RECEIVER_EPOCH} is {int(value)}; allowed are 0 to {_MAX_EPOCH}.", Scope.LINK
        )
    return int(value)
