"""What readers of a partition get: from where, in which order, and how much at once."""

from __future__ import annotations

import pytest

from tandem.amqp.batch import BATCH_FORMAT
from tandem.engine.hubs.position import LATEST, START, parse_selector
from tandem.errors import ArgumentError, ArgumentOutOfRange, Scope
from tandem.limits import MAX_EVENT_READ_BYTES, MAX_EVENTS_PER_READ, MAX_TAIL_BYTES
from tests.engine.desk import START_MS
from tests.engine.hubs.hub_desk import HubDesk, batch, event
from tests.markers import mission

RETENTION_MS = 60_000


@mission("M10")
def test_every_reader_sees_the_same_events_in_the_same_order_and_takes_none_away() -> None:
    desk = HubDesk()
    hub = desk.hub(consumer_groups=["audit"])
    partition = hub.partitions[0]
    early = desk.open(partition)
    desk.append(hub, "a", "b")
    desk.append_batch(hub, "c", "d")
    others = [desk.open(partition), desk.open(partition, group="audit", epoch=4)]
    desk.append(hub, "e")
    for reading in (early, *others):
        assert reading.texts == ["a", "b", "c", "d", "e"]
        assert reading.numbers == [0, 1, 2, 3, 4]


def test_an_event_has_the_same_bytes_from_memory_and_from_the_store() -> None:
    desk = HubDesk()
    hub = desk.hub()
    following = desk.open(hub.partitions[0])
    hub.send(batch(event("a"), event("b", annotations={"x-opt-mine": 1}), key="k"), BATCH_FORMAT)
    hub.send(event("c"), 0, None, "publisher")
    desk.flush()
    desk.close(following)
    later = desk.open(hub.partitions[0])
    assert [one.encoded() for one in later.events] == [one.encoded() for one in following.events]


@mission("M10")
@pytest.mark.parametrize(
    "selector, expected",
    [
        ("amqp.annotation.x-opt-offset > '-1'", "abcdef"),
        ("amqp.annotation.x-opt-offset > '@latest'", ""),
        ("amqp.annotation.x-opt-offset > '2'", "def"),
        ("amqp.annotation.x-opt-offset >= '2'", "cdef"),
        ("amqp.annotation.x-opt-offset > '5'", ""),
        ("amqp.annotation.x-opt-offset >= '5'", "f"),
        ("amqp.annotation.x-opt-sequence-number > '0'", "bcdef"),
        ("amqp.annotation.x-opt-sequence-number >= '0'", "abcdef"),
        (f"amqp.annotation.x-opt-enqueued-time > '{START_MS - 1}'", "abcdef"),
        (f"amqp.annotation.x-opt-enqueued-time >= '{START_MS}'", "abcdef"),
        (f"amqp.annotation.x-opt-enqueued-time > '{START_MS}'", "def"),
        (f"amqp.annotation.x-opt-enqueued-time >= '{START_MS + 1_000}'", "def"),
        (f"amqp.annotation.x-opt-enqueued-time > '{START_MS + 500}'", "def"),
        (f"amqp.annotation.x-opt-enqueued-time > '{START_MS + 1_000}'", "f"),
        (f"amqp.annotation.x-opt-enqueued-time > '{START_MS + 2_000}'", ""),
        ("amqp.annotation.x-opt-enqueued-time > '-62135596800000'", "abcdef"),
    ],
)
def test_a_reader_begins_where_it_wants_to(selector: str, expected: str) -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append(hub, "a", "b", "c")
    desk.advance(1_000)
    desk.append_batch(hub, "d", "e")
    desk.advance(1_000)
    desk.append(hub, "f")
    reading = desk.open(hub.partitions[0], parse_selector(selector))
    assert "".join(reading.texts) == expected
    desk.append(hub, "g")
    assert "".join(reading.texts) == expected + "g"


@pytest.mark.parametrize(
    "selector, expected",
    [
        (
            "amqp.annotation.x-opt-offset >= '0'",
            "The supplied offset '0' is invalid. The last offset in the system is '-1'",
        ),
        (
            "amqp.annotation.x-opt-sequence-number > '0'",
            "The supplied sequence number '0' is invalid. The last sequence number in the system is '-1'",
        ),
    ],
)
def test_a_position_behind_the_end_is_told_to_a_reader_that_was_opened(selector: str, expected: str) -> None:
    desk = HubDesk()
    reading = desk.open(desk.hub().partitions[0], parse_selector(selector))
    assert isinstance(reading.error, ArgumentError)
    assert (str(reading.error), reading.error.scope) == (expected, Scope.LINK)
    assert not reading.own.is_open


