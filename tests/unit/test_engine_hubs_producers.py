"""Idempotent producers: what is sent again is stored once, and what is missing is noticed."""

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
from tandem.errors import DecodeError, OutOfOrderSequence, ProducerEpochStolen, Scope
from tandem.limits import MAX_PRODUCERS_PER_PARTITION
from tests.markers import mission
from tests.unit.engine_hub_desk import HubDesk, batch, event

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


@mission("M10")
def test_a_producer_that_has_sent_nothing_stands_before_zero() -> None:
    mark = Producers().open(7, 0, None)
    assert (mark.producer_id, mark.epoch, mark.sequence_number) == (7, 0, NO_SEQUENCE_NUMBER)


@mission("M10")
def test_what_is_sent_again_is_acknowledged_and_not_stored_again() -> None:
    desk = HubDesk()
    hub = desk.hub()
    assert _send(desk, hub, 0, "a", "b") == 2
    assert _send(desk, hub, 0, "a", "b") == 0
    assert _send(desk, hub, 2, "c") == 1
    assert _send(desk, hub, 0, "a", "b") == 0
    assert _send(desk, hub, 2, "c") == 0
    assert desk.read(hub.partitions[0]) == ["a", "b", "c"]


@mission("M10")
def test_a_number_that_is_left_out_is_noticed_and_nothing_is_stored() -> None:
    desk = HubDesk()
    hub = desk.hub()
    _send(desk, hub, 0, "a")
    with pytest.raises(OutOfOrderSequence, match="the number 2; expected is 1") as caught:
        _send(desk, hub, 2, "c")
    assert caught.value.scope is Scope.DELIVERY
    assert desk.read(hub.partitions[0]) == ["a"]
    assert _send(desk, hub, 1, "b") == 1


def test_a_batch_that_is_only_partly_new_is_refused() -> None:
    desk = HubDesk()
    hub = desk.hub()
    _send(desk, hub, 0, "a", "b")
    with pytest.raises(OutOfOrderSequence):
        _send(desk, hub, 1, "b", "c")
    assert desk.read(hub.partitions[0]) == ["a", "b"]


@mission("M10")
def test_numbers_start_again_at_zero_after_the_last_of_31_bits() -> None:
    producers = Producers()
    producers.open(7, 0, LAST - 2)
    assert producers.admit(ProducerMark(7, 0, LAST - 1), 1)
    assert producers.admit(ProducerMark(7, 0, LAST), 3)
    last = producers.last_of(7)
    assert last is not None
    assert last.sequence_number == 1
    assert not producers.admit(ProducerMark(7, 0, LAST), 3)
    assert not producers.admit(ProducerMark(7, 0, LAST - 1), 1)
    assert producers.admit(ProducerMark(7, 0, 2), 1)


@given(
    st.integers(-1, LAST),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["new", "repeat", "gap"])), max_size=30),
)
def test_numbers_are_judged_as_a_list_of_what_was_sent_judges_them(
    last_number: int, steps: list[tuple[int, str]]
) -> None:
    producers = Producers()
    producers.open(7, 0, last_number)
    following = (last_number + 1) % (LAST + 1)
    sent: list[tuple[int, int]] = []
    for count, how in steps:
        if how == "new" or (how == "repeat" and not sent):
            assert producers.admit(ProducerMark(7, 0, following), count)
            sent.append((following, count))
            following = (following + count) % (LAST + 1)
        elif how == "repeat":
            first, length = sent[-1 - count % len(sent)]
            assert not producers.admit(ProducerMark(7, 0, first), length)
        else:
            with pytest.raises(OutOfOrderSequence):
                producers.admit(ProducerMark(7, 0, (following + count) % (LAST + 1)), 1)


@mission("M10")
def test_a_higher_epoch_takes_over_and_the_older_one_is_stolen() -> None:
    desk = HubDesk()
    hub = desk.hub()
    producers = hub.partitions[0].producers
    _send(desk, hub, 0, "a", epoch=1)
    assert producers.open(7, 2, None).sequence_number == 0
    with pytest.raises(ProducerEpochStolen, match=r"has epoch 2 already; events with epoch 1 are of an older one"):
        _send(desk, hub, 1, "b", epoch=1)
    with pytest.raises(ProducerEpochStolen, match="a link with epoch 1 is older"):
        producers.open(7, 1, None)
    assert _send(desk, hub, 1, "c", epoch=2) == 1
    assert desk.read(hub.partitions[0]) == ["a", "c"]


def test_a_producer_with_a_higher_epoch_may_say_where_it_starts() -> None:
    producers = Producers()
    producers.open(7, 0, None)
    assert producers.admit(ProducerMark(7, 0, 0), 1)
    assert producers.open(7, 1, 41).sequence_number == 41
    assert producers.admit(ProducerMark(7, 1, 42), 1)


