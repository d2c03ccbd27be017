"""The coordinator: a link on which transactions are declared and discharged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.amqp import (
    ACCEPTED,
    AmqpError,
    Declare,
    Declared,
    IncomingDelivery,
    LinkAttached,
    ReceiverLink,
    Rejected,
    TransactionalState,
    decode_transaction_request,
)
from tandem.errors import DecodeError, NotAllowed, ProtocolError, QuotaExceeded, Scope
from tandem.limits import MAX_COORDINATOR_REQUEST_BYTES, MAX_TRANSACTIONS_BEFORE_AUTHENTICATION
from tandem.server.nodes.request_links import accept_requests, top_up

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["CoordinatorLink", "refuses_transaction"]

_CREDIT: Final = 100


class CoordinatorLink:
    """The controller of transactions: when it goes, those that are open are rolled back.

    It needs no token. SDKs declare a transaction before they put their first one; every operation inside a transaction
    is on a link, or in a request, that needs one.
    """

    def __init__(self, peer: Peer, event: LinkAttached) -> None:
        self.peer = peer
        self._link = accept_requests(event, MAX_COORDINATOR_REQUEST_BYTES, _CREDIT)

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        link = self._link
        top_up(link, _CREDIT)
        try:
            request = decode_transaction_request(delivery.payload)
            if isinstance(request, Declare):
                link.settle(delivery, Declared(self._declare()))
                return
        except DecodeError as error:
            self.reject(delivery, DecodeError(str(error), Scope.DELIVERY))
            return
        except ProtocolError as error:
            self.reject(delivery, error)
            return
        self.peer.identifiers.pop(request.txn_id, None)
        transactions = self.peer.services.namespace.transactions
        transactions.discharge(request.txn_id, self.peer, request.fail, _Discharging(self, delivery))

    def _declare(self) -> bytes:
        peer = self.peer
        transactions = peer.services.namespace.transactions
        if not peer.is_authenticated and transactions.count_of(peer) >= MAX_TRANSACTIONS_BEFORE_AUTHENTICATION:
            raise QuotaExceeded(
                f"The connection has {transactions.count_of(peer)} open transactions, as many as are allowed before a "
                "token is put to $cbs. Put one, or discharge a transaction first."
            )
        identifier = transactions.declare(peer).identifier
        peer.identifiers[identifier] = self
        return identifier

    def accept(self, delivery: IncomingDelivery) -> None:
        self._link.settle(delivery, ACCEPTED)
        self.peer.endpoint.flush_soon()

    def reject(self, delivery: IncomingDelivery, error: ProtocolError) -> None:
        self._link.settle(delivery, Rejected(AmqpError.of(error)))
        self.peer.endpoint.flush_soon()

    def close(self) -> None:
        mine = [identifier for identifier, link in self.peer.identifiers.items() if link is self]
        for identifier in mine:
            del self.peer.identifiers[identifier]
            self.peer.services.namespace.transactions.abandon(identifier)


class _Discharging:
    """A discharge under way."""

    __slots__ = ("_delivery", "_link")

    def __init__(self, link: CoordinatorLink, delivery: IncomingDelivery) -> None:
        self._link = link
        self._delivery = delivery

    @property
    def peer(self) -> Peer:
        return self._link.peer

    def release(self, answer: object) -> None:
        """The discharge is on disk, or was refused."""
        if isinstance(answer, ProtocolError):
            self._link.reject(self._delivery, answer)
        else:
            self._link.accept(self._delivery)


def refuses_transaction(link: ReceiverLink, delivery: IncomingDelivery, node: str) -> bool:
    """Reject a request to a node without transactions if it names one: nothing is done outside of a transaction that
    was to be part of it."""
    if not isinstance(delivery.state, TransactionalState):
        return False
    error = NotAllowed(f"Requests to '{node}' cannot be part of a transaction. Send it without one.", Scope.DELIVERY)
    link.settle(delivery, Rejected(AmqpError.of(error)))
    return True
