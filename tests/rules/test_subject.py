"""What a rule sees of a message."""

from __future__ import annotations

import datetime
import uuid

import pytest

from tandem.amqp.message import Message, MessageId, Properties, encode_message
from tandem.amqp.types import Int, Symbol
from tandem.rules import RuleArgumentError, RuleEvaluationError, SqlFilter, Subject
from tandem.rules import subject as subject_module
from tandem.rules.system import CODES
from tandem.rules.values import DateTime, TimeSpan

ID = uuid.UUID(int=7)
BARE = encode_message(
    properties=Properties(
        "m-1", b"user", "to", "label", "reply", "c-1", "text/plain", None, None, None, "s-1", 1, "rs-1"
    ),
    application_properties={"StoreName": "Store1", "Quantity": Int(5)},
    data=b"body",
)


def test_a_message_shows_its_system_and_user_properties() -> None:
    subject = Subject.of_message(
        BARE,
        time_to_live_ms=60_000,
        scheduled_enqueue_time_ms=1_000,
        enqueued_time_ms=2_000,
        partition_key="pk",
        via_partition_key="via",
        delivery_count=3,
        sequence_number=4,
        enqueued_sequence_number=5,
        dead_letter_source="source",
    )
    expected: dict[str, object] = {
        "messageid": "m-1",
        "correlationid": "c-1",
        "contenttype": "text/plain",
        "label": "label",
        "subject": "label",
        "to": "to",
        "replyto": "reply",
        "sessionid": "s-1",
        "replytosessionid": "rs-1",
        "timetolive": TimeSpan.of_ms(60_000),
        "scheduledenqueuetimeutc": DateTime.of_ms(1_000),
        "enqueuedtimeutc": DateTime.of_ms(2_000),
        "expiresatutc": DateTime.of_ms(62_000),
        "partitionkey": "pk",
        "viapartitionkey": "via",
        "deliverycount": 3,
        "sequencenumber": 4,
        "enqueuedsequencenumber": 5,
        "deadlettersource": "source",
        "size": len(BARE),
        "state": None,
        "locktoken": None,
        "lockeduntilutc": None,
        "forcepersistence": None,
    }
    assert {name: subject.system(name) for name in expected} == expected
    assert set(expected) | {name for name in CODES if name not in expected} == set(CODES)
    assert subject.user("storename") == "Store1"
    assert subject.user("quantity") == 5
    assert type(subject.user("quantity")) is int
    assert subject.user("missing") is None
    assert subject.has_user("quantity")
    assert not subject.has_user("missing")


def test_a_message_without_sections_has_no_properties() -> None:
    subject = Subject.of_message(b"")
    assert subject.system("label") is None
    assert subject.system("enqueuedtimeutc") is None
    assert not subject.has_user("a")
    assert Subject.of_message(b"", enqueued_time_ms=5).system("expiresatutc") is None
    assert Subject.of_message(b"", size_bytes=99).system("size") == 99


@pytest.mark.parametrize(
    "message_id, text", [("x", "x"), (5, "5"), (ID, str(ID)), (b"\x01\xff", "01ff"), (b"x", "x"), (None, None)]
)
def test_ids_are_strings_whatever_the_sender_wrote(message_id: MessageId | None, text: str | None) -> None:
    bare = encode_message(properties=Properties(message_id=message_id, correlation_id=message_id))
    subject = Subject.of_message(bare)
    assert subject.system("messageid") == text
    assert subject.system("correlationid") == text


def test_sections_are_decoded_when_asked_for_and_once_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []

    def counted(payload: bytes) -> Message:
        made.append(payload)
        return Message(payload)

    if subject_module.__file__.endswith(".py"):
        monkeypatch.setattr(subject_module, "Message", counted)
        subject = Subject.of_message(BARE)
        assert subject.system("sequencenumber") is None
        assert not made
        for _ in range(3):
            assert SqlFilter("StoreName = 'Store1' AND sys.Label = 'label'").matches(subject)
        assert made == [BARE]


@pytest.mark.parametrize(
    "bare",
    [
        b"\xff",
        encode_message(properties=Properties("x"))[:-1],
        # properties with a message-id that is a boolean, application-properties with a key that is a number
        b"\x00\x53\x73\xc0\x02\x01\x41" + b"\x00\x53\x74\xc1\x05\x02\x54\x01\x54\x01",
    ],
)
def test_a_message_that_cannot_be_read_is_an_error_of_evaluation(bare: bytes) -> None:
    subject = Subject.of_message(bare)
    assert subject.system("size") == len(bare)
    for _ in range(2):
        with pytest.raises(RuleEvaluationError, match="cannot be read"):
            subject.system("label")
        with pytest.raises(RuleEvaluationError, match="cannot be read"):
            subject.user("a")
        with pytest.raises(RuleEvaluationError, match="cannot be read"):
            subject.draft()


def test_the_body_is_never_decoded() -> None:
    bare = encode_message(application_properties={"a": 1}) + b"\x00\x53\x77\xc1\x03\x02\xff\xff"
    assert SqlFilter("a = 1 AND sys.Label IS NULL").matches(Subject.of_message(bare))


def test_an_unknown_system_property_is_an_error() -> None:
    with pytest.raises(RuleEvaluationError, match=r"there is no system property sys\.colour"):
        Subject.of_values().system("colour")
    with pytest.raises(RuleArgumentError, match="there is no system property 'colour'"):
        Subject.of_values({"colour": 1})


def test_plain_values_can_be_given_with_the_names_of_rules() -> None:
    system: dict[str, object] = {
        "message_id": "m",
        "Label": Symbol("x"),
        "TimeToLive": 5_000,
        "EnqueuedTimeUtc": 1_000,
        "ExpiresAtUtc": datetime.datetime(1970, 1, 1, 0, 0, 6, tzinfo=datetime.UTC),
        "sequence_number": 7,
    }
    subject = Subject.of_values(system)
    assert SqlFilter(
        "sys.MessageId = 'm' AND sys.Label = 'x' AND sys.SequenceNumber = 7"
        " AND sys.EnqueuedTimeUtc + sys.TimeToLive = sys.ExpiresAtUtc"
    ).matches(subject)
    assert type(subject.system("label")) is str
