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
    decode_transaction_request,
)
from tandem.errors import DecodeError, ProtocolError, Scope

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["CoordinatorLink"]

_CREDIT: Final = 100


class CoordinatorLink:
    """The controller of transactions: when it goes, those that are open are rolled back."""

    def __init__(self, peer: Peer, event: LinkAttached) -> None:
        link = event.link
        assert isinstance(link, ReceiverLink)
        self._peer = peer
        self._link = link
        link.accept()
        link.grant(_CREDIT)

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        link = self._link
        if link.credit < _CREDIT // 2:
            link.grant(_CREDIT)
        transactions = self._peer.services.namespace.transactions
        try:
            request = decode_transaction_request(delivery.payload)
            if isinstance(request, Declare):
                identifier = transactions.declare(self._peer).identifier
                link.settle(delivery, Declared(identifier))
                self._peer.identifiers[identifier] = self
                return
            self._peer.identifiers.pop(request.txn_id, None)
            transactions.discharge(request.txn_id, self._peer, request.fail)
        except DecodeError as error:
            self._reject(delivery, DecodeError(str(error), Scope.DELIVERY))
        except ProtocolError as error:
            self._reject(delivery, error)
        else:
            self._peer.services.namespace.effects.reply(self, delivery)

    def release(self, answer: object) -> None:
        """The discharge is on disk."""
        assert isinstance(answer, IncomingDelivery)
        self._link.settle(answer, ACCEPTED)
        self._peer.endpoint.flush_soon()

    def _reject(self, delivery: IncomingDelivery, error: ProtocolError) -> None:
        self._link.settle(delivery, Rejected(AmqpError.of(error)))

    def close(self) -> None:
        mine = [identifier for identifier, link in self._peer.identifiers.items() if link is self]
        for identifier in mine:
            del self._peer.identifiers[identifier]
            self._peer.services.namespace.transactions.abandon(identifier)
