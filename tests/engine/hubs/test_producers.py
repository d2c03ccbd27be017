"""Idempotent producers: a transfer that is sent again is stored once; numbers that are left out or old are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.batch import BATCH_FORMAT
from tandem.amqp.message import Message
from tandem.amqp.types import Int, Short
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.producers import NO_SEQUENCE_NUMBER, Producers
from tandem.engine.hubs.record import ProducerMark
from tandem.errors import ArgumentError, ArgumentOutOfRange, OutOfOrderSequence, ProducerEpochStolen, Scope
from tandem.limits import MAX_PRODUCERS_PER_PARTITION
from tests.engine.hubs.hub_desk import HubDesk, batch, event
from tests.markers import mission

LAST = (1 << 31) - 1


def _marked(number: object, *texts: str, producer_id: object = 7, epoch: object = 0) -> bytes:
    """A batch as an SDK sends it on an idempotent link: the envelope carries the number of its first event."""
    annotations = {
        "com.microsoft:producer-id": producer_id,
        "com.microsoft:producer-epoch": epoch,
        "com.microsoft:producer-sequence-number": number,
    }
    return batch(*[event(text) for text in texts], annotations=annotations)


def _send(desk: HubDesk, hub: EventHub, number: int, *texts: str, epoch: int = 0) -> int:
    link = ProducerMark(7, epoch, NO_SEQUENCE_NUMBER)
    payload = _marked(Int(number), *texts, epoch=Short(epoch))
    count = hub.send(payload, BATCH_FORMAT, hub.partitions[0], None, link)
    desk.flush()
    return count


def _admit(producers: Producers, number: int, count: int, *, checksum: int = 5, epoch: int = 0) -> bool:
    """Whether a transfer is new."""
    return producers.admit(ProducerMark(7, epoch, number), count, checksum) is not None


@mission("M10")
def test_a_producer_that_has_sent_nothing_stands_at_0_and_its_first_event_has_the_number_1() -> None:
    producers = Producers()
    mark = producers.open(7, 0, None)
    assert (mark.producer_id, mark.epoch, mark.sequence_number) == (7, 0, 0)
    with pytest.raises(OutOfOrderSequence, match="an old sequence number, 0; expected is 1"):
        _admit(producers, 0, 1)
    assert _admit(producers, 1, 5)
    assert producers.open(7, 0, None).sequence_number == 5


@mission("M10")
def test_the_last_transfer_sent_again_is_acknowledged_and_not_stored_again() -> None:
    desk = HubDesk()
    hub = desk.hub()
    assert _send(desk, hub, 1, "a", "b") == 2
    assert _send(desk, hub, 1, "a", "b") == 0
    assert _send(desk, hub, 1, "a", "b") == 0
    assert _send(desk, hub, 3, "c") == 1
    assert _send(desk, hub, 3, "c") == 0
    assert desk.read(hub.partitions[0]) == ["a", "b", "c"]


@mission("M10")
@pytest.mark.parametrize(
    "number, texts",
    [
        (1, "a"),  # of an earlier transfer, and not only the last one
        (2, "x"),  # within the last transfer
        (2, "bcd"),  # longer than the last transfer
        (3, "c"),  # only a part of the last transfer
        (2, "bx"),  # the numbers of the last transfer with other events
        (1, "abc"),  # two transfers as one
        (3, "cd"),  # partly new
    ],
)
def test_an_old_number_is_an_error_unless_the_last_transfer_is_repeated(number: int, texts: str) -> None:
    desk = HubDesk()
    hub = desk.hub()
    _send(desk, hub, 1, "a")
    _send(desk, hub, 2, "b", "c")
    with pytest.raises(OutOfOrderSequence, match=f"an old sequence number, {number}; expected is 4") as caught:
        _send(desk, hub, number, *texts)
    assert caught.value.scope is Scope.DELIVERY
    assert desk.read(hub.partitions[0]) == ["a", "b", "c"]
    assert _send(desk, hub, 2, "b", "c") == 0
    assert _send(desk, hub, 4, "d") == 1


@mission("M10")
def test_a_number_that_is_left_out_is_noticed_and_nothing_is_stored() -> None:
    desk = HubDesk()
    hub = desk.hub()
    _send(desk, hub, 1, "a")
    with pytest.raises(OutOfOrderSequence, match="the number 3; expected is 2") as caught:
        _send(desk, hub, 3, "c")
    assert caught.value.scope is Scope.DELIVERY
    assert desk.read(hub.partitions[0]) == ["a"]
    assert _send(desk, hub, 2, "b") == 1


@mission("M10")
def test_numbers_start_again_at_zero_after_the_last_of_31_bits() -> None:
    producers = Producers()
    producers.open(7, 0, LAST - 2)
    assert _admit(producers, LAST - 1, 1)
    assert _admit(producers, LAST, 3)
    assert producers.open(7, 0, None).sequence_number == 1
    assert not _admit(producers, LAST, 3)
    with pytest.raises(OutOfOrderSequence, match="an old sequence number"):
        _admit(producers, LAST - 1, 1)
    assert _admit(producers, 2, 1)


@given(
    st.integers(0, LAST),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["new", "repeat", "old", "gap"])), max_size=30),
)
def test_numbers_are_judged_as_a_list_of_what_was_sent_judges_them(
    last_number: int, steps: list[tuple[int, str]]
) -> None:
    producers = Producers()
    producers.open(7, 0, last_number)
    following = (last_number + 1) % (LAST + 1)
    sent: list[tuple[int, int]] = []
    for step, (count, how) in enumerate(steps):
        if how == "new" or (how in {"repeat", "old"} and not sent):
            assert _admit(producers, following, count, checksum=len(sent))
            sent.append((following, count))
            following = (following + count) % (LAST + 1)
        elif how == "repeat":
            first, length = sent[-1]
            assert not _admit(producers, first, length, checksum=len(sent) - 1)
        elif how == "old":
            first, length = sent[-1 - count % len(sent)]
            with pytest.raises(OutOfOrderSequence, match="an old sequence number"):
                _admit(producers, first, length, checksum=1_000 + step)
        else:
            with pytest.raises(OutOfOrderSequence, match="an event with the number"):
                _admit(producers, (following + count) % (LAST + 1), 1)


@mission("M10")
def test_a_higher_epoch_takes_over_and_the_older_one_is_stolen() -> None:
    desk = HubDesk()
    hub = desk.hub()
    producers = hub.partitions[0].producers
    _send(desk, hub, 1, "a", epoch=1)
    assert producers.open(7, 2, None).sequence_number == 1
    # The tests of the JavaScript SDK look for the two epochs in this form.
    older = r"has epoch 2 already; events with epoch 1 are of an older one.* Received:1 Current:2"
    with pytest.raises(ProducerEpochStolen, match=older):
        _send(desk, hub, 2, "b", epoch=1)
    with pytest.raises(ProducerEpochStolen, match=r"a link with epoch 1 is older.* Received:1 Current:2"):
        producers.open(7, 1, None)
    assert _send(desk, hub, 2, "c", epoch=2) == 1
    assert desk.read(hub.partitions[0]) == ["a", "c"]


def test_a_producer_with_a_higher_epoch_may_say_where_it_starts() -> None:
    producers = Producers()
    producers.open(7, 0, None)
    assert _admit(producers, 1, 1)
    assert producers.open(7, 1, 41).sequence_number == 41
    # It has sent nothing in its epoch that it could repeat.
    with pytest.raises(OutOfOrderSequence):
        _admit(producers, 41, 1, epoch=1)
    assert _admit(producers, 42, 1, epoch=1)


@mission("M10")
def test_a_link_that_is_opened_again_after_a_lost_acknowledgement_repeats_and_stores_nothing_twice() -> None:
    # The SDK takes the number of the reply for the last that it has sent. If that told of events whose acknowledgement
    # it never saw, it would send them again under new numbers.
    desk = HubDesk()
    hub = desk.hub()
    producers = hub.partitions[0].producers
    _send(desk, hub, 1, "a")
    _send(desk, hub, 2, "b", "c")
    reply = producers.open(7, 0, 1)
    assert reply.sequence_number == 1
    assert _send(desk, hub, reply.sequence_number + 1, "b", "c") == 0
    assert _send(desk, hub, 4, "d") == 1
    assert desk.read(hub.partitions[0]) == ["a", "b", "c", "d"]


def test_a_link_that_is_opened_again_cannot_run_ahead_of_what_is_stored() -> None:
    producers = Producers()
    producers.open(7, 0, None)
    _admit(producers, 1, 3)
    assert producers.open(7, 0, 9).sequence_number == 3


def test_a_producer_that_was_forgotten_says_itself_where_it_stands() -> None:
    producers = Producers()
    assert _admit(producers, 100, 2, epoch=3)
    assert not _admit(producers, 100, 2, epoch=3)
    assert _admit(producers, 102, 1, epoch=3)


@mission("M10")
def test_a_producer_and_its_last_transfer_are_remembered_over_a_crash() -> None:
    desk = HubDesk()
    _send(desk, desk.hub(), 1, "a", "b")
    desk.restart()
    hub = desk.namespace.hubs.get("telemetry")
    assert hub.partitions[0].producers.open(7, 0, None).sequence_number == 2
    assert _send(desk, hub, 1, "a", "b") == 0
    with pytest.raises(OutOfOrderSequence, match="an old sequence number"):
        _send(desk, hub, 1, "a", "x")
    assert _send(desk, hub, 3, "c") == 1
    assert desk.read(hub.partitions[0]) == ["a", "b", "c"]


def test_producers_of_two_partitions_do_not_know_each_other() -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=2)
    link = ProducerMark(7, 0, NO_SEQUENCE_NUMBER)
    for partition in hub.partitions:
        assert hub.send(_marked(Int(1), "a"), BATCH_FORMAT, partition, None, link) == 1


@pytest.mark.parametrize("way", ["open", "admit", "restore"])
def test_the_producer_that_was_silent_longest_is_forgotten_first(way: str) -> None:
    producers = Producers()
    producers.open(0, 0, 5)
    producers.open(1, 0, 6)
    assert producers.admit(ProducerMark(0, 0, 6), 1, 5) is not None
    for producer_id in range(2, MAX_PRODUCERS_PER_PARTITION + 1):
        if way == "open":
            producers.open(producer_id, 0, None)
        elif way == "admit":
            producers.admit(ProducerMark(producer_id, 0, 1), 1, 5)
        else:
            producers.restore(ProducerMark(producer_id, 0, 1))
    # The answer to a link is the number that is remembered.
    assert producers.open(0, 0, None).sequence_number == 6
    assert producers.open(1, 0, None).sequence_number == NO_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    "number, producer_id, epoch, error",
    [
        (None, 7, Short(0), ArgumentError),
        ("1", 7, Short(0), ArgumentError),
        (True, 7, Short(0), ArgumentError),
        (Int(-1), 7, Short(0), ArgumentOutOfRange),
        (1 << 31, 7, Short(0), ArgumentOutOfRange),
        (Int(1), -1, Short(0), ArgumentOutOfRange),
        (Int(1), "seven", Short(0), ArgumentError),
        (Int(1), 7, -1, ArgumentOutOfRange),
        (Int(1), 7, 1 << 15, ArgumentOutOfRange),
        (Int(1), 7, "0", ArgumentError),
    ],
)
def test_numbers_that_no_producer_has_are_refused_by_name(
    number: object, producer_id: object, epoch: object, error: type[ArgumentError]
) -> None:
    desk = HubDesk()
    hub = desk.hub()
    link = ProducerMark(7, 0, NO_SEQUENCE_NUMBER)
    payload = _marked(number, "a", producer_id=producer_id, epoch=epoch)
    with pytest.raises(error, match=r"message-annotations\.com\.microsoft:producer-") as caught:
        hub.send(payload, BATCH_FORMAT, hub.partitions[0], None, link)
    assert (type(caught.value), caught.value.scope) == (error, Scope.DELIVERY)
    desk.flush()
    assert desk.read(hub.partitions[0]) == []


def test_what_the_annotations_leave_out_is_what_the_link_said() -> None:
    desk = HubDesk()
    hub = desk.hub()
    link = ProducerMark(7, 0, NO_SEQUENCE_NUMBER)
    payload = batch(event("a"), annotations={"com.microsoft:producer-sequence-number": Int(1)})
    assert hub.send(payload, BATCH_FORMAT, hub.partitions[0], None, link) == 1
    assert hub.send(payload, BATCH_FORMAT, hub.partitions[0], None, link) == 0


@mission("M10")
def test_the_numbers_of_a_batch_may_stand_in_its_events_only() -> None:
    # So does the JavaScript SDK with a batch that was made beforehand.
    desk = HubDesk()
    hub = desk.hub()
    link = ProducerMark(7, 0, NO_SEQUENCE_NUMBER)

    def numbered(first: int, *texts: str) -> bytes:
        key = "com.microsoft:producer-sequence-number"
        return batch(*[event(text, annotations={key: Int(first + at)}) for at, text in enumerate(texts)])

    for payload, count in ((numbered(1, "a", "b"), 2), (numbered(1, "a", "b"), 0), (numbered(3, "c"), 1)):
        assert hub.send(payload, BATCH_FORMAT, hub.partitions[0], None, link) == count
    desk.flush()
    reading = desk.open(hub.partitions[0])
    assert reading.texts == ["a", "b", "c"]
    # Numbers of a producer are between it and the hub.
    assert all("producer" not in str(Message(one.encoded()).message_annotations) for one in reading.events)
