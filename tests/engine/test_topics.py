"""A topic: which subscriptions get a message, as what, and when."""

from __future__ import annotations

import pytest

from tandem.amqp.message import Message, Properties, encode_message
from tandem.engine.effects import NoticeKind
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import (
    ArgumentError,
    DecodeError,
    EntityAlreadyExists,
    EntityDisabled,
    NotFound,
    QuotaExceeded,
    TransactionRollback,
)
from tests.engine.desk import body, payload, properties_of
from tests.engine.topic_desk import TopicDesk, colored, correlation, rule, sql
from tests.markers import mission

FIVE_SECONDS = {"@life": {"timespan": 50_000_000}}


# --- fan-out --------------------------------------------------------------------------------------------------------


@mission("M7")
def test_every_subscription_gets_a_copy_of_its_own() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscriptions = [desk.subscription(topic, name) for name in ("one", "two", "three")]
    desk.send(topic, payload("a"), payload("b"))
    for subscription in subscriptions:
        assert desk.complete_all(subscription) == ["a", "b"]
    assert [one.main.active_count for one in subscriptions] == [0, 0, 0]


def test_a_topic_keeps_nothing_of_what_it_passed_on() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    desk.subscription(topic, "one", rule("none", {"kind": "false"}))
    desk.send(topic, payload("a"))
    assert (topic.main.active_count, topic.main.scheduled_count, topic.size_bytes) == (0, 0, 0)


def test_a_subscription_gets_what_is_sent_from_now_on() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    desk.send(topic, payload("before"))
    subscription = desk.subscription(topic, "late")
    desk.send(topic, payload("after"))
    assert desk.peek(subscription.main) == ["after"]


@mission("M7")
def test_copies_are_all_there_after_a_crash_or_none_is() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    for name in ("one", "two"):
        desk.subscription(topic, name)
    desk.send(topic, payload("kept"))
    topic.send(payload("lost"), 0)
    desk.write()
    desk.restart()
    for name in ("one", "two"):
        assert desk.peek(desk.namespace.subscription("news", name).main) == ["kept"]


def test_a_copy_is_not_to_be_had_before_it_is_on_disk() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one")
    desk.receiver(subscription.main)
    topic.send(payload("a"), 0)
    batch, duplicates = desk.write()
    assert all(not effects.deliveries for effects in batch)
    desk.commit(batch, duplicates)
    desk.flush()
    assert desk.take_bodies() == ["a"]


def test_a_copy_tells_its_number_in_the_subscription_and_the_one_it_had_in_its_topic() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    desk.subscription(topic, "first")
    subscription = desk.subscription(topic, "second", rule("b", correlation(label="b")))
    desk.send(topic, colored("a", label="a"), colored("b", label="b"))
    desk.receiver(subscription.main)
    (lock,) = desk.take()
    annotations = Message(lock.payload).message_annotations or {}
    assert (annotations["x-opt-sequence-number"], annotations["x-opt-enqueue-sequence-number"]) == (1, 2)


@mission("M7")
def test_subscriptions_do_with_their_copies_what_queues_do() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    failing = desk.subscription(topic, "failing", max_delivery_count=1)
    other = desk.subscription(topic, "other")
    desk.send(topic, payload("a"))
    desk.receiver(failing.main)
    failing.main.abandon(desk.take()[0])
    desk.flush()
    assert desk.peek(failing.dead_letter_queue) == ["a"]
    assert desk.peek(other.main) == ["a"]
    desk.receiver(failing.dead_letter_queue)
    (dead,) = desk.take()
    assert properties_of(dead)["DeadLetterReason"] == "MaxDeliveryCountExceeded"
    desk.receiver(other.main)
    (alive,) = desk.take()
    assert properties_of(alive) == {}


# --- rules ----------------------------------------------------------------------------------------------------------


@mission("M7")
@pytest.mark.parametrize(
    "condition, expected",
    [
        ({"kind": "true"}, ["red", "blue", "none"]),
        ({"kind": "false"}, []),
        (correlation(properties={"color": "red"}), ["red"]),
        (correlation(label="x"), ["blue"]),
        (correlation(label="x", properties={"color": "red"}), []),
        (sql("color = 'red' OR size > 1"), ["red", "blue"]),
        (sql("color IS NULL"), ["none"]),
        (sql("1 = 1"), ["red", "blue", "none"]),
        (sql("1=0"), []),
    ],
)
def test_a_filter_selects(condition: dict[str, object], expected: list[str]) -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one", rule("only", condition))
    desk.send(topic, colored("red", "red"), colored("blue", "blue", size=2, label="x"), colored("none"))
    assert desk.peek(subscription.main) == expected


