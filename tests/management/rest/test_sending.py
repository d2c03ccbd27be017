"""Messages are sent over plain HTTP, one by one and as batches."""

from __future__ import annotations

import asyncio
import io
import json
import re
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

import pytest

from tandem.amqp import Message
from tandem.amqp.types import Timestamp
from tandem.engine.description import EntityStatus
from tests.management.http_api import Http, serving
from tests.markers import mission

BATCH: Final = {"Content-Type": "application/vnd.microsoft.servicebus.json"}


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    """With one queue."""
    async with serving(tmp_path / "data") as http:
        await http.make_queue("orders")
        yield http


async def sent(http: Http, queue: str = "orders") -> Message:
    """The one message that is there, as AMQP has it."""
    async with await http.connect() as client:
        receiver = await client.receiver(queue, credit=1)
        delivery = await receiver.receive()
        receiver.settle(delivery)
        return Message(delivery.payload)


# --- one message ----------------------------------------------------------------------------------------------------


@mission("M5")
async def test_a_body_and_its_type_are_a_message(http: Http) -> None:
    reply = await http.send("orders", "grüße".encode(), **{"Content-Type": "text/plain;charset=utf-8"})
    assert (reply.status, reply.body) == (201, b"")
    message = await sent(http)
    assert message.data == "grüße".encode()
    assert message.properties is not None
    assert message.properties.content_type == "text/plain;charset=utf-8"
    assert message.application_properties is None


async def test_an_empty_body_is_one(http: Http) -> None:
    assert (await http.send("orders", b"")).status == 201
    assert (await sent(http)).data == b""


@mission("M5")
async def test_broker_properties_are_those_of_the_message(http: Http) -> None:
    properties = {
        "MessageId": "id",
        "CorrelationId": "correlation",
        "SessionId": "session",
        "PartitionKey": "session",
        "Label": "a “label”",
        "ReplyTo": "there",
        "To": "here",
        "ReplyToSessionId": "other",
        "TimeToLive": 90.5,
        "ViaPartitionKey": "via",
        # What a sender cannot set is passed over.
        "SequenceNumber": 77,
        "LockToken": "x",
        "State": "Deferred",
        "Unknown": {"a": []},
    }
    assert (await http.send("orders", BrokerProperties=json.dumps(properties))).status == 201
    message = await sent(http)
    one = message.properties
    assert one is not None
    assert (one.message_id, one.correlation_id, one.group_id) == ("id", "correlation", "session")
    assert (one.subject, one.reply_to, one.to, one.reply_to_group_id) == ("a “label”", "there", "here", "other")
    assert message.header is not None
    assert message.header.ttl_ms == 90_500
    annotations = message.message_annotations or {}
    assert annotations["x-opt-partition-key"] == "session"
    assert annotations["x-opt-via-partition-key"] == "via"
    assert annotations["x-opt-sequence-number"] == 1


@mission("M5")
async def test_other_headers_are_application_properties_of_the_type_that_is_written(http: Http) -> None:
    headers = {
        "Priority": '"high"',
        "Customer": "plain text",
        "Quoted": '"with \\"quotes\\" and \\u00fc"',
        "Umlaut": '"ü"',
        "Amount": "12",
        "Negative": "-12",
        "Large": str(2**63 - 1),
        "Larger": str(2**63),
        "Price": "12.5",
        "Rush": "true",
        "Late": "false",
        "Nothing": "null",
        "Date": '"Sun, 06 Nov 1994 08:49:37 GMT"',
        "Due": '"Sun, 06 Nov 1994 08:49:37 GMT"',
        "NoDate": '"Sun, 06 Foo 1994 08:49:37 GMT"',
        "NotANumber": "NaN",
        "Endless": "Infinity",
        "List": "[1, 2]",
        "Object": '{"a": 1}',
        "Empty": "",
        # About the request, and not about the message.
        "X-Forwarded-For": "1.2.3.4",
        "X-Ms-Client-Request-Id": "5",
        "Proxy-Authorization": "secret",
        "Cookie": "secret=1",
    }
    assert (await http.send("orders", **headers)).status == 201
    properties = (await sent(http)).application_properties
    assert properties == {
        "Priority": "high",
        "Customer": "plain text",
        "Quoted": 'with "quotes" and ü',
        "Umlaut": "ü",
        "Amount": 12,
        "Negative": -12,
        "Large": 2**63 - 1,
        "Larger": str(2**63),
        "Price": 12.5,
        "Rush": True,
        "Late": False,
        "Nothing": None,
        "Due": Timestamp(784_111_777_000),
        "NoDate": "Sun, 06 Foo 1994 08:49:37 GMT",
        "NotANumber": "NaN",
        "Endless": "Infinity",
        "List": "[1, 2]",
        "Object": '{"a": 1}',
        "Empty": "",
    }
    assert properties is not None
    assert isinstance(properties["Due"], Timestamp)


