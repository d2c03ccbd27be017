"""The account of an event hub notices every kind of broken promise."""

from __future__ import annotations

import pytest

from tests.crash.hub_ledger import HubEvent, HubLedger


def _filled() -> tuple[HubLedger, list[HubEvent]]:
    """Two batches that were acknowledged, and seen."""
    ledger = HubLedger("hub", 1)
    producer = ledger.new_producer()
    events = [*ledger.take(producer, 2), *ledger.take(producer, 3)]
    ledger.acknowledge(events)
    for number, event in enumerate(events):
        ledger.see(0, number, event)
    return ledger, events


def test_what_was_acknowledged_seen_and_accounted_for_breaks_nothing() -> None:
    ledger, _ = _filled()
    ledger.account(0, 5)
    ledger.check_acknowledged(ledger.acknowledged)
    assert ledger.close() == {"acknowledged": 5, "stored": 5, "stored_again": 0}
    assert (ledger.broken_count, dict(ledger.broken)) == (0, {})


def test_an_event_survives_its_encoding() -> None:
    event = HubEvent(1, 2, 3, 4)
    assert HubEvent.decode(event.encode(100)) == event
    assert len(event.encode(100)) == 100


def test_what_is_in_doubt_may_be_there_or_not() -> None:
    ledger = HubLedger("hub", 1)
    producer = ledger.new_producer()
    ledger.take(producer, 3)
    kept = ledger.take(producer, 1)
    ledger.see(0, 0, kept[0])
    ledger.account(0, 1)
    ledger.close()
    assert dict(ledger.broken) == {}


def _repeated(times: int, *, is_impatient: bool = True, dies: bool = True) -> HubLedger:
    """A batch that was under way when the broker died, if it did, and is there several times."""
    ledger = HubLedger("hub", 1)
    batch = ledger.take(ledger.new_producer(), 2, is_impatient=is_impatient)
    if dies:
        ledger.record_death()
    for number, event in enumerate(batch * times):
        ledger.see(0, number, event)
    ledger.account(0, 2 * times)
    return ledger


def test_a_batch_that_the_sdk_sent_again_after_a_death_may_be_there_twice() -> None:
    ledger = _repeated(2)
    assert ledger.close() == {"acknowledged": 0, "stored": 4, "stored_again": 2}
    assert dict(ledger.broken) == {}


def test_three_times_is_too_often() -> None:
    assert set(_repeated(3).broken) == {"stored_twice", "order"}


def test_nothing_is_there_twice_without_a_death() -> None:
    assert set(_repeated(2, dies=False).broken) == {"stored_twice", "order"}


def test_a_producer_that_does_not_send_again_has_nothing_there_twice() -> None:
    assert set(_repeated(2, is_impatient=False).broken) == {"stored_twice", "order"}


def test_a_repetition_is_whole() -> None:
    ledger = HubLedger("hub", 1)
    batch = ledger.take(ledger.new_producer(), 2, is_impatient=True)
    ledger.record_death()
    for number, event in enumerate([*batch, batch[0]]):
        ledger.see(0, number, event)
    ledger.account(0, 3)
    assert set(ledger.broken) == {"half_a_batch"}


def test_an_acknowledged_event_that_is_missing_is_lost() -> None:
    ledger, _ = _filled()
    ledger.acknowledge(ledger.take(1, 1))
    ledger.account(0, 5)
    ledger.check_acknowledged(ledger.acknowledged)
    ledger.close()
    assert len(ledger.broken["lost"]) == 2


def test_readers_that_see_different_events_are_noticed() -> None:
    ledger, events = _filled()
    ledger.see(0, 1, events[2])
    assert list(ledger.broken) == ["not_the_same_for_all"]


def test_a_gap_is_noticed() -> None:
    ledger, events = _filled()
    ledger.see(0, 7, events[0])
    assert list(ledger.broken) == ["gap"]


@pytest.mark.parametrize(
    "order, promise",
    [
        ([0, 1, 2, 3, 4, 4], "stored_twice"),
        ([2, 3, 4, 0, 1], "order"),
        ([1, 2, 3, 4], "half_a_batch"),
        ([0, 1, 2, 3], "half_a_batch"),
        ([0, 2, 3, 4, 1], "half_a_batch"),
    ],
)
def test_events_in_the_wrong_place_are_noticed(order: list[int], promise: str) -> None:
    ledger = HubLedger("hub", 1)
    producer = ledger.new_producer()
    events = [*ledger.take(producer, 2), *ledger.take(producer, 3)]
    for number, at in enumerate(order):
        ledger.see(0, number, events[at])
    ledger.account(0, len(order))
    assert promise in ledger.broken


def test_an_event_that_nobody_sent_is_noticed() -> None:
    ledger, _ = _filled()
    ledger.see(0, 5, HubEvent(1, 99, 99, 1))
    ledger.account(0, 6)
    assert list(ledger.broken) == ["never_sent"]