@mission("M7")
def test_rules_without_an_action_make_one_copy_however_many_match() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    rules = (rule("all"), rule("red", correlation(properties={"color": "red"})), rule("sql", sql("color = 'red'")))
    subscription = desk.subscription(topic, "one", *rules)
    desk.send(topic, colored("a", "red"))
    assert desk.peek(subscription.main) == ["a"]


@mission("M7", "M8")
def test_each_rule_with_an_action_makes_a_copy_of_its_own_that_carries_its_name() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    rules = (
        rule("all"),
        rule("paint", sql("color = 'red'"), "SET color = 'green'"),
        rule("strip", None, "REMOVE color"),
        rule("never", {"kind": "false"}, "SET color = 'black'"),
    )
    subscription = desk.subscription(topic, "one", *rules)
    plain = desk.subscription(topic, "two")
    desk.send(topic, colored("a", "red"))
    desk.receiver(subscription.main)
    copies = {properties_of(lock).get("RuleName"): properties_of(lock).get("color") for lock in desk.take()}
    assert copies == {None: "red", "paint": "green", "strip": None}
    desk.receiver(plain.main)
    (lock,) = desk.take()
    assert properties_of(lock) == {"color": "red"}


@mission("M8")
def test_what_an_action_changed_is_on_disk() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one", rule("paint", None, "SET color = 'green'; SET sys.Label = 'new'"))
    desk.subscription(topic, "two")
    desk.send(topic, colored("a", "red", label="old"))
    desk.restart()
    subscription = desk.namespace.subscription("news", "one")
    desk.receiver(subscription.main)
    (lock,) = desk.take()
    properties = Message(lock.payload).properties
    assert properties is not None
    assert (properties.subject, properties_of(lock)["color"], body(lock)) == ("new", "green", "a")


@mission("M8")
def test_a_rule_that_cannot_be_evaluated_makes_a_dead_letter_where_that_is_wanted() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    failing = rule("sum", sql("size + 1 > 2"))
    keeping = desk.subscription(topic, "keeping", failing)
    dropping = desk.subscription(
        topic, "dropping", rule("sum", sql("size + 1 > 2")), dead_lettering_on_filter_evaluation_exceptions=False
    )
    other = desk.subscription(topic, "other")
    desk.send(topic, colored("text", size="2"), colored("number", size=2))
    assert desk.peek(keeping.main) == desk.peek(dropping.main) == ["number"]
    assert desk.peek(other.main) == ["text", "number"]
    assert dropping.dead_letter_queue.active_count == 0
    desk.receiver(keeping.dead_letter_queue)
    (dead,) = desk.take()
    assert body(dead) == "text"
    assert properties_of(dead)["DeadLetterReason"] == "FilterEvaluationException"
    assert "size" in str(properties_of(dead)["DeadLetterErrorDescription"]) or "'2' + 1" in str(properties_of(dead))


@mission("M8")
def test_other_rules_of_a_subscription_select_though_one_fails() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    rules = (
        rule("sum", sql("size + 1 > 2")),
        rule("red", correlation(properties={"color": "red"})),
        rule("grow", None, "SET size = size + 1"),
    )
    subscription = desk.subscription(topic, "one", *rules)
    desk.send(topic, colored("a", "red", size="2"))
    assert desk.peek(subscription.main) == ["a"]
    assert desk.peek(subscription.dead_letter_queue) == ["a"]


@mission("M8")
def test_properties_that_are_no_amqp_keep_a_message_from_nobody_who_does_not_ask_for_them() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    everything = desk.subscription(topic, "all")
    red = desk.subscription(topic, "red", rule("red", correlation(properties={"color": "red"})), rule("all"))
    sessions = desk.subscription(topic, "sessions", requires_session=True)
    source = desk.queue("source", forward_to="news")
    # A value of type 0xff, in the application properties and in the properties.
    unreadable = b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\xff" + encode_message(data=b"user")
    desk.send(topic, unreadable)
    with pytest.raises(DecodeError):
        topic.send(b"\x00\x53\x73\xc0\x03\x01\xff\x00" + encode_message(data=b"system"), 0)
    desk.send(source, b"\x00\x53\x73\xc0\x03\x01\xff\x00" + encode_message(data=b"system"))
    desk.advance(0)
    assert desk.peek(everything.main) == ["user", "system"]
    assert desk.peek(red.main) == ["user", "system"]
    assert desk.peek(red.dead_letter_queue) == ["user"]
    assert (sessions.main.active_count, desk.peek(sessions.dead_letter_queue)) == (0, ["user", "system"])