@mission("M5")
async def test_a_message_is_scheduled(http: Http) -> None:
    due_s = int(time.time()) + 3_600
    reply = await http.send(
        "orders", BrokerProperties=json.dumps({"ScheduledEnqueueTimeUtc": formatdate(due_s, usegmt=True)})
    )
    assert reply.status == 201
    queue = http.subqueue("orders")
    assert (queue.active_count, queue.scheduled_count) == (0, 1)
    past = {"ScheduledEnqueueTimeUtc": formatdate(0, usegmt=True)}
    assert (await http.send("orders", BrokerProperties=json.dumps(past))).status == 201
    assert (queue.active_count, queue.scheduled_count) == (1, 1)


@pytest.mark.parametrize(
    "time_to_live, expected_ms",
    [
        ({"TimeToLive": 10}, 10_000),
        ({"TimeToLive": 30.0009}, 30_000),
        ({"TimeToLive": 922337203685.4775}, None),
        ({"TimeToLive": 1e300}, None),
        ({"TimeToLiveTimeSpan": "00:01:30"}, 90_000),
        ({"TimeToLiveTimeSpan": "1.00:00:00.5"}, 86_400_500),
    ],
)
async def test_time_to_live_is_in_seconds_or_a_time_span(
    http: Http, time_to_live: dict[str, Any], expected_ms: int | None
) -> None:
    assert (await http.send("orders", BrokerProperties=json.dumps(time_to_live))).status == 201
    header = (await sent(http)).header
    assert header is not None
    assert header.ttl_ms == expected_ms


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "BrokerProperties must be a JSON object"),
        ("[]", "BrokerProperties must be a JSON object"),
        ("{", "BrokerProperties must be a JSON object"),
        ('{"TimeToLive": NaN}', "NaN is not JSON"),
        ("[" * 3_000, "BrokerProperties must be a JSON object"),
        ('{"MessageId": 5}', "BrokerProperties.MessageId must be a text, got 5"),
        ('{"MessageId": ["x"]}', "BrokerProperties.MessageId must be a text"),
        ('{"Label": "\\ud800"}', "cannot be written"),
        ('{"TimeToLive": 0}', "TimeToLive must be seconds, more than 0"),
        ('{"TimeToLive": -1}', "TimeToLive must be seconds, more than 0"),
        ('{"TimeToLive": "5"}', "TimeToLive must be seconds"),
        ('{"TimeToLive": true}', "TimeToLive must be seconds"),
        ('{"TimeToLiveTimeSpan": "5"}', "TimeToLiveTimeSpan must be"),
        ('{"ScheduledEnqueueTimeUtc": "soon"}', "ScheduledEnqueueTimeUtc must be a date"),
        ('{"ScheduledEnqueueTimeUtc": 5}', "ScheduledEnqueueTimeUtc must be a date"),
        ('{"ScheduledEnqueueTimeUtc": "Fri, 31 Dec 9999 23:59:59 -1400"}', "ScheduledEnqueueTimeUtc must be a date"),
        ('{"SessionId": "a", "PartitionKey": "b"}', "SessionId .a. and PartitionKey .b. differ"),
    ],
    ids=range(17),
)
async def test_broker_properties_that_cannot_be_are_refused(http: Http, text: str, words: str) -> None:
    reply = await http.send("orders", BrokerProperties=text)
    assert reply.status == 400, reply.body
    assert re.search(words, reply.detail), reply.detail
    assert http.subqueue("orders").active_count == 0


async def test_too_many_properties_are_refused(http: Http) -> None:
    reply = await http.send("orders", **{f"Name{number}": "1" for number in range(101)})
    assert reply.status == 400
    assert "more than 100 application properties" in reply.detail


