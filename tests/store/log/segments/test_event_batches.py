"""The columns against a decoding of their own, for events of every kind of body and every type of property."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.amqp.batch import make_batch
from tandem.amqp.encode import encode
from tandem.amqp.message import BodyKind, Message, Properties, encode_message
from tandem.amqp.sections import DELIVERY_ANNOTATIONS
from tandem.amqp.types import Array, Char, Decimal32, Decimal64, Decimal128, Described, Float, Symbol, Timestamp
from tandem.engine.hubs.event import EVENT_ANNOTATIONS, Event
from tandem.engine.hubs.record import EventRecord
from tandem.engine.hubs.rows import head_properties
from tandem.event_columns import HEAD, HEAD_SCHEMA, PUBLIC_SCHEMA
from tandem.store.log.check import check_log
from tandem.store.log.event_log import EventLog
from tandem.store.log.files import DiskFiles
from tandem.store.log.log_limits import LogLimits
from tests.amqp.message_strategies import section_lists
from tests.markers import mission
from tests.store.log.disk import InlineSealer
from tests.store.log.drive import HUB, commit, read_all

FOOTER = b"\x00\x53\x78\xc1\x01\x00"

PROPERTY_NAMES = (
    *("message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type", "content_encoding"),
    *("absolute_expiry_time", "creation_time", "group_id", "group_sequence", "reply_to_group_id"),
)

# Annotations that the hub replaces, so that a sender's must not show.
OWN_NAMES = st.sampled_from(sorted(name.decode() for name in EVENT_ANNOTATIONS))


@contextmanager
def log_with(records: list[EventRecord], is_sealed: bool) -> Iterator[tuple[EventLog, Path]]:
    limits = LogLimits(seal_events=1 if is_sealed else 1 << 40, batch_rows=3)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        log = EventLog(directory, limits=limits, sealer=InlineSealer(DiskFiles()))
        log.recover({HUB: 1})
        log.append(records)
        commit(log)
        for turn in range(2):
            log.maintain(turn, {})
        assert is_sealed == bool(list(directory.rglob("*.arrow")))
        yield log, directory
        log.close()


def table_of(log: EventLog, *, is_of_heads: bool = False) -> Any:
    snapshot = log.snapshot(HUB, 0, 0, 1 << 62)
    table = pa.ipc.open_stream(b"".join(snapshot.stream(is_of_heads=is_of_heads))).read_all()
    snapshot.close()
    return table


def record_of(payloads: list[bytes], key: str | None = None, publisher: str | None = None) -> EventRecord:
    return EventRecord(HUB, 0, 0, len(payloads), 1_700_000_000_123, make_batch(payloads), True, key, publisher)


def row_of(payload: bytes) -> dict[str, Any]:
    with log_with([record_of([payload])], is_sealed=True) as (log, _):
        (row,) = table_of(log).to_pylist()
        return dict(row)


# --- an independent reading -----------------------------------------------------------------------------------


def plain(value: object) -> object:
    """What `json.loads` is to give for a value."""
    match value:
        case bool() | None:
            return value
        case Described():
            return {"descriptor": plain(value.descriptor), "value": plain(value.value)}
        case Array() | list():
            return [plain(item) for item in value]
        case dict():
            return {key if isinstance(key, str) else json.dumps(plain(key)): plain(item) for key, item in value.items()}
        case bytes():
            return base64.b64encode(value).decode()
        case uuid.UUID():
            return str(value)
        case Decimal32() | Decimal64() | Decimal128():
            return str(value.to_decimal())
        case float():
            return value if math.isfinite(value) else {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
        case _:
            return value


def is_text_of(text: str, value: object) -> bool:
    return text == value if isinstance(value, str) else bool(json.loads(text) == plain(value))


def expected_body(message: Message) -> bytes | None:
    """None if it is the JSON of a value."""
    if message.body_kind in {BodyKind.DATA, BodyKind.NONE}:
        return b"".join(message.data_sections)
    if isinstance(message.value, bytes):
        return message.value
    return message.value.encode() if isinstance(message.value, str) else None


def judge_row(row: dict[str, Any], message: Message) -> None:
    body = expected_body(message)
    if body is None:
        value = message.sequence if message.body_kind is BodyKind.SEQUENCE else message.value
        assert json.loads(row["body"]) == plain(value)
    else:
        assert row["body"] == body
    properties = message.application_properties or {}
    assert [key for key, _ in row["properties"]] == list(properties)
    assert all(is_text_of(text, properties[key]) for key, text in row["properties"])
    own = message.properties or Properties()
    system = {name.replace("_", "-"): getattr(own, name) for name in PROPERTY_NAMES if getattr(own, name) is not None}
    for key, value in (message.message_annotations or {}).items():
        if str(key).encode() not in EVENT_ANNOTATIONS:
            system.setdefault(str(key), value)
    assert {key for key, _ in row["systemProperties"]} == set(system)
    assert len(row["systemProperties"]) == len(system)
    assert all(is_text_of(text, system[key]) for key, text in row["systemProperties"])


@mission("M11")
@settings(max_examples=30, deadline=None)
@given(
    st.lists(section_lists().flatmap(st.permutations) | section_lists(), min_size=1, max_size=7),
    st.none() | st.text(max_size=20),
    st.none() | st.text(max_size=20),
    st.booleans(),
)
def test_the_columns_say_what_the_messages_say(
    section_lists: list[list[bytes]], key: str | None, publisher: str | None, is_sealed: bool
) -> None:
    payloads = [b"".join(sections) for sections in section_lists]
    with log_with([record_of(payloads, key, publisher)], is_sealed) as (log, directory):
        table = table_of(log)
        assert table.schema.equals(PUBLIC_SCHEMA)
        for number, row in enumerate(table.to_pylist()):
            message = Message(payloads[number])
            judge_row(row, message)
            assert (row["partition"], row["offset"], row["sequenceNumber"]) == ("0", str(number), number)
            assert row["enqueuedTime"] == datetime.datetime.fromtimestamp(1_700_000_000.123, datetime.UTC)
            assert (row["partitionKey"], row["publisher"]) == (key, publisher)
        heads = table_of(log, is_of_heads=True)
        assert heads.schema.equals(HEAD_SCHEMA)
        assert heads["sequenceNumber"].to_pylist() == list(range(len(payloads)))
        # In the heads, properties are as they were sent: compared by their bytes, since 1 and True are equal.
        for payload, head in zip(payloads, heads[HEAD].to_pylist(), strict=True):
            expected = Message(payload).application_properties or {}
            assert [(key, encode(value)) for key, value in head_properties(head).items()] == [
                (key, encode(value)) for key, value in expected.items()
            ]
        assert [event.encoded() for event in read_all(log)] == [
            event.encoded() for event in record_of(payloads, key, publisher).events()
        ]
        assert check_log(directory, {HUB: 1}).findings == []


# --- by example -----------------------------------------------------------------------------------------------


@mission("M11")
def test_the_schema_is_what_spark_makes_of_its_own() -> None:
    assert [str(field.type) for field in PUBLIC_SCHEMA] == [
        "binary",
        "string",
        "string",
        "int64",
        "timestamp[us, tz=UTC]",
        "string",
        "string",
        "map<string, string>",
        "map<string, string>",
    ]
    assert PUBLIC_SCHEMA.names == [
        "body",
        "partition",
        "offset",
        "sequenceNumber",
        "enqueuedTime",
        "publisher",
        "partitionKey",
        "properties",
        "systemProperties",
    ]
    assert all(field.nullable for field in PUBLIC_SCHEMA)


@pytest.mark.parametrize(
    "value, text",
    [
        ("text", "text"),
        (Symbol("symbol"), "symbol"),
        (Char("c"), "c"),
        ("", ""),
        (True, "true"),
        (None, "null"),
        (-5, "-5"),
        (1.5, "1.5"),
        (Float(0.5), "0.5"),
        (math.nan, '"nan"'),
        (-math.inf, '"-inf"'),
        (Timestamp(1_700_000_000_000), "1700000000000"),
        (b"\xff\x00", '"/wA="'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    ],
)
def test_a_property_is_text_as_it_is_and_anything_else_as_json(value: object, text: str) -> None:
    row = row_of(encode_message(application_properties={"name": value}, data=b""))
    assert row["properties"] == [("name", text)]


@pytest.mark.parametrize(
    "payload, body",
    [
        (encode_message(data=b"one"), b"one"),
        (encode_message(data=[b"one", b"", b"two"]), b"onetwo"),
        (encode_message(data=[]), b""),
        (b"\x00\x53\x75\x40", b""),
        (encode_message(properties=Properties(subject="s")) + b"\x00\x53\x75\x40" + FOOTER, b""),
        (encode_message(value="text ü"), "text ü".encode()),
        (encode_message(value=b"\x00\x01"), b"\x00\x01"),
        (encode_message(value=None), b"null"),
        (encode_message(value={"a": [1, 2]}), b'{"a":[1,2]}'),
        (encode_message(sequence=[1, "x"]), b'[1,"x"]'),
        (encode_message(footer={"f": 1}, data=b"with a footer"), b"with a footer"),
    ],
)
def test_a_body_of_any_kind_is_bytes(payload: bytes, body: bytes) -> None:
    assert row_of(payload)["body"] == body


def test_a_name_that_is_both_a_property_and_an_annotation_is_told_once() -> None:
    payload = encode_message(
        message_annotations={"subject": "annotated", "x-opt-other": 1, "x-opt-partition-key": "dropped"},
        properties=Properties(subject="set"),
        data=b"",
    )
    assert row_of(payload)["systemProperties"] == [("subject", "set"), ("x-opt-other", "1")]


@pytest.mark.parametrize("code", [0x73, 0x74])
def test_properties_that_cannot_be_decoded_do_not_keep_an_event_from_being_sealed(code: int) -> None:
    """A list with a count that is too high, and a map with an odd one: as sections they have a size, which is all."""
    constructor = b"\xc0" if code == 0x73 else b"\xc1"
    payload = bytes((0x00, 0x53, code)) + constructor + b"\x02\x05\x40" + encode_message(data=b"body")
    with log_with([record_of([payload])], is_sealed=True) as (log, _):
        (row,) = table_of(log).to_pylist()
        assert (row["body"], row["properties"], row["systemProperties"]) == (b"body", [], [])
        assert read_all(log)[0].bare == payload


def test_delivery_annotations_that_an_older_version_took_unread_do_not_keep_an_event_from_being_sealed() -> None:
    payload = bytes((0x00, 0x53, DELIVERY_ANNOTATIONS)) + b"\xc1\x02\x05\x40" + encode_message(data=b"body")
    with log_with([record_of([payload])], is_sealed=True) as (log, _):
        (event,) = read_all(log)
        assert (Message(event.encoded()).data, Message(event.encoded()).delivery_annotations) == (b"body", None)


@mission("M10")
@pytest.mark.parametrize("is_sealed", [False, True])
def test_delivery_annotations_are_read_from_the_journal_and_from_segments(is_sealed: bool) -> None:
    with_some = encode_message(delivery_annotations={"mine": 7}, data=b"a")
    with log_with([record_of([with_some, encode_message(data=b"b")])], is_sealed) as (log, _):
        found = [Message(event.encoded()).delivery_annotations for event in read_all(log)]
        assert found == [{"mine": 7}, None]


BID_DECIMAL = Decimal128.from_decimal(decimal.Decimal("1.5"))
SERVICE_DECIMAL = Decimal128(bytes.fromhex("0c3e000000000000000000000000000f"))


def priced(number: Decimal128) -> bytes:
    prices = {"x-price": number}
    return encode_message(
        delivery_annotations=prices, message_annotations=prices, application_properties=prices, value=BID_DECIMAL
    )


@pytest.mark.parametrize("is_sealed", [False, True])
def test_decimals_have_the_layout_that_sdks_read_except_in_bodies(is_sealed: bool) -> None:
    with log_with([record_of([priced(BID_DECIMAL), priced(SERVICE_DECIMAL)])], is_sealed) as (log, _):
        for event in read_all(log):
            message = Message(event.encoded())
            assert (message.delivery_annotations or {})["x-price"] == SERVICE_DECIMAL
            assert (message.message_annotations or {})["x-price"] == SERVICE_DECIMAL
            assert message.application_properties == {"x-price": SERVICE_DECIMAL}
            assert message.value == BID_DECIMAL
        assert log.damages == []


@given(names=st.lists(OWN_NAMES, max_size=4))
@settings(max_examples=10, deadline=None)
def test_what_the_hub_says_itself_is_not_taken_from_the_sender(names: list[str]) -> None:
    row = row_of(encode_message(message_annotations=dict.fromkeys(names, "forged"), data=b""))
    assert row["systemProperties"] == []


def test_bodies_are_stored_once() -> None:
    payload = encode_message(data=b"A body that can be recognised.", application_properties={"a": 1})
    with log_with([record_of([payload] * 2)], is_sealed=True) as (_, directory):
        (arrow,) = directory.rglob("*.arrow")
        assert arrow.read_bytes().count(b"recognised") == 2
        assert arrow.with_suffix(".amqp").read_bytes().count(b"recognised") == 0


def test_batches_have_at_most_the_rows_that_were_asked_for() -> None:
    with log_with([record_of([encode_message(data=b"x")] * 8)], is_sealed=True) as (_, directory):
        (arrow,) = directory.rglob("*.arrow")
        file = pa.ipc.open_file(str(arrow))
        assert [file.get_batch(index).num_rows for index in range(file.num_record_batches)] == [3, 3, 2]
        metadata = file.schema.metadata
        assert (metadata[b"firstSequenceNumber"], metadata[b"lastSequenceNumber"]) == (b"0", b"7")
        assert metadata[b"partition"] == b"0"


def test_an_event_of_the_log_is_the_event_of_the_record() -> None:
    record = record_of([encode_message(message_annotations={"x-opt-a": 1}, value=1), encode_message(data=b"x")])
    with log_with([record], is_sealed=True) as (log, _):
        for read, sent in zip(read_all(log), record.events(), strict=True):
            assert isinstance(read, Event)
            assert (read.annotations.encoded, read.annotations.count) == (
                sent.annotations.encoded,
                sent.annotations.count,
            )
