"""A tour of what the official Python SDK can do with queues and sessions, feature by feature, against a running broker.

    tandem serve --dev
    .venv/bin/python examples/queue_tour.py --print-queues          the queues to make first, as JSON
    .venv/bin/python examples/queue_tour.py --connection-string "$(tandem connection-string --dev)"

Nothing here knows Tandem: it is azure-servicebus as published, and a connection string. Each feature prints one line
with what was seen, and the first surprise ends the tour. Each has a queue of its own, named after it; several are under
way at a time, because the SDK takes a second to open and close a sender or a receiver. What the SDK cannot reach, such
as transactions and batch deletion, is not part of the tour.

The tour waits for conditions: for the number of messages that must come, and for the moment at which the service says a
lock ends. A slow machine makes it slower and changes nothing else.

Over TLS or WebSocket the SDK takes the port from a custom endpoint address only, and the flag for the emulator would
make it speak plain TCP; `client_options` takes care of both:

    ... --transport tls|websocket --ca tandem-data/tls/ca.pem
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
    TransportType,
)
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType, AmqpMessageHeader, AmqpMessageProperties
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

# Seconds. How long to wait for what must come: it comes at once, unless the machine is busy.
PATIENCE_S: Final = 60.0
# Seconds. How long to listen for what must not come. A busy machine can hide it, but cannot make it come.
SILENCE_S: Final = 0.3
# Seconds. How far ahead to schedule what is received afterwards: the tour waits for it.
SOON_S: Final = 2.0
# Seconds. How far ahead to schedule what is cancelled afterwards: no machine is so slow that it becomes due before.
FAR_S: Final = 3600.0

# Milliseconds. A lock that ends during the tour, or is renewed so that it does not. The tour waits until it would have
# ended, and has about as long for each step that needs the lock.
SHORT_LOCK_MS: Final = 10_000
# Seconds between renewals of such a lock: three quarters of it are left for a slow machine.
RENEWAL_S: Final = 2.5
# Milliseconds. The SDK's renewer acts when ten seconds of a lock are left: of this one after two seconds.
AUTO_RENEWED_LOCK_MS: Final = 12_000

# Seconds. By how much the clocks of this machine and of the service may differ.
GRACE_S: Final = 0.5

# How many features are under way at a time.
AT_ONCE: Final = 16

TRANSPORTS: Final = ("tcp", "tls", "websocket")
# Seconds. How long the SDK waits for each part of the handshake of a WebSocket, instead of one second.
WEBSOCKET_TIMEOUT_S: Final = 5.0


# As a setting: a queue that is made for the feature too, in `Queue.target`.
TARGET: Final = "-target"


def queues(prefix: str, settings_by_name: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The queues to make, each destination before its source."""
    made: list[dict[str, Any]] = []
    for suffix, settings in settings_by_name.items():
        name = prefix + suffix
        if TARGET in settings.values():
            made.append({"name": name + TARGET})
        named = {key: name + TARGET if value == TARGET else value for key, value in settings.items()}
        made.append({"name": name, **named})
    return made


def client_options(connection_string: str, transport: str, ca: str | None) -> dict[str, Any]:
    """The arguments of `ServiceBusClient.from_connection_string`, sync or aio, for a way to reach the broker."""
    if transport == "tcp":
        return {"conn_str": connection_string}
    settings = dict(pair.split("=", 1) for pair in connection_string.strip().strip(";").split(";"))
    settings.pop("UseDevelopmentEmulator", None)
    return {
        "conn_str": ";".join(f"{key}={value}" for key, value in settings.items()),
        "custom_endpoint_address": f"sb://{urlsplit(settings['Endpoint']).netloc}",
        "connection_verify": ca,
        # Without it a custom endpoint means WebSocket.
        "transport_type": TransportType.Amqp if transport == "tls" else TransportType.AmqpOverWebsocket,
        **({"socket_timeout": WEBSOCKET_TIMEOUT_S} if transport == "websocket" else {}),
    }


# Any: a client of the SDK, sync or aio. The SDK has no public way to say it.
def extend_socket_timeout(client: Any, options: dict[str, Any]) -> None:
    """Apply the client's socket_timeout to the listing of sessions as well, where the SDK does not pass it on."""
    if timeout_s := options.get("socket_timeout"):
        client._create_session_browser = partial(client._create_session_browser, socket_timeout=timeout_s)


