"""Topics and subscriptions that messages are forwarded to and from, and how large all of it is meanwhile."""

from __future__ import annotations

import pytest

from tandem.amqp.message import Message
from tandem.engine.rule import Rule
from tandem.engine.stored_description import description_of
from tandem.errors import ArgumentError
from tests.engine.desk import body, payload, properties_of
from tests.engine.topic_desk import TopicDesk, colored, rule, sql
from tests.markers import mission

# Ticks of 100 nanoseconds since the year 1, as rules count time, at the beginning of 1970.
EPOCH_TICKS = 621_355_968_000_000_000


def later(due_ms: int) -> Rule:
    """A rule whose action schedules its copy."""
    due = {"datetime": EPOCH_TICKS + due_ms * 10_000}
    return rule("later", None, "SET sys.ScheduledEnqueueTimeUtc = @due", parameters={"@due": due})


# --- from a subscription --------------------------------------------------------------------------------------------


@mission("M7")
def test_a_subscription_forwards_its_copies_to_a_queue() -> None:
    desk = TopicDesk()
    target = desk.queue("target")
    topic = desk.topic()
    forwarding = desk.subscription(topic, "forwarding", forward_to="target")
    other = desk.subscription(topic, "other")
    desk.send(topic, payload("a"))
    assert desk.peek(target.main) == desk.peek(other.main) == ["a"]
    assert forwarding.main.active_count == 0
    desk.receiver(target.main)
    (lock,) = desk.take()
    assert lock.message.hop_count == 1


def test_copies_that_were_there_before_a_subscription_forwards_go_too_and_take_their_bytes_along() -> None:
    desk = TopicDesk()
    target = desk.queue("target")
    topic = desk.topic()
    first, second = desk.subscription(topic, "first"), desk.subscription(topic, "second")
    desk.send(topic, payload("a"))
    size_bytes = topic.size_bytes
    assert desk.bodies_in_store() == {1: 2}
    desk.update(first, forward_to="target")
    assert (desk.peek(target.main), desk.peek(first.main)) == (["a"], [])
    assert (target.size_bytes, topic.size_bytes, desk.bodies_in_store()) == (size_bytes, size_bytes, {1: 1})
    desk.complete_all(second)
    assert (target.size_bytes, topic.size_bytes, desk.bodies_in_store()) == (size_bytes, 0, {})
    desk.restart()
    desk.receiver(desk.namespace.get("target").main)
    assert desk.take_bodies() == ["a"]


def test_a_copy_that_cannot_be_forwarded_is_a_dead_letter_of_its_subscription_alone() -> None:
    desk = TopicDesk()
    target = desk.queue("target")
    topic = desk.topic()
    forwarding = desk.subscription(topic, "forwarding", forward_to="target")
    other = desk.subscription(topic, "other")
    desk.update(target, status="SendDisabled")
    desk.send(topic, payload("a"))
    assert desk.peek(other.main) == ["a"]
    desk.receiver(forwarding.dead_letter_queue)
    (dead,) = desk.take()
    assert properties_of(dead)["DeadLetterReason"] == "ForwardingFailed"
    assert desk.bodies_in_store() == {1: 2}


def test_dead_letters_of_a_subscription_go_where_it_says_and_take_their_bytes_along() -> None:
    desk = TopicDesk()
    graveyard = desk.queue("graveyard")
    topic = desk.topic()
    subscription = desk.subscription(topic, "one", forward_dead_lettered_messages_to="graveyard")
    other = desk.subscription(topic, "other")
    desk.send(topic, payload("a"))
    size_bytes = topic.size_bytes
    desk.receiver(subscription.main)
    subscription.main.dead_letter(desk.take()[0], "why", None)
    desk.flush()
    desk.complete_all(other)
    assert (topic.size_bytes, graveyard.size_bytes, desk.bodies_in_store()) == (0, size_bytes, {})
    desk.receiver(graveyard.main)
    (lock,) = desk.take()
    assert (body(lock), properties_of(lock)["DeadLetterReason"]) == ("a", "why")
    annotations = Message(lock.payload).message_annotations or {}
    assert annotations["x-opt-deadletter-source"] == subscription.name


@mission("M8")
def test_an_id_that_an_action_gave_a_copy_counts_where_it_is_forwarded_to() -> None:
    desk = TopicDesk()
    target = desk.queue("target", requires_duplicate_detection=True)
    topic = desk.topic()
    desk.subscription(topic, "one", rule("same", None, "SET sys.MessageId = 'same'"), forward_to="target")
    desk.send(topic, payload("a", message_id="1"), payload("b", message_id="2"))
    assert desk.peek(target.main) == ["a"]


