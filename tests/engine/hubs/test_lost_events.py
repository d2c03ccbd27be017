"""A reader for whom the store has no event, though the partition once had some, goes on behind them."""

from __future__ import annotations

from tandem.engine.hubs.position import START
from tandem.engine.queries import EventsQuery
from tests.engine.hubs.hub_desk import HubDesk, Reading


def lose(desk: HubDesk, is_draining: bool = False) -> Reading:
    """Open a reader, and answer that all there was is lost."""
    hub = desk.hub()
    desk.append(hub, "a", "b")
    reading = desk.open_without_flush(hub.partitions[0], START)
    hub.partitions[0].grant(reading.own, 100, is_draining)
    desk.namespace.settle_turn()
    (query,) = desk.namespace.take_effects().queries
    assert isinstance(query, EventsQuery)
    query.answer([])
    desk.flush()
    return reading


def test_a_reader_whose_events_are_lost_gets_those_that_come_after() -> None:
    desk = HubDesk()
    reading = lose(desk)
    assert reading.own.next_sequence_number == 2
    assert reading.texts == []
    desk.append(reading.own.partition.hub, "c")
    assert reading.texts == ["c"]
    assert reading.numbers == [2]


def test_a_reader_whose_events_are_lost_is_drained() -> None:
    assert lose(HubDesk(), is_draining=True).drained_count == 1