@mission("M7")
def test_rules_count_from_the_next_message_on() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one")
    desk.send(topic, colored("1", "red"))
    subscription.remove_rule("$default")
    desk.send(topic, colored("2", "red"))
    subscription.add_rule(rule("red", sql("color = 'red'")))
    desk.send(topic, colored("3", "red"), colored("4", "blue"))
    subscription.replace_rule(rule("RED", sql("color = 'blue'")))
    desk.send(topic, colored("5", "red"), colored("6", "blue"))
    assert desk.peek(subscription.main) == ["1", "3", "6"]


def test_rules_are_the_same_after_a_restart_whatever_was_done_to_them() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one", rule("Kept"), rule("gone"), rule("Changed", sql("color = 'red'")))
    subscription.remove_rule("GONE")
    # Names are the same in any case: this is no second rule.
    subscription.replace_rule(rule("changed", sql("color = 'blue'")))
    desk.flush()
    for _ in range(2):
        assert sorted(one.name for one in subscription.rules.values()) == ["Changed", "Kept"]
        assert subscription.rule("CHANGED").to_fields()["filter"] == {**sql("color = 'blue'"), "parameters": {}}
        desk.restart()
        subscription = desk.namespace.subscription("news", "one")
    subscription.remove_rule("kept")
    desk.flush()
    desk.send(subscription.parent, colored("1", "red"), colored("2", "blue"))
    assert desk.peek(subscription.main) == ["2"]


def test_a_rule_that_is_there_is_not_added_and_one_that_is_not_is_neither_removed_nor_replaced() -> None:
    desk = TopicDesk()
    subscription = desk.subscription(desk.topic(), "one", rule("Red"))
    with pytest.raises(EntityAlreadyExists, match="'RED'"):
        subscription.add_rule(rule("RED"))
    for call in (subscription.remove_rule, subscription.rule, lambda name: subscription.replace_rule(rule(name))):
        with pytest.raises(NotFound, match="rules/blue"):
            call("blue")


def test_a_subscription_whose_rules_cannot_be_is_not_made() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    with pytest.raises(EntityAlreadyExists, match="'same'"):
        desk.subscription(topic, "one", rule("Same"), rule("same"))
    desk.flush()
    assert topic.subscriptions == {}
    desk.subscription(topic, "one")
    desk.send(topic, payload("a"))
    desk.restart()
    assert desk.peek(desk.namespace.subscription("news", "one").main) == ["a"]


# --- sessions and time ----------------------------------------------------------------------------------------------


@mission("M7")
def test_a_subscription_with_sessions_sorts_its_copies_and_buries_those_without_a_session() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    sessions = desk.subscription(topic, "sessions", requires_session=True)
    plain = desk.subscription(topic, "plain")
    desk.send(topic, colored("a", session_id="s"), colored("b"))
    desk.accept(sessions, "s")
    assert desk.take_bodies() == ["a"]
    assert desk.peek(plain.main) == ["a", "b"]
    desk.receiver(sessions.dead_letter_queue)
    (dead,) = desk.take()
    assert (body(dead), properties_of(dead)["DeadLetterReason"]) == ("b", "Session ID is null")


@mission("M8")
def test_an_action_can_give_a_copy_its_session() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    sessions = desk.subscription(
        topic, "sessions", rule("sort", None, "SET sys.SessionId = color"), requires_session=True
    )
    desk.send(topic, colored("a", "red"), colored("b"))
    desk.accept(sessions, "red")
    assert desk.take_bodies() == ["a"]
    assert desk.peek(sessions.dead_letter_queue) == ["b"]


@mission("M7")
def test_a_scheduled_message_waits_in_its_topic_and_goes_to_who_wants_it_when_it_is_due() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    early = desk.subscription(topic, "early", rule("red", sql("color = 'red'")))
    desk.send(topic, colored("a", "red", due_ms=desk.now_ms + 1_000))
    assert (topic.main.scheduled_count, early.main.active_count) == (1, 0)
    desk.restart()
    topic = desk.namespace.topic("news")
    early = desk.namespace.subscription("news", "early")
    late = desk.subscription(topic, "late")
    early.remove_rule("red")
    desk.advance(999)
    assert late.main.active_count == 0
    desk.advance(1)
    assert desk.peek(late.main) == ["a"]
    assert (topic.main.scheduled_count, early.main.active_count) == (0, 0)


