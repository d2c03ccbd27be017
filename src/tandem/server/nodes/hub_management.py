"""`$management` of the namespace: what event hubs and their partitions are, and how far they have come."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tandem.addresses import Address, parse_address
from tandem.amqp import ACCEPTED, AmqpError, IncomingDelivery, LinkAttached, Message, ReceiverLink, Rejected
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import STRING_TYPE, Array, Int, Symbol, Timestamp
from tandem.auth import Right
from tandem.engine.hubs.event import offset_of
from tandem.engine.hubs.hub import EventHub
from tandem.errors import ArgumentError, DecodeError, OperationNotImplemented, ProtocolError
from tandem.server.nodes.coordinator import refuses_transaction
from tandem.server.nodes.event_hub import NO_EVENT_TIME_MS
from tandem.server.nodes.responses import find_response_link

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["HubManagementLink"]

# Requests. As the service grants.
_CREDIT: Final = 100

_HUB: Final = "com.microsoft:eventhub"
_PARTITION: Final = "com.microsoft:partition"


class HubManagementLink:
    """The link on which requests about hubs arrive. Each request names its hub."""

    def __init__(self, peer: Peer, event: LinkAttached, address: Address) -> None:
        link = event.link
        assert isinstance(link, ReceiverLink)
        self.peer = peer
        self.address = address
        self.link = link
        link.accept()
        link.grant(_CREDIT)

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        link = self.link
        if link.credit < _CREDIT // 2:
            link.grant(_CREDIT)
        if refuses_transaction(link, delivery, self.address.resource):
            return
        try:
            message = Message(delivery.payload)
            properties = message.properties or Properties()
            asked = message.application_properties or {}
        except DecodeError as error:
            link.settle(delivery, Rejected(AmqpError.of(error)))
            return
        link.settle(delivery, ACCEPTED)
        self._answer(properties, asked, is_new=True)

    def _answer(self, properties: Properties, asked: dict[str, object], *, is_new: bool) -> None:
        """Answer a request, unless a fault withholds the answer. One that was delayed is not new."""
        body: dict[str, object] = {}
        try:
            hub = self._admitted(asked)
            if is_new and self.peer.meet(Right.LISTEN, hub, partial(self._answer, properties, asked, is_new=False)):
                return
            body = self._read(asked, hub)
            status, description, condition = 200, "OK", None
        except ProtocolError as error:
            status, condition = error.http_status, error.condition
            description = self.peer.tracker.text(error.description, str(asked.get("name", "")))
        answer: dict[str, object] = {
            "status-code": Int(status),
            "status-description": description,
            "operation": asked.get("operation"),
        }
        if condition is not None:
            answer["error-condition"] = Symbol(condition)
        response = find_response_link(self.peer.response_links, self.address.resource, properties.reply_to, self.link)
        if response is not None:
            response.send(
                encode_message(
                    properties=Properties(correlation_id=properties.message_id),
                    application_properties=answer,
                    value=body,
                )
            )

    def _admitted(self, asked: dict[str, object]) -> str:
        """Return the path of the hub that a request is about, if the client may read it."""
        peer = self.peer
        if peer.services.admission is not None:
            # Readers ask for partitions before they receive.
            peer.services.admission.check_settlement(peer.services.namespace.now_ms)
        operation = asked.get("operation")
        if operation != "READ":
            raise OperationNotImplemented(f"operation is {operation!r:.80}; $management has READ")
        name = asked.get("name")
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"name must be the name of an event hub, got {name!r:.80}")
        address = parse_address(str(name))
        # Some SDKs put a token for the hub, others one for its $management.
        if not peer.claims.rights_for(parse_address(f"{name}/{self.address.resource}").resource, peer.now_s()):
            peer.require(Right.LISTEN, address)
        return address.path

    def _read(self, asked: dict[str, object], path: str) -> dict[str, object]:
        hub = self.peer.services.namespace.hubs.get(path)
        kind = asked.get("type")
        if kind == _HUB:
            return _describe(hub)
        if kind == _PARTITION:
            return _describe_partition(hub, str(asked.get("partition")))
        raise ArgumentError(f"type is {kind!r:.80}; it must be {_HUB} or {_PARTITION}")

    def close(self) -> None:
        """Answers find no link, and that is all."""


def _describe(hub: EventHub) -> dict[str, object]:
    return {
        "name": hub.name,
        "type": _HUB,
        "created_at": Timestamp(hub.created_at_ms),
        "partition_count": Int(len(hub.partitions)),
        "partition_ids": Array(STRING_TYPE, [str(one.partition_id) for one in hub.partitions]),
        "georeplication_factor": Int(1),
    }


def _describe_partition(hub: EventHub, partition_id: str) -> dict[str, object]:
    partition = hub.partition(partition_id)
    at_ms = partition.last_enqueued_at_ms
    return {
        "name": hub.name,
        "type": _PARTITION,
        "partition": str(partition.partition_id),
        "begin_sequence_number": partition.begin_sequence_number,
        "begin_sequence_number_epoch": Int(-1),
        "last_enqueued_sequence_number": partition.last_sequence_number,
        "last_enqueued_sequence_number_epoch": Int(-1),
        "last_enqueued_offset": offset_of(partition.last_sequence_number),
        "last_enqueued_time_utc": Timestamp(NO_EVENT_TIME_MS if at_ms is None else at_ms),
        "is_partition_empty": partition.is_empty,
    }
