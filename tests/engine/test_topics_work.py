"""Rules that take long are evaluated in parts: the work of one turn is bounded, and nothing else changes."""

from __future__ import annotations

from typing import cast

import pytest

from tandem.amqp.message import Properties, encode_message
from tandem.engine.topic import Topic
from tandem.limits import MAX_ACTED_BYTES, RULE_WORK_PER_TURN
from tests.engine.desk import body
from tests.engine.topic_desk import TopicDesk, correlation, rule, sql

TEXT_CHARACTERS = 60_000
# Each looks through the whole text, so this is more than twice the work of a turn.
FILTERS = 1_000


def message(name: str, text: str = "") -> bytes:
    return encode_message(
        properties=Properties(message_id=name), application_properties={"text": text}, data=name.encode()
    )


def costly(name: str) -> bytes:
    return message(name, "a" * (TEXT_CHARACTERS - 1) + "b")


def make_topic(desk: TopicDesk, *, requires_duplicate_detection: bool = False) -> Topic:
    topic = desk.topic(requires_duplicate_detection=requires_duplicate_detection)
    desk.subscription(topic, "nobody", *[rule(f"r{one}", sql(f"text LIKE '%b{one}%'")) for one in range(FILTERS)])
    desk.subscription(topic, "some", rule("b", sql("text LIKE '%a%b%' OR text = ''")))
    desk.subscription(topic, "all")
    return topic


def turn(desk: TopicDesk) -> None:
    """One turn of the event loop after another: time stands still."""
    desk.namespace.begin(desk.now_ms)
    desk.namespace.tick()
    desk.flush()


def waiting(topic: Topic) -> int:
    return topic.main.scheduled_count


def peek(desk: TopicDesk, topic: Topic, name: str) -> list[str]:
    return desk.peek(topic.subscriptions[name].main)


def test_a_message_whose_rules_take_long_is_copied_over_several_turns() -> None:
    desk = TopicDesk()
    topic = make_topic(desk)
    desk.namespace.begin(desk.now_ms)
    desk.send(topic, costly("first"))
    assert waiting(topic) == 1, "it is on disk, and not copied yet"
    assert peek(desk, topic, "all") == []
    turns = 0
    while waiting(topic):
        before = topic._selecting.next_rule if topic._selecting is not None else 0
        turn(desk)
        turns += 1
        after = topic._selecting.next_rule if topic._selecting is not None else FILTERS + 1
        assert (after - before) * TEXT_CHARACTERS <= RULE_WORK_PER_TURN + TEXT_CHARACTERS
    assert turns > 1
    assert peek(desk, topic, "all") == peek(desk, topic, "some") == ["first"]
    assert peek(desk, topic, "nobody") == []


def test_what_is_sent_later_stays_behind_it() -> None:
    desk = TopicDesk()
    topic = make_topic(desk)
    desk.namespace.begin(desk.now_ms)
    desk.send(topic, costly("first"))
    turn(desk)
    desk.send(topic, message("second"))
    assert waiting(topic) == 2
    desk.send_batch(topic, message("third"), costly("fourth"), message("fifth"))
    while waiting(topic):
        turn(desk)
    assert peek(desk, topic, "all") == ["first", "second", "third", "fourth", "fifth"]
    desk.namespace.begin(desk.now_ms)
    desk.send(topic, message("sixth"))
    assert waiting(topic) == 0, "with nobody before it, a message is copied at once"
    assert peek(desk, topic, "all")[-1] == "sixth"


def test_messages_that_cost_little_share_the_work_of_a_turn() -> None:
    desk = TopicDesk()
    topic = make_topic(desk)
    desk.namespace.begin(desk.now_ms)
    desk.send_batch(topic, *[message(f"m{number}") for number in range(60)])
    assert 0 < waiting(topic) < 60
    while waiting(topic):
        turn(desk)
    assert peek(desk, topic, "all") == [f"m{number}" for number in range(60)]


def test_a_crash_on_the_way_loses_nothing_and_copies_nothing_twice() -> None:
    desk = TopicDesk()
    topic = make_topic(desk)
    desk.namespace.begin(desk.now_ms)
    desk.send(topic, costly("first"))
    turn(desk)
    desk.restart()
    restored = desk.namespace.get("news")
    assert isinstance(restored, Topic)
    for _ in range(20):
        turn(desk)
    assert waiting(restored) == 0
    assert peek(desk, restored, "all") == ["first"]


def test_rules_that_change_on_the_way_are_evaluated_as_they_are_at_the_end() -> None:
    desk = TopicDesk()
    topic = make_topic(desk)
    desk.namespace.begin(desk.now_ms)
    desk.send(topic, costly("first"))
    turn(desk)
    desk.subscription(topic, "late")
    while waiting(topic):
        turn(desk)
    assert peek(desk, topic, "late") == ["first"]


def test_duplicates_of_a_message_that_waits_are_recognised() -> None:
    desk = TopicDesk()
    topic = make_topic(desk, requires_duplicate_detection=True)
    desk.namespace.begin(desk.now_ms)
    desk.send(topic, costly("first"))
    desk.send(topic, costly("first"))
    while waiting(topic):
        turn(desk)
    receiver = desk.receiver(topic.subscriptions["all"].main)
    assert [body(lock) for lock in desk.take()] == ["first"]
    assert receiver.is_open


