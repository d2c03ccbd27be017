"""Messages that go on from a subscription to a queue or a topic, and from a queue to a topic."""

from __future__ import annotations

from azure.servicebus import ServiceBusMessage

from tests.compat.sdk import (
    AT_ONCE,
    Bus,
    await_counts,
    await_empty,
    correlation,
    drain_all,
    rule,
    sql,
    take,
    take_one,
    text,
    texts,
)
from tests.markers import mission

pytestmark = AT_ONCE


@mission("M1", "M7")
def test_a_subscription_forwards_what_its_rules_select_to_a_queue(bus: Bus) -> None:
    queue = bus.queue()
    topic = bus.topic()
    red = topic.subscription(rule("red", sql("colour = 'red'")), forward_to=queue.name)
    everything = topic.subscription()
    topic.send(
        *(
            ServiceBusMessage(str(number), application_properties={"colour": colour})
            for number, colour in enumerate(("red", "blue", "red"))
        )
    )
    await_counts(queue, {"active": 2})
    assert red.counts() == {}
    assert drain_all(queue, everything) == [["0", "2"], ["0", "1", "2"]]


@mission("M7")
def test_several_subscriptions_can_forward_to_one_queue(bus: Bus) -> None:
    queue = bus.queue()
    topic = bus.topic()
    topic.subscription(forward_to=queue.name)
    topic.subscription(rule("red", correlation(properties={"colour": "red"})), forward_to=queue.name)
    topic.send(ServiceBusMessage("red", application_properties={"colour": "red"}), ServiceBusMessage("plain"))
    with queue.receiver() as receiver:
        assert sorted(texts(take(receiver, 3))) == ["plain", "red", "red"]


@mission("M7")
def test_a_subscription_forwards_to_another_topic(bus: Bus) -> None:
    second = bus.topic()
    last = [second.subscription(), second.subscription(rule("red", sql("colour = 'red'")))]
    first = bus.topic()
    source = first.subscription(forward_to=second.name)
    first.send(
        ServiceBusMessage("red", application_properties={"colour": "red"}),
        ServiceBusMessage("blue", application_properties={"colour": "blue"}),
    )
    await_counts(last[0], {"active": 2})
    assert drain_all(*last) == [["red", "blue"], ["red"]]
    assert source.counts() == {}


@mission("M7")
def test_a_queue_forwards_to_a_topic(bus: Bus) -> None:
    topic = bus.topic()
    subscriptions = [topic.subscription(), topic.subscription()]
    queue = bus.queue(forward_to=topic.name)
    queue.send("one", "two")
    for subscription in subscriptions:
        await_counts(subscription, {"active": 2})
    assert drain_all(*subscriptions) == [["one", "two"]] * 2
    assert queue.counts() == {}


@mission("M8")
def test_a_copy_is_forwarded_with_what_the_action_made_of_it(bus: Bus) -> None:
    target = bus.topic()
    urgent = target.subscription(rule("urgent", sql("priority = 'high'")))
    topic = bus.topic()
    topic.subscription(
        rule("raise", sql("amount > 100"), "SET priority = 'high'; SET sys.Label = 'raised'"), forward_to=target.name
    )
    topic.send(*(ServiceBusMessage(str(amount), application_properties={"amount": amount}) for amount in (50, 500)))
    await_counts(urgent, {"active": 1})
    with urgent.receiver() as receiver:
        message = take_one(receiver)
    assert (text(message), message.subject) == ("500", "raised")


def test_the_dead_letters_of_a_subscription_can_be_forwarded_and_say_where_they_come_from(bus: Bus) -> None:
    target = bus.queue()
    topic = bus.topic()
    other = topic.subscription()
    subscription = topic.subscription(
        rule("mark", {"kind": "true"}, "SET mark = 1"), forward_dead_lettered_messages_to=target.name
    )
    topic.send(ServiceBusMessage(b"bad" * 10_000))
    with subscription.receiver() as receiver:
        receiver.dead_letter_message(take_one(receiver), reason="unreadable")
    with target.receiver() as receiver:
        dead = take_one(receiver)
    assert (text(dead), dead.dead_letter_reason) == ("bad" * 10_000, "unreadable")
    assert dead.application_properties is not None
    assert dead.application_properties[b"mark"] == 1
    assert dead.dead_letter_source == subscription.name
    assert subscription.counts() == {}
    assert other.drain() == ["bad" * 10_000]


