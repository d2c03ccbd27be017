"""A broker that is stopped or killed and started again on its ports: what it still knows, and how clients get over it.

Each thing that must survive is a function that prepares it, yields when the broker may end, and goes on with the next
one. All are prepared at once, for one end of one broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError

from tandem.testing import Broker
from tests.compat.sdk import (
    TEST_LIMIT_S,
    Bus,
    await_empty,
    correlation,
    in_seconds,
    number_of,
    rule,
    sql,
    take,
    take_all,
    take_one,
    text,
    texts,
)
from tests.markers import mission
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.timeout(TEST_LIMIT_S)

Survivor = Callable[[Bus], Iterator[None]]

# A minute of trying, for a slow machine: a restart takes one or two seconds.
PATIENT: Final[dict[str, Any]] = {"retry_total": 120, "retry_mode": "fixed", "retry_backoff_factor": 0.5}


# --- clients at work ------------------------------------------------------------------------------------------------


def a_sender_that_never_stops(bus: Bus) -> Iterator[None]:
    """The retries of the SDK bridge the gap, and no accepted message is lost."""
    queue = bus.queue()
    accepted: list[str] = []
    is_over = threading.Event()

    def send_on() -> None:
        with queue.sender() as sender:
            while not is_over.is_set():
                sender.send_messages(ServiceBusMessage(str(len(accepted))))
                accepted.append(str(len(accepted)))

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send_on)
        while not accepted and not sending.done():
            is_over.wait(0.05)
        yield
        before = len(accepted)
        while len(accepted) < before + 10 and not sending.done():
            is_over.wait(0.05)
        is_over.set()
        sending.result()
    received = queue.drain()
    # What was on its way when the broker ended may be there twice: it was sent again.
    assert list(dict.fromkeys(received)) == accepted
    assert len(received) - len(accepted) <= 1


def a_sender_that_was_idle(bus: Bus) -> Iterator[None]:
    queue = bus.queue()
    with queue.sender() as sender:
        sender.send_messages(ServiceBusMessage("before"))
        yield
        sender.send_messages(ServiceBusMessage("after"))
    assert queue.drain() == ["before", "after"]


def a_receiver_that_waits(bus: Bus) -> Iterator[None]:
    queue = bus.queue()
    with ThreadPoolExecutor(1) as pool, queue.receiver() as receiver:
        waiting = pool.submit(take_one, receiver)
        yield
        queue.send("after")
        message = waiting.result()
        assert text(message) == "after"
        receiver.complete_message(message)
    assert queue.counts() == {}


def a_receiver_that_holds_a_message(bus: Bus) -> Iterator[None]:
    """It may settle the message or have lost its lock, but never neither."""
    queue = bus.queue()
    queue.send("work")
    with queue.receiver() as receiver:
        message = take_one(receiver)
        yield
        try:
            receiver.complete_message(message)
        except MessageLockLostError:
            assert text(take_one(receiver)) == "work"
        else:
            assert queue.counts() == {}


def an_asyncio_client(bus: Bus) -> Iterator[None]:
    queue = bus.queue()
    client = bus.connect_aio(**PATIENT)
    sender = client.get_queue_sender(queue.name)
    receiver = client.get_queue_receiver(queue.name)

    async def exchange(body: str) -> None:
        await sender.send_messages(ServiceBusMessage(body))
        (message,) = await receiver.receive_messages(1, PATIENCE_S)
        assert text(message) == body
        await receiver.complete_message(message)

    with asyncio.Runner() as runner:
        runner.run(exchange("before"))
        yield
        runner.run(exchange("after"))
        runner.run(client.close())
    assert queue.counts() == {}


# --- what is on disk ------------------------------------------------------------------------------------------------


def messages_in_every_state(bus: Bus) -> Iterator[None]:
    queue = bus.queue()
    with queue.sender() as sender, queue.receiver() as receiver:
        sender.send_messages([ServiceBusMessage(name) for name in ("deferred", "dead", "active")])
        deferred, dead = take(receiver, 2)
        receiver.defer_message(deferred)
        receiver.dead_letter_message(dead, reason="a reason")
        sender.schedule_messages(ServiceBusMessage("scheduled"), in_seconds(3_600))
    assert queue.counts() == {"active": 1, "deferred": 1, "dead_letter": 1, "scheduled": 1}
    yield
    assert queue.counts() == {"active": 1, "deferred": 1, "dead_letter": 1, "scheduled": 1}
    with queue.receiver() as receiver:
        assert sorted(texts(receiver.peek_messages(10))) == ["active", "deferred", "scheduled"]
        assert text(take_one(receiver)) == "active"
        (again,) = receiver.receive_deferred_messages(number_of(deferred))
        assert text(again) == "deferred"
    with queue.dead_letters() as receiver:
        assert take_one(receiver).dead_letter_reason == "a reason"


def a_message_that_comes_due(bus: Bus) -> Iterator[None]:
    """Before the broker ends, while it is gone or afterwards: it comes once."""
    queue = bus.queue()
    with queue.sender() as sender:
        sender.schedule_messages(ServiceBusMessage("scheduled"), in_seconds(5))
    yield
    with queue.receiver() as receiver:
        assert text(take_one(receiver)) == "scheduled"
        assert take_all(receiver) == []


def locks_and_completions(bus: Bus) -> Iterator[None]:
    """What was locked comes again at once, because locks end with the broker, and what was completed does not."""
    queue = bus.queue()
    queue.send("completed", "locked", "waiting")
    with queue.receiver() as receiver:
        completed, _ = take(receiver, 2)
        receiver.complete_message(completed)
    yield
    with queue.receiver() as receiver:
        again = take(receiver, 2)
        assert sorted(texts(again)) == ["locked", "waiting"]
        for message in again:
            receiver.complete_message(message)
        assert take_all(receiver) == []


def delivery_counts(bus: Bus) -> Iterator[None]:
    queue = bus.queue()
    queue.send("tried")
    with queue.receiver() as receiver:
        receiver.abandon_message(take_one(receiver))
    yield
    with queue.receiver() as receiver:
        assert take_one(receiver).delivery_count == 1


def message_ids_that_were_seen(bus: Bus) -> Iterator[None]:
    queue = bus.queue(requires_duplicate_detection=True)
    queue.send(ServiceBusMessage("first", message_id="1"))
    assert queue.drain() == ["first"]
    yield
    queue.send(ServiceBusMessage("again", message_id="1"), ServiceBusMessage("other", message_id="2"))
    assert queue.drain() == ["other"]


def sequence_numbers_of_messages_that_are_gone(bus: Bus) -> Iterator[None]:
    queue = bus.queue()
    queue.send("one", "two")
    assert queue.drain() == ["one", "two"]
    yield
    queue.send("three")
    with queue.receiver() as receiver:
        assert number_of(take_one(receiver)) == 3


def a_session_and_its_state(bus: Bus) -> Iterator[None]:
    queue = bus.queue(requires_session=True)
    with queue.receiver(session_id="red") as receiver:
        receiver.session.set_state(b"half way")
        queue.send(ServiceBusMessage("one", session_id="red"), ServiceBusMessage("two", session_id="red"))
    yield
    with queue.receiver(session_id="red") as receiver:
        assert receiver.session.get_state() == b"half way"
        assert texts(take(receiver, 2)) == ["one", "two"]


def the_settings_of_a_queue(bus: Bus) -> Iterator[None]:
    queue = bus.queue(max_delivery_count=3, user_metadata="mine")
    bus.broker.update_queue(queue.name, lock_duration_ms=7_000)
    before = bus.broker.queue(queue.name)
    yield
    after = bus.broker.queue(queue.name)
    # When it was used last is a matter of the process that knows.
    assert {**after, "accessed_at_ms": 0} == {**before, "accessed_at_ms": 0}
    assert (after["max_delivery_count"], after["lock_duration_ms"], after["user_metadata"]) == (3, 7_000, "mine")


def a_deletion(bus: Bus) -> Iterator[None]:
    queue = bus.queue()
    queue.send("x")
    bus.broker.delete_queue(queue.name)
    yield
    assert queue.name not in [listed["name"] for listed in bus.broker.queues()]


# --- topics ---------------------------------------------------------------------------------------------------------


def copies_of_published_messages(bus: Bus) -> Iterator[None]:
    """With the bytes that they share, and those that actions changed in some of them."""
    topic = bus.topic()
    plain = topic.subscription()
    marked = topic.subscription(
        rule("one", {"kind": "true"}, "SET mark = 1"), rule("two", sql("size > 1000"), "SET mark = 2; REMOVE size")
    )
    topic.send(*(ServiceBusMessage(b"x" * size, application_properties={"size": size}) for size in (100_000, 10)))
    yield
    with plain.receiver() as receiver, marked.receiver() as marked_receiver:
        copies, marked_copies = take(receiver, 2), take(marked_receiver, 3)
        assert [message.application_properties for message in copies] == [{b"size": 100_000}, {b"size": 10}]
        assert [message.application_properties for message in marked_copies] == [
            {b"size": 100_000, b"mark": 1, b"RuleName": b"one"},
            {b"mark": 2, b"RuleName": b"two"},
            {b"size": 10, b"mark": 1, b"RuleName": b"one"},
        ]
        assert [len(text(message)) for message in copies + marked_copies] == [100_000, 10, 100_000, 100_000, 10]
        for message in copies:
            receiver.complete_message(message)
        for message in marked_copies:
            marked_receiver.complete_message(message)
    await_empty(topic)


def the_rules_of_a_subscription(bus: Bus) -> Iterator[None]:
    topic = bus.topic()
    subscription = topic.subscription(rule("gone", sql("1 = 1")), rule("changed", {"kind": "false"}))
    subscription.add_rule("red", correlation(label="red", properties={"n": 1, "half": 0.5}), "SET mark = 'x'")
    bus.broker.delete_rule(topic.name, subscription.own_name, "gone")
    bus.broker.update_rule(topic.name, subscription.own_name, "changed", filter=sql("n > 5"))
    before = bus.broker.rules(topic.name, subscription.own_name)
    yield
    assert bus.broker.rules(topic.name, subscription.own_name) == before
    topic.send(
        ServiceBusMessage("red", subject="red", application_properties={"n": 1, "half": 0.5}),
        ServiceBusMessage("large", application_properties={"n": 6}),
        ServiceBusMessage("neither", application_properties={"n": 5}),
    )
    assert subscription.drain() == ["red", "large"]


def what_a_topic_keeps_for_later(bus: Bus) -> Iterator[None]:
    """A scheduled message, and the ids of those that nobody wanted."""
    topic = bus.topic(requires_duplicate_detection=True)
    subscriptions = [topic.subscription(rule("wanted", sql("wanted = TRUE"))) for _ in range(2)]
    wanted: dict[str | bytes, Any] = {"wanted": True}
    later = in_seconds(5)
    topic.send(
        ServiceBusMessage("unwanted", message_id="1"),
        ServiceBusMessage("later", message_id="2", application_properties=wanted, scheduled_enqueue_time_utc=later),
    )
    yield
    topic.send(
        ServiceBusMessage("again", message_id="1", application_properties=wanted),
        ServiceBusMessage("again", message_id="2", application_properties=wanted),
    )
    for subscription in subscriptions:
        with subscription.receiver() as receiver:
            assert text(take_one(receiver)) == "later"
        assert subscription.counts() == {"active": 1}


SURVIVORS: Final[tuple[Survivor, ...]] = (
    a_sender_that_never_stops,
    a_sender_that_was_idle,
    a_receiver_that_waits,
    a_receiver_that_holds_a_message,
    an_asyncio_client,
    messages_in_every_state,
    a_message_that_comes_due,
    locks_and_completions,
    delivery_counts,
    message_ids_that_were_seen,
    sequence_numbers_of_messages_that_are_gone,
    a_session_and_its_state,
    the_settings_of_a_queue,
    a_deletion,
    copies_of_published_messages,
    the_rules_of_a_subscription,
    what_a_topic_keeps_for_later,
)


ENDS: Final[dict[str, Callable[[Broker], object]]] = {"stopped": Broker.stop, "killed": Broker.kill}


def outlive(end: str, data_dir: Path) -> dict[Survivor, BaseException | None]:
    """What became of each, after this end of one broker."""
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(Broker(data_dir))
        pool = stack.enter_context(ThreadPoolExecutor(len(SURVIVORS)))
        buses = {survivor: stack.enter_context(Bus(broker, **PATIENT)) for survivor in SURVIVORS}
        under_way = {survivor: survivor(bus) for survivor, bus in buses.items()}
        for prepared in [pool.submit(next, each) for each in under_way.values()]:
            prepared.result()
        ENDS[end](broker)
        broker.start()

        def finish(survivor: Survivor) -> None:
            # Closed here, where the others go on meanwhile: the SDK takes its time for it.
            with buses[survivor]:
                next(under_way[survivor], None)

        outcomes = {survivor: pool.submit(finish, survivor) for survivor in SURVIVORS}
        return {survivor: outcome.exception() for survivor, outcome in outcomes.items()}


@pytest.fixture(scope="module")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[dict[Survivor, BaseException | None]]]]:
    folder = tmp_path_factory.mktemp("restart")
    with ThreadPoolExecutor(len(ENDS)) as pool:
        yield {end: pool.submit(outlive, end, folder / end) for end in ENDS}


@mission("M1", "M3", "M7", "M8", "M15")
@pytest.mark.parametrize("survivor", SURVIVORS, ids=lambda survivor: survivor.__name__)
@pytest.mark.parametrize("end", ENDS)
def test_it_survives(
    outcomes: dict[str, Future[dict[Survivor, BaseException | None]]], end: str, survivor: Survivor
) -> None:
    error = outcomes[end].result()[survivor]
    if error is not None:
        raise error
