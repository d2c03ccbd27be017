"""Dispositions merged into ranges: what is merged, what is not, and that nothing is lost or told twice."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.delivery_states import ACCEPTED, RELEASED, Accepted, AmqpError, DeliveryState, Rejected
from tandem.amqp.dispositions import DispositionBatch
from tandem.amqp.hot_paths import decode_disposition
from tandem.amqp.performatives import RECEIVER, SENDER, Disposition
from tandem.amqp.windows import add
from tests.amqp.composites import MAX_UINT, uints
from tests.markers import spec

Settlement = tuple[int, DeliveryState | None, bool]
REJECTED: Final = Rejected(AmqpError("amqp:not-found"))


def written(output: list[bytes]) -> list[Disposition]:
    return [decode_disposition(data, 8, len(data)) for data in output]


def disposed(settlements: list[Settlement], role: bool = RECEIVER) -> list[Disposition]:
    batch = DispositionBatch(5, role)
    output: list[bytes] = []
    for delivery_id, state, is_settled in settlements:
        batch.add(delivery_id, state, is_settled, output)
    batch.flush(output)
    assert batch.is_empty
    return written(output)


@spec("amqp:2.7.6")
def test_settlements_in_a_row_become_one_range() -> None:
    found = disposed([(number, ACCEPTED, True) for number in range(1000)])
    assert found == [Disposition(RECEIVER, 0, 999, True, ACCEPTED)]


def test_nothing_is_written_before_the_range_ends() -> None:
    batch = DispositionBatch(5, RECEIVER)
    output: list[bytes] = []
    batch.add(1, ACCEPTED, True, output)
    batch.add(2, ACCEPTED, True, output)
    assert output == []
    batch.flush(output)
    assert len(output) == 1


def test_one_settlement_names_itself_as_the_last() -> None:
    assert disposed([(7, RELEASED, True)]) == [Disposition(RECEIVER, 7, 7, True, RELEASED)]


@spec("amqp:2.8.10")
def test_a_range_may_go_over_the_wrap() -> None:
    found = disposed([(MAX_UINT - 1, ACCEPTED, True), (MAX_UINT, ACCEPTED, True), (0, ACCEPTED, True)])
    assert found == [Disposition(RECEIVER, MAX_UINT - 1, 0, True, ACCEPTED)]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param((3, ACCEPTED, True), id="a gap"),
        pytest.param((1, ACCEPTED, True), id="the same again"),
        pytest.param((0, ACCEPTED, True), id="backwards"),
        pytest.param((2, RELEASED, True), id="another state"),
        pytest.param((2, None, True), id="no state"),
        pytest.param((2, ACCEPTED, False), id="not settled"),
    ],
)
def test_what_differs_starts_a_new_range(second: Settlement) -> None:
    found = disposed([(1, ACCEPTED, True), second])
    delivery_id, state, is_settled = second
    expected = Disposition(RECEIVER, delivery_id, delivery_id, is_settled, state)
    assert found == [Disposition(RECEIVER, 1, 1, True, ACCEPTED), expected]


def test_states_are_merged_by_identity_only() -> None:
    assert len(disposed([(1, REJECTED, True), (2, REJECTED, True)])) == 1
    assert len(disposed([(1, ACCEPTED, True), (2, Accepted(), True)])) == 2


def test_a_frame_is_for_the_channel_and_the_role_of_its_batch() -> None:
    batch = DispositionBatch(0x1234, SENDER)
    output: list[bytes] = []
    batch.add(1, None, True, output)
    batch.flush(output)
    assert output[0][6:8] == b"\x12\x34"
    assert written(output) == [Disposition(SENDER, 1, 1, True)]


def test_an_empty_batch_writes_nothing() -> None:
    batch = DispositionBatch(5, RECEIVER)
    output: list[bytes] = []
    batch.flush(output)
    assert output == []
    batch.add(1, ACCEPTED, True, output)
    batch.flush(output)
    batch.flush(output)
    assert len(output) == 1


@given(
    first=uints,
    steps=st.lists(
        st.tuples(
            st.sampled_from([1, 1, 1, 1, 2, 5]), st.sampled_from([ACCEPTED, RELEASED, REJECTED, None]), st.booleans()
        ),
        max_size=30,
    ),
)
def test_every_delivery_is_told_once_with_its_own_state(
    first: int, steps: list[tuple[int, DeliveryState | None, bool]]
) -> None:
    settlements: list[Settlement] = []
    delivery_id = first
    for step, state, is_settled in steps:
        delivery_id = add(delivery_id, step)
        settlements.append((delivery_id, state, is_settled))
    told: list[Settlement] = []
    for disposition in disposed(settlements):
        assert disposition.last is not None
        number = disposition.first
        told.append((number, disposition.state, disposition.settled))
        while number != disposition.last:
            number = add(number, 1)
            told.append((number, disposition.state, disposition.settled))
    assert told == settlements
