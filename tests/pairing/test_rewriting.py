"""What is changed about a message on the detour, and that it comes out as it went in."""

from __future__ import annotations

import string
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.message import encode_message
from tandem.amqp.types import Described, Int, Symbol, Timestamp, UInt
from tandem.client import BrokeredMessage
from tandem.pairing.rewriting import (
    PATH,
    SESSION_ID,
    TIME_TO_LIVE,
    NotRestorable,
    kept_in,
    restore,
    rewrite,
)
from tests.markers import mission

NAMES = st.text(string.ascii_letters + "-_ü", min_size=1, max_size=12) | st.sampled_from(
    [
        PATH,
        SESSION_ID,
        "X-MS-Path",
        f"x-ms-kept-{PATH}",
        f"x-ms-kept-x-ms-kept-{TIME_TO_LIVE}",
        "x-ms-kept-",
        "x-ms-kept",
    ]
)
VALUES = (
    st.text(max_size=20)
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.binary(max_size=20)
    | st.uuids()
    | st.none()
    | st.integers(-(2**31), 2**31 - 1).map(Int)
    | st.integers(0, 2**32 - 1).map(UInt)
    | st.integers(0, 10**12).map(Timestamp)
)
TEXTS = st.none() | st.text(min_size=1, max_size=20)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 4 * 10**12).map(lambda at_ms: EPOCH + timedelta(milliseconds=at_ms))
MESSAGES = st.builds(
    BrokeredMessage,
    st.binary(max_size=200),
    message_id=TEXTS | st.uuids(),
    label=TEXTS,
    content_type=st.none() | st.sampled_from(["text/plain", "application/json"]),
    correlation_id=TEXTS,
    session_id=TEXTS,
    reply_to=TEXTS,
    reply_to_session_id=TEXTS,
    to=TEXTS,
    partition_key=TEXTS,
    time_to_live=st.none() | st.integers(1, 2**32 - 1).map(lambda ttl_ms: timedelta(milliseconds=ttl_ms)),
    scheduled_enqueue_time_utc=st.none() | MOMENTS,
    properties=st.dictionaries(NAMES, VALUES, max_size=6),
)
FIELDS = (
    "body",
    "message_id",
    "label",
    "content_type",
    "correlation_id",
    "session_id",
    "reply_to",
    "reply_to_session_id",
    "to",
    "partition_key",
    "via_partition_key",
    "time_to_live",
    "scheduled_enqueue_time_utc",
)


def parts(message: BrokeredMessage) -> dict[str, Any]:
    """All that there is to a message, with the types of the values of its properties."""
    properties = {name: (type(value), value) for name, value in message.properties.items()}
    return {**{field: getattr(message, field) for field in FIELDS}, "properties": properties}


def on_the_wire(message: BrokeredMessage) -> BrokeredMessage:
    return BrokeredMessage.from_payload(message.to_payload())


@mission("M24")
@given(MESSAGES, st.sampled_from(["orders", "a/b/c", "Topic.With-Dots_and~more"]))
def test_restoring_undoes_rewriting(message: BrokeredMessage, path: str) -> None:
    sent = on_the_wire(message)
    diverted = on_the_wire(rewrite(message, path))
    found, restored = restore(diverted)
    assert found == path
    assert parts(on_the_wire(restored)) == parts(sent)


@mission("M24")
@given(MESSAGES)
def test_a_restored_message_is_no_larger_than_the_one_that_was_sent(message: BrokeredMessage) -> None:
    _, restored = restore(on_the_wire(rewrite(on_the_wire(message), "orders")))
    assert len(restored.to_payload()) <= len(message.to_payload()), "what the primary's entity takes, it takes again"


@mission("M24")
@given(MESSAGES)
def test_what_would_change_its_way_is_cleared_and_all_else_stays(message: BrokeredMessage) -> None:
    diverted = on_the_wire(rewrite(message, "orders"))
    assert diverted.session_id is None
    assert diverted.time_to_live is None
    assert diverted.scheduled_enqueue_time_utc is None
    untouched = set(FIELDS) - {"session_id", "time_to_live", "scheduled_enqueue_time_utc"}
    before, after = parts(message), parts(diverted)
    assert {field: after[field] for field in untouched} == {field: before[field] for field in untouched}


@mission("M24")
def test_the_properties_are_those_that_the_service_documents() -> None:
    message = BrokeredMessage(
        b"body",
        session_id="basket-7",
        time_to_live=timedelta(minutes=1, seconds=30),
        scheduled_enqueue_time_utc=datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC),
        properties={"StoreName": "Store1"},
    )
    assert rewrite(message, "orders").properties == {
        "StoreName": "Store1",
        "x-ms-path": "orders",
        "x-ms-sessionid": "basket-7",
        "x-ms-timetolive": "00:01:30",
        "x-ms-scheduledenqueuetimeutc": Timestamp.from_datetime(datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)),
    }


