"""Transactions: all of it, or nothing."""

from __future__ import annotations

from typing import cast

import pytest

from tandem.engine.consumer import Consumer
from tandem.engine.effects import NoticeKind
from tandem.engine.intake import Draft, partition_of
from tandem.engine.lock_table import Lock
from tandem.engine.queue import Queue
from tandem.engine.sessions import Sessions
from tandem.engine.transactions import Transaction
from tandem.errors import (
    MessageLockLost,
    MessageNotFound,
    NotAllowed,
    QuotaExceeded,
    TransactionRollback,
    TransactionTimeout,
    TransactionUnknownId,
)
from tandem.limits import MAX_MESSAGES_PER_TRANSACTION, MAX_TRANSACTIONS_PER_CONNECTION, TRANSACTION_TIMEOUT_MS
from tests.engine.desk import Desk, payload


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


# --- scheduled messages ---------------------------------------------------------------------------------------------


def scheduled(desk: Desk, queue: Queue, *texts: str, in_ms: int = 60_000) -> list[int]:
    """The sequence numbers of messages that were just scheduled."""
    messages = queue.read(payload(texts[0], due_ms=desk.now_ms + in_ms), 0)
    for text in texts[1:]:
        messages += queue.read(payload(text, due_ms=desk.now_ms + in_ms), 0)
    queue.take(messages)
    desk.flush()
    return [draft.message.visible_sequence_number for draft in messages]


def cancel(desk: Desk, transaction: Transaction, queue: Queue, *numbers: int) -> object:
    return desk.ask(lambda asker: transaction.cancel_scheduled(queue.main, list(numbers), asker))


def test_a_message_whose_cancellation_is_committed_is_never_sent() -> None:
    desk = Desk()
    queue = desk.queue()
    first, _ = scheduled(desk, queue, "cancelled", "kept")
    transaction = declare(desk)
    assert cancel(desk, transaction, queue, first) is None
    assert desk.peek(queue.main) == ["cancelled", "kept"]
    desk.discharge(transaction)
    assert (desk.peek(queue.main), queue.main.scheduled_count) == (["kept"], 1)
    desk.advance(60_000)
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["kept"]


def test_a_message_whose_cancellation_is_rolled_back_is_sent_at_its_time() -> None:
    desk = Desk()
    queue = desk.queue()
    (number,) = scheduled(desk, queue, "kept")
    transaction = declare(desk)
    assert cancel(desk, transaction, queue, number) is None
    desk.discharge(transaction, is_failed=True)
    assert queue.main.scheduled_count == 1
    desk.advance(60_000)
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["kept"]


def test_a_cancellation_of_a_message_that_does_not_exist_is_refused_and_the_rest_is_committed() -> None:
    desk = Desk()
    queue = desk.queue()
    (number,) = scheduled(desk, queue, "kept")
    transaction = declare(desk)
    send(transaction, queue, payload("sent"))
    assert isinstance(cancel(desk, transaction, queue, number, number + 1), MessageNotFound)
    desk.discharge(transaction)
    assert desk.peek(queue.main) == ["kept", "sent"]


def test_a_transaction_does_nothing_if_a_message_that_it_cancels_was_sent_meanwhile() -> None:
    desk = Desk()
    queue = desk.queue()
    (number,) = scheduled(desk, queue, "sent in time")
    lock = locked(desk, queue)
    transaction = declare(desk)
    transaction.settle(lock, lambda: queue.main.complete(lock))
    assert cancel(desk, transaction, queue, number) is None
    desk.advance(60_000)
    with pytest.raises(TransactionRollback, match="does not exist, or was sent"):
        desk.discharge(transaction)
    assert desk.peek(queue.main) == ["locked", "sent in time"]


def test_of_two_transactions_that_cancel_one_message_the_second_does_nothing() -> None:
    desk = Desk()
    queue = desk.queue()
    (number,) = scheduled(desk, queue, "a")
    first, second = declare(desk), declare(desk)
    assert cancel(desk, first, queue, number) is None
    assert cancel(desk, second, queue, number) is None
    send(second, queue, payload("b"))
    desk.discharge(first)
    with pytest.raises(TransactionRollback):
        desk.discharge(second)
    assert desk.peek(queue.main) == []