def test_what_a_subscription_holds_goes_on_when_it_begins_to_forward(bus: Bus) -> None:
    """Copies that shared their bytes take them along; those that stay keep theirs."""
    target = bus.queue()
    topic = bus.topic()
    leaving = topic.subscription(rule("plain", {"kind": "true"}), rule("mark", {"kind": "true"}, "SET mark = 1"))
    staying = topic.subscription()
    topic.send(ServiceBusMessage(b"x" * 50_000), ServiceBusMessage(b"y" * 50_000))
    bus.broker.update_subscription(topic.name, leaving.own_name, forward_to=target.name)
    await_counts(target, {"active": 4})
    assert leaving.counts() == {}
    assert target.fields()["size_in_bytes"] > 200_000
    assert 100_000 < topic.fields()["size_in_bytes"] < 150_000
    with target.receiver() as receiver:
        forwarded = take(receiver, 4)
    assert texts(forwarded) == [letter * 50_000 for letter in "xxyy"]
    marks = [(message.application_properties or {}).get(b"mark") for message in forwarded]
    assert marks == [None, 1, None, 1]
    assert staying.drain() == [letter * 50_000 for letter in "xy"]
    await_empty(topic)


def test_a_copy_is_forwarded_into_the_session_that_an_action_gave_it(bus: Bus) -> None:
    target = bus.queue(requires_session=True)
    topic = bus.topic()
    without = topic.subscription(forward_to=target.name)
    topic.subscription(rule("by-store", {"kind": "true"}, "SET sys.SessionId = StoreName"), forward_to=target.name)
    topic.send(ServiceBusMessage("issue", application_properties={"StoreName": "Store1"}))
    with target.receiver(session_id="Store1") as receiver:
        assert text(take_one(receiver)) == "issue"
    assert target.counts() == {"active": 1}
    await_counts(without, {"dead_letter": 1})


def test_a_target_that_detects_duplicates_tells_copies_by_the_id_that_an_action_gave_them(bus: Bus) -> None:
    target = bus.queue(requires_duplicate_detection=True)
    topic = bus.topic()
    for name in ("one", "other"):
        topic.subscription(
            rule(name, {"kind": "true"}, f"SET sys.MessageId = '{name}-' + sys.MessageId"), forward_to=target.name
        )
    topic.subscription(forward_to=target.name)
    topic.subscription(forward_to=target.name)
    topic.send(ServiceBusMessage("news", message_id="1"), ServiceBusMessage("news", message_id="2"))
    await_counts(target, {"active": 6})
    with target.receiver() as receiver:
        ids = [str(message.message_id) for message in take(receiver, 6)]
    assert sorted(ids) == ["1", "2", "one-1", "one-2", "other-1", "other-2"]


def test_topics_that_forward_in_a_circle_end_in_a_dead_letter(bus: Bus) -> None:
    one, other = bus.topic(), bus.topic()
    there = one.subscription(forward_to=other.name)
    back = other.subscription(forward_to=one.name)
    watching = one.subscription()
    one.send("round")
    # Four hops are allowed, so that it comes by three times.
    await_counts(watching, {"active": 3})
    await_counts(there, {"dead_letter": 1})
    assert back.counts() == {}
    with there.dead_letters() as receiver:
        assert take_one(receiver).dead_letter_reason == "MaxTransferHopCountExceeded"


def test_what_cannot_be_forwarded_is_a_dead_letter_of_its_subscription(bus: Bus) -> None:
    target = bus.queue()
    topic = bus.topic()
    stuck, other = topic.subscription(forward_to=target.name), topic.subscription()
    bus.broker.update_queue(target.name, status="Disabled")
    topic.send("news")
    await_counts(stuck, {"dead_letter": 1})
    assert other.counts() == {"active": 1}