def test_what_the_message_does_not_have_is_not_kept() -> None:
    assert rewrite(BrokeredMessage(b""), "orders").properties == {"x-ms-path": "orders"}


def test_the_message_of_the_caller_is_left_alone() -> None:
    message = BrokeredMessage(b"x", session_id="s", time_to_live=timedelta(seconds=5), properties={"n": 1})
    rewrite(message, "orders")
    assert (message.session_id, message.time_to_live, message.properties) == ("s", timedelta(seconds=5), {"n": 1})


@mission("M24")
@pytest.mark.parametrize(
    "arguments",
    [
        {"value": "text"},
        {"value": ["a", Int(1)]},
        {"value": {"key": Described(Symbol("x:y"), 5)}},
        {"sequence": [[1, 2], [uuid.UUID(int=3)]]},
        {"data": [b"one", b"two"]},
    ],
)
def test_a_body_of_any_kind_keeps_its_bytes(arguments: dict[str, Any]) -> None:
    payload = encode_message(**arguments)
    _, restored = restore(on_the_wire(rewrite(BrokeredMessage.from_payload(payload), "orders")))
    assert restored.to_payload().endswith(payload)


@mission("M24", "M26")
@pytest.mark.parametrize(
    "value, milliseconds",
    [
        ("00:01:30", 90_000),
        ("00:01", 60_000),
        ("1.02:03:04.5000000", 93_784_500),
        ("00:00:00.2500000", 250),
        ("PT1M30S", 90_000),
        ("P1DT0.5S", 86_400_500),
        (Described(Symbol("com.microsoft:timespan"), 900_000_000), 90_000),
        (90_000, 90_000),
        (UInt(90_000), 90_000),
    ],
)
def test_a_time_to_live_is_read_as_other_senders_write_it(value: object, milliseconds: int) -> None:
    kept, _ = kept_in({"x-ms-path": "orders", "x-ms-timetolive": value})
    assert kept.time_to_live == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize("value", ["10675199.02:48:05.4775807", "P10675199DT2H48M5.4775807S", 2**40])
def test_a_time_to_live_that_means_for_ever_is_none(value: object) -> None:
    kept, _ = kept_in({"x-ms-path": "orders", "x-ms-timetolive": value})
    assert kept.time_to_live is None


@mission("M24", "M26")
@pytest.mark.parametrize(
    "value",
    [
        "2031-05-06T07:08:09.1230000Z",
        "2031-05-06T07:08:09.123+00:00",
        "2031-05-06T07:08:09.123",
        Timestamp.from_datetime(datetime(2031, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)),
        1_935_817_689_123,
    ],
)
def test_a_scheduled_time_is_read_as_other_senders_write_it(value: object) -> None:
    kept, _ = kept_in({"x-ms-path": "orders", "x-ms-scheduledenqueuetimeutc": value})
    assert kept.scheduled_enqueue_time_utc == datetime(2031, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)


@mission("M26")
@pytest.mark.parametrize("path", ["orders", "/orders", "sb://contoso.servicebus.windows.net/orders/", "ORDERS"])
def test_a_path_is_read_however_it_is_spelled(path: str) -> None:
    kept, _ = kept_in({"X-MS-PATH": path})
    assert kept.path.lower() == "orders"


def test_what_another_sender_left_in_place_stays_in_place() -> None:
    message = BrokeredMessage(b"", session_id="s", properties={"x-ms-path": "orders"})
    _, restored = restore(on_the_wire(message))
    assert restored.session_id == "s"


@mission("M26")
@pytest.mark.parametrize(
    "properties, complaint",
    [
        ({}, "x-ms-path"),
        ({"x-ms-path": Timestamp(0)}, "x-ms-path"),
        ({"x-ms-path": ""}, "names no entity"),
        ({"x-ms-path": "a" * 5000}, "x-ms-path"),
        ({"x-ms-path": "orders", "x-ms-timetolive": "soon"}, "x-ms-timetolive"),
        ({"x-ms-path": "orders", "x-ms-timetolive": True}, "x-ms-timetolive"),
        ({"x-ms-path": "orders", "x-ms-timetolive": "00:00:00"}, "x-ms-timetolive"),
        ({"x-ms-path": "orders", "x-ms-sessionid": 5}, "x-ms-sessionid"),
        ({"x-ms-path": "orders", "x-ms-scheduledenqueuetimeutc": "tomorrow"}, "x-ms-scheduledenqueuetimeutc"),
        ({"x-ms-path": "orders", "x-ms-scheduledenqueuetimeutc": 2**62}, "x-ms-scheduledenqueuetimeutc"),
    ],
)
def test_what_cannot_be_restored_is_said_by_name(properties: dict[str, object], complaint: str) -> None:
    with pytest.raises(NotRestorable, match=complaint):
        restore(on_the_wire(BrokeredMessage(b"", properties=properties)))