def test_a_transaction_cancels_a_message_once() -> None:
    desk = Desk()
    queue = desk.queue()
    (number,) = scheduled(desk, queue, "a")
    transaction = declare(desk)
    assert cancel(desk, transaction, queue, number) is None
    with pytest.raises(MessageNotFound, match="already"):
        cancel(desk, transaction, queue, number)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_discharge_that_does_not_wait_for_the_answer_to_a_cancellation_includes_it(is_there: bool) -> None:
    desk = Desk()
    queue = desk.queue()
    (number,) = scheduled(desk, queue, "a")
    transaction = declare(desk)
    send(transaction, queue, payload("b"))
    desk.answers.clear()
    transaction.cancel_scheduled(queue.main, [number if is_there else number + 1], "cancellation")
    desk.namespace.transactions.discharge(transaction.identifier, "owner", False, "discharge")
    desk.flush()
    if is_there:
        assert desk.answers == [None, None]
        assert desk.peek(queue.main) == ["b"]
    else:
        assert [type(answer) for answer in desk.answers] == [MessageNotFound, TransactionRollback]
        assert desk.peek(queue.main) == ["a"]


def test_a_cancellation_counts_as_as_many_messages_as_it_names() -> None:
    desk = Desk()
    queue = desk.queue()
    transaction = declare(desk)
    with pytest.raises(NotAllowed, match="at most 100 messages, this one 101"):
        transaction.cancel_scheduled(queue.main, list(range(1, 102)), "asker")
    # What is refused does not count.
    send(transaction, queue, *[payload("a")] * MAX_MESSAGES_PER_TRANSACTION)


# --- sessions -------------------------------------------------------------------------------------------------------


def held_session(desk: Desk, lock_duration_ms: int = 60_000) -> tuple[Queue, Sessions, Consumer]:
    """A queue with sessions, one of which, "s", is accepted and has the state "old"."""
    queue = desk.queue(requires_session=True, lock_duration_ms=lock_duration_ms)
    consumer = desk.accept(queue, "s")
    sessions = queue.main.sessions
    assert sessions is not None
    desk.ask(lambda asker: sessions.set_state("s", b"old", asker))
    return queue, sessions, consumer


def state_of(desk: Desk, sessions: Sessions) -> object:
    (state,) = cast("tuple[object]", desk.ask(lambda asker: sessions.get_state("s", asker)))
    return state


@pytest.mark.parametrize("state", [b"new and longer", b"", None])
def test_the_state_of_a_session_is_set_with_the_commit(state: bytes | None) -> None:
    desk = Desk()
    queue, sessions, _ = held_session(desk)
    before_bytes = queue.size_bytes
    transaction = declare(desk)
    transaction.set_session_state(sessions, "s", b"first")
    transaction.set_session_state(sessions, "s", state)
    desk.flush()
    assert state_of(desk, sessions) == b"old"
    desk.discharge(transaction)
    assert state_of(desk, sessions) == (state or None)
    assert queue.size_bytes == before_bytes - len(b"old") + len(state or b"")


def test_the_state_of_a_session_is_not_set_by_a_rollback() -> None:
    desk = Desk()
    queue, sessions, _ = held_session(desk)
    before_bytes = queue.size_bytes
    transaction = declare(desk)
    transaction.set_session_state(sessions, "s", b"new")
    desk.discharge(transaction, is_failed=True)
    assert (state_of(desk, sessions), queue.size_bytes) == (b"old", before_bytes)


def test_a_transaction_sees_the_state_that_it_has_set_itself() -> None:
    desk = Desk()
    _, sessions, _ = held_session(desk)
    transaction = declare(desk)
    assert desk.ask(lambda asker: transaction.get_session_state(sessions, "s", asker)) == (b"old",)
    transaction.set_session_state(sessions, "s", b"new")
    assert desk.ask(lambda asker: transaction.get_session_state(sessions, "s", asker)) == (b"new",)


def test_a_state_that_was_set_outside_meanwhile_is_replaced_by_that_of_the_transaction() -> None:
    desk = Desk()
    queue, sessions, _ = held_session(desk)
    transaction = declare(desk)
    transaction.set_session_state(sessions, "s", b"new")
    desk.ask(lambda asker: sessions.set_state("s", b"of somebody else", asker))
    desk.discharge(transaction)
    assert (state_of(desk, sessions), queue.size_bytes) == (b"new", len(b"new"))


def test_the_lock_of_a_session_lasts_as_long_as_a_transaction_that_sets_its_state() -> None:
    desk = Desk()
    _, sessions, _ = held_session(desk, lock_duration_ms=5_000)
    transaction = declare(desk)
    transaction.set_session_state(sessions, "s", b"new")
    desk.advance(60_000)
    assert desk.take_notices()[-1].kind is NoticeKind.SESSION_ACCEPTED
    desk.discharge(transaction)
    assert state_of(desk, sessions) == b"new"
    desk.advance(5_000)
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.CLOSED]


def test_a_transaction_does_nothing_if_a_session_whose_state_it_sets_was_left() -> None:
    desk = Desk()
    queue, sessions, consumer = held_session(desk)
    transaction = declare(desk)
    transaction.set_session_state(sessions, "s", b"new")
    send(transaction, queue, payload("a", session_id="s"))
    queue.main.close_consumer(consumer)
    desk.accept(queue, "s")
    with pytest.raises(TransactionRollback, match="lock of the session ended"):
        desk.discharge(transaction)
    assert (state_of(desk, sessions), queue.main.active_count) == (b"old", 0)


