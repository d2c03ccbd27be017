"""What a session holds back until the peer's incoming window opens (AMQP 1.0 part 2.5.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.amqp.deliveries import OutgoingDelivery
from tandem.amqp.delivery_states import DeliveryState

if TYPE_CHECKING:
    from tandem.amqp.link import SenderLink

__all__ = ["Pending", "PendingFlow", "PendingTransfer"]


class Pending:
    """What waits for the peer's incoming window, or behind something that does."""

    __slots__ = ("link",)

    def __init__(self, link: SenderLink) -> None:
        self.link = link


class PendingFlow(Pending):
    """A flow that must not overtake the deliveries of its link that it counts.

    A link has one at most behind its last waiting delivery, and a newer flow changes it: a peer that asks for flows
    while its window is shut cannot make us hold more of them.
    """

    __slots__ = ("available", "delivery_count", "drain", "link_credit")

    def __init__(self, link: SenderLink) -> None:
        super().__init__(link)
        self.delivery_count = 0
        self.link_credit = 0
        self.available = 0
        self.drain = False

    def update(self, delivery_count: int, link_credit: int, available: int, drain: bool) -> None:
        self.delivery_count = delivery_count
        self.link_credit = link_credit
        self.available = available
        self.drain = drain


class PendingTransfer(Pending):
    """A delivery, whole or what is left of it."""

    __slots__ = ("delivery", "message_format", "offset", "payload", "state")

    def __init__(
        self, delivery: OutgoingDelivery, payload: bytes, message_format: int, state: DeliveryState | None
    ) -> None:
        super().__init__(delivery.link)
        self.delivery = delivery
        self.payload = payload
        self.message_format = message_format
        self.state = state
        self.offset = 0