@mission("M8")
def test_a_time_that_an_action_set_counts_where_the_copy_is_forwarded_to() -> None:
    desk = TopicDesk()
    target, topic = desk.queue("target"), desk.topic()
    subscription = desk.subscription(topic, "staying", later(desk.now_ms + 5_000))
    desk.subscription(topic, "going", later(desk.now_ms + 5_000), forward_to="target")
    desk.send(topic, payload("a"))
    assert desk.peek(subscription.main) == ["a"]
    assert (subscription.main.active_count, target.main.active_count, target.main.scheduled_count) == (1, 0, 1)
    desk.advance(5_000)
    assert (target.main.active_count, target.main.scheduled_count) == (1, 0)


def test_a_time_that_an_action_set_does_not_keep_a_dead_letter_back() -> None:
    desk = TopicDesk()
    target, topic = desk.queue("target"), desk.topic()
    subscription = desk.subscription(
        topic,
        "one",
        later(desk.now_ms + 60_000),
        default_message_time_to_live_ms=1_000,
        dead_lettering_on_message_expiration=True,
        forward_dead_lettered_messages_to="target",
    )
    # In memory with its bytes, for a receiver that takes nothing; and on disk only.
    consumer = desk.receiver(subscription.main, credit=1)
    for text in ("given", "at hand"):
        desk.send(topic, payload(text))
    subscription.main.dead_letter(desk.take()[0], "why", None)
    desk.advance(1_000)
    subscription.main.close_consumer(consumer)
    desk.send(topic, payload("on disk"))
    desk.advance(1_000)
    assert desk.peek(target.main) == ["given", "at hand", "on disk"]
    assert target.main.active_count == 3


def test_a_duplicate_for_the_topic_is_not_known_where_it_would_have_been_forwarded_to() -> None:
    desk = TopicDesk()
    target = desk.queue("target", requires_duplicate_detection=True)
    topic = desk.topic(requires_duplicate_detection=True)
    subscription = desk.subscription(topic, "one")
    desk.send(topic, payload("a", message_id="1"))
    desk.update(subscription, forward_to="target")
    desk.send(topic, payload("again", message_id="1"))
    desk.send(target, payload("direct", message_id="1"))
    # What was there before and moved is not judged again: only what is sent is.
    assert desk.peek(target.main) == ["a", "direct"]


# --- into a topic ---------------------------------------------------------------------------------------------------


@mission("M7")
def test_a_message_that_is_forwarded_into_a_topic_reaches_who_wants_it() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    red = desk.subscription(topic, "red", rule("red", sql("color = 'red'")))
    everything = desk.subscription(topic, "all")
    source = desk.queue("source", forward_to="news")
    desk.send(source, colored("a", "red"), colored("b", "blue"))
    desk.advance(0)
    assert (desk.peek(red.main), desk.peek(everything.main)) == (["a"], ["a", "b"])
    assert (source.size_bytes, topic.main.scheduled_count) == (0, 0)


def test_a_message_that_was_forwarded_waits_in_its_topic_on_disk_until_it_is_passed_on() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    desk.subscription(topic, "one")
    source = desk.queue("source", forward_to="news")
    source.send(payload("a"), 0)
    batch, duplicates = desk.write()
    desk.commit(batch, duplicates)
    assert (topic.main.scheduled_count, topic.size_bytes) == (1, len(payload("a")))
    desk.restart()
    desk.advance(0)
    topic = desk.namespace.topic("news")
    assert topic.main.scheduled_count == 0
    assert desk.peek(desk.namespace.subscription("news", "one").main) == ["a"]
    assert topic.size_bytes == len(payload("a"))


def test_dead_letters_that_go_to_a_topic_tell_whose_they_were_and_rules_see_why() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one", rule("why", sql("DeadLetterReason = 'bad'")))
    source = desk.queue("source", forward_dead_lettered_messages_to="news")
    desk.send(source, payload("a"), payload("b"))
    desk.receiver(source.main)
    for lock, why in zip(desk.take(), ("bad", "worse"), strict=True):
        source.main.dead_letter(lock, why, None)
    desk.flush()
    desk.advance(0)
    desk.receiver(subscription.main)
    (lock,) = desk.take()
    annotations = Message(lock.payload).message_annotations or {}
    assert (body(lock), annotations["x-opt-deadletter-source"]) == ("a", "source")


def test_topics_that_forward_to_each_other_stop_after_four_hops() -> None:
    desk = TopicDesk()
    one, two = desk.topic("one"), desk.topic("two")
    to_two = desk.subscription(one, "on", forward_to="two")
    to_one = desk.subscription(two, "on", forward_to="one")
    seen = desk.subscription(two, "seen")
    desk.send(one, payload("a"))
    desk.advance(0)
    assert desk.peek(seen.main) == ["a", "a"]
    dead = to_two.dead_letter_queue
    assert (dead.active_count, to_one.dead_letter_queue.active_count) == (1, 0)
    desk.receiver(dead)
    (lock,) = desk.take()
    assert properties_of(lock)["DeadLetterReason"] == "MaxTransferHopCountExceeded"
    assert lock.message.hop_count == 4


