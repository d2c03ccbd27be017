"""A message on its way over a link: what is known of it on this side until both have settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.events import Event

if TYPE_CHECKING:
    from tandem.amqp.link import ReceiverLink, SenderLink

__all__ = ["IncomingDelivery", "OutgoingDelivery"]


class IncomingDelivery(Event):
    """A whole message arrived; settle it unless `is_settled`. `payload` is the bytes received, nothing decoded."""

    __slots__ = (
        "context",
        "delivery_id",
        "delivery_tag",
        "is_settled",
        "link",
        "message_format",
        "payload",
        "state",
        "undecided_bytes",
    )

    def __init__(
        self,
        link: ReceiverLink,
        delivery_id: int,
        delivery_tag: bytes,
        message_format: int,
        is_settled: bool,
        state: DeliveryState | None,
        payload: bytes,
    ) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.message_format = message_format
        self.is_settled = is_settled
        self.state = state
        self.payload = payload
        # What it counts for in the connection's books until the application has told its outcome.
        self.undecided_bytes = 0
        # Whatever the application wants to find again when the delivery is updated.
        self.context: object = None

    def __repr__(self) -> str:
        return f"IncomingDelivery(id={self.delivery_id}, tag={self.delivery_tag!r}, {len(self.payload)} bytes)"


class OutgoingDelivery:
    """A message to the peer. It is kept in the session while unsettled; its payload is not."""

    __slots__ = ("context", "delivery_id", "delivery_tag", "is_settled", "link", "state")

    def __init__(
        self, link: SenderLink, delivery_id: int, delivery_tag: bytes, is_settled: bool, context: object
    ) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.is_settled = is_settled
        # What the receiver last said of it.
        self.state: DeliveryState | None = None
        self.context = context

    def __repr__(self) -> str:
        return f"OutgoingDelivery(id={self.delivery_id}, tag={self.delivery_tag!r})"
