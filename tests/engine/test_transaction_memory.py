"""What open transactions hold is bounded, their sends count against quotas, and their end releases everything."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tandem.addresses import SubQueue as SubQueueKind
from tandem.engine.lock_table import Lock
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.transactions import Transaction
from tandem.errors import NotAllowed, ProtocolError, QuotaExceeded, TransactionRollback
from tandem.limits import (
    MAX_MESSAGES_PER_TRANSACTION,
    MAX_TRANSACTION_BYTES,
    MAX_TRANSACTION_BYTES_PER_BROKER,
    MAX_TRANSACTION_BYTES_PER_CONNECTION,
    MESSAGE_OVERHEAD_BYTES,
)
from tests.engine.desk import START_MS, Desk, payload
from tests.engine.topic_desk import TopicDesk

KILOBYTE = "x" * 1_000
LARGE = payload("x" * 250_000)
MEGABYTE = 1_048_576


def declare(desk: Desk, owner: object = "owner") -> Transaction:
    return desk.namespace.transactions.declare(owner)


def send(transaction: Transaction, queue: Queue, *messages: bytes, destination: str | None = None) -> None:
    for message in messages:
        drafts = queue.read(message, 0)
        drafts[0].destination = destination
        transaction.send(queue, drafts)


def fill(transaction: Transaction, queue: Queue, limit_bytes: int) -> ProtocolError:
    """Send until the transaction is refused one; return the refusal."""
    for _ in range(MAX_MESSAGES_PER_TRANSACTION):
        try:
            send(transaction, queue, LARGE)
        except QuotaExceeded as error:
            return error
        assert transaction.held_bytes <= limit_bytes
    raise AssertionError("nothing was refused")


def held_bytes(namespace: Namespace) -> tuple[int, int]:
    memory = namespace.transactions.memory
    return memory.held_bytes, memory.broker.held_bytes


def largest_allowed(queue: Queue) -> bytes:
    """The largest message that the queue takes."""
    return payload("x" * (queue.max_message_size_bytes - 100))


def test_a_transaction_holds_a_hundred_messages_of_the_largest_size_of_the_standard_tier() -> None:
    desk = Desk()
    queue = desk.queue(max_message_size_in_kilobytes=256)
    transaction = declare(desk)
    send(transaction, queue, *[largest_allowed(queue)] * MAX_MESSAGES_PER_TRANSACTION)
    desk.discharge(transaction)
    assert queue.main.active_count == MAX_MESSAGES_PER_TRANSACTION
    assert held_bytes(desk.namespace) == (0, 0)


def test_a_transaction_that_would_hold_too_much_is_refused_and_can_only_be_rolled_back() -> None:
    desk = Desk()
    queue = desk.queue(max_message_size_in_kilobytes=1_024)
    transaction = declare(desk)
    send(transaction, queue, *[largest_allowed(queue)] * 25)
    with pytest.raises(QuotaExceeded, match=f"A transaction can hold {MAX_TRANSACTION_BYTES} bytes"):
        send(transaction, queue, *[largest_allowed(queue)] * 2)
    assert held_bytes(desk.namespace) == (0, 0), "a transaction that can only be rolled back needs no messages"
    send(transaction, queue, LARGE)
    assert held_bytes(desk.namespace) == (0, 0)
    with pytest.raises(TransactionRollback, match="can only be rolled back"):
        desk.discharge(transaction)
    assert desk.peek(queue.main) == []
    assert queue.next_sequence_number == 1


def test_the_transactions_of_a_connection_hold_a_bounded_number_of_bytes() -> None:
    desk = Desk()
    queue = desk.queue()
    first, second = declare(desk), declare(desk)
    send(first, queue, *[LARGE] * 100)
    error = fill(second, queue, MAX_TRANSACTION_BYTES_PER_CONNECTION - first.held_bytes)
    assert "The open transactions of a connection" in str(error)
    other = declare(desk, "other owner")
    send(other, queue, LARGE)
    assert desk.namespace.transactions.memory.held_by("owner") == first.held_bytes
    desk.discharge(first)
    assert desk.namespace.transactions.memory.held_by("owner") == 0
    assert queue.main.active_count == 100


def test_the_transactions_of_a_broker_hold_a_bounded_number_of_bytes() -> None:
    assert MAX_TRANSACTION_BYTES_PER_BROKER >= MAX_TRANSACTION_BYTES_PER_CONNECTION >= MAX_TRANSACTION_BYTES
    here, there = Desk(), Desk()
    broker = there.namespace.transactions.memory.broker = here.namespace.transactions.memory.broker
    broker.held_bytes = MAX_TRANSACTION_BYTES_PER_BROKER - 1_000_000
    first = declare(here)
    send(first, here.queue(), *[LARGE] * 3)
    with pytest.raises(QuotaExceeded, match="The open transactions of the broker"):
        send(declare(there), there.queue(), LARGE)
    here.namespace.transactions.memory.give_up()
    send(declare(there), there.namespace.get("orders"), LARGE)


def test_a_commit_holds_its_bytes_until_it_is_durable() -> None:
    desk = Desk()
    queue = desk.queue()
    transaction = declare(desk)
    send(transaction, queue, payload(KILOBYTE))
    desk.namespace.transactions.discharge(transaction.identifier, "owner", False, "asker")
    batch, duplicates = desk.write()
    assert held_bytes(desk.namespace)[0] > 1_000
    desk.commit(batch, duplicates)
    assert held_bytes(desk.namespace) == (0, 0)


def _roll_back(desk: Desk, transaction: Transaction) -> None:
    desk.discharge(transaction, is_failed=True)


def _time_out(desk: Desk, transaction: Transaction) -> None:
    desk.advance(transaction.deadline_ms - desk.now_ms)


def _leave(desk: Desk, transaction: Transaction) -> None:
    desk.namespace.transactions.roll_back_of("owner")


def _close_controller(desk: Desk, transaction: Transaction) -> None:
    desk.namespace.transactions.abandon(transaction.identifier)


def _set_aside(desk: Desk, transaction: Transaction) -> None:
    desk.namespace.set_aside(desk.namespace.get("orders"))


def _fail(desk: Desk, transaction: Transaction) -> None:
    desk.namespace.transactions.fail(transaction.identifier, "owner", NotAllowed("refused"))
    assert transaction.sends == []
    desk.discharge(transaction, is_failed=True)


@pytest.mark.parametrize("end", [_roll_back, _time_out, _leave, _close_controller, _set_aside, _fail])
def test_every_end_of_a_transaction_releases_everything(end: Callable[[Desk, Transaction], None]) -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=300_000)
    desk.send(queue, payload("locked"))
    desk.receiver(queue.main, credit=1)
    (lock,) = desk.take()
    transaction = declare(desk)
    send(transaction, queue, payload(KILOBYTE), payload("late", due_ms=START_MS + 600_000))
    transaction.settle(lock, lambda: queue.main.complete(lock), 5_000)
    assert held_bytes(desk.namespace)[0] == transaction.held_bytes > 6_000
    end(desk, transaction)
    assert held_bytes(desk.namespace) == (0, 0)


def test_a_state_and_the_properties_of_a_settlement_are_held_too() -> None:
    desk = Desk()
    queue = desk.queue(requires_session=True)
    desk.send(queue, payload("a", session_id="s"))
    desk.accept(queue, "s")
    sessions = queue.main.sessions
    assert sessions is not None
    transaction = declare(desk)
    for size_bytes in (5_000, 100, 3_000):
        transaction.set_session_state(sessions, "s", b"x" * size_bytes)
        assert transaction.held_bytes == size_bytes + MESSAGE_OVERHEAD_BYTES
    desk.discharge(transaction)
    assert held_bytes(desk.namespace) == (0, 0)


# --- quotas ---------------------------------------------------------------------------------------------------------


def test_the_sends_of_a_transaction_count_together_against_the_quota_of_their_queue() -> None:
    desk = Desk()
    queue = desk.queue(max_size_in_megabytes=1)
    transaction = declare(desk)
    send(transaction, queue, *[LARGE] * 4)
    with pytest.raises(QuotaExceeded, match="maximum entity size"):
        send(transaction, queue, LARGE)
    with pytest.raises(TransactionRollback, match="maximum entity size"):
        desk.discharge(transaction)
    assert (queue.size_bytes, queue.main.active_count) == (0, 0)


def test_a_commit_is_refused_as_a_whole_if_its_queue_has_become_too_full_meanwhile() -> None:
    desk = Desk()
    queue, other = desk.queue(max_size_in_megabytes=1), desk.queue("other")
    transaction = declare(desk)
    send(transaction, other, payload("a"))
    send(transaction, queue, LARGE, LARGE, payload("late", due_ms=START_MS + 60_000))
    desk.send(queue, LARGE, LARGE, LARGE)
    with pytest.raises(TransactionRollback, match="maximum entity size"):
        desk.discharge(transaction)
    assert (other.main.active_count, queue.main.active_count, queue.main.scheduled_count) == (0, 3, 0)
    assert held_bytes(desk.namespace) == (0, 0)


def test_of_two_transactions_that_fit_alone_the_second_commit_is_refused() -> None:
    desk = Desk()
    queue = desk.queue(max_size_in_megabytes=1)
    transactions = [declare(desk), declare(desk)]
    for transaction in transactions:
        send(transaction, queue, LARGE, LARGE, LARGE)
    desk.discharge(transactions[0])
    with pytest.raises(TransactionRollback, match="maximum entity size"):
        desk.discharge(transactions[1])
    assert queue.main.active_count == 3


def _sizes(desk: Desk) -> dict[str, int]:
    names = ("via", "target", "end")
    return {name: desk.namespace.get(name).size_bytes for name in names}


@pytest.mark.parametrize("way", ["send via", "forwarding", "two hops", "scheduled", "dead letters"])
def test_no_entity_passes_its_quota_by_way_of_another_in_a_transaction(way: str) -> None:
    desk = Desk()
    desk.queue("end", max_size_in_megabytes=1)
    desk.queue("target", max_size_in_megabytes=1, forward_to="end" if way == "two hops" else None)
    forward: dict[str, dict[str, object]] = {
        "forwarding": {"forward_to": "target"},
        "two hops": {"forward_to": "target"},
        "scheduled": {"forward_to": "target"},
        "dead letters": {"forward_dead_lettered_messages_to": "target", "lock_duration_ms": 300_000},
    }
    via = desk.queue("via", max_size_in_megabytes=5, **forward.get(way, {}))
    transaction = declare(desk)
    if way == "dead letters":
        desk.send(via, *[LARGE] * 12)
        desk.receiver(via.main, credit=12)
        for lock in desk.take():
            transaction.settle(lock, _dead_lettering(via, lock))
    else:
        due_ms = START_MS + 1_000 if way == "scheduled" else None
        message = payload("x" * 250_000, due_ms=due_ms)
        send(transaction, via, *[message] * 12, destination="target" if way == "send via" else None)
    desk.discharge(transaction)
    desk.advance(60_000)
    sizes = _sizes(desk)
    assert sizes["target"] <= MEGABYTE
    assert sizes["end"] <= MEGABYTE
    assert sizes["via"] <= 5 * MEGABYTE
    # What found no room is a dead letter, and nothing is lost.
    streams = [sub for name in sizes for sub in desk.namespace.get(name).subqueues()]
    assert sum(sub.active_count for sub in streams) == 12
    kind = SubQueueKind.TRANSFER_DEAD_LETTER if way == "send via" else SubQueueKind.DEAD_LETTER
    assert sum(sub.active_count for sub in streams if sub.kind is kind) == 8


def _dead_lettering(queue: Queue, lock: Lock) -> Callable[[], None]:
    return lambda: queue.main.dead_letter(lock, "tired", None)


def test_the_copies_of_a_topic_count_together_against_its_quota() -> None:
    desk = TopicDesk()
    topic = desk.topic(max_size_in_megabytes=1)
    first, second = desk.subscription(topic, "first"), desk.subscription(topic, "second")
    transaction = declare(desk)
    send(transaction, topic, *[LARGE] * 4)
    with pytest.raises(QuotaExceeded, match="maximum entity size"):
        send(transaction, topic, LARGE)
    with pytest.raises(TransactionRollback):
        desk.discharge(transaction)
    assert (first.main.active_count, second.main.active_count, topic.size_bytes) == (0, 0, 0)
    transaction = declare(desk)
    send(transaction, topic, *[LARGE] * 4)
    desk.discharge(transaction)
    assert (first.main.active_count, second.main.active_count) == (4, 4)
    assert topic.size_bytes <= MEGABYTE


def test_a_duplicate_in_a_transaction_counts_until_the_commit_and_is_not_stored() -> None:
    desk = Desk()
    queue = desk.queue(requires_duplicate_detection=True, max_size_in_megabytes=1)
    transaction = declare(desk)
    message = payload("x" * 250_000, message_id="same")
    send(transaction, queue, *[message] * 4)
    with pytest.raises(QuotaExceeded):
        send(transaction, queue, message)
    with pytest.raises(TransactionRollback):
        desk.discharge(transaction)
    transaction = declare(desk)
    send(transaction, queue, *[message] * 4)
    desk.discharge(transaction)
    assert queue.main.active_count == 1
    assert queue.size_bytes < 2 * len(message)
