"""A queue: what may be sent to it, in which order it comes out, and what is counted."""

from __future__ import annotations

import pytest

from tandem.amqp.message import Message, Properties, encode_message
from tandem.engine.description import QueueDescription
from tandem.engine.effects import NoticeKind
from tandem.engine.intake import partition_of
from tandem.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    DecodeError,
    EntityAlreadyExists,
    EntityDisabled,
    MessageNotFound,
    MessageSizeExceeded,
    NotAllowed,
    NotFound,
    QuotaExceeded,
)
from tandem.limits import MAX_HEAD_MESSAGES, MAX_MESSAGES_PER_SENT_BATCH, PARTITION_COUNT
from tests.engine.desk import Desk, body, payload
from tests.markers import mission


@mission("M1")
def test_messages_come_out_in_the_order_in_which_they_went_in() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"))
    desk.send_batch(queue, payload("c"), payload("d"))
    desk.receiver(queue.main, credit=3)
    assert desk.take_bodies() == ["a", "b", "c"]


@mission("M1")
def test_competing_consumers_get_each_message_once_and_in_turn() -> None:
    desk = Desk()
    queue = desk.queue()
    consumers = [desk.receiver(queue.main) for _ in range(3)]
    desk.send(queue, *[payload(f"{number}") for number in range(6)])
    locks = desk.take()
    assert [body(lock) for lock in locks] == ["0", "1", "2", "3", "4", "5"]
    assert [consumers.index(lock.consumer) for lock in locks if lock.consumer is not None] == [0, 1, 2, 0, 1, 2]


def test_receivers_that_leave_while_others_wait_are_not_kept() -> None:
    desk = Desk()
    queue = desk.queue()
    stays = desk.receiver(queue.main)
    for _ in range(100):
        leaves = desk.receiver(queue.main)
        queue.main.close_consumer(leaves)
    assert len(queue.main.outlet._waiting) < 5
    others = [desk.receiver(queue.main) for _ in range(3)]
    queue.main.close_consumer(others[1])
    desk.send(queue, *[payload(f"{number}") for number in range(6)])
    remaining = [stays, others[0], others[2]]
    assert [remaining.index(lock.consumer) for lock in desk.take() if lock.consumer is not None] == [0, 1, 2, 0, 1, 2]
    assert queue.main.outlet._left_count == 0


def test_a_batch_has_a_largest_number_of_messages() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send_batch(queue, *[payload("a")] * MAX_MESSAGES_PER_SENT_BATCH)
    with pytest.raises(MessageSizeExceeded, match=f"at most {MAX_MESSAGES_PER_SENT_BATCH}"):
        desk.send_batch(queue, *[payload("a")] * (MAX_MESSAGES_PER_SENT_BATCH + 1))
    assert queue.main.counts.active == MAX_MESSAGES_PER_SENT_BATCH


@mission("M1")
def test_messages_wait_for_a_receiver_that_comes_later_and_for_a_broker_that_starts_again() -> None:
    desk = Desk()
    desk.send(desk.queue(), payload("a"), payload("b"))
    desk.restart()
    queue = desk.namespace.get("orders")
    assert queue.main.active_count == 2
    desk.send(queue, payload("c"))
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["a", "b", "c"]


@mission("M1")
def test_a_message_is_not_to_be_had_before_it_is_on_disk() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.receiver(queue.main)
    queue.send(payload("a"), 0)
    batch, duplicates = desk.write()
    assert all(not effects.deliveries for effects in batch)
    assert queue.main.active_count == 0
    desk.commit(batch, duplicates)
    desk.flush()
    assert desk.take_bodies() == ["a"]


def test_what_was_not_committed_is_gone_after_a_crash() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    queue.send(payload("b"), 0)
    desk.write()
    desk.restart()
    assert desk.peek(desk.namespace.get("orders").main) == ["a"]


@mission("M2")
def test_receive_and_delete_removes_before_it_hands_out() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"))
    desk.receiver(queue.main, credit=1, deletes=True)
    assert desk.take_handed_out() == ["a"]
    assert queue.main.active_count == 1
    desk.restart()
    assert desk.peek(desk.namespace.get("orders").main) == ["b"]