async def test_a_header_that_is_no_utf_8_is_refused_or_kept_out(http: Http) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", http.broker.http_port)
    token = http.api.token().encode()
    writer.write(
        b'POST /orders/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: %s\r\nOdd: "\xff\xfe"\r\n' % token
        + b"Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()
    assert http.subqueue("orders").active_count == 0


# --- refusals -------------------------------------------------------------------------------------------------------


@mission("M5")
async def test_a_message_that_is_too_large_is_refused(http: Http) -> None:
    reply = await http.send("orders", bytes(256 * 1024))
    assert (reply.status, "262144" in reply.detail.replace(",", "")) == (403, True)
    reply = await http.ask("POST", "/orders/messages", io.BytesIO(bytes(2 * 1024 * 1024 + 1)))
    assert (reply.status, "2,097,152 bytes" in reply.detail) == (403, True)


async def test_a_full_queue_and_one_that_is_disabled_refuse(http: Http) -> None:
    await http.make_queue("full", max_size_in_megabytes=1)
    statuses = {(await http.send("full", bytes(200_000))).status for _ in range(7)}
    assert statuses == {201, 403}
    await http.make_queue("closed", status=EntityStatus.SEND_DISABLED)
    reply = await http.send("closed")
    assert (reply.status, "is currently disabled" in reply.detail) == (400, True)


@mission("M5")
async def test_what_cannot_be_sent_to_is_told(http: Http) -> None:
    await http.make_topic("news", "all")
    for path, status in {
        "missing": 410,
        "missing/$DeadLetterQueue": 410,
        "orders/$DeadLetterQueue": 400,
        "orders/$management": 410,
        "$cbs": 410,
        "news/Subscriptions/all": 400,
        "news/subscriptions/none": 410,
    }.items():
        reply = await http.send(path)
        assert reply.status == status, path
        assert reply.detail


async def test_a_session_queue_wants_a_session(http: Http) -> None:
    await http.make_queue("ordered", requires_session=True)
    reply = await http.send("ordered")
    assert (reply.status, "SessionId" in reply.detail) == (400, True)
    assert (await http.send("ordered", BrokerProperties='{"SessionId": "a"}')).status == 201


async def test_a_topic_gives_what_is_sent_to_its_subscriptions(http: Http) -> None:
    await http.make_topic("news/local", "all", "none")
    assert (await http.send("news%2Flocal", b"it rains")).status == 201
    assert (await http.send("News/Local", b"it rains still")).status == 201
    for subscription in ("all", "none"):
        assert http.subqueue(f"news/local/Subscriptions/{subscription}").active_count == 2


async def test_a_duplicate_is_accepted_and_dropped(http: Http) -> None:
    await http.make_queue("once", requires_duplicate_detection=True)
    for _ in range(3):
        assert (await http.send("once", BrokerProperties='{"MessageId": "same"}')).status == 201
    assert http.subqueue("once").active_count == 1


# --- batches --------------------------------------------------------------------------------------------------------


@mission("M5")
async def test_a_batch_is_many_messages(http: Http) -> None:
    batch = [
        {"Body": "one ü"},
        {"Body": "AAEC/w==", "IsBodyBase64": True},
        {
            "Body": "three",
            "BrokerProperties": {"Label": "l", "TimeToLiveTimeSpan": "00:00:10"},
            "UserProperties": {
                "text": "x",
                "number": 5,
                "large": 2**64,
                "flag": True,
                "list": [1],
                "date": "Sun, 06 Nov 1994 08:49:37 GMT",
            },
        },
        {},
    ]
    reply = await http.ask("POST", "/orders/messages", json.dumps(batch), BATCH)
    assert reply.status == 201
    messages = [await sent(http) for _ in batch]
    assert [message.data for message in messages] == ["one ü".encode(), b"\x00\x01\x02\xff", b"three", b""]
    third = messages[2]
    assert third.properties is not None
    assert third.properties.subject == "l"
    assert third.header is not None
    assert third.header.ttl_ms == 10_000
    assert third.application_properties == {
        "text": "x",
        "number": 5,
        "large": str(2**64),
        "flag": True,
        "list": "[1]",
        "date": Timestamp(784_111_777_000),
    }


@mission("M5")
@pytest.mark.parametrize(
    "body, words",
    [
        ("", "must be a JSON array"),
        ("{}", "must be a JSON array"),
        ("[]", "not empty"),
        ("[5]", "message 0 of the batch must be an object"),
        ('[{"Body": 5}]', "Body of message 0 must be a text"),
        ('[{"Body": "x"}, {"Body": "!", "IsBodyBase64": true}]', "Body of message 1 is not base64"),
        ('[{"Body": "\u00fc", "IsBodyBase64": true}]', "Body of message 0 is not base64"),
        ('[{"Body": "x", "IsBodyBase64": "false"}]', "IsBodyBase64 of message 0 must be true or false"),
        ('[{"Body": "x"}, {"Body": "x", "BrokerProperties": []}]', "BrokerProperties of message 1 must be an object"),
        ('[{"Body": "x", "UserProperties": "x"}]', "UserProperties of message 0 must be an object"),
        ('[{"Body": "x", "BrokerProperties": {"TimeToLive": -1}}]', "TimeToLive"),
        ("[" * 100_000, "must be a JSON array"),
        ("[" + "{}," * 65_536 + "{}]", "65,537 messages; at most 65,536"),
    ],
    ids=range(13),
)
async def test_a_batch_is_taken_as_a_whole_or_not_at_all(http: Http, body: str, words: str) -> None:
    reply = await http.ask("POST", "/orders/messages", body, BATCH)
    assert (reply.status, words in reply.detail) == (400, True), reply.detail
    assert http.subqueue("orders").active_count == 0
