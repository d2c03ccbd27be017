"""What may be sent to an event hub, which partition it goes to, and what is said of each event."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import Message, Properties, encode_message
from tandem.amqp.sections import data_section
from tandem.amqp.types import Int, Symbol, Timestamp
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.partition_key import partition_of
from tandem.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    DecodeError,
    EntityAlreadyExists,
    EntityDisabled,
    MessageSizeExceeded,
    NotFound,
    ProtocolError,
    QuotaExceeded,
    Scope,
)
from tandem.limits import MAX_CONSUMER_GROUPS, MAX_PARTITION_KEY_CHARACTERS, MAX_PARTITIONS, MIN_RETENTION_BYTES
from tests.engine.desk import START_MS
from tests.engine.hubs.hub_desk import HubDesk, batch, event
from tests.markers import mission

# A message-annotations section whose map says that it has one entry, and holds none.
HOLLOW_ANNOTATIONS = b"\x00\x53\x72\xc1\x01\x02" + data_section(b"x")
# One whose key is cut off by the end of the map.
TORN_ANNOTATIONS = b"\x00\x53\x72\xc1\x04\x02\xa3\x09a" + data_section(b"x")
# One whose value is of a type that there is not.
UNKNOWN_TYPE = b"\x00\x53\x72\xc1\x05\x02\xa3\x01a\x3f" + data_section(b"x")
# A section that is cut off by the end of the message.
CUT_OFF = b"\x00\x53\x75\xa0\x20abc"
NO_MESSAGE = b"\xff\xff"


def _contents(desk: HubDesk, hub: EventHub) -> list[list[str]]:
    return [desk.read(partition) for partition in hub.partitions]


@mission("M10")
def test_a_batch_lands_whole_and_in_order_in_one_partition() -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=4)
    desk.append_batch(hub, "a", "b", "c")
    assert _contents(desk, hub) == [["a", "b", "c"], [], [], []]


@mission("M10")
def test_who_names_no_partition_is_sent_around() -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=3)
    desk.append(hub, "a", "b")
    desk.append_batch(hub, "c", "d")
    desk.append(hub, "e")
    assert _contents(desk, hub) == [["a", "e"], ["b"], ["c", "d"]]


@mission("M10")
@pytest.mark.parametrize("key", ["", "a", "customer-17", "Straße", "鍵", "x" * MAX_PARTITION_KEY_CHARACTERS])
def test_a_key_decides_on_the_partition_and_is_said_of_each_event(key: str) -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=7)
    hub.send(event("a", key=key), 0)
    hub.send(batch(event("b"), event("c"), key=key), BATCH_FORMAT)
    desk.flush()
    partition = hub.partitions[partition_of(key, 7)]
    assert desk.read(partition) == ["a", "b", "c"]
    reading = desk.open(partition)
    assert [one.partition_key for one in reading.events] == [key, key, key]
    assert [_annotations(one.encoded())["x-opt-partition-key"] for one in reading.events] == [key, key, key]


def test_events_of_one_batch_for_a_partition_may_each_have_a_key_of_their_own() -> None:
    # A buffered producer of the SDKs sorts by key itself.
    desk = HubDesk()
    hub = desk.hub(partition_count=2)
    hub.send(batch(event("a", key="k"), event("b"), event("c", key="l")), BATCH_FORMAT, hub.partitions[1])
    hub.send(batch(event("d", key="own"), key="of-the-batch"), BATCH_FORMAT, hub.partitions[1])
    desk.flush()
    keys = [one.partition_key for one in desk.open(hub.partitions[1]).events]
    assert keys == ["k", None, "l", "of-the-batch"]


@pytest.mark.parametrize("key", ["x" * 129, 17])
def test_a_key_inside_a_batch_is_judged_like_any_other(key: object) -> None:
    hub = HubDesk().hub()
    spoilt = batch(event("a"), event("b", annotations={"x-opt-partition-key": key}))
    with pytest.raises(ProtocolError, match="x-opt-partition-key"):
        hub.send(spoilt, BATCH_FORMAT)


def test_a_partition_that_is_named_wins_over_a_key() -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=4)
    other = hub.partitions[(partition_of("k", 4) + 1) % 4]
    hub.send(event("a", key="k"), 0, other)
    desk.flush()
    assert desk.read(other) == ["a"]


def test_what_one_publisher_sends_stays_in_one_partition_and_carries_its_name() -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=5)
    for text in "abc":
        hub.send(event(text), 0, None, "device-1")
    desk.flush()
    partition = hub.partitions[partition_of("device-1", 5)]
    reading = desk.open(partition)
    assert reading.texts == ["a", "b", "c"]
    assert {_annotations(one.encoded())["x-opt-publisher"] for one in reading.events} == {"device-1"}


def test_a_key_wins_over_a_publisher() -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=5)
    key = next(key for key in "abcdefgh" if partition_of(key, 5) != partition_of("device-1", 5))
    hub.send(event("a", key=key), 0, None, "device-1")
    desk.flush()
    assert desk.read(hub.partitions[partition_of(key, 5)]) == ["a"]


def _annotations(encoded: bytes) -> dict[str, object]:
    return {str(key): value for key, value in (Message(encoded).message_annotations or {}).items()}


@mission("M10")
def test_the_hub_says_number_offset_and_time_of_each_event() -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append_batch(hub, "a", "b")
    desk.advance(5_000)
    desk.append(hub, "c")
    reading = desk.open(hub.partitions[0])
    expected = [(0, "0", START_MS), (1, "1", START_MS), (2, "2", START_MS + 5_000)]
    for one, (number, offset, at_ms) in zip(reading.events, expected, strict=True):
        assert _annotations(one.encoded()) == {
            "x-opt-sequence-number-epoch": Int(-1),
            "x-opt-sequence-number": number,
            "x-opt-offset": offset,
            "x-opt-enqueued-time": Timestamp(at_ms),
        }


def test_annotations_of_the_sender_are_kept_unless_the_hub_says_them_itself() -> None:
    desk = HubDesk()
    hub = desk.hub()
    liar = {
        "x-opt-sequence-number": 99,
        "x-opt-offset": "99",
        "x-opt-enqueued-time": Timestamp(1),
        "x-opt-mine": "kept",
    }
    hub.send(event("a", annotations=liar), 0)
    hub.send(batch(event("b", annotations=liar)), BATCH_FORMAT)
    desk.flush()
    for number, one in enumerate(desk.open(hub.partitions[0]).events):
        annotations = _annotations(one.encoded())
        assert annotations["x-opt-sequence-number"] == number
        assert annotations["x-opt-offset"] == str(number)
        assert annotations["x-opt-enqueued-time"] == START_MS
        assert annotations["x-opt-mine"] == "kept"
        assert "x-opt-partition-key" not in annotations


def test_everything_else_of_an_event_comes_back_as_it_was_sent() -> None:
    desk = HubDesk()
    hub = desk.hub()
    properties = Properties(message_id="id", content_type=Symbol("text/plain"), correlation_id="other")
    sent = encode_message(
        properties=properties, application_properties={"n": 1, "flag": True, "none": None}, value={"deep": [1, "two"]}
    )
    hub.send(sent, 0)
    hub.send(batch(sent), BATCH_FORMAT)
    desk.flush()
    assert [one.bare for one in desk.open(hub.partitions[0]).events] == [sent, sent]


@mission("M10")
@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("broken", [HOLLOW_ANNOTATIONS, TORN_ANNOTATIONS, UNKNOWN_TYPE, CUT_OFF, NO_MESSAGE])
def test_an_event_that_is_malformed_is_refused_and_with_it_its_whole_batch(broken: bytes, is_batch: bool) -> None:
    desk = HubDesk()
    hub = desk.hub()
    payload = make_batch([event("a"), broken, event("c")]) if is_batch else broken
    with pytest.raises(DecodeError) as caught:
        hub.send(payload, BATCH_FORMAT if is_batch else 0)
    assert caught.value.scope is Scope.DELIVERY
    assert not is_batch or "event 1 of the batch" in str(caught.value)
    desk.flush()
    assert desk.read(hub.partitions[0]) == []
    assert hub.partitions[0].next_sequence_number == 0


@given(st.binary(max_size=60), st.integers(0, 200), st.sampled_from(["replace", "insert", "cut"]), st.booleans())
def test_whatever_is_accepted_can_be_read(noise: bytes, at: int, how: str, is_batch: bool) -> None:
    desk = HubDesk()
    hub = desk.hub()
    good = event("a", key="k", annotations={"x-opt-one": 1, "x-opt-two": "two"})
    at %= len(good)
    spoilt = good[:at] + {"replace": noise + good[at + len(noise) :], "insert": noise + good[at:], "cut": b""}[how]
    try:
        hub.send(make_batch([good, spoilt]) if is_batch else spoilt, BATCH_FORMAT if is_batch else 0)
    except ProtocolError:
        return
    desk.flush()
    for one in desk.open(hub.partitions[0]).events:
        Message(one.encoded())


def test_a_batch_keeps_its_events_in_data_sections() -> None:
    hub = HubDesk().hub()
    with pytest.raises(DecodeError, match="holds its messages in data sections"):
        hub.send(encode_message(value="not a batch"), BATCH_FORMAT)


def test_a_batch_of_nothing_is_nothing() -> None:
    desk = HubDesk()
    hub = desk.hub()
    assert hub.send(make_batch([]), BATCH_FORMAT) == 0
    desk.flush()
    assert hub.partitions[0].is_empty


@mission("M10")
def test_an_event_or_a_batch_may_be_as_large_as_the_hub_allows_and_no_larger() -> None:
    desk = HubDesk()
    hub = desk.hub(max_event_size_in_kilobytes=4)
    room = 4_096 - len(event("x" * 1_000)) + 1_000
    hub.send(event("x" * room), 0)
    with pytest.raises(MessageSizeExceeded, match=r"size:4097 bytes\) exceeds the limit \(4096 bytes\)") as caught:
        hub.send(event("x" * (room + 1)), 0)
    assert caught.value.scope is Scope.DELIVERY
    with pytest.raises(MessageSizeExceeded):
        hub.send(batch(event("x" * 2_040), event("x" * 2_040)), BATCH_FORMAT)
    desk.flush()
    assert hub.partitions[0].next_sequence_number == 1


def test_a_key_that_is_too_long_or_no_text_is_refused() -> None:
    hub = HubDesk().hub()
    with pytest.raises(ArgumentOutOfRange, match="x-opt-partition-key has 129 characters; at most 128"):
        hub.send(event("a", key="x" * 129), 0)
    with pytest.raises(DecodeError, match="x-opt-partition-key must be a string"):
        hub.send(event("a", annotations={"x-opt-partition-key": 17}), 0)


@pytest.mark.parametrize(
    "status, can_send, can_receive",
    [
        ("Active", True, True),
        ("Disabled", False, False),
        ("SendDisabled", False, True),
        ("ReceiveDisabled", True, False),
    ],
)
def test_the_status_of_a_hub_says_what_it_lets_clients_do(status: str, can_send: bool, can_receive: bool) -> None:
    desk = HubDesk()
    hub = desk.hub()
    reading = desk.open(hub.partitions[0])
    desk.update_hub(hub, status=status)
    if can_send:
        desk.append(hub, "a")
    else:
        with pytest.raises(EntityDisabled, match=f"'telemetry' is currently disabled: its status is {status}"):
            hub.send(event("a"), 0)
    assert isinstance(reading.error, EntityDisabled) is not can_receive
    desk.update_hub(hub, status="Active")
    desk.append(hub, "b")
    assert desk.read(hub.partitions[0]) == (["a", "b"] if can_send else ["b"])


def test_a_full_disk_takes_no_events_and_is_read_from_all_the_same() -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append(hub, "a")
    desk.namespace.is_disk_full = True
    with pytest.raises(QuotaExceeded, match="disk is full"):
        hub.send(event("b"), 0)
    assert desk.read(hub.partitions[0]) == ["a"]
    desk.namespace.is_disk_full = False
    desk.append(hub, "c")
    assert desk.read(hub.partitions[0]) == ["a", "c"]


@mission("M10")
def test_a_hub_that_was_deleted_takes_nothing_and_one_made_anew_begins_empty() -> None:
    desk = HubDesk()
    old = desk.hub()
    desk.append(old, "a", "b")
    reading = desk.open(old.partitions[0])
    desk.namespace.hubs.delete(old)
    new = desk.hub()
    assert isinstance(reading.error, NotFound)
    with pytest.raises(NotFound):
        old.send(event("c"), 0)
    assert new.number > old.number
    assert new.partitions[0].is_empty
    desk.append(new, "d")
    assert desk.read(new.partitions[0]) == ["d"]
    desk.restart()
    assert desk.read(desk.namespace.hubs.get("telemetry").partitions[0]) == ["d"]


def test_the_number_of_a_deleted_hub_is_not_given_again_when_the_clock_is_set_back() -> None:
    desk = HubDesk()
    old = desk.hub()
    desk.append(old, "a")
    desk.namespace.hubs.delete(old)
    desk.flush()
    desk.now_ms -= 3_600_000
    desk.restart()
    assert desk.hub().number > old.number


def test_events_that_were_under_way_when_their_hub_was_deleted_go_with_it() -> None:
    desk = HubDesk()
    old = desk.hub()
    old.send(event("a"), 0)
    desk.namespace.hubs.delete(old)
    new = desk.namespace.hubs.create(EventHubDescription("telemetry", partition_count=1))
    new.send(event("b"), 0)
    desk.flush()
    assert desk.read(new.partitions[0]) == ["b"]
    desk.restart()
    assert desk.read(desk.namespace.hubs.get("telemetry").partitions[0]) == ["b"]


def test_a_hub_shares_its_name_with_no_queue() -> None:
    desk = HubDesk()
    desk.hub("telemetry")
    desk.queue("orders")
    with pytest.raises(EntityAlreadyExists, match="'Telemetry' exists already"):
        desk.queue("Telemetry")
    with pytest.raises(EntityAlreadyExists, match="'Orders' exists already"):
        desk.hub("Orders")
    with pytest.raises(EntityAlreadyExists):
        desk.hub("TELEMETRY")


@pytest.mark.parametrize("field, value", [("partition_count", 2), ("name", "other")])
def test_the_name_and_the_number_of_partitions_stay(field: str, value: object) -> None:
    desk = HubDesk()
    hub = desk.hub()
    with pytest.raises(ArgumentError, match=f"the {field} property of an existing hub cannot be changed"):
        desk.update_hub(hub, **{field: value})
    assert desk.namespace.hubs.find("telemetry") is hub


@pytest.mark.parametrize(
    "fields, named",
    [
        ({"partition_count": 0}, "partition_count"),
        ({"partition_count": MAX_PARTITIONS + 1}, "partition_count"),
        ({"retention_ms": 59_999}, "retention_ms"),
        ({"retention_bytes": MIN_RETENTION_BYTES - 1}, "retention_bytes"),
        ({"max_event_size_in_kilobytes": 1_025}, "max_event_size_in_kilobytes"),
        ({"consumer_groups": ["a/b"]}, "consumer_groups"),
        ({"consumer_groups": ["x" * 51]}, "consumer_groups"),
        ({"consumer_groups": [17]}, "consumer_groups"),
        ({"consumer_groups": [f"g{number}" for number in range(MAX_CONSUMER_GROUPS)]}, "consumer_groups"),
        ({"name": ""}, "name"),
        ({"shards": 3}, "shards"),
    ],
)
def test_a_description_that_cannot_be_is_refused_by_the_name_of_its_field(
    fields: dict[str, object], named: str
) -> None:
    with pytest.raises(ArgumentError, match=named):
        EventHubDescription.from_fields({"name": "telemetry", **fields})


def test_the_default_group_is_always_there_and_a_group_is_there_once() -> None:
    description = EventHubDescription("telemetry", consumer_groups=["Audit", "audit", "$default"])
    assert description.consumer_groups == ["$Default", "Audit"]


@mission("M10")
def test_an_event_is_not_to_be_had_before_it_is_on_disk() -> None:
    desk = HubDesk()
    hub = desk.hub()
    reading = desk.open(hub.partitions[0])
    hub.send(event("a"), 0)
    written = desk.write()
    assert all(not effects.event_deliveries for effects in written[0])
    assert hub.partitions[0].is_empty
    desk.commit(*written)
    desk.flush()
    assert reading.texts == ["a"]


@mission("M10")
def test_what_was_not_committed_is_gone_after_a_crash_and_its_numbers_are_given_again() -> None:
    desk = HubDesk()
    hub = desk.hub()
    desk.append(hub, "a", "b")
    hub.send(event("lost"), 0)
    desk.write()
    desk.restart()
    hub = desk.namespace.hubs.get("telemetry")
    desk.append(hub, "c")
    reading = desk.open(hub.partitions[0])
    assert (reading.texts, reading.numbers) == (["a", "b", "c"], [0, 1, 2])


def test_times_do_not_fall_when_the_clock_is_set_back_between_two_starts() -> None:
    desk = HubDesk()
    desk.append(desk.hub(), "a")
    desk.now_ms -= 3_600_000
    desk.restart()
    hub = desk.namespace.hubs.get("telemetry")
    desk.append(hub, "b")
    times = [one.enqueued_at_ms for one in desk.open(hub.partitions[0]).events]
    assert times == [START_MS, START_MS]
