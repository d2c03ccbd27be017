"""What a pair of namespaces costs, counted by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tandem.cost.estimate import Workload, estimate
from tandem.cost.tariff import DEFAULT_TARIFF
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


def test_a_workload_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="long_poll_s is 0"):
        Workload(long_poll_s=0)
    with pytest.raises(ConfigurationError, match="outage_s is -1"):
        Workload(outage_s=-1)