@mission("M2")
def test_a_receiver_that_crashes_after_receive_and_delete_has_lost_the_message() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    consumer = desk.receiver(queue.main, credit=1, deletes=True)
    queue.main.close_consumer(consumer)
    desk.take_handed_out()
    desk.advance(600_000)
    desk.receiver(queue.main)
    assert desk.take() == []


def test_a_long_queue_is_read_from_disk_in_pages_and_in_order() -> None:
    desk = Desk()
    queue = desk.queue()
    count = 2 * MAX_HEAD_MESSAGES + 10
    for start in range(0, count, 500):
        desk.send_batch(queue, *[payload(f"{number}") for number in range(start, min(start + 500, count))])
    consumer = desk.receiver(queue.main, credit=0)
    received: list[str] = []
    while len(received) < count:
        desk.grant(consumer, 700)
        locks = desk.take()
        assert locks
        received += [body(lock) for lock in locks]
        for lock in locks:
            queue.main.complete(lock)
    assert received == [f"{number}" for number in range(count)]
    desk.flush()
    assert queue.size_bytes == 0


def test_the_next_page_is_asked_for_before_the_last_one_has_run_dry() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send_batch(queue, *[payload(f"{number}") for number in range(2_000)])
    consumer = desk.receiver(queue.main, credit=0)
    desk.grant(consumer, 100)
    assert len(desk.take()) == 100
    # Everybody has what they asked for, and yet the store is asked: the next credit is on its way.
    assert len(queue.main.outlet.head._ready) >= 100
    for number in range(100, 1_900, 100):
        queue.main.outlet.grant(consumer, 100, is_draining=False)
        # In the same turn: no answer of the store was waited for.
        assert [body(lock) for lock in desk.namespace.effects.deliveries][:1] == [f"{number}"]
        desk.flush()
        assert len(desk.take()) == 100


