"""What a message looks like to a client, byte by byte, where the official Python SDK does not show it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, cast

import pytest

from tandem.amqp import AmqpError, Message, Modified, Rejected
from tandem.amqp.message import BodyKind, Properties, encode_message
from tandem.amqp.types import (
    LONG_TYPE,
    UUID_TYPE,
    Array,
    Char,
    Decimal128,
    Described,
    Int,
    Symbol,
    Timestamp,
    UInt,
    ULong,
)
from tests.server.test_broker import connect, make_queue, manage, running


async def peeked(client: Any, queue: str, **body: object) -> Message:
    """The first message, as peek-message answers with it."""
    answer = await manage(client, queue, "peek-message", {"message-count": 1, **body})
    assert answer.application_properties["statusCode"] == 200
    (entry,) = cast("list[dict[str, bytes]]", answer.value["messages"])
    return Message(entry["message"])


@pytest.mark.parametrize(
    "body",
    [{"data": [b"one", b"two"]}, {"sequence": [1]}, {"value": "text"}, {}],
    ids=["data", "sequence", "value", "none"],
)
async def test_peeking_may_leave_out_the_body(tmp_path: Path, body: dict[str, Any]) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            sender = await client.sender("q")
            await sender.send(
                encode_message(
                    message_annotations={"x-opt-mine": "a"},
                    properties=Properties(message_id="id"),
                    application_properties={"b": 1},
                    footer={"x-opt-foot": "c"},
                    **body,
                )
            )
            whole = await peeked(client, "q")
            bodiless = await peeked(client, "q", **{"omit-message-body": True})
            again = await peeked(client, "q", **{"omit-message-body": False})
    assert bodiless.body_kind is BodyKind.NONE
    assert again.payload == whole.payload
    for section in ("header", "message_annotations", "properties", "application_properties", "footer"):
        assert getattr(bodiless, section) == getattr(whole, section)


async def test_a_message_that_was_scheduled_says_so_until_it_is_deferred(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            sender, receiver = await client.sender("q"), await client.receiver("q")
            due = Timestamp(broker.namespace.now_ms + 200)
            annotations = {"x-opt-scheduled-enqueue-time": due, "x-opt-message-state": 7}
            await sender.send(encode_message(message_annotations=annotations, data=b"x"))
            scheduled = await peeked(client, "q")
            delivery = await receiver.receive()
            received = Message(delivery.payload)
            receiver.settle(delivery, Modified(undeliverable_here=True))
            deferred = await peeked(client, "q")
    assert [_states(one) for one in (scheduled, received, deferred)] == [[2], [2], [1]]


async def test_a_message_whose_scheduled_time_is_past_is_an_active_one(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            sender, receiver = await client.sender("q"), await client.receiver("q")
            annotations = {"x-opt-scheduled-enqueue-time": Timestamp(broker.namespace.now_ms)}
            await sender.send(encode_message(message_annotations=annotations, data=b"x"))
            received = Message((await receiver.receive()).payload)
    assert _states(received) == []


def _states(message: Message) -> list[object]:
    """The values of x-opt-message-state. The key must not be in the section twice, which a decoded map would hide."""
    states = [value for key, value in (message.message_annotations or {}).items() if key == "x-opt-message-state"]
    assert message.sections.raw(0x72).count(b"x-opt-message-state") == len(states)
    return states


# As .NET clients write a DateTime, a TimeSpan, a Guid, a decimal and so on.
VALUES: list[object] = [
    Timestamp(1_767_323_045_678),
    Described(Symbol("com.microsoft:timespan"), 36_000_000_000),
    uuid.UUID(int=7),
    Decimal128(bytes.fromhex("0c3e000000000000000000000000000f")),
    Int(5),
    ULong(5),
    Char("c"),
    True,
    1.5,
    b"bytes",
    "text",
    None,
]
SETTLEMENTS = ["abandon", "defer", "dead-letter", "dead-letter by management", "abandon by management"]


@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_properties_to_modify_keep_their_types(tmp_path: Path, settlement: str) -> None:
    names = [f"p{number}" for number in range(len(VALUES))]
    changes: dict[object, object] = {Symbol(name): value for name, value in zip(names, VALUES, strict=True)}
    properties = await _settled(tmp_path, settlement, changes)
    assert_same_types({name: properties[name] for name in names}, dict(zip(names, VALUES, strict=True)))


@pytest.mark.parametrize("settlement", ["dead-letter", "dead-letter by management"])
@pytest.mark.parametrize("value", [value for value in VALUES if value is not None], ids=repr)
async def test_the_reason_of_a_dead_letter_keeps_its_type(tmp_path: Path, settlement: str, value: object) -> None:
    reason: dict[object, object] = {Symbol("DeadLetterReason"): value, Symbol("DeadLetterErrorDescription"): value}
    properties = await _settled(tmp_path, settlement, {}, reason)
    assert_same_types(properties, {"DeadLetterReason": value, "DeadLetterErrorDescription": value})


async def test_a_reason_that_is_null_is_no_reason(tmp_path: Path) -> None:
    assert await _settled(tmp_path, "dead-letter", {}, {Symbol("DeadLetterReason"): None}) == {}


def assert_same_types(found: dict[str, object], expected: dict[str, object]) -> None:
    assert found == expected
    assert {name: type(value) for name, value in found.items()} == {name: type(expected[name]) for name in expected}


async def _settled(
    folder: Path, settlement: str, changes: dict[object, object], reason: dict[object, object] | None = None
) -> dict[str, object]:
    """The application properties of a message after a settlement with these."""
    async with running(folder) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            sender, receiver = await client.sender("q"), await client.receiver("q")
            await sender.send(encode_message(data=b"x"))
            delivery = await receiver.receive()
            if settlement.endswith("by management"):
                body: dict[str, object] = {
                    "disposition-status": "abandoned" if settlement.startswith("abandon") else "suspended",
                    "lock-tokens": Array(UUID_TYPE, [uuid.UUID(bytes_le=delivery.delivery_tag)]),
                    "properties-to-modify": changes,
                }
                if reason is not None:
                    body["deadletter-reason"] = reason["DeadLetterReason"]
                    body["deadletter-description"] = reason["DeadLetterErrorDescription"]
                answer = await manage(client, "q", "update-disposition", body)
                assert answer.application_properties["statusCode"] == 200
            elif settlement == "dead-letter":
                error = AmqpError("com.microsoft:dead-letter", None, {**changes, **(reason or {})})
                receiver.settle(delivery, Rejected(error))
            else:
                receiver.settle(delivery, Modified(True, settlement == "defer", changes))
            source = "q/$deadletterqueue" if settlement.startswith("dead-letter") else "q"
            return (await peeked(client, source)).application_properties or {}


async def test_a_peeked_deferred_message_says_until_when_it_is_locked(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            sender, receiver = await client.sender("q"), await client.receiver("q")
            await sender.send(encode_message(data=b"x"))
            delivery = await receiver.receive()
            locked = await peeked(client, "q")
            receiver.settle(delivery, Modified(undeliverable_here=True))
            before_ms = broker.namespace.now_ms
            free = await peeked(client, "q")
            body: dict[str, object] = {"sequence-numbers": Array(LONG_TYPE, [1]), "receiver-settle-mode": UInt(1)}
            answer = await manage(client, "q", "receive-by-sequence-number", body)
            (entry,) = answer.value["messages"]
            held = await peeked(client, "q")
    assert _locked_until(locked) is None
    ended = _locked_until(free)
    assert isinstance(ended, Timestamp)
    assert before_ms <= ended <= broker.namespace.now_ms
    assert _locked_until(held) == _locked_until(Message(entry["message"]))


def _locked_until(message: Message) -> object:
    return (message.message_annotations or {}).get("x-opt-locked-until")