def test_a_scheduled_message_that_is_cancelled_reaches_nobody() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one")
    desk.send(topic, colored("a", due_ms=desk.now_ms + 1_000))
    assert desk.ask(lambda asker: topic.main.cancel_scheduled([1], asker)) is None
    desk.advance(2_000)
    assert (desk.peek(subscription.main), topic.size_bytes) == ([], 0)


@pytest.mark.parametrize(
    "message_ms, topic_ms, subscription_ms, expected_ms",
    [
        (None, None, None, None),
        (3_000, None, None, 3_000),
        (None, 2_000, None, 2_000),
        (None, None, 1_000, 1_000),
        (3_000, 2_000, 4_000, 2_000),
        (1_000, 2_000, 3_000, 1_000),
        (3_000, 2_000, 1_000, 1_000),
    ],
)
def test_a_copy_lives_as_long_as_the_shortest_of_message_topic_and_subscription_says(
    message_ms: int | None, topic_ms: int | None, subscription_ms: int | None, expected_ms: int | None
) -> None:
    desk = TopicDesk()
    topic = desk.topic(default_message_time_to_live_ms=topic_ms)
    subscription = desk.subscription(topic, "one", default_message_time_to_live_ms=subscription_ms)
    desk.send(topic, colored("a", ttl_ms=message_ms))
    if expected_ms is None:
        desk.advance(1_000_000)
        assert subscription.main.active_count == 1
        return
    desk.advance(expected_ms - 1)
    assert subscription.main.active_count == 1
    desk.advance(1)
    assert subscription.main.active_count == 0


@mission("M8")
def test_an_action_can_set_the_time_to_live_of_its_copy_alone() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(
        topic, "one", rule("short", None, "SET sys.TimeToLive = @life", parameters=FIVE_SECONDS), rule("all")
    )
    desk.send(topic, colored("a", ttl_ms=60_000))
    assert subscription.main.active_count == 2
    desk.advance(5_000)
    assert subscription.main.active_count == 1
    desk.advance(55_000)
    assert subscription.main.active_count == 0


# --- duplicates -----------------------------------------------------------------------------------------------------


@mission("M7")
def test_a_duplicate_reaches_no_subscription() -> None:
    desk = TopicDesk()
    topic = desk.topic(requires_duplicate_detection=True)
    subscriptions = [desk.subscription(topic, name) for name in ("one", "two")]
    desk.send(topic, payload("a", message_id="1"))
    desk.send_batch(topic, payload("again", message_id="1"), payload("b", message_id="2"))
    for subscription in subscriptions:
        assert desk.peek(subscription.main) == ["a", "b"]
        assert subscription.main.active_count == 2
    desk.advance(600_000)
    desk.send(topic, payload("later", message_id="1"))
    assert desk.peek(subscriptions[0].main) == ["a", "b", "later"]


@mission("M7")
def test_a_message_that_nobody_wanted_is_remembered_too() -> None:
    desk = TopicDesk()
    topic = desk.topic(requires_duplicate_detection=True)
    desk.send(topic, payload("nobody", message_id="1"))
    subscription = desk.subscription(topic, "one")
    desk.restart()
    topic, subscription = desk.namespace.topic("news"), desk.namespace.subscription("news", "one")
    desk.send(topic, payload("again", message_id="1"), payload("b", message_id="2"))
    assert desk.peek(subscription.main) == ["b"]


def test_a_scheduled_message_is_judged_when_it_is_sent_and_not_again_when_it_is_due() -> None:
    desk = TopicDesk()
    topic = desk.topic(requires_duplicate_detection=True)
    subscription = desk.subscription(topic, "one")
    desk.send(topic, colored("a", message_id="1", due_ms=desk.now_ms + 1_000))
    desk.send(topic, colored("again", message_id="1"), colored("once more", message_id="1", due_ms=desk.now_ms + 500))
    desk.advance(1_000)
    assert desk.peek(subscription.main) == ["a"]


