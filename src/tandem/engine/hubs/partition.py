"""One partition of a hub: the numbers it gives, the young tail that it keeps in memory, and those who read it.

An event exists from its commit on. Readers that keep up are served from the tail, which is kept only while somebody
reads; one that is behind has its events read from the store, a portion at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tandem.engine.hubs.event import Event
from tandem.engine.hubs.ownership import Ownership
from tandem.engine.hubs.position import PositionKind, StartPosition
from tandem.engine.hubs.producers import Producers
from tandem.engine.hubs.receiver import EventDelivery, EventReceiver
from tandem.engine.hubs.record import EventRecord, ProducerMark
from tandem.engine.queries import EventsQuery, EventTimeQuery
from tandem.errors import ArgumentError, ProtocolError, Scope
from tandem.limits import MAX_EVENT_READ_BYTES, MAX_EVENTS_PER_READ, MAX_TAIL_BYTES

if TYPE_CHECKING:
    from tandem.engine.hubs.hub import EventHub

__all__ = ["Partition"]


class Partition:
    """A stream of events, numbered from zero without gaps."""

    __slots__ = (
        "_groups",
        "_last_decided_at_ms",
        "_next_decided",
        "_tail",
        "_tail_bytes",
        "begin_sequence_number",
        "hub",
        "last_enqueued_at_ms",
        "next_sequence_number",
        "partition_id",
        "producers",
        "size_bytes",
    )

    def __init__(self, hub: EventHub, partition_id: int) -> None:
        self.hub = hub
        self.partition_id = partition_id
        # What is on disk: from the oldest that is retained to the number of the next.
        self.begin_sequence_number = 0
        self.next_sequence_number = 0
        self.last_enqueued_at_ms: int | None = None
        self.size_bytes = 0
        self.producers = Producers()
        # What was given out, and is perhaps not on disk yet.
        self._next_decided = 0
        self._last_decided_at_ms = 0
        # The youngest records that are on disk, oldest first.
        self._tail: list[EventRecord] = []
        self._tail_bytes = 0
        self._groups: dict[str, Ownership] = {}

    def restore(
        self, begin_sequence_number: int, next_sequence_number: int, last_enqueued_at_ms: int | None, size_bytes: int
    ) -> None:
        self.begin_sequence_number = begin_sequence_number
        self.next_sequence_number = self._next_decided = next_sequence_number
        self.last_enqueued_at_ms = last_enqueued_at_ms
        self._last_decided_at_ms = last_enqueued_at_ms or 0
        self.size_bytes = size_bytes

    @property
    def is_empty(self) -> bool:
        return self.begin_sequence_number >= self.next_sequence_number

    @property
    def last_sequence_number(self) -> int:
        """-1 before the first event."""
        return self.next_sequence_number - 1

    # --- appending ------------------------------------------------------------------------------------------

    def append(
        self,
        payload: bytes,
        is_batch: bool,
        count: int,
        partition_key: str | None,
        publisher: str | None,
        producer: ProducerMark | None,
    ) -> None:
        """Events of one transfer, all of them or none, one behind the other."""
        namespace = self.hub.namespace
        # The clock may stand still or be set back; the times of a partition never fall.
        at_ms = max(namespace.now_ms, self._last_decided_at_ms)
        self._last_decided_at_ms = at_ms
        record = EventRecord(
            self.hub.number,
            self.partition_id,
            self._next_decided,
            count,
            at_ms,
            payload,
            is_batch,
            partition_key,
            publisher,
            producer,
        )
        self._next_decided += count
        namespace.effects.events.append(record)

    def committed(self, record: EventRecord) -> None:
        """A record is on disk: its events exist now."""
        self.next_sequence_number = record.next_sequence_number
        self.last_enqueued_at_ms = record.enqueued_at_ms
        self.size_bytes += record.size_bytes
        if not self._groups:
            return
        self._tail.append(record)
        self._tail_bytes += record.size_bytes
        if self._tail_bytes > MAX_TAIL_BYTES and len(self._tail) > 1:
            self._shorten_tail()
        self.hub.namespace.hubs.pump_soon(self)

    def _shorten_tail(self) -> None:
        """Down to half of the bound, so that this is not done for every record."""
        cut = 0
        while self._tail_bytes * 2 > MAX_TAIL_BYTES and cut < len(self._tail) - 1:
            self._tail_bytes -= self._tail[cut].size_bytes
            cut += 1
        del self._tail[:cut]

    def trimmed(self, begin_sequence_number: int, size_bytes: int) -> None:
        """Retention has taken what is older."""
        self.begin_sequence_number = max(self.begin_sequence_number, begin_sequence_number)
        self.size_bytes = size_bytes

    # --- readers --------------------------------------------------------------------------------------------

    def open_receiver(
        self, context: object, group: str, epoch: int | None, name: str | None, position: StartPosition
    ) -> EventReceiver:
        """A reader of a consumer group. Raises if another one is in its way; closes those that it displaces.

        Its position may prove to be wrong: then it is told so as a receiver that was opened, as the service does it.
        """
        receiver = EventReceiver(context, self, group, epoch, name)
        key = group.lower()
        ownership = self._groups.get(key)
        if ownership is None:
            ownership = Ownership()
        for displaced, error in ownership.admit(receiver):
            self._end(displaced, error)
        self._groups[key] = ownership
        self._place(receiver, position)
        return receiver

    def _place(self, receiver: EventReceiver, position: StartPosition) -> None:
        if position.kind is PositionKind.LATEST:
            receiver.next_sequence_number = self.next_sequence_number
        elif position.kind is PositionKind.ENQUEUED_TIME:
            receiver.is_reading = True

            def answer(sequence_number: int) -> None:
                receiver.is_reading = False
                receiver.next_sequence_number = sequence_number
                receiver.is_placed = True
                self.hub.namespace.hubs.pump_soon(self)

            self.hub.namespace.effects.queries.append(
                EventTimeQuery(self.hub.number, self.partition_id, position.first, answer, self._refusing(receiver))
            )
            return
        else:
            if position.value > self.last_sequence_number:
                self.close_receiver(receiver)
                self._end(receiver, _beyond_the_end(position, self.last_sequence_number))
                return
            receiver.next_sequence_number = position.first
        receiver.is_placed = True

    def close_receiver(self, receiver: EventReceiver) -> None:
        receiver.is_open = False
        key = receiver.group.lower()
        ownership = self._groups.get(key)
        if ownership is not None:
            ownership.remove(receiver)
            if not ownership.receivers:
                del self._groups[key]
        if not self._groups:
            self._tail = []
            self._tail_bytes = 0

    def close_group(self, group: str | None, error: ProtocolError) -> None:
        """All receivers of a group, or of all groups, have to go."""
        for ownership in list(self._groups.values()):
            for receiver in list(ownership.receivers):
                if group is None or receiver.group.lower() == group.lower():
                    self.close_receiver(receiver)
                    self._end(receiver, error)

    def _end(self, receiver: EventReceiver, error: ProtocolError) -> None:
        receiver.is_open = False
        self.hub.namespace.effects.event_deliveries.append(EventDelivery(receiver, [], error=error))

    def receiver_count(self) -> int:
        return sum([len(ownership.receivers) for ownership in self._groups.values()])

    def grant(self, receiver: EventReceiver, credit: int, is_draining: bool) -> None:
        receiver.credit = credit
        receiver.is_draining = is_draining
        self.hub.namespace.hubs.pump_soon(self)

    def wake(self, receiver: EventReceiver) -> None:
        """Its connection has caught up."""
        receiver.is_paused = False
        self.hub.namespace.hubs.pump_soon(self)

    # --- giving ---------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Give readers what there is for them."""
        for ownership in list(self._groups.values()):
            for receiver in list(ownership.receivers):
                if receiver.wants_events:
                    self._serve(receiver)
                elif receiver.is_draining and receiver.credit <= 0:
                    self._drained(receiver)

    def _serve(self, receiver: EventReceiver) -> None:
        # What retention has taken is gone for those who have not come that far.
        number = max(receiver.next_sequence_number, self.begin_sequence_number)
        receiver.next_sequence_number = number
        if number >= self.next_sequence_number:
            if receiver.is_draining:
                self._drained(receiver)
            return
        tail = self._tail
        if tail and number >= tail[0].first_sequence_number:
            self._give(receiver, self._from_tail(number, receiver.credit))
            if receiver.wants_events or receiver.is_draining:
                self.hub.namespace.hubs.pump_soon(self)
            return
        receiver.is_reading = True
        behind = self.next_sequence_number

        def answer(events: list[Event]) -> None:
            receiver.is_reading = False
            if not events:
                # All that there was is lost, and reported by the store: go on with what came since.
                receiver.next_sequence_number = max(receiver.next_sequence_number, behind)
            # Credit may have been taken back while the question was under way.
            given = events[: max(0, receiver.credit)]
            if receiver.is_open and given:
                self._give(receiver, given)
            if receiver.is_open:
                self.hub.namespace.hubs.pump_soon(self)

        limit = min(receiver.credit, MAX_EVENTS_PER_READ)
        self.hub.namespace.effects.queries.append(
            EventsQuery(
                self.hub.number,
                self.partition_id,
                number,
                limit,
                MAX_EVENT_READ_BYTES,
                answer,
                self._refusing(receiver),
            )
        )

    def _refusing(self, receiver: EventReceiver) -> Callable[[ProtocolError], None]:
        """End a receiver whose events the store cannot read."""

        def refuse(error: ProtocolError) -> None:
            if receiver.is_open:
                self.close_receiver(receiver)
                self._end(receiver, error)

        return refuse

    def _from_tail(self, number: int, limit: int) -> list[Event]:
        tail = self._tail
        low, high = 0, len(tail)
        while high - low > 1:
            middle = (low + high) // 2
            if tail[middle].first_sequence_number <= number:
                low = middle
            else:
                high = middle
        events: list[Event] = []
        size_bytes = 0
        for at in range(low, len(tail)):
            record = tail[at]
            found = record.events()
            skipped = max(0, number - record.first_sequence_number)
            events += found[skipped : skipped + limit - len(events)]
            size_bytes += record.size_bytes
            if len(events) >= limit or size_bytes > MAX_EVENT_READ_BYTES:
                break
        return events

    def _give(self, receiver: EventReceiver, events: list[Event]) -> None:
        receiver.credit -= len(events)
        receiver.unsent_count += len(events)
        receiver.next_sequence_number = events[-1].sequence_number + 1
        self.hub.namespace.effects.event_deliveries.append(EventDelivery(receiver, events))

    def _drained(self, receiver: EventReceiver) -> None:
        """There is nothing more for what was asked for: also when events have used it up."""
        receiver.credit = 0
        receiver.is_draining = False
        self.hub.namespace.effects.event_deliveries.append(EventDelivery(receiver, [], is_drained=True))


def _beyond_the_end(position: StartPosition, last: int) -> ArgumentError:
    return ArgumentError(
        f"The supplied {position.kind.value} '{position.value}' is invalid. The last {position.kind.value} in the "
        f"system is '{last}'",
        Scope.LINK,
    )
