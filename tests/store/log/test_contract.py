"""What a log promises, on disk and in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tandem.engine.hubs.record import ProducerMark, transfer_checksum
from tandem.errors import StoreFailed
from tandem.testing.memory_log import MemoryLog
from tests.markers import mission
from tests.store.log.drive import (
    HUB,
    HUBS,
    OTHER_HUB,
    SMALL,
    Home,
    Log,
    Writer,
    body,
    commit,
    maintained,
    numbers,
    read_all,
    streamed,
)


class Place:
    """A log and how it is started again."""

    def __init__(self, log: Log, reopen: Callable[[], Log], crash: Callable[[], Log]) -> None:
        self.log = log
        self.reopen = reopen
        self.crash = crash


def memory_place() -> Place:
    log = MemoryLog(SMALL)
    log.recover(HUBS)

    def crash() -> Log:
        log.revert()
        return log

    return Place(log, lambda: log, crash)


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "memory":
        yield memory_place()
        return
    home = Home(tmp_path)
    yield Place(home.log, home.reopen, home.crash)
    home.close()


@pytest.fixture
def log(place: Place) -> Log:
    return place.log


@pytest.fixture
def writer(log: Log) -> Writer:
    return Writer(log)


# --- appending and reading ------------------------------------------------------------------------------------


@mission("M10")
def test_events_are_read_in_the_order_in_which_they_were_appended(log: Log, writer: Writer) -> None:
    for count in (1, 5, 1, 20, 3):
        writer.append(count)
    events = read_all(log)
    assert numbers(events) == list(range(30))
    assert [body(number) in event.bare for number, event in enumerate(events)] == [True] * 30


def test_partitions_and_hubs_do_not_mix(log: Log, writer: Writer) -> None:
    writer.append(3)
    writer.append(2, partition_id=1)
    writer.append(4, hub_number=OTHER_HUB)
    assert [len(read_all(log, 0)), len(read_all(log, 1)), len(read_all(log, 0, OTHER_HUB))] == [3, 2, 4]
    assert body(1, 0, OTHER_HUB) in read_all(log, 0, OTHER_HUB)[1].bare


def test_an_event_keeps_its_key_its_publisher_and_its_time(log: Log, writer: Writer) -> None:
    log.append([writer.record(2, key="ключ", publisher=""), writer.record(publisher="device-7")])
    commit(log)
    events = read_all(log)
    assert [(event.partition_key, event.publisher) for event in events] == [
        ("ключ", ""),
        ("ключ", ""),
        (None, "device-7"),
    ]
    assert {event.enqueued_at_ms for event in events} == {1_000}


def test_what_is_not_committed_is_not_there(log: Log, writer: Writer) -> None:
    uncommitted = [log.has_uncommitted]
    log.append([writer.record(3)])
    uncommitted.append(log.has_uncommitted)
    assert read_all(log) == []
    assert log.find_time(HUB, 0, 0) == 0
    log.commit()
    assert read_all(log) == []
    log.committed()
    uncommitted.append(log.has_uncommitted)
    assert uncommitted == [False, True, False]
    assert numbers(read_all(log)) == [0, 1, 2]


def test_a_number_out_of_order_is_refused(log: Log, writer: Writer) -> None:
    writer.append(2)
    writer.continue_at(HUB, 0, 3)
    with pytest.raises(StoreFailed, match="number 3, the next is 2"):
        log.append([writer.record()])


def test_a_read_begins_where_it_is_told_and_stops_at_its_limits(log: Log, writer: Writer) -> None:
    for _ in range(3):
        writer.append(10)
    size_bytes = log.read(HUB, 0, 0, 1, 0)[0].size_bytes
    assert numbers(log.read(HUB, 0, 4, 3, 100_000)) == [4, 5, 6]
    assert numbers(log.read(HUB, 0, 8, 5, 100_000)) == [8, 9, 10, 11, 12]
    assert numbers(log.read(HUB, 0, 0, 100, 3 * size_bytes)) == [0, 1, 2]
    assert numbers(log.read(HUB, 0, 0, 100, 3 * size_bytes - 1)) == [0, 1]
    assert numbers(log.read(HUB, 0, 29, 100, 100_000)) == [29]
    assert log.read(HUB, 0, 30, 100, 100_000) == []
    assert log.read(HUB, 0, 0, 0, 100_000) == []


def test_an_event_that_is_larger_than_the_limit_is_read_all_the_same(log: Log, writer: Writer) -> None:
    for _ in range(60):
        writer.append(padding=100)
    maintained(log, 2_000, 3)
    assert numbers(log.read(HUB, 0, 0, 10, 1)) == [0]
    assert numbers(log.read(HUB, 0, 59, 10, 1)) == [59]


def test_an_unknown_partition_holds_nothing(log: Log) -> None:
    assert log.read(HUB, 1, 0, 10, 1_000) == []
    assert log.find_time(HUB, 1, 5) == 0
    assert streamed(log, 1, 0, 10).num_rows == 0


@mission("M10")
def test_what_is_sealed_reads_as_it_was_sent(log: Log, writer: Writer) -> None:
    sent = []
    for turn in range(40):
        writer.now_ms = 1_000 + turn
        record = writer.record(
            turn % 5 + 1, key=f"key {turn}" if turn % 2 else None, publisher="p" if turn % 3 else None
        )
        sent += record.events()
        log.append([record])
        commit(log)
        maintained(log, 10_000 + 1_000 * turn)
    read = read_all(log)
    assert [(event.encoded(), event.sequence_number, event.enqueued_at_ms) for event in read] == [
        (event.encoded(), event.sequence_number, event.enqueued_at_ms) for event in sent
    ]


# --- times ----------------------------------------------------------------------------------------------------


@mission("M10")
def test_an_event_is_found_by_its_time(log: Log, writer: Writer) -> None:
    for turn in range(50):
        writer.now_ms = 1_000 + 10 * turn
        writer.append(3)
    maintained(log, 2_000, 4)
    for turn in range(50):
        assert log.find_time(HUB, 0, 1_000 + 10 * turn) == 3 * turn
        assert log.find_time(HUB, 0, 1_000 + 10 * turn - 9) == 3 * turn
    assert log.find_time(HUB, 0, 0) == 0
    assert log.find_time(HUB, 0, 1_491) == 150


# --- starts and crashes ---------------------------------------------------------------------------------------


def test_a_start_finds_what_was_committed(place: Place, writer: Writer) -> None:
    for _ in range(30):
        writer.append(4)
        maintained(place.log, writer.now_ms)
        writer.now_ms += 1_000
    writer.append(2, partition_id=1)
    size_bytes = place.log.size_bytes(HUB, 0)
    log = place.reopen()
    found = {(one.hub_number, one.partition_id): one for one in log.recover(HUBS).partitions}
    assert found[HUB, 0][2:] == (0, 120, 30_000, size_bytes)
    assert found[HUB, 1][2:5] == (0, 2, 31_000)
    assert found[OTHER_HUB, 0][2:] == (0, 0, None, 0)
    assert numbers(read_all(log)) == list(range(120))
    log.append([writer.record()])
    commit(log)
    assert numbers(read_all(log)) == list(range(121))


def test_a_crash_undoes_what_was_not_committed(place: Place, writer: Writer) -> None:
    writer.append(3)
    place.log.append([writer.record(5)])
    log = place.crash()
    assert log.recover(HUBS).partitions[0].next_sequence_number == 3
    writer.continue_at(HUB, 0, 3)
    log.append([writer.record()])
    commit(log)
    assert numbers(read_all(log)) == [0, 1, 2, 3]


def test_a_crash_after_the_commit_undoes_nothing(place: Place, writer: Writer) -> None:
    place.log.append([writer.record(5)])
    place.log.commit()
    log = place.crash()
    assert log.recover(HUBS).partitions[0].next_sequence_number == 5
    assert numbers(read_all(log)) == [0, 1, 2, 3, 4]


def test_a_start_knows_where_the_producers_stand_and_their_last_transfers(place: Place, writer: Writer) -> None:
    expected: dict[tuple[int, int], tuple[int, int, int, int]] = {}
    for count, partition_id, producer_id, epoch, number in (
        (2, 0, 7, 0, 1),
        (1, 1, 7, 3, 4),
        (3, 0, 8, 0, 2),
        (1, 0, 7, 1, 9),
    ):
        record = writer.record(count, partition_id=partition_id)
        mark = (epoch, number, count, transfer_checksum(record.payload))
        record.producer = ProducerMark(producer_id, *mark)
        place.log.append([record])
        commit(place.log)
        expected[partition_id, producer_id] = mark

    def found(log: Log) -> dict[tuple[int, int], tuple[int, int, int, int]]:
        producers = log.recover(HUBS).producers
        return {
            (one.partition_id, one.mark.producer_id): (
                one.mark.epoch,
                one.mark.sequence_number,
                one.mark.count,
                one.mark.checksum,
            )
            for one in producers
        }

    assert found(place.reopen()) == expected
    # Until the records are sealed and the journal has begun new files.
    writer.log = place.log
    for _ in range(60):
        writer.append(2)
        maintained(place.log, writer.now_ms)
        writer.now_ms += 1_000
    assert found(place.reopen()) == expected


def test_the_producer_that_was_silent_longest_is_forgotten(place: Place, writer: Writer) -> None:
    for producer_id in (1, 2, 3, 4, 1, 5):
        writer.append(1, producer=ProducerMark(producer_id, 0, 0))
    log = place.reopen()
    assert [one.mark.producer_id for one in log.recover(HUBS).producers] == [3, 4, 1, 5]


# --- dropping -------------------------------------------------------------------------------------------------


def test_a_dropped_hub_is_gone_with_its_events_and_its_number_is_remembered(place: Place, writer: Writer) -> None:
    for _ in range(40):
        writer.append(3)
        writer.append(3, hub_number=OTHER_HUB, producer=ProducerMark(1, 0, 0))
        maintained(place.log, writer.now_ms)
        writer.now_ms += 1_000
    place.log.drop_hub(OTHER_HUB)
    assert place.log.has_uncommitted
    commit(place.log)
    assert read_all(place.log, 0, OTHER_HUB) == []
    while place.log.sweep():
        pass
    maintained(place.log, writer.now_ms, 3)
    log = place.reopen()
    recovery = log.recover({HUB: 2})
    assert recovery.last_hub_number == OTHER_HUB
    assert recovery.producers == []
    assert {one.hub_number for one in recovery.partitions} == {HUB}
    assert numbers(read_all(log)) == list(range(120))


def test_a_crash_before_the_commit_keeps_a_dropped_hub(place: Place, writer: Writer) -> None:
    writer.append(3)
    place.log.drop_hub(HUB)
    log = place.crash()
    log.recover(HUBS)
    assert numbers(read_all(log)) == [0, 1, 2]


def test_events_of_a_hub_that_is_not_recorded_are_dropped(place: Place, writer: Writer) -> None:
    """The hub was made in the batch that a crash undid, or is deleted and swept only in part."""
    writer.append(3)
    writer.append(3, hub_number=OTHER_HUB)
    log = place.reopen()
    assert {one.hub_number for one in log.recover({HUB: 2}).partitions} == {HUB}
    assert read_all(log, 0, OTHER_HUB) == []


# --- columns --------------------------------------------------------------------------------------------------


@mission("M11")
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_snapshot_streams_exactly_the_range(log: Log, writer: Writer, is_sealed: bool) -> None:
    for _ in range(25):
        writer.append(4)
    if is_sealed:
        maintained(log, 2_000, 3)
    for from_, to in ((0, 100), (17, 83), (40, 41), (5, 5), (90, 1_000), (-4, 3), (200, 300), (60, 50)):
        table = streamed(log, 0, from_, to)
        expected = list(range(max(0, from_), min(100, to)))
        assert table["sequenceNumber"].to_pylist() == expected
        assert table["offset"].to_pylist() == [str(number) for number in expected]
        assert table["body"].to_pylist() == [body(number) for number in expected]
        heads = streamed(log, 0, from_, to, is_of_heads=True)
        assert heads["sequenceNumber"].to_pylist() == expected
        assert None not in heads["head"].to_pylist()
    assert streamed(log, 0, 10, 90, max_events=25)["sequenceNumber"].to_pylist() == list(range(10, 35))
    metadata = streamed(log, 0, 10, 90).schema.metadata
    assert (metadata[b"beginSequenceNumber"], metadata[b"nextSequenceNumber"]) == (b"0", b"100")


def test_a_snapshot_holds_what_was_there_when_it_was_taken(log: Log, writer: Writer) -> None:
    writer.append(4)
    snapshot = log.snapshot(HUB, 0, 0, 1_000)
    writer.append(4)
    assert snapshot.end_sequence_number == 4
    snapshot.close()
    snapshot.close()