def test_a_message_sent_by_way_of_a_queue_is_judged_by_the_queue_and_by_the_topic() -> None:
    desk = TopicDesk()
    topic = desk.topic(requires_duplicate_detection=True)
    subscription = desk.subscription(topic, "one")
    via = desk.queue("via", requires_duplicate_detection=True)
    desk.send(topic, payload("direct", message_id="1"))
    for text, message_id in (("known to the topic", "1"), ("new", "2"), ("known to both", "2")):
        drafts = via.read(payload(text, message_id=message_id), 0)
        drafts[0].destination = "news"
        via.take(drafts)
        desk.flush()
    assert desk.peek(subscription.main) == ["direct", "new"]


# --- limits and states ----------------------------------------------------------------------------------------------


def test_a_ping_to_a_topic_is_counted_and_not_delivered() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one")
    desk.send(topic, encode_message(properties=Properties(content_type="application/vnd.ms-servicebus-ping"), data=b""))
    assert (topic.ping_count, subscription.main.active_count) == (1, 0)


def test_a_disabled_topic_takes_nothing_and_a_disabled_subscription_still_gets_its_copies() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one")
    consumer = desk.receiver(subscription.main)
    desk.update(subscription, status="ReceiveDisabled")
    (notice,) = desk.take_notices()
    assert (notice.kind, notice.consumer) == (NoticeKind.CLOSED, consumer)
    desk.send(topic, payload("a"))
    assert subscription.main.active_count == 1
    desk.update(topic, status="SendDisabled")
    with pytest.raises(EntityDisabled, match="'news'"):
        topic.send(payload("b"), 0)


def test_names_are_the_same_in_any_case_and_are_taken_once() -> None:
    desk = TopicDesk()
    topic = desk.topic("News")
    desk.subscription(topic, "One")
    assert desk.namespace.subscription("NEWS", "ONE").name == desk.namespace.get("news/Subscriptions/one").name
    with pytest.raises(EntityAlreadyExists):
        desk.subscription(topic, "oNE")
    with pytest.raises(EntityAlreadyExists):
        desk.queue("nEWS")
    with pytest.raises(EntityAlreadyExists):
        desk.topic("neWS")
    desk.queue("orders")
    with pytest.raises(NotFound, match="'orders'"):
        desk.namespace.topic("orders")
    with pytest.raises(NotFound, match="two"):
        desk.namespace.subscription("news", "two")


def test_what_cannot_be_changed_is_not() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscription = desk.subscription(topic, "one")
    with pytest.raises(ArgumentError, match="requires_session"):
        desk.update(subscription, requires_session=True)
    with pytest.raises(ArgumentError, match="requires_duplicate_detection"):
        desk.update(topic, requires_duplicate_detection=True)
    with pytest.raises(ArgumentError, match="forward_to"):
        TopicDescription.from_fields({"name": "news", "forward_to": "orders"})


@pytest.mark.parametrize(
    "field", ["self", "settings", "subscription_name", "authorization_rules", "forward_to_scheme_"]
)
def test_a_field_that_is_a_word_of_the_program_is_refused_like_any_other(field: str) -> None:
    with pytest.raises(ArgumentError, match=f"{field} is not a property of a subscription"):
        SubscriptionDescription.from_fields({"topic_name": "news", "name": "one", field: []})


# --- deleting -------------------------------------------------------------------------------------------------------


@mission("M7")
def test_a_topic_takes_its_subscriptions_with_it_and_a_new_one_starts_empty() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscriptions = [desk.subscription(topic, name) for name in ("one", "two")]
    desk.send(topic, payload("a"), payload("b", due_ms=desk.now_ms + 1_000))
    consumer = desk.receiver(subscriptions[0].main, credit=0)
    desk.namespace.delete(topic)
    desk.flush()
    (notice,) = desk.take_notices()
    assert (notice.kind, notice.consumer) == (NoticeKind.CLOSED, consumer)
    with pytest.raises(NotFound):
        desk.namespace.subscription("news", "one")
    assert desk.bodies_in_store() == {}
    desk.restart()
    assert desk.namespace.topics == []
    topic = desk.topic()
    assert (topic.size_bytes, topic.subscriptions) == (0, {})
    subscription = desk.subscription(topic, "one")
    desk.advance(2_000)
    desk.send(topic, payload("c"))
    assert desk.peek(subscription.main) == ["c"]


def test_a_deleted_subscription_gets_nothing_more_and_its_rules_are_gone() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    gone, other = desk.subscription(topic, "gone", rule("all"), rule("red", sql("color = 'red'"))), None
    other = desk.subscription(topic, "other")
    desk.send(topic, payload("a"))
    desk.namespace.delete(gone)
    desk.send(topic, payload("b"))
    assert desk.peek(other.main) == ["a", "b"]
    again = desk.subscription(topic, "gone", rule("none", {"kind": "false"}))
    desk.send(topic, payload("c"))
    desk.restart()
    again = desk.namespace.subscription("news", "gone")
    assert (list(again.rules), again.main.active_count) == (["none"], 0)