def test_a_head_that_is_full_keeps_nothing_more_in_memory() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.receiver(queue.main, credit=0)
    for _ in range(4):
        desk.send_batch(queue, *[payload("a") for _ in range(MAX_HEAD_MESSAGES // 2)])
    assert len(queue.main.outlet.head._ready) <= MAX_HEAD_MESSAGES
    assert queue.main.active_count == 2 * MAX_HEAD_MESSAGES


def test_dead_letters_that_come_in_any_order_do_not_pile_up_in_memory() -> None:
    desk = Desk()
    queue = desk.queue()
    count = MAX_HEAD_MESSAGES + 100
    desk.send_batch(queue, *[payload(f"{number}") for number in range(count)])
    desk.receiver(queue.main, credit=count)
    locks = desk.take()
    consumer = desk.receiver(queue.dead_letter_queue, credit=1)
    for lock in reversed(locks):
        queue.main.dead_letter(lock, None, None)
        desk.flush()
    assert len(queue.dead_letter_queue.outlet.head._returned) <= MAX_HEAD_MESSAGES
    desk.take()
    desk.grant(consumer, count)
    assert desk.take_bodies() == [f"{number}" for number in range(count - 1)]


def test_counts_and_sizes_follow_every_message() -> None:
    desk = Desk()
    queue = desk.queue()
    messages = [payload("a"), payload("bb"), payload("c", due_ms=desk.now_ms + 60_000)]
    desk.send(queue, *messages)
    assert (queue.main.active_count, queue.main.scheduled_count) == (2, 1)
    assert queue.size_bytes == sum([len(message) for message in messages])
    assert queue.size.decided_bytes == queue.size_bytes
    desk.receiver(queue.main, credit=1)
    queue.main.dead_letter(desk.take()[0], None, None)
    desk.flush()
    assert (queue.main.active_count, queue.dead_letter_queue.active_count) == (1, 1)
    assert queue.size_bytes == sum([len(message) for message in messages])


# --- what is refused ------------------------------------------------------------------------------------------------


def test_a_full_queue_takes_nothing_until_something_is_received() -> None:
    desk = Desk()
    queue = desk.queue(max_size_in_megabytes=1)
    large = payload("x" * 200_000)
    desk.send(queue, *[large] * 5)
    with pytest.raises(QuotaExceeded, match="max entity size in bytes: 1048576"):
        queue.send(large, 0)
    desk.receiver(queue.main, credit=1)
    queue.main.complete(desk.take()[0])
    desk.send(queue, large)
    assert queue.main.active_count == 5


def test_what_was_sent_counts_against_the_quota_before_it_is_on_disk() -> None:
    desk = Desk()
    queue = desk.queue(max_size_in_megabytes=1)
    large = payload("x" * 200_000)
    for _ in range(5):
        queue.send(large, 0)
    with pytest.raises(QuotaExceeded):
        queue.send(large, 0)


def test_a_full_disk_refuses_messages_and_still_lets_them_be_received() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    desk.namespace.is_disk_full = True
    with pytest.raises(QuotaExceeded, match="disk of the broker is full"):
        queue.send(payload("b"), 0)
    desk.receiver(queue.main)
    queue.main.complete(desk.take()[0])
    desk.flush()
    assert queue.main.active_count == 0


def test_a_message_that_is_too_large_is_refused_with_both_sizes() -> None:
    desk = Desk()
    queue = desk.queue(max_message_size_in_kilobytes=1)
    with pytest.raises(MessageSizeExceeded, match=r"\(1024 bytes\)"):
        queue.send(payload("x" * 1_024), 0)


def test_a_batch_is_taken_as_a_whole_or_not_at_all() -> None:
    desk = Desk()
    queue = desk.queue(requires_session=True)
    with pytest.raises(NotAllowed, match="SessionId was not set"):
        desk.send_batch(queue, payload("a", session_id="s"), payload("b"))
    desk.flush()
    assert queue.main.active_count == 0


@pytest.mark.parametrize("status", ["Disabled", "SendDisabled"])
def test_a_queue_that_is_closed_to_senders_takes_nothing(status: str) -> None:
    desk = Desk()
    queue = desk.queue(status=status)
    with pytest.raises(EntityDisabled):
        queue.send(payload("a"), 0)


def test_receivers_are_told_when_a_queue_is_disabled() -> None:
    desk = Desk()
    queue = desk.queue()
    consumer = desk.receiver(queue.main)
    desk.update(queue, status="ReceiveDisabled")
    (notice,) = desk.take_notices()
    assert (notice.kind, notice.consumer) == (NoticeKind.CLOSED, consumer)
    assert isinstance(notice.error, EntityDisabled)
    desk.send(queue, payload("a"))
    assert desk.take() == []
    desk.update(queue, status="Active")
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["a"]


@mission("M25")
def test_a_ping_is_counted_and_never_delivered() -> None:
    desk = Desk()
    queue = desk.queue()
    ping = encode_message(properties=Properties(content_type="application/vnd.ms-servicebus-ping"), data=b"")
    desk.send(queue, ping)
    desk.send_batch(queue, ping, payload("a"))
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["a"]
    assert (queue.ping_count, queue.main.active_count) == (2, 1)


@mission("M25")
def test_a_ping_is_taken_by_a_queue_that_requires_sessions() -> None:
    desk = Desk()
    queue = desk.queue(requires_session=True)
    desk.send(queue, encode_message(properties=Properties(content_type="application/vnd.ms-servicebus-ping"), data=b""))
    assert (queue.ping_count, queue.main.active_count) == (1, 0)


def test_a_message_that_only_looks_like_a_ping_is_delivered() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("application/vnd.ms-servicebus-ping"))
    desk.receiver(queue.main)
    assert len(desk.take()) == 1
    assert queue.ping_count == 0


# --- duplicates -----------------------------------------------------------------------------------------------------


@mission("M3")
def test_a_duplicate_is_accepted_and_dropped() -> None:
    desk = Desk()
    queue = desk.queue(requires_duplicate_detection=True)
    desk.send(queue, payload("a", message_id="1"), payload("again", message_id="1"), payload("b", message_id="2"))
    assert desk.peek(queue.main) == ["a", "b"]
    assert queue.size.decided_bytes == queue.size_bytes


@mission("M3")
def test_a_duplicate_is_known_although_its_message_was_completed_and_the_broker_restarted() -> None:
    desk = Desk()
    queue = desk.queue(requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=20_000)
    desk.send(queue, payload("a", message_id="1"))
    desk.receiver(queue.main)
    queue.main.complete(desk.take()[0])
    desk.flush()
    desk.restart()
    queue = desk.namespace.get("orders")
    desk.advance(19_999)
    desk.send(queue, payload("again", message_id="1"))
    assert queue.main.active_count == 0


def test_a_message_id_is_free_again_after_the_window() -> None:
    desk = Desk()
    queue = desk.queue(requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=20_000)
    desk.send(queue, payload("a", message_id="1"))
    desk.advance(20_000)
    desk.send(queue, payload("again", message_id="1"))
    assert desk.peek(queue.main) == ["a", "again"]


def test_a_scheduled_message_counts_as_seen() -> None:
    desk = Desk()
    queue = desk.queue(requires_duplicate_detection=True)
    desk.send(queue, payload("a", message_id="1", due_ms=desk.now_ms + 60_000), payload("b", message_id="1"))
    assert (queue.main.scheduled_count, queue.main.active_count) == (1, 0)


def test_message_ids_are_forgotten_when_they_are_old() -> None:
    desk = Desk()
    queue = desk.queue(
        requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=20_000, lock_duration_ms=1_000
    )
    desk.send(queue, payload("a", message_id="1"))
    desk.receiver(queue.main, credit=1)
    # A timer that is due sooner must not make the other one be forgotten.
    desk.advance(1_000)
    desk.advance(59_000)
    desk.advance(60_000)
    assert desk.store._duplicates[queue.number] == {}


# --- partitions -----------------------------------------------------------------------------------------------------


def test_messages_with_the_same_key_lie_in_the_same_partition() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    desk.send(queue, *[payload("a", partition_key="k") for _ in range(3)], payload("b", session_id="k"))
    desk.receiver(queue.main)
    assert {lock.message.partition for lock in desk.take()} == {partition_of("k")}


def test_messages_without_a_key_are_spread_over_all_partitions() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    desk.send(queue, *[payload(f"{number}") for number in range(PARTITION_COUNT)])
    desk.receiver(queue.main, credit=PARTITION_COUNT)
    assert len({lock.message.partition for lock in desk.take()}) == PARTITION_COUNT


@pytest.mark.parametrize("requires_session", [False, True])
def test_an_empty_session_id_leaves_the_partition_to_the_partition_key(requires_session: bool) -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True, requires_session=requires_session)
    (message,) = queue.send(payload("a", session_id="", partition_key="k"), 0)
    assert message.partition == partition_of("k")
    assert message.session_id == ("" if requires_session else None)


def test_a_partition_key_may_come_as_binary_and_is_delivered_as_a_string() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    annotations = {"x-opt-partition-key": b"k", "x-opt-via-partition-key": "größer".encode(), "x-opt-mine": b"k"}
    (message,) = queue.send(encode_message(message_annotations=annotations, data=b"x"), 0)
    assert message.partition == partition_of("k")
    expected = {"x-opt-partition-key": "k", "x-opt-via-partition-key": "größer", "x-opt-mine": b"k"}
    assert (Message(message.unlocked_payload()).message_annotations or {}).items() >= expected.items()


@pytest.mark.parametrize("key", ["x-opt-partition-key", "x-opt-via-partition-key"])
@pytest.mark.parametrize("value", [b"\xff", 7], ids=["no UTF-8", "a number"])
def test_a_partition_key_that_is_not_text_is_refused(key: str, value: object) -> None:
    desk = Desk()
    queue = desk.queue()
    with pytest.raises(DecodeError, match=f"message-annotations.{key} must be a string"):
        queue.send(encode_message(message_annotations={key: value}, data=b"x"), 0)


def test_a_message_id_in_binary_is_the_duplicate_of_the_same_text() -> None:
    desk = Desk()
    queue = desk.queue(requires_duplicate_detection=True)
    for message_id in ("m-1", b"m-1", b"\xff", b"\xff"):
        desk.send(queue, encode_message(properties=Properties(message_id=message_id), data=b"x"))
    assert queue.main.active_count == 2


def test_a_session_and_a_partition_key_must_be_the_same() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    with pytest.raises(NotAllowed, match="must be the same"):
        queue.send(payload("a", session_id="s", partition_key="k"), 0)


def test_duplicates_in_a_partitioned_queue_are_told_by_key_and_id() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True, requires_duplicate_detection=True)
    desk.send(
        queue,
        payload("a", message_id="1", partition_key="k"),
        payload("b", message_id="1", partition_key="l"),
        payload("c", message_id="1", partition_key="k"),
    )
    assert desk.peek(queue.main) == ["a", "b"]


