"""The accounts of the crash test see what they are there to see, and forgive what is in doubt."""

from __future__ import annotations

import pytest

from tests.crash.ledger import Ledger, OnceLedger, ScheduleLedger, SessionLedger, TransactionLedger


def broken(ledger: Ledger) -> dict[str, int]:
    ledger.close()
    return dict(ledger.broken_counts)


def passed(ledger: Ledger, sequence_number: int, number: int, life: int = 1) -> None:
    """A message comes, and its completion is acknowledged."""
    ledger.receive(sequence_number, number, life)
    ledger.attempt(sequence_number, number)
    ledger.complete(sequence_number, life)


def test_a_message_that_was_acknowledged_and_never_came_is_lost() -> None:
    ledger = Ledger("queue")
    ledger.acknowledge(ledger.take_numbers(2))
    passed(ledger, 1, 0)
    assert broken(ledger) == {"lost": 1}


def test_a_message_that_came_once_and_vanished_before_its_completion_is_lost() -> None:
    ledger = Ledger("queue")
    ledger.acknowledge(ledger.take_numbers(1))
    ledger.receive(1, 0, 1)
    assert broken(ledger) == {"lost": 1}


def test_a_send_in_doubt_may_be_stored_once_twice_or_never() -> None:
    ledger = Ledger("queue")
    ledger.doubt(ledger.take_numbers(3))
    passed(ledger, 1, 0)
    passed(ledger, 2, 1)
    passed(ledger, 3, 1)
    assert broken(ledger) == {}
    assert ledger.figures()["sends_in_doubt_that_were_stored"] == 2
    assert ledger.figures()["stored_more_than_once"] == 1


def test_a_message_that_comes_after_its_acknowledged_completion_is_seen_again() -> None:
    ledger = Ledger("queue")
    ledger.acknowledge(ledger.take_numbers(1))
    passed(ledger, 1, 0, life=1)
    ledger.receive(1, 0, 2)
    assert broken(ledger) == {"completed_and_seen_again": 1}


def test_a_message_that_lay_in_a_client_since_an_earlier_life_is_not_seen_again() -> None:
    ledger = Ledger("queue")
    ledger.acknowledge(ledger.take_numbers(1))
    passed(ledger, 1, 0, life=2)
    ledger.receive(1, 0, 1)
    assert broken(ledger) == {}


def test_a_completion_in_doubt_may_have_happened_or_not() -> None:
    ledger = Ledger("queue")
    ledger.acknowledge(ledger.take_numbers(2))
    for number in (0, 1):
        ledger.receive(number + 1, number, 1)
        ledger.attempt(number + 1, number)
    passed(ledger, 1, 0, life=2)
    assert broken(ledger) == {}
    assert ledger.figures()["completions_in_doubt"] == 1


def test_a_sequence_number_belongs_to_one_message() -> None:
    ledger = Ledger("queue")
    ledger.acknowledge(ledger.take_numbers(2))
    passed(ledger, 1, 0)
    ledger.receive(1, 1, 1)
    ledger.attempt(1, 1)
    assert broken(ledger) == {"sequence_number_used_twice": 1, "completed_and_seen_again": 1}


def test_a_message_that_nobody_sent_is_noticed() -> None:
    ledger = Ledger("queue")
    ledger.receive(1, 0, 1)
    assert broken(ledger) == {"never_sent": 1}


def test_what_is_received_and_deleted_may_vanish_under_way_but_never_come_twice() -> None:
    ledger = OnceLedger("queue")
    ledger.acknowledge(ledger.take_numbers(3))
    ledger.allow(2)
    ledger.receive(1, 0, 1)
    assert broken(ledger) == {}
    ledger.receive(1, 0, 2)
    assert broken(ledger) == {"received_and_deleted_twice": 1}


def test_more_than_could_be_under_way_is_lost_from_receive_and_delete_too() -> None:
    ledger = OnceLedger("queue")
    ledger.acknowledge(ledger.take_numbers(4))
    ledger.allow(2)
    ledger.receive(1, 0, 1)
    assert broken(ledger) == {"lost": 1}


def test_a_message_that_comes_before_it_is_due_is_too_early() -> None:
    ledger = ScheduleLedger("queue")
    numbers = ledger.take_numbers(1)
    ledger.schedule(numbers, 100.0)
    ledger.check_due(0, 100.0)
    assert not ledger.broken_counts
    ledger.check_due(0, 99.999)
    assert ledger.broken_counts == {"too_early": 1}


def test_a_message_that_overtakes_another_of_its_session_is_noticed() -> None:
    ledger = SessionLedger("queue")
    ledger.acknowledge_in("red", ledger.take_numbers(2))
    ledger.check_order("red", 1, on_this_link=set())
    assert ledger.broken_counts == {"overtaken": 1}


@pytest.mark.parametrize("is_on_the_link", [True, False])
def test_a_message_follows_what_was_completed_or_came_over_the_same_link(is_on_the_link: bool) -> None:
    ledger = SessionLedger("queue")
    ledger.acknowledge_in("red", ledger.take_numbers(1))
    ledger.acknowledge_in("green", ledger.take_numbers(1))
    ledger.acknowledge_in("red", ledger.take_numbers(1))
    if not is_on_the_link:
        ledger.attempt(1, 0)
    ledger.check_order("red", 2, on_this_link={0} if is_on_the_link else set())
    assert not ledger.broken_counts


def test_half_a_transaction_is_noticed_whether_it_was_acknowledged_or_not() -> None:
    ledger = TransactionLedger("queue")
    numbers = ledger.take_numbers(2)
    ledger.declare(numbers)
    ledger.doubt(numbers)
    passed(ledger, 1, 0)
    assert broken(ledger) == {"half_a_transaction": 1}


def test_a_message_of_a_transaction_that_was_rolled_back_must_not_come() -> None:
    ledger = TransactionLedger("queue")
    numbers = ledger.take_numbers(1)
    ledger.declare(numbers)
    ledger.roll_back(numbers)
    passed(ledger, 1, 0)
    assert broken(ledger) == {"rolled_back_and_seen": 1}
