"""The body of a message as the type that a program asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from tandem.amqp.message import encode_message
from tandem.client import BrokeredMessage, EventData
from tandem.errors import UsageError
from tests.markers import mission


@dataclass
class Order:
    item: str
    amount: int


class Line(msgspec.Struct):
    item: str
    amount: int = 1


class Price(TypedDict):
    euros: float


def received(body: bytes | str) -> BrokeredMessage:
    return BrokeredMessage.from_payload(BrokeredMessage(body).to_payload())


def valued(value: object) -> BrokeredMessage:
    """A message whose body another client wrote as one AMQP value."""
    return BrokeredMessage.from_payload(encode_message(value=value))


@mission("M5")
@pytest.mark.parametrize("make", [BrokeredMessage, received])
def test_a_body_is_bytes_or_text(make: Any) -> None:
    assert make("für").get_body() == "für".encode()
    assert make("für").get_body(bytes) == "für".encode()
    assert make("für").get_body(str) == "für"
    assert make(b"").get_body(str) == ""


@pytest.mark.parametrize(
    "body, kind, expected",
    [
        ('{"item": "lamp", "amount": 2}', dict, {"item": "lamp", "amount": 2}),
        ('{"item": "lamp", "amount": 2}', Order, Order("lamp", 2)),
        ('{"item": "lamp"}', Line, Line("lamp", 1)),
        ('{"euros": 4.5}', Price, {"euros": 4.5}),
        ("[1, 2]", list[int], [1, 2]),
        ("7", int, 7),
        ("true", bool, True),
    ],
)
def test_a_body_of_json_is_read_as_any_type(body: str, kind: type[object], expected: object) -> None:
    assert received(body).get_body(kind) == expected


@pytest.mark.parametrize(
    "value, kind, expected",
    [
        ("text", str, "text"),
        ("text", bytes, b"text"),
        (b"raw", bytes, b"raw"),
        (None, bytes, b""),
        ({"item": "lamp", "amount": 2}, Order, Order("lamp", 2)),
        ({"item": "lamp", "amount": 2}, dict, {"item": "lamp", "amount": 2}),
        ([1, 2], list, [1, 2]),
        (7, int, 7),
    ],
)
def test_a_body_that_is_an_amqp_value_is_converted(value: object, kind: type[object], expected: object) -> None:
    assert valued(value).get_body(kind) == expected


@pytest.mark.parametrize(
    "message, kind, reason",
    [
        (received("{"), dict, "truncated"),
        (received('{"item": "lamp"}'), Order, "amount"),
        (received('{"item": "lamp", "amount": "two"}'), Order, r"\$\.amount"),
        (received(b"\xff"), str, "utf-8"),
        (received("7"), pytest.Item, "Item"),
        (valued({"a": 1}), bytes, "not bytes"),
        (valued({"a": 1}), str, "str"),
    ],
)
def test_a_body_of_another_type_is_an_error_that_names_the_message_and_the_reason(
    message: BrokeredMessage, kind: type[object], reason: str
) -> None:
    with pytest.raises(UsageError, match=rf"the body of BrokeredMessage\(.*{reason}"):
        message.get_body(kind)


@pytest.mark.parametrize("kind", [BrokeredMessage, EventData])
@pytest.mark.parametrize("body", [{"item": "lamp"}, None, 5, bytearray(b"raw")])
def test_a_body_that_is_neither_bytes_nor_text_is_refused_when_it_is_passed(kind: Any, body: object) -> None:
    with pytest.raises(UsageError, match=rf"body is a {type(body).__name__}; it must be bytes or str"):
        kind(body)


def test_a_body_that_is_neither_bytes_nor_text_is_refused_when_it_is_set() -> None:
    message: Any = BrokeredMessage("kept")
    with pytest.raises(UsageError, match="body is a dict"):
        message.body = {"item": "lamp"}
    assert message.body == b"kept"