def test_a_message_is_found_by_the_number_that_clients_see() -> None:
    desk = Desk()
    queue = desk.queue(enable_partitioning=True)
    desk.send(queue, payload("a", partition_key="k"))
    desk.receiver(queue.main)
    (lock,) = desk.take()
    queue.main.defer(lock)
    number = lock.message.visible_sequence_number
    assert number >> 48 == partition_of("k")
    assert isinstance(desk.ask(lambda asker: queue.main.receive_deferred([number], True, None, asker)), list)


# --- browsing and deleting ------------------------------------------------------------------------------------------


def test_browsing_shows_messages_in_every_state_and_takes_none() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"), payload("c", due_ms=desk.now_ms + 60_000))
    desk.receiver(queue.main, credit=2)
    _, lock = desk.take()
    queue.main.defer(lock)
    assert desk.peek(queue.main) == ["a", "b", "c"]
    answer = desk.ask(lambda asker: queue.main.peek(2, 1, None, asker))
    assert isinstance(answer, list)
    assert [body(one) for one in answer] == ["b"]
    with pytest.raises(ArgumentOutOfRange):
        queue.main.peek(1, 0, None, "asker")


def test_batch_delete_spares_locked_deferred_and_younger_messages() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"), payload("c"))
    desk.receiver(queue.main, credit=2)
    _, second = desk.take()
    queue.main.defer(second)
    before_ms = desk.now_ms
    desk.advance(10)
    desk.send(queue, payload("d"))
    assert desk.ask(lambda asker: queue.main.delete_batch(100, before_ms, None, asker)) == 1
    assert desk.peek(queue.main) == ["a", "b", "d"]


