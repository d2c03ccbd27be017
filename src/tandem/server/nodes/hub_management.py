"""`$management` of the namespace: read the properties of event hubs and of their partitions.

Each request is authorised by the `security_token` that it carries, or, without one, by the tokens put to `$cbs` of its
connection. The SDKs of Java and .NET attach these links before they put any token, and rely on `security_token` alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tandem.addresses import Address, parse_address
from tandem.amqp import ACCEPTED, AmqpError, IncomingDelivery, LinkAttached, Message, Rejected
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import STRING_TYPE, Array, Int, Symbol, Timestamp
from tandem.auth import ClaimSet, Right
from tandem.engine.hubs.event import offset_of
from tandem.engine.hubs.hub import EventHub
from tandem.errors import ArgumentError, DecodeError, InvalidToken, OperationNotImplemented, ProtocolError
from tandem.limits import MAX_HUB_MANAGEMENT_REQUEST_BYTES
from tandem.server.nodes.coordinator import refuses_transaction
from tandem.server.nodes.event_hub import NO_EVENT_TIME_MS
from tandem.server.nodes.request_links import accept_requests, top_up
from tandem.server.nodes.responses import find_response_link
from tandem.wire_names import TYPE_EVENT_HUB, TYPE_PARTITION

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["HubManagementLink"]

# Requests. As the service grants.
_CREDIT: Final = 100


class HubManagementLink:
    """The link on which requests about hubs arrive. Each request names its hub."""

    def __init__(self, peer: Peer, event: LinkAttached, address: Address) -> None:
        self.peer = peer
        self.address = address
        self.link = accept_requests(event, MAX_HUB_MANAGEMENT_REQUEST_BYTES, _CREDIT)

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        link = self.link
        top_up(link, _CREDIT)
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
            description = self.peer.tracker.text(error.description, str(asked.get("name", ""))[:80])
        answer: dict[str, object] = {
            "status-code": Int(status),
            "status-description": description,
            "operation": asked.get("operation"),
        }
        if condition is not None:
            answer["error-condition"] = Symbol(condition)
        respond = partial(self._respond, properties, answer, body)
        if condition == InvalidToken.condition and "security_token" in asked:
            self.peer.after_failure(respond)
        else:
            respond()

    def _respond(self, properties: Properties, answer: dict[str, object], body: dict[str, object]) -> None:
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
        """Return the path of the hub that a request is about. Raise if the client may not read that hub."""
        operation = asked.get("operation")
        if operation != "READ":
            raise OperationNotImplemented(f"operation is {operation!r:.80}; $management has READ")
        name = asked.get("name")
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"name must be the name of an event hub, got {name!r:.80}")
        address = parse_address(str(name))
        self._authorise(asked, address)
        services = self.peer.services
        if services.admission is not None:
            # Readers ask for partitions before they receive.
            services.admission.check_settlement(services.namespace.now_ms)
        return address.path

    def _authorise(self, asked: dict[str, object], hub: Address) -> None:
        """Require any right on the hub, of the token in the request or else of the connection.

        A valid token on the connection does not excuse a wrong one in the request: that is how a client learns that
        its key was rotated.
        """
        peer = self.peer
        # Some SDKs sign a token for the hub, others one for its $management, which the hub's resource holds.
        address = parse_address(f"{hub.path}/{self.address.resource}")
        node = peer.services.namespace.resource_of(address)
        claims = peer.claims
        token = asked.get("security_token")
        if token is not None:
            claims = ClaimSet()
            claims.put(peer.verify_token(_token_text(token), address.resource))
        if not claims.rights_for(node, peer.now_s()):
            claims.require(Right.LISTEN, node, f"sb://{peer.services.host_name}/{hub.path}", peer.now_s())
        peer.mark_authenticated()

    def _read(self, asked: dict[str, object], path: str) -> dict[str, object]:
        hub = self.peer.services.namespace.hubs.get(path)
        kind = asked.get("type")
        if kind == TYPE_EVENT_HUB:
            return _describe(hub)
        if kind == TYPE_PARTITION:
            return _describe_partition(hub, str(asked.get("partition")))
        raise ArgumentError(f"type is {kind!r:.80}; it must be {TYPE_EVENT_HUB} or {TYPE_PARTITION}")

    def close(self) -> None:
        """Do nothing: the link holds no state."""


def _token_text(token: object) -> str:
    if isinstance(token, bytes):
        return token.decode("ascii", "replace")
    if isinstance(token, str):
        return str(token)
    raise ArgumentError(f"security_token must be a token as a string, got a {type(token).__name__}")


def _describe(hub: EventHub) -> dict[str, object]:
    return {
        "name": hub.name,
        "type": TYPE_EVENT_HUB,
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
        "type": TYPE_PARTITION,
        "partition": str(partition.partition_id),
        # -1 before the first event: 0 would be the number of an event.
        "begin_sequence_number": partition.begin_sequence_number if partition.next_sequence_number else -1,
        "begin_sequence_number_epoch": Int(-1),
        "last_enqueued_sequence_number": partition.last_sequence_number,
        "last_enqueued_sequence_number_epoch": Int(-1),
        "last_enqueued_offset": offset_of(partition.last_sequence_number),
        "last_enqueued_time_utc": Timestamp(NO_EVENT_TIME_MS if at_ms is None else at_ms),
        "is_partition_empty": partition.is_empty,
    }
