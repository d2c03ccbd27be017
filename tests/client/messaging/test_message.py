"""A message: what is set, what is read, and what is sent again."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from tandem.amqp import Message
from tandem.amqp.message import Header, Properties, encode_message
from tandem.amqp.types import Described, Symbol, Timestamp, UInt
from tandem.client import BrokeredMessage, MessageState
from tandem.errors import UsageError
from tests.markers import mission


def received(message: BrokeredMessage) -> BrokeredMessage:
    return BrokeredMessage.from_payload(message.to_payload())


@mission("M5")
def test_a_message_gets_an_id_of_its_own() -> None:
    first, second = BrokeredMessage(), BrokeredMessage()
    assert first.message_id
    assert first.message_id != second.message_id


def test_an_id_keeps_its_type() -> None:
    for identifier in ("text", 7, b"raw", uuid.uuid4()):
        assert received(BrokeredMessage(message_id=identifier)).message_id == identifier


@pytest.mark.parametrize(
    "attribute, value",
    [
        ("label", "a"),
        ("content_type", "text/plain"),
        ("correlation_id", "c"),
        ("session_id", "s"),
        ("reply_to", "r"),
        ("reply_to_session_id", "rs"),
        ("to", "t"),
        ("partition_key", "k"),
        ("via_partition_key", "v"),
        ("message_id", "m"),
        ("time_to_live", timedelta(milliseconds=1_500)),
        ("scheduled_enqueue_time_utc", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("body", b"bytes"),
    ],
)
def test_what_is_set_is_what_arrives(attribute: str, value: object) -> None:
    message = BrokeredMessage()
    setattr(message, attribute, value)
    assert getattr(received(message), attribute) == value


def test_what_is_set_can_be_taken_back() -> None:
    message = BrokeredMessage(
        partition_key="k", time_to_live=timedelta(1), scheduled_enqueue_time_utc=datetime(2026, 1, 1, tzinfo=UTC)
    )
    message.partition_key = message.time_to_live = message.scheduled_enqueue_time_utc = None
    arrived = received(message)
    assert (arrived.partition_key, arrived.time_to_live, arrived.scheduled_enqueue_time_utc) == (None, None, None)


def test_a_message_that_was_made_here_knows_nothing_of_the_service() -> None:
    message = BrokeredMessage("text")
    assert message.body == b"text"
    assert message.value == b"text"
    assert message.sequence_number is None
    assert message.enqueued_sequence_number is None
    assert message.enqueued_time_utc is None
    assert message.expires_at_utc is None
    assert message.locked_until_utc is None
    assert message.lock_token is None
    assert message.dead_letter_source is None
    assert message.dead_letter_reason is None
    assert message.dead_letter_error_description is None
    assert message.delivery_count == 0
    assert message.state is MessageState.ACTIVE
    assert message.size == len(message.to_payload())


def test_times_among_the_properties_are_written_as_the_service_has_them() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    message = BrokeredMessage(properties={"at": moment, "for": timedelta(seconds=2), "n": 1})
    properties = received(message).properties
    assert properties["at"] == Timestamp.from_datetime(moment)
    assert properties["for"] == Described(Symbol("com.microsoft:timespan"), 20_000_000)
    assert properties["n"] == 1


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(UsageError, match=r"scheduled_enqueue_time_utc.*no time zone"):
        BrokeredMessage(scheduled_enqueue_time_utc=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize("time_to_live", [timedelta(0), timedelta(days=50)])
def test_a_time_to_live_that_does_not_fit_its_field_is_refused(time_to_live: timedelta) -> None:
    with pytest.raises(UsageError, match="time_to_live is"):
        BrokeredMessage(time_to_live=time_to_live)


def test_bodies_of_other_kinds_can_be_read() -> None:
    text = BrokeredMessage.from_payload(encode_message(value="text"))
    assert (text.body, text.value) == (b"text", "text")
    octets = BrokeredMessage.from_payload(encode_message(value=b"raw"))
    assert (octets.body, octets.value) == (b"raw", b"raw")
    nothing = BrokeredMessage.from_payload(encode_message(properties=Properties()))
    assert (nothing.body, nothing.value) == (b"", b"")
    number = BrokeredMessage.from_payload(encode_message(value=UInt(5)))
    assert number.value == 5
    with pytest.raises(UsageError, match="amqp-value"):
        _ = number.body
    sequence = BrokeredMessage.from_payload(encode_message(sequence=[1, 2]))
    assert sequence.value == [1, 2]
    with pytest.raises(UsageError, match="amqp-sequence"):
        _ = sequence.body


def test_a_clone_says_what_its_sender_said_and_nothing_of_the_broker() -> None:
    payload = encode_message(
        header=Header(ttl_ms=5_000, delivery_count=3, priority=7),
        message_annotations={
            "x-opt-sequence-number": 12,
            "x-opt-locked-until": Timestamp(1),
            "x-opt-partition-key": "k",
            "x-other": 1,
        },
        properties=Properties("id", group_id="s", user_id=b"u"),
        application_properties={"n": UInt(3)},
        value={"kept": [1, 2]},
        footer={"f": 1},
    )
    clone = BrokeredMessage.from_payload(payload).clone()
    sent = Message(clone.to_payload())
    assert sent.header == Header(ttl_ms=5_000, priority=7)
    assert sent.message_annotations == {"x-opt-partition-key": "k", "x-other": 1}
    assert sent.properties == Properties("id", group_id="s", user_id=b"u")
    assert isinstance((sent.application_properties or {})["n"], UInt)
    assert sent.value == {"kept": [1, 2]}
    assert sent.footer == {"f": 1}
    clone.body = b"another"
    assert Message(clone.to_payload()).data == b"another"


def test_a_message_shows_what_it_is_known_by() -> None:
    assert repr(BrokeredMessage(message_id="m")) == "BrokeredMessage('m')"


@mission("M5")
async def test_a_message_that_is_not_locked_cannot_be_settled() -> None:
    message = BrokeredMessage()
    for settle in (message.complete, message.abandon, message.defer, message.dead_letter, message.renew_lock):
        with pytest.raises(UsageError, match="not locked"):
            await settle()
