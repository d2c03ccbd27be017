"""The tour of `queue_tour.py` with the asyncio client of the official Python SDK.

    .venv/bin/python examples/queue_tour_aio.py --connection-string "$(tandem connection-string --dev)"

The queues, the options and the expectations are the same; see there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    OperationTimeoutError,
    ServiceBusAuthorizationError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

# A script finds what is in its own folder, not the package that the folder is.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from examples.queue_tour import (
    APPLICATION_PROPERTIES,
    AT_ONCE,
    AUTO_RENEWED_LOCK_MS,
    FAR_S,
    GRACE_S,
    MESSAGE_IDS,
    PATIENCE_S,
    RENEWAL_S,
    SHORT_LOCK_MS,
    SILENCE_S,
    SOON_S,
    TARGET,
    annotated_message,
    assert_annotated,
    authentication_error,
    client_options,
    extend_socket_timeout,
    known,
    longest_first,
    numbered,
    parse_arguments,
    refused,
    seconds_past,
    text,
    texts,
    with_wrong_key,
)


class Queue:
    """The queue of a feature, with a client of its own and short forms of what every feature does."""

    def __init__(self, arguments: argparse.Namespace, name: str) -> None:
        self.arguments = arguments
        self.name = name
        self.client = self.connect(arguments.connection_string)

    async def __aenter__(self) -> Queue:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.close()

    def connect(self, connection_string: str) -> ServiceBusClient:
        options = client_options(connection_string, self.arguments.transport, self.arguments.ca)
        # What is refused here is refused for good: retries would only cost time.
        client = ServiceBusClient.from_connection_string(**options, retry_total=0)
        extend_socket_timeout(client, options)
        return client

    @property
    def target(self) -> Queue:
        """Where the queue forwards to."""
        return Queue(self.arguments, self.name + TARGET)

    def sender(self) -> ServiceBusSender:
        return self.client.get_queue_sender(self.name)

    async def send(self, *messages: ServiceBusMessage | AmqpAnnotatedMessage) -> None:
        """Each on its own, in order."""
        async with self.sender() as sender:
            for message in messages:
                await sender.send_messages(message)

    def receiver(self, **options: Any) -> ServiceBusReceiver:
        return self.client.get_queue_receiver(self.name, **options)

    def dead_letters(self) -> ServiceBusReceiver:
        return self.receiver(sub_queue=ServiceBusSubQueue.DEAD_LETTER)

    async def drain(self, count: int, **options: Any) -> list[ServiceBusReceivedMessage]:
        """Exactly this many messages, in receive-and-delete mode: nothing is left behind them."""
        async with self.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, **options) as receiver:
            drained = await take(receiver, count)
            await assert_empty(receiver)
        return drained

    async def sessions(self, **options: Any) -> list[str]:
        return [session async for session in self.client.list_queue_sessions(self.name, **options)]


async def take(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """This many messages, however many calls it takes."""
    taken: list[ServiceBusReceivedMessage] = []
    while len(taken) < count:
        batch = await receiver.receive_messages(count - len(taken), PATIENCE_S)
        assert batch, f"{len(taken)} of {count} messages came in {PATIENCE_S} s"
        taken += batch
    return taken


async def take_one(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    (message,) = await take(receiver, 1)
    return message


async def complete(receiver: ServiceBusReceiver, messages: list[ServiceBusReceivedMessage]) -> None:
    for message in messages:
        await receiver.complete_message(message)


async def assert_silent(receiver: ServiceBusReceiver) -> None:
    """Nothing comes, although something may be there: locked, deferred or in another session."""
    unexpected = await receiver.receive_messages(1, SILENCE_S)
    assert not unexpected, f"nothing should come, but {text(unexpected[0])!r} did"


async def assert_empty(receiver: ServiceBusReceiver) -> None:
    """Nothing is there in any state: active, locked, scheduled or deferred."""
    left = await receiver.peek_messages(10, sequence_number=1)
    assert not left, f"nothing should be left, but there is {[(message.state.name, str(message)) for message in left]}"


Feature = Callable[[Queue], Awaitable[str]]
# By the name of the feature, which is that of its queue.
FEATURES: dict[str, Feature] = {}
SETTINGS: dict[str, dict[str, Any]] = {}


def feature(**settings: Any) -> Callable[[Feature], Feature]:
    """A stop of the tour: named by the function, which returns what was seen. Its queue is made with these settings."""

    def add(function: Feature) -> Feature:
        name = function.__name__.replace("_", "-")
        FEATURES[name] = function
        SETTINGS[name] = settings
        return function

    return add


# --- sending ----------------------------------------------------------------------------------------------------------


@feature()
async def send_one_message(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("hello"))
    (message,) = await queue.drain(1)
    assert text(message) == "hello"
    assert not message.time_to_live
    return f"sequence number {message.sequence_number}, enqueued at {message.enqueued_time_utc}"


@feature()
async def send_a_list_of_messages(queue: Queue) -> str:
    async with queue.sender() as sender:
        await sender.send_messages(numbered(50))
    received = await queue.drain(50)
    assert [text(message) for message in received] == texts(50)
    return f"{len(received)} messages came in the order of the list"


@feature()
async def send_a_batch_that_is_filled_to_the_brim(queue: Queue) -> str:
    async with queue.sender() as sender:
        batch = await sender.create_message_batch()
        with contextlib.suppress(MessageSizeExceededError):
            while True:
                batch.add_message(ServiceBusMessage(b"x" * 4_000))
        await sender.send_messages(batch)
    assert len(batch) > 50
    await queue.drain(len(batch))
    return f"{len(batch)} messages of 4 kB in {batch.size_in_bytes} of {batch.max_size_in_bytes} bytes"


@feature(max_message_size_in_kilobytes=1_024)
async def send_a_message_of_many_frames(queue: Queue) -> str:
    body = bytes(range(256)) * 3_900
    await queue.send(ServiceBusMessage(body))
    async with queue.receiver() as receiver:
        message = await take_one(receiver)
        await receiver.complete_message(message)
    assert b"".join(message.body) == body
    return f"{len(body)} bytes came back as they were"


@feature()
async def a_message_that_is_too_large_is_refused(queue: Queue) -> str:
    with refused(MessageSizeExceededError) as seen:
        await queue.send(ServiceBusMessage(b"x" * 300_000))
    return f"300,000 bytes: {seen[0]}"


@feature(max_size_in_megabytes=1)
async def a_full_queue_refuses_and_takes_again_when_there_is_room(queue: Queue) -> str:
    sent = 0
    async with queue.sender() as sender:
        with refused(ServiceBusQuotaExceededError) as seen:
            while sent < 20:
                await sender.send_messages(ServiceBusMessage(b"x" * 200_000))
                sent += 1
        await queue.drain(sent)
        await sender.send_messages(ServiceBusMessage("there is room"))
    (message,) = await queue.drain(1)
    assert text(message) == "there is room"
    return f"{seen[0]} after {sent} messages of 200 kB in 1 MB"


# --- receiving --------------------------------------------------------------------------------------------------------


@feature()
async def peek_lock_and_complete(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("work"))
    async with queue.receiver() as receiver:
        message = await take_one(receiver)
        assert isinstance(message.lock_token, uuid.UUID)
        assert message.locked_until_utc is not None
        lock_s = (message.locked_until_utc - datetime.now(UTC)).total_seconds()
        await assert_silent(receiver)
        await receiver.complete_message(message)
        await assert_empty(receiver)
    return f"locked for {lock_s:.0f} s, unseen by others meanwhile, gone when completed"


@feature()
async def receive_and_delete(queue: Queue) -> str:
    await queue.send(*numbered(3))
    async with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        messages = await take(receiver, 3)
        assert all(message.lock_token is None for message in messages)
        await assert_empty(receiver)
    return "3 messages, gone as they were handed out"


@feature()
async def competing_consumers(queue: Queue) -> str:
    await queue.send(*numbered(10))
    async with queue.receiver() as first, queue.receiver() as second:
        ours, theirs = await take(first, 5), await take(second, 5)
        await complete(first, ours)
        await complete(second, theirs)
    assert sorted(map(text, ours + theirs)) == sorted(texts(10))
    return "10 messages: 5 to each of two receivers, none twice"


@feature()
async def abandon(queue: Queue) -> str:
    await queue.send(*numbered(2))
    async with queue.receiver() as receiver:
        first = await take_one(receiver)
        await receiver.abandon_message(first)
        again = await take(receiver, 2)
        await complete(receiver, again)
    assert [text(message) for message in again] == texts(2)
    assert first.delivery_count == 0
    assert again[0].delivery_count == 1
    assert again[1].delivery_count == 0
    assert again[0].sequence_number == first.sequence_number
    return "back at the head of the queue, delivery count 0, then 1"


@feature()
async def defer_and_receive_by_sequence_number(queue: Queue) -> str:
    await queue.send(*numbered(2))
    async with queue.receiver() as receiver:
        deferred = await take(receiver, 2)
        numbers = [message.sequence_number or 0 for message in deferred]
        for message in deferred:
            await receiver.defer_message(message)
        await assert_silent(receiver)
        peeked = await receiver.peek_messages(2, sequence_number=numbers[0])
        assert [message.state for message in peeked] == [ServiceBusMessageState.DEFERRED] * 2
        received = await receiver.receive_deferred_messages(numbers)
        assert [text(message) for message in received] == texts(2)
        assert received[0].lock_token
        assert received[0].locked_until_utc
        await complete(receiver, received)
        with refused(MessageNotFoundError) as seen:
            await receiver.receive_deferred_messages(numbers)
    return f"sequence numbers {numbers} received, completed, and then {seen[0]}"


@feature()
async def deferred_messages_in_receive_and_delete_mode(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("later"))
    async with queue.receiver() as receiver:
        message = await take_one(receiver)
        await receiver.defer_message(message)
    async with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        (received,) = await receiver.receive_deferred_messages(message.sequence_number or 0)
        assert text(received) == "later"
        with refused(MessageNotFoundError) as seen:
            await receiver.receive_deferred_messages(message.sequence_number or 0)
    return f"received once, then {seen[0]}"


@feature()
async def dead_letter_with_a_reason(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("bad", application_properties={"attempt": 1}))
    async with queue.receiver() as receiver:
        message = await take_one(receiver)
        await receiver.dead_letter_message(message, reason="unreadable", error_description="not JSON")
        await assert_empty(receiver)
    async with queue.dead_letters() as receiver:
        dead = await take_one(receiver)
        assert dead.dead_letter_reason == "unreadable"
        assert dead.dead_letter_error_description == "not JSON"
        assert (dead.application_properties or {})[b"attempt"] == 1
        assert dead.sequence_number == message.sequence_number
        await receiver.complete_message(dead)
        await assert_empty(receiver)
    return f"{dead.dead_letter_reason!r}, {dead.dead_letter_error_description!r}, received from the dead-letter queue"


@feature(lock_duration_ms=SHORT_LOCK_MS)
async def renew_a_lock(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("slow work"))
    async with queue.receiver() as receiver:
        message = await take_one(receiver)
        ends = [known(message.locked_until_utc)]
        while seconds_past(ends[0]) > GRACE_S:
            await asyncio.sleep(RENEWAL_S)
            ends.append(await receiver.renew_message_lock(message))
            assert ends[-1] > ends[-2]
        await receiver.complete_message(message)
        await assert_empty(receiver)
    return f"a lock of 10 s, renewed {len(ends) - 1} times and extended by {(ends[-1] - ends[0]).total_seconds():.2f} s"


@feature(lock_duration_ms=SHORT_LOCK_MS)
async def a_lock_that_expires_brings_the_message_back(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("lost work", message_id="lost"))
    async with queue.receiver() as receiver:
        message = await take_one(receiver)
        again = await take_one(receiver)
        with refused(MessageLockLostError) as seen:
            await receiver.renew_message_lock(message)
        await receiver.complete_message(again)
    assert again.message_id == "lost"
    assert (message.delivery_count, again.delivery_count) == (0, 1)
    assert again.enqueued_time_utc == message.enqueued_time_utc
    assert again.lock_token != message.lock_token
    return f"the same message id with delivery count 1; the old lock: {seen[0]}"


@feature(max_delivery_count=3)
async def too_many_deliveries_lead_to_the_dead_letter_queue(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("poison"))
    counts: list[int | None] = []
    async with queue.receiver() as receiver:
        for _ in range(3):
            message = await take_one(receiver)
            counts.append(message.delivery_count)
            await receiver.abandon_message(message)
        await assert_empty(receiver)
    async with queue.dead_letters() as receiver:
        dead = await take_one(receiver)
        await receiver.complete_message(dead)
    assert counts == [0, 1, 2]
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    return f"{dead.dead_letter_reason}: {dead.dead_letter_error_description}"


@feature(dead_lettering_on_message_expiration=True)
async def a_message_that_expires_is_dead_lettered(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("milk", time_to_live=timedelta(seconds=1)), ServiceBusMessage("honey"))
    async with queue.dead_letters() as receiver:
        dead = await take_one(receiver)
        await receiver.complete_message(dead)
    assert dead.dead_letter_reason == "TTLExpiredException"
    assert dead.time_to_live == timedelta(seconds=1)
    assert [text(message) for message in await queue.drain(1)] == ["honey"]
    return f"{dead.dead_letter_reason}: {dead.dead_letter_error_description}"


@feature(default_message_time_to_live_ms=1_000)
async def the_time_to_live_of_a_queue_bounds_that_of_its_messages(queue: Queue) -> str:
    sent = time.monotonic()
    await queue.send(ServiceBusMessage("milk", time_to_live=timedelta(hours=1)))
    async with queue.receiver() as receiver:
        deadline = sent + PATIENCE_S
        while await receiver.peek_messages(1, sequence_number=1):
            assert time.monotonic() < deadline, "the message outlived the queue's limit of 1 s"
            await asyncio.sleep(0.2)
        gone_s = time.monotonic() - sent
        await assert_silent(receiver)
    assert gone_s >= 1
    return f"an hour became one second: the message was gone after {gone_s:.2f} s"


@feature()
async def schedule_and_cancel(queue: Queue) -> str:
    async with queue.sender() as sender, queue.receiver() as receiver:
        far = datetime.now(UTC) + timedelta(seconds=FAR_S)
        first, second = await sender.schedule_messages(numbered(2), far)
        states = [message.state for message in await receiver.peek_messages(2, sequence_number=first)]
        assert states == [ServiceBusMessageState.SCHEDULED] * 2
        await sender.cancel_scheduled_messages(second)
        with refused(MessageNotFoundError) as seen:
            await sender.cancel_scheduled_messages(second)
        assert [text(message) for message in await receiver.peek_messages(2, sequence_number=first)] == ["message 0"]
        await sender.cancel_scheduled_messages(first)
        await assert_empty(receiver)
        due = (datetime.now(UTC) + timedelta(seconds=SOON_S)).replace(microsecond=0)
        await sender.schedule_messages(ServiceBusMessage("kept"), due)
        message = await take_one(receiver)
        late_s = (datetime.now(UTC) - due).total_seconds()
        await receiver.complete_message(message)
        await assert_empty(receiver)
    assert text(message) == "kept"
    assert message.scheduled_enqueue_time_utc == due
    assert late_s >= 0
    assert message.enqueued_time_utc is not None
    assert message.enqueued_time_utc >= due
    return f"one came {late_s * 1000:.0f} ms after its time, two were cancelled; again: {seen[0]}"


@feature()
async def schedule_with_a_property_of_the_message(queue: Queue) -> str:
    past = datetime.now(UTC) - timedelta(hours=1)
    async with queue.receiver() as receiver:
        await queue.send(ServiceBusMessage("now", scheduled_enqueue_time_utc=past))
        first = await take_one(receiver)
        await receiver.complete_message(first)
        due = datetime.now(UTC) + timedelta(seconds=SOON_S)
        await queue.send(ServiceBusMessage("later", scheduled_enqueue_time_utc=due))
        second = await take_one(receiver)
        assert datetime.now(UTC) >= due
        await receiver.complete_message(second)
    assert (text(first), text(second)) == ("now", "later")
    return "what was due in the past came at once, what was due in two seconds came then"


@feature(requires_duplicate_detection=True)
async def duplicates_are_accepted_and_dropped(queue: Queue) -> str:
    # Ids of this run: those of an earlier one may still be remembered.
    run = uuid.uuid4().hex
    await queue.send(*(ServiceBusMessage(f"id {name}", message_id=run + name) for name in "abaab"))
    async with queue.sender() as sender:
        await sender.send_messages([ServiceBusMessage(f"id {name}", message_id=run + name) for name in "bcc"])
    received = [text(message) for message in await queue.drain(3)]
    assert received == ["id a", "id b", "id c"]
    return f"8 sent, {len(received)} received: {received}"


@feature()
async def peek(queue: Queue) -> str:
    await queue.send(*numbered(10))
    async with queue.receiver() as receiver:
        locked = await take_one(receiver)
        first = locked.sequence_number or 0
        peeked = await receiver.peek_messages(5, sequence_number=first)
        assert [text(message) for message in peeked] == texts(5)
        assert [text(message) for message in await receiver.peek_messages(100)] == texts(10)[5:]
        tail = await receiver.peek_messages(100, sequence_number=first + 8)
        assert [text(message) for message in tail] == texts(10)[8:]
        assert not await receiver.peek_messages(1, sequence_number=first + 10)
        await receiver.complete_message(locked)
    await queue.drain(9)
    return "5 from the first, the next 5, 2 from the ninth; a locked one too; nothing was taken"


@feature()
async def prefetch(queue: Queue) -> str:
    await queue.send(*numbered(20))
    async with queue.receiver(prefetch_count=20) as receiver:
        messages = await take(receiver, 5)
        await complete(receiver, messages)
    async with queue.receiver() as receiver:
        rest = await take(receiver, 15)
        await complete(receiver, rest)
    assert [text(message) for message in messages + rest] == texts(20)
    assert all(message.delivery_count == 0 for message in rest)
    return "5 of 20 used, 15 given back at the end, in order and without a higher delivery count"


@feature()
async def max_wait_time(queue: Queue) -> str:
    async with queue.receiver() as receiver:
        started = time.monotonic()
        assert await receiver.receive_messages(1, max_wait_time=1) == []
        waited_s = time.monotonic() - started
    assert 0.9 < waited_s < PATIENCE_S
    return f"nothing came, and the call said so after {waited_s:.2f} of 1 s"


@feature()
async def iterate_over_a_receiver(queue: Queue) -> str:
    await queue.send(*numbered(5))
    seen: list[str] = []
    async with queue.receiver(max_wait_time=PATIENCE_S) as receiver:
        async for message in receiver:
            seen.append(text(message))
            await receiver.complete_message(message)
            if len(seen) == 5:
                break
    assert seen == texts(5)
    async with queue.receiver(max_wait_time=1) as receiver:
        assert not [message async for message in receiver]
    return f"{len(seen)} messages, and an end when no more came for a second"


@feature(lock_duration_ms=AUTO_RENEWED_LOCK_MS)
async def automatic_renewal_of_a_lock(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("very slow work"))
    async with AutoLockRenewer() as renewer, queue.receiver(auto_lock_renewer=renewer) as receiver:
        message = await take_one(receiver)
        first_end = known(message.locked_until_utc)
        await asyncio.sleep(seconds_past(first_end))
        assert message.auto_renew_error is None
        assert known(message.locked_until_utc) > first_end
        await receiver.complete_message(message)
        await assert_empty(receiver)
    return "a lock of 12 s was held for longer"


# --- what a message carries -------------------------------------------------------------------------------------------


@feature()
async def properties(queue: Queue) -> str:
    fields = {
        "message_id": "id",
        "content_type": "application/json",
        "correlation_id": "correlation",
        "subject": "label",
        "to": "somewhere",
        "reply_to": "elsewhere",
        "reply_to_session_id": "session of the answer",
        "partition_key": "key",
        "time_to_live": timedelta(minutes=5),
    }
    await queue.send(ServiceBusMessage("body", **fields))  # type: ignore[arg-type]  # each has the type of its field
    (message,) = await queue.drain(1)
    assert {name: getattr(message, name) for name in fields} == fields
    assert message.enqueued_time_utc is not None
    assert message.expires_at_utc == message.enqueued_time_utc + timedelta(minutes=5)
    return f"{len(fields)} properties as they were sent"


@feature()
async def application_properties_of_every_type(queue: Queue) -> str:
    sent: dict[str | bytes, Any] = {name: sent for name, (sent, _) in APPLICATION_PROPERTIES.items()}
    await queue.send(ServiceBusMessage("body", application_properties=sent))
    (message,) = await queue.drain(1)
    received = message.application_properties or {}
    assert received == {name.encode(): expected for name, (_, expected) in APPLICATION_PROPERTIES.items()}
    return f"{len(received)} values: {', '.join(APPLICATION_PROPERTIES)}"


@feature()
async def message_ids_of_every_type(queue: Queue) -> str:
    await queue.send(*(AmqpAnnotatedMessage(data_body=b"", properties={"message_id": one}) for one in MESSAGE_IDS))
    received = [message.raw_amqp_message.properties for message in await queue.drain(len(MESSAGE_IDS))]
    ids = [properties.message_id for properties in received if properties is not None]
    # The SDK hands out AMQP strings as bytes.
    assert ids == [b"a string", *MESSAGE_IDS[1:]]
    return f"string, uuid, ulong and binary: {ids}"


@feature()
async def bodies_of_every_kind(queue: Queue) -> str:
    value = {"list": [1, 2.5, None, True], "map": {"a": "b"}}
    sequence = [[1, "two"], [3.0]]
    await queue.send(
        annotated_message(data_body=[b"one", b"two"]),
        annotated_message(value_body=value),
        annotated_message(sequence_body=sequence),
        ServiceBusMessage(None),
    )
    received = await queue.drain(4)
    for message in received[:3]:
        assert_annotated(message)
    data, map_value, lists, nothing = (message.raw_amqp_message for message in received)
    assert data.body_type is AmqpMessageBodyType.DATA
    assert list(data.body) == [b"one", b"two"]
    assert map_value.body_type is AmqpMessageBodyType.VALUE
    assert map_value.body == {b"list": [1, 2.5, None, True], b"map": {b"a": b"b"}}
    assert lists.body_type is AmqpMessageBodyType.SEQUENCE
    assert list(lists.body) == [[1, b"two"], [3.0]]
    assert nothing.body is None
    return "data, value, sequence and none; with header, both annotations and footer as they were sent"


# --- sessions ---------------------------------------------------------------------------------------------------------


@feature(requires_session=True)
async def a_session_is_received_in_order(queue: Queue) -> str:
    both = ("red", "blue")
    await queue.send(*(ServiceBusMessage(f"{name} {n}", session_id=name) for n in range(5) for name in both))
    async with queue.receiver(session_id="blue") as receiver:
        first = await take(receiver, 2)
        await receiver.abandon_message(first[0])
        await receiver.complete_message(first[1])
        rest = await take(receiver, 4)
        await complete(receiver, rest)
        await assert_silent(receiver)
    assert [text(message) for message in rest] == ["blue 0", "blue 2", "blue 3", "blue 4"]
    assert rest[0].delivery_count == 1
    assert {message.session_id for message in rest} == {"blue"}
    assert [text(message) for message in await queue.drain(5, session_id="red")] == [f"red {n}" for n in range(5)]
    return "5 messages of one session, none of the other; the abandoned one came first again"


@feature(requires_session=True)
async def the_next_session_that_is_free(queue: Queue) -> str:
    await queue.send(*(ServiceBusMessage(f"of {session}", session_id=session) for session in ("one", "two")))
    async with (
        queue.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=PATIENCE_S) as first,
        queue.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=PATIENCE_S) as second,
    ):
        ids = [first.session.session_id, second.session.session_id]
        for receiver in (first, second):
            message = await take_one(receiver)
            assert text(message) == f"of {receiver.session.session_id}"
            await receiver.complete_message(message)
    assert sorted(ids) == ["one", "two"]
    return f"two receivers that asked for any session got {ids}"


@feature(requires_session=True)
async def no_session_in_time(queue: Queue) -> str:
    started = time.monotonic()
    with refused(OperationTimeoutError) as seen:
        async with queue.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1):
            pass
    waited_s = time.monotonic() - started
    assert 0.8 < waited_s < PATIENCE_S
    return f"{seen[0]} after {waited_s:.2f} s"


@feature(requires_session=True)
async def the_state_of_a_session(queue: Queue) -> str:
    async with queue.receiver(session_id="stateful") as receiver:
        assert await receiver.session.get_state() is None
        await receiver.session.set_state("half way")
    async with queue.receiver(session_id="stateful") as receiver:
        state = await receiver.session.get_state()
        assert state == b"half way"
        assert await queue.sessions() == ["stateful"]
        await receiver.session.set_state(None)
        assert await receiver.session.get_state() is None
    return f"{state!r}, kept without any message; cleared"


@feature(requires_session=True)
async def list_sessions(queue: Queue) -> str:
    expected = [f"session {number:03}" for number in range(150)]
    async with queue.sender() as sender:
        await sender.send_messages([ServiceBusMessage("x", session_id=session) for session in expected])
    listed = await queue.sessions()
    assert sorted(listed) == expected
    now = datetime.now(UTC)
    async with queue.receiver(session_id=expected[0]) as receiver:
        await receiver.session.set_state(b"changed")
        changed = await queue.sessions(state_updated_after=now)
        await receiver.session.set_state(None)
    assert changed == expected[:1]
    async with queue.receiver(session_id=expected[7]) as receiver:
        await complete(receiver, await take(receiver, 1))
    assert expected[7] not in await queue.sessions()
    return f"{len(listed)} in pages of 100; one with a state set since; one less when its message was completed"


@feature(requires_session=True, lock_duration_ms=SHORT_LOCK_MS)
async def renew_the_lock_of_a_session(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("slow", session_id="renewed"))
    async with queue.receiver(session_id="renewed") as receiver:
        message = await take_one(receiver)
        ends = [known(receiver.session.locked_until_utc)]
        while seconds_past(ends[0]) > GRACE_S:
            await asyncio.sleep(RENEWAL_S)
            ends.append(await receiver.session.renew_lock())
            assert ends[-1] > ends[-2]
        await receiver.complete_message(message)
        await assert_empty(receiver)
    return f"a lock of 10 s, renewed {len(ends) - 1} times and extended by {(ends[-1] - ends[0]).total_seconds():.2f} s"


@feature(requires_session=True)
async def a_session_that_another_receiver_holds(queue: Queue) -> str:
    async with queue.receiver(session_id="mine"):
        with refused(SessionCannotBeLockedError) as seen:
            async with queue.receiver(session_id="mine"):
                pass
    async with queue.receiver(session_id="mine"):
        pass
    return f"{seen[0]}; free again as soon as the holder closed"


@feature(requires_session=True, lock_duration_ms=SHORT_LOCK_MS)
async def a_session_lock_that_expires(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("left behind", session_id="expired"))
    async with queue.receiver(session_id="expired") as receiver:
        message = await take_one(receiver)
        await asyncio.sleep(seconds_past(known(receiver.session.locked_until_utc)))
        with refused(SessionLockLostError) as seen:
            await receiver.complete_message(message)
        async with queue.receiver(session_id="expired") as other:
            again = await take_one(other)
            await other.complete_message(again)
    assert text(again) == "left behind"
    assert again.delivery_count == 1
    return f"{seen[0]}; another receiver got the message with delivery count 1"


@feature(requires_session=True)
async def deferred_dead_lettered_scheduled_and_peeked_in_a_session(queue: Queue) -> str:
    await queue.send(*numbered(2, session_id="all"))
    async with queue.sender() as sender, queue.receiver(session_id="all") as receiver:
        far = datetime.now(UTC) + timedelta(seconds=FAR_S)
        cancelled = await sender.schedule_messages(ServiceBusMessage("cancelled", session_id="all"), far)
        first, second = await take(receiver, 2)
        await receiver.defer_message(first)
        await receiver.dead_letter_message(second, reason="why not")
        peeked = await receiver.peek_messages(10, sequence_number=first.sequence_number or 0)
        states = [message.state.name for message in peeked]
        assert states == ["DEFERRED", "SCHEDULED"], states
        (deferred,) = await receiver.receive_deferred_messages(first.sequence_number or 0)
        await receiver.complete_message(deferred)
        await sender.cancel_scheduled_messages(cancelled)
        soon = datetime.now(UTC) + timedelta(seconds=SOON_S)
        await sender.schedule_messages(ServiceBusMessage("scheduled", session_id="all"), soon)
        scheduled = await take_one(receiver)
        assert datetime.now(UTC) >= soon
        await receiver.complete_message(scheduled)
        await assert_empty(receiver)
    assert text(deferred) == "message 0"
    assert text(scheduled) == "scheduled"
    # The dead-letter queue of a queue with sessions has none.
    async with queue.dead_letters() as receiver:
        dead = await take_one(receiver)
        await receiver.complete_message(dead)
    assert text(dead) == "message 1"
    assert dead.session_id == "all"
    assert dead.dead_letter_reason == "why not"
    return f"peeked {states}; each was received where it belongs"


@feature(requires_session=True, lock_duration_ms=AUTO_RENEWED_LOCK_MS)
async def automatic_renewal_of_a_session_lock(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("very slow work", session_id="slow"))
    async with AutoLockRenewer() as renewer, queue.receiver(session_id="slow", auto_lock_renewer=renewer) as receiver:
        message = await take_one(receiver)
        first_end = known(receiver.session.locked_until_utc)
        await asyncio.sleep(seconds_past(first_end))
        assert receiver.session.auto_renew_error is None
        assert known(receiver.session.locked_until_utc) > first_end
        await receiver.complete_message(message)
        # It would go on while the session is being closed.
        await renewer.close()
    return "a lock of 12 s was held for longer"


@feature(requires_session=True)
async def a_queue_with_sessions_wants_them_from_everybody(queue: Queue) -> str:
    with refused(ServiceBusError) as seen:
        await queue.send(ServiceBusMessage("without a session"))
    with refused(ServiceBusError):
        async with queue.receiver():
            pass
    return f"a message and a receiver without session: {seen[0]}"


@feature()
async def a_queue_without_sessions_has_none(queue: Queue) -> str:
    with refused(ServiceBusError) as seen:
        async with queue.receiver(session_id="none here"):
            pass
    return seen[0]


# --- between queues ---------------------------------------------------------------------------------------------------


@feature(forward_to=TARGET)
async def automatic_forwarding(queue: Queue) -> str:
    await queue.send(*numbered(3))
    async with queue.target.receiver() as receiver:
        messages = await take(receiver, 3)
        await complete(receiver, messages)
    assert [text(message) for message in messages] == texts(3)
    numbers = [message.enqueued_sequence_number or 0 for message in messages]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    return f"3 messages sent to one queue, received from the other, with their first sequence numbers {numbers}"


@feature(forward_dead_lettered_messages_to=TARGET)
async def forwarding_of_dead_letters(queue: Queue) -> str:
    await queue.send(ServiceBusMessage("dead"))
    async with queue.receiver() as receiver:
        await receiver.dead_letter_message(await take_one(receiver), reason="killed")
    async with queue.target.receiver() as receiver:
        message = await take_one(receiver)
        await receiver.complete_message(message)
    assert message.dead_letter_source == queue.name
    assert message.dead_letter_reason == "killed"
    return f"{message.dead_letter_reason!r}, from {message.dead_letter_source!r}"


@feature(enable_partitioning=True)
async def a_partitioned_queue(queue: Queue) -> str:
    keys = [f"key {number}" for number in range(8)]
    await queue.send(*(ServiceBusMessage(f"{key}: {number}", partition_key=key) for number in range(3) for key in keys))
    received = await queue.drain(24)
    partitions: set[int] = set()
    for key in keys:
        own = [message for message in received if message.partition_key == key]
        assert [text(message) for message in own] == [f"{key}: {number}" for number in range(3)]
        homes = {(message.sequence_number or 0) >> 48 for message in own}
        assert len(homes) == 1, f"{key} is in the partitions {homes}"
        partitions |= homes
    assert len(partitions) > 1
    return f"8 keys in {len(partitions)} partitions, each in order in one of them"


# --- refusals ---------------------------------------------------------------------------------------------------------


@feature(status="Disabled")
async def a_queue_that_is_disabled(queue: Queue) -> str:
    with refused(MessagingEntityDisabledError) as seen:
        await queue.send(ServiceBusMessage("x"))
    with refused(MessagingEntityDisabledError):
        async with queue.receiver():
            pass
    return f"for sending and for receiving: {seen[0]}"


@feature(status="SendDisabled")
async def a_queue_that_nobody_may_send_to(queue: Queue) -> str:
    with refused(MessagingEntityDisabledError) as seen:
        await queue.send(ServiceBusMessage("x"))
    await queue.drain(0)
    return f"{seen[0]}; it can be received from"


@feature(status="ReceiveDisabled")
async def a_queue_that_nobody_may_receive_from(queue: Queue) -> str:
    with refused(MessagingEntityDisabledError) as seen:
        async with queue.receiver():
            pass
    await queue.send(ServiceBusMessage("x"))
    return f"{seen[0]}; it can be sent to"


@feature()
async def a_wrong_key(queue: Queue) -> str:
    expected = authentication_error(queue.arguments.transport)
    async with queue.connect(with_wrong_key(queue.arguments.connection_string)) as client:
        with refused(expected) as seen:
            async with client.get_queue_sender(queue.name):
                pass
        with refused(expected):
            async with client.get_queue_receiver(queue.name):
                pass
    return f"for sending and for receiving: {seen[0]}"


@feature()
async def a_queue_that_does_not_exist(queue: Queue) -> str:
    expected = authentication_error(queue.arguments.transport)
    with refused(expected) as seen:
        async with queue.target.sender():
            pass
    with refused(expected):
        async with queue.target.receiver():
            pass
    return f"for sending and for receiving: {seen[0]}"


@feature()
async def a_rule_that_may_only_listen(queue: Queue) -> str:
    if queue.arguments.listen_connection_string is None:
        return "skipped: no --listen-connection-string"
    async with queue.connect(queue.arguments.listen_connection_string) as client:
        async with client.get_queue_receiver(queue.name) as receiver:
            await assert_silent(receiver)
        with refused(ServiceBusAuthorizationError) as seen:
            async with client.get_queue_sender(queue.name):
                pass
    return f"it receives, and for sending: {seen[0]}"


async def run(arguments: argparse.Namespace, name: str) -> str:
    started = time.monotonic()
    async with Queue(arguments, arguments.queue + name) as queue:
        seen = await FEATURES[name](queue)
    return f"{name.replace('-', ' ')}: {seen} [{time.monotonic() - started:.1f} s]"


async def run_all(arguments: argparse.Namespace) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def run_soon(name: str) -> str:
        async with limit:
            return await run(arguments, name)

    lines = {name: asyncio.create_task(run_soon(name)) for name in longest_first(SETTINGS)}
    for name in FEATURES:
        try:
            print(await lines[name], flush=True)
        except Exception:
            traceback.print_exc()
            sys.exit(f"SURPRISE: {name.replace('-', ' ')}")


def main() -> None:
    arguments = parse_arguments(SETTINGS)
    started = time.monotonic()
    asyncio.run(run_all(arguments))
    print(f"{len(FEATURES)} features over {arguments.transport} in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
