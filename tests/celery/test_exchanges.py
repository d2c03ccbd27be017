"""Exchanges, queues and bindings: direct, topic and fanout, kept in the broker for everybody."""

from __future__ import annotations

from typing import Any

import pytest
from kombu import Connection, Exchange, Queue
from kombu.exceptions import ChannelError

from tandem.client import MessagingEntityNotFoundError
from tandem.errors import UsageError
from tandem.testing import Broker
from tests.celery.conftest import Connect
from tests.celery.traffic import Listener
from tests.markers import mission
from tests.patience import wait_until


def queues_of(broker: Broker, prefix: str) -> dict[str, dict[str, Any]]:
    listed = {queue["name"]: queue for queue in broker.queues()}
    return {name.removeprefix(prefix): queue for name, queue in listed.items() if name.startswith(prefix)}


def subscriptions_of(broker: Broker, prefix: str, exchange: str) -> dict[str, dict[str, Any]]:
    listed = broker.management.subscriptions(f"{prefix}exchange/{exchange}").list_all()
    return {one["name"]: one for one in listed}


@mission("M7", "M8")
def test_a_topic_exchange_routes_by_patterns_to_every_queue_once(connection: Connection) -> None:
    media = Exchange("media", "topic")
    video = Queue("video", media, routing_key="video.#")
    # Two bindings that match the same message: the queue gets it once.
    every = Queue("every", media, routing_key="#")
    with Listener(connection, video) as watching, Listener(connection, every) as all_of_it:
        every(all_of_it.channel).bind_to(media, "*.new")
        producer = connection.Producer()
        for key in ("video.new", "audio.new", "video", "text"):
            producer.publish({"key": key}, exchange=media, routing_key=key)
        assert [one["key"] for one in all_of_it.wait_for(4)] == ["video.new", "audio.new", "video", "text"]
        assert [one["key"] for one in watching.wait_for(2)] == ["video.new", "video"]
        assert len(all_of_it.listen()) == 4


@mission("M7")
def test_a_fanout_exchange_reaches_every_queue_and_a_direct_one_those_with_the_key(connect: Connect) -> None:
    news, tasks = Exchange("news", "fanout"), Exchange("tasks", "direct")
    with (
        Listener(connect(), Queue("one", news), Queue("blue", tasks, routing_key="blue")) as one,
        Listener(connect(), Queue("two", news), Queue("red", tasks, routing_key="red")) as two,
    ):
        # Another process, which knows neither queues nor bindings.
        producer = connect().Producer()
        producer.publish("to all", exchange="news")
        producer.publish("to blue", exchange="tasks", routing_key="blue")
        producer.publish("to nobody", exchange="tasks", routing_key="green")
        assert sorted(one.wait_for(2)) == ["to all", "to blue"]
        assert two.wait_for(1) == ["to all"]
        assert two.listen() == ["to all"]


def test_a_durable_queue_collects_what_it_is_bound_to_for_a_consumer_that_knows_no_binding(connect: Connect) -> None:
    channel = connect().channel()
    Queue("collected", Exchange("orders", "topic"), routing_key="orders.*")(channel).declare()
    connect().Producer().publish("first", exchange="orders", routing_key="orders.new")
    with Listener(connect(), Queue("collected", no_declare=True)) as later:
        assert later.wait_for(1) == ["first"]
        assert later.messages[0].delivery_info["routing_key"] == "orders.new"
        assert later.messages[0].delivery_info["exchange"] == "orders"


def test_a_binding_that_is_made_while_a_consumer_waits_counts_at_once(connection: Connection) -> None:
    news = Exchange("news", "fanout")
    queue = Queue("late", auto_delete=True, durable=False)
    with Listener(connection, queue) as listener:
        news(listener.channel).declare()
        queue(listener.channel).bind_to(news)
        connection.Producer().publish("hello", exchange="news")
        assert listener.wait_for(1) == ["hello"]


def test_a_binding_that_is_taken_back_counts_no_more(connection: Connection) -> None:
    orders = Exchange("orders", "direct")
    queue = Queue("orders", orders, routing_key="new")
    with Listener(connection, queue) as listener:
        producer = connection.Producer()
        producer.publish("one", exchange=orders, routing_key="new")
        listener.wait_for(1)
        queue(listener.channel).unbind_from(orders, "new")
        producer.publish("two", exchange=orders, routing_key="new")
        assert listener.listen() == ["one"]


# --- what lies in the broker -----------------------------------------------------------------------------------------


def test_transient_queues_are_deleted_by_the_broker_when_they_are_idle_and_durable_ones_are_not(
    connection: Connection, broker: Broker, prefix: str
) -> None:
    channel = connection.channel()
    news = Exchange("news", "fanout")
    Queue("events", news, auto_delete=True, durable=False, message_ttl=5, expires=600)(channel).declare()
    Queue("tasks", news)(channel).declare()
    queues, bound = queues_of(broker, prefix), subscriptions_of(broker, prefix, "news")
    assert queues["events"]["auto_delete_on_idle_ms"] == bound["events"]["auto_delete_on_idle_ms"] == 600_000
    assert queues["events"]["default_message_time_to_live_ms"] == 5_000
    assert bound["events"]["forward_to"] is None
    assert queues["tasks"]["auto_delete_on_idle_ms"] is None
    assert bound["tasks"]["forward_to"] == f"{prefix}tasks"
    assert queues["tasks"]["requires_duplicate_detection"]
    assert queues["tasks"]["max_delivery_count"] == 2_000


