"""Messages are received and settled over plain HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from tandem.amqp.delivery_states import Rejected
from tandem.amqp.message import Header, Properties, encode_message
from tandem.amqp.types import LONG_TYPE, Array, Char, Described, Float, Int, Symbol, Timestamp, UByte, ULong
from tandem.engine.description import EntityStatus, QueueDescription
from tandem.testing.virtual_clock import VirtualClock
from tests.management.http_api import Http, Reply, serving
from tests.markers import mission
from tests.patience import PATIENCE_S, until

NO_LIMIT: Final = 922337203685.4775


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    """With one queue."""
    async with serving(tmp_path / "data") as http:
        await http.make_queue("orders")
        yield http


async def send_amqp(http: Http, payload: bytes, queue: str = "orders") -> None:
    async with await http.connect() as client:
        await (await client.sender(queue)).send(payload)


def path_of(reply: Reply) -> str:
    """Where the lock of a message is settled."""
    return urlsplit(reply.headers["location"]).path


# --- receiving ------------------------------------------------------------------------------------------------------


@mission("M5")
async def test_a_message_is_locked_and_completed(http: Http) -> None:
    started = time.time()
    await http.send("orders", b"one", **{"Content-Type": "text/plain", "BrokerProperties": '{"MessageId": "id"}'})
    reply = await http.lock("orders")
    assert (reply.status, reply.body, reply.headers["content-type"]) == (201, b"one", "text/plain")
    properties = reply.properties
    token = properties["LockToken"]
    assert reply.headers["location"] == f"{http.base}/orders/messages/1/{token}"
    assert str(uuid.UUID(token)) == token
    assert {name: properties[name] for name in ("DeliveryCount", "SequenceNumber", "MessageId", "State")} == {
        "DeliveryCount": 1,
        "SequenceNumber": 1,
        "MessageId": "id",
        "State": "Active",
    }
    assert properties["TimeToLive"] == NO_LIMIT
    assert abs(parsedate_to_datetime(properties["EnqueuedTimeUtc"]).timestamp() - started) < PATIENCE_S
    assert abs(parsedate_to_datetime(properties["LockedUntilUtc"]).timestamp() - started - 60) < PATIENCE_S
    assert http.subqueue("orders").active_count == 1
    assert (await http.ask("DELETE", path_of(reply))).status == 200
    assert http.subqueue("orders").active_count == 0
    gone = await http.ask("DELETE", path_of(reply))
    assert (gone.status, "does not exist" in gone.detail) == (404, True)


@mission("M5")
async def test_a_lock_is_renewed(http: Http) -> None:
    await http.send("orders")
    reply = await http.lock("orders")
    (lock,) = http.subqueue("orders").outlet.locks.held.values()
    before_ms = lock.locked_until_ms
    await asyncio.sleep(0.02)
    assert (await http.ask("POST", path_of(reply))).status == 200
    assert lock.locked_until_ms > before_ms


@mission("M5")
async def test_an_unlocked_message_comes_again_and_counts_its_deliveries(http: Http) -> None:
    await http.send("orders")
    for count in (1, 2, 3):
        reply = await http.lock("orders")
        assert reply.properties["DeliveryCount"] == count
        assert (await http.ask("PUT", path_of(reply))).status == 200
        assert (await http.ask("PUT", path_of(reply))).status == 404


@mission("M5")
async def test_a_message_that_was_unlocked_too_often_is_a_dead_letter(http: Http) -> None:
    await http.make_queue("picky", max_delivery_count=1)
    await http.send("picky", b"bad")
    await http.ask("PUT", path_of(await http.lock("picky")))
    assert (await http.lock("picky", 0)).status == 204
    reply = await http.lock("picky/$DeadLetterQueue")
    assert (reply.status, reply.body) == (201, b"bad")
    assert reply.headers["deadletterreason"] == '"MaxDeliveryCountExceeded"'
    assert path_of(reply).startswith("/picky/$DeadLetterQueue/messages/1/")
    assert (await http.ask("DELETE", path_of(reply))).status == 200
    assert (await http.take("picky/$deadletterqueue", 0)).status == 204


@mission("M5")
async def test_a_message_is_received_and_deleted(http: Http) -> None:
    await http.send("orders", b"one", Priority='"high"')
    reply = await http.take("orders")
    assert (reply.status, reply.body, reply.headers["priority"]) == (200, b"one", '"high"')
    assert "location" not in reply.headers
    properties = reply.properties
    assert "LockToken" not in properties
    assert (properties["SequenceNumber"], properties["DeliveryCount"]) == (1, 1)
    assert abs(parsedate_to_datetime(properties["EnqueuedTimeUtc"]).timestamp() - time.time()) < PATIENCE_S
    assert http.subqueue("orders").active_count == 0
    assert (await http.take("orders", 0)).status == 204


async def test_messages_come_in_their_order(http: Http) -> None:
    for number in range(5):
        await http.send("orders", str(number))
    assert [(await http.take("orders", 0)).body for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]


@mission("M5")
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_receive_waits_no_longer_than_it_was_told(http: Http, method: str) -> None:
    for timeout_s in (0, 1):
        started = time.monotonic()
        reply = await http.ask(method, f"/orders/messages/head?timeout={timeout_s}")
        assert (reply.status, reply.body) == (204, b"")
        # Unless it is told, it waits for a minute.
        assert timeout_s - 0.05 <= time.monotonic() - started < PATIENCE_S
    assert not http.subqueue("orders").consumers


@mission("M5")
@pytest.mark.parametrize("receive, status", [("POST", 201), ("DELETE", 200)])
async def test_a_message_that_comes_while_one_waits_is_received_at_once(http: Http, receive: str, status: int) -> None:
    waiting = asyncio.create_task(http.ask(receive, f"/orders/messages/head?timeout={2 * PATIENCE_S:.0f}"))
    await until(lambda: bool(http.subqueue("orders").consumers))
    started = time.monotonic()
    await http.send("orders", b"at last")
    reply = await waiting
    assert (reply.status, reply.body) == (status, b"at last")
    assert time.monotonic() - started < PATIENCE_S


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "", "9" * 5_000, "%D9%A1"])
async def test_a_timeout_that_is_no_number_is_refused(http: Http, text: str) -> None:
    reply = await http.ask("POST", f"/orders/messages/head?timeout={text}")
    assert (reply.status, "timeout" in reply.detail) == (400, True)


# --- who goes away --------------------------------------------------------------------------------------------------


async def wait_and_leave(http: Http, method: str) -> None:
    """Ask for a message, and hang up."""
    _, writer = await asyncio.open_connection("127.0.0.1", http.broker.http_port)
    head = f"{method} /orders/messages/head?timeout=60 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {http.api.token()}"
    writer.write(f"{head}\r\nContent-Length: 0\r\n\r\n".encode())
    await until(lambda: bool(http.subqueue("orders").consumers))
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@mission("M5")
@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_who_goes_away_while_waiting_takes_nothing(http: Http, method: str) -> None:
    await wait_and_leave(http, method)
    await until(lambda: not http.subqueue("orders").consumers)
    await http.send("orders", b"for another")
    assert not http.subqueue("orders").outlet.locks.held
    reply = await http.lock("orders", 0)
    assert (reply.status, reply.body, reply.properties["DeliveryCount"]) == (201, b"for another", 1)


async def test_a_queue_that_is_deleted_or_disabled_meanwhile_tells_who_waits(http: Http) -> None:
    waiting = asyncio.create_task(http.lock("orders", 30))
    await until(lambda: bool(http.subqueue("orders").consumers))
    await http.broker.perform(lambda namespace: namespace.delete(namespace.get("orders")))
    reply = await waiting
    assert (reply.status, "was deleted" in reply.detail) == (410, True)
    await http.make_queue("orders")
    waiting = asyncio.create_task(http.take("orders", 30))
    await until(lambda: bool(http.subqueue("orders").consumers))
    disabled = QueueDescription("orders", status=EntityStatus.DISABLED)
    await http.broker.perform(lambda namespace: namespace.update_queue(namespace.get("orders"), disabled))
    reply = await waiting
    assert (reply.status, "disabled" in reply.detail) == (400, True)
    reply = await http.take("orders", 0)
    assert (reply.status, "is currently disabled" in reply.detail) == (400, True)


# --- where ----------------------------------------------------------------------------------------------------------


@mission("M5")
async def test_subscriptions_are_received_from_and_topics_are_not(http: Http) -> None:
    await http.make_topic("news/local", "all")
    await http.send("news/local", b"it rains")
    reply = await http.lock("News%2Flocal/Subscriptions/ALL")
    assert (reply.status, reply.body) == (201, b"it rains")
    assert (await http.ask("DELETE", path_of(reply))).status == 200
    reply = await http.lock("news/local", 0)
    assert (reply.status, "topic" in reply.detail) == (400, True)


async def test_a_subscription_has_dead_letters(http: Http) -> None:
    await http.make_topic("news", "all")
    await http.send("news", b"bad")
    async with await http.connect() as client:
        receiver = await client.receiver("news/Subscriptions/all", credit=1)
        receiver.settle(await receiver.receive(), Rejected())
    await until(lambda: http.subqueue("news/Subscriptions/all").active_count == 0)
    reply = await http.take("news/subscriptions/all/$DeadLetterQueue")
    assert (reply.status, reply.body) == (200, b"bad")


@mission("M5")
async def test_sessions_are_refused(http: Http) -> None:
    await http.make_queue("ordered", requires_session=True)
    await http.send("ordered", BrokerProperties='{"SessionId": "a"}')
    for receive in (http.lock, http.take):
        reply = await receive("ordered", 0)
        assert (reply.status, "requires sessions" in reply.detail) == (400, True)
    # Its dead letters have none.
    assert (await http.lock("ordered/$DeadLetterQueue", 0)).status == 204


@mission("M5")
async def test_what_is_missing_is_gone(http: Http) -> None:
    lock = str(uuid.uuid4())
    for method, path in (
        ("POST", "/missing/messages/head"),
        ("DELETE", "/missing/messages/head"),
        ("DELETE", f"/missing/messages/1/{lock}"),
        ("PUT", f"/missing/messages/1/{lock}"),
        ("POST", f"/missing/messages/1/{lock}"),
        ("POST", "/news/subscriptions/none/messages/head"),
        ("POST", "/orders/$management/messages/head"),
        ("POST", "/$cbs/messages/head"),
    ):
        assert (await http.ask(method, path)).status == 410, path
    for method in ("DELETE", "PUT", "POST"):
        assert (await http.ask(method, f"/orders/messages/1/{lock}")).status == 404
        reply = await http.ask(method, "/orders/messages/1/no-lock")
        assert (reply.status, "GUID" in reply.detail) == (400, True)


async def test_a_lock_that_has_expired_is_not_found(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with serving(tmp_path / "data", clock) as http:
        await http.make_queue("orders")
        await http.send("orders")
        reply = await http.lock("orders")
        clock.ahead_ms += 60_000
        http.broker.runner.wake()
        assert (await http.ask("DELETE", path_of(reply))).status == 404
        assert (await http.lock("orders")).properties["DeliveryCount"] == 2


async def test_a_lock_is_settled_under_the_queue_that_it_is_of(http: Http) -> None:
    await http.make_queue("other")
    await http.send("orders")
    token = (await http.lock("orders")).properties["LockToken"]
    assert (await http.ask("DELETE", f"/other/messages/1/{token}")).status == 404
    assert (await http.ask("DELETE", f"/orders/$DeadLetterQueue/messages/1/{token}")).status == 404
    # By any id: the token alone tells which message it is.
    assert (await http.ask("DELETE", f"/ORDERS/messages/its-id/{token}")).status == 200


# --- what a message looks like --------------------------------------------------------------------------------------


@mission("M5")
async def test_all_that_was_sent_over_http_comes_back(http: Http) -> None:
    properties = {
        "MessageId": "id",
        "CorrelationId": "correlation ü",
        "SessionId": "session",
        "PartitionKey": "session",
        "Label": "label",
        "ReplyTo": "there",
        "To": "here",
        "ReplyToSessionId": "other",
        "TimeToLive": 90.5,
        "ScheduledEnqueueTimeUtc": "Sun, 06 Nov 1994 08:49:37 GMT",
    }
    headers = {"Priority": '"high"', "Amount": "12", "Price": "1.5", "Rush": "true", "Nothing": "null"}
    due = {"Due": '"Sun, 06 Nov 1994 08:49:37 GMT"', "Umlaut": '"\\u00fc"'}
    await http.send("orders", b"\x00\xff", BrokerProperties=json.dumps(properties), **headers, **due)
    reply = await http.take("orders")
    assert reply.body == b"\x00\xff"
    assert {name: reply.properties.get(name) for name in properties} == properties
    assert {name: reply.headers[name.lower()] for name in {**headers, **due}} == {**headers, **due}
    assert reply.headers["content-type"] == "application/atom+xml;type=entry;charset=utf-8"


@mission("M5")
@pytest.mark.parametrize(
    "message, expected",
    [
        ({"data": [b"one", b"two"]}, b"onetwo"),
        ({}, b""),
        ({"value": "text ü"}, "text ü".encode()),
        ({"value": None}, b""),
        ({"value": b"\x00\xff"}, b"\x00\xff"),
        ({"value": 5}, b"5"),
        ({"value": True}, b"true"),
        ({"value": {"a": Int(1), UByte(2): [1.5, None]}}, b'{"a": 1, "2": [1.5, null]}'),
        ({"value": {b"\x00": float("inf"), uuid.UUID(int=1): Char("x")}}, None),
        ({"value": Described(Symbol("a:b"), Timestamp(7))}, b"7"),
        ({"value": Array(LONG_TYPE, [1, 2])}, b"[1, 2]"),
        ({"sequence": [1, "two", b"three", ULong(2**64 - 1)]}, b'[1, "two", "dGhyZWU=", 18446744073709551615]'),
    ],
    ids=range(12),
)
async def test_a_body_of_any_kind_comes_as_bytes(http: Http, message: dict[str, Any], expected: bytes | None) -> None:
    await send_amqp(http, encode_message(**message))
    reply = await http.take("orders")
    assert reply.status == 200
    assert expected is None or reply.body == expected


async def test_a_body_that_cannot_be_decoded_comes_as_it_is(http: Http) -> None:
    # An amqp-value of a type that does not exist, in the sections of a message that is otherwise sound.
    value = b"\x00\x53\x77\xa1\x02\xff\xfe"
    await send_amqp(http, value)
    reply = await http.take("orders")
    assert (reply.status, reply.body) == (200, value)


@mission("M5")
async def test_properties_of_every_type_of_amqp_are_headers(http: Http) -> None:
    values: dict[str, object] = {
        "Text": "a “b”\r\nX-Injected: 1",
        "Symbol": Symbol("s"),
        "Char": Char("c"),
        "Byte": UByte(5),
        "Large": ULong(2**64 - 1),
        "Float": Float(0.5),
        "Nan": float("nan"),
        "Binary": b"\x00\xff",
        "Id": uuid.UUID(int=1),
        "Moment": Timestamp(784_111_777_000),
        "Far": Timestamp(2**62),
        "Before": Timestamp(-(2**62)),
        "Long-ago": Timestamp(-62_135_596_800_000),
        "Described": Described(Symbol("com.microsoft:timespan"), 5),
    }
    await send_amqp(http, encode_message(application_properties=values, data=b""))
    reply = await http.lock("orders")
    assert reply.status == 201
    found = {name: json.loads(reply.headers[name.lower()]) for name in values}
    assert found.pop("Described")
    assert found == {
        "Text": "a “b”\r\nX-Injected: 1",
        "Symbol": "s",
        "Char": "c",
        "Byte": 5,
        "Large": 2**64 - 1,
        "Float": 0.5,
        "Nan": "nan",
        "Binary": "00ff",
        "Id": str(uuid.UUID(int=1)),
        "Moment": "Sun, 06 Nov 1994 08:49:37 GMT",
        "Far": str(2**62),
        "Before": str(-(2**62)),
        "Long-ago": "Mon, 01 Jan 0001 00:00:00 GMT",
    }
    assert "x-injected" not in reply.headers


@mission("M5")
async def test_a_sender_cannot_write_headers_in_the_name_of_the_broker(http: Http) -> None:
    names = (
        *("Location", "location", "Set-Cookie", "WWW-Authenticate", "Content-Length", "Content-Type", "Connection"),
        *("Transfer-Encoding", "BrokerProperties", "brokerproperties", "Access-Control-Allow-Origin", "Refresh"),
        *("Strict-Transport-Security", "X-Frame-Options", "Server", "Date", "Upgrade", "Retry-After", "Sec-Purpose"),
        *("a b", "a:b", "a\r\nX-Injected: 1", "ü", "", "a\x00", "a\n", "(", "Kept", "kept"),
    )
    properties = dict.fromkeys(names, "from the sender")
    evil = Properties(
        subject='"\r\nX-Injected: 1', content_type="text/plain\r\nX-Injected: 1", message_id="\r\nX-Injected: 1"
    )
    await send_amqp(http, encode_message(properties=evil, application_properties=properties, data=b"x"))
    reply = await http.lock("orders")
    assert (reply.status, reply.body) == (201, b"x")
    assert set(reply.headers) == {
        *("kept", "brokerproperties", "content-type", "location", "content-length", "date", "server"),
    }
    assert reply.headers["kept"] == '"from the sender"'
    assert reply.headers["location"].startswith(http.base)
    assert reply.headers["content-type"] == "application/atom+xml;type=entry;charset=utf-8"
    assert reply.properties["Label"] == '"\r\nX-Injected: 1'
    assert reply.properties["MessageId"] == "\r\nX-Injected: 1"


async def test_properties_that_are_too_long_for_a_header_are_left_out(http: Http) -> None:
    long = encode_message(
        header=Header(ttl_ms=60_000),
        properties=Properties(subject="x" * 100_000, to="here"),
        application_properties={"Long": "x" * 100_000, "Short": "x"},
        data=b"x",
    )
    await send_amqp(http, long)
    reply = await http.take("orders")
    assert (reply.status, reply.body, reply.headers["short"]) == (200, b"x", '"x"')
    assert "long" not in reply.headers
    assert "Label" not in reply.properties


@pytest.mark.parametrize("message_id", [uuid.UUID(int=1), ULong(5), b"\xff\x02", b"text", "text"], ids=repr)
async def test_ids_of_every_type_are_texts(http: Http, message_id: Any) -> None:
    await send_amqp(http, encode_message(properties=Properties(message_id=message_id), data=b""))
    expected = {b"\xff\x02": "ff02", b"text": "text"}.get(message_id) or str(message_id)
    assert (await http.take("orders")).properties["MessageId"] == expected


# --- who may --------------------------------------------------------------------------------------------------------


@mission("M5")
async def test_a_request_without_a_good_token_is_refused(http: Http) -> None:
    await http.send("orders")
    calls: list[Callable[[str], Awaitable[Reply]]] = [
        lambda token: http.ask("POST", "/orders/messages", b"x", token=token),
        lambda token: http.ask("POST", "/orders/messages/head?timeout=0", token=token),
        lambda token: http.ask("DELETE", "/orders/messages/head?timeout=0", token=token),
        lambda token: http.ask("DELETE", f"/orders/messages/1/{uuid.uuid4()}", token=token),
    ]
    tokens = {
        "": "MissingToken",
        "Basic eDp5": "MalformedToken",
        http.api.token(rule=("RootManageSharedAccessKey", "wrong")): "InvalidSignature",
        http.api.token("/other"): "InvalidAudience",
        http.api.token(lifetime_s=-1): "ExpiredToken",
    }
    for call in calls:
        for token, words in tokens.items():
            reply = await call(token)
            assert (reply.status, words in reply.detail) == (401, True), reply.detail
    assert http.subqueue("orders").active_count == 1


async def test_errors_say_nothing_that_could_be_taken_for_markup(http: Http) -> None:
    reply = await http.ask("POST", "/%3Cb%3E&/messages/head?timeout=0")
    assert reply.status == 410
    assert "<b>&" in reply.detail
    assert b"<b>" not in reply.body