@mission("M10")
def test_a_link_that_is_opened_again_after_a_lost_acknowledgement_repeats_and_stores_nothing_twice() -> None:
    # The SDK takes the number of the reply for the last that it has sent. If that told of events whose acknowledgement
    # it never saw, it would send them again under new numbers.
    desk = HubDesk()
    hub = desk.hub()
    producers = hub.partitions[0].producers
    _send(desk, hub, 0, "a")
    _send(desk, hub, 1, "b", "c")
    reply = producers.open(7, 0, 0)
    assert reply.sequence_number == 0
    assert _send(desk, hub, reply.sequence_number + 1, "b", "c") == 0
    assert _send(desk, hub, 3, "d") == 1
    assert desk.read(hub.partitions[0]) == ["a", "b", "c", "d"]


def test_a_link_that_is_opened_again_cannot_run_ahead_of_what_is_stored() -> None:
    producers = Producers()
    producers.open(7, 0, None)
    producers.admit(ProducerMark(7, 0, 0), 3)
    assert producers.open(7, 0, 9).sequence_number == 2


def test_a_producer_that_was_forgotten_says_itself_where_it_stands() -> None:
    producers = Producers()
    assert producers.admit(ProducerMark(7, 3, 100), 2)
    assert not producers.admit(ProducerMark(7, 3, 100), 2)
    assert producers.admit(ProducerMark(7, 3, 102), 1)


@mission("M10")
def test_a_producer_is_remembered_over_a_crash() -> None:
    desk = HubDesk()
    _send(desk, desk.hub(), 0, "a", "b")
    desk.restart()
    hub = desk.namespace.hubs.get("telemetry")
    assert hub.partitions[0].producers.open(7, 0, None).sequence_number == 1
    assert _send(desk, hub, 0, "a", "b") == 0
    assert _send(desk, hub, 2, "c") == 1
    assert desk.read(hub.partitions[0]) == ["a", "b", "c"]


def test_producers_of_two_partitions_do_not_know_each_other() -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=2)
    link = ProducerMark(7, 0, NO_SEQUENCE_NUMBER)
    for partition in hub.partitions:
        assert hub.send(_marked(Int(0), "a"), BATCH_FORMAT, partition, None, link) == 1


@pytest.mark.parametrize("way", ["open", "admit", "restore"])
def test_the_producer_that_was_silent_longest_is_forgotten_first(way: str) -> None:
    producers = Producers()
    producers.open(0, 0, 5)
    producers.open(1, 0, 6)
    assert producers.admit(ProducerMark(0, 0, 6), 1)
    for producer_id in range(2, MAX_PRODUCERS_PER_PARTITION + 1):
        if way == "open":
            producers.open(producer_id, 0, None)
        elif way == "admit":
            producers.admit(ProducerMark(producer_id, 0, 0), 1)
        else:
            producers.restore(ProducerMark(producer_id, 0, 0))
    assert producers.last_of(1) is None
    assert producers.last_of(0) is not None
    assert producers.last_of(MAX_PRODUCERS_PER_PARTITION) is not None


@pytest.mark.parametrize(
    "number, producer_id, epoch",
    [
        (None, 7, Short(0)),
        ("0", 7, Short(0)),
        (True, 7, Short(0)),
        (Int(-1), 7, Short(0)),
        (1 << 31, 7, Short(0)),
        (Int(0), -1, Short(0)),
        (Int(0), "seven", Short(0)),
        (Int(0), 7, -1),
        (Int(0), 7, 1 << 15),
        (Int(0), 7, "0"),
    ],
)
def test_numbers_that_no_producer_has_are_refused_by_name(number: object, producer_id: object, epoch: object) -> None:
    desk = HubDesk()
    hub = desk.hub()
    link = ProducerMark(7, 0, NO_SEQUENCE_NUMBER)
    payload = _marked(number, "a", producer_id=producer_id, epoch=epoch)
    with pytest.raises(DecodeError, match=r"message-annotations\.com\.microsoft:producer-") as caught:
        hub.send(payload, BATCH_FORMAT, hub.partitions[0], None, link)
    assert caught.value.scope is Scope.DELIVERY
    desk.flush()
    assert desk.read(hub.partitions[0]) == []


def test_what_the_annotations_leave_out_is_what_the_link_said() -> None:
    desk = HubDesk()
    hub = desk.hub()
    link = ProducerMark(7, 0, NO_SEQUENCE_NUMBER)
    payload = batch(event("a"), annotations={"com.microsoft:producer-sequence-number": Int(0)})
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

    for payload, count in ((numbered(0, "a", "b"), 2), (numbered(0, "a", "b"), 0), (numbered(2, "c"), 1)):
        assert hub.send(payload, BATCH_FORMAT, hub.partitions[0], None, link) == count
    desk.flush()
    reading = desk.open(hub.partitions[0])
    assert reading.texts == ["a", "b", "c"]
    # Numbers of a producer are between it and the hub.
    assert all("producer" not in str(Message(one.encoded()).message_annotations) for one in reading.events)
