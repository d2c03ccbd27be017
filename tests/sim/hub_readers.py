"""Simulated readers of event hubs: what the broker may give them, and when it may send them away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.amqp.message import Message
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.receiver import EventDelivery, EventReceiver
from tandem.errors import ProtocolError
from tests.sim.hub_books import PartitionBook
from tests.sim.ledger import Violation

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["Reader"]


class Reader:
    """A link that reads a partition, at both of its ends."""

    def __init__(self, world: World, book: PartitionBook, group: str, epoch: int | None) -> None:
        self._world = world
        self.book = book
        self.group = group
        self.epoch = epoch
        self.receiver: EventReceiver | None = None
        # The number of the event that comes next; None until it is known what its time means.
        self.following: int | None = None
        self.credit = 0
        self.is_open = True
        self.is_paused = False
        self.is_draining = False
        # Why the broker has to end it, if it has to.
        self.reason: type[ProtocolError] | None = None

    def __repr__(self) -> str:
        return f"<reader of {self.book} for {self.group} with epoch {self.epoch} at {self.following}>"

    @property
    def own(self) -> EventReceiver:
        assert self.receiver is not None
        return self.receiver

    def end_with(self, reason: type[ProtocolError]) -> None:
        """The broker has decided on something that this reader must not survive."""
        self.reason = reason
        self.is_open = False

    # --- what the runner calls ------------------------------------------------------------------------------

    def deliver_events(self, delivery: EventDelivery) -> None:
        """What a link does: events of one that is closed go nowhere."""
        self.own.unsent_count -= len(delivery.events)
        if delivery.events and self.own.is_open:
            self._judge_events(delivery.events)
        if delivery.is_drained:
            self._judge_drained()
        if delivery.error is not None:
            self._judge_end(delivery.error)

    def _judge_events(self, events: list[Event]) -> None:
        if not self.is_open:
            raise Violation("two owners never both receive", f"{self} gets {len(events)} events after it was displaced")
        if self.following is None:
            raise Violation("a reader begins where it wanted to", f"{self} gets events and its place is not known")
        book = self.book
        for event in events:
            number = event.sequence_number
            # Retention may have taken what would have come next.
            if number != self.following and not self.following < number <= book.begin:
                raise Violation("every reader sees all events in order", f"{self} gets number {number}")
            if number >= book.committed_count:
                raise Violation("no event is visible before its commit", f"{self} gets number {number}")
            expected = book.events[number]
            found = (int.from_bytes(event.bare[-8:], "big"), event.enqueued_at_ms, event.partition_key)
            if found != (expected.uid, expected.at_ms, expected.key):
                raise Violation("every reader sees the same events", f"{self} gets {found} instead of {expected}")
            if self.credit <= 0:
                raise Violation("a reader gets what it asked for", f"{self} has no credit")
            self.credit -= 1
            self.following = number + 1
        self._judge_encoded(events[-1])

    def _judge_encoded(self, event: Event) -> None:
        """What goes over the wire says the same."""
        annotations = Message(event.encoded()).message_annotations or {}
        number = event.sequence_number
        if (annotations["x-opt-sequence-number"], annotations["x-opt-offset"]) != (number, str(number)):
            raise Violation("an event says its number", f"{annotations} instead of {number}")

    def _judge_drained(self) -> None:
        if not self.is_draining and self.is_open:
            raise Violation("drain is answered once", repr(self))
        self.is_draining = False
        self.credit = 0

    def _judge_end(self, error: Exception) -> None:
        if self.reason is None or not isinstance(error, self.reason):
            raise Violation("a reader is ended only for a reason", f"{self} by {error!r} and not by {self.reason}")
        self.reason = None
        self.is_open = False
        self._world.note(f"  {self} was ended by {type(error).__name__}")
