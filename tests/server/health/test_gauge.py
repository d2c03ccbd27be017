"""One facet over time: when requests begin to be refused, and when they are taken again."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tandem.server.health import OFF, HealthSettings, memory
from tandem.server.health.facet import Facet, Limit, limits_of
from tandem.server.health.gauge import TRANSITIONS, Condition, Gauge, Reading
from tests.markers import mission

SUSTAINED_S = 10.0


def gauge(facet: Facet = Facet.COMMIT_TIME, bound: float = 100.0) -> Gauge:
    return Gauge(facet, Limit.of(facet, bound), SUSTAINED_S, 0.0)


@pytest.mark.parametrize("condition, reading, is_long", list(product(Condition, Reading, (False, True))))
def test_every_condition_has_an_answer_to_every_reading(condition: Condition, reading: Reading, is_long: bool) -> None:
    after = TRANSITIONS[condition, reading, is_long]
    is_refusing = condition in {Condition.OVERLOADED, Condition.EASING}
    will_refuse = after in {Condition.OVERLOADED, Condition.EASING}
    # Refusing begins by a limit that was passed for long, and ends by one that was kept for long.
    if will_refuse and not is_refusing:
        assert (reading, is_long) == (Reading.PASSED, True)
    if is_refusing and not will_refuse:
        assert (reading, is_long) == (Reading.KEPT, True)
    if not is_long:
        assert is_refusing is will_refuse


@mission("M13")
def test_a_moment_past_the_limit_refuses_nothing() -> None:
    one = gauge()
    for second in range(100):
        one.measure(1_000.0 if second % 9 else 0.0, float(second))
        assert not one.is_overloaded


@mission("M13")
def test_a_limit_that_is_passed_for_the_sustained_time_is_an_overload() -> None:
    one = gauge()
    assert not one.measure(101.0, 5.0)
    assert not one.measure(101.0, 14.9)
    assert one.measure(101.0, 15.0)
    assert one.is_overloaded


@mission("M13")
def test_an_overload_ends_only_when_the_value_was_clearly_within_the_limit_for_as_long() -> None:
    one = gauge()
    one.measure(101.0, 0.0)
    one.measure(101.0, 10.0)
    one.measure(99.0, 50.0)
    assert one.sentence(50.0).endswith("for 40 s"), "99 of 100 is not clear of the limit"
    one.measure(80.0, 60.0)
    assert one.is_overloaded
    one.measure(90.0, 65.0)
    one.measure(80.0, 66.0)
    assert not one.measure(80.0, 75.9)
    assert one.measure(80.0, 76.0)
    assert one.condition is Condition.WELL


def test_of_disk_headroom_less_is_worse() -> None:
    one = gauge(Facet.DISK_HEADROOM, 128.0)
    conditions = []
    for value in (128.0, 127.0, 128.0, 160.0):
        one.measure(value, 0.0)
        conditions.append(one.condition)
    assert conditions == [Condition.WELL, Condition.STRAINED, Condition.STRAINED, Condition.WELL]


def test_without_a_limit_a_facet_is_well_whatever_its_value() -> None:
    one = Gauge(Facet.MEMORY, None, SUSTAINED_S, 0.0)
    for second in range(100):
        assert not one.measure(1e9, float(second))
    assert one.sentence(100.0) == "memory is 1,000,000,000 MB, without a limit"


def test_the_sentence_of_a_facet_says_value_limit_and_for_how_long() -> None:
    one = gauge()
    one.measure(7_000.0, 0.0)
    one.measure(7_000.0, 10.0)
    assert one.sentence(22.0) == (
        "commit time is 7,000 ms, and the limit is 100 ms; it has been above that, or not clear of it, for 12 s"
    )


@mission("M13")
def test_every_limit_is_on_by_default_and_zero_switches_it_off() -> None:
    settings = HealthSettings.of({})
    assert all(limits_of(settings).values())
    assert settings.is_supervising
    names = ("max_event_loop_lag_ms", "max_commit_time_ms", "max_memory_megabytes", "min_disk_megabytes", "stall_ms")
    off = HealthSettings.of(dict.fromkeys(names, 0))
    assert not any(limits_of(off).values())
    assert not off.is_supervising
    assert not any(limits_of(OFF).values())
    assert not OFF.is_supervising


def test_the_default_limit_of_memory_is_three_quarters_of_what_the_container_may_have(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1073741824\n")
    assert memory.available_bytes((limit,)) == 1_073_741_824
    limit.write_text("max\n")
    assert memory.available_bytes((limit,)) == memory.available_bytes((tmp_path / "none",)) > 0
    settings = HealthSettings.of({})
    assert settings.max_memory_megabytes == int(memory.available_bytes() * 0.75) // 1_048_576
    assert memory.used_bytes() > 0
