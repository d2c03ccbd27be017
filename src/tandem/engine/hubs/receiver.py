"""One reader of a partition: where it is, and how many events it may still be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.engine.consumer import Gate
from tandem.engine.hubs.event import Event

if TYPE_CHECKING:
    from tandem.engine.hubs.partition import Partition

__all__ = ["EventDelivery", "EventReceiver"]


class EventReceiver:
    """A receiver of one consumer group, with an epoch if it wants to be the only one."""

    __slots__ = (
        "context",
        "credit",
        "epoch",
        "gate",
        "group",
        "is_draining",
        "is_open",
        "is_paused",
        "is_placed",
        "is_reading",
        "name",
        "next_sequence_number",
        "partition",
        "unsent_count",
    )

    def __init__(
        self,
        context: object,
        partition: Partition,
        group: str,
        epoch: int | None,
        name: str | None,
        gate: Gate | None,
    ) -> None:
        # What stands behind it, which the events are given to.
        self.context = context
        self.partition = partition
        self.group = group
        self.epoch = epoch
        self.name = name
        self.next_sequence_number = 0
        self.credit = 0
        self.is_draining = False
        self.is_open = True
        # Its connection is congested: nothing more until it has caught up.
        self.is_paused = False
        self.gate = gate
        # Where it begins is known.
        self.is_placed = False
        # A question to the store is under way.
        self.is_reading = False
        # Events that were decided to be sent, and are not on the link yet.
        self.unsent_count = 0

    @property
    def wants_events(self) -> bool:
        return self.is_open and self.is_placed and not self.is_reading and self.credit > 0 and self.can_take()

    def can_take(self) -> bool:
        """Whether its connection takes events now."""
        return not self.is_paused and (self.gate is None or self.gate.can_pass())


class EventDelivery:
    """What a receiver is told: events, that there are no more just now, or that it is over."""

    __slots__ = ("error", "events", "is_drained", "receiver")

    def __init__(
        self, receiver: EventReceiver, events: list[Event], is_drained: bool = False, error: Exception | None = None
    ) -> None:
        self.receiver = receiver
        self.events = events
        self.is_drained = is_drained
        self.error = error