def test_an_exclusive_queue_begins_empty_and_goes_with_its_consumer(
    connect: Connect, broker: Broker, prefix: str
) -> None:
    news = Exchange("news", "fanout")
    queue = Queue("worker@host.pidbox", news, exclusive=True, durable=False, auto_delete=True)
    killed = connect()
    queue(killed.channel()).declare()
    # It has left this behind, as a process does that is killed.
    killed.Producer().publish("stale", exchange="news")
    killed.Producer().publish("stale, too", exchange="", routing_key=queue.name)
    with Listener(connect(), queue) as listener:
        connect().Producer().publish("fresh", exchange="news")
        assert listener.wait_for(1) == ["fresh"]
        assert len(subscriptions_of(broker, prefix, "news")) == 1
        assert len(queues_of(broker, prefix)) == 1
    assert subscriptions_of(broker, prefix, "news") == {}
    assert queues_of(broker, prefix) == {}


def test_deleting_a_queue_deletes_the_bindings_that_others_have_made(
    connect: Connect, broker: Broker, prefix: str
) -> None:
    Queue("gone", Exchange("news", "fanout"))(connect().channel()).declare()
    connect().channel().queue_delete("gone")
    assert queues_of(broker, prefix) == {}
    assert subscriptions_of(broker, prefix, "news") == {}


def test_an_exchange_can_be_deleted_and_declared_again(connection: Connection, broker: Broker) -> None:
    channel = connection.channel()
    news = Exchange("news", "fanout")
    news(channel).declare()
    news(channel).delete()
    with pytest.raises(ChannelError, match="no exchange"):
        news(channel).declare(passive=True)
    # kombu's own way to publish: it declares, connects and declares again until it is there.
    connection.Producer().publish("hello", exchange=news, declare=[news], retry=True, retry_policy={"max_retries": 3})
    news(channel).declare(passive=True)


def test_a_passive_declaration_counts_the_messages_and_refuses_what_is_not_there(connection: Connection) -> None:
    queue = Queue("counted")
    channel = connection.channel()
    with pytest.raises(ChannelError, match="no queue 'counted'"):
        queue(channel).queue_declare(passive=True)
    queue(channel).declare()
    for number in range(3):
        connection.Producer().publish(number, routing_key="counted")
    assert queue(channel).queue_declare(passive=True).message_count == 3


def test_a_message_for_a_queue_that_was_deleted_makes_it_anew_if_the_publisher_has_declared_it(
    connect: Connect, broker: Broker, prefix: str
) -> None:
    connection = connect()
    channel = connection.channel()
    queue = Queue("tasks")
    queue(channel).declare()
    connection.Producer(channel).publish("first", routing_key="tasks")
    broker.management.queues.delete(f"{prefix}tasks")
    connection.Producer(channel).publish("second", routing_key="tasks")
    assert queue(channel).get().payload == "second"


def test_a_reply_to_somebody_who_is_gone_is_dropped(connection: Connection, caplog: pytest.LogCaptureFixture) -> None:
    connection.Producer().publish("reply", routing_key="a-queue-that-was-never-there")
    assert "the message is dropped" in caplog.text


def test_a_consumer_learns_that_its_queue_was_deleted(connection: Connection, broker: Broker, prefix: str) -> None:
    with Listener(connection, Queue("tasks")) as listener:
        broker.management.queues.delete(f"{prefix}tasks")
        with pytest.raises(MessagingEntityNotFoundError):
            listener.wait_for(1)
    assert MessagingEntityNotFoundError in connection.connection_errors


def test_purging_deletes_also_what_is_due_later(connection: Connection) -> None:
    channel = connection.channel()
    Queue("tasks")(channel).declare()
    producer = connection.Producer()
    for number in range(3):
        producer.publish(number, routing_key="tasks")
        producer.publish(number, routing_key="tasks", headers={"eta": "2999-01-01T00:00:00+00:00"})
    assert channel.queue_purge("tasks") == 6
    assert Queue("tasks")(channel).queue_declare(passive=True).message_count == 0


@pytest.mark.parametrize("verb", ["exchange_bind", "exchange_unbind", "flow"])
def test_what_the_transport_does_not_have_is_refused(connection: Connection, verb: str) -> None:
    with pytest.raises(UsageError, match="this transport"):
        getattr(connection.channel(), verb)()


def test_queues_and_exchanges_of_one_name_do_not_collide(connection: Connection, broker: Broker, prefix: str) -> None:
    queue = Queue("celery", Exchange("celery", "direct"), routing_key="celery")
    with Listener(connection, queue) as listener:
        connection.Producer().publish("by key", exchange="celery", routing_key="celery")
        connection.Producer().publish("by name", exchange="", routing_key="celery")
        assert sorted(listener.wait_for(2)) == ["by key", "by name"]
    wait_until(lambda: queues_of(broker, prefix)["celery"]["message_count"] == 0, "an empty queue")
