"""Times as people and the service's own files write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.durations import duration_text, parse_duration_ms
from tandem.errors import ArgumentError


@pytest.mark.parametrize(
    "text, expected_ms",
    [
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("250ms", 250),
        ("1s500ms", 1_500),
        (" 30s ", 30_000),
        ("PT30S", 30_000),
        ("pt1m", 60_000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT0.0019S", 1),
        ("never", None),
        ("P10675199DT2H48M5.4775807S", None),
    ],
)
def test_a_time_is_read_in_both_forms(text: str, expected_ms: int | None) -> None:
    assert parse_duration_ms(text, "lock_duration") == expected_ms


@pytest.mark.parametrize(
    "text",
    ["", "30", "s", "30x", "5m1h", "5m5m", "-5s", "1.5h", "P", "PT", "P1", "P1Y", "P1M", "PT1S1M", "٣s", "9" * 70],
)
def test_what_is_no_time_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(ArgumentError, match="lock_duration is"):
        parse_duration_ms(text, "lock_duration")


@given(st.integers(min_value=0, max_value=10_675_199 * 86_400_000 - 1))
def test_what_is_written_can_be_read_back(value_ms: int) -> None:
    assert parse_duration_ms(duration_text(value_ms), "time") == value_ms


def test_never_can_be_read_back() -> None:
    assert parse_duration_ms(duration_text(None), "time") is None