def test_an_idle_subscription_goes_though_messages_come_and_an_idle_topic_takes_all_with_it() -> None:
    desk = TopicDesk()
    topic = desk.topic(auto_delete_on_idle_ms=600_000)
    desk.subscription(topic, "idle", auto_delete_on_idle_ms=300_000)
    used = desk.subscription(topic, "used")
    consumer = desk.receiver(used.main, credit=0)
    desk.advance(299_000)
    desk.send(topic, payload("a"))
    desk.advance(1_000)
    assert list(topic.subscriptions) == ["used"]
    desk.advance(2_000_000)
    assert desk.namespace.topics == [topic]
    used.main.close_consumer(consumer)
    desk.advance(2_000_000)
    assert (desk.namespace.topics, desk.bodies_in_store()) == ([], {})


def test_a_topic_is_idle_from_the_end_of_the_last_session_of_its_subscriptions() -> None:
    desk = TopicDesk()
    topic = desk.topic(auto_delete_on_idle_ms=300_000)
    used = desk.subscription(topic, "used", requires_session=True, lock_duration_ms=5_000)
    desk.accept(used, "a")
    assert used.main.sessions is not None
    for _ in range(100):
        desk.advance(4_000)
        used.main.sessions.renew("a")
    desk.advance(5_000)
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.SESSION_ACCEPTED, NoticeKind.CLOSED]
    desk.advance(299_999)
    assert desk.namespace.topics == [topic]
    desk.advance(1)
    assert desk.namespace.topics == []


def test_a_topic_is_idle_from_the_moment_in_which_nobody_waits_for_a_session_any_more() -> None:
    desk = TopicDesk()
    topic = desk.topic(auto_delete_on_idle_ms=300_000)
    used = desk.subscription(topic, "used", requires_session=True)
    desk.accept(used, None, wait_ms=500_000)
    desk.advance(400_000)
    desk.advance(100_000)
    assert [notice.kind for notice in desk.take_notices()] == [NoticeKind.SESSION_REFUSED]
    desk.advance(299_999)
    assert desk.namespace.topics == [topic]
    desk.advance(1)
    assert desk.namespace.topics == []


# --- transactions ---------------------------------------------------------------------------------------------------


@mission("M7")
def test_a_transaction_publishes_with_its_discharge_or_not_at_all() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    subscriptions = [desk.subscription(topic, name) for name in ("one", "two")]
    desk.send(topic, payload("first"))
    desk.receiver(subscriptions[0].main)
    (lock,) = desk.take()
    transactions = desk.namespace.transactions
    for is_failed in (True, False):
        transaction = transactions.declare("owner")
        transaction.send(topic, topic.read(payload("second"), 0))
        if not is_failed:
            transaction.settle(lock, lambda: subscriptions[0].main.complete(lock))
        desk.flush()
        assert desk.peek(subscriptions[1].main) == ["first"]
        desk.discharge(transaction, is_failed=is_failed)
    assert [desk.peek(one.main) for one in subscriptions] == [["second"], ["first", "second"]]


def test_a_transaction_that_publishes_to_a_topic_which_is_gone_does_nothing() -> None:
    desk = TopicDesk()
    topic, orders = desk.topic(), desk.queue()
    transaction = desk.namespace.transactions.declare("owner")
    transaction.send(orders, orders.read(payload("a"), 0))
    transaction.send(topic, topic.read(payload("b"), 0))
    desk.namespace.delete(topic)
    with pytest.raises(TransactionRollback, match="was deleted"):
        desk.discharge(transaction)
    assert orders.main.active_count == 0


def test_a_full_topic_refuses_what_its_subscriptions_have_no_room_for() -> None:
    desk = TopicDesk()
    topic = desk.topic(max_size_in_megabytes=1)
    subscriptions = [desk.subscription(topic, name) for name in ("one", "two", "three")]
    desk.send(topic, *[payload("x" * 250_000)] * 4)
    with pytest.raises(QuotaExceeded, match="for Topic: 'news'"):
        topic.send(payload("y" * 100_000), 0)
    for subscription in subscriptions:
        desk.complete_all(subscription)
    desk.send(topic, payload("y" * 100_000))
    assert subscriptions[0].main.active_count == 1
