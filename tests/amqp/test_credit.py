"""Link credit at both ends: flows that cross deliveries, drain, overrun, and counts that wrap at 2^32."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.credit import ReceiverCredit, SenderCredit
from tandem.amqp.windows import add
from tandem.errors import StateError
from tests.amqp.composites import MAX_UINT, uints
from tests.markers import spec


def sender(credit: int, taken: int = 0, delivery_count: int = 0) -> SenderCredit:
    """A sender that was granted `credit` and has used `taken` of it, from `delivery_count` on."""
    state = SenderCredit()
    state.delivery_count = delivery_count
    state.on_flow(delivery_count, credit, False)
    for _ in range(taken):
        state.take()
    return state


# --- the sender's end -------------------------------------------------------------------------------------------


def test_a_sender_starts_without_credit() -> None:
    state = SenderCredit()
    assert (state.credit, state.delivery_count, state.is_draining) == (0, 0, False)
    with pytest.raises(StateError, match="no credit"):
        state.take()
    assert state.delivery_count == 0


@spec("amqp:2.6.7")
def test_each_delivery_takes_one_credit_and_counts() -> None:
    state = sender(3, taken=2)
    assert (state.credit, state.delivery_count) == (1, 2)
    state.take()
    with pytest.raises(StateError):
        state.take()
    assert (state.credit, state.delivery_count) == (0, 3)


@spec("amqp:2.6.7")
def test_a_flow_that_crosses_deliveries_under_way_does_not_grant_them_twice() -> None:
    # link-credit(snd) = delivery-count(rcv) + link-credit(rcv) - delivery-count(snd)
    state = sender(10, taken=4)
    state.on_flow(1, 10, False)
    assert state.credit == 1 + 10 - 4


@spec("amqp:2.6.7")
def test_a_flow_replaces_the_credit_and_does_not_add_to_it() -> None:
    state = sender(10)
    state.on_flow(0, 3, False)
    assert state.credit == 3
    state.on_flow(0, 0, False)
    assert state.credit == 0


def test_less_credit_than_is_under_way_is_none_and_not_negative() -> None:
    state = sender(10, taken=8)
    state.on_flow(0, 5, False)
    assert state.credit == 0


@spec("amqp:2.7.4")
def test_a_receiver_that_does_not_know_the_count_means_the_first() -> None:
    state = sender(10, taken=4)
    state.on_flow(None, 10, False)
    assert state.credit == 6


def test_a_receiver_that_claims_more_than_was_sent_gets_the_credit_it_wishes() -> None:
    state = sender(10, taken=4)
    state.on_flow(7, 10, False)
    assert (state.credit, state.delivery_count) == (10, 4)


def test_a_flow_without_credit_leaves_it_as_it_was() -> None:
    state = sender(10, taken=4)
    state.on_flow(None, None, False)
    assert state.credit == 6
    state.on_flow(2, None, False)
    assert state.credit == 6


@spec("amqp:2.8.10")
def test_a_senders_count_wraps() -> None:
    state = sender(10, taken=3, delivery_count=MAX_UINT - 1)
    assert state.delivery_count == 1
    state.on_flow(MAX_UINT, 10, False)
    assert state.credit == 8
    state.on_flow(1, 10, False)
    assert state.credit == 10
    # One more than was sent, beyond the wrap.
    state.on_flow(2, 10, False)
    assert state.credit == 10


def test_unlimited_credit_is_a_number_like_any_other() -> None:
    state = sender(MAX_UINT, taken=5)
    assert state.credit == MAX_UINT - 5
    state.on_flow(0, MAX_UINT, False)
    assert state.credit == MAX_UINT - 5


@spec("amqp:2.6.7")
def test_a_drained_sender_counts_the_credit_it_did_not_use() -> None:
    state = sender(10, taken=4)
    state.on_flow(4, 6, True)
    assert state.is_draining
    state.drained()
    assert (state.credit, state.delivery_count) == (0, 10)
    # The receiver's next flow ends the drain.
    state.on_flow(10, 5, False)
    assert (state.credit, state.is_draining) == (5, False)


@spec("amqp:2.6.7", "amqp:2.8.10")
def test_a_drain_may_carry_the_count_over_the_wrap() -> None:
    state = sender(10, taken=1, delivery_count=MAX_UINT - 3)
    state.drained()
    assert (state.credit, state.delivery_count) == (0, 6)


def test_draining_without_credit_changes_nothing() -> None:
    state = sender(2, taken=2)
    state.drained()
    assert (state.credit, state.delivery_count) == (0, 2)


# --- the receiver's end -----------------------------------------------------------------------------------------


def test_a_receiver_starts_without_credit_or_drain() -> None:
    state = ReceiverCredit()
    assert (state.credit, state.delivery_count, state.overrun) == (0, 0, 0)
    assert not state.on_flow(0)


@spec("amqp:2.6.7")
def test_each_delivery_uses_up_one_granted_credit() -> None:
    state = ReceiverCredit()
    state.grant(2, False)
    state.on_delivery()
    assert (state.credit, state.delivery_count, state.overrun) == (1, 1, 0)
    state.on_delivery()
    assert (state.credit, state.delivery_count, state.overrun) == (0, 2, 0)


def test_a_grant_replaces_what_was_left() -> None:
    state = ReceiverCredit()
    state.grant(10, False)
    state.on_delivery()
    state.grant(3, True)
    assert (state.credit, state.is_draining) == (3, True)
    state.grant(5, False)
    assert (state.credit, state.is_draining) == (5, False)


def test_deliveries_beyond_the_credit_are_overrun_until_the_next_grant() -> None:
    state = ReceiverCredit()
    state.grant(1, False)
    for _ in range(4):
        state.on_delivery()
    assert (state.credit, state.delivery_count, state.overrun) == (0, 4, 3)
    state.grant(2, False)
    assert (state.credit, state.overrun) == (2, 0)
    state.on_delivery()
    assert (state.credit, state.delivery_count, state.overrun) == (1, 5, 0)


@spec("amqp:2.8.10")
def test_a_receivers_count_wraps() -> None:
    state = ReceiverCredit()
    state.delivery_count = MAX_UINT
    state.grant(5, True)
    state.on_delivery()
    assert state.delivery_count == 0
    assert state.on_flow(4)
    assert (state.credit, state.delivery_count) == (0, 4)


@spec("amqp:2.6.7")
def test_a_sender_that_has_used_up_the_credit_of_a_drain_has_nothing_more() -> None:
    state = ReceiverCredit()
    state.grant(10, True)
    state.on_delivery()
    assert state.on_flow(10)
    assert (state.credit, state.delivery_count, state.is_draining) == (0, 10, False)
    # Said once: a repetition is no second end.
    assert not state.on_flow(10)


@spec("amqp:2.6.7")
def test_a_drain_that_the_last_delivery_ends_is_over_at_the_next_flow() -> None:
    state = ReceiverCredit()
    state.grant(1, True)
    state.on_delivery()
    assert state.on_flow(1)


def test_a_sender_that_still_has_credit_has_not_drained() -> None:
    state = ReceiverCredit()
    state.grant(10, True)
    assert not state.on_flow(4)
    assert (state.credit, state.delivery_count, state.is_draining) == (6, 4, True)


def test_a_sender_may_skip_deliveries_without_a_drain() -> None:
    state = ReceiverCredit()
    state.grant(10, False)
    assert not state.on_flow(10)
    assert (state.credit, state.delivery_count) == (0, 10)


def test_a_flow_without_a_count_says_nothing_of_the_drain() -> None:
    state = ReceiverCredit()
    state.grant(10, True)
    assert not state.on_flow(None)
    assert (state.credit, state.is_draining) == (10, True)


@spec("amqp:2.6.7")
def test_a_drained_flow_that_crosses_a_smaller_grant_leaves_the_counts_equal() -> None:
    state = ReceiverCredit()
    state.grant(10, True)
    state.grant(0, False)
    assert not state.on_flow(10)
    assert (state.credit, state.delivery_count) == (0, 10)


@pytest.mark.parametrize("count", [2**31, MAX_UINT])
def test_a_count_behind_ours_is_not_believed(count: int) -> None:
    state = ReceiverCredit()
    state.grant(10, True)
    assert not state.on_flow(count)
    assert (state.credit, state.delivery_count, state.is_draining) == (10, 0, True)


# --- both ends --------------------------------------------------------------------------------------------------


@spec("amqp:2.6.7")
@given(
    first=uints,
    steps=st.lists(st.sampled_from(["send", "arrive", "grant", "learn"]), max_size=60),
    credits=st.lists(st.integers(0, 8), min_size=60, max_size=60),
)
def test_no_interleaving_of_flows_and_deliveries_lets_a_sender_overrun(
    first: int, steps: list[str], credits: list[int]
) -> None:
    ours, theirs = SenderCredit(), ReceiverCredit()
    ours.delivery_count = theirs.delivery_count = first
    deliveries = 0
    flows: list[tuple[int, int]] = []
    for step, credit in zip(steps, credits, strict=False):
        if step == "send" and ours.credit:
            ours.take()
            deliveries += 1
        elif step == "arrive" and deliveries:
            theirs.on_delivery()
            deliveries -= 1
        elif step == "grant":
            # Never less than before: a receiver that takes credit back has to bear what was under way.
            theirs.grant(max(credit, theirs.credit), False)
            flows.append((theirs.delivery_count, theirs.credit))
        elif step == "learn" and flows:
            ours.on_flow(*flows.pop(0), False)
        assert theirs.overrun == 0
    for flow in flows:
        ours.on_flow(*flow, False)
    for _ in range(deliveries):
        theirs.on_delivery()
    # Once everything has arrived, both ends know the same.
    assert ours.delivery_count == theirs.delivery_count
    assert ours.credit == theirs.credit
    assert theirs.overrun == 0
    ours.drained()
    theirs.is_draining = True
    expected = add(theirs.delivery_count, theirs.credit)
    assert theirs.on_flow(ours.delivery_count)
    assert theirs.delivery_count == expected
