"""Sessions: one receiver at a time, in order, with a state beside the messages."""

from __future__ import annotations

from typing import cast

import pytest

from tandem.amqp.message import Message, Properties
from tandem.engine.effects import NoticeKind
from tandem.engine.lock_table import Lock
from tandem.engine.queue import Queue
from tandem.engine.sessions import Sessions
from tandem.errors import (
    MessageLockLost,
    MessageSizeExceeded,
    NotAllowed,
    OperationTimeout,
    SessionCannotBeLocked,
    SessionLockLost,
)
from tests.engine.desk import Desk, body, payload
from tests.markers import mission


def queue_with_sessions(desk: Desk, **fields: object) -> Queue:
    return desk.queue("sessions", requires_session=True, lock_duration_ms=5_000, **fields)


def sessions_of(queue: Queue) -> Sessions:
    assert queue.main.sessions is not None
    return queue.main.sessions


@mission("M1")
def test_a_session_is_received_in_order_and_by_one_receiver() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    for text in ("a1", "b1", "a2", "b2", "a3"):
        desk.send(queue, payload(text, session_id=text[0]))
    desk.accept(queue, "a")
    assert desk.take_bodies() == ["a1", "a2", "a3"]
    desk.accept(queue, "b")
    assert desk.take_bodies() == ["b1", "b2"]
    desk.send(queue, payload("a4", session_id="a"))
    assert desk.take_bodies() == ["a4"]


def test_receivers_that_stop_waiting_for_a_session_leave_the_line_and_no_other_is_looked_at() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    waiting = [desk.accept(queue, None) for _ in range(4)]
    line = sessions_of(queue)._waiters
    for consumer in (waiting[0], waiting[2]):
        queue.main.close_consumer(consumer)
    assert sessions_of(queue)._waiters is line
    assert list(line) == [waiting[1], waiting[3]]
    desk.send(queue, payload("a1", session_id="a"))
    assert list(line) == [waiting[3]], "whoever came first gets the session"


def test_a_lock_is_found_by_its_token_among_those_of_all_sessions_and_forgotten_when_it_ends() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    consumers = []
    for name in ("a", "b", "c"):
        desk.send(queue, payload(name, session_id=name))
        consumers.append(desk.accept(queue, name))
    locks = desk.take()
    assert [queue.main.find_lock(lock.token) for lock in locks] == locks
    queue.main.complete(locks[0])
    queue.main.close_consumer(consumers[1])
    desk.flush()
    with pytest.raises(MessageLockLost):
        queue.main.find_lock(locks[0].token)
    assert list(sessions_of(queue)._locks.values()) == [locks[2]]
    desk.advance(6_000)
    assert sessions_of(queue)._locks == {}


def test_a_session_that_somebody_holds_is_refused() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.accept(queue, "a")
    desk.take_notices()
    desk.accept(queue, "a")
    (notice,) = desk.take_notices()
    assert notice.kind == NoticeKind.SESSION_REFUSED
    assert isinstance(notice.error, SessionCannotBeLocked)


def test_session_ids_are_compared_without_case_and_messages_keep_their_spelling() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    spellings = ("Order-Ä1", "order-Ä1", "ORDER-Ä1")
    for spelling in spellings[:2]:
        desk.send(queue, payload(spelling, session_id=spelling))
    consumer = desk.accept(queue, "oRDER-Ä1")
    desk.send(queue, payload(spellings[2], session_id=spellings[2]))
    locks = desk.take()
    assert [body(lock) for lock in locks] == list(spellings)
    assert [(Message(lock.bare).properties or Properties()).group_id for lock in locks] == list(spellings)
    session = sessions_of(queue).of_consumer(consumer)
    assert session is not None
    # As its receiver asked for it.
    assert session.session_id == "oRDER-Ä1"
    assert sessions_of(queue).held("order-Ä1") is session
    desk.take_notices()
    desk.accept(queue, "order-Ä1")
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.SESSION_REFUSED]


def test_letters_that_are_not_ascii_are_compared_as_they_are() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("upper", session_id="Ä"), payload("lower", session_id="ä"))
    desk.accept(queue, "ä")
    assert desk.take_bodies() == ["lower"]


def test_any_session_is_accepted_once_and_in_the_spelling_of_its_first_message() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    for spelling in ("Red", "RED", "blue"):
        desk.send(queue, payload(spelling, session_id=spelling))
    found = [sessions_of(queue).of_consumer(desk.accept(queue, None)) for _ in range(2)]
    assert [one.session_id for one in found if one is not None] == ["Red", "blue"]
    assert desk.take_bodies() == ["Red", "RED", "blue"]


