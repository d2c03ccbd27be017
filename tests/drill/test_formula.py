"""The formula of a drill: what the brokers may meter, and what counts as too much or too little."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest

from tandem.drill.drivers import BATCH as RECEIVE_BATCH
from tandem.drill.formula import Made, Operations, overcharges
from tandem.drill.metered import Metered
from tandem.drill.plan import DrillPlan, Fault
from tandem.pairing.syphon import BATCH
from tests.markers import mission

PLAN = DrillPlan(fault=Fault.REFUSE_SENDS, backlog_queue_count=3)
MADE = Made(
    diverted=40,
    moved=40,
    delivered=100,
    closed_receivers=0,
    unanswered=0,
    pings_answered=3,
    pings_unanswered=0,
    empty_polls=6,
    peeks=9,
    seconds_to_empty=20.0,
)
METERED = Operations(
    backlog_sends=40,
    backlog_receives=40,
    backlog_settlements=0,
    syphon_sends=40,
    primary_receives=100,
    pings=3,
    empty_polls=6,
    peeks=9,
)


def judged(made: dict[str, Any], metered: dict[str, Any], plan: DrillPlan = PLAN) -> list[str]:
    return overcharges(plan, dataclasses.replace(MADE, **made), dataclasses.replace(METERED, **metered))


@mission("M29")
def test_four_charges_for_each_message_are_within_the_formula() -> None:
    assert judged({}, {}) == []


@mission("M29")
@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Operations)])
def test_one_operation_too_many_is_outside_the_formula(field: str) -> None:
    assert judged({}, {field: getattr(METERED, field) + 1})


@mission("M29")
@pytest.mark.parametrize("field", ["pings", "empty_polls", "peeks", "primary_receives"])
def test_one_operation_too_few_is_not_exact(field: str) -> None:
    (broken,) = judged({}, {field: getattr(METERED, field) - 1})
    assert f"the formula says {getattr(METERED, field)}" in broken


@mission("M29")
def test_in_an_outage_longer_than_a_lock_a_batch_of_each_backlog_queue_may_come_twice() -> None:
    most = 40 + 3 * BATCH
    long = {"seconds_to_empty": 60.0}
    assert judged(long, {"backlog_receives": most, "backlog_settlements": 3 * BATCH}) == []
    assert judged(long, {"backlog_receives": most + 1}) == [
        "341 receives from the backlog were metered, and the formula says 40 to 340"
    ]


def test_what_was_not_answered_may_or_may_not_be_metered() -> None:
    assert judged({"unanswered": 2, "pings_unanswered": 1}, {"syphon_sends": 42, "pings": 4}) == []


def test_a_batch_may_be_on_its_way_to_each_receiver_that_is_closed() -> None:
    assert judged({"closed_receivers": 2}, {"primary_receives": 100 + 2 * RECEIVE_BATCH}) == []
    assert judged({"closed_receivers": 2}, {"primary_receives": 101 + 2 * RECEIVE_BATCH})


def test_a_broker_that_was_killed_has_lost_its_last_records() -> None:
    killed = dataclasses.replace(PLAN, fault=Fault.KILL)
    assert judged({}, {"primary_receives": 60}, killed) == []
    assert judged({}, {"primary_receives": 60})


def test_operations_are_read_by_stage_from_what_both_brokers_metered() -> None:
    backlog = "first/x-servicebus-transfer/0"
    secondary = Metered(
        Counter(
            {
                (backlog, "send", "backlog", "ok"): 5,
                (backlog, "receive", "syphon", "ok"): 7,
                (backlog, "abandon", "syphon", "ok"): 2,
                (backlog, "empty-receive", "syphon", "ok"): 1,
                (backlog, "peek", "syphon", "ok"): 4,
                ("$operations", "send", "direct", "ok"): 9,
            }
        )
    )
    primary = Metered(
        Counter(
            {
                ("orders", "send", "syphon", "ok"): 4,
                ("orders", "schedule", "syphon", "ok"): 1,
                ("orders", "send", "direct", "ok"): 8,
                ("orders", "send", "syphon", "internal-error"): 3,
                ("orders", "ping", "direct", "ok"): 1,
                ("orders", "receive", "direct", "ok"): 14,
                ("orders", "abandon", "direct", "ok"): 1,
            }
        )
    )
    operations = Operations.of(secondary, [primary, primary])
    assert operations == Operations(5, 7, 2, 10, 26, 2, 1, 4)
    assert operations.extra_receives == 2