# --- locks ----------------------------------------------------------------------------------------------------------


def test_a_renewal_holds_at_once_and_after_the_commit() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=10_000)
    lock = locked(desk, queue)
    desk.advance(9_000)
    transaction = declare(desk)
    assert transaction.renew([lock]) == [desk.now_ms + 10_000]
    desk.advance(9_000)
    assert transaction.renew([lock]) == [desk.now_ms + 10_000]
    desk.discharge(transaction)
    desk.advance(9_000)
    queue.main.complete(lock)


def test_a_rollback_takes_a_renewal_back() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=10_000)
    lock, other = locked(desk, queue), locked(desk, queue)
    desk.advance(5_000)
    transaction = declare(desk)
    for _ in range(2):
        transaction.renew([lock])
        desk.advance(1_000)
    # Renewed outside of the transaction: that stays.
    transaction.renew([other])
    desk.advance(1)
    queue.main.renew(other)
    desk.discharge(transaction, is_failed=True)
    desk.advance(3_000)
    with pytest.raises(MessageLockLost):
        queue.main.complete(lock)
    queue.main.complete(other)
    desk.receiver(queue.main)
    assert [one.message.delivery_count for one in desk.take()] == [1]


def test_a_lock_that_would_be_over_without_its_renewal_is_over_with_the_rollback() -> None:
    desk = Desk()
    queue = desk.queue(lock_duration_ms=10_000)
    lock = locked(desk, queue)
    transaction = declare(desk)
    desk.advance(9_000)
    transaction.renew([lock])
    transaction.settle(lock, lambda: queue.main.complete(lock))
    desk.advance(9_000)
    desk.discharge(transaction, is_failed=True)
    with pytest.raises(MessageLockLost):
        queue.main.complete(lock)


def test_a_rollback_takes_the_renewal_of_a_session_back() -> None:
    desk = Desk()
    _, sessions, _ = held_session(desk, lock_duration_ms=10_000)
    desk.take_notices()
    desk.advance(9_000)
    transaction = declare(desk)
    assert transaction.renew_session(sessions, "s") == desk.now_ms + 10_000
    desk.advance(500)
    transaction.renew_session(sessions, "s")
    desk.discharge(transaction, is_failed=True)
    desk.advance(500)
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.CLOSED]


def test_messages_are_settled_together_or_not_at_all() -> None:
    desk = Desk()
    queue = desk.queue()
    free, taken = locked(desk, queue), locked(desk, queue)
    declare(desk).settle(taken, lambda: queue.main.complete(taken))
    with pytest.raises(NotAllowed, match="by a transaction already"):
        declare(desk).settle_all([free, taken], queue.main.complete)
    assert not free.is_enlisted


# --- all of it ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_committed", [False, True])
def test_all_kinds_of_operations_are_on_disk_together_or_not_at_all(is_committed: bool) -> None:
    desk = Desk()
    queue, _, _ = held_session(desk)
    other = desk.queue("other")
    (number,) = scheduled(desk, other, "scheduled")
    lock = locked(desk, other)
    transaction = declare(desk)
    sessions = queue.main.sessions
    assert sessions is not None
    transaction.set_session_state(sessions, "s", b"new")
    transaction.settle(lock, lambda: other.main.complete(lock))
    cancel(desk, transaction, other, number)
    send(transaction, other, payload("sent"))
    desk.namespace.transactions.discharge(transaction.identifier, "owner", False, "asker")
    batch, duplicates = desk.write()
    sizes = [len(effects.removed) + len(effects.appended) + len(effects.changes) for effects in batch]
    assert [size for size in sizes if size] == [4]
    if is_committed:
        desk.commit(batch, duplicates)
    desk.restart()
    queue, other = desk.namespace.get("orders"), desk.namespace.get("other")
    assert queue.main.sessions is not None
    assert state_of(desk, queue.main.sessions) == (b"new" if is_committed else b"old")
    assert desk.peek(other.main) == (["sent"] if is_committed else ["scheduled", "locked"])


def test_a_transaction_whose_entity_is_set_aside_while_the_store_is_asked_does_nothing() -> None:
    desk = Desk()
    broken, sound = desk.queue("broken"), desk.queue("sound")
    (number,) = scheduled(desk, sound, "kept")
    lock = locked(desk, broken)
    transaction = declare(desk)
    cancel(desk, transaction, sound, number)
    transaction.settle(lock, lambda: broken.main.complete(lock))
    desk.answers.clear()
    desk.namespace.transactions.discharge(transaction.identifier, "owner", False, "asker")
    desk.namespace.set_aside(broken)
    desk.flush()
    assert [type(answer) for answer in desk.answers] == [TransactionRollback]
    assert desk.peek(sound.main) == ["kept"]


