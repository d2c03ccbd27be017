"""Transactions: all of it, or nothing."""

from __future__ import annotations

import pytest

from tandem.engine.lock_table import Lock
from tandem.engine.queue import Queue
from tandem.engine.transactions import Transaction
from tandem.errors import (
    MessageLockLost,
    NotAllowed,
    QuotaExceeded,
    TransactionRollback,
    TransactionTimeout,
    TransactionUnknownId,
)
from tandem.limits import MAX_MESSAGES_PER_TRANSACTION, MAX_TRANSACTIONS_PER_CONNECTION, TRANSACTION_TIMEOUT_MS
from tests.unit.engine_desk import Desk, payload


def declare(desk: Desk) -> Transaction:
    return desk.namespace.transactions.declare("owner")


def send(transaction: Transaction, queue: Queue, *messages: bytes) -> None:
    for message in messages:
        transaction.send(queue, queue.read(message, 0))


def locked(desk: Desk, queue: Queue) -> Lock:
    desk.send(queue, payload("locked"))
    desk.receiver(queue.main, credit=1)
    (lock,) = desk.take()
    return lock


def test_what_is_sent_in_a_transaction_is_there_with_its_discharge() -> None:
    desk = Desk()
    queue = desk.queue()
    transaction = declare(desk)
    send(transaction, queue, payload("a"), payload("b"))
    desk.flush()
    assert desk.peek(queue.main) == []
    desk.discharge(transaction)
    assert desk.peek(queue.main) == ["a", "b"]


def test_what_is_settled_in_a_transaction_is_done_with_its_discharge() -> None:
    desk = Desk()
    queue, results = desk.queue(), desk.queue("results")
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    send(transaction, results, payload("result"))
    assert queue.main.active_count == 1
    desk.discharge(transaction)
    assert (queue.main.active_count, results.main.active_count) == (0, 1)


def test_a_transaction_that_fails_leaves_everything_as_it_was() -> None:
    desk = Desk()
    queue = desk.queue()
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    send(transaction, queue, payload("a"))
    desk.discharge(transaction, is_failed=True)
    assert desk.peek(queue.main) == ["locked"]
    queue.main.complete(lock)
    desk.flush()
    assert queue.main.active_count == 0


def test_a_transaction_is_on_disk_as_a_whole_or_not_at_all() -> None:
    desk = Desk()
    queue = desk.queue()
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    send(transaction, queue, payload("a"))
    desk.namespace.transactions.discharge(transaction.identifier, "owner", False, "asker")
    effects = desk.namespace.effects
    assert (len(effects.removed), len(effects.appended)) == (1, 1)
    desk.write()
    desk.restart()
    assert desk.peek(desk.namespace.get("orders").main) == ["locked"]


def test_a_lock_lasts_as_long_as_the_transaction_that_uses_it() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=1_000)
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    desk.advance(60_000)
    desk.discharge(transaction)
    assert queue.main.active_count == 0


def test_a_lock_that_is_over_when_its_transaction_fails_has_failed_itself() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=1_000)
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    desk.advance(60_000)
    desk.discharge(transaction, is_failed=True)
    desk.receiver(queue.main)
    assert [one.message.delivery_count for one in desk.take()] == [1]


def test_a_message_is_settled_by_one_transaction_only() -> None:
    desk = Desk()
    queue = desk.queue()
    lock = locked(desk, queue)
    declare(desk).settle(lock, lambda: queue.main.complete(lock))
    with pytest.raises(NotAllowed, match="by a transaction already"):
        declare(desk).settle(lock, lambda: queue.main.complete(lock))


def test_a_lock_that_is_over_cannot_be_part_of_a_transaction() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=1_000)
    lock = locked(desk, queue)
    desk.advance(1_000)
    with pytest.raises(MessageLockLost):
        declare(desk).settle(lock, lambda: queue.main.complete(lock))


def test_a_transaction_with_a_part_that_cannot_be_done_does_nothing() -> None:
    desk = Desk()
    queue, doomed = desk.queue(), desk.queue("doomed")
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    send(transaction, doomed, payload("a"))
    desk.namespace.delete(doomed)
    with pytest.raises(TransactionRollback, match="was deleted"):
        desk.discharge(transaction)
    assert queue.main.active_count == 1
    queue.main.complete(lock)


def test_a_transaction_whose_message_was_settled_by_others_does_nothing() -> None:
    desk = Desk()
    queue = desk.queue()
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    send(transaction, queue, payload("a"))
    queue.main.complete(lock)
    with pytest.raises(TransactionRollback):
        desk.discharge(transaction)
    desk.flush()
    assert queue.main.active_count == 0


def test_a_transaction_has_at_most_a_hundred_messages() -> None:
    desk = Desk()
    queue = desk.queue()
    transaction = declare(desk)
    send(transaction, queue, *[payload("a")] * MAX_MESSAGES_PER_TRANSACTION)
    with pytest.raises(NotAllowed, match="at most 100 messages, this one 101"):
        send(transaction, queue, payload("b"))


def test_a_transaction_is_rolled_back_for_its_age_and_its_owner_is_told_why() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=1_000)
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    send(transaction, queue, payload("a"))
    desk.advance(TRANSACTION_TIMEOUT_MS)
    with pytest.raises(TransactionTimeout):
        desk.discharge(transaction)
    with pytest.raises(TransactionUnknownId):
        desk.discharge(transaction)
    assert desk.peek(queue.main) == ["locked"]
    desk.receiver(queue.main)
    assert len(desk.take()) == 1


def test_a_transaction_belongs_to_its_owner() -> None:
    desk = Desk()
    transaction = declare(desk)
    discharge = desk.namespace.transactions.discharge
    answer = desk.ask(lambda asker: discharge(transaction.identifier, "somebody else", False, asker))
    assert isinstance(answer, TransactionUnknownId)
    desk.discharge(transaction)


def test_the_transactions_of_an_owner_that_left_are_rolled_back() -> None:
    desk = Desk()
    queue = desk.queue()
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    desk.namespace.transactions.roll_back_of("owner")
    with pytest.raises(TransactionUnknownId):
        desk.discharge(transaction)
    queue.main.complete(lock)


def test_an_owner_has_a_bounded_number_of_open_transactions() -> None:
    desk = Desk()
    for _ in range(MAX_TRANSACTIONS_PER_CONNECTION):
        declare(desk)
    with pytest.raises(QuotaExceeded, match="at most 100 are allowed"):
        declare(desk)
    desk.namespace.transactions.declare("somebody else")


def test_a_transaction_that_touches_an_entity_set_aside_is_rolled_back_and_gives_other_locks_back() -> None:
    desk = Desk()
    broken, sound = desk.queue("broken"), desk.queue("sound")
    lost, kept = locked(desk, broken), locked(desk, sound)
    transaction = declare(desk)
    transaction.settle(lost, lambda: broken.main.complete(lost))
    transaction.settle(kept, lambda: sound.main.complete(kept))
    other = declare(desk)
    send(other, sound, payload("other"))
    assert desk.namespace.set_aside(broken) == [broken.number]
    with pytest.raises(TransactionUnknownId):
        desk.discharge(transaction)
    assert not lost.is_held
    sound.main.complete(kept)
    desk.discharge(other)
    assert desk.peek(sound.main) == ["other"]
