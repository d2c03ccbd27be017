"""Delivery-ids that the peer used again before their first delivery was settled.

AMQP forbids it (part 2.6.12), yet the Python SDK does it whenever two of its requests are sent at the same time, and
takes one disposition for the answer to both. So all deliveries under one id get one answer, once each of them is
decided: accepted only if all are accepted, and otherwise the first outcome that is not. An earlier answer could
confirm a message that is not on disk yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.amqp.deliveries import IncomingDelivery
from tandem.amqp.delivery_states import ACCEPTED, DeliveryState
from tandem.amqp.windows import distance

if TYPE_CHECKING:
    from tandem.amqp.link import ReceiverLink

__all__ = ["SharedId", "SharedIds"]


class SharedId:
    """One delivery-id: its undecided deliveries, and the common outcome of the others."""

    __slots__ = ("decided_links", "delivery_id", "outcome", "undecided")

    def __init__(self, delivery_id: int) -> None:
        self.delivery_id = delivery_id
        # In the order in which they came; a dict finds one of thousands at once.
        self.undecided: dict[IncomingDelivery, None] = {}
        self.outcome: DeliveryState | None = ACCEPTED
        # Links that still expect the answer. A set, because a link may share the id any number of times.
        self.decided_links: set[ReceiverLink] = set()


class SharedIds:
    """The shared delivery-ids of a session. There are none unless the peer breaks the rule."""

    __slots__ = ("_by_id", "undecided_count")

    def __init__(self) -> None:
        self._by_id: dict[int, SharedId] = {}
        self.undecided_count = 0

    def __contains__(self, delivery_id: int) -> bool:
        return delivery_id in self._by_id

    def add(self, delivery: IncomingDelivery) -> None:
        shared = self._by_id.get(delivery.delivery_id)
        if shared is None:
            shared = self._by_id[delivery.delivery_id] = SharedId(delivery.delivery_id)
        shared.undecided[delivery] = None
        self.undecided_count += 1

    def has_undecided(self, delivery: IncomingDelivery) -> bool:
        shared = self._by_id.get(delivery.delivery_id)
        return shared is not None and delivery in shared.undecided

    def decide(self, delivery: IncomingDelivery, outcome: DeliveryState | None) -> SharedId | None:
        """Record the outcome of an undecided delivery. Return its id if that can be answered now, and forget it."""
        shared = self._by_id[delivery.delivery_id]
        self._remove(shared, delivery)
        shared.decided_links.add(delivery.link)
        if shared.outcome is ACCEPTED:
            shared.outcome = outcome
        return self._finish(shared)

    def forget_link(self, link: ReceiverLink) -> tuple[list[IncomingDelivery], list[SharedId]]:
        """Forget the deliveries of a link that is over. Return them, and the ids that can be answered now."""
        forgotten: list[IncomingDelivery] = []
        answerable: list[SharedId] = []
        for shared in list(self._by_id.values()):
            for delivery in [one for one in shared.undecided if one.link is link]:
                self._remove(shared, delivery)
                forgotten.append(delivery)
            shared.decided_links.discard(link)
            finished = self._finish(shared)
            if finished is not None:
                answerable.append(finished)
        return forgotten, answerable

    def take_all(self) -> list[IncomingDelivery]:
        """Forget everything without an answer. Return the deliveries that were undecided."""
        taken: list[IncomingDelivery] = []
        for shared in self._by_id.values():
            taken += shared.undecided
        self._by_id.clear()
        self.undecided_count = 0
        return taken

    def named(self, first: int, last: int, is_taken: bool) -> list[IncomingDelivery]:
        """Return the undecided deliveries with ids from `first` to `last`. With `is_taken` their ids are forgotten."""
        count = distance(last, first) + 1
        found: list[IncomingDelivery] = []
        for delivery_id in [one for one in self._by_id if distance(one, first) < count]:
            found += self._by_id[delivery_id].undecided
            if is_taken:
                self.undecided_count -= len(self._by_id[delivery_id].undecided)
                del self._by_id[delivery_id]
        return found

    def _remove(self, shared: SharedId, delivery: IncomingDelivery) -> None:
        del shared.undecided[delivery]
        self.undecided_count -= 1

    def _finish(self, shared: SharedId) -> SharedId | None:
        if shared.undecided:
            return None
        del self._by_id[shared.delivery_id]
        return shared if shared.decided_links else None
