"""How far a query has come, and what it reads next."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.errors import TandemError
from tandem.spark.offsets import (
    DataLoss,
    EventRange,
    HubExtent,
    HubOffset,
    PartitionExtent,
    advance,
    apportion,
    bounded_by,
    ranges_between,
)
from tests.markers import mission

BACKLOGS = st.dictionaries(st.integers(0, 31).map(str), st.integers(0, 10_000), min_size=1, max_size=12)


def extent(*bounds: tuple[int, int], incarnation: str = "1", size_bytes: int | None = None) -> HubExtent:
    found = {str(number): PartitionExtent(*one, size_bytes) for number, one in enumerate(bounds)}
    return HubExtent("orders", incarnation, found)


def offset(*numbers: int, incarnation: str = "1") -> HubOffset:
    return HubOffset("orders", incarnation, {str(number): one for number, one in enumerate(numbers)})


# --- in the checkpoint ----------------------------------------------------------------------------------------------


@given(numbers=BACKLOGS, incarnation=st.text(max_size=8))
def test_an_offset_survives_the_checkpoint_with_its_partitions_in_order(
    numbers: dict[str, int], incarnation: str
) -> None:
    written = json.dumps(HubOffset("orders", incarnation, numbers).to_json())
    assert HubOffset.from_json(json.loads(written)) == HubOffset("orders", incarnation, numbers)
    assert list(json.loads(written)["seq"]) == sorted(numbers, key=int)


def test_offsets_of_another_version_are_refused() -> None:
    with pytest.raises(TandemError, match="version 2"):
        HubOffset.from_json({"v": 2, "hub": "orders", "epoch": "1", "seq": {}})


# --- sharing out ----------------------------------------------------------------------------------------------------


@mission("M30")
@given(backlogs=BACKLOGS, limit=st.integers(1, 20_000))
def test_a_limit_is_used_up_and_nobody_gets_more_than_there_is(backlogs: dict[str, int], limit: int) -> None:
    shares = apportion(backlogs, limit)
    assert shares.keys() == backlogs.keys()
    assert sum(shares.values()) == min(limit, sum(backlogs.values()))
    assert all(0 <= shares[partition] <= backlogs[partition] for partition in backlogs)


@given(backlogs=BACKLOGS, limit=st.integers(1, 20_000))
def test_shares_are_in_proportion_to_the_backlogs(backlogs: dict[str, int], limit: int) -> None:
    total = sum(backlogs.values())
    if total > limit:
        for partition, share in apportion(backlogs, limit).items():
            assert abs(share - backlogs[partition] * limit / total) < 1


@given(backlogs=BACKLOGS, limit=st.integers(1, 500))
def test_everything_is_read_in_the_end_and_once(backlogs: dict[str, int], limit: int) -> None:
    hub = HubExtent("orders", "1", {partition: PartitionExtent(0, count) for partition, count in backlogs.items()})
    at = HubOffset("orders", "1", dict.fromkeys(backlogs, 0))
    read: dict[str, int] = dict.fromkeys(backlogs, 0)
    while (following := advance(at, hub, max_events=limit)) != at:
        for one in ranges_between(at, following, 3):
            assert one.first == read[one.partition]
            read[one.partition] = one.end
        at = following
    assert read == backlogs


def test_bytes_are_turned_into_events_by_their_mean_size() -> None:
    # 100 events of 1,000 bytes: 10,000 bytes are 10 of them.
    assert advance(offset(0), extent((0, 100), size_bytes=100_000), max_bytes=10_000) == offset(10)
    assert advance(offset(0), extent((0, 100), size_bytes=100_000), max_bytes=1) == offset(1)
    assert advance(offset(0), extent((0, 100), size_bytes=100_000), max_bytes=10_000, max_events=4) == offset(4)


# --- ranges ---------------------------------------------------------------------------------------------------------


@given(backlogs=BACKLOGS, count=st.integers(1, 40))
def test_ranges_cover_everything_once_and_are_as_many_as_asked_for(backlogs: dict[str, int], count: int) -> None:
    start = HubOffset("orders", "1", dict.fromkeys(backlogs, 5))
    end = HubOffset("orders", "1", {partition: 5 + backlog for partition, backlog in backlogs.items()})
    ranges = ranges_between(start, end, count)
    numbers = [(one.partition, number) for one in ranges for number in range(one.first, one.end)]
    assert sorted(numbers) == sorted(
        (partition, number) for partition, backlog in backlogs.items() for number in range(5, 5 + backlog)
    )
    assert len(ranges) >= min(count, sum(backlogs.values()))
    assert all(one.count > 0 for one in ranges)


def test_a_partition_that_was_added_is_read_from_its_first_event_on() -> None:
    assert advance(offset(5), extent((0, 9), (0, 3))) == offset(9, 3)
    assert ranges_between(offset(5), offset(9, 3)) == [EventRange("0", 5, 9), EventRange("1", 0, 3)]


def test_what_came_after_the_target_is_for_the_next_run() -> None:
    now = extent((0, 9), (0, 3))
    assert advance(offset(2), bounded_by(now, offset(5))) == offset(5, 0)
    assert advance(offset(5, 0), bounded_by(now, offset(5))) == offset(5, 0)


# --- loss -----------------------------------------------------------------------------------------------------------


@mission("M30")
def test_events_that_have_expired_fail_the_query_and_are_named() -> None:
    with pytest.raises(DataLoss, match=r"events 3 to 6 of partition 0 of 'orders' are gone: the oldest .* is 7"):
        advance(offset(3), extent((7, 9)))
    assert advance(offset(3), extent((7, 9)), fails_on_data_loss=False) == offset(9)


def test_a_hub_that_was_made_again_fails_the_query_or_is_read_from_its_start() -> None:
    again = extent((0, 4), incarnation="2")
    with pytest.raises(DataLoss, match="deleted and made again"):
        advance(offset(100), again)
    following = advance(offset(100), again, fails_on_data_loss=False)
    assert following == offset(4, incarnation="2")
    assert ranges_between(offset(100), following) == [EventRange("0", 0, 4)]


def test_a_head_that_stepped_back_is_noticed_and_never_followed() -> None:
    with pytest.raises(DataLoss, match="was read up to 9 before"):
        advance(offset(9), extent((0, 6)))
    assert advance(offset(9), extent((0, 6)), fails_on_data_loss=False) == offset(9)


def test_a_checkpoint_of_another_hub_is_refused_whatever_is_tolerated() -> None:
    with pytest.raises(TandemError, match="a checkpoint of its own"):
        advance(HubOffset("invoices", "1", {"0": 1}), extent((0, 6)), fails_on_data_loss=False)