def test_a_time_in_an_empty_partition_or_in_the_future_waits_for_the_next_event() -> None:
    desk = HubDesk()
    hub = desk.hub()
    selector = f"amqp.annotation.x-opt-enqueued-time > '{START_MS + 3_600_000}'"
    reading = desk.open(hub.partitions[0], parse_selector(selector))
    desk.append(hub, "a")
    assert reading.texts == ["a"]


@pytest.mark.parametrize("name", ["-1", "2", "one", "", "٠", "0" * 10])
def test_a_partition_that_is_not_there_is_refused_by_name(name: str) -> None:
    hub = HubDesk().hub(partition_count=2)
    with pytest.raises(ArgumentOutOfRange, match=r"specified partition is invalid.* between 0 and 1") as caught:
        hub.partition(name)
    assert caught.value.scope is Scope.LINK


@mission("M10")
def test_a_reader_gets_as_many_events_as_it_has_credit_for() -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append_batch(hub, *"abcde")
    from_store = desk.open(hub.partitions[0], credit=2)
    from_tail = desk.open(hub.partitions[0], LATEST, credit=2)
    desk.append_batch(hub, *"fghij")
    assert (from_store.take(), from_tail.take()) == (["a", "b"], ["f", "g"])
    desk.credit(from_store, 4)
    desk.credit(from_tail, 1)
    assert (from_store.take(), from_tail.take()) == (["c", "d", "e", "f"], ["h"])
    desk.append(hub, "k")
    assert (from_store.take(), from_tail.take()) == ([], [])


def test_credit_that_is_taken_back_while_the_store_is_asked_is_respected() -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append_batch(hub, *"abcde")
    reading = desk.open_without_flush(hub.partitions[0], credit=5)
    desk.namespace.settle_turn()
    assert reading.own.is_reading
    desk.credit(reading, 2)
    assert reading.take() == ["a", "b"]
    desk.credit(reading, 5)
    assert reading.take() == ["c", "d", "e"]


def test_a_reader_that_drains_gets_what_there_is_and_then_word_that_it_is_all() -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append(hub, "a", "b")
    reading = desk.open(hub.partitions[0], credit=0)
    desk.credit(reading, 10, is_draining=True)
    assert (reading.take(), reading.drained_count, reading.own.credit) == (["a", "b"], 1, 0)
    desk.append(hub, "c")
    assert reading.take() == []
    desk.credit(reading, 10, is_draining=True)
    assert (reading.take(), reading.drained_count) == (["c"], 2)
    desk.credit(reading, 10, is_draining=True)
    assert (reading.take(), reading.drained_count) == ([], 3)


@pytest.mark.parametrize("credit", [0, 1, 2])
def test_a_drain_is_answered_also_when_events_use_up_its_credit(credit: int) -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append(hub, "a", "b")
    from_store = desk.open(hub.partitions[0], credit=0)
    from_tail = desk.open(hub.partitions[0], LATEST, credit=0)
    desk.append(hub, "c", "d")
    for reading, expected in ((from_store, "ab"), (from_tail, "cd")):
        desk.credit(reading, credit, is_draining=True)
        assert ("".join(reading.take()), reading.drained_count) == (expected[:credit], 1)


def test_a_reader_whose_connection_is_congested_is_left_in_peace_until_it_wakes() -> None:
    desk = HubDesk()
    hub = desk.hub()
    reading = desk.open(hub.partitions[0])
    reading.own.is_paused = True
    desk.append(hub, "a", "b")
    assert reading.take() == []
    hub.partitions[0].wake(reading.own)
    desk.flush()
    assert reading.take() == ["a", "b"]


@mission("M10")
def test_a_reader_that_fell_behind_what_is_kept_in_memory_misses_nothing() -> None:
    desk = HubDesk()
    hub = desk.hub()
    partition = hub.partitions[0]
    reading = desk.open(partition, credit=1)
    size = 10_000
    count = 3 * MAX_TAIL_BYTES // size
    for number in range(count):
        hub.send(event(f"{number:05}" + "x" * size), 0)
    desk.flush()
    assert partition._tail_bytes <= MAX_TAIL_BYTES
    assert partition._tail[0].first_sequence_number > 1
    desk.credit(reading, count)
    assert reading.numbers == list(range(count))
    assert [text[:5] for text in reading.texts] == [f"{number:05}" for number in range(count)]


def test_nothing_is_kept_in_memory_of_a_partition_that_nobody_reads() -> None:
    desk = HubDesk()
    hub = desk.hub()
    partition = hub.partitions[0]
    reading = desk.open(partition)
    desk.append(hub, "a")
    assert partition._tail_bytes > 0
    desk.close(reading)
    desk.append(hub, "b")
    assert (partition._tail, partition._tail_bytes) == ([], 0)