def test_a_deferred_message_is_received_in_a_session_of_another_spelling() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="Red"))
    desk.accept(queue, "red")
    (lock,) = desk.take()
    queue.main.defer(lock)
    desk.flush()
    answer = desk.ask(lambda asker: queue.main.receive_deferred([1], False, "RED", asker))
    ((held, received),) = cast("list[tuple[Lock, bytes]]", answer)
    assert body(received) == "a1"
    assert held.message.sequence_number == 1


def test_a_session_without_messages_can_be_held_and_receives_what_comes() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.accept(queue, "a")
    desk.send(queue, payload("a1", session_id="a"))
    assert desk.take_bodies() == ["a1"]


def test_any_session_means_the_one_that_has_waited_longest() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("b1", session_id="b"))
    desk.send(queue, payload("a1", session_id="a"))
    desk.accept(queue, None)
    desk.accept(queue, None)
    assert desk.take_bodies() == ["b1", "a1"]


def test_a_receiver_waits_for_a_session_until_a_message_comes() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    consumer = desk.accept(queue, None, wait_ms=5_000)
    desk.advance(4_999)
    assert desk.take_notices() == []
    desk.send(queue, payload("a1", session_id="a"))
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.SESSION_ACCEPTED]
    desk.grant(consumer, 1)
    assert desk.take_bodies() == ["a1"]


@mission("M6")
def test_a_receiver_that_waits_for_a_session_in_vain_is_told_in_time() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.accept(queue, None, wait_ms=5_000)
    desk.advance(4_999)
    assert desk.take_notices() == []
    desk.advance(1)
    (notice,) = desk.take_notices()
    assert notice.kind == NoticeKind.SESSION_REFUSED
    assert isinstance(notice.error, OperationTimeout)
    assert queue.main.consumers == {}


def test_a_receiver_that_waits_gets_a_session_that_is_set_free() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="a"))
    first = desk.accept(queue, "a")
    second = desk.accept(queue, None, wait_ms=60_000)
    desk.take_notices()
    queue.main.close_consumer(first)
    desk.flush()
    (notice,) = desk.take_notices()
    assert (notice.kind, notice.consumer) == (NoticeKind.SESSION_ACCEPTED, second)


def test_a_receiver_that_waits_gets_another_session_when_one_is_taken_by_name_meanwhile() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="a"), payload("b1", session_id="b"))
    # Both in one turn: the search for any session finds the first one taken.
    waiting = queue.main.accept_session(None, False, None, 60_000)
    queue.main.accept_session(None, False, "a", 0)
    desk.flush()
    assert waiting.outlet is not None
    assert waiting.outlet.session is not None
    assert waiting.outlet.session.session_id == "b"


def test_a_receiver_that_leaves_sets_its_session_free_and_counts_no_failure() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="a"), payload("a2", session_id="a"))
    consumer = desk.accept(queue, "a", credit=1)
    (lock,) = desk.take()
    queue.main.close_consumer(consumer)
    desk.flush()
    with pytest.raises(SessionLockLost):
        queue.main.complete(lock)
    desk.accept(queue, "a")
    locks = desk.take()
    assert [body(lock) for lock in locks] == ["a1", "a2"]
    assert [lock.message.delivery_count for lock in locks] == [0, 0]


def test_a_session_lock_that_ends_closes_its_receiver_and_counts_as_a_failure() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="a"), payload("a2", session_id="a"))
    consumer = desk.accept(queue, "a", credit=1)
    desk.take_notices()
    desk.take()
    desk.advance(5_000)
    (notice,) = desk.take_notices()
    assert (notice.kind, notice.consumer) == (NoticeKind.CLOSED, consumer)
    assert isinstance(notice.error, SessionLockLost)
    desk.accept(queue, "a")
    assert [lock.message.delivery_count for lock in desk.take()] == [1, 0]


def test_a_renewed_session_keeps_the_locks_of_its_messages() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="a"))
    desk.accept(queue, "a")
    (lock,) = desk.take()
    desk.advance(4_000)
    assert sessions_of(queue).renew("a") == desk.now_ms + 5_000
    with pytest.raises(NotAllowed, match="renew the lock of the session"):
        queue.main.renew(lock)
    desk.advance(4_999)
    queue.main.complete(lock)
    desk.flush()
    assert queue.main.active_count == 0
    desk.advance(1)
    with pytest.raises(SessionLockLost):
        sessions_of(queue).renew("a")


