"""What a pair of namespaces costs, counted by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tandem.cost.estimate import Workload, estimate
from tandem.cost.tariff import DEFAULT_TARIFF, Tariff
from tandem.errors import ConfigurationError
from tests.markers import mission


@mission("M26", "M29")
@pytest.mark.parametrize("hours, polls", [(1, 40), (24, 960), (30 * 24, 28_800)])
def test_ten_backlog_queues_cost_as_many_long_polls_as_the_mission_says(hours: int, polls: int) -> None:
    lines = {(line.operation, line.stage): line for line in estimate(Workload(hours * 3_600), DEFAULT_TARIFF)}
    assert lines["empty-receive", "syphon"].operations == polls
    assert sum(line.operations for line in lines.values()) == polls


@mission("M29")
def test_a_message_on_the_detour_costs_four_operations_by_its_size() -> None:
    lines = estimate(Workload(backlog_queues=0, diverted_messages=1_000, message_bytes=65_537), DEFAULT_TARIFF)
    detour = [line for line in lines if line.operations]
    assert [(line.operation, line.stage, line.units) for line in detour] == [
        ("send", "backlog", 2_000),
        ("receive", "syphon", 2_000),
        ("send", "syphon", 2_000),
        ("receive", "direct", 2_000),
    ]
    assert sum(line.cost for line in detour) == Decimal("0.0064")


def test_pings_are_one_for_each_entity_client_and_interval() -> None:
    lines = estimate(Workload(backlog_queues=0, outage_s=7_200, entities=3, clients=2), DEFAULT_TARIFF)
    assert [line.operations for line in lines if line.operation == "ping"] == [720]


@mission("M26", "M29")
def test_every_syphon_polls_every_backlog_queue() -> None:
    lines = {syphons: estimate(Workload(3_600, syphons=syphons), DEFAULT_TARIFF)[0] for syphons in (1, 3)}
    assert {syphons: line.operations for syphons, line in lines.items()} == {1: 40, 3: 120}


@mission("M29")
def test_bandwidth_is_part_of_the_cost_of_each_leg_and_exact() -> None:
    gigabyte = Decimal(1_000_000_000)
    tariff = Tariff(
        "USD",
        Decimal(0),
        price_per_byte_in=Decimal("0.000001") / gigabyte,
        price_per_byte_out=Decimal("0.05") / gigabyte,
    )
    lines = estimate(Workload(backlog_queues=0, diverted_messages=3, message_bytes=1_000_000_001), tariff)
    detour = {(line.operation, line.stage): line for line in lines if line.operations}
    assert {line.size_bytes for line in detour.values()} == {3_000_000_003}
    assert detour["send", "backlog"].cost == Decimal("0.000003000000003")
    assert detour["receive", "syphon"].cost == detour["receive", "syphon"].bandwidth_cost == Decimal("0.15000000015")
    assert sum(line.cost for line in lines) == Decimal("0.300006000300006")


def test_a_workload_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="long_poll_s is 0"):
        Workload(long_poll_s=0)
    with pytest.raises(ConfigurationError, match="outage_s is -1"):
        Workload(outage_s=-1)
    with pytest.raises(ConfigurationError, match="syphons is 0"):
        Workload(syphons=0)