def test_a_subscription_that_forwards_to_its_own_topic_does_not_turn_for_ever() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    turning = desk.subscription(topic, "turning", forward_to="news")
    counting = desk.subscription(topic, "counting")
    desk.send(topic, payload("a"))
    desk.advance(0)
    assert (counting.main.active_count, turning.dead_letter_queue.active_count) == (5, 1)
    assert topic.main.scheduled_count == 0


def test_a_scheduled_message_of_a_queue_is_forwarded_into_the_topic_when_it_is_due() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one")
    source = desk.queue("source", forward_to="news")
    desk.send(source, payload("a", due_ms=desk.now_ms + 1_000))
    assert subscription.main.active_count == 0
    desk.advance(1_000)
    assert desk.peek(subscription.main) == ["a"]


def test_duplicates_are_detected_in_what_is_forwarded_into_a_topic() -> None:
    desk = TopicDesk()
    topic = desk.topic(requires_duplicate_detection=True)
    subscription = desk.subscription(topic, "one")
    source = desk.queue("source", forward_to="news")
    desk.send(topic, payload("a", message_id="1"))
    desk.send(source, payload("again", message_id="1"), payload("b", message_id="2"))
    desk.advance(0)
    desk.send(topic, payload("once more", message_id="2"))
    assert desk.peek(subscription.main) == ["a", "b"]


def test_ids_of_what_was_forwarded_into_a_topic_are_forgotten_in_time() -> None:
    desk = TopicDesk()
    topic = desk.topic(requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=20_000)
    source = desk.queue("source", forward_to="news")
    desk.advance(60_000)
    desk.send(source, payload("a", message_id="1"))
    assert list(desk.store._duplicates[topic.number]) == ["1"]
    desk.advance(60_000)
    assert list(desk.store._duplicates[topic.number]) == []


def test_ids_are_forgotten_in_time_though_something_nearer_woke_the_topic() -> None:
    desk = TopicDesk()
    topic = desk.topic(requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=20_000)
    desk.advance(60_000)
    desk.send(topic, payload("a", message_id="1", due_ms=desk.now_ms + 1_000))
    desk.advance(1_000)
    desk.advance(60_000)
    assert list(desk.store._duplicates[topic.number]) == []


def test_what_a_deleted_subscription_held_is_not_forwarded_any_more() -> None:
    desk = TopicDesk()
    target = desk.queue("target")
    topic = desk.topic()
    subscription = desk.subscription(topic, "one")
    desk.send(topic, payload("a"))
    description = description_of("subscription", {**subscription.description.to_fields(), "forward_to": "target"})
    desk.namespace.update_queue(subscription, description)
    desk.namespace.settle_turn()
    (query,) = desk.namespace.effects.queries
    desk.namespace.delete(subscription)
    # The store still has what was there when the question is answered.
    desk.store.read(query)
    desk.flush()
    assert (desk.peek(target.main), target.size_bytes, topic.size_bytes) == ([], 0, 0)


def test_a_topic_takes_forwarded_messages_only_if_it_takes_any() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    source = desk.queue("source", forward_to="news")
    desk.update(topic, status="SendDisabled")
    desk.send(source, payload("a"))
    assert source.dead_letter_queue.active_count == 1
    with pytest.raises(ArgumentError, match="which does not exist"):
        desk.update(source, forward_to="news/Subscriptions/one")


def test_what_cannot_be_sent_by_way_of_a_topic_is_kept_there_and_counted() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    drafts = topic.read(payload("a"), 0)
    drafts[0].destination = "missing"
    topic.take(drafts)
    desk.flush()
    assert desk.peek(topic.transfer_dead_letter_queue) == ["a"]
    assert topic.size_bytes == len(payload("a"))


# --- sizes ----------------------------------------------------------------------------------------------------------


@mission("M7")
def test_a_body_is_kept_and_counted_once_however_many_subscriptions_hold_it() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscriptions = [desk.subscription(topic, f"s{number}") for number in range(10)]
    message = payload("x" * 100_000)
    desk.send(topic, message)
    assert topic.size_bytes == len(message)
    assert [one.size_bytes for one in subscriptions] == [0] * 10
    assert desk.bodies_in_store() == {1: 10}
    for left, subscription in enumerate(reversed(subscriptions)):
        assert topic.size_bytes == len(message)
        assert desk.bodies_in_store() == {1: 10 - left}
        assert desk.complete_all(subscription) == ["x" * 100_000]
    assert (topic.size_bytes, desk.bodies_in_store()) == (0, {})


