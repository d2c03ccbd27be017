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
    ReadPartition,
    SourceOffset,
    advance,
    apportion,
    bounded_by,
    head_of,
    ranges_between,
    split_ranges,
)
from tests.markers import mission

BACKLOGS = st.dictionaries(st.integers(0, 31).map(str), st.integers(0, 10_000), min_size=1, max_size=12)
BY_HUB = st.dictionaries(st.sampled_from(["orders", "Invoices", "a-b", "$x"]), BACKLOGS, min_size=1)


def extent(*bounds: tuple[int, int], incarnation: str = "1", size_bytes: int | None = None) -> list[HubExtent]:
    found = {str(number): PartitionExtent(*one, size_bytes) for number, one in enumerate(bounds)}
    return [HubExtent("orders", incarnation, found)]


def offset(*numbers: int, incarnation: str = "1", resumed: dict[str, int] | None = None) -> SourceOffset:
    known = {str(number): one for number, one in enumerate(numbers)}
    return SourceOffset.of([HubOffset("orders", incarnation, known, resumed or {})])


def offsets(by_hub: dict[str, dict[str, int]], incarnation: str = "1") -> SourceOffset:
    return SourceOffset.of([HubOffset(hub, incarnation, numbers) for hub, numbers in by_hub.items()])


def events(partition: str, first: int, end: int, incarnation: str = "1") -> EventRange:
    return EventRange("orders", incarnation, partition, first, end)


# --- in the checkpoint ----------------------------------------------------------------------------------------------


@given(by_hub=BY_HUB, incarnation=st.text(max_size=8))
def test_an_offset_survives_the_checkpoint_with_everything_in_order(
    by_hub: dict[str, dict[str, int]], incarnation: str
) -> None:
    written = json.dumps(offsets(by_hub, incarnation).to_json())
    assert SourceOffset.from_json(json.loads(written)) == offsets(by_hub, incarnation)
    # Spark compares texts.
    backwards = {hub: dict(reversed(numbers.items())) for hub, numbers in reversed(by_hub.items())}
    assert json.dumps(offsets(backwards, incarnation).to_json()) == written


def test_an_offset_of_one_hub_is_written_as_it_always_was() -> None:
    fields = {"v": 1, "hub": "orders", "epoch": "17", "seq": {"0": 123, "1": 99}}
    assert SourceOffset.from_json(fields).to_json() == fields
    assert offset(1, resumed={"0": 1}).to_json()["from"] == {"0": 1}


def test_offsets_of_another_version_are_refused() -> None:
    with pytest.raises(TandemError, match="version 3"):
        SourceOffset.from_json({"v": 3, "hub": "orders", "epoch": "1", "seq": {}})


def of_one_hub(backlogs: dict[str, int]) -> dict[ReadPartition, int]:
    return {ReadPartition("orders", int(partition)): backlog for partition, backlog in backlogs.items()}


# --- sharing out ----------------------------------------------------------------------------------------------------


@mission("M30")
@given(backlogs=BACKLOGS, limit=st.integers(1, 20_000))
def test_a_limit_is_used_up_and_nobody_gets_more_than_there_is(backlogs: dict[str, int], limit: int) -> None:
    shares = {one.id: share for one, share in apportion(of_one_hub(backlogs), limit).items()}
    assert shares.keys() == backlogs.keys()
    assert sum(shares.values()) == min(limit, sum(backlogs.values()))
    assert all(0 <= shares[partition] <= backlogs[partition] for partition in backlogs)


@given(backlogs=BACKLOGS, limit=st.integers(1, 20_000))
def test_shares_are_in_proportion_to_the_backlogs(backlogs: dict[str, int], limit: int) -> None:
    total = sum(backlogs.values())
    if total > limit:
        for one, share in apportion(of_one_hub(backlogs), limit).items():
            assert abs(share - backlogs[one.id] * limit / total) < 1


@given(by_hub=BY_HUB, limit=st.integers(1, 500))
def test_everything_of_every_hub_is_read_in_the_end_and_once(by_hub: dict[str, dict[str, int]], limit: int) -> None:
    hubs = [
        HubExtent(hub, "1", {partition: PartitionExtent(0, count) for partition, count in backlogs.items()})
        for hub, backlogs in by_hub.items()
    ]
    at = offsets({hub: dict.fromkeys(backlogs, 0) for hub, backlogs in by_hub.items()})
    read = {hub: dict.fromkeys(backlogs, 0) for hub, backlogs in by_hub.items()}
    while (following := advance(at, hubs, max_events=limit)) != at:
        ranges = split_ranges(ranges_between(at, following), 3)
        assert 0 < sum(one.count for one in ranges) <= limit
        for one in ranges:
            assert one.first == read[one.hub][one.partition]
            read[one.hub][one.partition] = one.end
        at = following
    assert read == by_hub
    assert at == head_of(hubs)


