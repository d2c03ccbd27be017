"""A bus inside the test: entities and messages, looked at and taken out without a client."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from tandem.amqp import Message, Modified
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.terminus import Source
from tandem.amqp.types import Symbol, Timestamp
from tandem.driver import Client
from tandem.errors import ArgumentError, NotFound, RemoteError, StateError, UsageError
from tandem.testing import Bus, BusMessage


def texts(messages: list[BusMessage]) -> list[str]:
    return [str(message) for message in messages]


# --- messages -------------------------------------------------------------------------------------------------------


def test_what_is_sent_is_there_with_its_properties(bus: Bus) -> None:
    bus.create_queue("q")
    properties: dict[str, Any] = {
        "message_id": "1",
        "subject": "new",
        "session_id": "s",
        "correlation_id": "c",
        "content_type": "application/json",
        "to": "you",
        "reply_to": "me",
        "reply_to_session_id": "r",
        "partition_key": "s",
        "time_to_live": timedelta(minutes=5),
        "application_properties": {"n": 3, "is_urgent": True},
    }
    bus.send("q", '{"a": 1}', **properties)
    (message,) = bus.messages("q")
    assert {name: getattr(message, name) for name in properties} == properties
    assert (message.body, message.json(), str(message)) == (b'{"a": 1}', {"a": 1}, '{"a": 1}')
    assert (message.sequence_number, message.state, message.delivery_count) == (1, "active", 0)
    assert abs(message.enqueued_time_utc - datetime.now(UTC)) < timedelta(minutes=1)
    assert (message.dead_letter_reason, message.dead_letter_error_description, message.dead_letter_source) == (
        None,
    ) * 3


def test_a_scheduled_message_says_for_when(bus: Bus) -> None:
    bus.create_queue("q")
    moment = datetime(2099, 1, 1, 12, tzinfo=UTC)
    bus.send("q", b"later", scheduled_enqueue_time_utc=moment)
    (message,) = bus.messages("q")
    assert (message.state, message.scheduled_enqueue_time_utc) == ("scheduled", moment)


@pytest.mark.parametrize(
    "value, body", [("text", b"text"), ({"a": [1, 2]}, b'{"a": [1, 2]}'), (True, b"true")], ids=repr
)
async def test_a_body_that_is_no_bytes_reads_as_text_or_json(
    bus: Bus, client: Client, value: object, body: bytes
) -> None:
    bus.create_queue("q")
    await (await client.sender("q")).send(encode_message(value=value))
    assert [message.body for message in bus.messages("q")] == [body]


def test_everything_is_seen_however_much_it_is_and_in_partitions_too(bus: Bus) -> None:
    for name, is_partitioned in (("q", False), ("p", True)):
        bus.create_queue(name, enable_partitioning=is_partitioned)
        for number in range(300):
            bus.send(name, str(number))
        assert texts(bus.messages(name)) == [str(number) for number in range(300)]
        assert len(bus.receive_all(name)) == 300
        assert bus.messages(name) == []


async def test_receive_all_takes_what_is_free_and_leaves_the_rest(bus: Bus, client: Client) -> None:
    bus.create_queue("q")
    receiver = await client.receiver("q", credit=0)
    for text in ("deferred", "locked", "free", "free too"):
        bus.send("q", text)
    bus.send("q", "later", scheduled_enqueue_time_utc=datetime.now(UTC) + timedelta(hours=1))
    await receiver.drain(2)
    deferred = await receiver.receive()
    await receiver.receive()
    await receiver.confirm(deferred, Modified(undeliverable_here=True))
    assert texts(bus.receive_all("q")) == ["free", "free too"]
    assert [(str(one), one.state) for one in bus.messages("q")] == [
        ("deferred", "deferred"),
        ("locked", "active"),
        ("later", "scheduled"),
    ]


async def test_receive_all_takes_the_messages_of_all_sessions_that_nobody_holds(bus: Bus, client: Client) -> None:
    bus.create_queue("q", requires_session=True)
    await client.receiver(Source("q", filter={Symbol("com.microsoft:session-filter"): "held"}), credit=0)
    for number, session_id in enumerate(["a", "held", "b", "a"]):
        bus.send("q", str(number), session_id=session_id)
    assert [(str(one), one.session_id) for one in bus.receive_all("q")] == [("0", "a"), ("2", "b"), ("3", "a")]
    assert texts(bus.messages("q")) == ["1"]


def test_a_topic_places_copies_by_rules_in_sql_and_in_full(bus: Bus) -> None:
    bus.create_topic("t")
    bus.create_subscription("t", "all")
    bus.create_subscription("t", "none", rules=[])
    bus.create_subscription("t", "some", rules=["n > 1", "n = -1"])
    by_label = {
        "name": "by-label",
        "filter": {"kind": "correlation", "label": "x"},
        "action": {"expression": "SET n = 9"},
    }
    bus.create_subscription("t", "labelled", rules=[by_label])
    for number in (-1, 1, 2):
        bus.send("t", str(number), subject="x" if number == 1 else None, application_properties={"n": number})
    assert texts(bus.messages("t/Subscriptions/all")) == ["-1", "1", "2"]
    assert texts(bus.messages("t/Subscriptions/none")) == []
    assert texts(bus.messages("t/subscriptions/some")) == ["-1", "2"]
    assert [one.application_properties["n"] for one in bus.receive_all("t/Subscriptions/labelled")] == [9]


# --- mistakes of the test -------------------------------------------------------------------------------------------


def test_a_mistake_in_a_test_is_named(bus: Bus) -> None:
    bus.create_queue("q")
    with pytest.raises(UsageError, match="no queue and no topic 'missing'"):
        bus.send("missing", "x")
    with pytest.raises(NotFound, match="missing"):
        bus.messages("missing")
    with pytest.raises(ArgumentError, match="lock_duration_s"):
        bus.create_queue("p", lock_duration_s=5)
    with pytest.raises(UsageError, match="no entity 'missing' to break"):
        bus.break_sends("missing")
    with pytest.raises(UsageError, match="forward only"):
        bus.clock.advance(seconds=-1)


# --- life -----------------------------------------------------------------------------------------------------------


def test_a_bus_leaves_nothing_behind_and_says_when_it_does_not_run() -> None:
    bus = Bus()
    with pytest.raises(StateError, match="does not run"):
        bus.create_queue("q")
    with bus:
        with pytest.raises(StateError, match="started already"):
            bus.start()
        assert Path(bus.ca_path).is_file()
        folder = Path(bus.ca_path).parents[1]
    assert not folder.exists()
    bus.close()
    with pytest.raises(StateError, match="does not run"):
        _ = bus.connection_string


# --- an entity that is gone -----------------------------------------------------------------------------------------


async def test_a_sender_that_outlived_its_queue_does_not_lose_messages_in_the_old_one(bus: Bus, client: Client) -> None:
    kept = bus.take_stock()
    bus.create_queue("q")
    sender = await client.sender("q")
    requests = await client.sender("q/$management")
    responses = await client.receiver("q/$management")
    bus.clean(kept)
    bus.create_queue("q")
    outcome = await sender.send(encode_message(data=b"x"))
    assert "amqp:not-found" in repr(outcome)
    await requests.send(_schedule_request())
    answer = Message((await responses.receive()).payload)
    assert (answer.application_properties or {})["statusCode"] == 200
    assert texts(bus.messages("q")) == ["scheduled"]
    assert await (await client.sender("q")).send(encode_message(data=b"x"))
    assert sorted(texts(bus.messages("q"))) == ["scheduled", "x"]


def _schedule_request() -> bytes:
    tomorrow = Timestamp(int(time.time() * 1000) + 86_400_000)
    message = encode_message(data=b"scheduled", message_annotations={"x-opt-scheduled-enqueue-time": tomorrow})
    return encode_message(
        properties=Properties(message_id="1"),
        application_properties={"operation": "com.microsoft:schedule-message"},
        value={"messages": [{"message": message, "message-id": "1"}]},
    )


async def test_a_client_is_refused_an_entity_of_another_test(bus: Bus, client: Client) -> None:
    with pytest.raises(RemoteError, match="not-found"):
        await client.sender("q")


# --- the official clients -------------------------------------------------------------------------------------------


def test_the_official_administration_client_is_let_in(bus: Bus) -> None:
    with ServiceBusAdministrationClient.from_connection_string(
        bus.admin_connection_string, connection_verify=bus.ca_path
    ) as admin:
        admin.create_queue("q")
        bus.send("q", "x")
        assert admin.get_queue_runtime_properties("q").active_message_count == 1


def test_settings_may_have_times_written_for_people(bus: Bus) -> None:
    bus.create_queue("q", lock_duration="30s", default_message_time_to_live="1m")
    bus.create_topic("t", auto_delete_on_idle="1h")
    bus.create_subscription("t", "s", lock_duration="5m")
    with pytest.raises(ArgumentError, match="lock_duration and lock_duration_ms are the same setting"):
        bus.create_queue("r", lock_duration="30s", lock_duration_ms=30_000)
    bus.send("q", b"short-lived")
    bus.clock.advance(seconds=61)
    assert bus.messages("q") == []