def test_an_abandoned_message_returns_to_the_head_of_its_session() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, *[payload(f"a{number}", session_id="a") for number in range(3)])
    consumer = desk.accept(queue, "a", credit=2)
    first, second = desk.take()
    queue.main.abandon(second)
    queue.main.abandon(first)
    desk.grant(consumer, 3)
    assert desk.take_bodies() == ["a0", "a1", "a2"]


def test_session_state_is_kept_counted_and_outlives_a_restart() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    sessions = sessions_of(queue)
    assert desk.ask(lambda asker: sessions.get_state("a", asker)) == (None,)
    desk.ask(lambda asker: sessions.set_state("a", b"12345", asker))
    assert queue.size_bytes == 5
    desk.ask(lambda asker: sessions.set_state("a", b"123", asker))
    assert queue.size_bytes == 3
    desk.restart()
    queue = desk.namespace.get("sessions")
    assert queue.size_bytes == 3
    assert desk.ask(lambda asker: sessions_of(queue).get_state("a", asker)) == (b"123",)
    desk.ask(lambda asker: sessions_of(queue).set_state("a", None, asker))
    assert queue.size_bytes == 0


def test_session_state_is_at_most_as_large_as_a_message() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk, max_message_size_in_kilobytes=1)
    with pytest.raises(MessageSizeExceeded, match="1025 bytes"):
        sessions_of(queue).set_state("a", bytes(1_025), "asker")


def test_sessions_with_messages_or_state_are_listed() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    sessions = sessions_of(queue)
    desk.send(queue, payload("b1", session_id="b"))
    desk.ask(lambda asker: sessions.set_state("a", b"state", asker))
    assert desk.ask(lambda asker: sessions.list_sessions(None, 0, 10, asker)) == ["a", "b"]
    assert desk.ask(lambda asker: sessions.list_sessions(None, 1, 10, asker)) == ["b"]
    before_ms = desk.now_ms - 1
    assert desk.ask(lambda asker: sessions.list_sessions(before_ms, 0, 10, asker)) == ["a"]


def test_a_queue_with_sessions_has_no_other_receivers_and_the_reverse() -> None:
    desk = Desk()
    with pytest.raises(NotAllowed, match="non-sessionful"):
        queue_with_sessions(desk).main.open_consumer(None, False)
    with pytest.raises(NotAllowed, match="sessionful message receiver cannot be created"):
        desk.queue().main.accept_session(None, False, "a", 0)


def test_the_dead_letters_of_a_session_are_received_without_one() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="a"))
    desk.accept(queue, "a")
    queue.main.dead_letter(desk.take()[0], None, None)
    desk.flush()
    desk.receiver(queue.dead_letter_queue)
    (dead,) = desk.take()
    properties = Message(dead.payload).properties
    assert properties is not None
    assert properties.group_id == "a"


def test_a_deferred_message_of_a_session_is_received_by_its_holder_only() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="a"))
    consumer = desk.accept(queue, "a")
    (lock,) = desk.take()
    queue.main.defer(lock)
    desk.flush()
    number = lock.message.sequence_number
    assert isinstance(desk.ask(lambda asker: queue.main.receive_deferred([number], False, "a", asker)), list)
    queue.main.close_consumer(consumer)
    answer = desk.ask(lambda asker: queue.main.receive_deferred([number], False, "a", asker))
    assert isinstance(answer, SessionLockLost)


def test_receive_and_delete_works_in_a_session() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="a"), payload("b1", session_id="b"))
    desk.accept(queue, "a", deletes=True)
    assert desk.take_handed_out() == ["a1"]
    assert queue.main.active_count == 1


def test_a_session_that_a_transaction_keeps_lasts_until_its_end() -> None:
    desk = Desk()
    queue = queue_with_sessions(desk)
    desk.send(queue, payload("a1", session_id="a"), payload("a2", session_id="a"))
    desk.accept(queue, "a")
    first, second = desk.take()
    transaction = desk.namespace.transactions.declare("owner")
    transaction.settle(first, lambda: queue.main.complete(first))
    desk.advance(6_000)
    # What else the receiver has in hand is as good as the session.
    queue.main.complete(second)
    desk.discharge(transaction)
    assert queue.main.active_count == 0
    desk.take_notices()
    desk.advance(5_000)
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.CLOSED]
