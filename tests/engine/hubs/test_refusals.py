"""A store that cannot read the events of a partition ends the reader that asked, and nobody else."""

from __future__ import annotations

from tandem.engine.hubs.position import START, PositionKind, StartPosition
from tandem.engine.queries import EventsQuery, EventTimeQuery
from tandem.errors import ArrowUnavailable
from tests.engine.hubs.hub_desk import HubDesk, Reading

UNAVAILABLE = ArrowUnavailable("Event hubs need pyarrow.")


def refuse(desk: HubDesk, kind: type[EventsQuery] | type[EventTimeQuery]) -> Reading:
    """Refuse what a new reader asks the store."""
    hub = desk.hub()
    desk.append(hub, "a", "b")
    position = START if kind is EventsQuery else StartPosition(PositionKind.ENQUEUED_TIME, 0, True)
    reading = desk.open_without_flush(hub.partitions[0], position)
    desk.namespace.settle_turn()
    effects = desk.namespace.take_effects()
    (query,) = effects.queries
    assert isinstance(query, EventsQuery | EventTimeQuery)
    assert type(query) is kind
    query.refuse(UNAVAILABLE)
    desk.flush()
    return reading


def test_a_reader_whose_events_cannot_be_read_is_told_why() -> None:
    assert refuse(HubDesk(), EventsQuery).error is UNAVAILABLE


def test_a_reader_whose_position_cannot_be_found_is_told_why() -> None:
    assert refuse(HubDesk(), EventTimeQuery).error is UNAVAILABLE


def test_a_reader_that_was_refused_makes_room_for_another() -> None:
    desk = HubDesk()
    reading = refuse(desk, EventsQuery)
    assert not reading.own.is_open
    assert reading.own.partition.receiver_count() == 0
