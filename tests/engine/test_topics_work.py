"""Rules that take long are evaluated in parts: the work of one turn is bounded, and nothing else changes."""

from __future__ import annotations

from tandem.amqp.message import Properties, encode_message
from tandem.engine.topic import Topic
from tandem.limits import RULE_WORK_PER_TURN
from tests.engine.desk import body
from tests.engine.topic_desk import TopicDesk, rule, sql

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
