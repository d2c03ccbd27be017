"""`$cbs`: a client puts a token for an audience, and has the rights of that token on this connection."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tandem.addresses import parse_address
from tandem.amqp import ACCEPTED, AmqpError, IncomingDelivery, LinkAttached, Message, Rejected
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import Int, Symbol
from tandem.errors import ArgumentError, DecodeError, InvalidToken, NotFound, OperationNotImplemented, ProtocolError
from tandem.limits import MAX_CBS_REQUEST_BYTES
from tandem.server.faults.active_faults import Faults
from tandem.server.nodes.coordinator import refuses_transaction
from tandem.server.nodes.request_links import accept_requests, top_up
from tandem.server.nodes.responses import find_response_link
from tandem.wire_names import CBS_NODE

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["CbsLink"]

# Requests. As the service grants.
_CREDIT: Final = 100


class CbsLink:
    """The link on which tokens arrive."""

    def __init__(self, peer: Peer, event: LinkAttached) -> None:
        self._peer = peer
        self._link = accept_requests(event, MAX_CBS_REQUEST_BYTES, _CREDIT)

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        link = self._link
        top_up(link, _CREDIT)
        if not refuses_transaction(link, delivery, CBS_NODE):
            self._take(delivery, is_new=True)

    def _take(self, delivery: IncomingDelivery, *, is_new: bool) -> None:
        link = self._link
        try:
            message = Message(delivery.payload)
            properties = message.properties or Properties()
            faults = self._peer.services.faults
            if faults is not None and is_new and self._is_held_up(delivery, faults):
                return
            status, description, condition = self._answer(message)
        except DecodeError as error:
            link.settle(delivery, Rejected(AmqpError.of(error)))
            return
        link.settle(delivery, ACCEPTED)
        respond = partial(self._respond, properties, status, description, condition)
        if condition == InvalidToken.condition:
            self._peer.after_failure(respond)
        else:
            respond()

    def _respond(self, properties: Properties, status: int, description: str, condition: str | None) -> None:
        link = self._link
        response = find_response_link(self._peer.response_links, CBS_NODE, properties.reply_to, link)
        if response is None:
            return
        outcome: dict[str, object] = {"status-code": Int(status), "status-description": description}
        if condition is not None:
            outcome["error-condition"] = Symbol(condition)
        response.send(
            encode_message(properties=Properties(correlation_id=properties.message_id), application_properties=outcome)
        )

    def _answer(self, message: Message) -> tuple[int, str, str | None]:
        request = message.application_properties or {}
        audience = request.get("name")
        try:
            if request.get("operation") != "put-token":
                raise OperationNotImplemented(f"$cbs has the operation put-token, not {request.get('operation')!r:.80}")
            if not isinstance(audience, str):
                raise ArgumentError(f"application-properties.name must be the audience, a string; got {audience!r:.80}")
            token = message.value
            if not isinstance(token, str):
                raise ArgumentError("the body of put-token must be an amqp-value that holds the token as a string")
            self._put(token, str(audience))
        except DecodeError:
            raise
        except ProtocolError as error:
            return error.http_status, self._peer.tracker.text(error.description, str(audience)[:80]), error.condition
        return 202, "Accepted", None

    def _put(self, token: str, audience: str) -> None:
        peer = self._peer
        if peer.services.faults is not None:
            peer.services.faults.check_authentication()
        claims = peer.verify_token(token, audience)
        # Valid for something, if not for this entity: the client is no stranger.
        peer.mark_authenticated()
        address = parse_address(audience)
        # Only a client with a valid token learns which entities exist.
        if address.entity and not peer.services.namespace.has_entity(address.entity):
            raise NotFound(
                f"The messaging entity '{audience}' could not be found. To know more visit "
                "https://aka.ms/sbResourceMgrExceptions."
            )
        peer.put_claims(claims)

    def _is_held_up(self, delivery: IncomingDelivery, faults: Faults) -> bool:
        again = partial(self._peer.turn, partial(self._take, delivery, is_new=False))
        return faults.holds_up_authentication(again)

    def close(self) -> None:
        """Claims outlive the link they came on."""