def test_batch_delete_stops_at_its_count_and_the_deleted_are_not_delivered() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.receiver(queue.main, credit=0)
    desk.send(queue, payload("a"), payload("b"), payload("c"))
    assert desk.ask(lambda asker: queue.main.delete_batch(2, desk.now_ms, None, asker)) == 2
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["c"]


def test_two_that_delete_at_once_delete_each_message_once() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"), payload("b"))
    desk.answers.clear()
    for asker in ("one", "another"):
        queue.main.delete_batch(10, desk.now_ms, None, asker)
    desk.flush()
    assert desk.answers == [2, 0]
    assert (queue.main.active_count, queue.size_bytes) == (0, 0)


@pytest.mark.parametrize("count", [0, 4_001])
def test_batch_delete_names_the_bounds_of_its_count(count: int) -> None:
    desk = Desk()
    queue = desk.queue()
    with pytest.raises(ArgumentOutOfRange, match=f"message-count is {count}; it must be from 1 to 4000"):
        queue.main.delete_batch(count, desk.now_ms, None, "asker")


# --- queues that come and go ----------------------------------------------------------------------------------------


def test_a_queue_exists_once_whatever_its_spelling() -> None:
    desk = Desk()
    queue = desk.queue("Orders")
    with pytest.raises(EntityAlreadyExists):
        desk.queue("ORDERS")
    assert desk.namespace.get("orders") is queue
    with pytest.raises(NotFound, match="could not be found"):
        desk.namespace.get("other")


def test_some_properties_cannot_be_changed() -> None:
    desk = Desk()
    queue = desk.queue()
    with pytest.raises(ArgumentError, match="requires_session"):
        desk.update(queue, requires_session=True)
    desk.update(queue, max_delivery_count=3)
    desk.restart()
    assert desk.namespace.get("orders").description.max_delivery_count == 3


def test_a_deleted_queue_takes_its_messages_and_receivers_with_it() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    consumer = desk.receiver(queue.main)
    desk.namespace.delete(queue)
    desk.flush()
    (notice,) = desk.take_notices()
    assert (notice.kind, notice.consumer) == (NoticeKind.CLOSED, consumer)
    desk.restart()
    assert desk.namespace.queues == []
    again = desk.queue()
    assert desk.peek(again.main) == []