def parse_arguments(settings_by_name: Mapping[str, Mapping[str, Any]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A tour of queues and sessions with azure-servicebus.")
    parser.add_argument("--connection-string", help="where the broker is")
    parser.add_argument("--listen-connection-string", help="one whose rule may only listen; without it that is skipped")
    parser.add_argument("--queue", default="tour-", help="prefix of the names of the queues (default: %(default)s)")
    parser.add_argument("--transport", choices=TRANSPORTS, default="tcp")
    parser.add_argument("--ca", help="file of the certificate authority, for tls and websocket")
    parser.add_argument("--print-queues", action="store_true", help="print the queues that the tour needs, and end")
    arguments = parser.parse_args()
    if arguments.print_queues:
        print(json.dumps(queues(arguments.queue, settings_by_name), indent=2))
        sys.exit()
    if arguments.connection_string is None:
        parser.error("--connection-string is needed")
    return arguments


def with_wrong_key(connection_string: str) -> str:
    pairs = connection_string.strip().strip(";").split(";")
    return ";".join("SharedAccessKey=wrong" if pair.startswith("SharedAccessKey=") else pair for pair in pairs)


def authentication_error(transport: str) -> type[ServiceBusError]:
    """With a custom endpoint the SDK takes every failure to authenticate for one to connect."""
    return ServiceBusAuthenticationError if transport == "tcp" else ServiceBusConnectionError


def text(message: ServiceBusReceivedMessage) -> str:
    return b"".join(message.body).decode()


def numbered(count: int, **options: Any) -> list[ServiceBusMessage]:
    return [ServiceBusMessage(f"message {number}", **options) for number in range(count)]


def texts(count: int) -> list[str]:
    return [f"message {number}" for number in range(count)]


def annotated_message(**body: Any) -> AmqpAnnotatedMessage:
    """A message with something in each of its sections."""
    return AmqpAnnotatedMessage(
        header=AmqpMessageHeader(priority=7, durable=True),
        properties=AmqpMessageProperties(message_id="annotated", content_encoding="identity", user_id=b"me"),
        application_properties={"section": "application-properties"},
        annotations={"x-opt-of-mine": "message-annotations"},
        delivery_annotations={"x-opt-of-mine": "delivery-annotations"},
        footer={"x-opt-of-mine": "footer"},
        **body,
    )


def assert_annotated(message: ServiceBusReceivedMessage) -> None:
    raw = message.raw_amqp_message
    assert raw.header is not None
    assert raw.properties is not None
    assert raw.header.priority == 7
    assert raw.header.durable is True
    assert raw.properties.content_encoding == b"identity"
    assert raw.properties.user_id == b"me"
    assert (raw.application_properties or {})[b"section"] == b"application-properties"
    assert (raw.annotations or {})[b"x-opt-of-mine"] == b"message-annotations"
    assert (raw.delivery_annotations or {})[b"x-opt-of-mine"] == b"delivery-annotations"
    assert (raw.footer or {})[b"x-opt-of-mine"] == b"footer"


# Values of each type that the SDK can put into application properties, and as what it hands them out.
APPLICATION_PROPERTIES: Final[dict[str, tuple[Any, Any]]] = {
    "yes": (True, True),
    "no": (False, False),
    "integer": (-2_147_483_648, -2_147_483_648),
    "double": (0.1, 0.1),
    "string": ("größer", "größer".encode()),
    "uuid": (uuid.UUID(int=7), uuid.UUID(int=7)),
    "timestamp": (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 1_767_323_045_000),
    "null": (None, None),
}

# One of each type that AMQP allows for a message-id.
MESSAGE_IDS: Final = ("a string", uuid.UUID(int=2**127 + 1), 2**64 - 1, b"\x00\xff")


class Queue:
    """The queue of a feature, with a client of its own and short forms of what every feature does."""

    def __init__(self, arguments: argparse.Namespace, name: str) -> None:
        self.arguments = arguments
        self.name = name
        self.client = self.connect(arguments.connection_string)

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()

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

    def send(self, *messages: ServiceBusMessage | AmqpAnnotatedMessage) -> None:
        """Each on its own, in order."""
        with self.sender() as sender:
            for message in messages:
                sender.send_messages(message)

    def receiver(self, **options: Any) -> ServiceBusReceiver:
        return self.client.get_queue_receiver(self.name, **options)

    def dead_letters(self) -> ServiceBusReceiver:
        return self.receiver(sub_queue=ServiceBusSubQueue.DEAD_LETTER)

    def drain(self, count: int, **options: Any) -> list[ServiceBusReceivedMessage]:
        """Exactly this many messages, in receive-and-delete mode: nothing is left behind them."""
        with self.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, **options) as receiver:
            drained = take(receiver, count)
            assert_empty(receiver)
        return drained

    def sessions(self, **options: Any) -> list[str]:
        return list(self.client.list_queue_sessions(self.name, **options))


def take(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """This many messages, however many calls it takes."""
    taken: list[ServiceBusReceivedMessage] = []
    while len(taken) < count:
        batch = receiver.receive_messages(count - len(taken), PATIENCE_S)
        assert batch, f"{len(taken)} of {count} messages came in {PATIENCE_S} s"
        taken += batch
    return taken


def take_one(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    (message,) = take(receiver, 1)
    return message


def complete(receiver: ServiceBusReceiver, messages: list[ServiceBusReceivedMessage]) -> None:
    for message in messages:
        receiver.complete_message(message)


def assert_silent(receiver: ServiceBusReceiver) -> None:
    """Nothing comes, although something may be there: locked, deferred or in another session."""
    unexpected = receiver.receive_messages(1, SILENCE_S)
    assert not unexpected, f"nothing should come, but {text(unexpected[0])!r} did"


def assert_empty(receiver: ServiceBusReceiver) -> None:
    """Nothing is there in any state: active, locked, scheduled or deferred."""
    left = receiver.peek_messages(10, sequence_number=1)
    assert not left, f"nothing should be left, but there is {[(message.state.name, str(message)) for message in left]}"


def known(moment: datetime | None) -> datetime:
    """The moment that the service has set."""
    assert moment is not None
    return moment


def seconds_past(moment: datetime) -> float:
    """How long to sleep until this moment has passed for the service too."""
    return max(0.0, (moment - datetime.now(UTC)).total_seconds()) + GRACE_S


@contextlib.contextmanager
def refused(*errors: type[Exception]) -> Iterator[list[str]]:
    """What is inside must raise one of these errors exactly. The list then holds its name."""
    seen: list[str] = []
    try:
        yield seen
    except Exception as error:
        if type(error) not in errors:
            raise
        seen.append(type(error).__name__)
    assert seen, f"nothing was raised, where {' or '.join(error.__name__ for error in errors)} should be"


Feature = Callable[[Queue], str]
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
def send_one_message(queue: Queue) -> str:
    queue.send(ServiceBusMessage("hello"))
    (message,) = queue.drain(1)
    assert text(message) == "hello"
    assert not message.time_to_live
    return f"sequence number {message.sequence_number}, enqueued at {message.enqueued_time_utc}"


@feature()
def send_a_list_of_messages(queue: Queue) -> str:
    with queue.sender() as sender:
        sender.send_messages(numbered(50))
    received = queue.drain(50)
    assert [text(message) for message in received] == texts(50)
    return f"{len(received)} messages came in the order of the list"


@feature()
def send_a_batch_that_is_filled_to_the_brim(queue: Queue) -> str:
    with queue.sender() as sender:
        batch = sender.create_message_batch()
        with contextlib.suppress(MessageSizeExceededError):
            while True:
                batch.add_message(ServiceBusMessage(b"x" * 4_000))
        sender.send_messages(batch)
    assert len(batch) > 50
    queue.drain(len(batch))
    return f"{len(batch)} messages of 4 kB in {batch.size_in_bytes} of {batch.max_size_in_bytes} bytes"


@feature(max_message_size_in_kilobytes=1_024)
def send_a_message_of_many_frames(queue: Queue) -> str:
    body = bytes(range(256)) * 3_900
    queue.send(ServiceBusMessage(body))
    with queue.receiver() as receiver:
        message = take_one(receiver)
        receiver.complete_message(message)
    assert b"".join(message.body) == body
    return f"{len(body)} bytes came back as they were"


@feature()
def a_message_that_is_too_large_is_refused(queue: Queue) -> str:
    with refused(MessageSizeExceededError) as seen:
        queue.send(ServiceBusMessage(b"x" * 300_000))
    return f"300,000 bytes: {seen[0]}"


@feature(max_size_in_megabytes=1)
def a_full_queue_refuses_and_takes_again_when_there_is_room(queue: Queue) -> str:
    sent = 0
    with queue.sender() as sender:
        with refused(ServiceBusQuotaExceededError) as seen:
            while sent < 20:
                sender.send_messages(ServiceBusMessage(b"x" * 200_000))
                sent += 1
        queue.drain(sent)
        sender.send_messages(ServiceBusMessage("there is room"))
    (message,) = queue.drain(1)
    assert text(message) == "there is room"
    return f"{seen[0]} after {sent} messages of 200 kB in 1 MB"


# --- receiving --------------------------------------------------------------------------------------------------------


@feature()
def peek_lock_and_complete(queue: Queue) -> str:
    queue.send(ServiceBusMessage("work"))
    with queue.receiver() as receiver:
        message = take_one(receiver)
        assert isinstance(message.lock_token, uuid.UUID)
        assert message.locked_until_utc is not None
        lock_s = (message.locked_until_utc - datetime.now(UTC)).total_seconds()
        assert_silent(receiver)
        receiver.complete_message(message)
        assert_empty(receiver)
    return f"locked for {lock_s:.0f} s, unseen by others meanwhile, gone when completed"


@feature()
def receive_and_delete(queue: Queue) -> str:
    queue.send(*numbered(3))
    with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        messages = take(receiver, 3)
        assert all(message.lock_token is None for message in messages)
        assert_empty(receiver)
    return "3 messages, gone as they were handed out"


@feature()
def competing_consumers(queue: Queue) -> str:
    queue.send(*numbered(10))
    with queue.receiver() as first, queue.receiver() as second:
        ours, theirs = take(first, 5), take(second, 5)
        complete(first, ours)
        complete(second, theirs)
    assert sorted(map(text, ours + theirs)) == sorted(texts(10))
    return "10 messages: 5 to each of two receivers, none twice"


@feature()
def abandon(queue: Queue) -> str:
    queue.send(*numbered(2))
    with queue.receiver() as receiver:
        first = take_one(receiver)
        receiver.abandon_message(first)
        again = take(receiver, 2)
        complete(receiver, again)
    assert [text(message) for message in again] == texts(2)
    assert first.delivery_count == 0
    assert again[0].delivery_count == 1
    assert again[1].delivery_count == 0
    assert again[0].sequence_number == first.sequence_number
    return "back at the head of the queue, delivery count 0, then 1"


@feature()
def defer_and_receive_by_sequence_number(queue: Queue) -> str:
    queue.send(*numbered(2))
    with queue.receiver() as receiver:
        deferred = take(receiver, 2)
        numbers = [message.sequence_number or 0 for message in deferred]
        for message in deferred:
            receiver.defer_message(message)
        assert_silent(receiver)
        peeked = receiver.peek_messages(2, sequence_number=numbers[0])
        assert [message.state for message in peeked] == [ServiceBusMessageState.DEFERRED] * 2
        received = receiver.receive_deferred_messages(numbers)
        assert [text(message) for message in received] == texts(2)
        assert received[0].lock_token
        assert received[0].locked_until_utc
        complete(receiver, received)
        with refused(MessageNotFoundError) as seen:
            receiver.receive_deferred_messages(numbers)
    return f"sequence numbers {numbers} received, completed, and then {seen[0]}"


@feature()
def deferred_messages_in_receive_and_delete_mode(queue: Queue) -> str:
    queue.send(ServiceBusMessage("later"))
    with queue.receiver() as receiver:
        message = take_one(receiver)
        receiver.defer_message(message)
    with queue.receiver(receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiver:
        (received,) = receiver.receive_deferred_messages(message.sequence_number or 0)
        assert text(received) == "later"
        with refused(MessageNotFoundError) as seen:
            receiver.receive_deferred_messages(message.sequence_number or 0)
    return f"received once, then {seen[0]}"


@feature()
def dead_letter_with_a_reason(queue: Queue) -> str:
    queue.send(ServiceBusMessage("bad", application_properties={"attempt": 1}))
    with queue.receiver() as receiver:
        message = take_one(receiver)
        receiver.dead_letter_message(message, reason="unreadable", error_description="not JSON")
        assert_empty(receiver)
    with queue.dead_letters() as receiver:
        dead = take_one(receiver)
        assert dead.dead_letter_reason == "unreadable"
        assert dead.dead_letter_error_description == "not JSON"
        assert (dead.application_properties or {})[b"attempt"] == 1
        assert dead.sequence_number == message.sequence_number
        receiver.complete_message(dead)
        assert_empty(receiver)
    return f"{dead.dead_letter_reason!r}, {dead.dead_letter_error_description!r}, received from the dead-letter queue"


@feature(lock_duration_ms=SHORT_LOCK_MS)
def renew_a_lock(queue: Queue) -> str:
    queue.send(ServiceBusMessage("slow work"))
    with queue.receiver() as receiver:
        message = take_one(receiver)
        ends = [known(message.locked_until_utc)]
        while seconds_past(ends[0]) > GRACE_S:
            time.sleep(RENEWAL_S)
            ends.append(receiver.renew_message_lock(message))
            assert ends[-1] > ends[-2]
        receiver.complete_message(message)
        assert_empty(receiver)
    return f"a lock of 10 s, renewed {len(ends) - 1} times and extended by {(ends[-1] - ends[0]).total_seconds():.2f} s"


@feature(lock_duration_ms=SHORT_LOCK_MS)
def a_lock_that_expires_brings_the_message_back(queue: Queue) -> str:
    queue.send(ServiceBusMessage("lost work", message_id="lost"))
    with queue.receiver() as receiver:
        message = take_one(receiver)
        again = take_one(receiver)
        with refused(MessageLockLostError) as seen:
            receiver.renew_message_lock(message)
        receiver.complete_message(again)
    assert again.message_id == "lost"
    assert (message.delivery_count, again.delivery_count) == (0, 1)
    assert again.enqueued_time_utc == message.enqueued_time_utc
    assert again.lock_token != message.lock_token
    return f"the same message id with delivery count 1; the old lock: {seen[0]}"


@feature(max_delivery_count=3)
def too_many_deliveries_lead_to_the_dead_letter_queue(queue: Queue) -> str:
    queue.send(ServiceBusMessage("poison"))
    counts: list[int | None] = []
    with queue.receiver() as receiver:
        for _ in range(3):
            message = take_one(receiver)
            counts.append(message.delivery_count)
            receiver.abandon_message(message)
        assert_empty(receiver)
    with queue.dead_letters() as receiver:
        dead = take_one(receiver)
        receiver.complete_message(dead)
    assert counts == [0, 1, 2]
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    return f"{dead.dead_letter_reason}: {dead.dead_letter_error_description}"


@feature(dead_lettering_on_message_expiration=True)
def a_message_that_expires_is_dead_lettered(queue: Queue) -> str:
    queue.send(ServiceBusMessage("milk", time_to_live=timedelta(seconds=1)), ServiceBusMessage("honey"))
    with queue.dead_letters() as receiver:
        dead = take_one(receiver)
        receiver.complete_message(dead)
    assert dead.dead_letter_reason == "TTLExpiredException"
    assert dead.time_to_live == timedelta(seconds=1)
    assert [text(message) for message in queue.drain(1)] == ["honey"]
    return f"{dead.dead_letter_reason}: {dead.dead_letter_error_description}"


@feature(default_message_time_to_live_ms=1_000)
def the_time_to_live_of_a_queue_bounds_that_of_its_messages(queue: Queue) -> str:
    sent = time.monotonic()
    queue.send(ServiceBusMessage("milk", time_to_live=timedelta(hours=1)))
    with queue.receiver() as receiver:
        deadline = sent + PATIENCE_S
        while receiver.peek_messages(1, sequence_number=1):
            assert time.monotonic() < deadline, "the message outlived the queue's limit of 1 s"
            time.sleep(0.2)
        gone_s = time.monotonic() - sent
        assert_silent(receiver)
    assert gone_s >= 1
    return f"an hour became one second: the message was gone after {gone_s:.2f} s"


@feature()
def schedule_and_cancel(queue: Queue) -> str:
    with queue.sender() as sender, queue.receiver() as receiver:
        far = datetime.now(UTC) + timedelta(seconds=FAR_S)
        first, second = sender.schedule_messages(numbered(2), far)
        states = [message.state for message in receiver.peek_messages(2, sequence_number=first)]
        assert states == [ServiceBusMessageState.SCHEDULED] * 2
        sender.cancel_scheduled_messages(second)
        with refused(MessageNotFoundError) as seen:
            sender.cancel_scheduled_messages(second)
        assert [text(message) for message in receiver.peek_messages(2, sequence_number=first)] == ["message 0"]
        sender.cancel_scheduled_messages(first)
        assert_empty(receiver)
        due = (datetime.now(UTC) + timedelta(seconds=SOON_S)).replace(microsecond=0)
        sender.schedule_messages(ServiceBusMessage("kept"), due)
        message = take_one(receiver)
        late_s = (datetime.now(UTC) - due).total_seconds()
        receiver.complete_message(message)
        assert_empty(receiver)
    assert text(message) == "kept"
    assert message.scheduled_enqueue_time_utc == due
    assert late_s >= 0
    assert message.enqueued_time_utc is not None
    assert message.enqueued_time_utc >= due
    return f"one came {late_s * 1000:.0f} ms after its time, two were cancelled; again: {seen[0]}"


@feature()
def schedule_with_a_property_of_the_message(queue: Queue) -> str:
    past = datetime.now(UTC) - timedelta(hours=1)
    with queue.receiver() as receiver:
        queue.send(ServiceBusMessage("now", scheduled_enqueue_time_utc=past))
        first = take_one(receiver)
        receiver.complete_message(first)
        due = datetime.now(UTC) + timedelta(seconds=SOON_S)
        queue.send(ServiceBusMessage("later", scheduled_enqueue_time_utc=due))
        second = take_one(receiver)
        assert datetime.now(UTC) >= due
        receiver.complete_message(second)
    assert (text(first), text(second)) == ("now", "later")
    return "what was due in the past came at once, what was due in two seconds came then"


@feature(requires_duplicate_detection=True)
def duplicates_are_accepted_and_dropped(queue: Queue) -> str:
    # Ids of this run: those of an earlier one may still be remembered.
    run = uuid.uuid4().hex
    queue.send(*(ServiceBusMessage(f"id {name}", message_id=run + name) for name in "abaab"))
    with queue.sender() as sender:
        sender.send_messages([ServiceBusMessage(f"id {name}", message_id=run + name) for name in "bcc"])
    received = [text(message) for message in queue.drain(3)]
    assert received == ["id a", "id b", "id c"]
    return f"8 sent, {len(received)} received: {received}"


@feature()
def peek(queue: Queue) -> str:
    queue.send(*numbered(10))
    with queue.receiver() as receiver:
        locked = take_one(receiver)
        first = locked.sequence_number or 0
        peeked = receiver.peek_messages(5, sequence_number=first)
        assert [text(message) for message in peeked] == texts(5)
        assert [text(message) for message in receiver.peek_messages(100)] == texts(10)[5:]
        tail = receiver.peek_messages(100, sequence_number=first + 8)
        assert [text(message) for message in tail] == texts(10)[8:]
        assert not receiver.peek_messages(1, sequence_number=first + 10)
        receiver.complete_message(locked)
    queue.drain(9)
    return "5 from the first, the next 5, 2 from the ninth; a locked one too; nothing was taken"


@feature()
def prefetch(queue: Queue) -> str:
    queue.send(*numbered(20))
    with queue.receiver(prefetch_count=20) as receiver:
        messages = take(receiver, 5)
        complete(receiver, messages)
    with queue.receiver() as receiver:
        rest = take(receiver, 15)
        complete(receiver, rest)
    assert [text(message) for message in messages + rest] == texts(20)
    assert all(message.delivery_count == 0 for message in rest)
    return "5 of 20 used, 15 given back at the end, in order and without a higher delivery count"


@feature()
def max_wait_time(queue: Queue) -> str:
    with queue.receiver() as receiver:
        started = time.monotonic()
        assert receiver.receive_messages(1, max_wait_time=1) == []
        waited_s = time.monotonic() - started
    assert 0.9 < waited_s < PATIENCE_S
    return f"nothing came, and the call said so after {waited_s:.2f} of 1 s"


@feature()
def iterate_over_a_receiver(queue: Queue) -> str:
    queue.send(*numbered(5))
    seen: list[str] = []
    with queue.receiver(max_wait_time=PATIENCE_S) as receiver:
        for message in receiver:
            seen.append(text(message))
            receiver.complete_message(message)
            if len(seen) == 5:
                break
    assert seen == texts(5)
    with queue.receiver(max_wait_time=1) as receiver:
        assert not list(receiver)
    return f"{len(seen)} messages, and an end when no more came for a second"


@feature(lock_duration_ms=AUTO_RENEWED_LOCK_MS)
def automatic_renewal_of_a_lock(queue: Queue) -> str:
    queue.send(ServiceBusMessage("very slow work"))
    with AutoLockRenewer() as renewer, queue.receiver(auto_lock_renewer=renewer) as receiver:
        message = take_one(receiver)
        first_end = known(message.locked_until_utc)
        time.sleep(seconds_past(first_end))
        assert message.auto_renew_error is None
        assert known(message.locked_until_utc) > first_end
        receiver.complete_message(message)
        assert_empty(receiver)
    return "a lock of 12 s was held for longer"


# --- what a message carries -------------------------------------------------------------------------------------------


@feature()
def properties(queue: Queue) -> str:
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
    queue.send(ServiceBusMessage("body", **fields))  # type: ignore[arg-type]  # each has the type of its field
    (message,) = queue.drain(1)
    assert {name: getattr(message, name) for name in fields} == fields
    assert message.enqueued_time_utc is not None
    assert message.expires_at_utc == message.enqueued_time_utc + timedelta(minutes=5)
    return f"{len(fields)} properties as they were sent"


@feature()
def application_properties_of_every_type(queue: Queue) -> str:
    sent: dict[str | bytes, Any] = {name: sent for name, (sent, _) in APPLICATION_PROPERTIES.items()}
    queue.send(ServiceBusMessage("body", application_properties=sent))
    (message,) = queue.drain(1)
    received = message.application_properties or {}
    assert received == {name.encode(): expected for name, (_, expected) in APPLICATION_PROPERTIES.items()}
    return f"{len(received)} values: {', '.join(APPLICATION_PROPERTIES)}"


@feature()
def message_ids_of_every_type(queue: Queue) -> str:
    queue.send(*(AmqpAnnotatedMessage(data_body=b"", properties={"message_id": one}) for one in MESSAGE_IDS))
    received = [message.raw_amqp_message.properties for message in queue.drain(len(MESSAGE_IDS))]
    ids = [properties.message_id for properties in received if properties is not None]
    # The SDK hands out AMQP strings as bytes.
    assert ids == [b"a string", *MESSAGE_IDS[1:]]
    return f"string, uuid, ulong and binary: {ids}"


@feature()
def bodies_of_every_kind(queue: Queue) -> str:
    value = {"list": [1, 2.5, None, True], "map": {"a": "b"}}
    sequence = [[1, "two"], [3.0]]
    queue.send(
        annotated_message(data_body=[b"one", b"two"]),
        annotated_message(value_body=value),
        annotated_message(sequence_body=sequence),
        ServiceBusMessage(None),
    )
    received = queue.drain(4)
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
def a_session_is_received_in_order(queue: Queue) -> str:
    both = ("red", "blue")
    queue.send(*(ServiceBusMessage(f"{name} {n}", session_id=name) for n in range(5) for name in both))
    with queue.receiver(session_id="blue") as receiver:
        first = take(receiver, 2)
        receiver.abandon_message(first[0])
        receiver.complete_message(first[1])
        rest = take(receiver, 4)
        complete(receiver, rest)
        assert_silent(receiver)
    assert [text(message) for message in rest] == ["blue 0", "blue 2", "blue 3", "blue 4"]
    assert rest[0].delivery_count == 1
    assert {message.session_id for message in rest} == {"blue"}
    assert [text(message) for message in queue.drain(5, session_id="red")] == [f"red {n}" for n in range(5)]
    return "5 messages of one session, none of the other; the abandoned one came first again"


@feature(requires_session=True)
def the_next_session_that_is_free(queue: Queue) -> str:
    queue.send(*(ServiceBusMessage(f"of {session}", session_id=session) for session in ("one", "two")))
    with (
        queue.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=PATIENCE_S) as first,
        queue.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=PATIENCE_S) as second,
    ):
        ids = [first.session.session_id, second.session.session_id]
        for receiver in (first, second):
            message = take_one(receiver)
            assert text(message) == f"of {receiver.session.session_id}"
            receiver.complete_message(message)
    assert sorted(ids) == ["one", "two"]
    return f"two receivers that asked for any session got {ids}"


@feature(requires_session=True)
def no_session_in_time(queue: Queue) -> str:
    started = time.monotonic()
    with (
        refused(OperationTimeoutError) as seen,
        queue.receiver(session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1),
    ):
        pass
    waited_s = time.monotonic() - started
    assert 0.8 < waited_s < PATIENCE_S
    return f"{seen[0]} after {waited_s:.2f} s"


@feature(requires_session=True)
def the_state_of_a_session(queue: Queue) -> str:
    with queue.receiver(session_id="stateful") as receiver:
        assert receiver.session.get_state() is None
        receiver.session.set_state("half way")
    with queue.receiver(session_id="stateful") as receiver:
        state = receiver.session.get_state()
        assert state == b"half way"
        assert queue.sessions() == ["stateful"]
        receiver.session.set_state(None)
        assert receiver.session.get_state() is None
    return f"{state!r}, kept without any message; cleared"


@feature(requires_session=True)
def list_sessions(queue: Queue) -> str:
    expected = [f"session {number:03}" for number in range(150)]
    with queue.sender() as sender:
        sender.send_messages([ServiceBusMessage("x", session_id=session) for session in expected])
    listed = queue.sessions()
    assert sorted(listed) == expected
    now = datetime.now(UTC)
    with queue.receiver(session_id=expected[0]) as receiver:
        receiver.session.set_state(b"changed")
        changed = queue.sessions(state_updated_after=now)
        receiver.session.set_state(None)
    assert changed == expected[:1]
    with queue.receiver(session_id=expected[7]) as receiver:
        complete(receiver, take(receiver, 1))
    assert expected[7] not in queue.sessions()
    return f"{len(listed)} in pages of 100; one with a state set since; one less when its message was completed"


@feature(requires_session=True, lock_duration_ms=SHORT_LOCK_MS)
def renew_the_lock_of_a_session(queue: Queue) -> str:
    queue.send(ServiceBusMessage("slow", session_id="renewed"))
    with queue.receiver(session_id="renewed") as receiver:
        message = take_one(receiver)
        ends = [known(receiver.session.locked_until_utc)]
        while seconds_past(ends[0]) > GRACE_S:
            time.sleep(RENEWAL_S)
            ends.append(receiver.session.renew_lock())
            assert ends[-1] > ends[-2]
        receiver.complete_message(message)
        assert_empty(receiver)
    return f"a lock of 10 s, renewed {len(ends) - 1} times and extended by {(ends[-1] - ends[0]).total_seconds():.2f} s"


@feature(requires_session=True)
def a_session_that_another_receiver_holds(queue: Queue) -> str:
    with (
        queue.receiver(session_id="mine"),
        refused(SessionCannotBeLockedError) as seen,
        queue.receiver(session_id="mine"),
    ):
        pass
    with queue.receiver(session_id="mine"):
        pass
    return f"{seen[0]}; free again as soon as the holder closed"


@feature(requires_session=True, lock_duration_ms=SHORT_LOCK_MS)
def a_session_lock_that_expires(queue: Queue) -> str:
    queue.send(ServiceBusMessage("left behind", session_id="expired"))
    with queue.receiver(session_id="expired") as receiver:
        message = take_one(receiver)
        time.sleep(seconds_past(known(receiver.session.locked_until_utc)))
        with refused(SessionLockLostError) as seen:
            receiver.complete_message(message)
        with queue.receiver(session_id="expired") as other:
            again = take_one(other)
            other.complete_message(again)
    assert text(again) == "left behind"
    assert again.delivery_count == 1
    return f"{seen[0]}; another receiver got the message with delivery count 1"


@feature(requires_session=True)
def deferred_dead_lettered_scheduled_and_peeked_in_a_session(queue: Queue) -> str:
    queue.send(*numbered(2, session_id="all"))
    with queue.sender() as sender, queue.receiver(session_id="all") as receiver:
        far = datetime.now(UTC) + timedelta(seconds=FAR_S)
        cancelled = sender.schedule_messages(ServiceBusMessage("cancelled", session_id="all"), far)
        first, second = take(receiver, 2)
        receiver.defer_message(first)
        receiver.dead_letter_message(second, reason="why not")
        peeked = receiver.peek_messages(10, sequence_number=first.sequence_number or 0)
        states = [message.state.name for message in peeked]
        assert states == ["DEFERRED", "SCHEDULED"], states
        (deferred,) = receiver.receive_deferred_messages(first.sequence_number or 0)
        receiver.complete_message(deferred)
        sender.cancel_scheduled_messages(cancelled)
        soon = datetime.now(UTC) + timedelta(seconds=SOON_S)
        sender.schedule_messages(ServiceBusMessage("scheduled", session_id="all"), soon)
        scheduled = take_one(receiver)
        assert datetime.now(UTC) >= soon
        receiver.complete_message(scheduled)
        assert_empty(receiver)
    assert text(deferred) == "message 0"
    assert text(scheduled) == "scheduled"
    # The dead-letter queue of a queue with sessions has none.
    with queue.dead_letters() as receiver:
        dead = take_one(receiver)
        receiver.complete_message(dead)
    assert text(dead) == "message 1"
    assert dead.session_id == "all"
    assert dead.dead_letter_reason == "why not"
    return f"peeked {states}; each was received where it belongs"


@feature(requires_session=True, lock_duration_ms=AUTO_RENEWED_LOCK_MS)
def automatic_renewal_of_a_session_lock(queue: Queue) -> str:
    queue.send(ServiceBusMessage("very slow work", session_id="slow"))
    with AutoLockRenewer() as renewer, queue.receiver(session_id="slow", auto_lock_renewer=renewer) as receiver:
        message = take_one(receiver)
        first_end = known(receiver.session.locked_until_utc)
        time.sleep(seconds_past(first_end))
        assert receiver.session.auto_renew_error is None
        assert known(receiver.session.locked_until_utc) > first_end
        receiver.complete_message(message)
        # It would go on while the session is being closed.
        renewer.close()
    return "a lock of 12 s was held for longer"


@feature(requires_session=True)
def a_queue_with_sessions_wants_them_from_everybody(queue: Queue) -> str:
    with refused(ServiceBusError) as seen:
        queue.send(ServiceBusMessage("without a session"))
    with refused(ServiceBusError), queue.receiver():
        pass
    return f"a message and a receiver without session: {seen[0]}"


@feature()
def a_queue_without_sessions_has_none(queue: Queue) -> str:
    with refused(ServiceBusError) as seen, queue.receiver(session_id="none here"):
        pass
    return seen[0]


# --- between queues ---------------------------------------------------------------------------------------------------


@feature(forward_to=TARGET)
def automatic_forwarding(queue: Queue) -> str:
    queue.send(*numbered(3))
    with queue.target.receiver() as receiver:
        messages = take(receiver, 3)
        complete(receiver, messages)
    assert [text(message) for message in messages] == texts(3)
    numbers = [message.enqueued_sequence_number or 0 for message in messages]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    return f"3 messages sent to one queue, received from the other, with their first sequence numbers {numbers}"


@feature(forward_dead_lettered_messages_to=TARGET)
def forwarding_of_dead_letters(queue: Queue) -> str:
    queue.send(ServiceBusMessage("dead"))
    with queue.receiver() as receiver:
        receiver.dead_letter_message(take_one(receiver), reason="killed")
    with queue.target.receiver() as receiver:
        message = take_one(receiver)
        receiver.complete_message(message)
    assert message.dead_letter_source == queue.name
    assert message.dead_letter_reason == "killed"
    return f"{message.dead_letter_reason!r}, from {message.dead_letter_source!r}"


@feature(enable_partitioning=True)
def a_partitioned_queue(queue: Queue) -> str:
    keys = [f"key {number}" for number in range(8)]
    queue.send(*(ServiceBusMessage(f"{key}: {number}", partition_key=key) for number in range(3) for key in keys))
    received = queue.drain(24)
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
def a_queue_that_is_disabled(queue: Queue) -> str:
    with refused(MessagingEntityDisabledError) as seen:
        queue.send(ServiceBusMessage("x"))
    with refused(MessagingEntityDisabledError), queue.receiver():
        pass
    return f"for sending and for receiving: {seen[0]}"


@feature(status="SendDisabled")
def a_queue_that_nobody_may_send_to(queue: Queue) -> str:
    with refused(MessagingEntityDisabledError) as seen:
        queue.send(ServiceBusMessage("x"))
    queue.drain(0)
    return f"{seen[0]}; it can be received from"


@feature(status="ReceiveDisabled")
def a_queue_that_nobody_may_receive_from(queue: Queue) -> str:
    with refused(MessagingEntityDisabledError) as seen, queue.receiver():
        pass
    queue.send(ServiceBusMessage("x"))
    return f"{seen[0]}; it can be sent to"


@feature()
def a_wrong_key(queue: Queue) -> str:
    expected = authentication_error(queue.arguments.transport)
    with queue.connect(with_wrong_key(queue.arguments.connection_string)) as client:
        with refused(expected) as seen, client.get_queue_sender(queue.name):
            pass
        with refused(expected), client.get_queue_receiver(queue.name):
            pass
    return f"for sending and for receiving: {seen[0]}"


@feature()
def a_queue_that_does_not_exist(queue: Queue) -> str:
    expected = authentication_error(queue.arguments.transport)
    with refused(expected) as seen, queue.target.sender():
        pass
    with refused(expected), queue.target.receiver():
        pass
    return f"for sending and for receiving: {seen[0]}"


@feature()
def a_rule_that_may_only_listen(queue: Queue) -> str:
    if queue.arguments.listen_connection_string is None:
        return "skipped: no --listen-connection-string"
    with queue.connect(queue.arguments.listen_connection_string) as client:
        with client.get_queue_receiver(queue.name) as receiver:
            assert_silent(receiver)
        with refused(ServiceBusAuthorizationError) as seen, client.get_queue_sender(queue.name):
            pass
    return f"it receives, and for sending: {seen[0]}"


def run(arguments: argparse.Namespace, name: str) -> str:
    started = time.monotonic()
    with Queue(arguments, arguments.queue + name) as queue:
        seen = FEATURES[name](queue)
    return f"{name.replace('-', ' ')}: {seen} [{time.monotonic() - started:.1f} s]"


def longest_first(settings_by_name: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The features in the order to start them: those that wait for the end of a lock take longest."""
    return sorted(settings_by_name, key=lambda name: "lock_duration_ms" not in settings_by_name[name])


def main() -> None:
    arguments = parse_arguments(SETTINGS)
    started = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        lines = {name: pool.submit(run, arguments, name) for name in longest_first(SETTINGS)}
        for name in FEATURES:
            try:
                print(lines[name].result(), flush=True)
            except Exception:
                traceback.print_exc()
                pool.shutdown(wait=False, cancel_futures=True)
                sys.exit(f"SURPRISE: {name.replace('-', ' ')}")
    print(f"{len(FEATURES)} features over {arguments.transport} in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
