"""Consuming: acknowledgements, prefetching, locks and their renewal, and a broker that is killed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kombu import Connection, Queue

from tandem.client import MessagingCommunicationError, UnauthorizedAccessError
from tandem.testing import Broker
from tests.celery.conftest import Connect
from tests.celery.traffic import Listener
from tests.markers import mission
from tests.patience import wait_until


def publish(connection: Connection, queue: str, *bodies: Any, **options: Any) -> None:
    producer = connection.Producer()
    for body in bodies:
        producer.publish(body, routing_key=queue, declare=[Queue(queue)], **options)


def counts(broker: Broker, prefix: str, queue: str = "tasks") -> tuple[int, int]:
    """Active and dead-lettered messages."""
    shown = broker.queue(f"{prefix}{queue}")
    return shown["active_message_count"], shown["dead_letter_message_count"]


@mission("M3")
def test_an_acknowledged_message_is_gone_and_a_rejected_one_is_a_dead_letter_or_comes_again(
    connection: Connection, broker: Broker, prefix: str
) -> None:
    publish(connection, "tasks", "ack", "reject", "requeue")
    with Listener(connection, Queue("tasks"), acks=False) as listener:
        listener.wait_for(3)
        by_body = {message.payload: message for message in listener.messages}
        by_body["ack"].ack()
        by_body["reject"].reject()
        by_body["requeue"].requeue()
        listener.wait_for(4)
        again = listener.messages[3]
        assert (again.payload, again.delivery_info["redelivered"]) == ("requeue", True)
        again.ack()
        wait_until(lambda: counts(broker, prefix) == (0, 1), "one dead letter")


@mission("M3")
def test_what_was_not_acknowledged_goes_back_when_the_channel_is_closed(connect: Connect) -> None:
    publish(connect(), "tasks", "one", "two")
    with Listener(connect(), Queue("tasks"), acks=False) as first:
        first.wait_for(2)
        first.messages[0].ack()
    with Listener(connect(), Queue("tasks")) as second:
        assert second.wait_for(1) == ["two"]
        # It was given back, not lost: this counts as its first delivery.
        assert not second.messages[0].delivery_info["redelivered"]
        assert second.listen() == ["two"]


def test_recover_gives_everything_back(connection: Connection) -> None:
    publish(connection, "tasks", "one")
    with Listener(connection, Queue("tasks"), acks=False) as listener:
        listener.wait_for(1)
        listener.consumer.recover(requeue=True)
        assert listener.wait_for(2) == ["one", "one"]


@mission("M1")
def test_a_channel_never_has_more_than_its_prefetch_count_over_all_its_queues(
    connect: Connect, broker: Broker, prefix: str
) -> None:
    for queue in ("a", "b", "c"):
        publish(connect(), queue, *range(5))
    queues = [Queue(name) for name in ("a", "b", "c")]
    with Listener(connect(), *queues, acks=False, prefetch_count=4) as listener:
        listener.wait_for(4)
        assert len(listener.listen()) == 4
        # What the others got beyond that was released: other consumers have it at once.
        with Listener(connect(), *queues, acks=False) as other:
            assert len(other.wait_for(11)) == 11
            listener.messages[0].ack()
            listener.channel.basic_qos(0, 6, False)
            # While it consumes it would take them again itself.
            other.consumer.cancel()
            other.messages[0].requeue()
            other.messages[1].requeue()
            listener.wait_for(6)


def test_a_consumer_of_an_empty_queue_leaves_the_room_to_the_others(connection: Connection) -> None:
    """With a prefetch count of one, the queue that has no messages must not hold on to it."""
    with Listener(connection, Queue("empty"), Queue("full"), prefetch_count=1) as listener:
        publish(connection, "full", *range(20))
        assert sorted(listener.wait_for(20)) == list(range(20))


def test_messages_that_need_no_acknowledgement_are_gone_when_they_are_handed_out(
    connection: Connection, broker: Broker, prefix: str
) -> None:
    publish(connection, "tasks", *range(300))
    with Listener(connection, Queue("tasks"), no_ack=True) as listener:
        assert sorted(listener.wait_for(300)) == list(range(300))
        assert counts(broker, prefix) == (0, 0)


def test_get_returns_one_message_or_none(connection: Connection, broker: Broker, prefix: str) -> None:
    queue = Queue("tasks")(connection.channel())
    queue.declare()
    assert queue.get() is None
    publish(connection, "tasks", "one", "two")
    first, second = queue.get(), queue.get(no_ack=True)
    assert (first.payload, second.payload) == ("one", "two")
    first.ack()
    wait_until(lambda: counts(broker, prefix) == (0, 0), "an empty queue")


def test_a_consumer_that_was_cancelled_gets_nothing_more_and_can_still_acknowledge(
    connection: Connection, broker: Broker, prefix: str
) -> None:
    with Listener(connection, Queue("tasks"), acks=False) as listener:
        publish(connection, "tasks", "one")
        listener.wait_for(1)
        listener.consumer.cancel()
        publish(connection, "tasks", "two")
        assert listener.listen() == ["one"]
        listener.messages[0].ack()
        wait_until(lambda: counts(broker, prefix) == (1, 0), "the second alone")


@mission("M3")
def test_the_lock_of_a_message_is_renewed_for_as_long_as_it_is_processed(connect: Connect) -> None:
    slow, other = connect(lock_duration=1), connect(lock_duration=1)
    publish(slow, "tasks", "one")
    with Listener(slow, Queue("tasks"), acks=False) as working:
        working.wait_for(1)
        with Listener(other, Queue("tasks")) as waiting:
            # Three times as long as the lock lasts.
            assert waiting.listen(3.0) == []
            working.messages[0].ack()
            assert waiting.listen() == []
            assert working.listen() == ["one"]


@mission("M3")
def test_a_message_in_work_is_not_delivered_twice_when_the_broker_is_killed(
    own_broker: Broker, connect: Connect, prefix: str
) -> None:
    """The broker forgets its locks. The message comes again, is recognised, and is acknowledged under its new lock."""
    connection = connect(own_broker)
    with Listener(connection, Queue("tasks"), acks=False) as listener:
        publish(connection, "tasks", "one", "two")
        listener.wait_for(2)
        own_broker.kill()
        # Acknowledged while nobody is there to hear it.
        listener.messages[0].ack()
        own_broker.start()
        publish(connection, "tasks", "three")
        assert listener.wait_for(3) == ["one", "two", "three"]
        assert listener.listen() == ["one", "two", "three"]
        listener.messages[1].ack()
        listener.messages[2].ack()
        wait_until(lambda: counts(own_broker, prefix) == (0, 0), "an empty queue")


@mission("M1")
def test_a_publish_that_the_broker_did_not_answer_is_there_once_after_it_was_repeated(
    own_broker: Broker, connect: Connect, prefix: str
) -> None:
    """kombu repeats a publish that failed: under the same message id, by which the queue knows it."""
    connection = connect(own_broker)
    channel = connection.channel()
    Queue("tasks")(channel).declare()
    properties: dict[str, Any] = {}
    for _ in range(3):
        channel.basic_publish(channel.prepare_message("once", properties=properties), "", "tasks")
    assert counts(own_broker, prefix) == (1, 0)


def test_closing_does_not_wait_for_a_broker_that_is_gone(own_broker: Broker, connect: Connect) -> None:
    connection = connect(own_broker)
    publish(connection, "tasks", "one")
    listener = Listener(connection, Queue("tasks"), acks=False)
    listener.consumer.consume()
    listener.wait_for(1)
    own_broker.kill()
    started_s = time.monotonic()
    connection.close()
    # Far less than the client library would try; a slow machine takes its time.
    assert time.monotonic() - started_s < 30
    assert not connection.connected


def test_a_broker_that_cannot_be_reached_is_an_error_that_kombu_retries(own_broker: Broker, connect: Connect) -> None:
    own_broker.kill()
    connection = connect(own_broker)
    with pytest.raises(MessagingCommunicationError):
        connection.connect()
    assert MessagingCommunicationError in connection.recoverable_connection_errors


def test_a_wrong_key_is_an_error_that_kombu_does_not_retry(broker: Broker) -> None:
    wrong = broker.connection_string.replace("SAS_KEY_VALUE", "WRONG")
    connection = Connection(wrong, transport="tandem.celery:Transport")
    with pytest.raises(UnauthorizedAccessError):
        connection.ensure_connection(max_retries=None)
    connection.close()
