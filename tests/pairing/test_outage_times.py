"""The times of an outage, from the events of its clients."""

from __future__ import annotations

import pytest

from tandem.pairing.outage_times import OUTAGE_TIMES, OutageTimes, outage_times

Told = tuple[float, str, str, int]

ALONE: list[Told] = [
    (0.0, "failing", "a", 0),
    (10.5, "failed-over", "a", 0),
    (12.0, "diverted", "a", 30),
    (130.6, "restored", "a", 0),
    (131.0, "syphoned", "syphon", 20),
]


def times(told: list[Told]) -> OutageTimes:
    return outage_times(
        (at_s, {"event": name, "client": client, **({"count": count} if count else {})})
        for at_s, name, client, count in told
    )


@pytest.mark.parametrize(
    "told, expected",
    [
        ([], OutageTimes()),
        (ALONE[:1], OutageTimes()),
        (ALONE[:3], OutageTimes(10.5, None, None)),
        # Ten messages are still in the backlog.
        (ALONE, OutageTimes(10.5, 120.1, None)),
        ([*ALONE, (134.6, "syphoned", "syphon", 10)], OutageTimes(10.5, 120.1, 4.0)),
        # The syphon may be done before the last client has asked whether the primary is back.
        ([*ALONE, (130.0, "syphoned", "syphon", 30)], OutageTimes(10.5, 120.1, 0.4)),
        # Without a failover interval nothing is failing first.
        ([(5.0, "failed-over", "a", 0), (7.0, "restored", "a", 0)], OutageTimes(0.0, 2.0, None)),
        # It was failing before, and recovered by itself: that was not this outage.
        ([(-50.0, "failing", "a", 0), *ALONE[:2]], OutageTimes(10.5, None, None)),
    ],
)
def test_the_times_of_an_outage(told: list[Told], expected: OutageTimes) -> None:
    assert times(told) == expected


def test_an_outage_is_detected_by_the_first_client_and_over_with_the_last() -> None:
    told: list[Told] = [
        *((0, "failing", "a", 0), (5, "failing", "b", 0)),
        *((10, "failed-over", "a", 0), (15, "failed-over", "b", 0), (60, "restored", "a", 0)),
    ]
    assert times(told) == OutageTimes(10.0, None, None)
    assert times([*told, (65, "restored", "b", 0)]) == OutageTimes(10.0, 55.0, None)


def test_every_time_is_defined() -> None:
    assert tuple(OUTAGE_TIMES) == OutageTimes._fields