# --- copies and actions -----------------------------------------------------------------------------------------------


def finish(desk: TopicDesk, topic: Topic) -> int:
    """Let all that waits be copied. Returns the most messages that one turn has put into subscriptions."""
    most = 0
    while waiting(topic):
        before = sum([one.main.counts.total for one in topic.subscriptions.values()])
        turn(desk)
        most = max(most, sum([one.main.counts.total for one in topic.subscriptions.values()]) - before)
    return most


def test_a_turn_makes_a_bounded_number_of_copies_however_many_messages_come_at_once() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    for number in range(100):
        desk.subscription(topic, f"s{number}")
    desk.namespace.begin(desk.now_ms)
    desk.send_batch(topic, *[message(f"m{number}") for number in range(60)])
    at_once = sum([one.main.counts.total for one in topic.subscriptions.values()])
    most_copies = RULE_WORK_PER_TURN // 10_000 + 100
    assert 0 < at_once <= most_copies
    assert waiting(topic) == 60 - at_once // 100, "the others are on disk, and wait"
    assert finish(desk, topic) <= most_copies
    assert peek(desk, topic, "s99") == peek(desk, topic, "s0") == [f"m{number}" for number in range(60)]


def test_actions_that_take_long_are_evaluated_over_several_turns() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    twice = "; ".join([f"SET p{number} = text + text" for number in range(30)])
    desk.subscription(topic, "all", *[rule(f"r{number}", action=twice) for number in range(300)])
    desk.namespace.begin(desk.now_ms)
    desk.send(topic, message("costly", "a" * 1_000))
    assert waiting(topic) == 1, "300 actions write 60,000 characters each"
    finish(desk, topic)
    assert topic.subscriptions["all"].main.counts.total == 300
    assert desk.peek(topic.subscriptions["all"].main, 3) == ["costly"] * 3


def test_copies_that_actions_make_share_the_body_in_memory() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    desk.subscription(topic, "all", *[rule(f"r{number}", action=f"SET n = {number}") for number in range(3)])
    topic.take(topic.read(encode_message(application_properties={"a": 1}, data=bytes(100_000)), 0))
    stored = [one.stored for one in desk.namespace.effects.appended]
    fronts = [one.front for one in stored if one is not None]
    assert len(fronts) == len(set(fronts)) == 3
    assert max(len(front) for front in fronts) < 200
    assert len({id(one.tail) for one in stored if one is not None}) == 1
    desk.flush()
    assert [len(text) for text in peek(desk, topic, "all")] == [100_000] * 3


def test_actions_that_would_hold_too_much_together_fail_as_rules_do() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    desk.subscription(topic, "all", *[rule(f"r{number}", action=f"SET n = {number}") for number in range(200)])
    desk.namespace.begin(desk.now_ms)
    desk.send(topic, message("large", "a" * 200_000))
    finish(desk, topic)
    subscription = topic.subscriptions["all"]
    assert subscription.main.counts.total == MAX_ACTED_BYTES // 200_060
    (dead,) = cast("list[bytes]", desk.ask(lambda asker: subscription.dead_letter_queue.peek(1, 10, None, asker)))
    assert f"more than {MAX_ACTED_BYTES} bytes".encode() in dead


@pytest.mark.parametrize(
    "condition, times",
    [
        ("text + '{}' = 'x'", 40),
        ("text = copy", 40),
        ("text > copy", 40),
        ("text IN (copy, copy)", 40),
        ("property(text) = 1", 1),
    ],
)
def test_filters_that_work_on_long_texts_count_what_they_do(condition: str, times: int) -> None:
    desk = TopicDesk()
    topic = desk.topic()
    expressions = [" OR ".join([condition.format(number)] * 40) for number in range(10)]
    desk.subscription(topic, "nobody", *[rule(f"r{number}", sql(one)) for number, one in enumerate(expressions)])
    desk.namespace.begin(desk.now_ms)
    properties: dict[str, object] = {"text": "a" * 60_000, "copy": "a" * 59_999 + "b"}
    topic.take(topic.read(encode_message(application_properties=properties, data=b"x"), 0))
    # A character costs a sixteenth of a unit at least, wherever it is looked at.
    assert RULE_WORK_PER_TURN - desk.namespace.rule_work_left > 10 * times * 60_000 // 16
    desk.flush()


def test_correlation_filters_cost_as_many_looks_as_they_name_different_properties() -> None:
    desk = TopicDesk()
    topic = desk.topic()
    rules = [rule(f"r{number}", correlation(properties={f"p{number}": 1})) for number in range(1_000)]
    desk.subscription(topic, "nobody", *rules)
    desk.namespace.begin(desk.now_ms)
    topic.take(topic.read(message("one"), 0))
    assert desk.namespace.rule_work_left <= RULE_WORK_PER_TURN - 300 * 1_000
    desk.flush()
