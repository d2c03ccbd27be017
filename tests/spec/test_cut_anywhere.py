"""A byte stream has no message boundaries: however it is cut, it means the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.markers import spec
from tests.spec.pipe import CONVERSATIONS, DIRECTIONS, EVERYTHING, CutAt, CutInto

BASELINE = EVERYTHING.run(is_audited=True)


@pytest.mark.exhaustive
@spec("amqp:2.3.1")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_the_same_wherever_its_bytes_are_cut_in_two(name: str, direction: str) -> None:
    conversation = CONVERSATIONS[name]
    uncut = conversation.run(is_audited=True)
    for offset in range(1, len(uncut.written(direction))):
        assert conversation.run(CutAt(direction, offset)) == uncut, f"cut at {offset}"


@spec("amqp:2.3.1")
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_is_the_same_one_byte_at_a_time(name: str) -> None:
    assert CONVERSATIONS[name].run(CutInto([1])) == CONVERSATIONS[name].run()


@spec("amqp:2.3.1")
@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 511, 512, 513])
def test_a_long_conversation_is_the_same_in_pieces_of_one_length(length: int) -> None:
    assert EVERYTHING.run(CutInto([length])) == BASELINE


@spec("amqp:2.3.1")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=700), min_size=1, max_size=40))
def test_a_long_conversation_is_the_same_in_pieces_of_random_lengths(lengths: list[int]) -> None:
    assert EVERYTHING.run(CutInto(lengths)) == BASELINE
