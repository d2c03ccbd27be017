"""Session windows, and the numbers they count in, which wrap at 2^32."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.windows import IncomingWindow, OutgoingWindow, add, distance, is_ahead
from tandem.errors import Scope, WindowViolation
from tests.amqp.composites import MAX_UINT, uints
from tests.markers import spec

# As .NET announces its incoming window: no limit at all.
UNLIMITED = MAX_UINT

# --- serial numbers ---------------------------------------------------------------------------------------------


@spec("amqp:2.8.10", "rfc1982:3.1")
@pytest.mark.parametrize(
    "number, steps, expected", [(0, 0, 0), (5, 3, 8), (MAX_UINT, 1, 0), (MAX_UINT, 2, 1), (MAX_UINT - 4, 10, 5)]
)
def test_a_serial_number_advances_and_wraps(number: int, steps: int, expected: int) -> None:
    assert add(number, steps) == expected


@pytest.mark.parametrize("ahead, behind, expected", [(8, 5, 3), (5, 5, 0), (0, MAX_UINT, 1), (4, MAX_UINT - 5, 10)])
def test_the_distance_between_serial_numbers_wraps(ahead: int, behind: int, expected: int) -> None:
    assert distance(ahead, behind) == expected


@spec("rfc1982:3.2")
@pytest.mark.parametrize(
    "number, other, expected",
    [
        (1, 0, True),
        (0, 1, False),
        (7, 7, False),
        (0, MAX_UINT, True),
        (MAX_UINT, 0, False),
        (2**31 - 1, 0, True),
        # Half the circle away neither is ahead of the other.
        (2**31, 0, False),
        (0, 2**31, False),
        (5, MAX_UINT - 5, True),
    ],
)
def test_the_later_of_two_serial_numbers_is_less_than_half_the_circle_ahead(
    number: int, other: int, expected: bool
) -> None:
    assert is_ahead(number, other) is expected


@given(uints, st.integers(0, MAX_UINT))
def test_the_distance_to_a_number_is_the_steps_it_was_advanced_by(number: int, steps: int) -> None:
    assert distance(add(number, steps), number) == steps


@given(uints, uints)
def test_at_most_one_of_two_serial_numbers_is_ahead(one: int, other: int) -> None:
    assert not (is_ahead(one, other) and is_ahead(other, one))
    is_undecided = distance(one, other) in {0, 2**31}
    assert (is_ahead(one, other) or is_ahead(other, one)) is not is_undecided


# --- incoming ---------------------------------------------------------------------------------------------------


@spec("amqp:2.5.6")
def test_an_incoming_window_takes_as_many_transfers_as_it_is_large() -> None:
    window = IncomingWindow(3)
    for count in range(3):
        assert window.window == 3 - count
        window.on_transfer()
    with pytest.raises(WindowViolation, match="more than 3 transfers") as caught:
        window.on_transfer()
    assert caught.value.scope is Scope.SESSION
    # Nothing was counted: the session ends with the numbers it had.
    assert (window.window, window.next_incoming_id) == (0, 3)


def test_an_incoming_window_of_zero_takes_nothing() -> None:
    with pytest.raises(WindowViolation):
        IncomingWindow(0).on_transfer()


@spec("amqp:2.5.6")
def test_a_reopened_window_takes_as_many_again() -> None:
    window = IncomingWindow(2)
    window.on_transfer()
    window.on_transfer()
    window.reopen()
    assert window.window == 2
    window.on_transfer()
    assert (window.window, window.next_incoming_id) == (1, 3)


@spec("amqp:2.5.6")
def test_the_number_of_the_next_incoming_transfer_wraps() -> None:
    window = IncomingWindow(10)
    window.next_incoming_id = MAX_UINT
    window.on_transfer()
    assert window.next_incoming_id == 0


@pytest.mark.parametrize("size, lows", [(1, [0]), (2, [0, 1]), (5, [0, 1, 2]), (10, [0, 1, 2, 3, 4, 5])])
def test_a_window_is_low_when_half_of_it_is_used(size: int, lows: list[int]) -> None:
    window = IncomingWindow(size)
    found = []
    while window.window:
        window.on_transfer()
        if window.is_low:
            found.append(window.window)
    assert sorted(found) == lows
    window.reopen()
    assert not window.is_low


# --- outgoing ---------------------------------------------------------------------------------------------------


def sent(first: int, count: int) -> OutgoingWindow:
    window = OutgoingWindow(first)
    window.on_flow(None, 1000)
    for _ in range(count):
        window.on_transfer()
    return window


def test_nothing_may_be_sent_before_the_peer_has_spoken() -> None:
    assert OutgoingWindow(1).remote_window == 0


@spec("amqp:2.5.6")
def test_the_peers_window_shrinks_with_each_transfer() -> None:
    window = sent(1, 3)
    assert (window.remote_window, window.next_outgoing_id) == (997, 4)


@spec("amqp:2.5.6")
def test_a_flow_that_crosses_transfers_under_way_does_not_count_them_twice() -> None:
    # remote-incoming-window = next-incoming-id(flow) + incoming-window(flow) - next-outgoing-id(endpoint)
    window = sent(1, 10)
    window.on_flow(5, 100)
    assert window.remote_window == 5 + 100 - 11


@spec("amqp:2.5.6")
def test_a_flow_that_has_seen_everything_gives_its_whole_window() -> None:
    window = sent(1, 10)
    window.on_flow(11, 100)
    assert window.remote_window == 100


@spec("amqp:2.7.4")
def test_a_peer_that_has_not_seen_our_begin_counts_from_our_first_transfer() -> None:
    window = sent(1, 10)
    window.on_flow(None, 100)
    assert window.remote_window == 90


def test_a_window_smaller_than_what_is_under_way_is_shut_and_not_negative() -> None:
    window = sent(1, 10)
    window.on_flow(1, 4)
    assert window.remote_window == 0


def test_a_peer_that_claims_more_than_was_sent_gets_its_window_and_no_more() -> None:
    window = sent(1, 10)
    window.on_flow(500, 100)
    assert window.remote_window == 100


@spec("amqp:2.5.6", "amqp:2.8.10")
def test_an_outgoing_window_wraps() -> None:
    window = sent(MAX_UINT - 1, 4)
    assert window.next_outgoing_id == 2
    window.on_flow(MAX_UINT, 100)
    assert window.remote_window == 100 - 3
    window.on_flow(2, 100)
    assert window.remote_window == 100
    window.on_flow(3, 100)
    assert window.remote_window == 100


def test_an_unlimited_window_never_shuts() -> None:
    window = OutgoingWindow(1)
    window.on_flow(None, UNLIMITED)
    for _ in range(1000):
        window.on_transfer()
    assert window.remote_window == UNLIMITED - 1000
    window.on_flow(1, UNLIMITED)
    assert window.remote_window == UNLIMITED - 1000
    window.on_flow(1001, UNLIMITED)
    assert window.remote_window == UNLIMITED


@spec("amqp:2.5.6")
@given(
    first=uints,
    count=st.integers(0, 300),
    seen=st.integers(0, 300),
    incoming_window=st.integers(0, 1000) | st.just(UNLIMITED),
)
def test_whatever_a_peer_has_seen_it_gets_no_more_than_its_window(
    first: int, count: int, seen: int, incoming_window: int
) -> None:
    seen = min(seen, count)
    window = sent(first, count)
    window.on_flow(add(first, seen), incoming_window)
    assert window.remote_window == max(0, incoming_window - (count - seen))
