"""The state machine of one entity: every pair of state and input, and what holds for every course of events."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.pairing.detour import PairedEntity
from tandem.pairing.failover import TRANSITIONS, EntityFailover, FailoverEffect, FailoverInput, FailoverState
from tests.markers import mission

HEALTHY, FAILING, FAILED_OVER = FailoverState.HEALTHY, FailoverState.FAILING, FailoverState.FAILED_OVER
INTERVAL_S = 10.0

HARMLESS = (FailoverInput.SEND_SUCCEEDED, FailoverInput.SEND_REFUSED, FailoverInput.SERVER_BUSY)
STEPS = st.lists(st.tuples(st.sampled_from(FailoverInput), st.floats(0, 30)), max_size=30)


def in_state(state: FailoverState) -> EntityFailover:
    entity = EntityFailover(INTERVAL_S)
    if state is not HEALTHY:
        entity.apply(FailoverInput.SEND_FAILED, 0.0)
    if state is FAILED_OVER:
        entity.pass_time(INTERVAL_S)
    assert entity.state is state
    return entity


@pytest.mark.parametrize("state, happened", list(itertools.product(FailoverState, FailoverInput)))
def test_the_table_has_an_answer_for_every_state_and_input(state: FailoverState, happened: FailoverInput) -> None:
    expected, effects = TRANSITIONS[state, happened]
    entity = in_state(state)
    assert entity.apply(happened, 1.0) == effects
    assert entity.state is expected


@mission("M22")
def test_an_entity_fails_over_when_the_interval_has_passed_without_a_success() -> None:
    entity = EntityFailover(INTERVAL_S)
    assert entity.apply(FailoverInput.SEND_FAILED, 100.0) == (FailoverEffect.WATCH,)
    assert entity.due_at_s == 110.0
    assert entity.apply(FailoverInput.SEND_FAILED, 109.9) == ()
    assert entity.pass_time(109.9) == ()
    assert entity.pass_time(110.0) == (FailoverEffect.DIVERT,)
    assert entity.state is FAILED_OVER


@mission("M22")
def test_one_success_in_the_interval_ends_it() -> None:
    entity = EntityFailover(INTERVAL_S)
    entity.apply(FailoverInput.SEND_FAILED, 0.0)
    assert entity.apply(FailoverInput.SEND_SUCCEEDED, 9.0) == ()
    assert entity.pass_time(11.0) == ()
    entity.apply(FailoverInput.SEND_FAILED, 12.0)
    assert entity.due_at_s == 22.0, "the interval begins anew"


@mission("M20", "M22")
def test_without_an_interval_the_first_failure_is_enough() -> None:
    entity = EntityFailover(0.0)
    effects = entity.apply(FailoverInput.SEND_FAILED, 5.0)
    assert effects == (FailoverEffect.WATCH, FailoverEffect.DIVERT)
    assert entity.state is FAILED_OVER


@mission("M22")
@given(st.lists(st.tuples(st.sampled_from(HARMLESS), st.floats(0, 1000)), max_size=50), st.floats(0, 60))
def test_neither_a_refusal_nor_a_busy_server_ever_leads_away_from_the_primary(
    steps: list[tuple[FailoverInput, float]], interval_s: float
) -> None:
    entity = EntityFailover(interval_s)
    now_s = 0.0
    for happened, later_s in steps:
        now_s += later_s
        entity.apply(happened, now_s)
        assert entity.state is HEALTHY


@mission("M25")
@given(STEPS)
def test_only_a_ping_that_succeeds_brings_an_entity_back(steps: list[tuple[FailoverInput, float]]) -> None:
    entity = in_state(FAILED_OVER)
    now_s = INTERVAL_S
    for happened, later_s in steps:
        now_s += later_s
        effects = entity.apply(happened, now_s)
        if happened is FailoverInput.PING_SUCCEEDED:
            assert entity.state is HEALTHY
            assert effects == (FailoverEffect.RETURN,)
            return
        assert entity.state is FAILED_OVER
        assert effects == ()


@given(STEPS)
def test_a_detour_and_a_return_are_reported_in_turns(steps: list[tuple[FailoverInput, float]]) -> None:
    entity = EntityFailover(INTERVAL_S)
    now_s, is_diverted = 0.0, False
    for happened, later_s in steps:
        now_s += later_s
        for effect in entity.apply(happened, now_s):
            if effect is FailoverEffect.DIVERT:
                assert not is_diverted
                is_diverted = True
            elif effect is FailoverEffect.RETURN:
                assert is_diverted
                is_diverted = False
        assert is_diverted == (entity.state is FAILED_OVER)
        assert (entity.due_at_s is not None) == (entity.state is FAILING)
        assert (entity.failing_since_s is None) == (entity.state is HEALTHY)


def test_every_effect_is_in_the_table_and_is_performed() -> None:
    told: list[str] = []
    watched: list[str] = []
    entity = PairedEntity(
        "orders", 0.0, 1.0, lambda: 0.0, lambda one: told.append(one.event), lambda one: watched.append(one.path)
    )
    assert {effect for _, effects in TRANSITIONS.values() for effect in effects} == set(FailoverEffect)
    entity.happened(FailoverInput.SEND_FAILED)
    assert (told, watched) == (["failing", "failed-over"], ["orders"])
    entity.happened(FailoverInput.PING_SUCCEEDED)
    assert told == ["failing", "failed-over", "restored"]
