"""Link credit (AMQP 1.0 part 2.6.7), one object for each end.

Both ends count deliveries in `delivery_count`, a number that wraps at 2^32; credit is always stated relative to it,
so that a flow that crosses deliveries under way still means the same on both sides.
"""

from __future__ import annotations

from tandem.amqp.windows import add, distance, is_ahead
from tandem.errors import StateError

__all__ = ["ReceiverCredit", "SenderCredit"]


class SenderCredit:
    """What we may still send on a link."""

    __slots__ = ("credit", "delivery_count", "is_draining")

    def __init__(self) -> None:
        self.delivery_count = 0
        self.credit = 0
        self.is_draining = False

    def on_flow(self, delivery_count: int | None, link_credit: int | None, drain: bool) -> None:
        """Take the receiver's view: it grants `link_credit` counted from the `delivery_count` it has seen.

        A receiver that does not know our count yet leaves it out; it then means our initial one, which is 0.
        """
        if link_credit is not None:
            seen = 0 if delivery_count is None else delivery_count
            under_way = distance(self.delivery_count, seen)
            # A receiver that claims to have seen more than we sent is wrong about the past, not about its wish.
            if is_ahead(seen, self.delivery_count):
                under_way = 0
            self.credit = max(0, link_credit - under_way)
        self.is_draining = drain

    def take(self) -> None:
        """Use one credit for a delivery."""
        if self.credit <= 0:
            raise StateError("the link has no credit; wait for CreditReceived before sending")
        self.credit -= 1
        self.delivery_count = add(self.delivery_count, 1)

    def drained(self) -> None:
        """Nothing more to send: use up what is left, as a draining receiver asked (part 2.6.7)."""
        self.delivery_count = add(self.delivery_count, self.credit)
        self.credit = 0


class ReceiverCredit:
    """What the peer may still send us on a link."""

    __slots__ = ("credit", "delivery_count", "is_draining", "overrun")

    def __init__(self) -> None:
        self.delivery_count = 0
        self.credit = 0
        self.overrun = 0
        self.is_draining = False

    def grant(self, credit: int, drain: bool) -> None:
        """Let the peer have `credit` deliveries from now on, whatever it had before."""
        self.credit = credit
        self.overrun = 0
        self.is_draining = drain

    def on_delivery(self) -> None:
        """Count a delivery. Senders exist that do not look at credit: what they send beyond it is overrun."""
        self.delivery_count = add(self.delivery_count, 1)
        if self.credit > 0:
            self.credit -= 1
        else:
            self.overrun += 1

    def on_flow(self, delivery_count: int | None) -> bool:
        """Take the sender's count; true when it says that it has nothing more for a drain.

        It may be ahead by more than the credit: a drained flow can cross a smaller grant. A count behind ours, which
        no sender should have, is left alone.
        """
        if delivery_count is None:
            return False
        if delivery_count != self.delivery_count and not is_ahead(delivery_count, self.delivery_count):
            return False
        self.credit = max(0, self.credit - distance(delivery_count, self.delivery_count))
        self.delivery_count = delivery_count
        was_drained = self.is_draining and self.credit == 0
        if was_drained:
            self.is_draining = False
        return was_drained
