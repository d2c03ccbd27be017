"""What a message looks like to a client, byte by byte, where the official Python SDK does not show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tandem.amqp import Message, Modified
from tandem.amqp.message import BodyKind, Properties, encode_message
from tandem.amqp.types import Timestamp
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