def test_a_single_copy_has_its_bytes_to_itself() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one")
    desk.send(topic, payload("a"))
    assert (topic.size_bytes, subscription.size_bytes) == (len(payload("a")), len(payload("a")))
    assert desk.bodies_in_store() == {}
    desk.complete_all(subscription)
    assert (topic.size_bytes, subscription.size_bytes) == (0, 0)


def test_a_body_stays_as_long_as_one_copy_does_whatever_becomes_of_it() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    dying = desk.subscription(topic, "dying", max_delivery_count=1)
    expiring = desk.subscription(
        topic, "expiring", default_message_time_to_live_ms=1_000, dead_lettering_on_message_expiration=True
    )
    deferring = desk.subscription(topic, "deferring")
    vanishing = desk.subscription(topic, "vanishing", default_message_time_to_live_ms=1_000)
    desk.send(topic, payload("a"))
    size_bytes = topic.size_bytes
    desk.receiver(dying.main)
    dying.main.abandon(desk.take()[0])
    desk.receiver(deferring.main)
    deferring.main.defer(desk.take()[0])
    desk.flush()
    desk.advance(1_000)
    desk.restart()
    topic = desk.namespace.topic("news")
    assert (topic.size_bytes, desk.bodies_in_store()) == (size_bytes, {1: 3})
    assert desk.namespace.subscription("news", vanishing.subscription_description.subscription_name).size_bytes == 0
    for name in ("dying", "expiring"):
        dead = desk.namespace.subscription("news", name).dead_letter_queue
        desk.receiver(dead, deletes=True)
        assert desk.take_handed_out() == ["a"]
    assert (topic.size_bytes, desk.bodies_in_store()) == (size_bytes, {1: 1})
    deferring = desk.namespace.subscription("news", "deferring")
    answer = desk.ask(lambda asker: deferring.main.receive_deferred([1], True, None, asker))
    assert isinstance(answer, list)
    assert (topic.size_bytes, desk.bodies_in_store()) == (0, {})
    assert expiring.name == "news/Subscriptions/expiring"


def test_a_deleted_subscription_frees_what_nobody_else_holds_also_in_the_turn_of_a_settlement() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    one, two = desk.subscription(topic, "one"), desk.subscription(topic, "two")
    desk.send(topic, payload("a"), payload("b"))
    desk.receiver(one.main)
    first, _ = desk.take()
    one.main.complete(first)
    desk.namespace.delete(one)
    desk.flush()
    assert desk.bodies_in_store() == {1: 1, 2: 1}
    assert topic.size_bytes == len(payload("a")) + len(payload("b"))
    assert desk.complete_all(two) == ["a", "b"]
    assert (topic.size_bytes, desk.bodies_in_store()) == (0, {})


def test_the_state_of_a_session_is_part_of_the_size_of_its_topic() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one", requires_session=True)
    sessions = subscription.main.sessions
    assert sessions is not None
    desk.ask(lambda asker: sessions.set_state("s", bytes(100), asker))
    assert (topic.size_bytes, subscription.size_bytes) == (100, 100)
    desk.ask(lambda asker: sessions.set_state("s", bytes(30), asker))
    assert topic.size_bytes == 30
    desk.restart()
    topic = desk.namespace.topic("news")
    assert topic.size_bytes == 30
    desk.namespace.delete(desk.namespace.subscription("news", "one"))
    desk.flush()
    assert topic.size_bytes == 0


@mission("M8")
def test_a_copy_with_an_action_is_counted_as_large_as_it_is() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one", rule("paint", None, "SET color = 'green'"))
    desk.send(topic, colored("a", "red"))
    # Two letters more, and 'RuleName' and 'paint' with a byte for the type and one for the length of each.
    grown = len("green") - len("red") + len("RuleName") + 2 + len("paint") + 2
    assert subscription.size_bytes == topic.size_bytes == len(colored("a", "red")) + grown


def test_numbers_of_bodies_are_not_given_again_while_they_are_in_use() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    for name in ("one", "two"):
        desk.subscription(topic, name)
    desk.send(topic, payload("a"), payload("b"))
    desk.restart()
    desk.send(desk.namespace.topic("news"), payload("c"))
    assert desk.bodies_in_store() == {1: 2, 2: 2, 3: 2}
    for name in ("one", "two"):
        assert desk.peek(desk.namespace.subscription("news", name).main) == ["a", "b", "c"]


def test_nothing_is_pending_when_all_is_on_disk() -> None:
    desk = TopicDesk()
    topic = desk.topic(requires_duplicate_detection=True)
    subscriptions = [desk.subscription(topic, name) for name in ("one", "two")]
    source = desk.queue("source", forward_to="news")
    desk.send(topic, payload("a", message_id="1"), payload("again", message_id="1"))
    desk.send(source, payload("b", message_id="2"))
    desk.advance(0)
    sizes = [one.size for one in (topic, source, *subscriptions)]
    assert [one.decided_bytes for one in sizes] == [one.committed_bytes for one in sizes]