def test_a_question_about_a_queue_that_is_deleted_meanwhile_is_answered() -> None:
    desk = Desk()
    queue = desk.queue(requires_session=True)
    desk.send(queue, payload("a", session_id="s"))
    sessions = queue.main.sessions
    assert sessions is not None
    desk.accept(queue, "s", credit=0)
    desk.answers.clear()
    queue.main.peek(1, 1, None, "peek")
    queue.main.delete_batch(1, desk.now_ms, None, "delete")
    queue.main.cancel_scheduled([1], "cancel")
    queue.main.receive_deferred([1], False, "s", "receive")
    sessions.set_state("s", b"state", "set")
    sessions.get_state("s", "get")
    sessions.list_sessions(None, 0, 10, "list")
    desk.namespace.delete(queue)
    desk.flush()
    assert [type(answer) for answer in desk.answers] == [NotFound] * 7
    desk.restart()
    assert desk.store.recover().streams == []


def test_an_idle_queue_is_deleted_and_one_in_use_is_not() -> None:
    desk = Desk()
    desk.queue("idle", auto_delete_on_idle_ms=300_000)
    used = desk.queue("used", auto_delete_on_idle_ms=300_000)
    waiting = desk.queue("waiting", auto_delete_on_idle_ms=300_000)
    desk.receiver(used.main)
    desk.send(waiting, payload("a", due_ms=desk.now_ms + 500_000))
    desk.advance(299_999)
    assert len(desk.namespace.queues) == 3
    desk.advance(1)
    assert [queue.name for queue in desk.namespace.queues] == ["used", "waiting"]
    desk.restart()
    assert [queue.name for queue in desk.namespace.queues] == ["used", "waiting"]


def test_an_idle_queue_is_deleted_with_messages_that_expire_in_that_moment() -> None:
    desk = Desk()
    target = desk.queue("target")
    queue = desk.queue(
        auto_delete_on_idle_ms=300_000,
        dead_lettering_on_message_expiration=True,
        forward_dead_lettered_messages_to="target",
    )
    desk.send(queue, payload("a", ttl_ms=300_000))
    desk.advance(300_000)
    assert [one.name for one in desk.namespace.queues] == ["target"]
    assert target.main.active_count == 0
    desk.restart()
    assert [one.name for one in desk.namespace.queues] == ["target"]


@pytest.mark.parametrize(
    "field, value",
    [
        ("lock_duration_ms", 999),
        ("lock_duration_ms", 300_001),
        ("max_delivery_count", 0),
        ("max_size_in_megabytes", 0),
        ("duplicate_detection_history_time_window_ms", 19_999),
        ("default_message_time_to_live_ms", 999),
        ("auto_delete_on_idle_ms", 299_999),
        ("max_message_size_in_kilobytes", 102_401),
    ],
)
def test_a_description_names_the_field_that_is_out_of_its_range(field: str, value: int) -> None:
    with pytest.raises(ArgumentOutOfRange, match=f"{field} is {value}; it must be "):
        QueueDescription.from_fields({"name": "orders", field: value})


def test_a_description_is_the_same_after_it_was_stored() -> None:
    description = QueueDescription("orders", forward_to="other", user_metadata="x")
    assert QueueDescription.from_fields(description.to_fields()).to_fields() == description.to_fields()
    refused: tuple[tuple[dict[str, object], str], ...] = (
        ({"name": "orders", "colour": "red"}, "colour is not a property"),
        ({"name": "orders", "max_delivery_count": True}, "max_delivery_count must be a whole number"),
        ({"name": "orders", "status": "Open"}, "it must be one of Active"),
        ({}, "name is missing"),
        ({"size": 1}, "size is not a property"),
        ({"name": "orders", "self": 1}, "self is not a property"),
        ({"name": "orders", "settings": {}}, "settings is not a property"),
        ({"name": "orders", "enable_express": 1}, "enable_express must be true or false"),
    )
    for fields, message in refused:
        with pytest.raises(ArgumentError, match=message):
            QueueDescription.from_fields(fields)


def test_a_scheduled_message_of_another_number_is_not_cancelled() -> None:
    desk = Desk()
    queue = desk.queue()
    desk.send(queue, payload("a"))
    assert isinstance(desk.ask(lambda asker: queue.main.cancel_scheduled([1], asker)), MessageNotFound)
