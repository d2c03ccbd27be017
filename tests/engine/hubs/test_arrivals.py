"""Events over AMQP, taken apart in several ways that must agree, and put into rows."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.message import Properties, encode_message
from tandem.amqp.sections import NO_ENTRIES, Entries, locate
from tandem.amqp.types import Timestamp
from tandem.engine.hubs.arrivals import Arrivals, EventReader
from tandem.engine.hubs.event import Event

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=300),
    st.binary(max_size=20),
    st.uuids(),
)
# Some of which look like those of the hub.
NAMES = st.one_of(
    st.text("abc:-", min_size=1, max_size=12), st.sampled_from(["x-opt-offset-2", "x-opt-sequence-numbers"])
)


def parts(event: Event | None) -> tuple[object, ...]:
    assert event is not None
    annotations = (event.annotations.encoded, event.annotations.count)
    return (event.sequence_number, event.enqueued_at_ms, event.partition_key, event.publisher, event.bare, annotations)


def thoroughly(payload: bytes) -> Event | None:
    return EventReader()._decoded(locate(payload))


@st.composite
def sent_events(draw: st.DrawFn) -> Event:
    own = Entries.with_symbol_keys(draw(st.dictionaries(NAMES, VALUES, max_size=4)))
    key = draw(st.none() | st.sampled_from(["a", "b", "long" * 100]))
    bare = encode_message(data=draw(st.binary(max_size=600)))
    return Event(draw(st.integers(0, 2**62)), draw(st.integers(0, 2**40)), key, None, own, bare)


@given(events=st.lists(sent_events(), min_size=1, max_size=3), order=st.lists(st.integers(0, 2), max_size=6))
def test_the_quick_ways_say_what_the_thorough_one_says(events: list[Event], order: list[int]) -> None:
    """Events of the same layout, and of others, in any order, with numbers and times of their own."""
    reader = EventReader()
    for position, choice in enumerate([0, *order]):
        like = events[choice % len(events)]
        sent = Event(
            like.sequence_number + position,
            like.enqueued_at_ms + position,
            like.partition_key,
            None,
            like.annotations,
            like.bare,
        )
        found = reader.read(sent.encoded())
        assert parts(found) == parts(thoroughly(sent.encoded())) == parts(sent)
        assert reader.offset == str(sent.sequence_number).encode()


@pytest.mark.parametrize("value", [uuid.uuid4(), Timestamp(7), "x" * 300, {"a": 1}, [1, 2], 1.5])
def test_annotations_of_any_type_are_understood(value: object) -> None:
    own = Entries.with_symbol_keys({"mine": value})
    sent = Event(5, 6, None, None, own, encode_message(data=b"x"))
    assert parts(EventReader().read(sent.encoded())) == parts(sent)


def test_what_has_no_number_is_no_event() -> None:
    assert EventReader().read(encode_message(data=b"x")) is None
    marked = encode_message(message_annotations={"x-opt-offset": "1"}, data=b"x")
    assert EventReader().read(marked) is None


def test_an_event_without_a_body_follows_one_with_one() -> None:
    reader = EventReader()
    for bare in (encode_message(data=b"x"), b"", encode_message(properties=Properties("m"), data=b"y")):
        sent = Event(7, 8, "k", None, NO_ENTRIES, bare)
        assert parts(reader.read(sent.encoded())) == parts(sent)


# --- rows -----------------------------------------------------------------------------------------------------------


def payload(number: int, size: int = 1) -> bytes:
    return Event(number, 1_000 + number, None, None, NO_ENTRIES, encode_message(data=b"x" * size)).encoded()


def test_rows_are_filled_with_events_that_follow_each_other() -> None:
    arrivals = Arrivals(3, 100, 1 << 20)
    assert arrivals.fill([payload(number) for number in (3, 4, 5, 7, 8)], 0, 100) == 3
    assert (len(arrivals), arrivals.next_number, arrivals.rows.times_ms) == (3, 6, [1_003, 1_004, 1_005])
    assert arrivals.offsets == [b"3", b"4", b"5"]
    assert arrivals.number_of(payload(7)) == 7
    arrivals.begin(7)
    assert arrivals.fill([payload(7), payload(8)], 0, 8) == 1
    assert arrivals.rows.first_sequence_number == 7


def test_an_event_that_came_before_is_left_out() -> None:
    arrivals = Arrivals(3, 100, 1 << 20)
    assert arrivals.fill([payload(number) for number in (2, 3, 3, 4)], 0, 100) == 4
    assert arrivals.offsets == [b"3", b"4"]


def test_what_is_no_event_ends_the_rows() -> None:
    arrivals = Arrivals(0, 100, 1 << 20)
    stranger = encode_message(data=b"x")
    assert arrivals.fill([payload(0), stranger, payload(1)], 0, 100) == 1
    assert arrivals.number_of(stranger) is None


@pytest.mark.parametrize("max_rows, max_bytes, count", [(2, 1 << 20, 2), (100, 3_000, 3), (100, 1 << 20, 5)])
def test_a_batch_is_full_by_rows_or_by_bytes(max_rows: int, max_bytes: int, count: int) -> None:
    arrivals = Arrivals(0, max_rows, max_bytes)
    assert arrivals.fill([payload(number, 1_000) for number in range(5)], 0, 100) == count
    assert arrivals.is_full == (count < 5)