def test_bytes_are_turned_into_events_by_their_mean_size() -> None:
    # 100 events of 1,000 bytes: 10,000 bytes are 10 of them.
    assert advance(offset(0), extent((0, 100), size_bytes=100_000), max_bytes=10_000) == offset(10)
    assert advance(offset(0), extent((0, 100), size_bytes=100_000), max_bytes=1) == offset(1)
    assert advance(offset(0), extent((0, 100), size_bytes=100_000), max_bytes=10_000, max_events=4) == offset(4)


# --- ranges ---------------------------------------------------------------------------------------------------------


@given(backlogs=BACKLOGS, count=st.integers(1, 40))
def test_ranges_cover_everything_once_and_are_as_many_as_asked_for(backlogs: dict[str, int], count: int) -> None:
    start = offsets({"orders": dict.fromkeys(backlogs, 5)})
    end = offsets({"orders": {partition: 5 + backlog for partition, backlog in backlogs.items()}})
    ranges = split_ranges(ranges_between(start, end), count)
    numbers = [(one.partition, number) for one in ranges for number in range(one.first, one.end)]
    assert sorted(numbers) == sorted(
        (partition, number) for partition, backlog in backlogs.items() for number in range(5, 5 + backlog)
    )
    assert len(ranges) >= min(count, sum(backlogs.values()))
    assert all(one.count > 0 for one in ranges)


def test_a_partition_that_was_added_is_read_from_its_first_event_on() -> None:
    assert advance(offset(5), extent((0, 9), (0, 3))) == offset(9, 3)
    assert ranges_between(offset(5), offset(9, 3)) == [events("0", 5, 9), events("1", 0, 3)]


def test_what_came_after_the_target_is_for_the_next_run() -> None:
    now = extent((0, 9), (0, 3))
    assert advance(offset(2), bounded_by(now, offset(5))) == offset(5, 0)
    assert advance(offset(5, 0), bounded_by(now, offset(5))) == offset(5, 0)


# --- loss -----------------------------------------------------------------------------------------------------------


@mission("M30")
def test_events_that_have_expired_fail_the_query_and_are_named() -> None:
    with pytest.raises(DataLoss, match=r"events 3 to 6 of partition 0 of 'orders' are gone: the oldest .* is 7"):
        advance(offset(3), extent((7, 9)))
    following = advance(offset(3), extent((7, 9)), fails_on_data_loss=False)
    assert following == offset(9, resumed={"0": 7})
    assert ranges_between(offset(3), following) == [events("0", 7, 9)]


def test_a_hub_that_was_made_again_fails_the_query_or_is_read_from_its_start() -> None:
    again = extent((0, 4), incarnation="2")
    with pytest.raises(DataLoss, match="deleted and made again"):
        advance(offset(100), again)
    following = advance(offset(100), again, fails_on_data_loss=False)
    assert following == offset(4, incarnation="2")
    assert ranges_between(offset(100), following) == [events("0", 0, 4, "2")]


def test_a_head_that_stepped_back_fails_the_query_or_is_gone_on_from() -> None:
    with pytest.raises(DataLoss, match="ends before event 6, and had events up to 8 before"):
        advance(offset(9), extent((0, 6)))
    stepped = advance(offset(9), extent((0, 6)), fails_on_data_loss=False)
    assert stepped == offset(6, resumed={"0": 6})
    assert ranges_between(offset(9), stepped) == []
    # Nothing is new: the end of the last batch, whatever it says besides, is where the next one ends.
    assert advance(stepped, extent((0, 6)), fails_on_data_loss=False) == stepped
    # Events that came meanwhile have numbers that were used before, and are read.
    limited = advance(offset(9), extent((0, 6)), fails_on_data_loss=False, max_events=1)
    assert ranges_between(limited, advance(limited, extent((0, 8)))) == [events("0", 6, 8)]


# --- several hubs ---------------------------------------------------------------------------------------------------


def hub(name: str, *bounds: tuple[int, int]) -> HubExtent:
    return HubExtent(name, "1", {str(number): PartitionExtent(*one) for number, one in enumerate(bounds)})


def test_a_hub_that_appears_is_read_from_its_oldest_event_on() -> None:
    start = offsets({"orders": {"0": 5}})
    following = advance(start, [hub("orders", (0, 5)), hub("invoices", (2, 4))])
    assert ranges_between(start, following) == [EventRange("invoices", "1", "0", 2, 4)]


def test_a_hub_that_is_gone_fails_the_query_or_is_forgotten() -> None:
    start = offsets({"orders": {"0": 5}, "invoices": {"0": 5}})
    with pytest.raises(DataLoss, match="'invoices' was read before, and does not exist any more"):
        advance(start, [hub("orders", (0, 6))])
    following = advance(start, [hub("orders", (0, 6))], fails_on_data_loss=False)
    assert following == offsets({"orders": {"0": 6}})


def test_a_hub_that_appears_after_the_target_was_noted_is_for_the_next_run() -> None:
    now = [hub("orders", (0, 9)), hub("invoices", (0, 3))]
    assert bounded_by(now, offsets({"Orders": {"0": 5}})) == [hub("orders", (0, 5))]
