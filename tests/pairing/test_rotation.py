"""Which backlog queue a client sends to."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tandem.pairing.rotation import BacklogRotation
from tests.markers import mission


@mission("M23")
def test_clients_that_do_not_know_each_other_spread_over_the_queues() -> None:
    rotation = BacklogRotation(10, random.Random(1).randrange)
    assert {rotation.draw(None) for _ in range(200)} == set(range(10))


@mission("M23")
def test_a_client_keeps_its_queue_as_long_as_that_is_in_rotation() -> None:
    rotation = BacklogRotation(10, random.Random(1).randrange)
    mine = rotation.draw(None)
    assert [rotation.draw(mine) for _ in range(20)] == [mine] * 20
    assert rotation.remove(mine)
    assert rotation.draw(mine) != mine


@mission("M23")
def test_a_queue_that_failed_is_out_for_everybody() -> None:
    rotation = BacklogRotation(3, lambda count: 0)
    assert rotation.draw(None) == 0
    assert rotation.remove(0)
    assert not rotation.remove(0), "somebody else was quicker"
    assert rotation.draw(None) == 1
    assert rotation.usable == (1, 2)


@mission("M20")
def test_with_one_queue_there_is_no_other_to_try() -> None:
    rotation = BacklogRotation(1, lambda count: 0)
    rotation.remove(0)
    assert rotation.rounds == 1
    assert rotation.usable == (0,), "later sends may find it again"


@given(st.integers(1, 20), st.lists(st.integers(0, 19)))
def test_there_is_always_a_queue_to_draw(count: int, failures: list[int]) -> None:
    rotation = BacklogRotation(count, random.Random(7).randrange)
    current: int | None = None
    for index in failures:
        rotation.remove(index)
        current = rotation.draw(current)
        assert current in rotation.usable
        assert 0 <= current < count
