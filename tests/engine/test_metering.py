"""Counting operations: what becomes of tallies when a second is over."""

from __future__ import annotations

import pytest

from tandem.engine.metering import LATENCY_BOUNDS_MS, OK, Meter, OperationRecord, billable_units, stage_of
from tests.markers import mission


def records_of(meter: Meter) -> dict[tuple[int, str, str], OperationRecord]:
    return {(record.second, record.operation, record.outcome): record for record in meter.take()}


@mission("M29")
@pytest.mark.parametrize(
    "size_bytes, units", [(0, 1), (1, 1), (65_536, 1), (65_537, 2), (131_072, 2), (131_073, 3), (1_048_576, 16)]
)
def test_a_message_is_charged_for_each_64_kb_that_it_has_begun(size_bytes: int, units: int) -> None:
    assert billable_units(size_bytes) == units
    meter = Meter()
    meter.begin(1_000)
    meter.tally("orders", "queue", "send", "me", False).add(size_bytes)
    (record,) = meter.take_all()
    assert (record.count, record.size_bytes, record.billable_units) == (1, size_bytes, units)


@mission("M29")
@pytest.mark.parametrize(
    "entity, operation, is_syphon, stage",
    [
        ("orders", "send", False, "direct"),
        ("orders", "receive", False, "direct"),
        ("orders", "send", True, "syphon"),
        ("contoso/x-servicebus-transfer/0", "send", False, "backlog"),
        ("Contoso/X-ServiceBus-Transfer/0", "send", True, "backlog"),
        ("contoso/x-servicebus-transfer/0", "receive", False, "syphon"),
        ("contoso/x-servicebus-transfer/0", "empty-receive", True, "syphon"),
    ],
)
def test_the_stage_is_told_by_the_entity_and_by_who_asks(
    entity: str, operation: str, is_syphon: bool, stage: str
) -> None:
    assert stage_of(entity, operation, is_syphon) == stage


def test_a_second_is_told_when_it_is_over_and_not_before() -> None:
    meter = Meter()
    meter.begin(5_000)
    tally = meter.tally("orders", "queue", "send", "me", False)
    tally.add(10)
    meter.begin(5_999)
    tally.add(20)
    assert meter.take() == []
    meter.begin(6_000)
    tally.add(40)
    meter.begin(7_500)
    records = records_of(meter)
    assert records[5, "send", OK].count == 2
    assert records[5, "send", OK].size_bytes == 30
    assert records[6, "send", OK].size_bytes == 40
    assert meter.take() == []


def test_links_of_one_client_are_one_record_and_other_clients_are_others() -> None:
    meter = Meter()
    meter.begin(1_000)
    for client in ("a", "a", "b"):
        meter.tally("orders", "queue", "send", client, False).add(1)
    records = meter.take_all()
    assert sorted((record.client, record.count) for record in records) == [("a", 2), ("b", 1)]


def test_outcomes_and_operations_are_counted_apart() -> None:
    meter = Meter()
    meter.begin(1_000)
    meter.tally("orders", "queue", "send", "me", False).add(1)
    meter.tally("orders", "queue", "send", "me", False, "server-busy").add(1)
    meter.tally("orders", "queue", "complete", "me", False).add_many(5)
    meter.begin(2_000)
    records = records_of(meter)
    assert {key: record.count for key, record in records.items()} == {
        (1, "send", OK): 1,
        (1, "send", "server-busy"): 1,
        (1, "complete", OK): 5,
    }


@pytest.mark.parametrize(
    "latency_ms, bound", [(0, 1), (1, 1), (2, 2), (3, 5), (600_000, 600_000), (600_001, -1), (-5, 1)]
)
def test_a_latency_is_counted_under_the_lowest_bound_that_it_does_not_exceed(latency_ms: int, bound: int) -> None:
    assert list(LATENCY_BOUNDS_MS) == sorted(LATENCY_BOUNDS_MS)
    meter = Meter()
    meter.begin(1_000)
    tally = meter.tally("orders", "queue", "send", "me", False)
    tally.add(1)
    tally.add_latency(latency_ms, 1)
    (record,) = meter.take_all()
    assert record.latencies == {bound: 1}


def test_a_latency_that_is_known_in_a_later_second_is_not_lost() -> None:
    meter = Meter()
    meter.begin(1_000)
    tally = meter.tally("orders", "queue", "send", "me", False)
    tally.add(1)
    meter.begin(2_000)
    tally.add_latency(700, 1)
    meter.begin(3_000)
    records = records_of(meter)
    assert records[1, "send", OK].latencies == {}
    assert (records[2, "send", OK].count, records[2, "send", OK].latencies) == (0, {1_000: 1})


def test_too_many_clients_are_counted_together_and_none_is_forgotten() -> None:
    meter = Meter()
    meter.begin(1_000)
    for number in range(10_050):
        meter.tally("orders", "queue", "send", f"client {number}", False).add(1)
    records = meter.take_all()
    assert len(records) == 10_001
    assert sum(record.count for record in records) == 10_050
    assert [record.count for record in records if record.client == "(others)"] == [50]


def test_a_meter_that_is_off_counts_nothing() -> None:
    meter = Meter()
    meter.is_on = False
    meter.begin(1_000)
    tally = meter.tally("orders", "queue", "send", "me", False)
    tally.add(1)
    tally.add_many(1)
    tally.add_batch(2, 10, 2)
    tally.add_latency(1, 1)
    assert meter.take_all() == []