# --- partitions -----------------------------------------------------------------------------------------------------


def test_a_transaction_is_about_one_partition_of_an_entity() -> None:
    desk = Desk()
    queue, plain = desk.queue(enable_partitioning=True), desk.queue("plain")
    transaction = declare(desk)
    send(transaction, queue, payload("a", partition_key="1"), payload("b", partition_key="1"))
    send(transaction, plain, payload("c", partition_key="2"), payload("d"))
    with pytest.raises(NotAllowed, match=r"^Local transactions cannot span multiple entities or partitions\.$"):
        send(transaction, queue, payload("e", partition_key="2"))
    desk.discharge(transaction)
    assert (desk.peek(queue.main), desk.peek(plain.main)) == (["a", "b"], ["c", "d"])


def test_two_keys_are_refused_even_if_they_share_a_partition() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    twin = next(key for key in map(str, range(2, 1_000)) if partition_of(key) == partition_of("1"))
    transaction = declare(desk)
    send(transaction, queue, payload("a", partition_key="1"))
    with pytest.raises(NotAllowed, match="cannot span"):
        send(transaction, queue, payload("b", partition_key=twin))


def test_spellings_of_one_session_id_are_one_partition_key() -> None:
    desk = Desk()
    queue = desk.queue(requires_session=True, enable_partitioning=True)
    consumer = desk.accept(queue, "rED")
    transaction = declare(desk)
    send(transaction, queue, payload("a", session_id="Red"), payload("b", session_id="RED"))
    sessions = queue.main.sessions
    assert sessions is not None
    transaction.set_session_state(sessions, "red", b"state")
    with pytest.raises(NotAllowed, match="cannot span"):
        send(transaction, queue, payload("c", session_id="green"))
    desk.discharge(transaction)
    desk.grant(consumer, 10)
    assert desk.take_bodies() == ["a", "b"]


def test_a_message_without_a_key_is_not_sent_to_a_partitioned_entity_in_a_transaction() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    with pytest.raises(NotAllowed, match="needs a partition key"):
        send(declare(desk), queue, payload("a"))
    unique = desk.queue("unique", enable_partitioning=True, requires_duplicate_detection=True)
    send(declare(desk), unique, payload("a", message_id="the key"))


def test_messages_of_two_partitions_are_not_settled_in_one_transaction() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    desk.send(queue, payload("a", partition_key="1"), payload("b", partition_key="2"))
    desk.receiver(queue.main)
    first, second = desk.take()
    transaction = declare(desk)
    transaction.settle(first, lambda: queue.main.complete(first))
    with pytest.raises(NotAllowed, match="cannot span"):
        transaction.settle(second, lambda: queue.main.complete(second))
    with pytest.raises(NotAllowed, match="cannot span"):
        send(transaction, queue, payload("c", partition_key="2"))
    send(transaction, queue, payload("d", partition_key="1"))
    desk.discharge(transaction)
    assert desk.peek(queue.main) == ["b", "d"]


def test_a_message_of_another_partition_is_not_cancelled_in_a_transaction() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    drafts = queue.read(payload("a", partition_key="2", due_ms=desk.now_ms + 1_000), 0)
    queue.take(drafts)
    desk.flush()
    transaction = declare(desk)
    send(transaction, queue, payload("b", partition_key="1"))
    refusal = cancel(desk, transaction, queue, drafts[0].message.visible_sequence_number)
    assert isinstance(refusal, NotAllowed)
    desk.discharge(transaction)
    assert desk.peek(queue.main) == ["a", "b"]


def test_a_message_that_passes_through_an_entity_names_its_partition_there() -> None:
    desk = Desk()
    via, target = desk.queue("via", enable_partitioning=True), desk.queue(enable_partitioning=True)

    def passing(key: str | None) -> list[Draft]:
        drafts = target.read(payload("a", partition_key="its own", via_partition_key=key), 0)
        assert len(drafts) == 1
        return drafts

    transaction = declare(desk)
    transaction.send(target, passing("1"), via)
    transaction.send(target, passing("1"), via)
    transaction.send(target, passing(None), via)
    with pytest.raises(NotAllowed, match="cannot span"):
        transaction.send(target, passing("2"), via)


def test_a_key_for_the_way_chooses_the_partition_of_a_message_that_has_no_other() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    desk.send(queue, *[payload("a", via_partition_key="k") for _ in range(3)])
    desk.receiver(queue.main)
    assert {lock.message.partition for lock in desk.take()} == {partition_of("k")}