def test_one_portion_of_the_store_is_bounded_in_events_and_in_bytes() -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append_batch(hub, *["x"] * (2 * MAX_EVENTS_PER_READ))
    reading = desk.open_without_flush(hub.partitions[0], credit=10_000)
    desk.namespace.settle_turn()
    (query,) = desk.namespace.effects.queries
    assert query.limit == MAX_EVENTS_PER_READ  # type: ignore[attr-defined] # it is an EventsQuery
    assert query.limit_bytes == MAX_EVENT_READ_BYTES  # type: ignore[attr-defined]
    desk.flush()
    assert len(reading.events) == 2 * MAX_EVENTS_PER_READ


def test_one_portion_of_the_tail_is_bounded_too_and_all_of_it_comes() -> None:
    desk = HubDesk()
    hub = desk.hub()
    reading = desk.open(hub.partitions[0], credit=0)
    for number in range(8):
        hub.send(event(f"{number}" + "x" * (MAX_EVENT_READ_BYTES // 4)), 0)
    desk.flush()
    desk.credit(reading, 100)
    assert [text[0] for text in reading.texts] == list("01234567")


@mission("M10")
def test_retention_takes_from_the_front_and_a_reader_behind_it_goes_on_where_events_begin() -> None:
    desk = HubDesk()
    hub = desk.hub(retention_ms=RETENTION_MS)
    partition = hub.partitions[0]
    slow = desk.open(partition, credit=1)
    desk.append(hub, "a", "b")
    desk.advance(RETENTION_MS // 2)
    desk.append(hub, "c", "d")
    desk.advance(RETENTION_MS // 2 + 1)
    desk.maintain()
    assert partition.begin_sequence_number == 2
    assert slow.take() == ["a"]
    desk.credit(slow, 10)
    assert (slow.numbers, slow.take()) == ([2, 3], ["c", "d"])
    assert desk.read(partition, parse_selector("amqp.annotation.x-opt-offset >= '0'")) == ["c", "d"]
    assert desk.read(partition, START) == ["c", "d"]


@mission("M10")
def test_a_partition_whose_events_are_all_gone_goes_on_with_its_numbers() -> None:
    desk = HubDesk()
    hub = desk.hub(retention_ms=RETENTION_MS)
    desk.append(hub, "a", "b")
    desk.advance(RETENTION_MS + 1)
    desk.maintain()
    partition = hub.partitions[0]
    assert (partition.is_empty, partition.begin_sequence_number, partition.last_sequence_number) == (True, 2, 1)
    desk.restart()
    hub = desk.namespace.hubs.get("telemetry")
    partition = hub.partitions[0]
    assert (partition.is_empty, partition.last_sequence_number, partition.last_enqueued_at_ms) == (True, 1, START_MS)
    desk.append(hub, "c")
    reading = desk.open(partition)
    assert (reading.numbers, reading.texts) == ([2], ["c"])


def test_a_reader_that_was_closed_gets_nothing_of_what_was_asked_for_it() -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append(hub, "a")
    by_number = desk.open_without_flush(hub.partitions[0])
    by_time = desk.open_without_flush(hub.partitions[0], parse_selector("amqp.annotation.x-opt-enqueued-time > '0'"))
    desk.namespace.settle_turn()
    assert by_number.own.is_reading
    assert by_time.own.is_reading
    hub.partitions[0].close_receiver(by_number.own)
    hub.partitions[0].close_receiver(by_time.own)
    desk.flush()
    assert (by_number.events, by_time.events) == ([], [])


def test_a_deletion_in_the_middle_of_a_read_ends_it() -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append(hub, "a")
    reading = desk.open_without_flush(hub.partitions[0])
    desk.namespace.settle_turn()
    desk.namespace.hubs.delete(hub)
    desk.flush()
    assert reading.events == []
    assert reading.error is not None


@mission("M10")
def test_what_the_partition_says_of_itself_is_true() -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=2)
    first, second = hub.partitions
    desk.append(hub, "a", "b", partition=first)
    desk.advance(1_000)
    desk.append_batch(hub, "c", "d", partition=first)
    assert (first.begin_sequence_number, first.next_sequence_number, first.last_sequence_number) == (0, 4, 3)
    assert (first.last_enqueued_at_ms, first.is_empty) == (START_MS + 1_000, False)
    assert (second.last_sequence_number, second.last_enqueued_at_ms, second.is_empty) == (-1, None, True)
    assert hub.size_bytes == first.size_bytes > 0
    size_bytes = first.size_bytes
    desk.restart()
    first = desk.namespace.hubs.get("telemetry").partitions[0]
    assert (first.next_sequence_number, first.last_enqueued_at_ms, first.is_empty) == (4, START_MS + 1_000, False)
    assert first.size_bytes == size_bytes
