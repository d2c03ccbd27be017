"""Whom an overloaded broker refuses: the heaviest entities first, partitioned ones later, receives never."""

from __future__ import annotations

import pytest

from tandem.errors import ServerBusy
from tandem.limits import PARTITION_COUNT
from tandem.server.admission import Admission
from tandem.server.entity_loads import BYTES_PER_UNIT, EntityLoads
from tandem.server.health.shedding import EntityLoad, Shedding
from tandem.server.throttle import Throttle
from tests.markers import mission

STAGE_S = 10.0


def load(entity: str, rate: float, *, is_partitioned: bool = False, namespace: str = "sales") -> EntityLoad:
    return EntityLoad(namespace, entity, rate, is_partitioned)


def refused_by_stage(loads: list[EntityLoad]) -> list[frozenset[str]]:
    shedding = Shedding(STAGE_S)
    stages = []
    now_s = 0.0
    while not shedding.is_everything_refused:
        shedding.step(loads, now_s, is_easing=False)
        stages.append(shedding.refused_of("sales"))
        now_s += STAGE_S
    return stages


@mission("M13")
def test_the_heaviest_entities_are_refused_first_and_more_while_it_lasts() -> None:
    stages = refused_by_stage([load("a", 10.0), load("Big", 60.0), load("b", 20.0), load("c", 10.0)])
    assert stages[0] == {"big"}
    assert stages[1] == {"big", "b"}
    assert stages[2] == {"big", "b", "a"}
    assert len(stages) == 4


@mission("M13")
def test_a_partitioned_entity_is_refused_later_by_the_number_of_its_partitions() -> None:
    heavy = 15.0 * PARTITION_COUNT
    stages = refused_by_stage([load("partitioned", heavy, is_partitioned=True), load("plain", 16.0)])
    assert stages[0] == {"plain"}
    assert stages[1] == {"plain", "partitioned"}


def test_the_load_of_all_namespaces_counts_together() -> None:
    shedding = Shedding(STAGE_S)
    shedding.step([load("a", 1.0), load("b", 9.0, namespace="support")], 0.0, is_easing=False)
    assert shedding.refused_of("sales") == frozenset()
    assert shedding.refused_of("support") == {"b"}


def test_an_entity_stays_refused_though_its_load_falls_because_of_that() -> None:
    shedding = Shedding(STAGE_S)
    shedding.step([load("heavy", 9.0), load("light", 1.0)], 0.0, is_easing=False)
    shedding.step([load("light", 1.0)], STAGE_S, is_easing=False)
    assert shedding.refused_of("sales") == {"heavy", "light"}
    shedding.end()
    assert not shedding.is_active
    assert shedding.refused_of("sales") == frozenset()


def test_no_more_entities_are_refused_while_the_overload_eases() -> None:
    shedding = Shedding(STAGE_S)
    loads = [load("heavy", 9.0), load("light", 1.0)]
    shedding.step(loads, 0.0, is_easing=False)
    for second in range(1, 100):
        shedding.step(loads, float(second), is_easing=True)
    assert shedding.refused_of("sales") == {"heavy"}
    shedding.step(loads, 100.0, is_easing=False)
    assert shedding.refused_of("sales") == {"heavy"}, "the time of a stage begins again"


# --- what is refused ------------------------------------------------------------------------------------------------


@mission("M13")
def test_sends_to_a_refused_entity_and_its_management_are_answered_with_server_busy() -> None:
    assert not Admission(Throttle(None)).is_needed
    admission = Admission(Throttle(None))
    admission.refuse(frozenset({"orders", "news"}), "commit time is 7,000 ms")
    assert admission.is_needed
    with pytest.raises(ServerBusy, match=r"overloaded: commit time is 7,000 ms\. .*wait 10 seconds"):
        admission.check_send("Orders", 0, False)
    for managed in ("orders", "News/Subscriptions/all"):
        with pytest.raises(ServerBusy):
            admission.check_management(managed, 0)
    assert admission.refused_count == 3
    admission.check_send("other", 0, False)
    admission.check_management("", 0)
    admission.check_settlement(0)


@mission("M13")
def test_at_the_last_stage_everything_is_refused_but_receives_and_settlements() -> None:
    admission = Admission(Throttle(None))
    admission.refuse_everything("memory is 9,000 MB")
    with pytest.raises(ServerBusy):
        admission.check_send("other", 0, False)
    with pytest.raises(ServerBusy):
        admission.check_management("", 0)
    admission.check_settlement(0)
    admission.refuse_nothing()
    assert not admission.is_needed
    admission.check_send("other", 0, False)


def test_the_configured_rate_of_credits_counts_beside_an_overload() -> None:
    admission = Admission(Throttle(1))
    assert admission.is_needed
    admission.check_send("orders", 1_000, False)
    with pytest.raises(ServerBusy, match="throttled at 1 credits"):
        admission.check_send("orders", 1_000, False)


# --- load -----------------------------------------------------------------------------------------------------------


def test_load_is_an_average_of_messages_in_a_second_in_which_size_counts() -> None:
    loads = EntityLoads()
    for _ in range(200):
        loads.add("small", 10, 0)
        loads.add("large", 10, 30 * BYTES_PER_UNIT)
        loads.advance(1.0)
    assert loads.rates["small"] == pytest.approx(10.0, rel=0.01)
    assert loads.rates["large"] == pytest.approx(40.0, rel=0.01)


def test_a_load_that_has_ended_falls_to_half_in_ten_seconds_and_is_forgotten_at_last() -> None:
    loads = EntityLoads()
    for _ in range(200):
        loads.add("orders", 10, 0)
        loads.advance(1.0)
    loads.advance(10.0)
    assert loads.rates["orders"] == pytest.approx(5.0, rel=0.01)
    for _ in range(20):
        loads.advance(10.0)
    assert loads.rates == {}
