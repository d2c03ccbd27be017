"""The official SDK with a detour: the same tests with asyncio and without."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import threading
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from tandem.client import BrokeredMessage, MessagingFactory, NamespaceManager, sync
from tandem.errors import ConfigurationError, StateError
from tandem.pairing import FailoverState, PairingEvent
from tandem.pairing.azure import PairedServiceBusClient, PairedServiceBusOptions, SyphonRunner, aio
from tandem.pairing.azure.judging import judge_primary
from tandem.pairing.azure.messages import DivertedMessages, SdkMessage, rewrite, single_messages
from tandem.pairing.detour import Judgement
from tandem.testing import Broker
from tandem.testing.chaos import ChaosProxy
from tests.markers import mission
from tests.pairing.hurry import heal, inject
from tests.patience import PATIENCE_S, until, wait_until
from tools import generate_blocking

# The SDK leaves sockets behind when a connection fails; that is not ours to judge.


class Driven:
    """A paired client of the SDK, of either kind, behind calls that are awaited."""

    def __init__(self, client: Any, is_async: bool, events: list[PairingEvent]) -> None:
        self.client = client
        self.is_async = is_async
        self.events = events

    # Any: what the methods of the SDK take and return.
    async def call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self.is_async:
            return await method(*arguments, **options)
        return await asyncio.to_thread(method, *arguments, **options)

    def told(self, event: str) -> list[PairingEvent]:
        return [one for one in self.events if one["event"] == event]


DriveFactory = Callable[..., contextlib.AbstractAsyncContextManager[Driven]]


@pytest.fixture(params=["blocking", "asyncio"])
def drive(request: pytest.FixtureRequest, primary: Broker, secondary: Broker, name: str) -> DriveFactory:
    is_async = request.param == "asyncio"

    @contextlib.asynccontextmanager
    async def make(primary_client: Any = None, **chosen: Any) -> AsyncIterator[Driven]:
        events: list[PairingEvent] = []
        given = {
            "backlog_queue_count": 2,
            "failover_interval": timedelta(0),
            "ping_primary_interval": timedelta(milliseconds=200),
            "primary_namespace": f"pair-{name}",
            "listener": events.append,
            **chosen,
        }
        kind = aio.PairedServiceBusClient if is_async else PairedServiceBusClient
        client = kind(
            primary_client or primary.connection_string, secondary.connection_string, PairedServiceBusOptions(**given)
        )
        driven = Driven(client, is_async, events)
        try:
            yield driven
        finally:
            await driven.call(client.close)

    return make


def sdk_client(request: pytest.FixtureRequest, broker: Broker) -> ServiceBusClient | AsyncServiceBusClient:
    """One that does not try again: what it is told comes at once."""
    kind = AsyncServiceBusClient if "asyncio" in request.node.name else ServiceBusClient
    return kind.from_connection_string(broker.connection_string, retry_total=0)


def backlog_counts(secondary: Broker, name: str) -> int:
    return sum(
        queue["active_message_count"] for queue in secondary.queues() if queue["name"].startswith(f"pair-{name}/")
    )


@mission("M16", "M22", "M23", "M25", "M26")
async def test_a_program_of_the_sdk_goes_on_sending(
    drive: DriveFactory, primary: Broker, secondary: Broker, queue: str
) -> None:
    async with drive() as driven:
        sender = driven.client.get_queue_sender(queue)
        await driven.call(sender.send_messages, ServiceBusMessage("direct", message_id="a"))
        inject(primary, "refuse-sends", queue, error="internal-error")
        await driven.call(sender.send_messages, ServiceBusMessage("one", message_id="b"))
        many = [ServiceBusMessage("many", message_id=f"c{number}") for number in range(3)]
        await driven.call(sender.send_messages, many)
        assert backlog_counts(secondary, queue) == 4
        assert driven.client.states == {queue: FailoverState.FAILED_OVER}
        heal(primary)
        await until(lambda: bool(driven.told("restored")), "the ping brings it back")
        await driven.call(sender.send_messages, ServiceBusMessage("back", message_id="d"))
        assert primary.queue(queue)["active_message_count"] == 2
        options = driven.client.options
    async with SyphonRunner(primary.connection_string, secondary.connection_string, options) as runner:
        await until(lambda: runner.moved_count == 4, "the backlog arrives")
        assert (runner.dead_lettered_count, runner.unanswered_count) == (0, 0)
    assert driven.client.unanswered_count == 0
    assert sum(cast("int", event["count"]) for event in driven.told("syphoned")) == 4
    assert {event["primary_namespace"] for event in driven.events} == {f"pair-{queue}"}
    assert primary.queue(queue)["active_message_count"] == 6
    async with MessagingFactory.from_connection_string(primary.connection_string) as factory:
        client = factory.create_queue_client(queue)
        identifiers: set[str] = set()
        while len(identifiers) < 6:
            portion = await client.receive_batch(10, PATIENCE_S)
            assert portion, f"only {identifiers} came"
            identifiers |= {str(message.message_id) for message in portion}
    assert identifiers == {"a", "b", "c0", "c1", "c2", "d"}


@mission("M24")
async def test_everything_about_a_message_survives_the_detour(
    drive: DriveFactory, primary: Broker, secondary: Broker, queue: str
) -> None:
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    async with drive() as driven:
        inject(primary, "refuse-sends", queue, error="internal-error")
        sender = driven.client.get_queue_sender(queue)
        message = ServiceBusMessage(
            b"\x00body",
            session_id="s",
            message_id="m",
            time_to_live=timedelta(minutes=5),
            scheduled_enqueue_time_utc=moment,
            subject="order",
            correlation_id="c",
            application_properties={"n": 7, "text": "ü"},
        )
        await driven.call(sender.send_messages, message)
        assert (message.session_id, message.time_to_live) == ("s", timedelta(minutes=5)), "the caller's stays as it is"
        heal(primary)
        options = driven.client.options
    async with SyphonRunner(primary.connection_string, secondary.connection_string, options):
        await until(lambda: primary.queue(queue)["scheduled_message_count"] == 1, "it arrives")
    async with MessagingFactory.from_connection_string(primary.connection_string) as factory:
        (arrived,) = await factory.create_queue_client(queue).peek()
    assert (arrived.body, arrived.message_id, arrived.session_id) == (b"\x00body", "m", "s")
    assert (arrived.label, arrived.correlation_id) == ("order", "c")
    assert arrived.time_to_live == timedelta(minutes=5)
    assert arrived.scheduled_enqueue_time_utc == moment
    assert arrived.properties == {"n": 7, "text": "ü"}


@mission("M22", "M26")
async def test_a_send_that_is_not_answered_is_counted_and_takes_the_detour(
    drive: DriveFactory, primary: Broker, secondary: Broker, queue: str
) -> None:
    async with drive() as driven:
        sender = driven.client.get_queue_sender(queue)
        await driven.call(sender.send_messages, ServiceBusMessage("answered"))
        inject(primary, "timeout", queue, operations=["sends"], perform=True)
        await driven.call(sender.send_messages, ServiceBusMessage("unanswered"), timeout=3)
        assert driven.client.unanswered_count == 1
    assert backlog_counts(secondary, queue) == 1
    await until(lambda: primary.queue(queue)["active_message_count"] == 2, "the primary has taken it all the same")


@mission("M22")
@pytest.mark.parametrize(
    "error, expected",
    [
        ("unauthorized", ServiceBusAuthorizationError),
        ("not-found", MessagingEntityNotFoundError),
        ("server-busy", ServiceBusServerBusyError),
    ],
)
async def test_what_must_not_fail_over_does_not(
    drive: DriveFactory,
    primary: Broker,
    secondary: Broker,
    queue: str,
    error: str,
    expected: type[Exception],
    request: pytest.FixtureRequest,
) -> None:
    async with drive(sdk_client(request, primary)) as driven:
        sender = driven.client.get_queue_sender(queue)
        # With all the time to connect: what follows has little.
        await driven.call(sender.send_messages, ServiceBusMessage("taken"))
        inject(primary, "refuse-sends", queue, error=error)
        with pytest.raises(expected):
            # A busy primary is asked again until then.
            await driven.call(sender.send_messages, ServiceBusMessage("x"), timeout=8)
        assert driven.client.states == {queue: FailoverState.HEALTHY}
    assert backlog_counts(secondary, queue) == 0


def _footed(footer: Any) -> AmqpAnnotatedMessage:
    message = AmqpAnnotatedMessage(value_body="x")
    message.footer = footer
    return message


def _nested(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


# Messages that the SDK cannot encode.
UNSENDABLE: dict[str, Callable[[], Any]] = {
    "a number beyond an int": lambda: AmqpAnnotatedMessage(value_body=2**50),
    "a value of no AMQP type": lambda: AmqpAnnotatedMessage(value_body=object()),
    "a value nested too deep": lambda: AmqpAnnotatedMessage(value_body=_nested(2_000)),
    "a lone surrogate": lambda: AmqpAnnotatedMessage(value_body="\ud800"),
    "a sequence with a number beyond an int": lambda: AmqpAnnotatedMessage(sequence_body=[1, 2**70]),
    "a property of no AMQP type": lambda: ServiceBusMessage("x", application_properties={"k": cast("str", object())}),
    "a time to live beyond 32 bits": lambda: ServiceBusMessage("x", time_to_live=timedelta(days=999_999)),
    "a negative time to live": lambda: ServiceBusMessage("x", time_to_live=timedelta(days=-5)),
    "a footer that is not a map": lambda: _footed(5),
    "no message": object,
}


@mission("M22")
async def test_messages_that_the_sdk_cannot_encode_leave_a_healthy_primary_alone(
    drive: DriveFactory, primary: Broker, secondary: Broker, queue: str, request: pytest.FixtureRequest
) -> None:
    async with drive(sdk_client(request, primary)) as driven:
        sender = driven.client.get_queue_sender(queue)
        for kind, make in UNSENDABLE.items():
            for message in (make(), [make(), ServiceBusMessage("beside it")]):
                with pytest.raises((ServiceBusError, ValueError, TypeError, RecursionError, AttributeError)):
                    await driven.call(sender.send_messages, message)
                assert set(driven.client.states.values()) <= {FailoverState.HEALTHY}, kind
        await driven.call(sender.send_messages, ServiceBusMessage("direct"))
        assert driven.client.states == {queue: FailoverState.HEALTHY}
        assert driven.events == []
    assert backlog_counts(secondary, queue) == 0


async def test_batches_and_schedules_take_the_detour_too(
    drive: DriveFactory, primary: Broker, secondary: Broker, queue: str
) -> None:
    moment = datetime.now(UTC) + timedelta(hours=1)
    async with drive() as driven:
        sender = driven.client.get_queue_sender(queue)
        batch = await driven.call(sender.create_message_batch)
        batch.add_message(ServiceBusMessage("one"))
        batch.add_message(ServiceBusMessage("two"))
        (number,) = await driven.call(sender.schedule_messages, ServiceBusMessage("later"), moment)
        assert number > 0
        inject(primary, "refuse-sends", queue, error="internal-error")
        await driven.call(sender.send_messages, batch)
        assert await driven.call(sender.schedule_messages, [ServiceBusMessage("later")], moment) == [0]
        assert isinstance(await driven.call(sender.create_message_batch), ServiceBusMessageBatch)
    assert backlog_counts(secondary, queue) == 3


async def test_a_topic_is_sent_to_and_everything_else_is_the_sdk(
    drive: DriveFactory, primary: Broker, secondary: Broker, name: str
) -> None:
    primary.create_topic(name)
    primary.create_subscription(name, "all")
    async with drive() as driven:
        await driven.call(driven.client.get_topic_sender(name).send_messages, ServiceBusMessage("news"))
        receiver = driven.client.get_subscription_receiver(name, "all")
        (message,) = await driven.call(receiver.receive_messages, max_wait_time=PATIENCE_S)
        assert str(message) == "news"
        await driven.call(receiver.complete_message, message)
        await driven.call(receiver.close)


async def test_clients_of_the_sdk_can_be_given_in_place_of_strings(
    drive: DriveFactory, primary: Broker, secondary: Broker, queue: str, request: pytest.FixtureRequest
) -> None:
    async with drive(sdk_client(request, primary)) as driven:
        inject(primary, "refuse-sends", queue, error="internal-error")
        await driven.call(driven.client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
    assert backlog_counts(secondary, queue) == 1


@mission("M19")
def test_a_client_without_a_string_needs_somebody_to_make_the_queues(primary: Broker, secondary: Broker) -> None:
    with ServiceBusClient.from_connection_string(secondary.connection_string) as client:
        with pytest.raises(ConfigurationError, match="secondary_namespace_manager is missing"):
            PairedServiceBusClient(primary.connection_string, client)
        manager = NamespaceManager.from_connection_string(secondary.connection_string)
        options = PairedServiceBusOptions(1, primary_namespace="given-client", secondary_namespace_manager=manager)
        with PairedServiceBusClient(primary.connection_string, client, options):
            assert secondary.queue("given-client/x-servicebus-transfer/0")["max_size_in_megabytes"] == 5120


def test_the_options_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="backlog_queue_count is 0"):
        PairedServiceBusOptions(backlog_queue_count=0)


def test_a_namespace_is_not_its_own_secondary(primary: Broker) -> None:
    with pytest.raises(ConfigurationError, match="the secondary must be another"):
        PairedServiceBusClient(primary.connection_string, primary.connection_string)


@mission("M24")
def test_messages_of_every_kind_are_rewritten_alike() -> None:
    whole = ServiceBusMessage(b"x", session_id="s", time_to_live=timedelta(seconds=90), message_id="m")
    kinds: list[SdkMessage] = [
        whole,
        copy.deepcopy(whole.raw_amqp_message),
        {"body": b"x", "session_id": "s", "time_to_live": timedelta(seconds=90)},
    ]
    for message in kinds:
        diverted = rewrite(message, "orders")
        assert diverted.application_properties == {
            "x-ms-path": "orders",
            "x-ms-sessionid": "s",
            "x-ms-timetolive": "00:01:30",
        }
        assert diverted.properties is not None
        assert diverted.properties.group_id is None
        assert diverted.properties.absolute_expiry_time is None
        assert diverted.header is not None
        assert diverted.header.time_to_live is None
    assert [len(single_messages(one)) for one in kinds] == [1, 1, 1]
    assert len(single_messages(kinds)) == 3


@mission("M24")
def test_what_does_not_fit_one_batch_is_left_for_the_next() -> None:
    messages = [ServiceBusMessage(bytes(100_000)) for _ in range(5)]
    diverted = DivertedMessages(messages, "orders")
    assert [len(diverted.portion(left, None, "backlog")) for left in (5, 3, 1)] == [2, 2, 1]
    assert len(DivertedMessages([ServiceBusMessage(bytes(300_000))], "orders").portion(1, None, "backlog")) == 1


def small_backlog(secondary: Broker, name: str) -> str:
    """Make a backlog queue that takes messages of 256 KB, as those of an older pair do; return its path."""
    path = f"pair-{name}/x-servicebus-transfer/0"
    secondary.create_queue(path, max_message_size_in_kilobytes=256)
    return path


@mission("M24")
async def test_a_large_message_takes_the_detour_alone_and_in_a_batch(
    drive: DriveFactory, primary: Broker, secondary: Broker, name: str
) -> None:
    primary.create_queue(name, max_message_size_in_kilobytes=2_048)
    async with drive() as driven:
        sender = driven.client.get_queue_sender(name)
        before = await driven.call(sender.create_message_batch)
        inject(primary, "refuse-sends", name, error="internal-error")
        await driven.call(sender.send_messages, ServiceBusMessage(bytes(1_000_000)))
        await driven.call(sender.send_messages, [ServiceBusMessage(bytes(size)) for size in (10, 600_000, 10, 900_000)])
        during = await driven.call(sender.create_message_batch)
        assert during.max_size_in_bytes == before.max_size_in_bytes, "an outage takes nothing away from a program"
        during.add_message(ServiceBusMessage(bytes(1_500_000)))
        await driven.call(sender.send_messages, during)
        assert backlog_counts(secondary, name) == 6


@mission("M24")
async def test_a_message_too_large_for_the_detour_is_an_error_that_names_the_queue(
    drive: DriveFactory, primary: Broker, secondary: Broker, queue: str
) -> None:
    backlog = small_backlog(secondary, queue)
    async with drive(backlog_queue_count=1) as driven:
        sender = driven.client.get_queue_sender(queue)
        message = ServiceBusMessage(bytes(262_144 - 80))
        await driven.call(sender.send_messages, message)
        inject(primary, "refuse-sends", queue, error="internal-error")
        with pytest.raises(MessageSizeExceededError, match="too large for the detour") as raised:
            await driven.call(sender.send_messages, message)
        assert f"'{queue}' cannot be sent to" in str(raised.value)
        assert f"'{backlog}'" in str(raised.value)


@mission("M24")
async def test_messages_of_which_one_is_too_large_for_the_detour_are_not_sent_in_part(
    drive: DriveFactory, primary: Broker, secondary: Broker, name: str
) -> None:
    primary.create_queue(name, max_message_size_in_kilobytes=2_048)
    backlog = small_backlog(secondary, name)
    async with drive(backlog_queue_count=1) as driven:
        sender = driven.client.get_queue_sender(name)
        inject(primary, "refuse-sends", name, error="internal-error")
        # The first four fill a transfer and begin another; the last one fits the primary, and not the detour.
        messages = [ServiceBusMessage(bytes(size)) for size in (100_000, 100_000, 100_000, 100_000, 300_000)]
        with pytest.raises(MessageSizeExceededError, match="too large for the detour") as raised:
            await driven.call(sender.send_messages, messages)
        assert f"'{backlog}' takes at most 262,144" in str(raised.value)
        assert backlog_counts(secondary, name) == 0
        await driven.call(sender.send_messages, messages[:4])
        assert backlog_counts(secondary, name) == 4


def test_a_batch_of_somebody_else_is_refused() -> None:
    with pytest.raises(TypeError, match="create_message_batch"):
        single_messages(ServiceBusMessageBatch(1_000))


def test_a_received_message_that_is_sent_on_leaves_the_broker_s_words_behind() -> None:
    # Any: what the SDK received it has as bytes, whatever its types say.
    texts: dict[str, dict[Any, Any]] = {
        "annotations": {b"x-opt-sequence-number": 7, b"x-opt-partition-key": b"p"},
        "application_properties": {b"n": 1},
    }
    payload = AmqpAnnotatedMessage(data_body=b"x", **texts)
    diverted = rewrite(payload, "orders")
    assert diverted.annotations == {"x-opt-partition-key": b"p"}
    assert diverted.application_properties == {"n": 1, "x-ms-path": "orders"}


def test_the_syphon_runs_beside_a_program_without_asyncio(primary: Broker, secondary: Broker, queue: str) -> None:
    options = PairedServiceBusOptions(1, timedelta(0), primary_namespace=f"sync-{queue}")
    with PairedServiceBusClient(primary.connection_string, secondary.connection_string, options) as client:
        inject(primary, "refuse-sends", queue, error="internal-error")
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("x"))
        heal(primary)
        with SyphonRunner(primary.connection_string, secondary.connection_string, options) as runner:
            with client.get_queue_receiver(queue, max_wait_time=PATIENCE_S) as receiver:
                (message,) = receiver.receive_messages()
                receiver.complete_message(message)
            assert str(message) == "x"
        assert runner.moved_count == 1


def test_the_client_without_asyncio_is_what_its_source_says() -> None:
    assert generate_blocking.TARGET.read_text(encoding="utf-8") == generate_blocking.generated()


class SlowThread(threading.Thread):
    """A thread that takes its time to start, as on a busy machine."""

    def start(self) -> None:
        time.sleep(0.1)
        super().start()


def test_a_send_that_waits_when_its_client_is_closed_is_told_which_client_that_was(
    primary: Broker, secondary: Broker, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[PairingEvent] = []
    monkeypatch.setattr("tandem.pairing.azure.background.threading.Thread", SlowThread)
    options = PairedServiceBusOptions(1, timedelta(hours=1), primary_namespace=f"ended-{queue}", listener=events.append)
    client = PairedServiceBusClient(primary.connection_string, secondary.connection_string, options)
    inject(primary, "refuse-sends", queue, error="internal-error")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        sending = pool.submit(lambda: client.get_queue_sender(queue).send_messages(ServiceBusMessage("x")))
        wait_until(lambda: [event["event"] for event in events] == ["failing"], "the send waits for the next attempt")
        client.close()
        with pytest.raises(StateError, match=f"the paired client for amqp://127.0.0.1:{primary.port} was closed"):
            sending.result(PATIENCE_S)


def divert_one(primary: Broker, secondary: Broker, queue: str, **chosen: Any) -> None:
    """Send a message that ends in a backlog queue, as a client with these options chooses it."""
    options = PairedServiceBusOptions(failover_interval=timedelta(0), **chosen)
    with PairedServiceBusClient(primary.connection_string, secondary.connection_string, options) as client:
        inject(primary, "refuse-sends", queue, error="internal-error")
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("x"))
    heal(primary)


@mission("M26")
def test_a_syphon_without_options_empties_every_backlog_queue_of_its_primary(
    primary: Broker, secondary: Broker, queue: str
) -> None:
    divert_one(primary, secondary, queue, backlog_queue_count=12, choose=lambda count: count - 1)
    with SyphonRunner(primary.connection_string, secondary.connection_string):
        wait_until(lambda: primary.queue(queue)["active_message_count"] == 1, "what is in the twelfth queue arrives")


@mission("M26")
def test_a_syphon_without_options_does_not_wait_in_silence_at_queues_that_the_client_does_not_use(
    secondary: Broker, mortal: Broker, name: str
) -> None:
    queue = name
    mortal.create_queue(queue)
    divert_one(mortal, secondary, queue, backlog_queue_count=1, primary_namespace=f"chosen-{queue}")
    complaint = ""
    try:
        with SyphonRunner(mortal.connection_string, secondary.connection_string):
            wait_until(lambda: mortal.queue(queue)["active_message_count"] == 1, "it found them")
    except ConfigurationError as error:
        complaint = str(error)
    assert not complaint or f"'chosen-{queue}'" in complaint, "it finds them, or says what it found instead"


def test_a_secondary_given_as_a_client_may_have_a_manager_of_either_kind(
    primary: Broker, secondary: Broker, queue: str
) -> None:
    manager = sync.NamespaceManager.from_connection_string(secondary.connection_string)
    options = PairedServiceBusOptions(
        1, timedelta(0), primary_namespace=f"managed-{queue}", secondary_namespace_manager=manager
    )
    spare = ServiceBusClient.from_connection_string(secondary.connection_string, retry_total=0)
    with PairedServiceBusClient(primary.connection_string, spare, options) as client:
        assert client.options.secondary_namespace_manager is manager
        inject(primary, "refuse-sends", queue, error="internal-error")
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("x"))
    assert secondary.queue(f"managed-{queue}/x-servicebus-transfer/0")["active_message_count"] == 1


@mission("M17", "M22")
def test_wherever_a_connection_is_cut_the_settings_are_not_to_blame(primary: Broker, queue: str) -> None:
    """By its class, what the SDK raises when it is cut off while it shows its token would be a matter of rights."""
    judged: dict[int, Judgement] = {}
    with ChaosProxy("127.0.0.1", primary.port) as proxy:
        through_proxy = primary.connection_string.replace(f":{primary.port}", f":{proxy.port}")
        for cut_after_bytes in range(200, 1_400, 150):
            proxy.to_client.cut_after_bytes = cut_after_bytes
            try:
                with (
                    ServiceBusClient.from_connection_string(through_proxy, retry_total=0) as client,
                    client.get_queue_sender(queue) as sender,
                ):
                    sender.send_messages(ServiceBusMessage("x"), timeout=12)
            except ServiceBusError as error:
                judged[cut_after_bytes] = judge_primary(error)
    assert Judgement.LOST in judged.values()
    assert Judgement.REFUSED not in judged.values(), judged


@pytest.mark.parametrize(
    "words, judgement",
    [
        ("Failed to open CBS authentication link.", Judgement.LOST),
        ("CBS authentication link is in broken status, please recreate the cbs link.", Judgement.LOST),
        ("CBS Token authentication failed. Status code: 401", Judgement.REFUSED),
    ],
)
def test_a_token_is_to_blame_only_if_somebody_looked_at_it(words: str, judgement: Judgement) -> None:
    assert judge_primary(ServiceBusAuthenticationError(message=words)) is judgement


def test_a_message_of_our_own_client_is_no_message_of_the_sdk() -> None:
    with pytest.raises(TypeError):
        single_messages(BrokeredMessage("x"))  # type: ignore[arg-type] # on purpose
