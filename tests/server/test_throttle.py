"""Throttling: how much may be asked of a namespace in a second, and what beyond that is answered."""

from __future__ import annotations

import pytest

from tandem.errors import ServerBusy
from tandem.limits import PARTITION_COUNT
from tandem.server.throttle import MANAGEMENT_CREDITS, MESSAGE_CREDITS, Throttle
from tests.markers import mission


def passed(throttle: Throttle, now_ms: int, attempts: int, *, is_partitioned: bool = False) -> int:
    """How many of so many messages get through at one moment."""
    count = 0
    for _ in range(attempts):
        try:
            throttle.take(MESSAGE_CREDITS, now_ms, is_partitioned=is_partitioned)
        except ServerBusy:
            continue
        count += 1
    return count


@mission("M13")
def test_beyond_its_credits_a_namespace_is_busy() -> None:
    throttle = Throttle(100)
    assert passed(throttle, 1_000, 150) == 100
    assert throttle.refused_count == 50
    with pytest.raises(ServerBusy, match="throttled at 100 credits a second"):
        throttle.take(MESSAGE_CREDITS, 1_000)


@mission("M13")
def test_credits_come_back_with_time_and_are_not_saved_up_for_more_than_a_second() -> None:
    throttle = Throttle(100)
    passed(throttle, 1_000, 100)
    assert passed(throttle, 1_250, 100) == 25
    assert passed(throttle, 60_000, 150) == 100


@mission("M13")
def test_a_partitioned_queue_is_throttled_less() -> None:
    throttle = Throttle(10)
    assert passed(throttle, 1_000, 1_000, is_partitioned=True) == 10 * PARTITION_COUNT


def test_a_management_operation_costs_as_much_as_ten_messages() -> None:
    throttle = Throttle(25)
    throttle.take(MANAGEMENT_CREDITS, 1_000)
    throttle.take(MANAGEMENT_CREDITS, 1_000)
    assert passed(throttle, 1_000, 10) == 5


def test_without_a_rate_everything_passes() -> None:
    throttle = Throttle(None)
    assert passed(throttle, 0, 10_000) == 10_000
    assert throttle.refused_count == 0
